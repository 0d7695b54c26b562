//! Lists page by page: whatever their length, one page is in memory.

use clap::ValueEnum;
use decklog::Order;

use super::exit::Failure;

const PAGE_RECORDS: usize = 256;

/// Which end of a list comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum First {
    /// The earliest first
    Oldest,
    /// The latest first
    Newest,
}

impl From<First> for Order {
    fn from(first: First) -> Order {
        match first {
            First::Oldest => Order::OldestFirst,
            First::Newest => Order::NewestFirst,
        }
    }
}

impl First {
    /// The word that arguments use.
    pub fn as_str(self) -> &'static str {
        match self {
            First::Oldest => "oldest",
            First::Newest => "newest",
        }
    }
}

/// Calls `each` for every record of a part of a list, of which `page` gets a page by its limit
/// and start, and says where the next one starts if there is one. Returns where the rest begins,
/// if there is a rest.
pub fn each<T, P: Clone>(
    limit: Option<usize>,
    mut start: Option<P>,
    mut page: impl FnMut(usize, Option<P>) -> decklog::Result<(Vec<T>, Option<P>)>,
    mut each: impl FnMut(T) -> Result<(), Failure>,
) -> Result<Option<P>, Failure> {
    let mut left = limit.unwrap_or(usize::MAX);
    loop {
        let (records, next) = page(left.min(PAGE_RECORDS), start)?;
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
