//! The size of pages over HTTP.

use crate::collections::Page;

/// Size limit of a page, in bytes of lines. The page ends with the record that reaches it.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;

/// Whether a page ended before its limit of records was reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct IsCut(pub(super) bool);

impl IsCut {
    pub(super) fn of<T>(page: &Page<T>, limit: usize) -> IsCut {
        IsCut(page.next.is_some() && page.items.len() < limit)
    }
}
