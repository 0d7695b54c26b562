//! Lists: ordering, pagination, and the index walk that fills a page.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use super::as_of::assertion;
use super::seqs::read_each;
use crate::error::{Error, Result};
use crate::index::{KeyHash, Position, RowId, Select, Table};
use crate::record::{Kind, words};
use crate::store::{Inner, ReadAhead, Reads, Snapshot, Watermark};

/// Default number of records of a page.
pub const PAGE_LIMIT: usize = 100;
/// Maximum number of records in a page over HTTP or MCP.
#[cfg(feature = "wire")]
pub const PAGE_LIMIT_MAX: usize = 1_000;

words! {
    /// The order of a list, by the records' own time or by the ids that the log assigned. Records
    /// with the same time are in the order in which their current versions were recorded;
    /// conversations, in the order in which they were first recorded.
    Order ("order") {
        /// Earliest first.
        OldestFirst = "asc",
        /// Latest first.
        NewestFirst = "desc",
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// The cursor of the next page, if the limit ended this one.
    pub next: Option<Cursor>,
}

/// A position in a list, after a record. It stays valid while records are added or removed, while
/// the log is compacted, and in every process.
///
/// ```
/// let cursor: decklog::query::Cursor = "1766832000123-42".parse()?;
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
                    "{text:?} is not a cursor: give one that a list returned"
                ))
            })
    }
}

#[cfg(feature = "wire")]
impl<'de> serde::Deserialize<'de> for Cursor {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Cursor, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        let cursor = text.parse::<Cursor>();
        cursor.map_err(|e| serde::de::Error::custom(e.reason()))
    }
}

#[cfg(feature = "wire")]
impl utoipa::PartialSchema for Cursor {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .pattern(Some("^[0-9]{1,18}-[0-9]{1,18}$"))
            .into()
    }
}

#[cfg(feature = "wire")]
impl utoipa::ToSchema for Cursor {}

/// Number of rows taken from the index before their lines are read.
pub(super) const ROWS_AT_A_TIME: usize = 128;

/// How long rows are walked before the lock is released for writers.
const PART: Duration = Duration::from_micros(200);

/// Number of rows walked between two looks at the clock.
const ROWS_UNTIMED: usize = 32;

/// When to end a part of a walk. The store is locked against writers during a part.
pub(super) struct PartEnd {
    at: Instant,
    rows: usize,
}

impl PartEnd {
    pub(super) fn new() -> PartEnd {
        PartEnd {
            at: Instant::now() + PART,
            rows: 0,
        }
    }

    /// Whether the part ends with this row. `is_read`: its line was read; otherwise only the index
    /// was consulted.
    pub(super) fn has_come(&mut self, is_read: bool) -> bool {
        self.rows += 1;
        (is_read || self.rows.is_multiple_of(ROWS_UNTIMED)) && Instant::now() >= self.at
    }
}

/// The parameters of a list, whatever it lists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    pub select: Select,
    /// Lower bound, inclusive: a time, or a number if the table is ordered by number.
    pub since: i64,
    /// Upper bound, exclusive.
    pub until: i64,
    pub order: Order,
    pub limit: usize,
    /// The page ends with the line that brings the length of its lines to this number of bytes.
    pub bytes_max: usize,
    pub after: Option<Cursor>,
    /// List the state as of this time.
    pub as_of: Option<i64>,
}

impl Walk {
    /// A walk without bounds.
    pub(super) fn all(order: Order, limit: usize, after: Option<Cursor>) -> Walk {
        Walk {
            select: Select::All,
            since: i64::MIN,
            until: i64::MAX,
            order,
            limit,
            bytes_max: usize::MAX,
            after,
            as_of: None,
        }
    }

    /// As this walk, over the rows that the index selects.
    pub(super) fn of(self, select: Select) -> Walk {
        Walk { select, ..self }
    }

    /// As this walk, with the bounds that are given.
    pub(super) fn within(self, since: Option<i64>, until: Option<i64>) -> Walk {
        Walk {
            since: since.unwrap_or(self.since),
            until: until.unwrap_or(self.until),
            ..self
        }
    }
}

/// A record that a walk reached, with its time; `None` if it is not to be listed.
type Seen<T> = Result<Option<(i64, T)>>;

