//! What a store takes over from the one that records come from, before they are recorded.

use super::{Replay, Replayed};
use crate::collections::{Ack, IfKnown};
use crate::error::Result;
use crate::privacy::key_of_record;
use crate::storage::Disk;
use crate::store::{Store, Tombstones, key_fingerprint};

impl Store {
    /// Records lines of a log, in order, as [`record_batch`](Store::record_batch) records what is
    /// new. That the hash of a call's arguments agrees with them is not checked: it was when they
    /// were given, and what a log holds is taken over as it is.
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
    /// Makes a store ready to record these lines. It takes over what was erased from the store that
    /// they come from, and under which key user ids are hashed there. What was erased from this
    /// store is left out, with all that belongs to it, as [`Store::erase`] erases it; returns how
    /// many records these are. What was recorded again where they come from, after it was erased
    /// there, is not left out for that.
    ///
    /// # Errors
    /// [`UserIdKey`](crate::ErrorKind::UserIdKey) if the lines have user ids that are hashed under
    /// another key than the store's; [`Damaged`](crate::ErrorKind::Damaged) if `removals.jsonl` of
    /// either is damaged; [`Io`](crate::ErrorKind::Io).
    pub fn prepare_for(&mut self, store: &Store) -> Result<u64> {
        let origin = self.store.as_deref().map(Disk::new);
        let mut hashed = self.lines.iter().rev();
        if let Some(last) = hashed.find_map(|line| key_of_record(&line.record)) {
            // Some may be hashed under an earlier key, which was replaced.
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
