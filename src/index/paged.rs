//! An array whose first items may be in a saved index. They are read in blocks, each when one of
//! its items is first used. Blocks that change are kept in memory.

use std::sync::{Arc, OnceLock};

use super::blob::{Blob, Out, Source, encoded};
use super::bytes::{Codec, In};

/// An item of an array.
pub(super) trait Item: Codec {
    /// Number of items in a block.
    const PER_BLOCK: usize;
}

/// The number of items in a block: fewer in tests, so that there are several blocks.
pub(super) const fn per_block(items: usize) -> usize {
    if cfg!(test) { 16 } else { items }
}

impl Item for u8 {
    const PER_BLOCK: usize = per_block(16 << 10);
}

impl Item for u32 {
    const PER_BLOCK: usize = per_block(4 << 10);
}

impl Item for i64 {
    const PER_BLOCK: usize = per_block(2 << 10);
}

#[derive(Debug)]
pub(super) struct Paged<T> {
    source: Option<Arc<Source>>,
    /// All are full but the last one, which may be full or not.
    blocks: Vec<Block<T>>,
    /// Number of items in the blocks.
    laid: usize,
    /// The items after those. If there are any, the last block is full.
    tail: Vec<T>,
}

#[derive(Debug)]
struct Block<T> {
    blob: Blob,
    is_changed: bool,
    items: OnceLock<Box<[T]>>,
}

impl<T> Default for Paged<T> {
    fn default() -> Paged<T> {
        Paged {
            source: None,
            blocks: Vec::new(),
            laid: 0,
            tail: Vec::new(),
        }
    }
}

impl<T: Item> Paged<T> {
    pub(super) fn of(items: Vec<T>) -> Paged<T> {
        Paged {
            tail: items,
            ..Paged::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.laid + self.tail.len()
    }

    pub(super) fn source(&self) -> Option<&Arc<Source>> {
        self.source.as_ref()
    }

    #[inline]
    pub(super) fn get(&self, place: usize) -> Option<&T> {
        match place.checked_sub(self.laid) {
            Some(place) => self.tail.get(place),
            None => self.laid_item(place),
        }
    }

    fn laid_item(&self, place: usize) -> Option<&T> {
        let block = self.blocks.get(place / T::PER_BLOCK)?;
        self.items_of(block).get(place % T::PER_BLOCK)
    }

    /// The items of a block. None if it cannot be read: the index is broken then.
    fn items_of<'a>(&self, block: &'a Block<T>) -> &'a [T] {
        block.items.get_or_init(|| {
            let source = self.source.as_ref();
            source
                .and_then(|source| source.load(block.blob, decode_all))
                .unwrap_or_default()
        })
    }

    /// For a change of the item.
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        if let Some(place) = place.checked_sub(self.laid) {
            return self.tail.get_mut(place);
        }
        self.items_of(self.blocks.get(place / T::PER_BLOCK)?);
        let block = self.blocks.get_mut(place / T::PER_BLOCK)?;
        block.is_changed = true;
        block.items.get_mut()?.get_mut(place % T::PER_BLOCK)
    }

    /// Replaces an item that exists.
    pub(super) fn set(&mut self, place: usize, item: T) {
        if let Some(known) = self.get_mut(place) {
            *known = item;
        }
    }

    pub(super) fn push(&mut self, item: T) {
        if !self.laid.is_multiple_of(T::PER_BLOCK) {
            self.take_partial();
        }
        self.tail.push(item);
    }

    /// Moves the items of the last block, which is not full, to the tail.
    #[cold]
    fn take_partial(&mut self) {
        let Some(last) = self.blocks.last() else {
            return;
        };
        self.items_of(last);
        let before = (self.blocks.len() - 1) * T::PER_BLOCK;
        let expected = self.laid - before;
        let last = self.blocks.pop().and_then(|last| last.items.into_inner());
        let items = last.unwrap_or_default().into_vec();
        if items.len() != expected
            && let Some(source) = &self.source
        {
            source.note_broken();
        }
        self.laid = before;
        self.tail.splice(0..0, items);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let laid = self.blocks.iter().flat_map(|block| self.items_of(block));
        laid.chain(&self.tail)
    }

    pub(super) fn reserve(&mut self, more: usize) {
        self.tail.reserve_exact(more);
    }

    pub(super) fn shrink(&mut self) {
        self.tail.shrink_to_fit();
    }

    /// Drops what can be read again.
    pub(super) fn evict(&mut self) {
        for block in self.blocks.iter_mut().filter(|block| !block.is_changed) {
            block.items = OnceLock::new();
        }
    }

    /// Writes what `out` does not keep, with `encode`, and adds the positions of all blocks to
    /// `root`.
    pub(super) fn dump_with(
        &self,
        out: &mut Out<'_>,
        root: &mut Vec<u8>,
        mut encode: impl FnMut(&[T], &mut Out<'_>) -> Blob,
        can_copy: bool,
    ) {
        let mut blobs = Vec::with_capacity(self.blocks.len());
        let mut copied = None;
        for block in &self.blocks {
            blobs.push(if block.is_changed {
                encode(self.items_of(block), out)
            } else if out.keeps(block.blob) {
                block.blob
            } else if can_copy {
                match copied {
                    Some((from, blob)) if from == block.blob => blob,
                    _ => {
                        let blob = out.copy(self.source.as_deref(), block.blob);
                        copied = Some((block.blob, blob));
                        blob
                    }
                }
            } else {
                encode(self.items_of(block), out)
            });
        }
        for items in self.tail.chunks(T::PER_BLOCK) {
            blobs.push(encode(items, out));
        }
        (self.len() as u64).encode(root);
        blobs.encode(root);
    }

    /// As [`dump_with`](Self::dump_with), for items that refer to no other pieces. Equal blocks that
    /// follow each other are written once: an array may have long stretches without a value.
    pub(super) fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        let mut last = (Vec::new(), Blob::NONE);
        let put = |items: &[T], out: &mut Out<'_>| {
            let bytes = encoded(items);
            if bytes != last.0 {
                let blob = out.put(&bytes);
                last = (bytes, blob);
            }
            last.1
        };
        self.dump_with(out, root, put, true);
    }

    pub(super) fn read(root: &mut In<'_>, source: &Arc<Source>) -> Option<Paged<T>> {
        let laid = usize::try_from(u64::decode(root)?).ok()?;
        let blobs = Vec::<Blob>::decode(root)?;
        let block = |blob| Block {
            blob,
            is_changed: false,
            items: OnceLock::new(),
        };
        (blobs.len() == laid.div_ceil(T::PER_BLOCK)).then(|| Paged {
            source: Some(Arc::clone(source)),
            blocks: blobs.into_iter().map(block).collect(),
            laid,
            tail: Vec::new(),
        })
    }
}

