//! Some rows of a table, in order.

use super::groups::Members;
use super::list::Range;
use super::rows::{RowId, Rows};
use crate::line::Op;

/// What [`walk`](super::Table::walk) gives.
#[derive(Debug)]
pub(crate) enum Walk<'a> {
    Members(Members<'a>),
    Range(Range<'a>),
    /// Of all rows, those that pass.
    Filtered(Range<'a>, Filter, &'a Rows),
}

/// Which rows of a list pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Filter {
    /// The lookup field has this hash.
    Lookup(usize, u32),
    State(Op),
}

impl Filter {
    fn passes(self, rows: &Rows, id: RowId) -> bool {
        match self {
            Filter::Lookup(field, hash) => rows.has_lookup(id, field, hash),
            Filter::State(state) => rows.get(id).is_some_and(|row| row.state == state),
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = RowId;

    fn next(&mut self) -> Option<RowId> {
        match self {
            Walk::Members(rows) => rows.next(),
            Walk::Range(rows) => rows.next(),
            Walk::Filtered(range, filter, rows) => range.find(|id| filter.passes(rows, *id)),
        }
    }

    fn count(self) -> usize {
        match self {
            Walk::Members(rows) => rows.count(),
            Walk::Range(rows) => rows.count(),
            Walk::Filtered(range, filter, rows) => {
                range.filter(|id| filter.passes(rows, *id)).count()
            }
        }
    }

    fn nth(&mut self, n: usize) -> Option<RowId> {
        match self {
            Walk::Members(rows) => rows.nth(n),
            Walk::Range(rows) => rows.nth(n),
            Walk::Filtered(range, filter, rows) => {
                range.filter(|id| filter.passes(rows, *id)).nth(n)
            }
        }
    }
}

impl DoubleEndedIterator for Walk<'_> {
    fn next_back(&mut self) -> Option<RowId> {
        match self {
            Walk::Members(rows) => rows.next_back(),
            Walk::Range(rows) => rows.next_back(),
            Walk::Filtered(range, filter, rows) => range.rfind(|id| filter.passes(rows, *id)),
        }
    }
}
