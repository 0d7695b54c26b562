//! Lists page by page: only one page is in memory.

use super::exit::Failure;

/// Default number of records of a page.
pub const PAGE_RECORDS: usize = 256;

/// Calls `each` for every record. `page` reads a page by its limit and start, and returns the start
/// of the next page, if any. Returns the start of the rest, if there is one.
pub fn each<T, P>(
    limit: Option<usize>,
    page_records: usize,
    mut start: Option<P>,
    mut page: impl FnMut(usize, Option<P>) -> decklog::Result<(Vec<T>, Option<P>)>,
    mut each: impl FnMut(T) -> Result<(), Failure>,
) -> Result<Option<P>, Failure> {
    let mut left = limit.unwrap_or(usize::MAX);
    loop {
        let (records, next) = page(left.min(page_records), start)?;
        left = left.saturating_sub(records.len());
        for record in records {
            each(record)?;
        }
        start = next;
        if left == 0 || start.is_none() {
            return Ok(start);
        }
    }
}