/// All items of a piece.
pub(super) fn decode_all<T: Codec>(from: &mut In<'_>) -> Option<Box<[T]>> {
    let mut items = Vec::with_capacity(from.bytes.len() / T::BYTES_MIN.max(1));
    while !from.bytes.is_empty() {
        items.push(T::decode(from)?);
    }
    Some(items.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::blob::SavedFile;
    use crate::index::tests::File;

    fn saved(items: &Paged<u32>) -> (usize, Paged<u32>) {
        let (mut file, mut root) = (File::default(), Vec::new());
        items.dump(&mut Out::new(&mut file, 1, 0, false), &mut root);
        let len = file.0.len();
        let source = Source::new(
            SavedFile {
                file: Box::new(file),
                id: 1,
            },
            None,
        );
        let (bytes, segments) = (&root[..], 0);
        let read = Paged::read(&mut In { bytes, segments }, &source).unwrap();
        (len, read)
    }

    #[test]
    fn equal_blocks_are_written_once() {
        let items = Paged::of([vec![7; 100 * u32::PER_BLOCK], vec![8]].concat());
        let (len, mut items) = saved(&items);
        assert!(len < 3 * u32::PER_BLOCK * 4, "{len}");
        // A copy of a file that was read, too.
        let (len_again, copied) = saved(&items);
        assert_eq!(len_again, len);
        assert_eq!(
            copied.iter().collect::<Vec<_>>(),
            items.iter().collect::<Vec<_>>()
        );
        // A change of one block leaves the others.
        items.set(50 * u32::PER_BLOCK, 9);
        let (_, changed) = saved(&items);
        for at in 0..items.len() {
            let expected = match at / u32::PER_BLOCK {
                100 => 8,
                50 if at.is_multiple_of(u32::PER_BLOCK) => 9,
                _ => 7,
            };
            assert_eq!(changed.get(at), Some(&expected), "{at}");
        }
    }
}
