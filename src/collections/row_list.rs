//! The lists of current rows, for queries: what the index selects, in an order, page by page.

use std::ops::ControlFlow;

use super::Order;
use super::current_rows::{CurrentRow, has_come, read_row, row_head};
use super::seqs::each_ordered_row;
use crate::error::Result;
use crate::index::{Position, Select};
use crate::record::Kind;
use crate::record::columns::ColumnSet;
use crate::store::{Reads, Store};

impl Store {
    /// The next current records of a kind within the bounds, at most `limit`, in the order of the
    /// bounds, with the values of the wanted columns. Moves a bound past them. Empty at the end.
    /// Without a wanted column, no line is read, and the rows have no values.
    pub(crate) fn next_rows(
        &self,
        kind: Kind,
        bounds: &mut RowBounds,
        wanted: ColumnSet,
        limit: usize,
    ) -> Result<Vec<CurrentRow>> {
        let mut found = Vec::new();
        let RowBounds {
            select,
            order,
            from,
            to,
            since,
            until,
            upto,
        } = *bounds;
        let is_inside = |at: i64| at >= since && (at < until || until == i64::MAX);
        // Nothing is left, unless the limit is reached.
        let end = match order {
            Order::OldestFirst => to,
            Order::NewestFirst => from,
        };
        let mut next = end;
        let reads = wanted.0 != 0;
        each_ordered_row(
            self.inner(),
            kind,
            select,
            (from, to),
            order,
            reads,
            |view, id| {
                let table = view.table(kind);
                if table.row(id).is_some_and(|row| is_inside(row.at))
                    && has_come(view, kind, id, upto)?
                {
                    found.extend(if reads {
                        read_row(view, kind, id, wanted)?
                    } else {
                        row_head(view, kind, id)
                    });
                }
                if found.len() < limit {
                    return Ok(ControlFlow::Continue(()));
                }
                let place = table.place(select, id);
                next = place.map_or(end, |place| place.past(order));
                Ok(ControlFlow::Break(()))
            },
        )?;
        match order {
            Order::OldestFirst => bounds.from = next,
            Order::NewestFirst => bounds.to = next,
        }
        Ok(found)
    }

    /// Splits a list after about this number of rows. The rest is `None` if there are no more.
    #[cfg(all(feature = "arrow", feature = "bindings"))]
    pub(crate) fn split_rows(
        &self,
        kind: Kind,
        bounds: RowBounds,
        rows: usize,
    ) -> Result<(RowBounds, Option<RowBounds>)> {
        let RowBounds {
            select, from, to, ..
        } = bounds;
        self.inner().with_snapshot(|view| {
            let table = view.table(kind);
            let next = table.walk(select, from, to).nth(rows);
            Ok(match next.and_then(|row| table.place(select, row)) {
                None => (bounds, None),
                Some(place) => {
                    let first = RowBounds { to: place, ..bounds };
                    let rest = RowBounds { from: place, ..bounds };
                    (first, Some(rest))
                }
            })
        })
    }

    /// Number of current records of a kind.
    #[cfg(feature = "sql")]
    pub(crate) fn rows_len(&self, kind: Kind) -> Result<usize> {
        let inner = self.inner();
        inner.with_snapshot(|view| Ok(view.table(kind).len()))
    }
}

/// A part of the list of a kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowBounds {
    select: Select,
    order: Order,
    from: Position,
    to: Position,
    /// The own time of the records is from `since` to before `until`.
    since: i64,
    until: i64,
    upto: u64,
}

impl RowBounds {
    /// The records that the index selects, in an order. `numbers`: only those whose number is from
    /// the first to before the second, for kinds that are listed by number. `times`: only those
    /// whose own time is, in epoch milliseconds.
    pub(crate) fn new(
        kind: Kind,
        select: Select,
        order: Order,
        numbers: Option<(i64, i64)>,
        (since, until): (i64, i64),
    ) -> RowBounds {
        let is_all = select == Select::All;
        let places = if RowBounds::is_by_number(kind) {
            numbers
        } else {
            Some((since, until))
        };
        let position = |place| match place {
            i64::MAX => Position::END,
            place => Position::before(place),
        };
        let (from, to) = places.filter(|_| is_all).unwrap_or((i64::MIN, i64::MAX));
        RowBounds {
            select,
            order,
            from: Position::before(from),
            to: position(to),
            since,
            until,
            upto: u64::MAX,
        }
    }

    /// As these bounds, without the records that were added after this sequence number.
    #[cfg(feature = "sql")]
    pub(crate) fn upto(self, upto: u64) -> RowBounds {
        RowBounds { upto, ..self }
    }

    /// Whether a kind is listed by a number, not by time: the one that the log assigns or, for
    /// thoughts, the sequence number.
    pub(crate) fn is_by_number(kind: Kind) -> bool {
        matches!(
            kind,
            Kind::Events | Kind::Inbox | Kind::History | Kind::ThoughtRecords
        )
    }
}
