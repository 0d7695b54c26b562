//! A hash table from 32-bit tags to 32-bit values: an array with gaps, sorted by tag. The slot of a
//! tag depends on the tag alone, so the table can be grown, built in bulk and written to a file in
//! one pass, without access to the data that the values refer to.
//!
//! A table that was saved is used where it lies, block by block, and never changed. What is added
//! later goes to a table in memory, which is searched first.

mod own;
mod saved;

use std::sync::Arc;

use self::own::Own;
use self::saved::Saved;
use super::blob::{Out, Source};
use super::bytes::{Codec, In};

/// An empty slot. No used slot has this value.
const EMPTY: u64 = u64::MAX;

/// Instead of a value: the tag was removed, though an older table still has it.
const REMOVED: u32 = u32::MAX - 1;

/// Values must be less than `u32::MAX - 1`. A tag may occur several times, unless they are unique.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// The saved tables, the newest first.
    saved: Vec<Saved>,
    own: Own,
    /// Whether a tag has one value, which a newer table replaces.
    is_unique: bool,
}

/// The part of a key hash that is used as tag, and the tag of a slot. Keys with the same tag differ
/// in the rest of the hash.
pub(super) fn tag_of(slot: u64) -> u32 {
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

/// The first slot from `at` on that has this tag and whose value passes, or else where it would be
/// inserted.
fn seek(
    at: usize,
    get: impl Fn(usize) -> Option<u64>,
    tag: u32,
    passes: impl Fn(u32) -> bool,
) -> Result<usize, usize> {
    let mut at = at;
    while let Some(slot) = get(at).filter(|slot| *slot != EMPTY) {
        if tag_of(slot) > tag {
            break;
        }
        if tag_of(slot) == tag && passes(value_of(slot)) {
            return Ok(at);
        }
        at += 1;
    }
    Err(at)
}

impl Slots {
    /// A table in which a tag has one value.
    pub(super) fn unique() -> Slots {
        Slots {
            is_unique: true,
            ..Slots::default()
        }
    }

    /// Builds the table from tags and values that are sorted by tag.
    pub(super) fn from_sorted(len: usize, sorted: impl Iterator<Item = (u32, u32)>) -> Slots {
        Slots {
            own: Own::from_sorted(len, sorted),
            ..Slots::default()
        }
    }

    /// Number of slots. Of a table with unique tags, the greatest that it can be.
    pub(super) fn len(&self) -> usize {
        let saved = self.saved.iter().map(|saved| saved.len);
        saved.sum::<usize>() + self.own.len
    }

    /// The first value of this tag that passes.
    pub(super) fn find(&self, tag: u32, passes: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.own.find(tag, &passes);
        let found = found.or_else(|| {
            let mut saved = self.saved.iter();
            saved.find_map(|saved| saved.find(tag, &passes))
        });
        found.filter(|value| *value != REMOVED)
    }

    /// Adds a value. A unique tag has none yet.
    pub(super) fn insert(&mut self, tag: u32, value: u32) {
        // That a saved tag was removed may be noted.
        let may_be_noted = self.is_unique && !self.saved.is_empty();
        if !(may_be_noted && self.own.replace(tag, value)) {
            self.own.insert(tag, value);
        }
    }

    /// Keeps only values that pass. All tags are then in memory.
    pub(super) fn retain(&mut self, passes: impl Fn(u32) -> bool) {
        let left = self.sorted();
        let left = || left.iter().filter(|(_, value)| passes(*value)).copied();
        self.own = Own::from_sorted(left().count(), left());
        self.saved.clear();
    }

    /// All tags and values, sorted by tag.
    pub(super) fn sorted(&self) -> Vec<(u32, u32)> {
        let mut all: Vec<(u32, u32)> = self.own.iter().collect();
        for saved in &self.saved {
            let newer = all.len();
            let is_newest = |tag| {
                let found = all[..newer].binary_search_by_key(&tag, |(tag, _)| *tag);
                !self.is_unique || found.is_err()
            };
            let found: Vec<_> = saved.iter().filter(|(tag, _)| is_newest(*tag)).collect();
            all.extend(found);
            all.sort_by_key(|(tag, _)| *tag);
        }
        all.retain(|(_, value)| *value != REMOVED);
        all
    }

    /// Replaces the value of a tag. Only for unique tags.
    pub(super) fn replace(&mut self, tag: u32, value: u32) {
        if !self.own.replace(tag, value) {
            self.own.insert(tag, value);
        }
    }

    /// Removes the value of a tag. Only for unique tags.
    pub(super) fn remove(&mut self, tag: u32) {
        let mut saved = self.saved.iter();
        if saved.any(|saved| saved.find(tag, &|_| true).is_some()) {
            self.replace(tag, REMOVED);
        } else {
            self.own.remove(tag);
        }
    }

    pub(super) fn evict(&mut self) {
        for saved in &mut self.saved {
            saved.evict();
        }
    }

    /// Writes the table. A delta has, besides the table of the base, one of what is newer.
    pub(super) fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        let base = self.saved.last().filter(|_| out.is_delta());
        let Some(base) = base else {
            1u64.encode(root);
            if self.saved.is_empty() {
                self.own.dump(out, root);
            } else {
                Own::merged(self.sorted()).dump(out, root);
            }
            return;
        };
        let newer = &self.saved[..self.saved.len() - 1];
        (1 + u64::from(self.own.len > 0 || !newer.is_empty())).encode(root);
        match newer {
            [] if self.own.len == 0 => {}
            [] => self.own.dump(out, root),
            [delta] if self.own.len == 0 => delta.dump(out, root),
            _ => {
                let is_newer = |tag| !self.is_unique || self.own.find(tag, &|_| true).is_none();
                let newer = newer.iter().flat_map(Saved::iter);
                let newer = newer.filter(|(tag, _)| is_newer(*tag));
                let mut all: Vec<_> = self.own.iter().chain(newer).collect();
                all.sort_by_key(|(tag, _)| *tag);
                Own::merged(all).dump(out, root);
            }
        }
        base.dump(out, root);
    }

    pub(super) fn read(root: &mut In<'_>, source: &Arc<Source>, is_unique: bool) -> Option<Slots> {
        let count = u64::decode(root).filter(|count| (1..=2).contains(count))?;
        let saved = (0..count).map(|_| Saved::read(root, source));
        Some(Slots {
            saved: saved.collect::<Option<_>>()?,
            own: Own::default(),
            is_unique,
        })
    }
}

