//! Conversation turns: an upsert by id, and retraction.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::as_of::{Lists, assertion};
use super::page::{Cursor, Page, Walk};
use super::query::query;
use super::{Ack, lower, messages, put_version, record_of, standing_as, time};
use crate::error::Result;
#[cfg(feature = "otlp")]
use crate::index::Position;
use crate::index::{Hasher, RowId, Select};
use crate::record::{ConversationTurn, Kind, TurnKind};
use crate::store::{Reads, Redacted, RowLines, Snapshot, Store, Txn, Unclear};

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
            /// Only turns created at this time or later.
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

/// Whether the log has a turn whose parent is this one; rarely also if it has none.
#[cfg(feature = "otlp")]
pub(crate) fn may_have_turns_below(from: &impl Reads, id: Uuid) -> bool {
    let mut text = [0; Hyphenated::LENGTH];
    let select = Select::Lookup(0, from.hasher().lookup(lower(id, &mut text)));
    let mut below = from
        .table(KIND)
        .walk(select, Position::FIRST, Position::END);
    below.next().is_some()
}

/// Whether a turn belongs to a conversation other than the given one: its message does, or, if it
/// has none, the message that it names.
pub(crate) fn is_elsewhere(from: &impl Reads, turn: &ConversationTurn, conversation: Uuid) -> bool {
    let mut ids = [turn.id, turn.message_id].into_iter();
    let found = ids.find_map(|id| messages::is_of_another(from, id, conversation));
    found.unwrap_or(false)
}

/// Adds a turn, unless the current version is equal. With `but_time`, the times are not compared.
pub(super) fn put(
    txn: &mut Txn<'_>,
    redacted: &Redacted,
    turn: &ConversationTurn,
    but_time: bool,
) -> Result<Ack> {
    let same = |known: &ConversationTurn| {
        let turn = ConversationTurn {
            created_at: time(turn.created_at, known.created_at, but_time),
            ..turn.clone()
        };
        *known == turn
    };
    put_version(txn, redacted, turn.created_at.is_valid, same)
}

impl Lists for TurnQuery {
    type Item = ConversationTurn;
    const KIND: Kind = KIND;
    const IS_IN_LINES: bool = true;

    fn walk(&self, hasher: Hasher, _: bool) -> Walk {
        let of = |field, id| {
            let mut text = [0; Hyphenated::LENGTH];
            Select::Lookup(field, hasher.lookup(lower(id, &mut text)))
        };
        // Prefer the filter with the fewest turns per value.
        let select = match (self.message_id, self.parent_id, self.thread_id) {
            (Some(id), ..) => of(1, id),
            (_, Some(id), _) => of(0, id),
            (.., Some(id)) => of(2, id),
            _ => Select::All,
        };
        let walk = Walk::all(self.order, self.limit, self.after).of(select);
        walk.within(self.since, self.until)
    }

    fn matches(&self, turn: &ConversationTurn) -> bool {
        self.message_id.is_none_or(|id| turn.message_id == id)
            && self.parent_id.is_none_or(|id| turn.parent_id == Some(id))
            && self.thread_id.is_none_or(|id| turn.thread_id == Some(id))
            && self.kind.is_none_or(|kind| turn.kind == kind)
    }

    fn read(view: &Snapshot<'_>, row: RowId, as_of: Option<i64>) -> Result<Option<Self::Item>> {
        match as_of {
            None => standing_as(view, row),
            Some(at) => assertion(view, KIND, row, at)?.map(record_of).transpose(),
        }
    }

    fn read_lines(lines: &RowLines<'_>) -> Result<ConversationTurn, Unclear> {
        lines.asserted()
    }

    fn at(turn: &ConversationTurn) -> i64 {
        turn.created_at.at
    }
}
