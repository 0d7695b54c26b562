//! Bulk build of a table from all lines of a store.

use std::sync::atomic::{AtomicU32, Ordering};

use super::entry::{Entry, KeyHash};
use super::groups::Groups;
use super::list::{List, SavedList};
use super::rows::{Row, RowId, Rows};
use super::slots::{Slots, tag_of};
use super::table::Table;
use super::{PARALLEL_MIN, run_all};

/// The key hash of a line, and the line's index among all lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    hash: u64,
    check: u32,
    line: u32,
}

impl Table {
    /// Builds an empty table from lines in order. Calls `sink` with each line, its row and whether
    /// it is the first line of its key.
    pub(super) fn build(
        &mut self,
        runs: Vec<Vec<Entry>>,
        mut sink: impl FnMut(&Entry, RowId, bool),
    ) {
        let (keys, mut firsts) = first_lines(&runs);
        let len = keys.iter().map(Vec::len).sum();
        self.rows.reserve(len);
        for (line, entry) in runs.iter().flatten().enumerate() {
            let first = firsts[line] as usize;
            // The row of the key's first line, if that is an earlier line.
            let known = (first < line).then(|| RowId(firsts[first]));
            let row = self.apply_unlisted(known, entry);
            firsts[line] = row.0;
            sink(entry, row, known.is_none());
        }
        let by_key = || {
            let keys = keys.iter().flatten();
            Slots::from_sorted(len, keys.map(|(tag, line)| (*tag, firsts[*line as usize])))
        };
        self.list_all(by_key, runs);
    }

    /// Fills the key table and all postings. The input entries are dropped meanwhile in a thread of
    /// their own, because that also takes time.
    pub(super) fn list_all(
        &mut self,
        by_key: impl FnOnce() -> Slots + Send,
        read: Vec<Vec<Entry>>,
    ) {
        let rows = &self.rows;
        let shape = rows.shape;
        let position = |id| rows.position(shape.order, id);
        let stands = |id: &RowId| rows.get(*id).is_some_and(Row::stands);
        let standing: Vec<RowId> = rows.ids().filter(stands).collect();
        let mut ordered = standing.clone();
        if !ordered.is_sorted_by_key(|id| position(*id)) {
            ordered.sort_unstable_by_key(|id| position(*id));
        }
        let all = &mut self.all;
        let fill_all = || *all = SavedList::of(List::from_sorted(&ordered, position));
        let keys = &mut self.by_key;
        let fill_keys = || *keys = by_key();
        // If the orders agree, rows are appended to large groups instead of inserted.
        let members = if shape.order == shape.lookup_order {
            &ordered
        } else {
            &standing
        };
        let mut tasks: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new(fill_all),
            Box::new(fill_keys),
            Box::new(|| drop(read)),
        ];
        for (groups, field) in self.by_lookup.iter_mut().zip(shape.posted) {
            tasks.push(Box::new(move || fill(groups, *field, members, rows)));
        }
        run_all(rows.len() >= PARALLEL_MIN, tasks);
        self.list_states();
    }
}

fn fill(groups: &mut Groups, field: usize, members: &[RowId], rows: &Rows) {
    for id in members {
        let hash = rows.lookup(*id, field);
        if rows.shape.posts(field, hash) {
            groups.insert((field, hash), *id, rows);
        }
    }
    groups.shrink();
}

/// The tags of all keys in ascending order, each with the first line of its key; and for every
/// line, the index of the first line with its key.
fn first_lines(runs: &[Vec<Entry>]) -> (Vec<Vec<(u32, u32)>>, Vec<u32>) {
    let len: usize = runs.iter().map(Vec::len).sum();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let in_threads = len >= PARALLEL_MIN;
    let parts = if in_threads { threads } else { 1 };
    let mut next = 0;
    let by_part = runs.chunks(runs.len().div_ceil(parts).max(1)).map(|runs| {
        let first = next;
        next += runs.iter().map(Vec::len).sum::<usize>() as u32;
        move || keys_by_part(runs, first, parts)
    });
    let by_part = run_all(in_threads, by_part);
    let firsts: Vec<AtomicU32> = (0..len as u32).map(AtomicU32::new).collect();
    let tags = (0..parts).map(|part| {
        let (by_part, firsts) = (&by_part, &firsts);
        move || {
            let pieces = by_part.iter().filter_map(|keys| keys.get(part));
            let mut keys: Vec<Key> = pieces.flatten().copied().collect();
            keys.sort_unstable();
            let is_same = |a: &Key, b: &Key| (a.hash, a.check) == (b.hash, b.check);
            let mut tags = Vec::with_capacity(keys.len());
            for lines in keys.chunk_by(is_same) {
                let Some((first, later)) = lines.split_first() else {
                    continue;
                };
                tags.push((tag_of(first.hash), first.line));
                for key in later {
                    firsts[key.line as usize].store(first.line, Ordering::Relaxed);
                }
            }
            tags
        }
    });
    let tags = run_all(in_threads, tags);
    let firsts = firsts.into_iter().map(AtomicU32::into_inner).collect();
    (tags, firsts)
}

/// The keys of lines, partitioned by hash range. `first` is the index of the first line.
fn keys_by_part(runs: &[Vec<Entry>], first: u32, parts: usize) -> Vec<Vec<Key>> {
    let len: usize = runs.iter().map(Vec::len).sum();
    let room = len / parts + len / 32;
    let mut keys: Vec<_> = (0..parts).map(|_| Vec::with_capacity(room)).collect();
    for (entry, line) in runs.iter().flatten().zip(first..) {
        let KeyHash { hash, check } = entry.key;
        let part = (u128::from(hash) * parts as u128) >> 64;
        keys[part as usize].push(Key { hash, check, line });
    }
    keys
}
