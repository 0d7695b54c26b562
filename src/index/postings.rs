//! An ordered set of rows by some value's hash and by time, or by a number that stands for it.

use std::collections::BTreeSet;

use super::table::RowId;

/// Where a row stands in a list: by time or number, then by the order in which rows came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub at: i64,
    pub row: RowId,
}

impl Position {
    pub(crate) const FIRST: Position = Position {
        at: i64::MIN,
        row: RowId(0),
    };
    /// After every row.
    pub(crate) const END: Position = Position {
        at: i64::MAX,
        row: RowId(u32::MAX),
    };

    /// Before every row of this time or number.
    pub(crate) fn before(at: i64) -> Position {
        Position { at, row: RowId(0) }
    }
}

/// Ordered by its fields as they stand here; flat, so that it takes 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Posting {
    hash: u32,
    at: i64,
    row: u32,
}

impl Posting {
    fn new(hash: u32, position: Position) -> Posting {
        Posting {
            hash,
            at: position.at,
            row: position.row.0,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Postings(BTreeSet<Posting>);

impl Postings {
    pub(crate) fn insert(&mut self, hash: u32, position: Position) {
        self.0.insert(Posting::new(hash, position));
    }

    pub(crate) fn remove(&mut self, hash: u32, position: Position) {
        self.0.remove(&Posting::new(hash, position));
    }

    /// All postings at once, which packs them tighter than one by one.
    pub(crate) fn from_unsorted(postings: impl Iterator<Item = (u32, Position)>) -> Postings {
        let mut postings: Vec<_> = postings
            .map(|(hash, position)| Posting::new(hash, position))
            .collect();
        postings.sort_unstable();
        Postings(BTreeSet::from_iter(postings))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The rows under a hash, in order, from one position (included) to another (not).
    pub(crate) fn range(
        &self,
        hash: u32,
        from: Position,
        to: Position,
    ) -> impl DoubleEndedIterator<Item = RowId> {
        // BTreeSet panics at a range that ends before it begins.
        let from = Posting::new(hash, from.min(to));
        self.0
            .range(from..Posting::new(hash, to))
            .map(|posting| RowId(posting.row))
    }
}