/// Makes a page. Of the rows that `passes` accepts from the index alone, `read` reads the lines and
/// decides whether they are listed. The lock is released after every few rows, so records that
/// writers add meanwhile may be on the page.
pub(super) fn page<T>(
    inner: &Inner,
    kind: Kind,
    walk: Walk,
    passes: impl Fn(&Table, RowId) -> bool,
    read: impl Fn(&Snapshot<'_>, RowId) -> Seen<T>,
) -> Result<Page<T>> {
    let mut page = Page {
        items: Vec::new(),
        next: None,
    };
    if walk.limit == 0 {
        return Ok(page);
    }
    let mut revived = with_past(inner, kind, walk, &read)?.into_iter().peekable();
    let mut last = None;
    let mut add = |(cursor, item): (Cursor, T), limit: usize| {
        if page.items.len() >= limit {
            page.next = last;
            return Err(());
        }
        last = Some(cursor);
        page.items.push(item);
        Ok(page.items.len())
    };
    let (mut limit, mut len) = (walk.limit, 0);
    let (mut part_walk, mut ahead) = (walk, ReadAhead::new());
    let batch = RefCell::new(Batch::default());
    'all: loop {
        // One extra item shows whether there is another page.
        part_walk.limit = (limit - len).saturating_add(1);
        let part = inner.with_snapshot_ahead(&mut ahead, |view| {
            let mut batch = batch.borrow_mut();
            part(view, kind, part_walk, &mut batch, &passes, &read)
        })?;
        for item in part.items {
            let rank = |cursor| rank(walk.order, cursor);
            let comes_first = |(before, _): &(Cursor, T)| rank(*before) < rank(item.0);
            while let Some(item) = revived.next_if(comes_first) {
                if add(item, limit).is_err() {
                    break 'all;
                }
            }
            match add(item, limit) {
                Ok(added) => len = added,
                Err(()) => break 'all,
            }
        }
        part_walk.bytes_max = part_walk.bytes_max.saturating_sub(part.bytes);
        if part_walk.bytes_max == 0 && len > 0 {
            limit = limit.min(len);
        }
        if part.seen.is_none() {
            let _full = revived.try_for_each(|item| add(item, limit).map(|_| ()));
            break;
        }
        part_walk.after = part.seen;
    }
    Ok(page)
}

/// The result of one part of a walk.
struct Part<T> {
    items: Vec<(Cursor, T)>,
    /// Length of the lines that were read, in bytes.
    bytes: usize,
    /// The row after which the walk continues, if it does.
    seen: Option<Cursor>,
}

/// The next rows of a walk. They are valid until something changes in the log.
#[derive(Default)]
struct Batch {
    rows: Vec<Position>,
    /// The row after which the walk continues, if it does.
    until: Option<Cursor>,
    watermark: Option<Watermark>,
}

impl Batch {
    /// Walks the index until there are enough rows or the time of a part is over.
    fn walk(
        view: &Snapshot<'_>,
        kind: Kind,
        walk: Walk,
        end: &mut PartEnd,
        passes: impl Fn(&Table, RowId) -> bool,
    ) -> Batch {
        let table = view.table(kind);
        // When listing as of a past time, `with_past` handles the rows with a history.
        let is_listed = |row| walk.as_of.is_none() || table.history(row).is_none();
        let at_a_time = walk.limit.min(ROWS_AT_A_TIME);
        let mut batch = Batch {
            watermark: Some(view.watermark()),
            ..Batch::default()
        };
        for position in ordered(table, walk) {
            if is_listed(position.row) && passes(table, position.row) {
                batch.rows.push(position);
            }
            if batch.rows.len() == at_a_time || end.has_come(false) {
                batch.until = Some(cursor_at(position));
                break;
            }
        }
        batch
    }
}

