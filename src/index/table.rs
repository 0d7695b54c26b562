//! The rows of one kind: one row a key, found by the key's hash and through postings.

use std::collections::HashMap;

use hashbrown::HashTable;

use super::entry::{Entry, KeyHash, Loc};
use super::postings::{Position, Postings};
use crate::line::Op;
use crate::record::Kind;

/// A row's place in its table. Rows are in the order of their first lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowId(pub u32);

/// Where a record stands, as far as lists need to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallState {
    /// Asserted or requested.
    Open,
    Completed,
    Failed,
}

/// One record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Of its first line.
    pub seq: u64,
    /// Of its latest assertion: where it stands in lists.
    pub at: i64,
    pub key: KeyHash,
    /// What the record is found by, as in [`Entry::lookups`].
    pub lookups: [u32; 3],
    /// The latest assertion; [`Loc::NONE`] while only other lines of the key are known.
    pub asserted: Loc,
    /// The outcome that stands.
    pub done: Loc,
    pub state: CallState,
    pub is_retracted: bool,
}

impl Row {
    /// Whether plain reads show it.
    pub(crate) fn stands(&self) -> bool {
        self.asserted.is_some() && !self.is_retracted
    }
}

/// Which list of a table to walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Select {
    /// All rows that stand.
    All,
    /// Those whose lookup field, by its place in [`Entry::lookups`], has this hash.
    Lookup(usize, u32),
    /// Calls that are open or failed: few, among many that completed.
    State(CallState),
}

#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Row>,
    by_key: HashTable<u32>,
    /// Every row that stands, under hash 0.
    by_time: Postings,
    /// Rows by the lookup fields that have few rows a value. Others are found by walking
    /// `by_time` with an eye on `Row::lookups`.
    by_lookup: [Option<Postings>; 3],
    by_state: Option<Postings>,
    /// The assertions and retractions of a row that has more than one, in order. Few have.
    history: HashMap<RowId, Vec<Loc>>,
}

impl Table {
    pub(crate) fn new(kind: Kind) -> Table {
        let posted = |posted: bool| posted.then(Postings::default);
        let is_calls = kind == Kind::ToolCalls;
        Table {
            rows: Vec::new(),
            by_key: HashTable::new(),
            by_time: Postings::default(),
            // Calls: parent, vendor, tool. Turns: parent, message, thread.
            by_lookup: [posted(true), posted(!is_calls), posted(true)],
            by_state: posted(is_calls),
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
                .is_some_and(|row| row.key == key)
        };
        self.by_key.find(key.hash, is_it).map(|id| RowId(*id))
    }

    /// The row whose first line has this sequence number, or the first one after it.
    pub(crate) fn row_from_seq(&self, seq: u64) -> RowId {
        RowId(self.rows.partition_point(|row| row.seq < seq) as u32)
    }

    /// The assertions and retractions of a row, in order, if it has more than one.
    pub(crate) fn history(&self, id: RowId) -> Option<&[Loc]> {
        self.history.get(&id).map(Vec::as_slice)
    }

    /// The rows that have a history.
    pub(crate) fn rows_with_history(&self) -> impl Iterator<Item = RowId> {
        self.history.keys().copied()
    }

