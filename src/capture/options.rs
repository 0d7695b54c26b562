//! How to capture.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::queue::{Limits, Queue};
use super::writer::{OnError, Writer};
use super::{Capture, Owner};
use crate::error::{Error, Result};
use crate::record::Record;
use crate::store::{Process, Store};

/// What a call does while the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// It returns at once with [`QueueFull`](crate::ErrorKind::QueueFull); the record is counted
    /// as refused.
    #[default]
    Refuse,
    /// It waits until there is room, for as long as it takes: while another process keeps the
    /// store locked, all callers may come to wait.
    Wait,
}

/// How to capture; from [`Store::capture_options`].
pub struct CaptureOptions {
    store: Store,
    limits: Limits,
    drain_timeout: Duration,
    on_error: Option<OnError>,
}

impl CaptureOptions {
    pub(super) fn new(store: Store) -> CaptureOptions {
        CaptureOptions {
            store,
            limits: Limits {
                records_max: 10_000,
                bytes_max: 64 << 20,
                when_full: WhenFull::default(),
            },
            drain_timeout: Duration::from_secs(30),
            on_error: None,
        }
    }

    /// How many records may wait, those that are being written included. At least 1. What one
    /// call hands over is taken whatever it has if nothing else waits. Default: 10,000.
    #[must_use]
    pub fn queue_records_max(mut self, records: usize) -> CaptureOptions {
        self.limits.records_max = records.max(1);
        self
    }

    /// How many bytes the texts of waiting records may have, such as `content`, those that are
    /// being written included. What one call hands over is taken whatever it has if nothing else
    /// waits. Default: 64 MiB.
    #[must_use]
    pub fn queue_bytes_max(mut self, bytes: usize) -> CaptureOptions {
        self.limits.bytes_max = bytes;
        self
    }

    /// What a call does while the queue is full. Default: [`WhenFull::Refuse`], so that no call
    /// ever waits.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> CaptureOptions {
        self.limits.when_full = when_full;
        self
    }

    /// For how long after the last handle was dropped the thread goes on trying to get a lock
    /// that another process holds; then what waits is counted as failed. Before that it tries
    /// without end. Each try takes up to the store's lock timeout. Default: 30 s.
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> CaptureOptions {
        self.drain_timeout = timeout;
        self
    }

    /// Called on the thread that writes, for each record that was queued and then not taken by
    /// the log, with the reason. Nothing is written while it runs. It must not keep a handle of
    /// the same capture, which would then never be dropped; a panic in it is caught, and the
    /// records go on. Default: none.
    #[must_use]
    pub fn on_error(
        mut self,
        on_error: impl FnMut(&Error, &Record) + Send + 'static,
    ) -> CaptureOptions {
        self.on_error = Some(Box::new(on_error));
        self
    }

    /// Starts the thread that writes.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`Io`](crate::ErrorKind::Io) if no thread can be
    /// started.
    pub fn start(self) -> Result<Capture> {
        self.store.inner().check_writable()?;
        let line_bytes_max = self.store.inner().line_bytes_max;
        let path = self.store.path().to_path_buf();
        let queue = Arc::new(Queue::new(self.limits));
        let writer = Writer::new(
            self.store,
            Arc::clone(&queue),
            self.on_error,
            self.drain_timeout,
        );
        let thread = std::thread::Builder::new()
            .name("decklog-capture".to_owned())
            .spawn(move || writer.run())
            .map_err(|e| Error::io("start the thread that writes what is captured", &path, e))?;
        Ok(Capture {
            owner: Arc::new(Owner {
                queue,
                line_bytes_max,
                thread: Some(thread),
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
