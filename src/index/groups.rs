//! Postings: groups of rows that have the same hash in one lookup field. A small group is a linked
//! chain of rows, in the order in which they were added; a large one is a sorted list.

use std::collections::HashSet;

use super::bytes::{Codec, In, encode_items};
use super::list::{LaidList, List};
use super::rows::{Position, RowId, Rows};
use super::shape::Place;
use super::slots::{LaidSlots, Slots};
use super::walk::Walk;

/// A chain that may be longer than this is converted to a list.
const CHAIN_MAX: u8 = 64;
/// No row.
const NONE: u32 = u32::MAX;
/// Flag in a head: the value is an index into the lists, not the newest row of a chain.
const IS_LIST: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Groups {
    /// Whether rows are ordered by number or by time.
    order: Place,
    /// Mixed hash → newest row of a chain, or index of a list.
    heads: Slots,
    /// For each row, the row that was added to the chain before it.
    older: Vec<u32>,
    /// Upper bound of the chain's length from this row on. Removed rows may be included.
    depths: Vec<u8>,
    lists: Vec<List>,
    /// Hashes under which there are, or were, rows with different second halves.
    mixed: HashSet<u32>,
}

enum Head {
    Chain(u32),
    List(usize),
}

impl Head {
    fn of(value: u32) -> Head {
        if value & IS_LIST == 0 {
            Head::Chain(value)
        } else {
            Head::List((value & !IS_LIST) as usize)
        }
    }
}

/// Spreads hashes, which may be 0 or have few significant bits, over the whole range without
/// collisions.
fn mixed(hash: u32) -> u32 {
    hash.wrapping_mul(0x9e37_79b1)
}

impl Groups {
    pub(super) fn new(order: Place) -> Groups {
        Groups {
            order,
            heads: Slots::default(),
            older: Vec::new(),
            depths: Vec::new(),
            lists: Vec::new(),
            mixed: HashSet::new(),
        }
    }

    /// Whether all rows under a hash have the same value, as far as the full hash shows.
    pub(super) fn is_of_one(&self, hash: u32) -> bool {
        !self.mixed.contains(&hash)
    }

    fn head(&self, hash: u32) -> Option<Head> {
        self.heads.find(mixed(hash), |_| true).map(Head::of)
    }

    /// Adds a row to the group of this hash.
    pub(super) fn insert(&mut self, (field, hash): (usize, u32), row: RowId, rows: &Rows) {
        let head = self.head(hash);
        let other = match &head {
            Some(Head::List(list)) => self.lists[*list].first(),
            Some(Head::Chain(newest)) => Some(RowId(*newest)),
            None => None,
        };
        let is_another = |other| rows.check(other, field) != rows.check(row, field);
        if rows.shape.has_checks && other.is_some_and(is_another) {
            self.mixed.insert(hash);
        }
        let older = match head {
            Some(Head::List(list)) => {
                let position = |row| rows.position(self.order, row);
                self.lists[list].insert(position(row), position);
                return;
            }
            Some(Head::Chain(newest)) => newest,
            None => NONE,
        };
        let place = row.0 as usize;
        if self.older.len() <= place {
            self.older.resize(place + 1, NONE);
            self.depths.resize(place + 1, 0);
        }
        let depth = self.depths.get(older as usize).map_or(0, |depth| *depth);
        self.older[place] = older;
        self.depths[place] = depth + 1;
        if older == NONE {
            self.heads.insert(mixed(hash), row.0);
        } else {
            self.heads.replace(mixed(hash), row.0);
        }
        if depth + 1 >= CHAIN_MAX {
            self.shorten(hash, row.0, rows);
        }
    }

    /// Recounts a chain, and converts it to a list if it is long.
    fn shorten(&mut self, hash: u32, newest: u32, rows: &Rows) {
        let mut chain: Vec<RowId> = self.chain(newest).collect();
        if chain.len() < usize::from(CHAIN_MAX / 2) {
            for (row, depth) in chain.iter().rev().zip(1..) {
                self.depths[row.0 as usize] = depth;
            }
            return;
        }
        let position = |row| rows.position(self.order, row);
        chain.sort_unstable_by_key(|row| position(*row));
        let list = List::from_sorted(&chain, position);
        let head = self.lists.len() as u32 | IS_LIST;
        self.lists.push(list);
        self.heads.replace(mixed(hash), head);
    }

    /// The rows of a chain, newest first.
    fn chain(&self, newest: u32) -> impl Iterator<Item = RowId> {
        let next = |row: &u32| self.older.get(*row as usize).copied();
        std::iter::successors(Some(newest), next)
            .take_while(|row| *row != NONE)
            .take(usize::from(CHAIN_MAX))
            .map(RowId)
    }

