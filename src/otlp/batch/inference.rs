//! Requests to models: their messages, and what they cost.

use std::borrow::Cow;

use serde_json::Value;
use uuid::Uuid;

use super::Batch;
use super::calls;
use super::reports::trace_of;
use crate::error::{Error, Result};
use crate::import::{API_ERROR, Call, Outcome, Step, Thread, Tokens, named};
use crate::otlp::item::{Item, Usage};
use crate::otlp::message::{self, Message};
use crate::record::{ConversationMessage, ConversationTurn, NAME_BYTES_MAX, Role, TurnKind};

/// The ids of all messages of an item, in the order in which they follow each other.
pub(in crate::otlp) fn ids(item: &Item) -> Vec<Uuid> {
    chain(start_of_ids(item), item.input.iter().chain(&item.output)).collect()
}

/// Where the ids of messages start: at the conversation. An item that describes only a part of a
/// request has no history, so that its messages are not those of another item.
fn start_of_ids(item: &Item) -> Uuid {
    let thread = item.thread().filter(|_| !item.is_in_parts);
    thread.unwrap_or(item.key)
}

/// The id of a response whose content is not known, or comes in parts.
pub(super) fn response_id(item: &Item) -> Uuid {
    let response = item.response.as_ref();
    response.map_or(item.key, |id| named("otlp:response", id))
}

fn chain<'m>(
    start: Uuid,
    messages: impl Iterator<Item = &'m Message>,
) -> impl Iterator<Item = Uuid> {
    messages.scan(start, |before, message| {
        *before = message.id_after(*before);
        Some(*before)
    })
}

/// The answer in log records whose span has not come yet. It waits in the content of the span's
/// turn.
struct Waiting {
    /// The id after which the answer comes.
    after: Uuid,
    output: Vec<Message>,
}

/// Whether a turn has an answer that waits for its span.
pub(super) fn waits(turn: &ConversationTurn) -> bool {
    turn.kind == TurnKind::SysInfo && turn.content.starts_with(WAITING)
}

impl Waiting {
    fn read(turn: &ConversationTurn) -> Option<Waiting> {
        let content: Value = serde_json::from_str(&turn.content)
            .ok()
            .filter(|_| waits(turn))?;
        let output = content.get("otel_waiting")?.get("output")?.clone();
        Some(Waiting {
            after: turn.message_id,
            output: message::messages(output, Role::Assistant)?,
        })
    }

    fn into_content(self) -> String {
        let output: Vec<Value> = self.output.into_iter().map(Message::into_json).collect();
        format!("{WAITING}{{\"output\":{}}}}}", Value::Array(output))
    }
}

/// How the content of a turn starts whose answer waits for its span.
const WAITING: &str = "{\"otel_waiting\":";

/// What a message is part of while its records are made.
pub(super) struct Place<'i> {
    pub(super) at: usize,
    pub(super) item: &'i Item,
    conversation: Uuid,
}

