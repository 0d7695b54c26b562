//! What was erased and does not come back by itself: conversations and requests, of which nothing
//! is kept but a keyed hash of their ids, in `removals.jsonl`.

use std::collections::HashSet;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

use super::Inner;
use super::removals::{self, Removal, RemovalReason};
use crate::error::{Error, Result};
use crate::record::hex;
use crate::storage::full_path;

/// The tombstones of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    key: Uuid,
    hashes: HashSet<String>,
}

impl Tombstones {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Has one come back.
    pub(crate) fn lift(&mut self, id: Uuid) {
        self.hashes.remove(&keyed_hash(self.key, id));
    }

    /// Whether a conversation or request was erased.
    pub(crate) fn has(&self, id: Uuid) -> bool {
        !self.hashes.is_empty() && self.hashes.contains(&keyed_hash(self.key, id))
    }
}

/// The HMAC-SHA-256 of an id under the store's id, as lower-case hex digits.
fn keyed_hash(key: Uuid, id: Uuid) -> String {
    // A key may have any length.
    Hmac::<Sha256>::new_from_slice(key.as_bytes()).map_or_else(
        |_| String::new(),
        |mac| hex(&mac.chain_update(id.as_bytes()).finalize().into_bytes()),
    )
}

impl Inner {
    /// The tombstones that stand by now.
    pub(crate) fn tombstones(&self) -> Result<Tombstones> {
        let storage = &*self.storage;
        let remains = removals::read(storage);
        let remains =
            remains.map_err(|e| Error::io("read", &full_path(storage, removals::NAME), e))?;
        Ok(Tombstones {
            key: self.store_id,
            hashes: remains.erased,
        })
    }

    /// Notes conversations and requests as erased; on disk once this returns.
    pub(crate) fn bury(&self, ids: impl IntoIterator<Item = Uuid>) -> Result<()> {
        self.note_ids(ids, |removal, hashes| removal.erased = hashes)
    }

    /// Notes that those that were erased may come back; on disk once this returns.
    pub(crate) fn unbury(&self, ids: impl IntoIterator<Item = Uuid>) -> Result<()> {
        self.note_ids(ids, |removal, hashes| removal.restored = hashes)
    }

    fn note_ids(
        &self,
        ids: impl IntoIterator<Item = Uuid>,
        set: impl FnOnce(&mut Removal, Vec<String>),
    ) -> Result<()> {
        let hashes = ids.into_iter().map(|id| keyed_hash(self.store_id, id));
        let mut hashes: Vec<String> = hashes.collect();
        if hashes.is_empty() {
            return Ok(());
        }
        // Their order would tell which came first.
        hashes.sort_unstable();
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
        set(&mut removal, hashes);
        let appended = removals::append(storage, removal);
        txn.commit()?;
        let file = appended.map_err(io)?;
        file.sync().and_then(|()| storage.sync_dir("")).map_err(io)
    }
}
