//! Entries of chats.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::answer::Fault;
use super::super::bound::PAGE_BYTES_MAX;
use super::given::{FromChar, Limit, Status, limit, put};
use super::{Call, Effect, Tool};
use crate::record::Kind;
use crate::wire::fields::AnyInt;
use crate::wire::history::Entries;
use crate::wire::new::NewEntry;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "history_append",
            "Append to a chat's history",
            "Appends an entry to the history of a chat. Returns its id.",
            Effect::Adds,
            append,
        ),
        Tool::new(
            "history_list",
            "Read a chat's history",
            "Reads the last entries of a chat's history, earliest first.",
            Effect::Reads,
            list,
        )
        .reading(&[Kind::History]),
    ]
}

/// A recorded entry.
#[derive(Debug, Serialize)]
struct Appended {
    /// Its id.
    id: i64,
    /// The sequence number of its line.
    seq: u64,
    /// Whether the call added it or it existed.
    status: Status,
}

fn append(call: &Call<'_>, given: NewEntry) -> Result<Appended, Fault> {
    let (_, ack) = put(call, given)?;
    Ok(Appended {
        id: ack.assigned.unwrap_or_default(),
        seq: ack.seq,
        status: ack.status.into(),
    })
}

/// The entries to read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// The chat.
    chat_id: AnyInt,
    /// Maximum number of entries, counted from the last one. Default: 100.
    limit: Option<Limit>,
    /// Only entries before this id: the before of an earlier answer.
    before: Option<AnyInt>,
    /// First character to show of truncated texts. Default: 0.
    #[allow(dead_code)] // Used to cut the answer.
    from_char: Option<FromChar>,
}

fn list(call: &Call<'_>, given: List) -> Result<Entries, Fault> {
    let before = given.before.map_or(i64::MAX, |id| id.0);
    let (chat_id, limit) = (given.chat_id.0, limit(given.limit));
    Ok(Entries::read(
        call.store,
        chat_id,
        before,
        limit,
        PAGE_BYTES_MAX,
    )?)
}
