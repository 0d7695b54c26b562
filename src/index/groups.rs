//! Postings: groups of rows that have the same hash in one lookup field. A small group is a linked
//! chain of rows, in the order in which they were added; a large one is a sorted list.

use std::collections::HashSet;
use std::sync::Arc;

use super::blob::{Blob, Out, Source};
use super::bytes::{Codec, In, encode_items};
use super::list::{List, SavedList};
use super::paged::Paged;
use super::rows::{Position, RowId, Rows};
use super::shape::Place;
use super::slots::Slots;
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
    older: Paged<u32>,
    /// Upper bound of the chain's length from this row on. Removed rows may be included.
    depths: Paged<u8>,
    lists: Paged<SavedList>,
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
            heads: Slots::unique(),
            older: Paged::default(),
            depths: Paged::default(),
            lists: Paged::default(),
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

    fn list(&self, place: usize) -> Option<&List> {
        let list = self.lists.get(place)?;
        Some(list.get(self.lists.source()))
    }

    fn change_list(&mut self, place: usize, change: impl FnOnce(&mut List)) {
        let source = self.lists.source().cloned();
        if let Some(list) = self.lists.get_mut(place) {
            list.change(source.as_ref(), change);
        }
    }

    /// Adds a row to the group of this hash.
    pub(super) fn insert(&mut self, (field, hash): (usize, u32), row: RowId, rows: &Rows) {
        let head = self.head(hash);
        let other = match &head {
            Some(Head::List(list)) => self.list(*list).and_then(List::first),
            Some(Head::Chain(newest)) => Some(RowId(*newest)),
            None => None,
        };
        let is_another = |other| rows.check(other, field) != rows.check(row, field);
        if rows.shape.has_checks && other.is_some_and(is_another) {
            self.mixed.insert(hash);
        }
        let older = match head {
            Some(Head::List(list)) => {
                let order = self.order;
                let position = |row| rows.position(order, row);
                self.change_list(list, |list| list.insert(position(row), position));
                return;
            }
            Some(Head::Chain(newest)) => newest,
            None => NONE,
        };
        let place = row.0 as usize;
        let depth = self.depths.get(older as usize).map_or(0, |depth| *depth);
        let depth = depth.min(CHAIN_MAX) + 1;
        while self.older.len() < place {
            self.older.push(NONE);
            self.depths.push(0);
        }
        if self.older.len() == place {
            self.older.push(older);
            self.depths.push(depth);
        } else {
            self.older.set(place, older);
            self.depths.set(place, depth);
        }
        if older == NONE {
            self.heads.insert(mixed(hash), row.0);
        } else {
            self.heads.replace(mixed(hash), row.0);
        }
        if depth >= CHAIN_MAX {
            self.shorten(hash, row.0, rows);
        }
    }

    /// Recounts a chain, and converts it to a list if it is long.
    fn shorten(&mut self, hash: u32, newest: u32, rows: &Rows) {
        let mut chain: Vec<RowId> = self.chain(newest).collect();
        if chain.len() < usize::from(CHAIN_MAX / 2) {
            for (row, depth) in chain.iter().rev().zip(1..) {
                self.depths.set(row.0 as usize, depth);
            }
            return;
        }
        let position = |row| rows.position(self.order, row);
        chain.sort_unstable_by_key(|row| position(*row));
        let list = List::from_sorted(&chain, position);
        let head = self.lists.len() as u32 | IS_LIST;
        self.lists.push(SavedList::of(list));
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
                let order = self.order;
                let position = |row| rows.position(order, row);
                self.change_list(list, |list| list.remove(position(row), position));
                return;
            }
            Some(Head::Chain(newest)) => newest,
            None => return,
        };
        let older = self.older.get(row.0 as usize).map_or(NONE, |older| *older);
        if newest != row.0 {
            let is_newer = |newer: &RowId| self.older.get(newer.0 as usize) == Some(&row.0);
            let newer = self.chain(newest).find(is_newer);
            if let Some(newer) = newer {
                self.older.set(newer.0 as usize, older);
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
            Some(Head::List(list)) => {
                let list = self.list(list);
                let range = list.map(|list| list.range(from, to, position));
                Walk::Range(range.unwrap_or_default())
            }
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

    /// Frees unused capacity.
    pub(super) fn shrink(&mut self) {
        self.older.shrink();
        self.depths.shrink();
    }
}

impl Groups {
    /// Drops what can be read again.
    pub(super) fn evict(&mut self) {
        self.heads.evict();
        self.older.evict();
        self.depths.evict();
        self.lists.evict();
    }

    /// Writes what `out` does not keep.
    pub(super) fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        self.heads.dump(out, root);
        self.older.dump(out, root);
        self.depths.dump(out, root);
        let source = self.lists.source();
        let put_lists = |lists: &[SavedList], out: &mut Out<'_>| -> Blob {
            let mut bytes = Vec::new();
            for list in lists {
                list.dump(source, out, &mut bytes);
            }
            out.put(&bytes)
        };
        self.lists.dump_with(out, root, put_lists, false);
        encode_items(self.mixed.iter(), root);
    }

    pub(super) fn read(order: Place, root: &mut In<'_>, source: &Arc<Source>) -> Option<Groups> {
        let heads = Slots::read(root, source, true)?;
        let groups = Groups {
            order,
            heads,
            older: Paged::read(root, source)?,
            depths: Paged::read(root, source)?,
            lists: Paged::read(root, source)?,
            mixed: Vec::decode(root)?.into_iter().collect(),
        };
        (groups.older.len() == groups.depths.len()).then_some(groups)
    }
}
