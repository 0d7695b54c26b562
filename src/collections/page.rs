//! Lists: their order, their pages, and the walk that makes one.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::index::{Position, RowId, Select, Table};

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

/// A record that a walk came by, with its time; `None` if it is not to be listed.
type Seen<T> = Result<Option<(i64, T)>>;

/// Makes a page: `read` gets rows that may belong on it and says whether they do.
pub(super) fn page<T>(
    table: &Table,
    walk: Walk,
    mut read: impl FnMut(RowId) -> Seen<T>,
) -> Result<Page<T>> {
    let mut page = Page {
        items: Vec::new(),
        next: None,
    };
    if walk.limit == 0 {
        return Ok(page);
    }
    // Rows with a past are looked at one by one where the past is asked for: the index knows
    // only where they stand now. There are few.
    let mut revived = Vec::new();
    if walk.as_of.is_some() {
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
    }
    let mut revived = revived.into_iter().peekable();
    let mut current = ordered(table, walk).peekable();
    let comes_first = |a: Position, b: Position| match walk.order {
        Order::OldestFirst => a < b,
        Order::NewestFirst => (b.at, a.row) < (a.at, b.row),
    };
    let after = walk.after.map(|cursor| {
        // The cursor's row is the last one that is not after it.
        let next_row = table.row_from_seq(cursor.seq.saturating_add(1));
        Position {
            at: cursor.at,
            row: next_row,
        }
    });
    let is_after = |position: Position| after.is_none_or(|after| !comes_first(position, after));
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
            let has_past = walk.as_of.is_some() && table.history(position.row).is_some();
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
        last = table.row(position.row).map(|row| Cursor {
            at: position.at,
            seq: row.seq,
        });
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
