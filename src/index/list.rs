//! A sorted list of rows, stored in chunks. Those of a saved list are read when they are first used.

use std::iter::{Chain, Copied, Flatten};
use std::slice::Iter;
use std::sync::{Arc, OnceLock};

use super::blob::{Blob, Out, Source};
use super::bytes::{Codec, In, fields};
use super::paged::{Item, per_block};
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
    is_changed: bool,
}

#[derive(Debug)]
pub(crate) struct Chunk {
    first: Position,
    /// Number of rows.
    len: usize,
    rows: OnceLock<Vec<RowId>>,
    /// Where the rows are, if they were saved and did not change since.
    saved: Option<(Blob, Arc<Source>)>,
}

impl Chunk {
    fn new(first: Position, rows: Vec<RowId>) -> Chunk {
        Chunk {
            first,
            len: rows.len(),
            rows: rows.into(),
            saved: None,
        }
    }

    fn rows(&self) -> &[RowId] {
        self.rows.get_or_init(|| {
            let Some((blob, source)) = &self.saved else {
                return Vec::new();
            };
            let rows = source.load(*blob, rows_of).unwrap_or_default();
            if rows.len() != self.len {
                source.note_broken();
            }
            rows
        })
    }

    /// Changes the rows.
    fn change<T>(&mut self, change: impl FnOnce(&mut Vec<RowId>) -> T) -> T {
        self.rows();
        self.saved = None;
        let mut rows = self.rows.take().unwrap_or_default();
        let answer = change(&mut rows);
        self.len = rows.len();
        self.rows = rows.into();
        answer
    }
}

