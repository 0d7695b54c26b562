//! Answers of a model.

use serde_json::Value as Json;

use super::attributes::{Attributes, Form, call_part, message, role_of, said, text_part};
use super::ids::{self, Received, SpanId, TraceId};
use super::talk::Talk;
use super::{CLIENT, Draft};
use crate::collections::{MessageQuery, Order};
use crate::error::Result;
use crate::otlp::proto::Span;
use crate::record::{ConversationMessage, Record, Role, ToolCallReq};

/// Maximum number of earlier messages that are read to show what was said before an answer.
const EARLIER_MAX: usize = 50;

/// An answer with its further parts, and what was said since the answer before it. All are places
/// in the batch.
pub(super) struct Chat {
    pub(super) head: usize,
    pub(super) parts: Vec<usize>,
    pub(super) inputs: Vec<usize>,
}

impl Chat {
    fn answers<'a>(&self, talk: &Talk<'a>) -> Vec<&'a ConversationMessage> {
        let places = std::iter::once(&self.head).chain(&self.parts);
        places.filter_map(|at| message_at(talk, *at)).collect()
    }

    pub(super) fn model<'a>(&self, talk: &Talk<'a>) -> Option<&'a str> {
        let mut answers = self.answers(talk).into_iter();
        answers.find_map(|it| it.model_used.as_deref())
    }

    fn received(&self, talk: &Talk<'_>) -> Option<Received> {
        message_at(talk, self.head).and_then(ids::of_message)
    }

    /// Its trace and span.
    pub(super) fn ids(&self, talk: &Talk<'_>) -> (TraceId, SpanId) {
        if let Some(received) = self.received(talk) {
            return (received.trace, received.span);
        }
        let id = match talk.record(self.head) {
            Record::Message(message) => message.id,
            Record::Turn(turn) => turn.id,
            _ => talk.id,
        };
        (talk.trace, ids::chat(id))
    }

    /// The span. `is_first`: what was said before it may be in an earlier batch.
    pub(super) fn span(&self, talk: &Talk<'_>, is_first: bool) -> Result<Span> {
        let answers = self.answers(talk);
        let head = answers.first().copied();
        let model = self.model(talk);
        let turn = match talk.record(self.head) {
            Record::Turn(turn) => Some(turn),
            _ => None,
        };
        let (trace, id) = self.ids(talk);
        let received = self.received(talk);
        let root = (trace == talk.trace).then(|| ids::root(talk.id));
        let vendor = talk.vendor(turn.map(|it| it.id));
        let mut attributes = Attributes::default();
        attributes
            .text("gen_ai.operation.name", "chat")
            .text("gen_ai.provider.name", talk.provider(model, vendor))
            .some_text("gen_ai.request.model", model)
            .some_text("gen_ai.response.model", model)
            .text("gen_ai.conversation.id", talk.id.to_string());
        usage(&mut attributes, &answers);
        let earlier = match head {
            Some(head) if is_first => self.earlier(talk, head)?,
            _ => Vec::new(),
        };
        self.said_before(talk, &earlier, &mut attributes);
        let error = head.and_then(|it| it.error.clone());
        let failure = head.filter(|it| it.is_failure());
        if let Some(head) = failure {
            let kind = head.error_type.as_deref().unwrap_or("_OTHER");
            attributes.text("error.type", kind);
        }
        let answer = self.answer(talk, &answers, failure.is_some());
        attributes.list("gen_ai.output.messages", vec![answer], Form::Span);
        let times = answers.iter().map(|it| it.timestamp.at());
        let end = times.max().or(turn.map(|it| it.created_at.at));
        let end = end.unwrap_or_default();
        let latency = head.and_then(|it| it.latency_ms).unwrap_or(0);
        let began = head.map_or(end, |it| it.timestamp.at());
        let draft = Draft {
            trace,
            id,
            parent: received.and_then(|ids| ids.parent).or(root),
            name: model.map_or_else(|| "chat".to_owned(), |model| format!("chat {model}")),
            kind: CLIENT,
            time: (began.saturating_sub(latency), end),
            attributes: attributes.0,
            error: failure.map(|_| error.unwrap_or_default()),
        };
        draft.span(&self.records(talk))
    }

    /// All records that the span has, in the order of the log.
    fn records<'a>(&self, talk: &Talk<'a>) -> Vec<&'a Record> {
        let said = std::iter::once(&self.head).chain(&self.parts);
        let mut places: Vec<usize> = said.chain(&self.inputs).copied().collect();
        for at in places.clone() {
            places.extend(talk.attached.get(&at).into_iter().flatten());
        }
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|at| talk.record(at)).collect()
    }

    /// The messages since the answer before this one that are not in the batch.
    fn earlier(
        &self,
        talk: &Talk<'_>,
        head: &ConversationMessage,
    ) -> Result<Vec<ConversationMessage>> {
        let first = self.inputs.first().and_then(|at| message_at(talk, *at));
        let query = MessageQuery {
            until_sequence: first.unwrap_or(head).sequence,
            order: Order::NewestFirst,
            limit: EARLIER_MAX,
            ..MessageQuery::default()
        };
        let found = talk.batch.store.messages(talk.id, &query)?.items;
        let found = found.into_iter();
        let found = found.take_while(|it| !it.is_answer() && it.part_of.is_none());
        let mut found: Vec<ConversationMessage> = found
            .filter(|it| !talk.batch.messages.contains_key(&it.id))
            .collect();
        found.reverse();
        Ok(found)
    }

    fn said_before(
        &self,
        talk: &Talk<'_>,
        earlier: &[ConversationMessage],
        attributes: &mut Attributes,
    ) {
        let (mut system, mut input) = (Vec::new(), Vec::new());
        let mut add = |role: Role, parts: Vec<Json>| match role {
            Role::System => system.extend(parts),
            _ if parts.is_empty() => {}
            _ => input.push(message(role, parts, None)),
        };
        for it in earlier {
            add(it.role, said(it));
        }
        for at in &self.inputs {
            match talk.record(*at) {
                Record::Message(it) => add(it.role, said(it)),
                Record::Turn(turn) => {
                    if let Some(role) = role_of(turn) {
                        add(role, vec![text_part(&turn.content)]);
                    }
                }
                _ => {}
            }
        }
        attributes
            .list("gen_ai.system_instructions", system, Form::Span)
            .list("gen_ai.input.messages", input, Form::Span);
    }

    /// The answer as one message.
    fn answer(&self, talk: &Talk<'_>, answers: &[&ConversationMessage], is_failure: bool) -> Json {
        let mut parts: Vec<Json> = Vec::new();
        let mut named = Vec::new();
        for it in answers {
            parts.extend(match it.role {
                Role::Assistant => said(it),
                // An error in place of an answer.
                _ => vec![text_part(&it.content)],
            });
            named.extend(it.tool_call_id.as_deref());
        }
        if let Record::Turn(turn) = talk.record(self.head)
            && !turn.content.is_empty()
        {
            parts.push(text_part(&turn.content));
        }
        for req in self.calls(talk) {
            if !named.contains(&&*req.call_id) {
                let id = Some(&*req.call_id);
                let arguments = req.arguments_json.as_deref();
                parts.push(call_part(id, &req.tool_name, arguments));
            }
        }
        let has_call = parts.iter().any(|part| part["type"] == "tool_call");
        let reason = match (is_failure, has_call) {
            (true, _) => "error",
            (false, true) => "tool_call",
            (false, false) => "stop",
        };
        message(Role::Assistant, parts, Some(reason))
    }

    /// The calls that the answer asks for, in the order of the log.
    fn calls<'a>(&self, talk: &Talk<'a>) -> Vec<&'a ToolCallReq> {
        let said = std::iter::once(&self.head).chain(&self.parts);
        let mut ids = Vec::new();
        for at in said {
            let attached = talk.attached.get(at).into_iter().flatten();
            for at in std::iter::once(at).chain(attached) {
                match talk.record(*at) {
                    Record::Message(message) => ids.push(message.id),
                    Record::Turn(turn) => ids.push(turn.id),
                    _ => {}
                }
            }
        }
        let mut requests = talk.batch.last_requests();
        requests.retain(|req| ids.contains(&req.parent_id));
        requests
    }
}

fn message_at<'a>(talk: &Talk<'a>, at: usize) -> Option<&'a ConversationMessage> {
    match talk.record(at) {
        Record::Message(message) => Some(message),
        _ => None,
    }
}

/// The tokens and the cost of an answer. Those of its parts are added.
fn usage(attributes: &mut Attributes, answers: &[&ConversationMessage]) {
    let sum = |of: fn(&ConversationMessage) -> Option<i64>| {
        let counts = answers.iter().filter_map(|it| of(it));
        counts.reduce(i64::saturating_add)
    };
    let costs = answers.iter().filter_map(|it| it.cost_usd);
    attributes
        .count("gen_ai.usage.input_tokens", sum(|it| it.tokens_in))
        .count("gen_ai.usage.output_tokens", sum(|it| it.tokens_out))
        .count(
            "gen_ai.usage.cache_read.input_tokens",
            sum(|it| it.tokens_cache_read),
        )
        .count(
            "gen_ai.usage.cache_creation.input_tokens",
            sum(|it| it.tokens_cache_write),
        )
        .count(
            "gen_ai.usage.reasoning.output_tokens",
            sum(|it| it.tokens_reasoning),
        )
        .number("decklog.cost_usd", costs.reduce(|sum, cost| sum + cost));
}
