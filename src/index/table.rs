//! The rows of one kind, one per key, found by key hash or through lists.

use std::sync::Arc;

use super::blob::Source;
use super::conversation_totals::status_state;
use super::entry::{Entry, KeyHash, Loc, Sums};
use super::groups::Groups;
use super::keyed::{Key, Keyed};
use super::list::{List, SavedList};
use super::paged::{Item, per_block};
use super::rows::{Position, Row, RowId, Rows};
use super::shape::{Shape, Which};
use super::slots::{Slots, tag_of};
use super::walk::Walk;
use crate::line::Op;
use crate::record::{Kind, NUMBER_MAX};

/// The list of a table to walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Select {
    /// All live rows.
    All,
    /// Rows whose lookup field, an index into [`Entry::lookups`], has this hash.
    Lookup(usize, u32),
    /// Live rows with this state.
    State(Op),
}

/// A range of bytes in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub segment: u32,
    pub start: u32,
    pub end: u32,
}

/// Lines that are further apart than this are not read together.
const NEAR_BYTES: u32 = 16 << 10;
/// Assumed length of a line whose end is unknown.
const LINE_BYTES: u32 = 1 << 10;

#[derive(Debug)]
pub(crate) struct Table {
    pub(super) source: Option<Arc<Source>>,
    pub(super) rows: Rows,
    pub(super) number_max: i64,
    /// Rows by [`tag_of`] their key hash.
    pub(super) by_key: Slots,
    /// All live rows.
    pub(super) all: SavedList,
    /// In the order of [`Shape::posted`].
    pub(super) by_lookup: Vec<Groups>,
    /// The live rows in each state that is listed.
    pub(super) by_state: Vec<(Op, SavedList)>,
    /// The assertions and retractions, in order, of rows that have more than one. Few do.
    pub(super) history: Keyed<RowId, Vec<Loc>>,
}

impl Key for RowId {
    fn tag(self) -> u32 {
        // Spreads the numbers over the whole range.
        self.0.wrapping_mul(0x9e37_79b1)
    }
}

impl Item for (RowId, Option<Vec<Loc>>) {
    const PER_BLOCK: usize = per_block(256);
}

impl Table {
    pub(crate) fn new(kind: Kind) -> Table {
        Table::of(Rows::new(Shape::of(kind)))
    }

    /// A table of these rows, which are in no list yet.
    pub(super) fn of(rows: Rows) -> Table {
        let Shape {
            posted,
            lookup_order,
            ..
        } = rows.shape;
        Table {
            source: None,
            rows,
            number_max: 0,
            by_key: Slots::default(),
            all: SavedList::default(),
            by_lookup: posted.iter().map(|_| Groups::new(lookup_order)).collect(),
            by_state: Vec::new(),
            history: Keyed::default(),
        }
    }

    pub(crate) fn row(&self, id: RowId) -> Option<&Row> {
        self.rows.get(id)
    }

    /// The row whose key may be the one with this hash; its line confirms it.
    pub(crate) fn find(&self, key: KeyHash) -> Option<RowId> {
        let is_it = |id| self.rows.get(RowId(id)).is_some_and(|row| row.key() == key);
        self.by_key.find(tag_of(key.hash), is_it).map(RowId)
    }

    /// The range of bytes that the lines of a row occupy, if they are near each other. The end is
    /// approximate: usually the start of the next row.
    #[inline]
    pub(crate) fn extent(&self, id: RowId) -> Option<Extent> {
        let row = self.rows.get(id).filter(|row| row.asserted.is_some())?;
        let Loc { segment, offset } = row.asserted;
        let has_done =
            row.done.segment == segment && row.done.offset.abs_diff(offset) <= NEAR_BYTES;
        let done = if has_done { row.done.offset } else { offset };
        let (start, last) = (offset.min(done), offset.max(done));
        let next = self.rows.get(RowId(id.0 + 1)).map(|row| row.asserted);
        let next = next.filter(|next| {
            next.segment == segment && (1..=NEAR_BYTES).contains(&next.offset.saturating_sub(last))
        });
        let end = next.map_or(last.saturating_add(LINE_BYTES), |next| next.offset);
        Some(Extent {
            segment,
            start,
            end,
        })
    }

    /// The row with this sequence number, or else the next one. Only for kinds whose first
    /// assertion counts: rows of other kinds are not sorted by sequence number.
    pub(crate) fn row_from_seq(&self, seq: u64) -> RowId {
        self.rows.first_from_seq(seq)
    }

