//! The rows of one kind: one row a key, found by the key's hash and through postings.

use std::collections::HashMap;

use hashbrown::HashTable;

use super::entry::{Entry, KeyHash, Loc};
use super::postings::{Position, Postings};
use super::shape::{Place, Shape, Which};
use crate::line::Op;
use crate::record::Kind;

/// A row's place in its table. Rows are in the order of their first lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowId(pub u32);

/// One record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Of its first line.
    pub seq: u64,
    /// Of its latest assertion: where it stands in lists by time.
    pub at: i64,
    key_hash: u64,
    /// The latest assertion; [`Loc::NONE`] while only other lines of the key are known.
    pub asserted: Loc,
    /// The outcome that stands, or the latest step.
    pub done: Loc,
    key_check: u32,
    /// The op of the outcome or step; before one, of the first line.
    pub state: Op,
    pub is_retracted: bool,
}

impl Row {
    /// Whether plain reads show it.
    pub(crate) fn stands(&self) -> bool {
        self.asserted.is_some() && !self.is_retracted
    }

    fn key(&self) -> KeyHash {
        KeyHash {
            hash: self.key_hash,
            check: self.key_check,
        }
    }
}

/// Which list of a table to walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Select {
    /// All rows that stand.
    All,
    /// Those whose lookup field, by its place in [`Entry::lookups`], has this hash.
    Lookup(usize, u32),
    /// Those that stand at this op.
    State(Op),
}

#[derive(Debug)]
pub(crate) struct Table {
    shape: Shape,
    rows: Vec<Row>,
    /// What the rows are found by, as in [`Entry::lookups`]: `shape.width` hashes a row.
    lookups: Vec<u32>,
    /// [`Entry::number`] of each row, where anything is in its order.
    numbers: Vec<i64>,
    number_max: i64,
    by_key: HashTable<u32>,
    /// Every row that stands, under hash 0.
    all: Postings,
    /// In the order of `shape.posted`.
    by_lookup: Vec<Postings>,
    by_state: Postings,
    /// The assertions and retractions of a row that has more than one, in order. Few have.
    history: HashMap<RowId, Vec<Loc>>,
}

impl Table {
    pub(crate) fn new(kind: Kind) -> Table {
        let shape = Shape::of(kind);
        Table {
            shape,
            rows: Vec::new(),
            lookups: Vec::new(),
            numbers: Vec::new(),
            number_max: 0,
            by_key: HashTable::new(),
            all: Postings::default(),
            by_lookup: shape.posted.iter().map(|_| Postings::default()).collect(),
            by_state: Postings::default(),
            history: HashMap::new(),
        }
    }

    pub(crate) fn row(&self, id: RowId) -> Option<&Row> {
        self.rows.get(id.0 as usize)
    }

    /// The rows whose key may be the one with this hash; the line tells.
    pub(crate) fn find(&self, key: KeyHash) -> Option<RowId> {
        let is_it = |id: &u32| {
            self.rows
                .get(*id as usize)
                .is_some_and(|row| row.key() == key)
        };
        self.by_key.find(key.hash, is_it).map(|id| RowId(*id))
    }

    /// The row whose first line has this sequence number, or the first one after it.
    pub(crate) fn row_from_seq(&self, seq: u64) -> RowId {
        RowId(self.rows.partition_point(|row| row.seq < seq) as u32)
    }

    /// How many rows stand.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The greatest number of any row, at least 0.
    pub(crate) fn number_max(&self) -> i64 {
        self.number_max
    }

    /// The assertions and retractions of a row, in order, if it has more than one.
    pub(crate) fn history(&self, id: RowId) -> Option<&[Loc]> {
        self.history.get(&id).map(Vec::as_slice)
    }

    /// The rows that have a history.
    pub(crate) fn rows_with_history(&self) -> impl Iterator<Item = RowId> {
        self.history.keys().copied()
    }

    /// Where a row stands in a list.
    pub(crate) fn place(&self, select: Select, id: RowId) -> Option<Position> {
        let order = match select {
            Select::Lookup(..) => self.shape.lookup_order,
            Select::All | Select::State(_) => self.shape.order,
        };
        self.position(order, id)
    }

