//! Entries of a chat's history, read from the end.

use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Result;
use crate::record::HistoryEntry;
use crate::store::Store;

/// Entries of a chat.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entries {
    /// The earliest first.
    pub(crate) items: Vec<HistoryEntry>,
    /// The `before` of the next page, with earlier entries. Missing if these are the first of the
    /// chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<i64>,
}

impl Entries {
    /// The last entries with ids below `before`, until there are `limit` of them or their lines have
    /// `bytes_max` bytes.
    pub(crate) fn read(
        store: &Store,
        chat_id: i64,
        before: i64,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Entries> {
        let page = store.history_within(chat_id, before, limit, bytes_max)?;
        let is_more = page.next.is_some();
        let items: Vec<HistoryEntry> = page.items.into_iter().rev().collect();
        Ok(Entries {
            before: items.first().map(|first| first.id).filter(|_| is_more),
            items,
        })
    }
}