    /// Rows that stand, in time order, from one position (included) to another (not).
    pub(crate) fn walk(
        &self,
        select: Select,
        from: Position,
        to: Position,
    ) -> Box<dyn DoubleEndedIterator<Item = RowId> + '_> {
        match select {
            Select::All => Box::new(self.by_time.range(0, from, to)),
            Select::Lookup(field, hash) => match self.by_lookup.get(field) {
                Some(Some(postings)) => Box::new(postings.range(hash, from, to)),
                _ => Box::new(self.by_time.range(0, from, to).filter(move |id| {
                    self.row(*id)
                        .is_some_and(|row| row.lookups.get(field) == Some(&hash))
                })),
            },
            Select::State(state) => match &self.by_state {
                Some(postings) if state != CallState::Completed => {
                    Box::new(postings.range(state as u32, from, to))
                }
                _ => Box::new(
                    self.by_time
                        .range(0, from, to)
                        .filter(move |id| self.row(*id).is_some_and(|row| row.state == state)),
                ),
            },
        }
    }

    pub(super) fn apply(&mut self, entry: &Entry) {
        // An outcome moves the row in no list but that of its state.
        let moves = !matches!(entry.op, Op::Completed | Op::Failed);
        if let Some(id) = self.find(entry.key) {
            self.post(id, moves, false);
        }
        let id = self.apply_unposted(entry);
        self.post(id, moves, true);
    }

    /// Takes a line in, but for the postings.
    pub(super) fn apply_unposted(&mut self, entry: &Entry) -> RowId {
        let id = self.find(entry.key).unwrap_or_else(|| self.push(entry));
        let row = &mut self.rows[id.0 as usize];
        match entry.op {
            Op::Completed | Op::Failed => {
                // The first outcome stands.
                if !row.done.is_some() {
                    let completed = entry.op == Op::Completed;
                    row.state = if completed {
                        CallState::Completed
                    } else {
                        CallState::Failed
                    };
                    row.done = entry.loc;
                }
                return id;
            }
            Op::Asserted | Op::Requested if !row.asserted.is_some() && !row.is_retracted => {}
            Op::Asserted | Op::Requested | Op::Retracted => {
                let first = row.asserted;
                let history = self
                    .history
                    .entry(id)
                    .or_insert_with(|| Vec::from_iter(first.is_some().then_some(first)));
                history.push(entry.loc);
            }
        }
        row.is_retracted = entry.op == Op::Retracted;
        if !row.is_retracted {
            row.at = entry.at;
            row.lookups = entry.lookups;
            row.asserted = entry.loc;
        }
        id
    }

    fn push(&mut self, entry: &Entry) -> RowId {
        let id = self.rows.len() as u32;
        self.rows.push(Row {
            seq: entry.seq,
            at: entry.at,
            key: entry.key,
            lookups: entry.lookups,
            asserted: Loc::NONE,
            done: Loc::NONE,
            state: CallState::Open,
            is_retracted: false,
        });
        let rows = &self.rows;
        self.by_key.insert_unique(entry.key.hash, id, |id| {
            rows.get(*id as usize).map_or(0, |row| row.key.hash)
        });
        RowId(id)
    }

    /// Adds or removes the postings that the row has as it is now: that of its state and, if it
    /// `moves`, all others.
    fn post(&mut self, id: RowId, moves: bool, add: bool) {
        let Some(row) = self.row(id).copied().filter(Row::stands) else {
            return;
        };
        let position = Position {
            at: row.at,
            row: id,
        };
        let change = |postings: &mut Postings, hash| {
            if add {
                postings.insert(hash, position);
            } else {
                postings.remove(hash, position);
            }
        };
        if let Some(postings) = &mut self.by_state
            && row.state != CallState::Completed
        {
            change(postings, row.state as u32);
        }
        if !moves {
            return;
        }
        change(&mut self.by_time, 0);
        for (postings, hash) in self.by_lookup.iter_mut().zip(row.lookups) {
            if let Some(postings) = postings
                && hash != 0
            {
                change(postings, hash);
            }
        }
    }

    /// Makes all postings anew, and gives spare room back.
    pub(super) fn post_all(&mut self) {
        self.rows.shrink_to_fit();
        let standing = || {
            let rows = self.rows.iter().enumerate().filter(|(_, row)| row.stands());
            rows.map(|(id, row)| {
                (
                    row,
                    Position {
                        at: row.at,
                        row: RowId(id as u32),
                    },
                )
            })
        };
        let by_time = Postings::from_unsorted(standing().map(|(_, position)| (0, position)));
        let posted = |field: usize| {
            let hashes = standing().map(|(row, position)| (row.lookups[field], position));
            Postings::from_unsorted(hashes.filter(|(hash, _)| *hash != 0))
        };
        let by_lookup =
            [0, 1, 2].map(|field| self.by_lookup[field].is_some().then(|| posted(field)));
        let not_completed = standing().filter(|(row, _)| row.state != CallState::Completed);
        let by_state = self.by_state.is_some().then(|| {
            Postings::from_unsorted(
                not_completed.map(|(row, position)| (row.state as u32, position)),
            )
        });
        self.by_time = by_time;
        self.by_lookup = by_lookup;
        self.by_state = by_state;
    }
}