    pub(super) fn remove(&mut self, hash: u32, row: RowId, rows: &Rows) {
        let newest = match self.head(hash) {
            Some(Head::List(list)) => {
                let position = |row| rows.position(self.order, row);
                self.lists[list].remove(position(row), position);
                return;
            }
            Some(Head::Chain(newest)) => newest,
            None => return,
        };
        let older = self.older.get(row.0 as usize).map_or(NONE, |older| *older);
        if newest != row.0 {
            let is_newer = |newer: &RowId| self.older[newer.0 as usize] == row.0;
            let newer = self.chain(newest).find(is_newer);
            if let Some(newer) = newer {
                self.older[newer.0 as usize] = older;
            }
        } else if older == NONE {
            self.heads.remove(mixed(hash));
        } else {
            self.heads.replace(mixed(hash), older);
        }
    }

    /// The rows under a hash in the range `from..to`, in order.
    pub(super) fn range(&self, hash: u32, from: Position, to: Position, rows: &Rows) -> Walk<'_> {
        let position = |row| rows.position(self.order, row);
        match self.head(hash) {
            Some(Head::List(list)) => Walk::Range(self.lists[list].range(from, to, position)),
            Some(Head::Chain(newest)) => {
                let positions = self.chain(newest).map(position);
                let mut few: Vec<_> = positions
                    .filter(|position| (from..to).contains(position))
                    .collect();
                few.reverse();
                few.sort_unstable();
                Walk::Few(few.into_iter())
            }
            None => Walk::Few(Vec::new().into_iter()),
        }
    }

    /// All rows that are in a group.
    pub(super) fn members(&self) -> impl Iterator<Item = RowId> {
        let heads = self.heads.iter().map(|(_, head)| Head::of(head));
        let chains = heads.filter_map(|head| match head {
            Head::Chain(newest) => Some(newest),
            Head::List(_) => None,
        });
        let chained = chains.flat_map(|newest| self.chain(newest));
        chained.chain(self.lists.iter().flat_map(List::iter))
    }

    /// Frees unused capacity.
    pub(super) fn shrink(&mut self) {
        self.older.shrink_to_fit();
        self.depths.shrink_to_fit();
    }
}

impl Groups {
    pub(super) fn dump(&self, out: &mut Vec<u8>) {
        self.heads.dump(out);
        self.older.encode(out);
        out.extend_from_slice(&self.depths);
        (self.lists.len() as u64).encode(out);
        for list in &self.lists {
            list.dump(out);
        }
        encode_items(self.mixed.iter(), out);
    }
}

/// The groups in a dump.
pub(super) struct LaidGroups<'a> {
    heads: LaidSlots<'a>,
    older: &'a [[u8; 4]],
    depths: &'a [[u8; 1]],
    lists: Vec<LaidList<'a>>,
    mixed: HashSet<u32>,
}

impl<'a> LaidGroups<'a> {
    pub(super) fn read(from: &mut In<'a>) -> Option<LaidGroups<'a>> {
        let heads = LaidSlots::read(from)?;
        let len = from.count(4)?;
        let older = from.items(len)?;
        let depths = from.items(len)?;
        let lists = (0..from.count(8)?).map(|_| LaidList::read(from));
        let lists = lists.collect::<Option<_>>()?;
        let mixed = Vec::decode(from)?;
        Some(LaidGroups {
            heads,
            older,
            depths,
            lists,
            mixed: mixed.into_iter().collect(),
        })
    }

    /// Restores the groups, if all row ids are less than `rows`.
    pub(super) fn load(&self, order: Place, rows: u32) -> Option<Groups> {
        let len = u32::try_from(self.older.len()).ok()?;
        let lists = self.lists.len();
        let heads = self.heads.load(|head| match Head::of(head) {
            Head::Chain(newest) => newest < len,
            Head::List(list) => list < lists,
        })?;
        let links = self.older.iter().map(|link| u32::from_le_bytes(*link));
        let depths: Vec<u8> = self.depths.iter().map(|[depth]| *depth).collect();
        let lists = self.lists.iter().map(|list| list.load(rows));
        let groups = Groups {
            order,
            heads,
            lists: lists.collect::<Option<_>>()?,
            mixed: self.mixed.clone(),
            older: links.collect(),
            depths,
        };
        let mut links = groups.older.iter();
        let are_right = len <= rows
            && links.all(|link| *link < len || *link == NONE)
            && groups.depths.iter().all(|depth| *depth <= CHAIN_MAX);
        are_right.then_some(groups)
    }
}
