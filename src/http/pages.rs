//! The size of pages over HTTP.

use crate::collections::Page;

/// A page ends with the record at which it reaches this size, in bytes of lines.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;

/// Whether a page ended before its limit of records was reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct IsCut(pub(super) bool);

impl IsCut {
    pub(super) fn of<T>(page: &Page<T>, limit: usize) -> IsCut {
        IsCut(page.next.is_some() && page.items.len() < limit)
    }
}
