//! How long pages are over HTTP.

use crate::collections::{Cursor, Page};
use crate::error::Result;
use crate::face::pages::{self, After, Paged};

/// Contents past this end a page.
pub(super) const PAGE_BYTES_MAX: usize = 32 << 20;

/// Reads a page, as [`pages::paged`] does, of as much as one answer holds.
pub(super) fn paged<T>(
    limit: usize,
    after: Option<After>,
    read: impl FnMut(usize, Option<Cursor>) -> Result<Page<T>>,
    length: impl Fn(&T) -> usize,
) -> Result<Paged<T>> {
    pages::paged(limit, PAGE_BYTES_MAX, after, read, length)
}

/// How long texts are together.
pub(super) fn lengths<'a>(texts: impl IntoIterator<Item = &'a Option<String>>) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}