/// A value that passes, or the note that the tag was removed.
fn passes_or_removed(passes: &impl Fn(u32) -> bool) -> impl Fn(u32) -> bool {
    move |value| value == REMOVED || passes(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::blob::SavedFile;
    use crate::index::tests::File;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A table of greatest tags ends with used slots. Its blocks are full at some lengths.
    #[test]
    fn a_search_ends_at_the_end_of_a_saved_table() {
        for len in 0..200u32 {
            let tags = (0..len).map(|n| u32::MAX - len + n);
            let table = Slots::from_sorted(len as usize, tags.zip(0..));
            let (mut file, mut root) = (File::default(), Vec::new());
            table.dump(&mut Out::new(&mut file, 1, 0, false), &mut root);
            let file = Box::new(file);
            let source = Source::new(SavedFile { file, id: 1 }, None);
            let (bytes, segments) = (&root[..], 0);
            let saved = Slots::read(&mut In { bytes, segments }, &source, false).unwrap();
            assert_eq!(saved.find(u32::MAX, |_| true), None, "{len}");
            let last = len.checked_sub(1);
            assert_eq!(saved.find(u32::MAX - 1, |_| true), last, "{len}");
            assert_eq!(saved.sorted(), table.sorted(), "{len}");
            assert!(!source.is_broken(), "{len}");
        }
    }

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
            let mut slots = Slots::unique();
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
                prop_assert_eq!(slots.len(), map.len());
                prop_assert_eq!(slots.find(tag, |_| true), map.get(&tag).copied());
            }
            let expected: Vec<_> = map.into_iter().collect();
            prop_assert_eq!(slots.sorted(), &expected[..]);
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
