//! What several reports of one answer add to it: a span, a log record, or the history of a later
//! request.

use std::collections::HashSet;

use uuid::Uuid;

use super::Batch;
use super::calls::request;
use super::inference::{Place, set_answer, step};
use crate::collections::TurnQuery;
use crate::error::Result;
use crate::otlp::item::{Item, Usage};
use crate::otlp::message::Message;
use crate::record::{ConversationMessage, Role, TurnKind};

/// What an item keeps that has nothing without a place of its own.
const NOTHING_KEPT: &str = r#"{"otel":{}}"#;

/// What is known about an answer.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // Each is of a field of its own.
pub(super) struct Stands {
    has_content: bool,
    has_tokens: bool,
    has_cost: bool,
    has_error: bool,
    /// Whether a request reported it, and not only the history of a later one.
    pub(super) is_answer: bool,
    /// The traces that reported it, and whether by a log record.
    by: Vec<(Option<Uuid>, bool)>,
}

impl Stands {
    fn add(&mut self, message: &ConversationMessage) {
        self.has_content |= !message.content.is_empty() || message.tool_name.is_some();
        self.has_tokens |= message.tokens_in.is_some() || message.tokens_out.is_some();
        self.has_cost |= message.cost_usd.is_some();
        self.has_error |= message.error.is_some();
        self.is_answer |= self.has_tokens || self.has_error || message.model_used.is_some();
        self.by.push(trace_and_kind(message));
    }
}

