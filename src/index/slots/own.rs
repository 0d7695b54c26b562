//! The table of slots in memory.

use super::saved::Saved;
use super::{EMPTY, passes_or_removed, place, seek, slot_of, tag_of, value_of};
use crate::index::blob::Out;

/// The table grows when this many slots out of [`FULL_OF`] are used.
const FULL: usize = 13;
const FULL_OF: usize = 16;

/// A table in memory with this many slots consists of parts.
const SPLIT_LEN: usize = if cfg!(test) { 64 } else { 1 << 15 };
/// The first bits of the tags that all tags of a part have in common.
const PART_BITS: u32 = 8;

/// A table in memory.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// None, one, or in a large table one for each value of the first bits of the tags. A part grows
    /// by itself, so no insertion waits until all of a large table is moved.
    parts: Vec<Part>,
    pub(super) len: usize,
}

/// A part of a table in memory.
#[derive(Debug, Default)]
struct Part {
    /// Tags and values, sorted by tag. Slots that overflow at the end follow after the regular
    /// places.
    array: Vec<u64>,
    /// Number of regular places.
    places: usize,
    len: usize,
    /// Number of first bits that all tags have in common.
    shared_bits: u32,
}

impl Own {
    pub(super) fn from_sorted(len: usize, sorted: impl Iterator<Item = (u32, u32)>) -> Own {
        let bits = if len < SPLIT_LEN { 0 } else { PART_BITS };
        Own::laid(len, sorted, bits)
    }

    /// A table in one part, as it is saved.
    pub(super) fn merged(sorted: Vec<(u32, u32)>) -> Own {
        Own::laid(sorted.len(), sorted.into_iter(), 0)
    }

    /// A table with a part for each value of the first `bits` bits.
    fn laid(len: usize, sorted: impl Iterator<Item = (u32, u32)>, bits: u32) -> Own {
        let room = (len + len / 16).div_ceil(1 << bits);
        let part = |_| Part::with_room_for(room, bits);
        let mut own = Own {
            parts: (0..1 << bits).map(part).collect(),
            len: 0,
        };
        let (mut last, mut next) = (0, 0);
        for (tag, value) in sorted {
            let nth = own.nth(tag);
            if nth != last {
                (last, next) = (nth, 0);
            }
            next = own.parts[nth].lay(next, slot_of(tag, value));
            own.len += 1;
        }
        own
    }

    /// The index of the part that a tag belongs to.
    fn nth(&self, tag: u32) -> usize {
        if self.parts.len() > 1 {
            (tag >> (u32::BITS - PART_BITS)) as usize
        } else {
            0
        }
    }

    pub(super) fn find(&self, tag: u32, passes: &impl Fn(u32) -> bool) -> Option<u32> {
        self.parts.get(self.nth(tag))?.find(tag, passes)
    }

    pub(super) fn insert(&mut self, tag: u32, value: u32) {
        if self.parts.is_empty() {
            self.parts.push(Part::default());
        } else if self.parts.len() == 1 && self.len >= SPLIT_LEN {
            *self = Own::from_sorted(self.len, self.iter());
        }
        let nth = self.nth(tag);
        self.parts[nth].insert(tag, value);
        self.len += 1;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.parts.iter().flat_map(Part::iter)
    }

    /// Replaces the first value of this tag; `false` if there is none.
    pub(super) fn replace(&mut self, tag: u32, value: u32) -> bool {
        let nth = self.nth(tag);
        let part = self.parts.get_mut(nth);
        part.is_some_and(|part| part.replace(tag, value))
    }

    /// Removes the first value of this tag.
    pub(super) fn remove(&mut self, tag: u32) {
        let nth = self.nth(tag);
        if self.parts.get_mut(nth).is_some_and(|part| part.remove(tag)) {
            self.len -= 1;
        }
    }

    pub(super) fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        match &self.parts[..] {
            // Without a slot, a search reads nothing.
            [] => Part::default().dump(out, root),
            [part] => part.dump(out, root),
            _ => Own::laid(self.len, self.iter(), 0).dump(out, root),
        }
    }
}

impl Part {
    fn with_room_for(len: usize, shared_bits: u32) -> Part {
        let places = len * FULL_OF / FULL + FULL_OF;
        let mut array = Vec::with_capacity(places + places / 1024 + FULL_OF);
        array.resize(places, EMPTY);
        Part {
            array,
            places,
            len: 0,
            shared_bits,
        }
    }

    /// The first slot for a tag.
    fn place(&self, tag: u32) -> usize {
        place(tag << self.shared_bits, self.places)
    }

    /// Appends a slot at `next` or later; returns the index after it.
    fn lay(&mut self, next: usize, slot: u64) -> usize {
        let at = self.place(tag_of(slot)).max(next);
        match self.array.get_mut(at) {
            Some(empty) => *empty = slot,
            None => self.array.push(slot),
        }
        self.len += 1;
        at + 1
    }

    /// The index of the first slot with this tag that passes, or else where it would be inserted.
    fn seek(&self, tag: u32, passes: impl Fn(u32) -> bool) -> Result<usize, usize> {
        let get = |at| self.array.get(at).copied();
        seek(self.place(tag), get, tag, passes)
    }

    fn find(&self, tag: u32, passes: &impl Fn(u32) -> bool) -> Option<u32> {
        let at = self.seek(tag, passes_or_removed(passes)).ok()?;
        self.array.get(at).copied().map(value_of)
    }

    fn insert(&mut self, tag: u32, value: u32) {
        if self.len * FULL_OF >= self.places * FULL {
            self.grow();
        }
        let (Ok(at) | Err(at)) = self.seek(tag, |_| false);
        let gap = self.array.iter().skip(at).position(|slot| *slot == EMPTY);
        let gap = gap.map_or(self.array.len(), |gap| at + gap);
        if gap == self.array.len() {
            self.array.push(EMPTY);
        }
        self.array.copy_within(at..gap, at + 1);
        self.array[at] = slot_of(tag, value);
        self.len += 1;
    }

    fn grow(&mut self) {
        let mut grown = Part::with_room_for(self.len + self.len / 2, self.shared_bits);
        let mut next = 0;
        for slot in self.used() {
            next = grown.lay(next, slot);
        }
        *self = grown;
    }

    fn used(&self) -> impl Iterator<Item = u64> {
        self.array.iter().copied().filter(|slot| *slot != EMPTY)
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.used().map(|slot| (tag_of(slot), value_of(slot)))
    }

    /// Replaces the first value of this tag; `false` if there is none.
    fn replace(&mut self, tag: u32, value: u32) -> bool {
        let found = self.seek(tag, |_| true);
        if let Ok(at) = found {
            self.array[at] = slot_of(tag, value);
        }
        found.is_ok()
    }

    /// Removes the first value of this tag; `false` if there is none.
    fn remove(&mut self, tag: u32) -> bool {
        let Ok(mut at) = self.seek(tag, |_| true) else {
            return false;
        };
        // Shift the following slots back by one, up to a slot that is empty or already in its own
        // place.
        while let Some(next) = self.array.get(at + 1).copied() {
            if next == EMPTY || self.place(tag_of(next)) > at {
                break;
            }
            self.array[at] = next;
            at += 1;
        }
        self.array[at] = EMPTY;
        self.len -= 1;
        true
    }

    fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        Saved::write(&self.array, (self.places, self.len), out, root);
    }
}
