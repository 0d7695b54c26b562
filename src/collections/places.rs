//! The conversations to which tool calls belong, mostly by the index alone.

use std::cell::RefCell;
use std::collections::HashMap;

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::{lower, read_as, standing_as};
use crate::error::Result;
use crate::index::RowId;
use crate::record::{ConversationMessage, ConversationTurn, Kind};
use crate::store::{Inner, Reads, Snapshot};

/// Number of turns that are looked up under one lock. Writers wait for it.
const AT_A_TIME: usize = 500;

/// The place of the conversation among the lookup fields of a message.
const CONVERSATION_OF_MESSAGE: usize = 0;

/// Finds the conversations of turns. The index has only hashes of the conversations of messages, so
/// one message of each conversation is read.
#[derive(Debug, Default)]
pub(crate) struct Places {
    conversations: RefCell<HashMap<(u32, u32), Uuid>>,
}

impl Places {
    /// The conversation of each of these turns, which are the parents of tool calls: that of the
    /// message of the turn, else the thread of the turn, else the conversation with this id. `None`
    /// if the log has none of them.
    pub(crate) fn of_turns(&self, inner: &Inner, turns: &[Uuid]) -> Result<Vec<Option<Uuid>>> {
        let mut found = Vec::with_capacity(turns.len());
        for some in turns.chunks(AT_A_TIME) {
            found.extend(inner.with_snapshot(|view| {
                let places = some.iter().map(|turn| self.of_turn(view, *turn));
                places.collect::<Result<Vec<_>>>()
            })?);
        }
        Ok(found)
    }

    fn of_turn(&self, view: &Snapshot<'_>, id: Uuid) -> Result<Option<Uuid>> {
        if let Some(conversation) = self.of_message(view, id)? {
            return Ok(Some(conversation));
        }
        if let Some(row) = row_of(view, Kind::ConversationTurns, id) {
            let turn: Option<ConversationTurn> = standing_as(view, row)?;
            if let Some(turn) = turn {
                let of_message = self.of_message(view, turn.message_id)?;
                return Ok(of_message.or(turn.thread_id));
            }
        }
        Ok(row_of(view, Kind::Conversations, id).map(|_| id))
    }

    fn of_message(&self, view: &Snapshot<'_>, id: Uuid) -> Result<Option<Uuid>> {
        let table = view.table(Kind::Messages);
        let row = row_of(view, Kind::Messages, id);
        let Some((row, value)) =
            row.and_then(|row| Some((row, table.value(row, CONVERSATION_OF_MESSAGE)?)))
        else {
            return Ok(None);
        };
        if let Some(known) = self.conversations.borrow().get(&value) {
            return Ok(Some(*known));
        }
        let Some(asserted) = table.row(row).map(|row| row.asserted) else {
            return Ok(None);
        };
        let message: Box<ConversationMessage> = read_as(view, asserted)?;
        let mut known = self.conversations.borrow_mut();
        known.insert(value, message.conversation_id);
        Ok(Some(message.conversation_id))
    }
}

/// The row of this id, if its record is not retracted.
fn row_of(view: &Snapshot<'_>, kind: Kind, id: Uuid) -> Option<RowId> {
    let mut text = [0; Hyphenated::LENGTH];
    let found = view.find(kind, [lower(id, &mut text), ""]);
    found.filter(|(_, row)| row.stands()).map(|(id, _)| id)
}