impl Batch<'_> {
    /// Adds a request to a model.
    pub(super) fn inference(&mut self, at: usize, mut item: Item) -> Result<()> {
        let conversation = item.talk_id();
        let input = std::mem::take(&mut item.input);
        let mut output = std::mem::take(&mut item.output);
        let mut ids = std::mem::take(&mut item.ids);
        let own_start = start_of_ids(&item);
        let before = self.known_turn(item.key)?;
        // Log records of a span may come before it, and in several requests.
        let waiting = before.as_deref().and_then(Waiting::read);
        let is_answered = before.is_some() && waiting.is_none();
        let mut start = self.unless_said_before(own_start, &input, &ids, item.trace)?;
        if let Some(waiting) = &waiting
            && input.is_empty()
        {
            start = waiting.after;
        }
        if start != own_start {
            ids = chain(start, input.iter().chain(&output)).collect();
        }
        let mut output_ids = ids.split_off(input.len().min(ids.len()));
        let input_ids = ids;
        let mut after = input_ids.last().copied().unwrap_or(start);
        if let Some(waiting) = waiting
            && output.is_empty()
        {
            output = waiting.output;
            after = waiting.after;
            output_ids = chain(after, output.iter()).collect();
        }
        let is_answer = |turn: &Cow<'_, ConversationTurn>| turn.kind == TurnKind::Assistant;
        let reported = match &before {
            Some(turn) if is_answer(turn) => None,
            _ => self.reported_within(&item)?,
        };
        let answered_by = before.as_ref().map(|turn| turn.message_id);
        let answered_by = reported.or(answered_by);
        // A log record of the span came first, which does not name the span above.
        let is_adopted = |turn: &Cow<'_, ConversationTurn>| is_answered && turn.parent_id.is_none();
        let parent_id = item.parent_turn();
        let adopted = before.filter(is_adopted).map(Cow::into_owned);
        if let Some(message_id) = answered_by {
            // These are not among the ids of the item.
            self.look_up(&[&[message_id], &*output_ids].concat())?;
        }
        self.begin(at, conversation, &item)?;
        if let Some(turn) = adopted
            && parent_id.is_some()
        {
            self.put_turn(at, ConversationTurn { parent_id, ..turn });
        }
        let place = Place {
            at,
            item: &item,
            conversation,
        };
        // The messages before a known one are known too.
        let known = input_ids.iter().rposition(|id| self.has_message(*id));
        let first_new = known.map_or(0, |at| at + 1);
        for (message, id) in input.into_iter().zip(&input_ids).skip(first_new) {
            self.put_input(&place, *id, message)?;
        }
        let has_result = item.usage.is_any() || item.failure.is_some();
        if output.is_empty() && !has_result && (item.is_in_parts || item.is_event && is_answered) {
            return Ok(());
        }
        let is_complete = has_result || item.model.is_some() && !output.is_empty();
        if item.is_event && !item.is_in_parts && !is_complete && !is_answered {
            // The span has the rest.
            let content = Waiting { after, output }.into_content();
            self.turn(at, &item, TurnKind::SysInfo, content, after)?;
            let kept = item.kept();
            let place = Place {
                at,
                item: &item,
                conversation,
            };
            return self.keep_apart(&place, after, kept);
        }
        let known = answered_by.filter(|_| is_answered || reported.is_some());
        self.put_output(at, item, conversation, (output, &output_ids), known)
    }

    /// Where the ids of a request's messages start: at the conversation, unless its last message was
    /// said before in another trace, without a history that tells the two apart.
    fn unless_said_before(
        &self,
        start: Uuid,
        input: &[Message],
        ids: &[Uuid],
        trace: Option<Uuid>,
    ) -> Result<Uuid> {
        let has_history = input.iter().any(|it| it.role == Role::Assistant);
        let Some(trace) = trace.filter(|trace| !has_history && *trace != start) else {
            return Ok(start);
        };
        let Some(last) = input.len().checked_sub(1).and_then(|at| ids.get(at)) else {
            return Ok(start);
        };
        let said_in = match self.messages.get(last) {
            Some(trace) => *trace,
            None if self.logged.messages.contains(last) => {
                let message = self.store.get_message(*last)?;
                message.and_then(|message| trace_of(&message))
            }
            None => return Ok(start),
        };
        if said_in.is_some_and(|said_in| said_in != trace) {
            return Ok(Uuid::new_v5(&start, trace.as_bytes()));
        }
        Ok(start)
    }

    /// Adds a message that the request sends.
    fn put_input(&mut self, place: &Place<'_>, id: Uuid, message: Message) -> Result<()> {
        let item = place.item;
        let mut step = step(id, item.start, message);
        step.parent = item.parent_turn();
        let metadata = item.trace.map(|trace| {
            let trace = trace.simple();
            match item.span {
                Some(span) => {
                    let span = span.span;
                    format!(r#"{{"otel":{{"trace_id":"{trace}","span_id":"{span:016x}"}}}}"#)
                }
                None => format!(r#"{{"otel":{{"trace_id":"{trace}"}}}}"#),
            }
        });
        self.put_step(place, step, metadata)
    }

    /// Adds the answer.
    fn put_output(
        &mut self,
        at: usize,
        mut item: Item,
        conversation: Uuid,
        (output, ids): (Vec<Message>, &[Uuid]),
        known: Option<Uuid>,
    ) -> Result<()> {
        let others: Vec<_> = output.iter().flat_map(|it| it.others.clone()).collect();
        if !others.is_empty() {
            item.rest.insert("parts".to_owned(), others.into());
        }
        let by_response = response_id(&item);
        let mut known = [known, Some(by_response)].into_iter().flatten();
        let known = known.find(|id| self.has_message(*id));
        if let Some(known) = known
            && !item.is_event
            && !self.is_answer(item.key)?
        {
            self.turn_of_joined(at, &mut item, known)?;
        }
        let kept = item.kept();
        let place = Place {
            at,
            item: &item,
            conversation,
        };
        if let Some(known) = known {
            return self.put_more(&place, known, (output, ids), kept);
        }
        if let Some(said) = ids.first()
            && !item.is_in_parts
            && self.has_message(*said)
            && self.stands(*said)?.is_some_and(|it| !it.is_answer)
        {
            // A later request came first, which has the answer in its history.
            return self.put_first(&place, *said, output, kept);
        }
        let mut messages = output.into_iter().zip(ids);
        let (first, first_id) = match messages.next() {
            Some((message, _)) if item.is_in_parts => (message, by_response),
            Some((message, id)) if !self.has_message(*id) => (message, *id),
            // Another request got the same answer.
            Some((message, _)) => (message, item.key),
            None => (Message::new(Role::Assistant), by_response),
        };
        let mut step = step(item.key, item.end.unwrap_or(item.start), first);
        step.role = Role::Assistant;
        step.response = Some(first_id);
        step.parent = item.parent_turn();
        step.part_of = item.part_of;
        set_answer(&mut step, &item);
        self.put_step(&place, step, Some(kept))?;
        self.put_rest(&place, first_id, messages.map(|(it, id)| (it, *id)))?;
        self.name_session(&item);
        Ok(())
    }

    /// Adds the records of a message.
    pub(super) fn put_step(
        &mut self,
        place: &Place<'_>,
        step: Step,
        metadata: Option<String>,
    ) -> Result<()> {
        let item = place.item;
        let (at, result) = (step.at, step.result.is_some());
        let is_answer = step.response.is_some() || step.part_of.is_some();
        let mut thread = Thread::of(place.conversation, item.provider.clone());
        let facts = thread.facts("otlp", step).map_err(Error::invalid)?;
        if let Some(turn) = facts.turn {
            self.put_turn(place.at, turn);
        }
        self.put_calls(place, is_answer, facts.calls)?;
        if result {
            for mut done in facts.results {
                done.request_id = calls::request_id(&done.call_id, item.trace);
                if let Some((req, None)) = self.known_call(done.request_id, &done.call_id)? {
                    done.latency_ms = at.saturating_sub(req.started_at.at).max(0);
                    self.put_done(place.at, done);
                }
            }
        }
        if let Some(said) = facts.said {
            let mut message = *said.message;
            message.inference_metadata = metadata;
            if let Some(class) = item.failure.as_ref().and_then(|it| it.class.clone())
                && message.error.is_some()
            {
                message.error_type = Some(class);
            }
            shorten(&mut message);
            self.put_message(place.at, message, item.trace);
        }
        Ok(())
    }

    /// Whether a turn is an answer of a model.
    pub(super) fn is_answer(&self, id: Uuid) -> Result<bool> {
        let kind = match self.turn_here(id) {
            Some(turn) => Some(turn.kind),
            None => self.store.get_turn(id)?.map(|turn| turn.kind),
        };
        Ok(kind == Some(TurnKind::Assistant))
    }

    /// Removes the messages of an agent's run that its requests have reported. The others are kept
    /// with its turn.
    pub(super) fn keep_new_messages(&mut self, item: &mut Item) {
        if item.ids.iter().all(|id| self.has_message(*id)) {
            item.input.clear();
            item.output.clear();
        }
    }
}

/// The step of a message.
pub(super) fn step(id: Uuid, at: i64, message: Message) -> Step {
    let mut step = Step::new(id, at, message.role);
    step.texts = message.texts;
    step.reasoning = message.reasoning;
    for other in message.others {
        let kind = other.get("type").and_then(serde_json::Value::as_str);
        step.others.count(kind.unwrap_or("part").to_owned());
    }
    let calls = message.calls.into_iter();
    step.calls = calls
        .map(|call| Call {
            id: call.id,
            name: call.name,
            args: call.args,
        })
        .collect();
    step.result = message.result.map(|result| Outcome {
        call_id: result.call_id,
        text: result.text,
        ..Outcome::default()
    });
    step
}

/// Sets what an answer has besides its content.
pub(super) fn set_answer(step: &mut Step, item: &Item) {
    step.model.clone_from(&item.model);
    step.cost_usd = item.cost;
    let latency = item.end.map(|end| end - item.start);
    // A log record has no duration unless it says so.
    step.latency_ms = latency.filter(|ms| !item.is_event || *ms > 0);
    step.tokens = item.usage.is_any().then(|| tokens(item.usage));
    if let Some(failure) = &item.failure {
        let message = failure.message.clone().or_else(|| failure.class.clone());
        step.error = Some(message.unwrap_or_else(|| API_ERROR.to_owned()));
    }
}

fn tokens(usage: Usage) -> Tokens {
    let number = |count: Option<u64>| count.unwrap_or(0);
    let (read, write) = (number(usage.cache_read), number(usage.cache_write));
    let cached = read.saturating_add(write);
    let mut input = number(usage.input);
    // Some report the cached tokens apart from the others.
    if usage.is_cache_apart || cached > input {
        input = input.saturating_add(cached);
    }
    let reasoning = number(usage.reasoning);
    Tokens {
        input,
        cache_write: write,
        cache_write_1h: 0,
        cache_read: read,
        output: number(usage.output).max(reasoning),
        reasoning,
    }
}

/// Removes names that are too long.
fn shorten(message: &mut ConversationMessage) {
    for name in [
        &mut message.model_used,
        &mut message.tool_name,
        &mut message.tool_call_id,
        &mut message.error_type,
    ] {
        if name
            .as_ref()
            .is_some_and(|name| name.len() > NAME_BYTES_MAX)
        {
            *name = None;
        }
    }
}
