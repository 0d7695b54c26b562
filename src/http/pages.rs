//! Pages of lists, which end where they grow too long for one answer.

use serde::Serialize;
use utoipa::ToSchema;

use super::params::After;
use crate::collections::{Cursor, Page};
use crate::error::Result;

/// Contents past this end a page.
pub(super) const PAGE_BYTES_MAX: usize = 32 << 20;
/// So many records are read before their length is known.
pub(super) const READ_AT_ONCE: usize = 32;

/// A page of records.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Paged<T> {
    pub(super) items: Vec<T>,
    /// Where the next page begins: its `after`. Missing on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// Reads a page of at most `limit` records, some at a time: `read` is told how many, and after
/// which one. `length` tells how long a record is, roughly.
pub(super) fn paged<T>(
    limit: usize,
    after: Option<After>,
    mut read: impl FnMut(usize, Option<Cursor>) -> Result<Page<T>>,
    length: impl Fn(&T) -> usize,
) -> Result<Paged<T>> {
    let (mut items, mut bytes) = (Vec::new(), 0);
    let mut after = after.map(|after| after.0);
    loop {
        let page = read(READ_AT_ONCE.min(limit - items.len()), after)?;
        bytes += page.items.iter().map(&length).sum::<usize>();
        items.extend(page.items);
        after = page.next;
        if after.is_none() || items.len() >= limit || bytes >= PAGE_BYTES_MAX {
            return Ok(Paged {
                items,
                next: after.map(|next| next.to_string()),
            });
        }
    }
}

/// How long texts are together.
pub(super) fn lengths<'a>(texts: impl IntoIterator<Item = &'a Option<String>>) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}