impl Batch<'_> {
    /// Adds to an answer what a second report says that the first did not: a span and a log record
    /// may describe the same request.
    pub(super) fn put_more(
        &mut self,
        place: &Place<'_>,
        known: Uuid,
        (output, ids): (Vec<Message>, &[Uuid]),
        kept: String,
    ) -> Result<()> {
        let item = place.item;
        let Some(stands) = self.stands(known)? else {
            return self.keep_apart(place, known, kept);
        };
        let what = if item.is_event { "log" } else { "span" };
        let apart = Uuid::new_v5(&item.key, what.as_bytes());
        let is_content_new = !stands.has_content && !output.is_empty();
        let mut new = item.clone();
        if stands.has_tokens {
            new.usage = Usage::default();
        }
        if stands.has_cost {
            new.cost = None;
        }
        if stands.has_error {
            new.failure = None;
        }
        let is_result_new = new.usage.is_any() || new.cost.is_some() || new.failure.is_some();
        if !is_content_new && !is_result_new {
            if stands.by.contains(&(item.trace, item.is_event)) {
                return Ok(());
            }
            return self.keep_apart(place, known, kept);
        }
        // A later request has the answer in its history.
        let said = ids
            .first()
            .copied()
            .filter(|id| is_content_new && !self.has_message(*id));
        let id = said.unwrap_or(apart);
        let output = if is_content_new { output } else { Vec::new() };
        let mut messages = output.into_iter();
        let message = messages.next();
        let message = message.unwrap_or_else(|| Message::new(Role::Assistant));
        let mut step = step(id, item.end.unwrap_or(item.start), message);
        step.role = Role::Assistant;
        step.part_of = Some(known);
        step.parent = Some(item.key);
        if is_result_new {
            set_answer(&mut step, &new);
        }
        self.put_step(place, step, Some(kept))?;
        self.put_rest(place, known, messages.zip(ids.iter().skip(1).copied()))
    }

    /// Adds the messages of an answer after its first one.
    pub(super) fn put_rest(
        &mut self,
        place: &Place<'_>,
        first: Uuid,
        messages: impl Iterator<Item = (Message, Uuid)>,
    ) -> Result<()> {
        let item = place.item;
        for (message, id) in messages {
            let mut step = step(id, item.end.unwrap_or(item.start), message);
            step.role = Role::Assistant;
            step.part_of = Some(first);
            step.parent = Some(item.key);
            self.put_step(place, step, None)?;
        }
        Ok(())
    }

    /// Adds the result of a request to its answer, which is known from the history of a later one.
    pub(super) fn put_first(
        &mut self,
        place: &Place<'_>,
        said: Uuid,
        output: Vec<Message>,
        kept: String,
    ) -> Result<()> {
        let item = place.item;
        let end = item.end.unwrap_or(item.start);
        let mut step = step(item.key, end, Message::new(Role::Assistant));
        step.part_of = Some(said);
        step.parent = item.parent_turn();
        set_answer(&mut step, item);
        self.put_step(place, step, Some(kept))?;
        let calls = output.into_iter().next().map(|it| it.calls);
        let calls = calls.unwrap_or_default().into_iter().map(|call| {
            let key = (Uuid::nil(), call.id);
            let vendor = item.provider.as_deref();
            request(key, item.key, vendor, call.name, call.args, end)
        });
        self.put_calls(place, true, calls.collect())?;
        self.name_session(item);
        Ok(())
    }

    /// Adds the turn of a span whose answer another span reported. What the span keeps is there.
    pub(super) fn turn_of_joined(&mut self, at: usize, item: &mut Item, known: Uuid) -> Result<()> {
        let mut span = item.clone();
        span.keep_unused();
        let kept = span.kept();
        let is_id = |name: &str| matches!(name, "trace_id" | "span_id");
        item.rest.retain(|name, _| is_id(name));
        self.turn(at, &span, TurnKind::SysInfo, kept, known)
    }

    /// What an answer and its parts have, in this batch and in the log.
    pub(super) fn stands(&self, known: Uuid) -> Result<Option<Stands>> {
        let mut found = Stands::default();
        let mut ids = HashSet::from([known]);
        let turns = TurnQuery {
            message_id: Some(known),
            ..TurnQuery::default()
        };
        let turns = self.store.turns(&turns)?.items;
        ids.extend(turns.into_iter().map(|turn| turn.id));
        ids.extend(self.parts.get(&known).into_iter().flatten());
        let mut is_there = false;
        for id in ids {
            if let Some(message) = self.known_answer(id)? {
                found.add(&message);
                is_there = true;
            }
        }
        Ok(is_there.then_some(found))
    }

    /// Keeps what a second report says, in a turn of its own.
    pub(super) fn keep_apart(
        &mut self,
        place: &Place<'_>,
        known: Uuid,
        kept: String,
    ) -> Result<()> {
        let item = place.item;
        let turn = self.turn_here(item.key).filter(|_| !item.is_event);
        let is_in_turn = turn.is_some_and(|turn| turn.kind == TurnKind::SysInfo);
        if is_in_turn || kept == NOTHING_KEPT {
            return Ok(());
        }
        let what = if item.is_event { "log" } else { "span" };
        let mut apart = item.clone();
        apart.key = Uuid::new_v5(&item.key, what.as_bytes());
        if self.turns.contains_key(&apart.key) || self.store.get_turn(apart.key)?.is_some() {
            return Ok(());
        }
        self.turn(place.at, &apart, TurnKind::SysInfo, kept, known)
    }
}

/// The trace in which a message was first reported.
pub(super) fn trace_of(message: &ConversationMessage) -> Option<Uuid> {
    let metadata = message.inference_metadata.as_deref()?;
    let metadata: serde_json::Value = serde_json::from_str(metadata).ok()?;
    let trace = metadata.get("otel")?.get("trace_id")?.as_str()?;
    Uuid::try_parse(trace).ok()
}

/// The trace of a message, and whether a log record reported it.
fn trace_and_kind(message: &ConversationMessage) -> (Option<Uuid>, bool) {
    (trace_of(message), is_of_log_record(message))
}

pub(super) fn is_of_log_record(message: &ConversationMessage) -> bool {
    let metadata = message.inference_metadata.as_deref().unwrap_or_default();
    metadata.contains(r#""event":"#)
}
