//! Reads many records in parts, between which the lock is released to let writers in.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use super::Order;
use super::page::{PartEnd, ROWS_AT_A_TIME};
use super::standing_as;
use crate::error::Result;
use crate::index::{Position, RowId, Select, Table};
use crate::line::TypedRecord;
use crate::record::Kind;
use crate::store::{Inner, ReadAhead, Reads, Snapshot, Store};

/// Calls `take` with the records that have these sequence numbers, each with its position among all
/// records of its kind. Removed records are left out.
pub(crate) fn with_seqs<T: TypedRecord>(
    inner: &Inner,
    seqs: &[u64],
    mut take: impl FnMut(Position, T) -> Result<()>,
) -> Result<()> {
    // The records are often next to each other.
    let next = Cell::new(RowId(0));
    let row = |table: &Table, seq: u64| {
        let is_it = |id: &RowId| table.row(*id).is_some_and(|row| row.seq == seq);
        let search = || Some(table.row_from_seq(seq)).filter(is_it);
        let found = Some(next.get()).filter(is_it).or_else(search)?;
        next.set(RowId(found.0.saturating_add(1)));
        Some(found)
    };
    let read = |view: &Snapshot<'_>, id| {
        let record = standing_as(view, id)?;
        Ok(view.table(T::KIND).place(Select::All, id).zip(record))
    };
    read_each(inner, T::KIND, seqs, row, read, |(place, record)| {
        take(place, record)
    })
}

/// Calls `take` with what `read` makes of the rows of these keys. Keys without a row are left out.
pub(super) fn read_each<K: Copy, T>(
    inner: &Inner,
    kind: Kind,
    keys: &[K],
    row: impl Fn(&Table, K) -> Option<RowId>,
    read: impl Fn(&Snapshot<'_>, RowId) -> Result<Option<T>>,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let (mut left, mut ahead) = (keys, ReadAhead::new());
    while !left.is_empty() {
        let (found, count) = inner.with_snapshot_ahead(&mut ahead, |view| {
            let table = view.table(kind);
            let some = left.iter().take(ROWS_AT_A_TIME);
            let rows: Vec<Option<RowId>> = some.map(|key| row(table, *key)).collect();
            view.expect(kind, rows.iter().flatten().copied());
            let (mut found, mut end) = (Vec::new(), PartEnd::new());
            for (place, id) in rows.iter().enumerate() {
                let Some(id) = id else { continue };
                match read(view, *id) {
                    Err(_) if view.lacks_lines() && place > 0 => return Ok((found, place)),
                    item => found.extend(item?),
                }
                if end.has_come(true) {
                    return Ok((found, place + 1));
                }
            }
            Ok((found, rows.len()))
        })?;
        found.into_iter().try_for_each(&mut take)?;
        left = left.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// Calls `take` with the time of each record of a kind that stands, from `since` to before `until`.
pub(crate) fn times_of(
    store: &Store,
    kind: Kind,
    since: i64,
    until: i64,
    mut take: impl FnMut(i64),
) -> Result<()> {
    let bounds = (Position::before(since), Position::before(until));
    each_row(
        store.inner(),
        kind,
        Select::All,
        bounds,
        false,
        |view, id| {
            let row = view.table(kind).row(id).filter(|row| row.stands());
            if let Some(row) = row {
                take(row.at);
            }
            Ok(ControlFlow::Continue(()))
        },
    )
}

/// Calls `each` with the rows of a list, in order, until it breaks. `reads`: it reads the line of
/// each row; otherwise it only consults the index, or reads few lines. Rows that writers add
/// meanwhile may be included.
pub(super) fn each_row(
    inner: &Inner,
    kind: Kind,
    select: Select,
    bounds: (Position, Position),
    reads: bool,
    each: impl FnMut(&Snapshot<'_>, RowId) -> Result<ControlFlow<()>>,
) -> Result<()> {
    each_ordered_row(inner, kind, select, bounds, Order::OldestFirst, reads, each)
}

/// As [`each_row`], in an order.
pub(super) fn each_ordered_row(
    inner: &Inner,
    kind: Kind,
    select: Select,
    bounds: (Position, Position),
    order: Order,
    reads: bool,
    each: impl FnMut(&Snapshot<'_>, RowId) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let (bounds, each, mut ahead) = (Cell::new(bounds), RefCell::new(each), ReadAhead::new());
    let part = |view: &Snapshot<'_>| {
        let table = view.table(kind);
        let (from, to) = bounds.get();
        let mut rows = table.walk(select, from, to);
        let mut next = || match order {
            Order::OldestFirst => rows.next(),
            Order::NewestFirst => rows.next_back(),
        };
        if reads {
            let rows = table.walk(select, from, to);
            match order {
                Order::OldestFirst => view.expect(kind, rows.take(ROWS_AT_A_TIME)),
                Order::NewestFirst => view.expect(kind, rows.rev().take(ROWS_AT_A_TIME)),
            }
        }
        let (mut each, mut end) = (each.borrow_mut(), PartEnd::new());
        let mut is_first = true;
        while let Some(row) = next() {
            match each(view, row) {
                // The next line is not in memory: end this part so that it is read without the
                // lock.
                Err(_) if view.lacks_lines() && !is_first => return Ok(ControlFlow::Continue(())),
                step => {
                    if step?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            is_first = false;
            let place = table.place(select, row).map(|place| place.past(order));
            bounds.set(match order {
                Order::OldestFirst => (place.unwrap_or(to), to),
                Order::NewestFirst => (from, place.unwrap_or(from)),
            });
            if end.has_come(reads) {
                return Ok(ControlFlow::Continue(()));
            }
        }
        Ok(ControlFlow::Break(()))
    };
    while inner.with_snapshot_ahead(&mut ahead, part)?.is_continue() {}
    Ok(())
}

impl Position {
    /// The bound that leaves out the row at this position and those that come before it in an
    /// order.
    pub(super) fn past(self, order: Order) -> Position {
        match order {
            Order::OldestFirst => Position::after(self.at, self.seq),
            Order::NewestFirst => Position {
                row: RowId(0),
                ..self
            },
        }
    }
}
