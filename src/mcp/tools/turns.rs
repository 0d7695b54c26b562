//! Conversation turns.

use uuid::Uuid;

use super::super::answer::Fault;
use super::Call;
use super::given::{FromChar, Limit, Listed, Put, Time, page, recorded};
use crate::collections::{Cursor, Order, TurnQuery};
use crate::record::{ConversationTurn, Kind, TurnKind};
use crate::wire::new::NewTurn;

tools! {
    /// Records one turn of a conversation. Returns its id, the parent_id of the tool calls and
    /// turns that follow.
    turn_record("Record a turn", Adds) => record(NewTurn)

    /// Lists turns since a time, oldest first: of one thread, or of all.
    turns_since("List turns since a time", Reads, [Kind::ConversationTurns]) => since(Since {
        /// Of this time or later.
        since: Time,
        /// Only turns of this conversation or thread.
        thread_id: Option<Uuid>,
        /// Only turns of this kind.
        kind: Option<TurnKind>,
        /// Their state at this time. Default: now.
        as_of: Option<Time>,
        /// Maximum number of results. Default: 100.
        limit: Option<Limit>,
        /// The next_cursor of the previous page.
        cursor: Option<Cursor>,
        /// The first character to show of texts that were truncated. Default: 0.
        from_char: Option<FromChar>,
    })
}

fn record(call: &Call<'_>, given: NewTurn) -> Result<Put, Fault> {
    let (id, ack) = recorded(call, given)?;
    Ok(Put::from(ack).with_id(id))
}

fn since(call: &Call<'_>, given: Since) -> Result<Listed<ConversationTurn>, Fault> {
    let as_of = given.as_of.map(|time| time.0);
    let read = |limit, after| {
        call.store.as_of(as_of).turns(&TurnQuery {
            thread_id: given.thread_id,
            kind: given.kind,
            since: Some(given.since.0),
            order: Order::OldestFirst,
            limit,
            after,
            ..TurnQuery::default()
        })
    };
    page("turns", given.limit, given.cursor, read)
}
