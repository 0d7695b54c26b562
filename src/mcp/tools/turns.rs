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
            "Records what was said in one turn of a conversation. Returns its id, the parent_id of the tool calls and turns that follow.",
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

/// That a turn is in the log.
#[derive(Debug, Serialize)]
struct Recorded {
    /// Its id.
    id: String,
    /// The number of the line that holds it.
    seq: u64,
    /// Whether the call added it or it was there.
    status: Status,
    /// What is probably a mistake in it, though it was taken.
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

/// Which turns to list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Since {
    /// Said then or later.
    since: Time,
    /// Only turns of this conversation or thread.
    thread_id: Option<Uuid>,
    /// Only turns that come from here.
    kind: Option<TurnKind>,
    /// As they stood at this time. Default: now.
    as_of: Option<Time>,
    /// Maximum number of results. Default: 100.
    limit: Option<Limit>,
    /// The next_cursor of the previous page.
    cursor: Option<Cursor>,
    /// The first character to show of texts that were truncated. Default: 0.
    #[allow(dead_code)] // The answer is cut by it.
    from_char: Option<FromChar>,
}

/// Turns, oldest first.
#[derive(Debug, Serialize)]
struct Listed {
    turns: Vec<ConversationTurn>,
    /// Give it as cursor for those that follow. Missing where there are none.
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
