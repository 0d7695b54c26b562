//! Conversation turns: an upsert by id, and retraction.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::as_of::assertion;
use super::page::{Cursor, Page, Walk, page};
use super::query::query;
use super::{Ack, collision, get_row, lower, put_version, standing_as, time};
use crate::error::Result;
use crate::index::{RowId, Select};
use crate::line::Decoded;
use crate::record::{ConversationTurn, Kind, Record, TurnKind};
use crate::store::{Inner, Redacted, RowLines, Snapshot, Store, Txn};

const KIND: Kind = Kind::ConversationTurns;

query! {
    /// Selects the turns to list.
    ///
    /// ```
    /// # use decklog::Store;
    /// # use decklog::query::{Order, TurnQuery};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// # let thread = uuid::Uuid::nil();
    /// let query = TurnQuery { thread_id: Some(thread), order: Order::NewestFirst, limit: 20, ..TurnQuery::default() };
    /// let newest = store.turns(&query)?;
    /// # assert!(newest.items.is_empty());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    TurnQuery {
        filters {
            /// Only turns of this message.
            message_id: Uuid = "message" "ID",
            /// Only turns that follow this one.
            parent_id: Uuid = "parent" "ID",
            /// Only turns of this thread.
            thread_id: Uuid = "thread" "ID",
            /// Only turns of this kind.
            kind: TurnKind = "kind" "KIND",
        }
        times {
            /// Only turns created at this time or later: epoch milliseconds, or a text in
            /// RFC 3339 or a UTC day.
            since,
            /// Only turns created before this time.
            until,
        }
        order {
            /// By `created_at`. Default: oldest first (`asc`).
            OldestFirst
        }
        from {
            /// Page cursor: the `next` of the previous page.
            after: Option<Cursor>
        }
    }
}

impl TurnQuery {
    fn matches(&self, turn: &ConversationTurn) -> bool {
        self.message_id.is_none_or(|id| turn.message_id == id)
            && self.parent_id.is_none_or(|id| turn.parent_id == Some(id))
            && self.thread_id.is_none_or(|id| turn.thread_id == Some(id))
            && self.kind.is_none_or(|kind| turn.kind == kind)
    }
}

impl Store {
    /// The turn with this id; `None` if it does not exist or is retracted.
    pub fn get_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>> {
        self.as_of(None).get_turn(id)
    }

    /// Lists the turns that are not retracted, in pages.
    pub fn turns(&self, query: &TurnQuery) -> Result<Page<ConversationTurn>> {
        self.as_of(None).turns(query)
    }
}

/// Adds a turn, unless the current version is equal. With `but_time`, the times are not compared.
pub(super) fn put(
    txn: &mut Txn<'_>,
    redacted: &Redacted,
    turn: &ConversationTurn,
    but_time: bool,
) -> Result<Ack> {
    let id = turn.id.to_string();
    put_version(
        txn,
        redacted,
        [&id, ""],
        turn.created_at.is_valid,
        |known| match known {
            Record::Turn(known) if known.id == turn.id => {
                let created_at = time(turn.created_at, known.created_at, but_time);
                let turn = ConversationTurn {
                    created_at,
                    ..turn.clone()
                };
                Ok(*known == turn)
            }
            _ => Err(collision()),
        },
    )
}

fn turn_at(decoded: Decoded) -> Result<ConversationTurn> {
    match decoded.record {
        Record::Turn(turn) => Ok(turn),
        _ => Err(collision()),
    }
}

pub(super) fn get(inner: &Inner, id: Uuid, as_of: Option<i64>) -> Result<Option<ConversationTurn>> {
    let mut text = [0; Hyphenated::LENGTH];
    let key = [lower(id, &mut text), ""];
    let quick = |lines: &RowLines<'_>| lines.asserted();
    let turn = get_row(inner, KIND, key, as_of, quick, |view, row| {
        read(view, row, as_of)
    })?;
    Ok(turn.filter(|turn| turn.id == id))
}

pub(super) fn list(
    inner: &Inner,
    query: &TurnQuery,
    bytes_max: usize,
    as_of: Option<i64>,
) -> Result<Page<ConversationTurn>> {
    let hash = |id: Uuid| {
        let mut text = [0; Hyphenated::LENGTH];
        inner.hasher().lookup(lower(id, &mut text))
    };
    // Prefer the filter with the fewest turns per value.
    let select = match query {
        TurnQuery {
            message_id: Some(id),
            ..
        } => Select::Lookup(1, hash(*id)),
        TurnQuery {
            parent_id: Some(id),
            ..
        } => Select::Lookup(0, hash(*id)),
        TurnQuery {
            thread_id: Some(id),
            ..
        } => Select::Lookup(2, hash(*id)),
        _ => Select::All,
    };
    let walk = Walk {
        select,
        since: query.since.unwrap_or(i64::MIN),
        until: query.until.unwrap_or(i64::MAX),
        order: query.order,
        limit: query.limit,
        bytes_max,
        after: query.after,
        as_of,
    };
    page(inner, KIND, walk, |view, row| {
        let turn = read(view, row, as_of)?.filter(|turn| query.matches(turn));
        Ok(turn.map(|turn| (turn.created_at.at, turn)))
    })
}

/// The turn of a row, as it is now or as of a time.
fn read(view: &Snapshot<'_>, id: RowId, as_of: Option<i64>) -> Result<Option<ConversationTurn>> {
    match as_of {
        None => standing_as(view, id),
        Some(at) => assertion(view, KIND, id, at)?.map(turn_at).transpose(),
    }
}
