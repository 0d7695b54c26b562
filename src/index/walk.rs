//! An iterator over rows of a table, in order.

use super::list::Range;
use super::rows::{Position, RowId};

/// The result of [`walk`](super::Table::walk).
pub(crate) enum Walk<'a> {
    /// A small group, or nothing.
    Few(std::vec::IntoIter<Position>),
    Range(Range<'a>),
    /// All rows, filtered.
    Filtered(Box<dyn DoubleEndedIterator<Item = RowId> + 'a>),
}

impl Iterator for Walk<'_> {
    type Item = RowId;

    fn next(&mut self) -> Option<RowId> {
        match self {
            Walk::Few(rows) => rows.next().map(|position| position.row),
            Walk::Range(rows) => rows.next(),
            Walk::Filtered(rows) => rows.next(),
        }
    }

    fn count(self) -> usize {
        match self {
            Walk::Few(rows) => rows.len(),
            Walk::Range(rows) => rows.count(),
            Walk::Filtered(rows) => rows.count(),
        }
    }

    fn nth(&mut self, n: usize) -> Option<RowId> {
        match self {
            Walk::Few(rows) => rows.nth(n).map(|position| position.row),
            Walk::Range(rows) => rows.nth(n),
            Walk::Filtered(rows) => rows.nth(n),
        }
    }
}

impl DoubleEndedIterator for Walk<'_> {
    fn next_back(&mut self) -> Option<RowId> {
        match self {
            Walk::Few(rows) => rows.next_back().map(|position| position.row),
            Walk::Range(rows) => rows.next_back(),
            Walk::Filtered(rows) => rows.next_back(),
        }
    }
}
