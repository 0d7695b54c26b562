//! The records of one conversation or thread, in batches.

use std::collections::HashSet;

use uuid::Uuid;

use super::{Items, batch};
use crate::collections::{CallQuery, Cursor, MessageQuery, Order, TurnQuery, is_elsewhere};
use crate::error::{Error, Result};
use crate::record::{ConversationMessage, ConversationTurn, Record};
use crate::store::Store;

/// Number of messages or turns of a batch.
const BATCH_LEN: usize = 500;

/// Calls `each` with the items of a conversation or thread, in batches. Returns whether the log
/// has it.
///
/// # Errors
/// Errors of reading the log, and of `each`.
pub(crate) fn gather<E: From<Error>>(
    store: &Store,
    id: Uuid,
    each: &mut impl FnMut(Items) -> std::result::Result<(), E>,
) -> std::result::Result<bool, E> {
    let conversation = store.get_conversation(id)?;
    let mut gathered = Gathered {
        store,
        seen: HashSet::new(),
        records: Vec::new(),
    };
    let is_there = conversation.is_some();
    if let Some((conversation, _)) = conversation {
        gathered.records.push(conversation.into());
        gathered.calls(id)?;
    }
    let mut after: Option<Cursor> = None;
    loop {
        if !is_there {
            break;
        }
        let query = MessageQuery {
            limit: BATCH_LEN,
            after,
            ..MessageQuery::default()
        };
        let page = store.messages(id, &query)?;
        for message in page.items {
            gathered.message(message)?;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
        each(gathered.items()?)?;
    }
    let mut is_thread = false;
    let mut after: Option<Cursor> = None;
    loop {
        let query = TurnQuery {
            thread_id: Some(id),
            limit: BATCH_LEN,
            after,
            ..TurnQuery::default()
        };
        let page = store.turns(&query)?;
        for turn in page.items {
            is_thread = true;
            let inner = store.inner();
            if !inner.with_snapshot(|view| Ok(is_elsewhere(view, &turn, id)))? {
                gathered.turn(turn)?;
            }
        }
        each(gathered.items()?)?;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(is_there || is_thread)
}

struct Gathered<'a> {
    store: &'a Store,
    /// The turns so far.
    seen: HashSet<Uuid>,
    records: Vec<Record>,
}

impl Gathered<'_> {
    fn items(&mut self) -> Result<Items> {
        batch::items(self.store, &std::mem::take(&mut self.records))
    }

    fn message(&mut self, message: ConversationMessage) -> Result<()> {
        let id = message.id;
        let query = TurnQuery {
            message_id: Some(id),
            limit: usize::MAX,
            ..TurnQuery::default()
        };
        let mut turns = self.store.turns(&query)?.items;
        turns.extend(self.store.get_turn(id)?);
        self.records.push(message.into());
        let mut has_turn = false;
        for turn in turns {
            has_turn |= turn.id == id;
            // The turn of another message that names this one.
            if turn.id == id || self.store.get_message(turn.id)?.is_none() {
                self.turn(turn)?;
            }
        }
        if !has_turn {
            self.calls(id)?;
        }
        Ok(())
    }

    fn turn(&mut self, turn: ConversationTurn) -> Result<()> {
        let id = turn.id;
        if !self.seen.insert(id) {
            return Ok(());
        }
        self.records.push(turn.into());
        self.calls(id)
    }

    fn calls(&mut self, parent: Uuid) -> Result<()> {
        let query = CallQuery {
            parent_id: Some(parent),
            order: Order::OldestFirst,
            limit: usize::MAX,
            ..CallQuery::default()
        };
        for (req, done) in self.store.tool_calls(&query)?.items {
            self.records.push(req.into());
            self.records.extend(done.map(Record::from));
        }
        Ok(())
    }
}
