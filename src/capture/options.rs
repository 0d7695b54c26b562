//! Options of a capture.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::queue::{Limits, Queue};
use super::writer::{OnError, Writer};
use super::{Capture, Owner};
use crate::error::{Error, Result};
use crate::record::Record;
use crate::store::{Process, Store};

/// The action of a call while the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// It returns at once with [`QueueFull`](crate::ErrorKind::QueueFull); the record is counted
    /// as refused.
    #[default]
    Refuse,
    /// It waits without a timeout until there is space. While another process holds the store's
    /// lock, all callers may have to wait.
    Wait,
}

/// Options of a capture; from [`Store::capture_options`].
pub struct CaptureOptions {
    pub(super) store: Store,
    limits: Limits,
    pub(super) drain_timeout: Duration,
    pub(super) on_error: Option<OnError>,
}

impl Store {
    /// Options of a capture.
    ///
    /// ```
    /// use decklog::Store;
    /// use decklog::capture::WhenFull;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let capture = store
    ///     .capture_options()
    ///     .queue_records_max(100_000)
    ///     .when_full(WhenFull::Wait)
    ///     .on_error(|error, record| eprintln!("not logged: {} {error}", record.kind()))
    ///     .start()?;
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn capture_options(&self) -> CaptureOptions {
        CaptureOptions {
            store: self.clone(),
            limits: Limits {
                records_max: 10_000,
                bytes_max: 64 << 20,
                when_full: WhenFull::default(),
            },
            drain_timeout: Duration::from_secs(30),
            on_error: None,
        }
    }
}

impl CaptureOptions {
    /// Maximum number of queued records, including those being written. At least 1. An empty queue
    /// accepts the records of one call in any number. Default: 10,000.
    #[must_use]
    pub fn queue_records_max(mut self, records: usize) -> CaptureOptions {
        self.limits.records_max = records.max(1);
        self
    }

    /// Maximum bytes of the texts of queued records, such as `content`, including those being
    /// written. An empty queue accepts the records of one call of any size. Default: 64 MiB.
    #[must_use]
    pub fn queue_bytes_max(mut self, bytes: usize) -> CaptureOptions {
        self.limits.bytes_max = bytes;
        self
    }

    /// The action of a call while the queue is full. Default: [`WhenFull::Refuse`], so that no call
    /// ever waits.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> CaptureOptions {
        self.limits.when_full = when_full;
        self
    }

    /// How long the thread retries to get the lock after the last handle was dropped; then queued
    /// records count as failed. Before that it retries without limit. Each try takes up to the
    /// store's lock timeout. Default: 30 s.
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> CaptureOptions {
        self.drain_timeout = timeout;
        self
    }

    /// Called on the writing thread, for each record that was queued and then lost, with the error.
    /// Nothing is written while it runs. It must not hold a handle of the same capture, which would
    /// then never be dropped. A panic in it is caught. Default: none.
    #[must_use]
    pub fn on_error(
        mut self,
        on_error: impl FnMut(&Error, &Record) + Send + 'static,
    ) -> CaptureOptions {
        self.on_error = Some(Box::new(on_error));
        self
    }

    /// Starts the writing thread.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`Io`](crate::ErrorKind::Io) if no thread can be
    /// started.
    pub fn start(self) -> Result<Capture> {
        self.store.inner().check_writable()?;
        let line_bytes_max = self.store.inner().line_bytes_max;
        let path = self.store.path().to_path_buf();
        let queue = Arc::new(Queue::new(self.limits));
        let writer = Writer::new(self, Arc::clone(&queue));
        let thread = std::thread::Builder::new()
            .name("decklog-capture".to_owned())
            .spawn(move || writer.run())
            .map_err(|e| Error::io("start the writing thread of the capture", &path, e))?;
        Ok(Capture {
            owner: Arc::new(Owner {
                queue,
                line_bytes_max,
                thread: Mutex::new(Some(thread)),
                process: Process::default(),
            }),
            told: AtomicU64::new(0),
        })
    }
}

impl fmt::Debug for CaptureOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureOptions")
            .field("store", &self.store)
            .field("limits", &self.limits)
            .field("drain_timeout", &self.drain_timeout)
            .field("on_error", &self.on_error.is_some())
            .finish()
    }
}
