//! Lists: their order, their pages, and the walk that makes one.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::index::{Position, RowId, Select, Table};
use crate::record::Kind;
use crate::store::{Reads, View};

/// The order of a list, by the records' own time or by the ids that the log gave; records of one
/// moment are in the order in which they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Earliest first.
    OldestFirst,
    /// Latest first.
    NewestFirst,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// Where the next page begins, if the limit ended this one.
    pub next: Option<Cursor>,
}

/// A place in a list, after a record. It stays good while records are added, and in every
/// process.
///
/// ```
/// let cursor: decklog::Cursor = "1766832000123-42".parse()?;
/// assert_eq!(cursor.to_string(), "1766832000123-42");
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    at: i64,
    seq: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Cursor> {
        let parts = text.rsplit_once('-');
        parts
            .and_then(|(at, seq)| {
                Some(Cursor {
                    at: at.parse().ok()?,
                    seq: seq.parse().ok()?,
                })
            })
            .ok_or_else(|| {
                Error::invalid(format!(
                    "{text:?} is no cursor: give one that a list returned"
                ))
            })
    }
}

/// So many rows are taken from the index before their lines are read.
pub(super) const ROWS_AT_A_TIME: usize = 128;

/// What a list is asked for, whatever it lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    pub select: Select,
    /// Times from this on, or numbers, as the table is ordered.
    pub since: i64,
    /// Times or numbers before this.
    pub until: i64,
    pub order: Order,
    pub limit: usize,
    pub after: Option<Cursor>,
    /// Only what was so at this time.
    pub as_of: Option<i64>,
}

impl Walk {
    /// Over all there are.
    pub(super) fn all(order: Order, limit: usize, after: Option<Cursor>) -> Walk {
        Walk {
            select: Select::All,
            since: i64::MIN,
            until: i64::MAX,
            order,
            limit,
            after,
            as_of: None,
        }
    }
}

/// A record that a walk came by, with its time; `None` if it is not to be listed.
type Seen<T> = Result<Option<(i64, T)>>;

/// Makes a page: `read` gets rows that may belong on it and says whether they do.
pub(super) fn page<T>(
    view: &View<'_>,
    kind: Kind,
    walk: Walk,
    read: impl FnMut(RowId) -> Seen<T>,
) -> Result<Page<T>> {
    if walk.limit == 0 {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    }
    if walk.as_of.is_some() {
        page_as_of(view.table(kind), walk, read)
    } else {
        page_now(view, kind, walk, read)
    }
}

/// A page of what stands: some rows are taken from the index at a time, so that lines that stand
/// together are read together.
fn page_now<T>(
    view: &View<'_>,
    kind: Kind,
    walk: Walk,
    mut read: impl FnMut(RowId) -> Seen<T>,
) -> Result<Page<T>> {
    let table = view.table(kind);
    let is_after = is_after(table, walk);
    let mut rows = ordered(table, walk).filter(|position| is_after(*position));
    let at_a_time = walk.limit.saturating_add(1).min(ROWS_AT_A_TIME);
    let mut some: Vec<Position> = Vec::new();
    let mut page = Page {
        items: Vec::new(),
        next: None,
    };
    let mut last = None;
    loop {
        some.clear();
        some.extend(rows.by_ref().take(at_a_time));
        if some.is_empty() {
            return Ok(page);
        }
        page.items
            .reserve(some.len().min(walk.limit - page.items.len()));
        for position in view.reading(kind, &some, |position| position.row) {
            let Some((_, item)) = read(position.row)? else {
                continue;
            };
            if page.items.len() == walk.limit {
                page.next = last.and_then(|last| cursor_at(table, last));
                return Ok(page);
            }
            last = Some(position);
            page.items.push(item);
        }
    }
}

fn cursor_at(table: &Table, position: Position) -> Option<Cursor> {
    table.row(position.row).map(|row| Cursor {
        at: position.at,
        seq: row.seq,
    })
}

fn comes_first(order: Order, a: Position, b: Position) -> bool {
    match order {
        Order::OldestFirst => a < b,
        Order::NewestFirst => (b.at, a.row) < (a.at, b.row),
    }
}

