//! The rows of a table, one per key, with their lookup hashes and sort keys.

use super::bytes::{Codec, In, fields};
use super::entry::{Entry, KeyHash, Loc, Sums};
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
    all: Vec<Row>,
    /// As [`Entry::lookups`]: `shape.width` hashes per row.
    lookups: Vec<u32>,
    /// The second halves of these hashes, for shapes that have them.
    checks: Vec<u32>,
    /// [`Entry::number`] of each row, if anything is ordered by it.
    numbers: Vec<i64>,
}

impl Rows {
    pub(super) fn new(shape: Shape) -> Rows {
        Rows {
            shape,
            all: Vec::new(),
            lookups: Vec::new(),
            checks: Vec::new(),
            numbers: Vec::new(),
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

    pub(super) fn get_mut(&mut self, id: RowId) -> &mut Row {
        &mut self.all[id.0 as usize]
    }

    /// The row with this sequence number, or else the next one. Only for kinds whose first
    /// assertion counts: rows of other kinds are not sorted by sequence number.
    pub(super) fn first_from_seq(&self, seq: u64) -> RowId {
        RowId(self.all.partition_point(|row| row.seq < seq) as u32)
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

    fn lookups_of(&self, id: RowId) -> std::ops::Range<usize> {
        let start = id.0 as usize * self.shape.width;
        start..start + self.shape.width
    }

    /// The hash of a row's lookup field. `field` is an index into [`Entry::lookups`].
    pub(super) fn lookup(&self, id: RowId, field: usize) -> u32 {
        self.lookups[self.lookups_of(id)][field]
    }

    pub(super) fn has_lookup(&self, id: RowId, field: usize, hash: u32) -> bool {
        let hashes = self.lookups.get(self.lookups_of(id)).unwrap_or_default();
        hashes.get(field) == Some(&hash)
    }

    /// The second half of that hash; 0 for shapes that do not have it.
    pub(super) fn check(&self, id: RowId, field: usize) -> u32 {
        let checks = self.checks.get(self.lookups_of(id)).unwrap_or_default();
        checks.get(field).copied().unwrap_or(0)
    }

    pub(super) fn set_lookups(&mut self, id: RowId, entry: &Entry) {
        let place = self.lookups_of(id);
        if let Some(checks) = self.checks.get_mut(place.clone()) {
            checks.copy_from_slice(&checks_of(entry)[..self.shape.width]);
        }
        self.lookups[place].copy_from_slice(&entry.lookups[..self.shape.width]);
    }

    pub(super) fn push(&mut self, entry: &Entry) -> RowId {
        let id = self.all.len() as u32;
        self.all.push(Row::new(entry));
        self.lookups
            .extend_from_slice(&entry.lookups[..self.shape.width]);
        if self.shape.has_checks {
            let checks = checks_of(entry);
            self.checks.extend_from_slice(&checks[..self.shape.width]);
        }
        if self.shape.has_numbers() {
            self.numbers.push(entry.number);
        }
        RowId(id)
    }

    /// A copy with only the rows that `stays` accepts.
    pub(super) fn retained(&self, stays: impl Fn(RowId) -> bool) -> Rows {
        let left: Vec<RowId> = self.ids().filter(|id| stays(*id)).collect();
        let place = |id: &RowId| id.0 as usize;
        let lookups = left
            .iter()
            .flat_map(|id| &self.lookups[self.lookups_of(*id)]);
        let checked = left.iter().filter(|_| self.shape.has_checks);
        let checks = checked.flat_map(|id| &self.checks[self.lookups_of(*id)]);
        let numbered = left.iter().filter(|_| self.shape.has_numbers());
        Rows {
            shape: self.shape,
            all: left.iter().map(|id| self.all[place(id)]).collect(),
            lookups: lookups.copied().collect(),
            checks: checks.copied().collect(),
            numbers: numbered.map(|id| self.numbers[place(id)]).collect(),
        }
    }

    /// Reserves exact capacity for this many rows.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.all.reserve_exact(rows);
        self.lookups.reserve_exact(rows * self.shape.width);
        if self.shape.has_checks {
            self.checks.reserve_exact(rows * self.shape.width);
        }
        if self.shape.has_numbers() {
            self.numbers.reserve_exact(rows);
        }
    }
}

const ROW_BYTES: usize = 48;

fields!(Row, ROW_BYTES - 1, seq at key_hash asserted done key_check state is_retracted said);

impl Rows {
    pub(super) fn dump(&self, out: &mut Vec<u8>) {
        (self.all.len() as u64).encode(out);
        for row in &self.all {
            row.encode(out);
            // Makes it a multiple of a word.
            0u8.encode(out);
        }
        for hash in self.lookups.iter().chain(&self.checks) {
            hash.encode(out);
        }
        for number in &self.numbers {
            number.encode(out);
        }
    }
}

fn checks_of(entry: &Entry) -> [u32; LOOKUPS_MAX] {
    match entry.sums.as_deref() {
        Some(Sums::Conversation(said)) => said.checks,
        _ => [0; LOOKUPS_MAX],
    }
}

/// The rows in a dump.
pub(super) struct LaidRows<'a> {
    all: &'a [[u8; ROW_BYTES]],
    lookups: &'a [[u8; 4]],
    checks: &'a [[u8; 4]],
    numbers: &'a [[u8; 8]],
}

impl<'a> LaidRows<'a> {
    pub(super) fn read(shape: Shape, from: &mut In<'a>) -> Option<LaidRows<'a>> {
        let len = from
            .count(ROW_BYTES)
            .filter(|len| *len < u32::MAX as usize)?;
        let all = from.items(len)?;
        let lookups = from.items(len * shape.width)?;
        let has_checks = shape.has_checks;
        let checks = from.items(if has_checks { len * shape.width } else { 0 })?;
        let numbers = from.items(if shape.has_numbers() { len } else { 0 })?;
        Some(LaidRows {
            all,
            lookups,
            checks,
            numbers,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn load(&self, shape: Shape, segments: u32) -> Option<Rows> {
        let mut all = Vec::with_capacity(self.all.len());
        for bytes in self.all {
            all.push(Row::decode(&mut In { bytes, segments })?);
        }
        let hash = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        let number = |bytes: &[u8; 8]| i64::from_le_bytes(*bytes);
        Some(Rows {
            shape,
            all,
            lookups: self.lookups.iter().map(hash).collect(),
            checks: self.checks.iter().map(hash).collect(),
            numbers: self.numbers.iter().map(number).collect(),
        })
    }
}
