//! A map whose first entries may be in a saved index.

use std::sync::Arc;

use super::blob::{Out, Source};
use super::bytes::In;
use super::paged::{Item, Paged};
use super::slots::Slots;

/// A key of a map.
pub(super) trait Key: Copy + Eq {
    /// The hash by which the key is found. Several keys may have the same.
    fn tag(self) -> u32;
}

#[derive(Debug)]
pub(super) struct Keyed<K, V> {
    by_key: Slots,
    /// `None` for an entry that was removed.
    items: Paged<(K, Option<V>)>,
}

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Keyed<K, V> {
        Keyed {
            by_key: Slots::default(),
            items: Paged::default(),
        }
    }
}

impl<K: Key, V> Keyed<K, V>
where
    (K, Option<V>): Item,
{
    pub(super) fn is_empty(&self) -> bool {
        self.items.len() == 0
    }

    fn place(&self, key: K) -> Option<usize> {
        let is_it = |place| {
            let item = self.items.get(place as usize);
            item.is_some_and(|(known, _)| *known == key)
        };
        let place = self.by_key.find(key.tag(), is_it)?;
        Some(place as usize)
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        let (_, value) = self.items.get(self.place(key)?)?;
        value.as_ref()
    }

    /// The value of a key, which is added if there is none. `None` if the index is broken.
    pub(super) fn get_or_insert(&mut self, key: K, new: impl FnOnce() -> V) -> Option<&mut V> {
        let place = self.place(key).unwrap_or_else(|| {
            let place = self.items.len();
            self.items.push((key, None));
            self.by_key.insert(key.tag(), place as u32);
            place
        });
        let (_, value) = self.items.get_mut(place)?;
        Some(value.get_or_insert_with(new))
    }

    pub(super) fn remove(&mut self, key: K) {
        if let Some(place) = self.place(key) {
            self.items.set(place, (key, None));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        let items = self.items.iter();
        items.filter_map(|(key, value)| Some((*key, value.as_ref()?)))
    }

    /// Calls `change` with each entry, until it returns `false`. Removes the values that it takes.
    pub(super) fn all_mut(&mut self, mut change: impl FnMut(K, &mut Option<V>) -> bool) -> bool {
        (0..self.items.len()).all(|place| match self.items.get_mut(place) {
            Some((key, value)) if value.is_some() => change(*key, value),
            _ => true,
        })
    }

    /// Drops what can be read again.
    pub(super) fn evict(&mut self) {
        self.by_key.evict();
        self.items.evict();
    }

    /// Writes what `out` does not keep.
    pub(super) fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        self.by_key.dump(out, root);
        self.items.dump(out, root);
    }

    pub(super) fn read(root: &mut In<'_>, source: &Arc<Source>) -> Option<Keyed<K, V>> {
        Some(Keyed {
            by_key: Slots::read(root, source, false)?,
            items: Paged::read(root, source)?,
        })
    }
}
