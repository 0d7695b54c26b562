//! The table of slots in a saved index. It is searched where it lies: a search reads one block, or
//! two at a border.

use std::sync::{Arc, OnceLock};

use super::{EMPTY, passes_or_removed, place, seek, tag_of, value_of};
use crate::index::blob::{Blob, Out, Source};
use crate::index::bytes::{Codec, In};
use crate::index::paged::{decode_all, per_block};

/// Number of slots in a block. With its checksum, it has 1 KiB.
const PER_BLOCK: usize = per_block(127);
/// Number of blocks in a group. The memory for a group is allocated when one of its blocks is used.
const GROUP_BLOCKS: usize = 64;

/// Maximum number of slots: more than there are values.
const SLOTS_MAX: u64 = 1 << 33;

/// A saved table. It is never changed.
#[derive(Debug)]
pub(super) struct Saved {
    source: Arc<Source>,
    /// The first block. The others follow it.
    first: Blob,
    /// Number of slots in all blocks, which are full but for the last one.
    slots: usize,
    /// Number of regular places.
    places: usize,
    /// Number of slots that are used.
    pub(super) len: usize,
    groups: OnceLock<Box<[Group]>>,
}

type Group = OnceLock<Box<[Block]>>;
type Block = OnceLock<Box<[u64]>>;

fn empty<T>(len: usize) -> Box<[OnceLock<T>]> {
    (0..len).map(|_| OnceLock::new()).collect()
}

impl Saved {
    pub(super) fn find(&self, tag: u32, passes: &impl Fn(u32) -> bool) -> Option<u32> {
        let get = |at| self.get(at);
        let at = seek(place(tag, self.places), get, tag, passes_or_removed(passes)).ok()?;
        self.get(at).map(value_of)
    }

    fn get(&self, at: usize) -> Option<u64> {
        self.block(at / PER_BLOCK)?.get(at % PER_BLOCK).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        // Of a broken index, nothing more is read.
        let blocks = (0..self.blocks()).map_while(|nth| {
            let block = self.block(nth)?;
            (!block.is_empty()).then_some(block)
        });
        let used = blocks.flatten().filter(|slot| **slot != EMPTY);
        used.map(|slot| (tag_of(*slot), value_of(*slot)))
    }

    /// Number of blocks.
    fn blocks(&self) -> usize {
        self.slots.div_ceil(PER_BLOCK)
    }

    /// The slots of a block. None if there is no such block. Empty if it cannot be read: the index
    /// is broken then.
    fn block(&self, nth: usize) -> Option<&[u64]> {
        let blocks = self.blocks();
        let group = || empty(blocks.div_ceil(GROUP_BLOCKS));
        let group = self.groups.get_or_init(group).get(nth / GROUP_BLOCKS)?;
        let at = nth % GROUP_BLOCKS;
        let block = group
            .get_or_init(|| empty(GROUP_BLOCKS.min(blocks - (nth - at))))
            .get(at)?;
        let block = block.get_or_init(|| {
            let block = self.source.load(self.blob(nth), decode_all);
            block.unwrap_or_default()
        });
        Some(block)
    }

    fn blob(&self, nth: usize) -> Blob {
        let left = self.slots.saturating_sub(nth * PER_BLOCK);
        let len = left.min(PER_BLOCK) * u64::BYTES_MIN;
        self.first.following(nth, PER_BLOCK * u64::BYTES_MIN, len)
    }

    /// Drops what can be read again.
    pub(super) fn evict(&mut self) {
        self.groups = OnceLock::new();
    }

    pub(super) fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        let first = if out.keeps(self.first) {
            self.first
        } else {
            let blocks = (0..self.blocks()).map(|nth| self.blob(nth));
            let copies = blocks.map(|blob| out.copy(Some(&self.source), blob));
            first_of(copies)
        };
        encode((self.places, self.len), (self.slots, first), root);
    }

    /// Writes a table with these slots.
    pub(super) fn write(
        slots: &[u64],
        (places, len): (usize, usize),
        out: &mut Out<'_>,
        root: &mut Vec<u8>,
    ) {
        let blocks = slots.chunks(PER_BLOCK);
        let first = first_of(blocks.map(|block| out.put_items(block)));
        encode((places, len), (slots.len(), first), root);
    }

    pub(super) fn read(root: &mut In<'_>, source: &Arc<Source>) -> Option<Saved> {
        let ((places, len), (slots, first)): ((u64, u64), (u64, Blob)) = Codec::decode(root)?;
        (places.max(len) <= slots && slots <= SLOTS_MAX).then(|| Saved {
            source: Arc::clone(source),
            first,
            slots: slots as usize,
            places: places as usize,
            len: len as usize,
            groups: OnceLock::new(),
        })
    }
}

/// The position of the first of these blocks, all of which are written.
fn first_of(mut blocks: impl Iterator<Item = Blob>) -> Blob {
    let first = blocks.next();
    blocks.for_each(drop);
    first.unwrap_or(Blob::NONE)
}

fn encode((places, len): (usize, usize), (slots, first): (usize, Blob), root: &mut Vec<u8>) {
    ((places as u64, len as u64), (slots as u64, first)).encode(root);
}
