//! Repair of a whole store, under its lock.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Store;
use crate::error::{Error, Result};
use crate::segment::repair::{Repaired, repair_segment};
use crate::storage::full_path;

impl Store {
    /// Moves damaged bytes out of the segments into files under `quarantine/`, one for every
    /// segment concerned, and ends torn lines that lack nothing but their LF. Rewritten lines
    /// stay as they are or, with `accept_edits`, get a new checksum and count as good from then
    /// on. Returns what was done to which segment; segments without damage are not touched.
    ///
    /// # Errors
    /// [`Locked`](crate::ErrorKind::Locked), [`Io`](crate::ErrorKind::Io). A segment is replaced
    /// in one step, so an error leaves each as it was or mended.
    pub fn repair(&self, accept_edits: bool) -> Result<Vec<Repaired>> {
        let inner = self.inner();
        let moment = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let moment = moment.as_nanos();
        let mut txn = inner.begin()?;
        let mut repaired = Vec::new();
        for name in txn.segments() {
            let one = repair_segment(&*inner.storage, name, accept_edits, txn.max_seq(), moment);
            repaired.extend(one.map_err(|e| {
                Error::io(
                    "repair the segment",
                    &full_path(&*inner.storage, &name.path()),
                    e,
                )
            })?);
        }
        txn.look_again()?;
        let ticket = txn.commit()?;
        inner.acknowledge(ticket)?;
        Ok(repaired)
    }
}