    fn position(&self, order: Place, id: RowId) -> Option<Position> {
        let at = match order {
            Place::Time => self.row(id)?.at,
            Place::Number => *self.numbers.get(id.0 as usize)?,
        };
        Some(Position { at, row: id })
    }

    fn lookups_of(&self, id: RowId) -> &[u32] {
        let start = id.0 as usize * self.shape.width;
        self.lookups
            .get(start..start + self.shape.width)
            .unwrap_or_default()
    }

    /// Whether a lookup field of a row, by its place in [`Entry::lookups`], has this hash.
    pub(crate) fn has_lookup(&self, id: RowId, field: usize, hash: u32) -> bool {
        self.lookups_of(id).get(field) == Some(&hash)
    }

    /// Rows that stand, in the list's order, from one position (included) to another (not).
    pub(crate) fn walk(
        &self,
        select: Select,
        from: Position,
        to: Position,
    ) -> Box<dyn DoubleEndedIterator<Item = RowId> + '_> {
        match select {
            Select::All => Box::new(self.all.range(0, from, to)),
            Select::Lookup(field, hash) => match self.posted(field) {
                Some(postings) => Box::new(postings.range(hash, from, to)),
                None => Box::new(
                    self.all
                        .range(0, from, to)
                        .filter(move |id| self.has_lookup(*id, field, hash)),
                ),
            },
            Select::State(state) => match self.shape.usual_state {
                Some(usual) if usual != state => {
                    Box::new(self.by_state.range(state as u32, from, to))
                }
                _ => Box::new(
                    self.all
                        .range(0, from, to)
                        .filter(move |id| self.row(*id).is_some_and(|row| row.state == state)),
                ),
            },
        }
    }

    fn posted(&self, field: usize) -> Option<&Postings> {
        let place = self.shape.posted.iter().position(|posted| *posted == field);
        self.by_lookup.get(place?)
    }

    /// Takes a line in; whether it is the first of its key.
    pub(super) fn apply(&mut self, entry: &Entry) -> bool {
        let known = self.find(entry.key);
        // An outcome moves the row in no list but that of its state.
        let moves = known.is_none() || effect(entry) != Effect::Step;
        if let Some(id) = known {
            self.post(id, moves, false);
        }
        let (id, is_new) = self.apply_unposted(entry);
        self.post(id, moves, true);
        is_new
    }

    /// Takes a line in, but for the postings.
    pub(super) fn apply_unposted(&mut self, entry: &Entry) -> (RowId, bool) {
        self.number_max = self.number_max.max(entry.number);
        let known = self.find(entry.key);
        let id = known.unwrap_or_else(|| self.push(entry));
        let row = &mut self.rows[id.0 as usize];
        let effect = effect(entry);
        if effect == Effect::Step {
            if !row.done.is_some() || self.shape.outcome == Which::Last {
                row.state = entry.op;
                row.done = entry.loc;
            }
            return (id, known.is_none());
        }
        let is_first = !row.asserted.is_some() && !row.is_retracted;
        if self.shape.has_history && !(is_first && effect == Effect::Assert) {
            let first = row.asserted;
            let history = self
                .history
                .entry(id)
                .or_insert_with(|| Vec::from_iter(first.is_some().then_some(first)));
            history.push(entry.loc);
        }
        if self.shape.assertion == Which::First && !is_first {
            return (id, false);
        }
        row.is_retracted = effect == Effect::Retract;
        if !row.is_retracted {
            // A conversation stands where it began.
            if entry.op != Op::Updated || is_first {
                row.at = entry.at;
            }
            row.asserted = entry.loc;
            if !row.done.is_some() {
                row.state = entry.op;
            }
            let start = id.0 as usize * self.shape.width;
            self.lookups[start..start + self.shape.width]
                .copy_from_slice(&entry.lookups[..self.shape.width]);
        }
        (id, known.is_none())
    }

    fn push(&mut self, entry: &Entry) -> RowId {
        let id = self.rows.len() as u32;
        self.rows.push(Row {
            seq: entry.seq,
            at: entry.at,
            key_hash: entry.key.hash,
            key_check: entry.key.check,
            asserted: Loc::NONE,
            done: Loc::NONE,
            state: entry.op,
            is_retracted: false,
        });
        self.lookups
            .extend_from_slice(&entry.lookups[..self.shape.width]);
        if [self.shape.order, self.shape.lookup_order].contains(&Place::Number) {
            self.numbers.push(entry.number);
        }
        let rows = &self.rows;
        self.by_key.insert_unique(entry.key.hash, id, |id| {
            rows.get(*id as usize).map_or(0, |row| row.key_hash)
        });
        RowId(id)
    }

    /// Adds or removes the postings that the row has as it is now: that of its state and, if it
    /// `moves`, all others.
    fn post(&mut self, id: RowId, moves: bool, add: bool) {
        let Some(row) = self.row(id).copied().filter(Row::stands) else {
            return;
        };
        let Shape {
            order,
            lookup_order,
            usual_state,
            posted,
            ..
        } = self.shape;
        let places = (self.position(order, id), self.position(lookup_order, id));
        let (Some(position), Some(lookup_position)) = places else {
            return;
        };
        let change = |postings: &mut Postings, hash, position| {
            if add {
                postings.insert(hash, position);
            } else {
                postings.remove(hash, position);
            }
        };
        if usual_state.is_some_and(|usual| usual != row.state) {
            change(&mut self.by_state, row.state as u32, position);
        }
        if !moves {
            return;
        }
        change(&mut self.all, 0, position);
        for (place, field) in posted.iter().enumerate() {
            let hash = self.lookups_of(id)[*field];
            if self.shape.posts(*field, hash) {
                change(&mut self.by_lookup[place], hash, lookup_position);
            }
        }
    }

    /// Makes all postings anew, and gives spare room back.
    pub(super) fn post_all(&mut self) {
        self.rows.shrink_to_fit();
        self.lookups.shrink_to_fit();
        self.numbers.shrink_to_fit();
        let Shape {
            order,
            lookup_order,
            usual_state,
            posted,
            ..
        } = self.shape;
        let table = &*self;
        let standing = |order| {
            let ids = (0..table.rows.len() as u32).map(RowId);
            ids.filter(|id| table.row(*id).is_some_and(Row::stands))
                .filter_map(move |id| table.position(order, id))
        };
        let all = Postings::from_unsorted(standing(order).map(|position| (0, position)));
        let under = |field: &usize| {
            let hashes = standing(lookup_order)
                .map(|position| (table.lookups_of(position.row)[*field], position));
            Postings::from_unsorted(hashes.filter(|(hash, _)| table.shape.posts(*field, *hash)))
        };
        let by_lookup = posted.iter().map(under).collect();
        let unusual = standing(order).filter_map(|position| {
            let state = table.row(position.row)?.state;
            usual_state
                .is_some_and(|usual| usual != state)
                .then_some((state as u32, position))
        });
        let by_state = Postings::from_unsorted(unusual);
        self.all = all;
        self.by_lookup = by_lookup;
        self.by_state = by_state;
    }
}

/// What a line does to its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Assert,
    Retract,
    /// An outcome, or a step of a lifecycle.
    Step,
}

fn effect(entry: &Entry) -> Effect {
    match entry.op {
        Op::Retracted => Effect::Retract,
        Op::Completed
        | Op::Failed
        | Op::Approved
        | Op::Denied
        | Op::Applied
        | Op::Reverted
        | Op::InProgress
        | Op::Done => Effect::Step,
        // Given back to the queue: such a line does not say what the task is.
        Op::Queued if entry.lookups[0] == 0 => Effect::Step,
        Op::Asserted
        | Op::Requested
        | Op::Pending
        | Op::Created
        | Op::Updated
        | Op::Added
        | Op::Logged
        | Op::Queued
        | Op::Recorded => Effect::Assert,
    }
}
