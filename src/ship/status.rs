//! What is known of a store's destinations: how far the last run came. Kept in `cache/`, so that
//! `doctor` and the metrics can say how far behind a copy is.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Result;
use crate::record::now;
use crate::segment::seal::Digest;
use crate::store::Store;

/// The state of the copy of a store at one destination, as the last run of this machine left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ShipStatus {
    /// The destination, without secrets.
    pub destination: String,
    /// The greatest sequence number that is there.
    pub last_seq: u64,
    /// Time of the last run that succeeded, in epoch milliseconds; 0 if none did.
    pub at: i64,
    /// Time of the last run, in epoch milliseconds.
    pub tried_at: i64,
    /// Why the last run failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ShipStatus {
    /// The number of lines that were written since.
    pub fn lines_behind(&self, last_seq: u64) -> u64 {
        last_seq.saturating_sub(self.last_seq)
    }
}

/// The start of the names of this destination's files in `cache/`.
pub(super) fn cache_name(destination: &str) -> String {
    let hash = Digest::of(destination.as_bytes()).to_string();
    format!("ship.{}", hash.get(..16).unwrap_or_default())
}

fn path(store: &Store, destination: &str) -> PathBuf {
    let name = cache_name(destination);
    store.path().join("cache").join(format!("{name}.json"))
}

/// Records the end of a run. Its failure is none of the run.
pub(super) fn save(store: &Store, destination: &str, outcome: Result<u64, String>) {
    let path = path(store, destination);
    let at = now();
    let before: Option<ShipStatus> = read(&path);
    let status = match outcome {
        Ok(last_seq) => ShipStatus {
            destination: destination.to_owned(),
            last_seq,
            at,
            tried_at: at,
            error: None,
        },
        Err(error) => ShipStatus {
            destination: destination.to_owned(),
            last_seq: before.as_ref().map_or(0, |before| before.last_seq),
            at: before.map_or(0, |before| before.at),
            tried_at: at,
            error: Some(error),
        },
    };
    let written = || -> io::Result<()> {
        let temporary = path.with_extension("tmp");
        fs::write(&temporary, serde_json::to_vec(&status)?)?;
        fs::rename(temporary, &path)
    };
    let _ = written();
}

fn read(path: &std::path::Path) -> Option<ShipStatus> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

impl Store {
    /// The destinations to which this machine copied the store, by name.
    ///
    /// ```
    /// # use decklog::Store;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// assert_eq!(store.ships(), []);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn ships(&self) -> Vec<ShipStatus> {
        let Ok(entries) = fs::read_dir(self.path().join("cache")) else {
            return Vec::new();
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_status = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("ship."))
                && path.extension().is_some_and(|it| it == "json")
        };
        let mut found: Vec<ShipStatus> = paths
            .filter(is_status)
            .filter_map(|path| read(&path))
            .collect();
        found.sort_by(|a, b| a.destination.cmp(&b.destination));
        found
    }
}

/// How long to wait before the next attempt: twice as long after each failure, up to a minute, and
/// half to one and a half of that, so that many machines do not try at the same moment.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure.
    ///
    /// ```
    /// let mut backoff = decklog::ship::Backoff::default();
    /// assert!(backoff.next_wait().as_millis() <= 1_500);
    /// assert!(backoff.next_wait().as_millis() >= 1_000);
    /// ```
    pub fn next_wait(&mut self) -> Duration {
        let wait_ms = 1_000_u64 << self.failures.min(6);
        let wait_ms = wait_ms.min(60_000);
        self.failures += 1;
        let random = Uuid::new_v4().as_u128() % u128::from(wait_ms);
        Duration::from_millis(wait_ms / 2 + random as u64)
    }

    /// Begins again after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
