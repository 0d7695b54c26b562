//! The rows of a table, one per key, with their lookup hashes and sort keys.

use std::sync::Arc;

use super::blob::{Out, Source};
use super::bytes::{Codec, In, fields};
use super::entry::{Entry, KeyHash, Loc, Sums};
use super::paged::{Item, Paged, per_block};
use super::shape::{Place, Shape};
use crate::line::{LOOKUPS_MAX, Op};

/// A row's index in its table. Rows are in the order in which this process read their first lines.
/// Another process may have another order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowId(pub u32);

impl RowId {
    /// Marks a removed row.
    pub(super) const GONE: RowId = RowId(u32::MAX);
}

/// A row's sort key: time or number, then [`Row::seq`]. It depends only on lines that compaction
/// keeps, so all processes have the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub at: i64,
    pub seq: u64,
    pub row: RowId,
}

impl Position {
    pub(crate) const FIRST: Position = Position::before(i64::MIN);
    /// After all rows.
    pub(crate) const END: Position = Position {
        at: i64::MAX,
        seq: u64::MAX,
        row: RowId(u32::MAX),
    };

    /// Just after the row with this time or number and sequence number.
    pub(crate) fn after(at: i64, seq: u64) -> Position {
        Position {
            seq: seq.saturating_add(1),
            ..Position::before(at)
        }
    }

    /// Before all rows with this time or number.
    pub(crate) const fn before(at: i64) -> Position {
        Position {
            at,
            seq: 0,
            row: RowId(0),
        }
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The sequence number of its latest assertion or, for a conversation, of its first line.
    pub seq: u64,
    /// The time of the same line, which is its position in lists by time.
    pub at: i64,
    pub(super) key_hash: u64,
    /// The latest assertion; [`Loc::NONE`] if only other lines of the key are known.
    pub asserted: Loc,
    /// The outcome that counts, or the latest step.
    pub done: Loc,
    pub(super) key_check: u32,
    /// The op of the outcome or step; before one, of the first line. For a conversation, it
    /// represents the status: [`status_state`](super::conversation_totals::status_state).
    pub state: Op,
    /// The state according to its latest assertion. Messages may override it in `state`.
    pub(super) said: Op,
    pub is_retracted: bool,
}

impl Row {
    fn new(entry: &Entry) -> Row {
        Row {
            seq: entry.seq,
            at: entry.at,
            key_hash: entry.key.hash,
            key_check: entry.key.check,
            asserted: Loc::NONE,
            done: Loc::NONE,
            state: entry.op,
            said: entry.op,
            is_retracted: false,
        }
    }

    /// Whether the row is live: ordinary reads return it.
    pub(crate) fn stands(&self) -> bool {
        self.asserted.is_some() && !self.is_retracted
    }

