//! Tombstones: keyed hashes of the ids of erased conversations and requests, in `removals.jsonl`.
//! They prevent an import or a replay from bringing erased records back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use uuid::Uuid;

use super::removals::{self, Removal, RemovalReason};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{IdHashes, hex};
use crate::storage::{Storage, full_path, io_error};
use crate::store::Inner;

/// An erased conversation or request, as stored in a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Tombstone {
    /// The keyed hash of its id.
    pub id: String,
    /// The first 64 bits of the keyed hash of each of its messages and turns.
    #[serde(default, skip_serializing_if = "IdHashes::is_empty")]
    pub parts: IdHashes,
}

/// The tombstones of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    /// The keys in the order in which they were first used. New tombstones use the first key;
    /// those copied from another store keep their own.
    keys: Vec<Uuid>,
    ids: HashMap<Arc<str>, Known>,
    lifted: HashSet<String>,
    /// The tombstone of each message and turn, by its hash.
    parts: HashMap<u64, Arc<str>>,
}

/// An erased conversation or request.
#[derive(Debug, Clone, Default)]
struct Known {
    key: Uuid,
    parts: IdHashes,
    /// The greatest `seq` that the store had assigned at its last erasure of this entity; `None`
    /// if it was erased in other stores only.
    here_through: Option<u64>,
}

/// The key and the time of an erasure.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct ErasedBy {
    /// The key of the hashes.
    pub key: Uuid,
    /// The greatest `seq` that the store had assigned by then; `None` for an erasure in another
    /// store.
    pub here_through: Option<u64>,
}

impl Tombstones {
    /// Adds the tombstones of a removal. Removals must be read in order.
    pub(in crate::store) fn read(
        &mut self,
        by: Option<ErasedBy>,
        erased: Vec<Tombstone>,
        restored: &[String],
    ) {
        for id in restored {
            self.lift(id);
            self.lifted.insert(id.clone());
        }
        let Some(ErasedBy { key, here_through }) = by.filter(|_| !erased.is_empty()) else {
            return;
        };
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
        for Tombstone { id, parts } in erased {
            let id: Arc<str> = id.into();
            let known = self.ids.remove(&id).unwrap_or_default();
            self.parts
                .extend(parts.iter().map(|part| (part, id.clone())));
            let parts = IdHashes::of(known.parts.iter().chain(parts.iter()).collect());
            let known = Known {
                key,
                parts,
                here_through: here_through.max(known.here_through),
            };
            self.ids.insert(id, known);
        }
    }

    /// The tombstones of this store that apply to records imported from the store `origin`.
    /// Records in `origin` are newer than the erasures there. So if `origin` has a tombstone as
    /// well, and this store only copied it, it applies to none of them, except those left by an
    /// interrupted erasure.
    pub(crate) fn binding(&self, origin: &Tombstones) -> Tombstones {
        let mut binding = Tombstones {
            keys: self.keys.clone(),
            ..Tombstones::default()
        };
        for (id, known) in &self.ids {
            let through = match origin.ids.get(id) {
                _ if known.here_through.is_some() => Some(u64::MAX),
                Some(there) => there.here_through,
                None if origin.lifted.contains(&**id) => None,
                None => Some(u64::MAX),
            };
            let Some(through) = through else {
                continue;
            };
            for part in known.parts.iter() {
                let of = binding.parts.entry(part).or_insert_with(|| id.clone());
                // If several tombstones have this part, use the one that applies to most lines.
                if binding
                    .ids
                    .get(of)
                    .is_some_and(|of| of.here_through < Some(through))
                {
                    *of = id.clone();
                }
            }
            let known = Known {
                here_through: Some(through),
                ..known.clone()
            };
            binding.ids.insert(id.clone(), known);
        }
        binding
    }

    /// Whether there are no tombstones.
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The tombstones that `known` never had, by key.
    fn new_to(&self, known: &Tombstones) -> BTreeMap<Uuid, Vec<Tombstone>> {
        let mut new: BTreeMap<Uuid, Vec<Tombstone>> = BTreeMap::new();
        for (id, Known { key, parts, .. }) in &self.ids {
            if !known.ids.contains_key(id) && !known.lifted.contains(&**id) {
                let (id, parts) = (id.to_string(), parts.clone());
                new.entry(*key).or_default().push(Tombstone { id, parts });
            }
        }
        new
    }

    /// Removes a tombstone, so that the entity may be recorded again.
    pub(crate) fn lift(&mut self, tombstone: &str) {
        let known = self.ids.remove(tombstone).unwrap_or_default();
        for part in known.parts.iter() {
            if self.parts.get(&part).is_some_and(|of| **of == *tombstone) {
                self.parts.remove(&part);
            }
        }
    }

    /// The tombstone of an erased conversation or request.
    pub(crate) fn of(&self, id: Uuid) -> Option<Arc<str>> {
        self.all_of(id)
            .next()
            .map(|(tombstone, _)| tombstone.clone())
    }

    /// The same, for all keys.
    fn all_of(&self, id: Uuid) -> impl Iterator<Item = (&Arc<str>, &Known)> {
        let keys = self.keys.iter().filter(|_| !self.is_empty());
        keys.filter_map(move |key| {
            let id = hex(&keyed_hash(*key, id));
            self.ids.get_key_value(&*id)
        })
    }

