//! Conversation turns.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::super::answer::Fault;
use super::given::{FromChar, Limit, Status, Time, page, put};
use super::{Call, Effect, Tool};
use crate::collections::Cursor;
use crate::collections::{Order, TurnQuery, Warning};
use crate::record::{ConversationTurn, Kind, TurnKind};
use crate::wire::new::NewTurn;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "turn_record",
            "Record a turn",
            "Records one turn of a conversation. Returns its id, the parent_id of the tool calls and turns that follow.",
            Effect::Adds,
            record,
        ),
        Tool::new(
            "turns_since",
            "List turns since a time",
            "Lists turns since a time, oldest first: of one thread, or of all.",
            Effect::Reads,
            since,
        )
        .reading(&[Kind::ConversationTurns]),
    ]
}

/// A recorded turn.
#[derive(Debug, Serialize)]
struct Recorded {
    /// Its id.
    id: String,
    /// The sequence number of its line.
    seq: u64,
    /// Whether the call added it or it existed.
    status: Status,
    /// A probable mistake in the accepted record.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

fn record(call: &Call<'_>, given: NewTurn) -> Result<Recorded, Fault> {
    let (id, ack) = put(call, given)?;
    Ok(Recorded {
        id,
        seq: ack.seq,
        status: ack.status.into(),
        warning: ack.warning.map(Warning::as_str),
    })
}

/// The turns to list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Since {
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
    #[allow(dead_code)] // Used to cut the answer.
    from_char: Option<FromChar>,
}

/// Turns, oldest first.
#[derive(Debug, Serialize)]
struct Listed {
    turns: Vec<ConversationTurn>,
    /// The cursor of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn since(call: &Call<'_>, given: Since) -> Result<Listed, Fault> {
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

    let page = page(given.limit, given.cursor, read)?;
    Ok(Listed {
        turns: page.items,
        next_cursor: page.next,
    })
}