    /// Number of rows, live or not.
    pub(crate) fn rows_len(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Number of live rows.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Raises the greatest number to at least this one, if numbering may continue from it.
    pub(super) fn raise(&mut self, number: i64) {
        if number <= NUMBER_MAX {
            self.number_max = self.number_max.max(number);
        }
    }

    /// The greatest number of any row from which numbering may continue, at least 0.
    pub(crate) fn number_max(&self) -> i64 {
        self.number_max
    }

    /// The assertions and retractions of a row, in order, if it has more than one.
    pub(crate) fn history(&self, id: RowId) -> Option<&[Loc]> {
        self.history.get(id).map(Vec::as_slice)
    }

    /// The rows that have a history.
    pub(crate) fn rows_with_history(&self) -> impl Iterator<Item = RowId> {
        self.history.iter().map(|(id, _)| id)
    }

    /// The position of a row in a list.
    pub(crate) fn place(&self, select: Select, id: RowId) -> Option<Position> {
        let order = match select {
            Select::Lookup(..) => self.rows.shape.lookup_order,
            Select::All | Select::State(_) => self.rows.shape.order,
        };
        self.rows.get(id)?;
        Some(self.rows.position(order, id))
    }

    /// Whether a row has this hash in a lookup field. `field` is an index into [`Entry::lookups`].
    pub(crate) fn has_lookup(&self, id: RowId, field: usize, hash: u32) -> bool {
        self.rows.has_lookup(id, field, hash)
    }

    /// Whether a row has this hash, with both halves, in a lookup field.
    pub(crate) fn has_value(&self, id: RowId, field: usize, (hash, check): (u32, u32)) -> bool {
        self.has_lookup(id, field, hash) && self.rows.check(id, field) == check
    }

    /// Both halves of the hash of a row's lookup field; `None` if the row has no such field.
    pub(crate) fn value(&self, id: RowId, field: usize) -> Option<(u32, u32)> {
        let value = (self.rows.lookup(id, field), self.rows.check(id, field));
        Some(value).filter(|(hash, _)| *hash != 0)
    }

    /// Whether all rows of a walk have the same value, as far as the full hash shows.
    pub(crate) fn is_of_one(&self, select: Select) -> bool {
        match select {
            Select::Lookup(field, hash) => {
                let groups = self.posted(field).filter(|_| self.rows.shape.has_checks);
                groups.is_some_and(|groups| groups.is_of_one(hash))
            }
            Select::All | Select::State(_) => true,
        }
    }

    /// The hash of a row's lookup field. `field` is an index into [`Entry::lookups`].
    #[cfg(feature = "mcp")]
    pub(crate) fn lookup(&self, id: RowId, field: usize) -> Option<u32> {
        self.rows.get(id)?;
        Some(self.rows.lookup(id, field))
    }

    /// The live rows in the range `from..to`, in the order of the list.
    pub(crate) fn walk(&self, select: Select, from: Position, to: Position) -> Walk<'_> {
        let shape = &self.rows.shape;
        let order = shape.order;
        let position = |id| self.rows.position(order, id);
        let source = self.source.as_ref();
        let all = || self.all.get(source).range(from, to, position);
        match select {
            Select::All => Walk::Range(all()),
            Select::Lookup(field, hash) => {
                if let Some(groups) = self.posted(field) {
                    return groups.range(hash, from, to, &self.rows);
                }
                let has_it = move |id: &RowId| self.has_lookup(*id, field, hash);
                Walk::Filtered(Box::new(all().filter(has_it)))
            }
            Select::State(state) if shape.lists(state) => {
                let list = self.by_state.iter().find(|(of, _)| *of == state);
                let range = list.map(|(_, list)| list.get(source).range(from, to, position));
                Walk::Range(range.unwrap_or_default())
            }
            Select::State(state) => {
                let is_at = move |id: &RowId| self.row(*id).is_some_and(|row| row.state == state);
                Walk::Filtered(Box::new(all().filter(is_at)))
            }
        }
    }

    fn posted(&self, field: usize) -> Option<&Groups> {
        let mut posted = self.rows.shape.posted.iter();
        let place = posted.position(|posted| *posted == field);
        self.by_lookup.get(place?)
    }

    /// Adds a line. Returns whether it is the first of its key.
    pub(super) fn apply(&mut self, entry: &Entry) -> bool {
        let known = self.find(entry.key);
        // A step moves the row only between the lists of states.
        let moves = known.is_none() || effect(entry) != Effect::Step;
        if let Some(id) = known {
            self.post(id, moves, false);
        }
        let id = self.apply_unlisted(known, entry);
        if known.is_none() {
            self.by_key.insert(tag_of(entry.key.hash), id.0);
        }
        self.post(id, moves, true);
        known.is_none()
    }

