//! `cache/verified`: the result of the last verification.

use serde::{Deserialize, Serialize};

use super::Verification;
use crate::error::Result;
use crate::record::now;
use crate::storage::{Storage, io_error};
use crate::store::{CacheFile, Store};

const FILE: CacheFile = CacheFile {
    path: "cache/verified",
    header: "decklog verified 1\n",
};

/// The result of the last verification that was saved; from [`Store::last_verification`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LastVerification {
    /// When it ended, in epoch milliseconds.
    pub at: i64,
    /// Whether it read every line.
    pub deep: bool,
    /// Number of segments read.
    pub segments: u64,
    /// Size of the segments, in bytes.
    pub bytes: u64,
    /// Number of good lines.
    pub good_lines: u64,
    /// Number of seals.
    pub seals: u64,
    /// Number of damaged places.
    pub damage: u64,
    /// Number of lines that break a rule of writers.
    pub violations: u64,
    /// Number of ranges of missing sequence numbers.
    pub gaps: u64,
    /// Number of ranges of repeated sequence numbers.
    pub repeats: u64,
}

impl LastVerification {
    /// As [`Verification::is_clean`].
    pub fn is_clean(&self) -> bool {
        [self.damage, self.violations, self.gaps, self.repeats] == [0; 4]
    }
}

impl Verification {
    /// Saves a summary of this result in the store's cache. `deep`: as in
    /// [`VerifyOptions`](super::VerifyOptions). `decklog verify` does it if it may write.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = decklog::Store::open(dir.path().join("log"))?;
    /// let disk = decklog::storage::Disk::new(store.path());
    /// decklog::verify(&disk)?.save(&disk, false)?;
    /// assert!(store.last_verification().unwrap().is_clean());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the file cannot be written.
    pub fn save(&self, storage: &dyn Storage, deep: bool) -> Result<()> {
        let last = LastVerification {
            at: now(),
            deep,
            segments: self.segments,
            bytes: self.bytes,
            good_lines: self.good_lines,
            seals: self.seals,
            damage: self.damage.len() as u64,
            violations: self.violations.len() as u64,
            gaps: self.gaps.len() as u64,
            repeats: self.repeats.len() as u64,
        };
        let saved = FILE.save(storage, &last);
        saved.map_err(|e| io_error(storage, "write", FILE.path, e))
    }
}

impl Store {
    /// The last verification whose result was saved, by any process; `None` if there is none.
    pub fn last_verification(&self) -> Option<LastVerification> {
        FILE.load(&*self.inner().storage)
    }
}
