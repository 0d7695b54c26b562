//! A sorted list of rows, stored in chunks.

use std::iter::{Chain, Copied, Flatten};
use std::slice::Iter;

use super::bytes::{Codec, In};
use super::rows::{Position, RowId};

/// Maximum number of rows in a chunk. An insertion other than at the end moves half of them on
/// average.
const CHUNK_MAX: usize = 512;

/// The sort keys are not stored: `position` computes them from the rows. For a row in the list it
/// must return the same value as when the row was inserted.
#[derive(Debug, Default)]
pub(super) struct List {
    /// No chunk is empty.
    chunks: Vec<Chunk>,
    len: usize,
}

#[derive(Debug)]
pub(crate) struct Chunk {
    first: Position,
    rows: Vec<RowId>,
}

impl List {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<RowId> {
        self.chunks.first().map(|chunk| chunk.first.row)
    }

    /// Builds the list from sorted rows.
    pub(super) fn from_sorted(rows: &[RowId], position: impl Fn(RowId) -> Position) -> List {
        let chunk = |rows: &[RowId]| {
            Some(Chunk {
                first: position(*rows.first()?),
                rows: rows.to_vec(),
            })
        };
        List {
            chunks: rows.chunks(CHUNK_MAX).filter_map(chunk).collect(),
            len: rows.len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RowId> {
        self.chunks.iter().flatten().copied()
    }

    pub(super) fn insert(&mut self, position: Position, stands_at: impl Fn(RowId) -> Position) {
        self.len += 1;
        let is_last = |chunk: &Chunk| {
            let last = chunk.rows.last().copied();
            last.is_none_or(|last| stands_at(last) < position)
        };
        if self.chunks.last().is_none_or(is_last) {
            self.push(position);
            return;
        }
        let place = self.chunk_of(position);
        let chunk = &mut self.chunks[place];
        let at = chunk.rows.partition_point(|row| stands_at(*row) < position);
        chunk.rows.insert(at, position.row);
        if at == 0 {
            chunk.first = position;
        }
        if chunk.rows.len() > CHUNK_MAX {
            let rows = chunk.rows.split_off(CHUNK_MAX / 2);
            let first = stands_at(rows[0]);
            self.chunks.insert(place + 1, Chunk { first, rows });
        }
    }

    /// Appends a row that sorts after all others.
    fn push(&mut self, position: Position) {
        let room = match self.chunks.last_mut() {
            Some(chunk) if chunk.rows.len() < CHUNK_MAX => {
                chunk.rows.push(position.row);
                return;
            }
            Some(_) => CHUNK_MAX,
            // Short lists get little capacity.
            None => 1,
        };
        let mut rows = Vec::with_capacity(room);
        rows.push(position.row);
        let first = position;
        self.chunks.push(Chunk { first, rows });
    }

    pub(super) fn remove(&mut self, position: Position, stands_at: impl Fn(RowId) -> Position) {
        let place = self.chunk_of(position);
        let Some(chunk) = self.chunks.get_mut(place) else {
            return;
        };
        let at = chunk.rows.partition_point(|row| stands_at(*row) < position);
        if chunk.rows.get(at) != Some(&position.row) {
            return;
        }
        chunk.rows.remove(at);
        self.len -= 1;
        match chunk.rows.first() {
            Some(first) => chunk.first = stands_at(*first),
            None => _ = self.chunks.remove(place),
        }
        self.join(place);
    }

    /// Merges two chunks that became small.
    fn join(&mut self, place: usize) {
        let Some([chunk, next]) = self.chunks.get_mut(place..place + 2) else {
            return;
        };
        if chunk.rows.len() + next.rows.len() <= CHUNK_MAX / 2 {
            chunk.rows.append(&mut next.rows);
            self.chunks.remove(place + 1);
        }
    }

    /// The index of the chunk that contains a position, or would contain it.
    fn chunk_of(&self, position: Position) -> usize {
        let after = self.chunks.partition_point(|chunk| chunk.first <= position);
        after.saturating_sub(1)
    }

    /// The place of a position: the number of whole chunks before it, and the number of rows before
    /// it in the next chunk.
    fn seek(&self, position: Position, stands_at: &impl Fn(RowId) -> Position) -> (usize, usize) {
        if position == Position::FIRST {
            return (0, 0);
        }
        if position == Position::END {
            return (self.chunks.len(), 0);
        }
        let place = self.chunk_of(position);
        let rows = self.rows_of(place);
        match rows.partition_point(|row| stands_at(*row) < position) {
            all if all == rows.len() && all > 0 => (place + 1, 0),
            some => (place, some),
        }
    }

    fn rows_of(&self, place: usize) -> &[RowId] {
        self.chunks
            .get(place)
            .map_or(&[], |chunk| chunk.rows.as_slice())
    }

    /// The rows in the range `from..to`.
    pub(super) fn range(
        &self,
        from: Position,
        to: Position,
        position: impl Fn(RowId) -> Position,
    ) -> Range<'_> {
        let (from, to) = (self.seek(from, &position), self.seek(to, &position));
        if from >= to {
            return Range::default();
        }
        let first = self.rows_of(from.0);
        let (first, between, last) = if from.0 == to.0 {
            (first.get(from.1..to.1), None, None)
        } else {
            let between = self.chunks.get(from.0 + 1..to.0);
            (first.get(from.1..), between, self.rows_of(to.0).get(..to.1))
        };
        let between = between.unwrap_or_default().iter().flatten();
        let rows = first.unwrap_or_default().iter().chain(between);
        rows.chain(last.unwrap_or_default()).copied()
    }
}

/// A range of rows of a list, in order. It skips and counts whole chunks.
pub(crate) type Range<'a> = Copied<Chain<Chain<Ids<'a>, Flatten<Iter<'a, Chunk>>>, Ids<'a>>>;

type Ids<'a> = Iter<'a, RowId>;

impl<'a> IntoIterator for &'a Chunk {
    type Item = &'a RowId;
    type IntoIter = Ids<'a>;