/// Whether a place is after the walk's cursor.
fn is_after(table: &Table, walk: Walk) -> impl Fn(Position) -> bool {
    let after = walk.after.map(|cursor| {
        // The cursor's row is the last one that is not after it.
        let next_row = table.row_from_seq(cursor.seq.saturating_add(1));
        Position {
            at: cursor.at,
            row: next_row,
        }
    });
    move |position| after.is_none_or(|after| !comes_first(walk.order, position, after))
}

fn page_as_of<T>(
    table: &Table,
    walk: Walk,
    mut read: impl FnMut(RowId) -> Seen<T>,
) -> Result<Page<T>> {
    let mut page = Page {
        items: Vec::new(),
        next: None,
    };
    // Rows with a past are looked at one by one where the past is asked for: the index knows
    // only where they stand now. There are few.
    let mut revived = Vec::new();
    for row in table.rows_with_history() {
        if let Some((at, item)) = read(row)?
            && (walk.since..walk.until).contains(&at)
        {
            revived.push((Position { at, row }, item));
        }
    }
    revived.sort_unstable_by_key(|(position, _)| *position);
    if walk.order == Order::NewestFirst {
        // Stable, so that one moment's rows stay in order.
        revived.sort_by_key(|(position, _)| Reverse(position.at));
    }
    let mut revived = revived.into_iter().peekable();
    let mut current = ordered(table, walk).peekable();
    let comes_first = |a, b| comes_first(walk.order, a, b);
    let is_after = is_after(table, walk);
    let mut last = None;
    loop {
        let from_past = match (revived.peek(), current.peek()) {
            (Some((past, _)), Some(now)) => comes_first(*past, *now),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return Ok(page),
        };
        let past = if from_past { revived.next() } else { None };
        let (position, item) = if let Some((position, item)) = past {
            (position, Some(item))
        } else {
            let Some(position) = current.next() else {
                return Ok(page);
            };
            let has_past = table.history(position.row).is_some();
            let skip = has_past || !is_after(position);
            (
                position,
                if skip {
                    None
                } else {
                    read(position.row)?.map(|(_, item)| item)
                },
            )
        };
        let Some(item) = item.filter(|_| is_after(position)) else {
            continue;
        };
        if page.items.len() == walk.limit {
            page.next = last;
            return Ok(page);
        }
        last = cursor_at(table, position);
        page.items.push(item);
    }
}

/// The rows that the index selects, in the order asked for.
fn ordered(table: &Table, walk: Walk) -> Box<dyn Iterator<Item = Position> + '_> {
    let until = walk
        .as_of
        .map_or(walk.until, |as_of| walk.until.min(as_of.saturating_add(1)));
    let (mut from, mut to) = (Position::before(walk.since), Position::before(until));
    if walk.since == i64::MIN {
        from = Position::FIRST;
    }
    if until == i64::MAX {
        to = Position::END;
    }
    match (walk.after, walk.order) {
        (Some(cursor), Order::OldestFirst) => from = from.max(Position::before(cursor.at)),
        (Some(cursor), Order::NewestFirst) => {
            to = to.min(Position::before(cursor.at.saturating_add(1)));
        }
        (None, _) => {}
    }
    let select = walk.select;
    let position = move |row: RowId| table.place(select, row);
    let rows = table.walk(walk.select, from, to);
    match walk.order {
        Order::OldestFirst => Box::new(rows.filter_map(position)),
        Order::NewestFirst => Box::new(Moments {
            rows: rows.rev().filter_map(position),
            held: None,
            moment: Vec::new(),
        }),
    }
}

/// Turns a list that runs backwards into one whose times run backwards, while the records of one
/// moment stay in the order in which they came.
struct Moments<I> {
    rows: I,
    /// The first row of the next moment.
    held: Option<Position>,
    /// The rows of this moment, the next one last.
    moment: Vec<Position>,
}

impl<I: Iterator<Item = Position>> Iterator for Moments<I> {
    type Item = Position;

    fn next(&mut self) -> Option<Position> {
        if let Some(position) = self.moment.pop() {
            return Some(position);
        }
        let first = self.held.take().or_else(|| self.rows.next())?;
        self.moment.push(first);
        for position in self.rows.by_ref() {
            if position.at != first.at {
                self.held = Some(position);
                break;
            }
            self.moment.push(position);
        }
        self.moment.pop()
    }
}