fn rows_of(from: &mut In<'_>) -> Option<Vec<RowId>> {
    let count = from.bytes.len() / RowId::BYTES_MIN;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        rows.push(RowId::decode(from)?);
    }
    Some(rows)
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
        let chunk = |rows: &[RowId]| Some(Chunk::new(position(*rows.first()?), rows.to_vec()));
        List {
            chunks: rows.chunks(CHUNK_MAX).filter_map(chunk).collect(),
            len: rows.len(),
            is_changed: true,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RowId> {
        self.chunks.iter().flatten().copied()
    }

    pub(super) fn insert(&mut self, position: Position, stands_at: impl Fn(RowId) -> Position) {
        self.len += 1;
        self.is_changed = true;
        let is_last = |chunk: &Chunk| {
            let last = chunk.rows().last().copied();
            last.is_none_or(|last| stands_at(last) < position)
        };
        if self.chunks.last().is_none_or(is_last) {
            self.push(position);
            return;
        }
        let place = self.chunk_of(position);
        let chunk = &mut self.chunks[place];
        let at = chunk
            .rows()
            .partition_point(|row| stands_at(*row) < position);
        let split = chunk.change(|rows| {
            rows.insert(at, position.row);
            (rows.len() > CHUNK_MAX).then(|| rows.split_off(CHUNK_MAX / 2))
        });
        if at == 0 {
            chunk.first = position;
        }
        if let Some(rows) = split {
            let first = stands_at(rows[0]);
            self.chunks.insert(place + 1, Chunk::new(first, rows));
        }
    }

    /// Appends a row that sorts after all others.
    fn push(&mut self, position: Position) {
        let room = match self.chunks.last_mut() {
            Some(chunk) if chunk.len < CHUNK_MAX => {
                chunk.change(|rows| rows.push(position.row));
                return;
            }
            Some(_) => CHUNK_MAX,
            // Short lists get little capacity.
            None => 1,
        };
        let mut rows = Vec::with_capacity(room);
        rows.push(position.row);
        self.chunks.push(Chunk::new(position, rows));
    }

    pub(super) fn remove(&mut self, position: Position, stands_at: impl Fn(RowId) -> Position) {
        let place = self.chunk_of(position);
        let Some(chunk) = self.chunks.get_mut(place) else {
            return;
        };
        let rows = chunk.rows();
        let at = rows.partition_point(|row| stands_at(*row) < position);
        if rows.get(at) != Some(&position.row) {
            return;
        }
        chunk.change(|rows| rows.remove(at));
        self.len -= 1;
        self.is_changed = true;
        match chunk.rows().first() {
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
        if chunk.len + next.len <= CHUNK_MAX / 2 {
            let more = next.rows().to_vec();
            chunk.change(|rows| rows.extend(more));
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
        self.chunks.get(place).map_or(&[], |chunk| chunk.rows())
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
        self.rows().iter()
    }
}

impl List {
    /// Drops what can be read again.
    fn evict(&mut self) {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.saved.is_some()) {
            chunk.rows = OnceLock::new();
        }
    }

    /// Writes what `out` does not keep. Returns the position of the list of chunks.
    fn dump(&self, out: &mut Out<'_>) -> Blob {
        let mut chunks = Vec::with_capacity(self.chunks.len() * 36);
        for chunk in &self.chunks {
            let blob = match &chunk.saved {
                Some((blob, _)) if out.keeps(*blob) => *blob,
                Some((blob, source)) => out.copy(Some(source), *blob),
                None => out.put_items(chunk.rows()),
            };
            let Position { at, seq, row } = chunk.first;
            ((at, seq), (row, (chunk.len as u32, blob))).encode(&mut chunks);
        }
        out.put(&chunks)
    }

    fn read(len: usize, from: &mut In<'_>, source: &Arc<Source>) -> Option<List> {
        let mut chunks = Vec::with_capacity(from.bytes.len() / 36);
        while !from.bytes.is_empty() {
            let ((at, seq), (row, (len, blob))): ((i64, u64), (RowId, (u32, Blob))) =
                Codec::decode(from)?;
            if len == 0 {
                return None;
            }
            chunks.push(Chunk {
                first: Position { at, seq, row },
                len: len as usize,
                rows: OnceLock::new(),
                saved: Some((blob, Arc::clone(source))),
            });
        }
        let is_right = chunks.iter().map(|chunk| chunk.len).sum::<usize>() == len;
        is_right.then_some(List {
            chunks,
            len,
            is_changed: false,
        })
    }
}

/// A list that may be in a saved index. It is read when it is first used.
#[derive(Debug)]
pub(super) struct SavedList {
    saved: SavedAt,
    list: OnceLock<List>,
}

/// Where a list is saved.
#[derive(Debug, Clone, Copy)]
struct SavedAt {
    blob: Blob,
    len: u64,
}

fields!(SavedAt, 20, blob len);

impl Default for SavedList {
    fn default() -> SavedList {
        SavedList::of(List::default())
    }
}

impl SavedList {
    pub(super) fn of(list: List) -> SavedList {
        SavedList {
            saved: SavedAt {
                blob: Blob::NONE,
                len: 0,
            },
            list: list.into(),
        }
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.list.get().map_or(self.saved.len as usize, List::len)
    }

    pub(super) fn get(&self, source: Option<&Arc<Source>>) -> &List {
        let SavedAt { blob, len } = self.saved;
        self.list.get_or_init(|| {
            let read = |source: &Arc<Source>| {
                source.load(blob, |from| List::read(len as usize, from, source))
            };
            source.and_then(read).unwrap_or_default()
        })
    }

    pub(super) fn change<T>(
        &mut self,
        source: Option<&Arc<Source>>,
        change: impl FnOnce(&mut List) -> T,
    ) -> T {
        self.get(source);
        let mut list = self.list.take().unwrap_or_default();
        let answer = change(&mut list);
        self.list = list.into();
        answer
    }

    pub(super) fn evict(&mut self) {
        match self.list.get_mut() {
            Some(list) if list.is_changed || self.saved.blob == Blob::NONE => list.evict(),
            _ => self.list = OnceLock::new(),
        }
    }

    /// Writes what `out` does not keep. Adds the position of the list to `root`.
    pub(super) fn dump(&self, source: Option<&Arc<Source>>, out: &mut Out<'_>, root: &mut Vec<u8>) {
        let is_changed = self.list.get().is_some_and(|list| list.is_changed);
        if !is_changed && out.keeps(self.saved.blob) {
            self.saved.encode(root);
            return;
        }
        // A list that is read for this is not kept in memory.
        let read = SavedList {
            saved: self.saved,
            list: OnceLock::new(),
        };
        let list = self.list.get().unwrap_or_else(|| read.get(source));
        let dumped = SavedAt {
            blob: list.dump(out),
            len: list.len as u64,
        };
        dumped.encode(root);
    }
}

impl Codec for SavedList {
    const BYTES_MIN: usize = SavedAt::BYTES_MIN;

    // Only lists without changes are encoded this way.
    fn encode(&self, out: &mut Vec<u8>) {
        self.saved.encode(out);
    }

    fn decode(from: &mut In<'_>) -> Option<SavedList> {
        Some(SavedList {
            saved: SavedAt::decode(from)?,
            list: OnceLock::new(),
        })
    }
}

impl Item for SavedList {
    const PER_BLOCK: usize = per_block(512);
}
