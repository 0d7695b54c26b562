//! What a store takes over from the one that records come from, before they are recorded.

use super::Replay;
use crate::error::Result;
use crate::privacy::is_of_hashed_user;
use crate::storage::Disk;
use crate::store::{Store, Tombstones, key_fingerprint};

/// What became of records before they are recorded into a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prepared {
    /// How many records were left out, as they were erased.
    pub left_out: u64,
    /// Some have hashed user ids, and it is not known under which key: the directory is neither a
    /// store nor a day of one, or its manifest is lost.
    pub is_key_unknown: bool,
}

impl Replay {
    /// Makes a store ready to record these lines. It takes over what was erased from the store that
    /// they come from, and under which key user ids are hashed there. What was erased from either
    /// is left out, with all that belongs to it, as [`Store::erase`] erases it.
    ///
    /// # Errors
    /// [`UserIdKey`](crate::ErrorKind::UserIdKey) if the lines have user ids that are hashed under
    /// another key than the store's; [`Damaged`](crate::ErrorKind::Damaged) if `removals.jsonl` of
    /// either is damaged; [`Io`](crate::ErrorKind::Io).
    pub fn prepare_for(&mut self, store: &Store) -> Result<Prepared> {
        let mut is_key_unknown = false;
        let mut lines = self.lines.iter();
        let origin = self.store.as_deref().map(Disk::new);
        if lines.any(|line| is_of_hashed_user(&line.record)) {
            match origin.as_ref().and_then(|origin| key_fingerprint(origin)) {
                Some(fingerprint) => store.adopt_user_id_key(&fingerprint)?,
                None => is_key_unknown = true,
            }
        }
        let inner = store.inner();
        if let Some(origin) = &origin {
            inner.bury_as(&Tombstones::of_store(origin)?)?;
        }
        let left_out = self.leave_out(&inner.tombstones()?);
        Ok(Prepared {
            left_out,
            is_key_unknown,
        })
    }
}
