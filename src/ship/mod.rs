//! Copies of a log elsewhere: in object storage, in PostgreSQL, and as OTLP at a receiver.
//!
//! ```
//! use decklog::ship::{Destination, ShipOptions, Shipper};
//! # use decklog::{Store, event_type};
//! # let dir = tempfile::tempdir().unwrap();
//! # let store = Store::open(dir.path().join("log"))?;
//! # let there = dir.path().join("bucket");
//! store.log_event(None, event_type::AGENT_STARTED, None)?;
//! let destination = Destination::create(there.to_str().unwrap())?;
//! let mut shipper = Shipper::new(&store, &destination, ShipOptions::default())?;
//! let shipped = shipper.ship()?;
//! assert_eq!((shipped.last_seq, shipped.objects_written), (1, 1));
//! assert!(destination.verify(None)?[0].is_clean());
//!
//! let again = dir.path().join("again");
//! destination.pull(None, &again, &Default::default())?;
//! assert_eq!(Store::open(again)?.get_event(1)?.unwrap().event_type, "agent.started");
//! # Ok::<(), decklog::Error>(())
//! ```

mod destination;
mod lock;
mod objects;
#[cfg(feature = "otlp")]
mod otlp;
mod postgres;
mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use uuid::Uuid;

pub use destination::Destination;
use destination::Place;
pub use objects::{Pulled, RemoteDamage, RemoteVerification};
pub use status::{Backoff, ShipStatus};

use crate::error::{Error, ErrorKind, Result};
use crate::record::is_default;
use crate::store::Store;

/// The format of objects with lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// The lines of the segments as they are, compressed with zstd.
    #[default]
    Jsonl,
    /// A row a line, as Parquet. No store can be made of it again.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Format {
    /// What the names of its objects end with.
    fn extension(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl.zst",
            #[cfg(feature = "parquet")]
            Format::Parquet => "parquet",
        }
    }

    /// The format as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl",
            #[cfg(feature = "parquet")]
            Format::Parquet => "parquet",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(word: &str) -> Result<Format> {
        match word {
            "jsonl" => Ok(Format::Jsonl),
            #[cfg(feature = "parquet")]
            "parquet" => Ok(Format::Parquet),
            #[cfg(not(feature = "parquet"))]
            "parquet" => Err(Error::invalid(
                "this decklog was built without Parquet: install it with --features parquet",
            )),
            _ => Err(Error::invalid(format!(
                "{word:?} is no format of shipped lines: give jsonl or parquet"
            ))),
        }
    }
}

/// How to ship.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ShipOptions {
    /// The format of objects. A destination has a store in one format.
    pub format: Format,
    /// Write nothing; count what would be written. Default: false.
    pub dry_run: bool,
    /// Also copy `access.json` and `quarantine/`, and read back each object that was written.
    /// Default: false.
    pub is_backup: bool,
    /// The shipper is used again and again. Then objects of the last day are not listed each time.
    /// Default: false.
    pub follows: bool,
}

impl ShipOptions {
    fn check_backup(self) -> Result<()> {
        if self.is_backup && self.format != Format::Jsonl {
            let message = format!(
                "a backup is jsonl: a store cannot be made of {}",
                self.format
            );
            return Err(Error::invalid(message));
        }
        Ok(())
    }
}

/// The result of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shipped {
    /// The store.
    pub store_id: Uuid,
    /// The greatest sequence number of the log that is there now.
    pub last_seq: u64,
    /// Size of the lines that were read and written, in bytes.
    pub bytes: u64,
    /// The same after compression.
    pub bytes_written: u64,
    /// Number of objects written.
    pub objects_written: u64,
    /// Number of objects removed: parts that became one object, and what was removed from the log.
    pub objects_removed: u64,
    /// Number of rows written to a database.
    pub rows_written: u64,
    /// Number of rows deleted from a database, since the log does not have their records any more.
    pub rows_removed: u64,
    /// Number of spans that a receiver of OTLP acknowledged.
    #[serde(skip_serializing_if = "is_default")]
    pub spans_sent: u64,
    /// Number of log records that a receiver of OTLP acknowledged.
    #[serde(skip_serializing_if = "is_default")]
    pub logs_sent: u64,
    /// Number of spans and log records that the receiver did not take. They are not sent again.
    #[serde(skip_serializing_if = "is_default")]
    pub items_rejected: u64,
    /// Number of log records that were left out, since the receiver takes spans only.
    #[serde(skip_serializing_if = "is_default")]
    pub logs_refused: u64,
    /// The reasons, as the receiver states them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<String>,
    /// Sealed segments that do not match their seal. They were shipped as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlike_seal: Vec<String>,
}

