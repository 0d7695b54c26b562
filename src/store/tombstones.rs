//! What was erased and does not come back by itself: conversations and requests, of which nothing
//! is kept but keyed hashes of ids, in `removals.jsonl`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use uuid::Uuid;

use super::Inner;
use super::removals::{self, Removal, RemovalReason};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{IdHashes, hex};
use crate::storage::{Storage, full_path};

/// A conversation or request that was erased, as a removal has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tombstone {
    /// The keyed hash of its id.
    pub id: String,
    /// The first 64 bits of those of its messages and turns.
    #[serde(default, skip_serializing_if = "IdHashes::is_empty")]
    pub parts: IdHashes,
}

/// The tombstones of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    /// In the order in which they came: new tombstones have the first, and those of another store
    /// keep theirs.
    keys: Vec<Uuid>,
    ids: HashMap<Arc<str>, Known>,
    lifted: HashSet<String>,
    /// Whose part a message or turn was.
    parts: HashMap<u64, Arc<str>>,
}

/// What is known of a conversation or request that was erased.
#[derive(Debug, Clone, Default)]
struct Known {
    key: Uuid,
    parts: IdHashes,
}

impl Tombstones {
    /// Takes in what a removal says, after those before it.
    pub(super) fn read(&mut self, key: Option<Uuid>, erased: Vec<Tombstone>, restored: &[String]) {
        for id in restored {
            self.lift(id);
            self.lifted.insert(id.clone());
        }
        let Some(key) = key.filter(|_| !erased.is_empty()) else {
            return;
        };
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
        for Tombstone { id, parts } in erased {
            let id: Arc<str> = id.into();
            let known = self.ids.remove(&id).unwrap_or_default().parts;
            self.parts
                .extend(parts.iter().map(|part| (part, id.clone())));
            let parts = IdHashes::of(known.iter().chain(parts.iter()).collect());
            self.ids.insert(id, Known { key, parts });
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Those that were never in `known`, with the key of each.
    fn new_to(&self, known: &Tombstones) -> BTreeMap<Uuid, Vec<Tombstone>> {
        let mut new: BTreeMap<Uuid, Vec<Tombstone>> = BTreeMap::new();
        for (id, Known { key, parts }) in &self.ids {
            if !known.ids.contains_key(id) && !known.lifted.contains(&**id) {
                let (id, parts) = (id.to_string(), parts.clone());
                new.entry(*key).or_default().push(Tombstone { id, parts });
            }
        }
        new
    }

    /// Has one come back.
    pub(crate) fn lift(&mut self, tombstone: &str) {
        let known = self.ids.remove(tombstone).unwrap_or_default();
        for part in known.parts.iter() {
            if self.parts.get(&part).is_some_and(|of| **of == *tombstone) {
                self.parts.remove(&part);
            }
        }
    }

    /// The tombstone of a conversation or request that was erased.
    pub(crate) fn of(&self, id: Uuid) -> Option<Arc<str>> {
        if self.is_empty() {
            return None;
        }
        let mut found = self.keys.iter().filter_map(|key| {
            let id = hex(&keyed_hash(*key, id));
            self.ids.get_key_value(&*id)
        });
        found.next().map(|(tombstone, _)| tombstone.clone())
    }

    /// The tombstone of the conversation that a message or turn was of, under whatever other one
    /// it stands elsewhere.
    pub(crate) fn of_part(&self, id: Uuid) -> Option<Arc<str>> {
        if self.parts.is_empty() {
            return None;
        }
        let mut keys = self.keys.iter();
        keys.find_map(|key| self.parts.get(&part_hash(*key, id)).cloned())
    }

    /// Whether a conversation or request was erased.
    pub(crate) fn has(&self, id: Uuid) -> bool {
        self.of(id).is_some()
    }

    /// Whether a message or turn was of a conversation that was erased.
    pub(crate) fn has_part(&self, id: Uuid) -> bool {
        self.of_part(id).is_some()
    }
}

/// The HMAC-SHA-256 of an id.
fn keyed_hash(key: Uuid, id: Uuid) -> [u8; 32] {
    // A key may have any length.
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
        // Their order would tell which came first.
        erased.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        self.key = (!erased.is_empty()).then_some(key);
        self.erased = erased;
    }
}

impl Tombstones {
    /// Those of a store.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if some of them may have been lost.
    pub(crate) fn of_store(storage: &dyn Storage) -> Result<Tombstones> {
        let remains = removals::read(storage);
        let remains =
            remains.map_err(|e| Error::io("read", &full_path(storage, removals::NAME), e))?;
        if remains.is_damaged {
            let message = "a line was changed after it was written, and what was erased might come back: put back a copy, or run 'decklog repair' to go on without that line";
            let path = full_path(storage, removals::NAME);
            return Err(Error::new(ErrorKind::Damaged, message).with_path(&path));
        }
        Ok(remains.tombstones)
    }
}

impl Inner {
    /// The tombstones that stand by now.
    ///
    /// # Errors
    /// As [`Tombstones::of_store`].
    pub(crate) fn tombstones(&self) -> Result<Tombstones> {
        Tombstones::of_store(&*self.storage)
    }

    /// Notes conversations and requests as erased, each with its messages and turns, unless all of
    /// it is noted already; on disk once this returns.
    pub(crate) fn bury(&self, erased: &BTreeMap<Uuid, Vec<Uuid>>) -> Result<()> {
        self.note_erased(|known, removal| {
            let key = known.keys.first().copied().unwrap_or_else(Uuid::new_v4);
            let is_known = |(id, parts): &(&Uuid, &Vec<Uuid>)| {
                known.has(**id) && parts.iter().all(|part| known.has_part(*part))
            };
            let new = erased.iter().filter(|one| !is_known(one));
            let tombstone = |(id, parts): (&Uuid, &Vec<Uuid>)| Tombstone {
                id: hex(&keyed_hash(key, *id)),
                parts: IdHashes::of(parts.iter().map(|part| part_hash(key, *part)).collect()),
            };
            removal.set_erased(key, new.map(tombstone).collect());
        })
    }

    /// Notes as erased what was erased from another store; on disk once this returns.
    pub(crate) fn bury_as(&self, other: &Tombstones) -> Result<()> {
        let new = other.new_to(&self.tombstones()?);
        for (key, erased) in new {
            self.note_erased(|_, removal| removal.set_erased(key, erased))?;
        }
        Ok(())
    }

    /// Notes that one that was erased may come back; on disk once this returns.
    pub(crate) fn unbury(&self, tombstone: &str) -> Result<()> {
        self.note_erased(|known, removal| {
            if known.ids.contains_key(tombstone) {
                removal.restored = vec![tombstone.to_owned()];
            }
        })
    }

    fn note_erased(&self, set: impl FnOnce(&Tombstones, &mut Removal)) -> Result<()> {
        let storage = &*self.storage;
        let io = |e| {
            Error::io(
                "note what is erased",
                &full_path(storage, removals::NAME),
                e,
            )
        };
        let txn = self.begin()?;
        let mut removal = Removal::new(RemovalReason::Erasure, String::new(), txn.marks());
        let known = removals::read(storage).map(|remains| remains.tombstones);
        let appended = known.and_then(|known| {
            set(&known, &mut removal);
            let is_nothing = removal.erased.is_empty() && removal.restored.is_empty();
            (!is_nothing)
                .then(|| removals::append(storage, removal))
                .transpose()
        });
        txn.commit()?;
        if let Some(file) = appended.map_err(io)? {
            file.sync()
                .and_then(|()| storage.sync_dir(""))
                .map_err(io)?;
        }
        Ok(())
    }
}
