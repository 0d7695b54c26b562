//! Chat histories: append-only, read from the end.

use super::as_of::Lists;
use super::page::{Cursor, Order, Page, Walk, page};
use super::query::{is_of_time, query};
use super::{Ack, next_id, put_again, record_in, standing_as};
use crate::error::Result;
use crate::index::{Hasher, RowId, Select, Table};
use crate::record::{HistoryEntry, Kind};
use crate::store::{Redacted, Snapshot, Store, Txn};

const KIND: Kind = Kind::History;

query! {
    /// Selects the entries of chats to list.
    HistoryQuery {
        filters {
            /// Only entries of this chat.
            #[cfg_attr(feature = "http", serde(deserialize_with = "super::query::integer"))]
            #[cfg_attr(feature = "http", param(value_type = Option<crate::record::AnyInt>))]
            #[cfg_attr(feature = "cli", arg(allow_hyphen_values = true))]
            chat_id: i64 = "chat" "ID",
        }
        times {
            /// Only entries of this time or later.
            since,
            /// Only entries before this time.
            until,
        }
        order {
            /// By id. Default: oldest first (`asc`).
            OldestFirst
        }
        from {
            /// Page cursor: the `next` of the previous page.
            after: Option<Cursor>
        }
    }
}

impl Lists for HistoryQuery {
    type Item = HistoryEntry;
    const KIND: Kind = KIND;

    fn walk(&self, hasher: Hasher, _: bool) -> Walk {
        let select = self
            .chat_id
            .map_or(Select::All, |chat| of_chat(hasher, chat));
        Walk::all(self.order, self.limit, self.after).of(select)
    }

    fn may_match(&self, table: &Table, row: RowId) -> bool {
        is_of_time(table, row, (self.since, self.until))
    }

    fn matches(&self, entry: &HistoryEntry) -> bool {
        self.chat_id.is_none_or(|chat| entry.chat_id == chat)
    }

    fn read(view: &Snapshot<'_>, row: RowId, _: Option<i64>) -> Result<Option<HistoryEntry>> {
        standing_as(view, row)
    }
}

fn of_chat(hasher: Hasher, chat_id: i64) -> Select {
    Select::Lookup(0, hasher.lookup(itoa::Buffer::new().format(chat_id)))
}

impl Store {
    /// The last `limit` entries of a chat, earliest first. The cost depends on `limit` only, not on
    /// the length of the chat.
    ///
    /// ```
    /// # use decklog::{HistoryEntry, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// for text in ["one", "two", "three"] {
    ///     store.record(HistoryEntry::new(42, Role::User, text))?;
    /// }
    /// let last: Vec<String> = store.history(42, 2)?.into_iter().map(|entry| entry.text).collect();
    /// assert_eq!(last, ["two", "three"]);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn history(&self, chat_id: i64, limit: usize) -> Result<Vec<HistoryEntry>> {
        self.history_before(chat_id, i64::MAX, limit)
    }

    /// Like [`history`](Store::history), but only entries with ids less than `before`, to page
    /// backwards.
    pub fn history_before(
        &self,
        chat_id: i64,
        before: i64,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>> {
        let page = self.history_within(chat_id, before, limit, usize::MAX)?;
        Ok(page.items.into_iter().rev().collect())
    }

    /// Lists the entries of one chat or of all, in pages.
    ///
    /// ```
    /// # use decklog::{HistoryEntry, Role, Store};
    /// # use decklog::query::HistoryQuery;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// store.record(HistoryEntry::new(1, Role::User, "one"))?;
    /// store.record(HistoryEntry::new(2, Role::User, "two"))?;
    /// assert_eq!(store.history_entries(&HistoryQuery::default())?.items.len(), 2);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn history_entries(&self, query: &HistoryQuery) -> Result<Page<HistoryEntry>> {
        self.as_of(None).list(query, usize::MAX)
    }

    /// The entry with this id.
    #[cfg(feature = "bindings")]
    pub(crate) fn get_history_entry(&self, id: i64) -> Result<Option<HistoryEntry>> {
        let now = self.as_of(None);
        now.get::<HistoryQuery>([&id.to_string(), ""], |entry| entry.id == id)
    }

    /// As [`history_before`](Store::history_before), but newest first. The page also ends with the
    /// line that brings the length of its lines to this number of bytes.
    pub(crate) fn history_within(
        &self,
        chat_id: i64,
        before: i64,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Page<HistoryEntry>> {
        let inner = self.inner();
        let walk = Walk {
            select: of_chat(inner.hasher(), chat_id),
            until: before,
            bytes_max,
            ..Walk::all(Order::NewestFirst, limit, None)
        };
        page(
            inner,
            KIND,
            walk,
            |_, _| true,
            |view, row| {
                let entry = standing_as::<HistoryEntry>(view, row)?;
                let entry = entry.filter(|entry| entry.chat_id == chat_id);
                Ok(entry.map(|entry| (entry.id, entry)))
            },
        )
    }
}

/// Adds an entry. If the log has its id, the two must be equal. With `but_time`, the times are not
/// compared.
pub(super) fn put(txn: &mut Txn<'_>, redacted: &mut Redacted, but_time: bool) -> Result<Ack> {
    let entry: &HistoryEntry = record_in(redacted.record())?;
    let differs = |known: &HistoryEntry| {
        format!(
            "entry {} is of chat {} and says something else: leave the id out for the next one",
            known.id, known.chat_id
        )
    };
    let same = |known: &HistoryEntry| {
        let again = HistoryEntry {
            created_at: if but_time { known } else { entry }.created_at,
            ..entry.clone()
        };
        again == *known
    };
    if entry.id != 0
        && let Some((ack, known)) = put_again(txn, redacted.record(), same, differs)?
    {
        return Ok(ack.assigning(Some(known.id)));
    }
    let id = next_id(txn, KIND, entry.id)?;
    redacted.assign(|entry: &mut HistoryEntry| entry.id = id);
    let seq = txn.push(redacted, None)?;
    Ok(Ack::added(seq).assigning(Some(id)))
}