impl Shipped {
    /// Whether the run changed anything at the destination.
    pub fn has_changes(&self) -> bool {
        let changes = [
            self.objects_written,
            self.objects_removed,
            self.rows_written,
            self.rows_removed,
            self.spans_sent,
            self.logs_sent,
            self.items_rejected,
        ];
        changes.iter().any(|changes| *changes > 0)
    }
}

/// How far a run has come. Clones share the numbers.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    done: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
}

impl Progress {
    /// Size of the lines processed so far, in bytes.
    pub fn bytes_done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Size of all lines to process, in bytes, once known.
    pub fn bytes_total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    fn expect(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    fn done(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }
}

#[derive(Debug)]
enum Kind {
    Objects(Box<objects::ObjectShipper>),
    Postgres(Box<postgres::PostgresShipper>),
    #[cfg(feature = "otlp")]
    Otlp(Box<otlp::OtlpShipper>),
}

/// Copies a store to a destination, again and again.
#[derive(Debug)]
pub struct Shipper {
    runtime: Arc<Runtime>,
    kind: Kind,
    progress: Progress,
    store: Store,
    destination: String,
    options: ShipOptions,
    _lock: Option<lock::ShipLock>,
}

impl Shipper {
    /// Prepares to copy a store. While it exists, no other process copies the store to the same
    /// destination.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) if another process does so already;
    /// [`Remote`](ErrorKind::Remote) if the destination cannot be reached.
    pub fn new(store: &Store, destination: &Destination, options: ShipOptions) -> Result<Shipper> {
        let lock = lock::ShipLock::take(store, destination.name())?;
        let progress = Progress::default();
        let (log, shared) = (store.clone(), progress.clone());
        let shipper = match destination.place() {
            Place::Objects(objects) => {
                options.check_backup()?;
                let objects = objects.clone();
                let shipper = objects::ObjectShipper::new(objects, log, options, shared);
                Kind::Objects(Box::new(shipper))
            }
            Place::Postgres(_) if options.is_backup => {
                let message = "a database holds no backup: give a directory or object storage";
                return Err(Error::invalid(message));
            }
            Place::Postgres(config) => {
                let config = (**config).clone();
                let shipper = postgres::PostgresShipper::new(config, log, options, shared);
                Kind::Postgres(Box::new(shipper))
            }
            #[cfg(feature = "otlp")]
            Place::Otlp(_) if options.is_backup || options.format != Format::Jsonl => {
                let message = "OTLP has one format, and is no backup: leave out --format, or give a directory or object storage";
                return Err(Error::invalid(message));
            }
            #[cfg(feature = "otlp")]
            Place::Otlp(endpoint) => {
                let shared = (shared, destination.name());
                let shipper = otlp::OtlpShipper::new(endpoint, log, options, shared)?;
                Kind::Otlp(Box::new(shipper))
            }
        };
        Ok(Shipper {
            runtime: destination.runtime(),
            kind: shipper,
            progress,
            store: store.clone(),
            destination: destination.name().to_owned(),
            options,
            _lock: lock,
        })
    }

    /// How far [`ship`](Self::ship) has come, for another thread.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Copies everything up to now, and removes there what was removed here. Returns once it is
    /// there. If it fails, the next call continues.
    ///
    /// # Errors
    /// [`Remote`](ErrorKind::Remote), [`Io`](ErrorKind::Io); [`Conflict`](ErrorKind::Conflict) if
    /// the store was rewritten again and again, or another machine ships the same store.
    pub fn ship(&mut self) -> Result<Shipped> {
        let mut shipped = self.try_ship();
        for tries in 1..TRIES_MAX {
            let is_conflict = |e: &Error| e.kind() == ErrorKind::Conflict;
            if !shipped.as_ref().is_err_and(is_conflict) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100 << tries.min(5)));
            self.store.refresh()?;
            shipped = self.try_ship();
        }
        if !self.options.dry_run {
            let outcome = shipped.as_ref().map(|shipped| shipped.last_seq);
            // A wrong option says nothing about the copy.
            let kind = shipped.as_ref().err().map(Error::kind);
            if kind != Some(ErrorKind::InvalidInput) {
                let outcome = outcome.map_err(ToString::to_string);
                status::save(&self.store, &self.destination, outcome);
            }
        }
        shipped
    }

    fn try_ship(&mut self) -> Result<Shipped> {
        self.runtime.block_on(async {
            match &mut self.kind {
                Kind::Objects(shipper) => shipper.try_ship().await,
                Kind::Postgres(shipper) => shipper.try_ship().await,
                #[cfg(feature = "otlp")]
                Kind::Otlp(shipper) => shipper.try_ship().await,
            }
        })
    }
}

/// Number of attempts if the store was rewritten meanwhile, or another process changed what is
/// there.
const TRIES_MAX: u32 = 10;

/// The error of an operation at the far end.
fn remote(doing: &str, object: &str, e: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Remote, format!("cannot {doing} {object}: {e}"))
}
