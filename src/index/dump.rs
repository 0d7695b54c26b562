//! Serialises the whole index to bytes and back. The caller adds a checksum and identifies the
//! store and the version. The input of `load` is not trusted.

use std::collections::HashMap;

use super::bytes::{Codec, In};
use super::conversation_totals::ConversationTotals;
use super::entry::Loc;
use super::groups::{Groups, LaidGroups};
use super::list::{LaidList, List};
use super::rows::{LaidRows, Row, RowId};
use super::shape::Shape;
use super::slots::LaidSlots;
use super::table::Table;
use super::{Index, PARALLEL_MIN, Totals, run_all};
use crate::line::Op;
use crate::record::{Kind, NUMBER_MAX};

/// The numbers of operations in a dump are indexes into this array.
pub(super) const OPS: [Op; 19] = [
    Op::Asserted,
    Op::Retracted,
    Op::Requested,
    Op::Completed,
    Op::Failed,
    Op::Pending,
    Op::Approved,
    Op::Denied,
    Op::Applied,
    Op::Reverted,
    Op::Created,
    Op::Updated,
    Op::Added,
    Op::Logged,
    Op::Queued,
    Op::InProgress,
    Op::Done,
    Op::Recorded,
    Op::Rolled,
];

impl Index {
    /// Writes everything that [`load`](Index::load) needs.
    pub(crate) fn dump(&self, out: &mut Vec<u8>) {
        for table in &self.tables {
            if table.spare_rows() > table.rows.len() / 8 {
                table.squeezed().dump(out);
            } else {
                table.dump(out);
            }
        }
        self.totals.conversations.dump(out);
        let id = self.totals.update_id_max;
        (id.is_some(), id.unwrap_or(0)).encode(out);
    }

    /// Restores a dumped index for a store with this many segments; `None` if the bytes are not
    /// valid. Bytes that were tampered with may produce an index with wrong results, but never a
    /// panic.
    pub(crate) fn load(bytes: &[u8], segments: u32) -> Option<Index> {
        let mut from = In { bytes, segments };
        let mut tables = Vec::with_capacity(Kind::ALL.len());
        for kind in Kind::ALL {
            tables.push(Laid::read(kind, &mut from)?);
        }
        let conversations = ConversationTotals::load(&mut from)?;
        let (has_update_id, update_id_max) = <(bool, i64)>::decode(&mut from)?;
        if !from.bytes.is_empty() {
            return None;
        }
        let len: usize = tables.iter().map(|table| table.rows.len()).sum();
        let loads = tables.into_iter().map(|table| move || table.load());
        let tables = run_all(len >= PARALLEL_MIN, loads);
        let tables: Option<Vec<Table>> = tables.into_iter().collect();
        Some(Index {
            tables: tables?.try_into().ok()?,
            totals: Totals {
                conversations,
                update_id_max: has_update_id.then_some(update_id_max),
                said: Vec::new(),
            },
        })
    }
}

impl Table {
    fn dump(&self, out: &mut Vec<u8>) {
        self.rows.dump(out);
        self.number_max.encode(out);
        self.by_key.dump(out);
        self.all.dump(out);
        for groups in &self.by_lookup {
            groups.dump(out);
        }
        (self.by_state.len() as u64).encode(out);
        for (state, list) in &self.by_state {
            state.encode(out);
            list.dump(out);
        }
        self.history.encode(out);
    }

    /// Whether each listed row has a line to read.
    fn lists_only_records(&self) -> bool {
        let has_line = |id: RowId| self.row(id).is_some_and(|row| row.asserted.is_some());
        // Usually all rows have one.
        if self.rows.ids().all(has_line) {
            return true;
        }
        let lists = self.by_state.iter().map(|(_, list)| list);
        let mut listed = lists.chain([&self.all]).flat_map(List::iter);
        let mut members = self.by_lookup.iter().flat_map(Groups::members);
        listed.all(has_line) && members.all(has_line)
    }
}

/// The sections of a dumped table. They are located first so that tables can be loaded in parallel.
struct Laid<'a> {
    kind: Kind,
    segments: u32,
    rows: LaidRows<'a>,
    number_max: i64,
    by_key: LaidSlots<'a>,
    all: LaidList<'a>,
    by_lookup: Vec<LaidGroups<'a>>,
    by_state: Vec<(Op, LaidList<'a>)>,
    history: HashMap<RowId, Vec<Loc>>,
}

impl<'a> Laid<'a> {
    fn read(kind: Kind, from: &mut In<'a>) -> Option<Laid<'a>> {
        let shape = Shape::of(kind);
        let rows = LaidRows::read(shape, from)?;
        let number_max = i64::decode(from).filter(|number| *number <= NUMBER_MAX)?;
        let by_key = LaidSlots::read(from)?;
        let all = LaidList::read(from)?;
        let groups = shape.posted.iter().map(|_| LaidGroups::read(from));
        let by_lookup = groups.collect::<Option<_>>()?;
        let mut by_state = Vec::new();
        for _ in 0..from.count(1)? {
            by_state.push((Op::decode(from)?, LaidList::read(from)?));
        }
        let history: HashMap<RowId, Vec<Loc>> = Codec::decode(from)?;
        let is_right = |(row, lines): (&RowId, &Vec<Loc>)| {
            (row.0 as usize) < rows.len() && lines.iter().all(|line| line.is_some())
        };
        if !history.iter().all(is_right) {
            return None;
        }
        Some(Laid {
            kind,
            segments: from.segments,
            rows,
            number_max,
            by_key,
            all,
            by_lookup,
            by_state,
            history,
        })
    }

    fn load(self) -> Option<Table> {
        let len = self.rows.len();
        let ids = len as u32;
        let shape = Shape::of(self.kind);
        let (mut rows, mut by_key, mut all, mut by_state) = (None, None, None, None);
        let mut by_lookup: Vec<Option<Groups>> = self.by_lookup.iter().map(|_| None).collect();
        let mut tasks: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new(|| rows = self.rows.load(shape, self.segments)),
            Box::new(|| by_key = self.by_key.load(|row| row < ids)),
            Box::new(|| {
                all = self.all.load(ids);
                let states = self.by_state.iter();
                let states = states.map(|(state, list)| Some((*state, list.load(ids)?)));
                by_state = states.collect::<Option<Vec<_>>>();
            }),
        ];
        for (groups, laid) in by_lookup.iter_mut().zip(&self.by_lookup) {
            let order = shape.lookup_order;
            tasks.push(Box::new(move || *groups = laid.load(order, ids)));
        }
        run_all(len >= PARALLEL_MIN, tasks);
        let table = Table {
            rows: rows?,
            number_max: self.number_max,
            by_key: by_key?,
            all: all?,
            by_lookup: by_lookup.into_iter().collect::<Option<_>>()?,
            by_state: by_state?,
            history: self.history,
        };
        let live = table
            .rows
            .ids()
            .filter(|id| table.row(*id).is_some_and(Row::stands));
        let are_all_listed = live.count() == table.len();
        (are_all_listed && table.lists_only_records()).then_some(table)
    }
}