/// Walks rows until the time of a part is over. Lines that are adjacent in the file are read
/// together. `batch` keeps the rows while their first line is read without the lock.
fn part<T>(
    view: &Snapshot<'_>,
    kind: Kind,
    walk: Walk,
    batch: &mut Batch,
    passes: impl Fn(&Table, RowId) -> bool,
    read: impl Fn(&Snapshot<'_>, RowId) -> Seen<T>,
) -> Result<Part<T>> {
    let mut end = PartEnd::new();
    if batch.watermark != Some(view.watermark()) {
        *batch = Batch::walk(view, kind, walk, &mut end, passes);
        view.expect(kind, batch.rows.iter().map(|position| position.row));
    }
    let mut items = Vec::with_capacity(batch.rows.len());
    let (mut last, mut seen) = (None, batch.until);
    for position in batch.rows.iter().copied() {
        let item = match read(view, position.row) {
            // The next line is not in memory: end this part so that it is read ahead without the
            // lock.
            Err(_) if view.lacks_lines() && last.is_some() => {
                seen = last;
                break;
            }
            item => item?,
        };
        let cursor = cursor_at(position);
        last = Some(cursor);
        items.extend(item.map(|(_, item)| (cursor, item)));
        let is_full = items.len() == walk.limit || view.bytes_read() >= walk.bytes_max;
        if is_full || end.has_come(true) {
            seen = last;
            break;
        }
    }
    batch.watermark = None;
    let bytes = view.bytes_read();
    Ok(Part { items, bytes, seen })
}

pub(super) fn cursor_at(position: Position) -> Cursor {
    let Position { at, seq, .. } = position;
    Cursor { at, seq }
}

/// Sorts cursors in an order.
fn rank(order: Order, Cursor { at, seq }: Cursor) -> (i64, u64) {
    match order {
        Order::OldestFirst => (at, seq),
        // As -`at`, which may overflow.
        Order::NewestFirst => (!at, seq),
    }
}

/// The items as of a past time among the rows with a history. The index has only the current state
/// of those rows, so each must be read. There are few.
fn with_past<T>(
    inner: &Inner,
    kind: Kind,
    walk: Walk,
    read: impl Fn(&Snapshot<'_>, RowId) -> Seen<T>,
) -> Result<Vec<(Cursor, T)>> {
    let Some(as_of) = walk.as_of else {
        return Ok(Vec::new());
    };
    // Row ids change when rows are removed, so the rows are kept by key.
    let keys: Vec<KeyHash> = inner.with_snapshot(|view| {
        let table = view.table(kind);
        let rows = table.rows_with_history();
        Ok(rows.filter_map(|row| Some(table.row(row)?.key())).collect())
    })?;
    let stood = |view: &Snapshot<'_>, row| {
        let Some(stood) = assertion(view, kind, row, as_of)? else {
            return Ok(None);
        };
        let seq = stood.seq.unwrap_or(0);
        Ok(read(view, row)?.map(|(at, item)| (Cursor { at, seq }, item)))
    };
    let mut found = Vec::new();
    read_each(inner, kind, &keys, Table::find, stood, |item| {
        found.push(item);
        Ok(())
    })?;
    let rank = |cursor| rank(walk.order, cursor);
    let is_after = |cursor| walk.after.is_none_or(|after| rank(after) < rank(cursor));
    found.retain(|(cursor, _)| (walk.since..walk.until).contains(&cursor.at) && is_after(*cursor));
    found.sort_by_key(|(cursor, _)| rank(*cursor));
    Ok(found)
}

/// The rows that the index selects, after the walk's cursor, in the order asked for.
pub(super) fn ordered(table: &Table, walk: Walk) -> Box<dyn Iterator<Item = Position> + '_> {
    let until = walk
        .as_of
        .map_or(walk.until, |as_of| walk.until.min(as_of.saturating_add(1)));
    let (mut from, mut to) = (Position::before(walk.since), Position::before(until));
    if until == i64::MAX {
        to = Position::END;
    }
    let select = walk.select;
    let position = move |row: RowId| table.place(select, row);
    // The row of the cursor is the last one that is not after it.
    let after = walk
        .after
        .map(|cursor| Position::after(cursor.at, cursor.seq));
    if walk.order == Order::OldestFirst {
        from = after.map_or(from, |after| from.max(after));
        return Box::new(table.walk(select, from, to).filter_map(position));
    }
    // Rows with the same time as the cursor continue in the order in which they were recorded.
    let rest = after.map(|after| {
        let end = to.min(Position::before(after.at.saturating_add(1)));
        to = to.min(Position::before(after.at));
        table.walk(select, from.max(after), end)
    });
    let rows = table.walk(select, from, to).rev().filter_map(position);
    let (mut rows, mut moment) = (rows.peekable(), Vec::new());
    // Reversed by time, but records with equal times stay in the order in which they were recorded.
    let earlier = std::iter::from_fn(move || {
        if moment.is_empty() {
            moment.extend(rows.next());
            let at = moment.first().map(|first: &Position| first.at);
            moment.extend(std::iter::from_fn(|| {
                rows.next_if(|row| Some(row.at) == at)
            }));
        }
        moment.pop()
    });
    Box::new(
        rest.into_iter()
            .flatten()
            .filter_map(position)
            .chain(earlier),
    )
}
