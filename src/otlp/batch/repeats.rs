//! Items that say again what another one said.

use std::collections::HashSet;

use uuid::Uuid;

use super::Batch;
use super::inference::{self, response_id};
use super::reports::is_of_log_record;
use crate::collections::TurnQuery;
use crate::error::Result;
use crate::otlp::item::Item;
use crate::otlp::mapping::Operation;
use crate::record::{ConversationTurn, TurnKind};

/// Whether a span had ended when its turn was written.
fn has_ended(turn: &ConversationTurn) -> bool {
    turn.content.contains(r#""end_ns":"#)
}

/// The requests to models that another item describes with messages.
pub(super) fn repeated(items: &[(usize, Box<Item>)]) -> HashSet<usize> {
    let requests = || {
        let requests = items.iter();
        requests.filter(|(_, item)| item.operation == Operation::Inference && !item.is_event)
    };
    let is_better = |item: &&(usize, Box<Item>)| item.1.has_messages();
    let responses: HashSet<&str> = requests()
        .filter(is_better)
        .filter_map(|(_, item)| item.response.as_deref())
        .collect();
    let spans: HashSet<Uuid> = requests().map(|(_, item)| item.key).collect();
    let is_repeated = |item: &Item| {
        let response = item.response.as_deref();
        let above = item.parent_turn();
        response.is_some_and(|id| responses.contains(id))
            || above.is_some_and(|above| spans.contains(&above))
    };
    let repeated = requests().filter(|it| !is_better(it) && is_repeated(&it.1));
    repeated.map(|(at, _)| *at).collect()
}

impl Batch<'_> {
    /// Whether the log has the turn of an item, so that the item was sent again. A log record that
    /// describes a request may be written in a span that is no request: of the two, the second one
    /// gets another id.
    pub(super) fn is_there(&mut self, item: &mut Item) -> Result<bool> {
        let Some(turn) = self
            .known_turn(item.key)?
            .filter(|it| !inference::waits(it))
        else {
            return Ok(false);
        };
        let is_answer = turn.kind == TurnKind::Assistant;
        let is_of_span = item.is_event && item.span.is_some_and(|span| span.turn == item.key);
        let is_plain = item.operation != Operation::Inference;
        let name = match (is_of_span, is_answer) {
            (true, false) => format!("log:{}:{:?}", item.start, item.response),
            (false, true) if is_plain && self.is_of_log_record(&turn)? => "span".to_owned(),
            (_, is_answer) => {
                // A span may be sent first when it starts.
                let is_ended = item.is_event || item.end.is_none() || has_ended(&turn);
                let is_logged = self.logged.turns.contains(&item.key);
                return Ok(is_ended && !is_answer && is_logged);
            }
        };
        item.key = Uuid::new_v5(&item.key, name.as_bytes());
        item.ids = inference::ids(item);
        let is_there = self.store.get_turn(item.key)?.is_some();
        if is_there {
            self.logged.turns.insert(item.key);
        }
        Ok(is_there && !is_of_span)
    }

    /// Whether another span describes the request better: the SDK of a provider and what instruments
    /// it may both report a request, one within the other.
    pub(super) fn is_repeated(&self, at: usize, item: &Item) -> Result<bool> {
        if self.repeated.contains(&at) {
            return Ok(true);
        }
        let above = item
            .parent_turn()
            .filter(|_| !item.is_event && !item.has_messages());
        let above = above.filter(|id| self.logged.turns.contains(id));
        let above = above
            .map(|id| self.store.get_turn(id))
            .transpose()?
            .flatten();
        match above {
            Some(turn) if turn.kind == TurnKind::Assistant => {
                let is_new = !self.logged.turns.contains(&item.key);
                Ok(is_new && !self.is_of_log_record(&turn)?)
            }
            _ => Ok(false),
        }
    }

    /// The answer without content that the span of an SDK reported within this one, and before it.
    pub(super) fn reported_within(&self, item: &Item) -> Result<Option<Uuid>> {
        let response = response_id(item);
        let may_be_any = !item.is_event && self.logged.above.contains(&item.key);
        if !may_be_any || self.has_message(response) {
            return Ok(None);
        }
        let within = TurnQuery {
            parent_id: Some(item.key),
            kind: Some(TurnKind::Assistant),
            ..TurnQuery::default()
        };
        let mut found = None;
        for turn in self.store.turns(&within)?.items {
            let Some(answer) = self.known_answer(turn.message_id)? else {
                continue;
            };
            let is_empty = answer.content.is_empty() && answer.tool_name.is_none();
            // Another id of the response is that of another request.
            let may_be_it = item.response.is_none() || [turn.id, response].contains(&answer.id);
            // Embeddings have no tokens of an answer.
            if is_empty && may_be_it && answer.tokens_out != Some(0) {
                found = Some(answer.id);
                if answer.tokens_out.is_some() {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Whether a log record reported the answer of a turn first.
    fn is_of_log_record(&self, turn: &ConversationTurn) -> Result<bool> {
        let message = self.known_answer(turn.message_id)?;
        Ok(message.is_some_and(|message| is_of_log_record(&message)))
    }
}