    fn into_iter(self) -> Ids<'a> {
        self.rows.iter()
    }
}

impl List {
    pub(super) fn dump(&self, out: &mut Vec<u8>) {
        (self.chunks.len() as u64).encode(out);
        for chunk in &self.chunks {
            (chunk.first.at, chunk.first.seq).encode(out);
        }
        for chunk in &self.chunks {
            (chunk.rows.len() as u32).encode(out);
        }
        self.iter().for_each(|row| row.encode(out));
    }
}

/// A list in a dump.
pub(super) struct LaidList<'a> {
    /// The position of each chunk's first row: its time or number, and its sequence number.
    firsts: &'a [[u8; 16]],
    /// The number of rows in each chunk.
    lens: &'a [[u8; 4]],
    rows: &'a [[u8; 4]],
}

impl<'a> LaidList<'a> {
    pub(super) fn read(from: &mut In<'a>) -> Option<LaidList<'a>> {
        let count = from.count(20)?;
        let firsts = from.items(count)?;
        let lens = from.items(count)?;
        let all = lens.iter().map(|len| u32::from_le_bytes(*len) as usize);
        let rows = from.items(all.fold(0, usize::saturating_add))?;
        Some(LaidList { firsts, lens, rows })
    }

    /// Restores the list, if all row ids are less than `rows`.
    pub(super) fn load(&self, rows: u32) -> Option<List> {
        let id = |bytes: &[u8; 4]| RowId(u32::from_le_bytes(*bytes));
        let mut rest = self.rows;
        let mut chunks = Vec::with_capacity(self.firsts.len());
        for (first, len) in self.firsts.iter().zip(self.lens) {
            let (bytes, segments) = (first, 0);
            let (at, seq) = Codec::decode(&mut In { bytes, segments })?;
            let (ids, after) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = after;
            let row = id(ids.first()?);
            let ids: Vec<_> = ids.iter().map(id).collect();
            if ids.len() > CHUNK_MAX || ids.iter().any(|id| id.0 >= rows) {
                return None;
            }
            chunks.push(Chunk {
                first: Position { at, seq, row },
                rows: ids,
            });
        }
        let len = self.rows.len();
        Some(List { chunks, len })
    }
}
