//! A hash table from 32-bit tags to 32-bit values: an array with gaps, sorted by tag. The slot of a
//! tag depends on the tag alone, so the table can be grown, built in bulk and written to a file in
//! one pass, without access to the data that the values refer to.

use super::bytes::{Codec, In};

/// An empty slot. No used slot has this value.
const EMPTY: u64 = u64::MAX;

/// The table grows when this many slots out of [`FULL_OF`] are used.
const FULL: usize = 13;
const FULL_OF: usize = 16;

/// Values must be less than `u32::MAX`. A tag may occur several times.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Tags and values, sorted by tag. Slots that overflow at the end follow after the regular
    /// places.
    array: Vec<u64>,
    /// Number of regular places.
    places: usize,
    len: usize,
}

fn tag_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

fn value_of(slot: u64) -> u32 {
    slot as u32
}

fn slot_of(tag: u32, value: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(value)
}

/// The first slot for a tag. Its slots start here, or later if those of lesser tags extend past it.
fn place(tag: u32, places: usize) -> usize {
    ((u64::from(tag) * places as u64) >> 32) as usize
}

impl Slots {
    /// Builds the table from tags and values that are sorted by tag.
    pub(super) fn from_sorted(len: usize, sorted: impl Iterator<Item = (u32, u32)>) -> Slots {
        let mut slots = Slots::with_room_for(len + len / 16);
        let mut next = 0;
        for (tag, value) in sorted {
            next = slots.lay(next, slot_of(tag, value));
        }
        slots
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn with_room_for(len: usize) -> Slots {
        let places = len * FULL_OF / FULL + FULL_OF;
        let mut array = Vec::with_capacity(places + places / 1024 + FULL_OF);
        array.resize(places, EMPTY);
        Slots {
            array,
            places,
            len: 0,
        }
    }

    /// Appends a slot at `next` or later; returns the index after it.
    fn lay(&mut self, next: usize, slot: u64) -> usize {
        let at = place(tag_of(slot), self.places).max(next);
        match self.array.get_mut(at) {
            Some(empty) => *empty = slot,
            None => self.array.push(slot),
        }
        self.len += 1;
        at + 1
    }

    /// The index of the first slot with this tag that passes, or else where it would be inserted.
    fn seek(&self, tag: u32, passes: impl Fn(u32) -> bool) -> Result<usize, usize> {
        let mut at = place(tag, self.places);
        while let Some(slot) = self.array.get(at).filter(|slot| **slot != EMPTY) {
            if tag_of(*slot) > tag {
                break;
            }
            if tag_of(*slot) == tag && passes(value_of(*slot)) {
                return Ok(at);
            }
            at += 1;
        }
        Err(at)
    }

    /// The first value of this tag that passes.
    pub(super) fn find(&self, tag: u32, passes: impl Fn(u32) -> bool) -> Option<u32> {
        let at = self.seek(tag, passes).ok()?;
        self.array.get(at).copied().map(value_of)
    }

    pub(super) fn insert(&mut self, tag: u32, value: u32) {
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
        let mut grown = Slots::with_room_for(self.len + self.len / 2);
        let mut next = 0;
        for slot in self.used() {
            next = grown.lay(next, slot);
        }
        *self = grown;
    }

    /// Keeps only values that pass.
    pub(super) fn retain(&mut self, passes: impl Fn(u32) -> bool) {
        let left = || self.iter().filter(|(_, value)| passes(*value));
        *self = Slots::from_sorted(left().count(), left());
    }

    fn used(&self) -> impl Iterator<Item = u64> {
        self.array.iter().copied().filter(|slot| *slot != EMPTY)
    }

    /// All tags and values, sorted by tag.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.used().map(|slot| (tag_of(slot), value_of(slot)))
    }

    /// Replaces the first value of this tag.
    pub(super) fn replace(&mut self, tag: u32, value: u32) {
        if let Ok(at) = self.seek(tag, |_| true) {
            self.array[at] = slot_of(tag, value);
        }
    }

    /// Removes the first value of this tag.
    pub(super) fn remove(&mut self, tag: u32) {
        let Ok(mut at) = self.seek(tag, |_| true) else {
            return;
        };
        // Shift the following slots back by one, up to a slot that is empty or already in its own
        // place.
        while let Some(next) = self.array.get(at + 1).copied() {
            if next == EMPTY || place(tag_of(next), self.places) > at {
                break;
            }
            self.array[at] = next;
            at += 1;
        }
        self.array[at] = EMPTY;
        self.len -= 1;
    }
}

impl Slots {
    pub(super) fn dump(&self, out: &mut Vec<u8>) {
        (self.len as u64).encode(out);
        self.used().for_each(|slot| slot.encode(out));
    }
}

/// The slots in a dump.
pub(super) struct LaidSlots<'a>(&'a [[u8; 8]]);

impl<'a> LaidSlots<'a> {
    pub(super) fn read(from: &mut In<'a>) -> Option<LaidSlots<'a>> {
        let count = from.count(8)?;
        from.items(count).map(LaidSlots)
    }

    /// Restores the table, if all values are valid.
    pub(super) fn load(&self, is_right: impl Fn(u32) -> bool) -> Option<Slots> {
        let mut slots = Slots::with_room_for(self.0.len() + self.0.len() / 16);
        let (mut next, mut last) = (0, 0);
        for bytes in self.0 {
            let slot = u64::from_le_bytes(*bytes);
            if tag_of(slot) < last || !is_right(value_of(slot)) {
                return None;
            }
            last = tag_of(slot);
            next = slots.lay(next, slot);
        }
        Some(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Many colliding tags, some of them at either end of the range.
    fn tag() -> impl Strategy<Value = u32> {
        prop_oneof![
            0..8u32,
            (u32::MAX - 8)..=u32::MAX,
            (0..32u32).prop_map(|n| n << 27),
            any::<u32>(),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_map(changes in prop::collection::vec((tag(), 0..5u8), 0..400)) {
            let mut slots = Slots::default();
            let mut map = BTreeMap::new();
            for (value, (tag, change)) in (0u32..).zip(changes) {
                if change == 0 {
                    slots.remove(tag);
                    map.remove(&tag);
                } else if map.insert(tag, value).is_some() {
                    slots.replace(tag, value);
                } else {
                    slots.insert(tag, value);
                }
                prop_assert_eq!(slots.len, map.len());
                prop_assert_eq!(slots.find(tag, |_| true), map.get(&tag).copied());
            }
            let expected: Vec<_> = map.into_iter().collect();
            prop_assert_eq!(slots.iter().collect::<Vec<_>>(), &expected[..]);
            let rebuilt = Slots::from_sorted(expected.len(), expected.iter().copied());
            for (tag, value) in expected {
                prop_assert_eq!(slots.find(tag, |_| true), Some(value));
                prop_assert_eq!(rebuilt.find(tag, |_| true), Some(value));
            }
        }

        #[test]
        fn values_of_one_tag_are_told_apart(tags in prop::collection::vec(tag(), 0..200)) {
            let mut slots = Slots::default();
            for (value, tag) in (0u32..).zip(&tags) {
                prop_assert_eq!(slots.find(*tag, |found| found == value), None);
                slots.insert(*tag, value);
            }
            for (value, tag) in (0u32..).zip(&tags) {
                prop_assert_eq!(slots.find(*tag, |found| found == value), Some(value));
            }
        }
    }
}