    /// Applies a line to its row, or to a new row if the key is unknown, without updating the key
    /// table and the lists.
    pub(super) fn apply_unlisted(&mut self, known: Option<RowId>, entry: &Entry) -> RowId {
        self.raise(entry.number);
        let id = known.unwrap_or_else(|| self.rows.push(entry));
        let Shape {
            has_history,
            outcome,
            assertion,
            ..
        } = self.rows.shape;
        let Some(row) = self.rows.get_mut(id) else {
            return id;
        };
        let effect = effect(entry);
        if effect == Effect::Step {
            if !row.done.is_some() || outcome == Which::Last {
                row.state = entry.op;
                row.done = entry.loc;
            }
            return id;
        }
        let is_first = !row.asserted.is_some() && !row.is_retracted;
        if has_history && !(is_first && effect == Effect::Assert) {
            let first = row.asserted;
            let new = || Vec::from_iter(first.is_some().then_some(first));
            if let Some(history) = self.history.get_or_insert(id, new) {
                history.push(entry.loc);
            }
        }
        if assertion == Which::First && !is_first {
            return id;
        }
        row.is_retracted = effect == Effect::Retract;
        if !row.is_retracted {
            // A conversation keeps the position of its first line.
            if entry.op != Op::Updated || is_first {
                (row.at, row.seq) = (entry.at, entry.seq);
            }
            row.asserted = entry.loc;
            if let Some(Sums::Conversation(said)) = entry.sums.as_deref() {
                row.said = status_state(said.status);
                // A new assertion overrides what earlier messages implied.
                row.state = row.said;
            } else if !row.done.is_some() {
                row.state = entry.op;
            }
            self.rows.set_lookups(id, entry);
        }
        id
    }

    /// Sets a row's state, computed from the state that its latest assertion gives.
    pub(super) fn set_state(&mut self, id: RowId, state: impl FnOnce(Op) -> Op) {
        let Some(row) = self.rows.get(id).copied() else {
            return;
        };
        let state = state(row.said);
        if state != row.state {
            self.post(id, false, false);
            if let Some(row) = self.rows.get_mut(id) {
                row.state = state;
            }
            self.post(id, false, true);
        }
    }

    /// Fills the lists of live rows by state.
    pub(super) fn list_states(&mut self) {
        let Table {
            source,
            rows,
            all,
            by_state,
            ..
        } = self;
        let source = source.as_ref();
        let position = |id| rows.position(rows.shape.order, id);
        for id in all.get(source).iter() {
            if let Some(row) = rows.get(id).filter(|row| rows.shape.lists(row.state)) {
                let insert = |list: &mut List| list.insert(position(id), position);
                state_list(by_state, row.state).change(source, insert);
            }
        }
    }

    /// Adds a live row to the lists, in its present state, or removes it from them: the list of its
    /// state and, if it `moves`, all others.
    pub(super) fn post(&mut self, id: RowId, moves: bool, add: bool) {
        let Table {
            source,
            rows,
            all,
            by_lookup,
            by_state,
            ..
        } = self;
        let Some(row) = rows.get(id).filter(|row| row.stands()) else {
            return;
        };
        let shape = &rows.shape;
        let position = |id| rows.position(shape.order, id);
        let change = |list: &mut SavedList| {
            list.change(source.as_ref(), |list| {
                if add {
                    list.insert(position(id), position);
                } else {
                    list.remove(position(id), position);
                }
            });
        };
        if shape.lists(row.state) {
            change(state_list(by_state, row.state));
        }
        if !moves {
            return;
        }
        change(all);
        for (groups, field) in by_lookup.iter_mut().zip(shape.posted) {
            let hash = rows.lookup(id, *field);
            if !shape.posts(*field, hash) {
                continue;
            }
            if add {
                groups.insert((*field, hash), id, rows);
            } else {
                groups.remove(hash, id, rows);
            }
        }
    }
}

fn state_list(lists: &mut Vec<(Op, SavedList)>, state: Op) -> &mut SavedList {
    let known = lists.iter().position(|(of, _)| *of == state);
    let place = known.unwrap_or_else(|| {
        lists.push((state, SavedList::default()));
        lists.len() - 1
    });
    &mut lists[place].1
}

/// The effect of a line on its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Assert,
    Retract,
    /// An outcome, or a step of a life cycle.
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
        // A step that returns the task to the queue: it does not have the task's content.
        Op::Queued if entry.lookups[0] == 0 => Effect::Step,
        Op::Asserted
        | Op::Requested
        | Op::Pending
        | Op::Created
        | Op::Updated
        | Op::Added
        | Op::Logged
        | Op::Queued
        | Op::Recorded
        | Op::Rolled => Effect::Assert,
    }
}
