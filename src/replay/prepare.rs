//! Adopts tombstones and the key of user ids from the source store, before its records are recorded.

use super::{Replay, Replayed};
use crate::collections::{Ack, IfKnown};
use crate::error::Result;
use crate::privacy::key_of_record;
use crate::storage::Disk;
use crate::store::{Store, Tombstones, key_fingerprint};

impl Store {
    /// Records lines of a log, in order, like [`record_batch`](Store::record_batch). Does not check
    /// that the hash of a call's arguments agrees with them: the source checked it before it
    /// redacted them.
    ///
    /// # Errors
    /// As [`record_batch`](Store::record_batch).
    pub fn record_replayed(
        &self,
        lines: impl IntoIterator<Item = Replayed>,
    ) -> Result<Vec<Result<Ack>>> {
        let lines = lines.into_iter();
        self.put_batch(lines.map(|line| (line.record.checked(), IfKnown::Compare)))
    }
}

impl Replay {
    /// Prepares a store to record these lines. It adopts the source store's tombstones and the
    /// fingerprint of its key of user ids. Records that were erased from this store are removed from
    /// the lines, with all related records, by the rules of [`Store::erase`]; returns the number of
    /// these records. Records that the source recorded again after an erasure there are kept.
    ///
    /// # Errors
    /// [`UserIdKey`](crate::ErrorKind::UserIdKey) if the lines have user ids that are hashed under
    /// another key than the store's; [`Damaged`](crate::ErrorKind::Damaged) if `removals.jsonl` of
    /// either is damaged; [`Io`](crate::ErrorKind::Io).
    pub fn prepare_for(&mut self, store: &Store) -> Result<u64> {
        let origin = self.store.as_deref().map(Disk::new);
        let mut hashed = self.lines.iter().rev();
        if let Some(last) = hashed.find_map(|line| key_of_record(&line.record)) {
            // Some ids may be hashed under an earlier key, which was replaced.
            let current = origin.as_ref().and_then(|origin| key_fingerprint(origin));
            store.adopt_user_id_key(current.as_deref().unwrap_or(last))?;
        }
        let inner = store.inner();
        let erased_there = match &origin {
            Some(origin) => Tombstones::of_store(origin)?,
            None => Tombstones::default(),
        };
        inner.copy_tombstones(&erased_there)?;
        Ok(self.leave_out(&inner.tombstones()?.binding(&erased_there)))
    }
}