    /// The tombstone of the erased conversation that a message or turn belonged to, even if the
    /// message belongs to another conversation elsewhere.
    pub(crate) fn of_part(&self, id: Uuid) -> Option<Arc<str>> {
        self.all_of_part(id).next().cloned()
    }

    /// The same, for all keys.
    fn all_of_part(&self, id: Uuid) -> impl Iterator<Item = &Arc<str>> {
        let keys = self.keys.iter().filter(|_| !self.parts.is_empty());
        keys.filter_map(move |key| self.parts.get(&part_hash(*key, id)))
    }

    /// Whether a conversation or request was erased here after the line with this number was
    /// written.
    pub(crate) fn has(&self, id: Uuid, seq: u64) -> bool {
        self.all_of(id)
            .any(|(_, known)| known.here_through >= Some(seq))
    }

    /// The same for the conversation that a message or turn belonged to.
    pub(crate) fn has_part(&self, id: Uuid, seq: u64) -> bool {
        let mut all = self.all_of_part(id).filter_map(|of| self.ids.get(of));
        all.any(|known| known.here_through >= Some(seq))
    }
}

/// The HMAC-SHA-256 of an id.
fn keyed_hash(key: Uuid, id: Uuid) -> [u8; 32] {
    // HMAC accepts a key of any length.
    Hmac::<Sha256>::new_from_slice(key.as_bytes()).map_or([0; 32], |mac| {
        mac.chain_update(id.as_bytes())
            .finalize()
            .into_bytes()
            .into()
    })
}

fn part_hash(key: Uuid, id: Uuid) -> u64 {
    let hash = keyed_hash(key, id);
    let first = hash.first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(first)
}

impl Removal {
    fn set_erased(&mut self, key: Uuid, mut erased: Vec<Tombstone>) {
        // Sort them: their order would reveal which one came first.
        erased.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        self.key = (!erased.is_empty()).then_some(key);
        self.erased = erased;
    }
}

impl Tombstones {
    /// The tombstones of a store.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if some tombstones may be lost.
    pub(crate) fn of_store(storage: &dyn Storage) -> Result<Tombstones> {
        let summary = removals::read(storage);
        let summary = summary.map_err(|e| io_error(storage, "read", removals::NAME, e))?;
        if summary.is_damaged {
            let message = "a line was changed after it was written, and what was erased might come back: put back a copy, or run 'decklog repair' to go on without that line";
            let path = full_path(storage, removals::NAME);
            return Err(Error::new(ErrorKind::Damaged, message).with_path(&path));
        }
        Ok(summary.tombstones)
    }
}

impl Inner {
    /// The current tombstones.
    ///
    /// # Errors
    /// As [`Tombstones::of_store`].
    pub(crate) fn tombstones(&self) -> Result<Tombstones> {
        Tombstones::of_store(&*self.storage)
    }

    /// Adds tombstones for conversations and requests with their messages and turns, unless they
    /// exist already. They are on disk when this returns.
    pub(crate) fn add_tombstones(&self, erased: &BTreeMap<Uuid, Vec<Uuid>>) -> Result<()> {
        self.note_erased(|known, removal| {
            let key = known.keys.first().copied().unwrap_or_else(Uuid::new_v4);
            // Copied tombstones do not count here: they do not apply to a replay of their origin.
            let is_known = |(id, parts): &(&Uuid, &Vec<Uuid>)| {
                known.has(**id, 0) && parts.iter().all(|part| known.has_part(*part, 0))
            };
            let new = erased.iter().filter(|one| !is_known(one));
            let tombstone = |(id, parts): (&Uuid, &Vec<Uuid>)| Tombstone {
                id: hex(&keyed_hash(key, *id)),
                parts: IdHashes::of(parts.iter().map(|part| part_hash(key, *part)).collect()),
            };
            removal.set_erased(key, new.map(tombstone).collect());
        })
    }

    /// Copies the tombstones of another store. They are on disk when this returns.
    pub(crate) fn copy_tombstones(&self, other: &Tombstones) -> Result<()> {
        let new = other.new_to(&self.tombstones()?);
        for (key, erased) in new {
            self.note_erased(|_, removal| {
                removal.set_erased(key, erased);
                removal.is_taken_over = true;
            })?;
        }
        Ok(())
    }

    /// Records that an erased entity may be recorded again. This is on disk when it returns.
    pub(crate) fn lift_tombstone(&self, tombstone: &str) -> Result<()> {
        self.note_erased(|known, removal| {
            if known.ids.contains_key(tombstone) {
                removal.restored = vec![tombstone.to_owned()];
            }
        })
    }

    fn note_erased(&self, set: impl FnOnce(&Tombstones, &mut Removal)) -> Result<()> {
        let storage = &*self.storage;
        let io = |e| io_error(storage, "note what is erased", removals::NAME, e);
        let txn = self.begin()?;
        let mut removal = Removal::new(
            RemovalReason::Erasure,
            String::new(),
            txn.number_watermarks(),
        );
        let known = removals::read(storage).map(|summary| summary.tombstones);
        let appended = known.and_then(|known| {
            set(&known, &mut removal);
            let is_nothing = removal.erased.is_empty() && removal.restored.is_empty();
            (!is_nothing)
                .then(|| removals::append(storage, removal))
                .transpose()
        });
        txn.commit()?;
        removals::sync(storage, appended.map_err(io)?).map_err(io)
    }
}