    pub(crate) fn key(&self) -> KeyHash {
        KeyHash {
            hash: self.key_hash,
            check: self.key_check,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Rows {
    pub(super) shape: Shape,
    all: Paged<Row>,
    /// As [`Entry::lookups`]: `shape.width` hashes per row.
    lookups: Paged<u32>,
    /// The second halves of these hashes, for shapes that have them.
    checks: Paged<u32>,
    /// [`Entry::number`] of each row, if anything is ordered by it.
    numbers: Paged<i64>,
}

impl Rows {
    pub(super) fn new(shape: Shape) -> Rows {
        Rows {
            shape,
            all: Paged::default(),
            lookups: Paged::default(),
            checks: Paged::default(),
            numbers: Paged::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = RowId> + use<> {
        (0..self.all.len() as u32).map(RowId)
    }

    pub(super) fn get(&self, id: RowId) -> Option<&Row> {
        self.all.get(id.0 as usize)
    }

    /// For a change of the row.
    pub(super) fn get_mut(&mut self, id: RowId) -> Option<&mut Row> {
        self.all.get_mut(id.0 as usize)
    }

    /// The row with this sequence number, or else the next one. Only for kinds whose first
    /// assertion counts: rows of other kinds are not sorted by sequence number.
    pub(super) fn first_from_seq(&self, seq: u64) -> RowId {
        let (mut start, mut end) = (0, self.all.len());
        while start < end {
            let middle = start.midpoint(end);
            if self.all.get(middle).is_some_and(|row| row.seq < seq) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        RowId(start as u32)
    }

    /// The sort key of a row.
    fn number(&self, order: Place, id: RowId) -> i64 {
        let place = id.0 as usize;
        match order {
            Place::Time => self.all.get(place).map_or(0, |row| row.at),
            Place::Number => self.numbers.get(place).copied().unwrap_or(0),
        }
    }

    /// The position of a row in an order.
    pub(super) fn position(&self, order: Place, row: RowId) -> Position {
        let seq = self.get(row).map_or(0, |row| row.seq);
        Position {
            at: self.number(order, row),
            seq,
            row,
        }
    }

    fn place_of(&self, id: RowId, field: usize) -> usize {
        id.0 as usize * self.shape.width + field
    }

    /// The hash of a row's lookup field. `field` is an index into [`Entry::lookups`].
    pub(super) fn lookup(&self, id: RowId, field: usize) -> u32 {
        let hash = self.lookups.get(self.place_of(id, field));
        hash.copied().unwrap_or(0)
    }

    pub(super) fn has_lookup(&self, id: RowId, field: usize, hash: u32) -> bool {
        field < self.shape.width && self.lookups.get(self.place_of(id, field)) == Some(&hash)
    }

    /// The second half of that hash; 0 for shapes that do not have it.
    pub(super) fn check(&self, id: RowId, field: usize) -> u32 {
        let check = self.checks.get(self.place_of(id, field));
        check.copied().unwrap_or(0)
    }

    pub(super) fn set_lookups(&mut self, id: RowId, entry: &Entry) {
        let hashes = entry.lookups.into_iter().zip(checks_of(entry));
        for (field, (hash, check)) in hashes.enumerate().take(self.shape.width) {
            let place = self.place_of(id, field);
            if self.lookups.get(place) != Some(&hash) {
                self.lookups.set(place, hash);
            }
            if self.shape.has_checks {
                self.checks.set(place, check);
            }
        }
    }

    pub(super) fn push(&mut self, entry: &Entry) -> RowId {
        let id = self.all.len() as u32;
        self.all.push(Row::new(entry));
        for hash in &entry.lookups[..self.shape.width] {
            self.lookups.push(*hash);
        }
        if self.shape.has_checks {
            for check in &checks_of(entry)[..self.shape.width] {
                self.checks.push(*check);
            }
        }
        if self.shape.has_numbers() {
            self.numbers.push(entry.number);
        }
        RowId(id)
    }

    /// A copy with only the rows that `stays` accepts.
    pub(super) fn retained(&self, stays: impl Fn(RowId) -> bool) -> Rows {
        let left: Vec<RowId> = self.ids().filter(|id| stays(*id)).collect();
        let fields = 0..self.shape.width;
        let places = left
            .iter()
            .flat_map(|id| fields.clone().map(|field| self.place_of(*id, field)));
        let all = left.iter().filter_map(|id| self.get(*id).copied());
        let lookups = places.clone().filter_map(|place| self.lookups.get(place));
        let checks = places.filter_map(|place| self.checks.get(place));
        let numbers = left.iter().filter_map(|id| self.numbers.get(id.0 as usize));
        Rows {
            shape: self.shape,
            all: Paged::of(all.collect()),
            lookups: Paged::of(lookups.copied().collect()),
            checks: Paged::of(checks.copied().collect()),
            numbers: Paged::of(numbers.copied().collect()),
        }
    }

    /// Reserves exact capacity for this many rows.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.all.reserve(rows);
        self.lookups.reserve(rows * self.shape.width);
        if self.shape.has_checks {
            self.checks.reserve(rows * self.shape.width);
        }
        if self.shape.has_numbers() {
            self.numbers.reserve(rows);
        }
    }
}

const ROW_BYTES: usize = 47;

fields!(Row, ROW_BYTES, seq at key_hash asserted done key_check state is_retracted said);

impl Item for Row {
    const PER_BLOCK: usize = per_block(256);
}

impl Rows {
    /// Drops what can be read again.
    pub(super) fn evict(&mut self) {
        self.all.evict();
        self.lookups.evict();
        self.checks.evict();
        self.numbers.evict();
    }

    /// Writes what `out` does not keep.
    pub(super) fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        self.all.dump(out, root);
        self.lookups.dump(out, root);
        self.checks.dump(out, root);
        self.numbers.dump(out, root);
    }

    pub(super) fn read(shape: Shape, root: &mut In<'_>, source: &Arc<Source>) -> Option<Rows> {
        let rows = Rows {
            shape,
            all: Paged::read(root, source)?,
            lookups: Paged::read(root, source)?,
            checks: Paged::read(root, source)?,
            numbers: Paged::read(root, source)?,
        };
        let len = rows.all.len();
        let hashes = len.checked_mul(shape.width)?;
        let is_right = len < u32::MAX as usize
            && rows.lookups.len() == hashes
            && rows.checks.len() == if shape.has_checks { hashes } else { 0 }
            && rows.numbers.len() == if shape.has_numbers() { len } else { 0 };
        is_right.then_some(rows)
    }
}

fn checks_of(entry: &Entry) -> [u32; LOOKUPS_MAX] {
    match entry.sums.as_deref() {
        Some(Sums::Conversation(said)) => said.checks,
        _ => [0; LOOKUPS_MAX],
    }
}
