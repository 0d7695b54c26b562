//! Lists page by page: whatever their length, one page is in memory.

use super::exit::Failure;

/// How many records a page has, unless a list has a reason for more.
pub const PAGE_RECORDS: usize = 256;

/// Calls `each` for every record of a part of a list, of which `page` gets a page by its limit
/// and start, and says where the next one starts if there is one. Returns where the rest begins,
/// if there is a rest.
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
