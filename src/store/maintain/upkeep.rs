//! Daily upkeep: a lock that only one process can hold, and the thread that runs the task.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::record::Day;
use crate::storage::{Access, StorageFile, full_path, io_error, read_full, write_all_at};
use crate::store::{Inner, Process, Store};

const NAME: &str = "cache/upkeep";
/// The length of a day's name.
const DAY_BYTES: usize = 10;
const SLEEP: Duration = Duration::from_millis(10);

/// Permission to rewrite segments. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Upkeep(Arc<dyn StorageFile>);

impl Drop for Upkeep {
    fn drop(&mut self) {
        // Closing the file releases the lock, too.
        let _ = self.0.unlock();
    }
}

impl Inner {
    /// Waits until no other process rewrites segments.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) after `timeout`.
    pub(crate) fn begin_upkeep(&self, timeout: Duration) -> Result<Upkeep> {
        self.check_writable()?;
        let storage = &*self.storage;
        let path = full_path(storage, NAME);
        let io = |e| Error::io("lock the upkeep", &path, e);
        storage.create_dir("cache").map_err(io)?;
        let file = storage.open(NAME, Access::Append).map_err(io)?;
        let started = Instant::now();
        while !file.try_lock().map_err(io)? {
            if started.elapsed() >= timeout {
                let message =
                    "another process retains, compacts or erases: try again when it is done";
                return Err(Error::new(ErrorKind::Locked, message).with_path(&path));
            }
            std::thread::sleep(SLEEP);
        }
        Ok(Upkeep(file))
    }
}

/// The task of the upkeep thread. `has_full`: segments became full since its last run. It should
/// return soon once `is_closing` is true.
pub(crate) type UpkeepTask =
    fn(&Store, has_full: bool, is_closing: &dyn Fn() -> bool) -> Result<()>;

/// Time between two runs of the task.
const INTERVAL: Duration = Duration::from_secs(600);

/// The thread that runs the upkeep task while a handle that writes is open.
#[derive(Debug, Default)]
pub(in crate::store) struct UpkeepThread {
    process: Process,
    state: Mutex<UpkeepState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct UpkeepState {
    is_closing: bool,
    has_full: bool,
    /// Whether the sidecar should be renewed.
    needs_sidecar: bool,
    /// The error of the last run, if it failed.
    failed: Option<Error>,
    thread: Option<JoinHandle<()>>,
}

impl UpkeepThread {
    fn lock(&self) -> MutexGuard<'_, UpkeepState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread. It does not keep the handle open.
    pub(in crate::store) fn start(self: &Arc<Self>, inner: Weak<Inner>, upkeep_task: UpkeepTask) {
        let upkeep_thread = Arc::clone(self);
        let run = move || upkeep_thread.run(&inner, upkeep_task);
        let mut state = self.lock();
        if state.thread.is_none() && !state.is_closing {
            let thread = Builder::new().name("decklog-upkeep".to_owned()).spawn(run);
            // If no thread can be started, another process does the upkeep, or this one later.
            state.thread = thread.ok();
        }
    }

    fn run(&self, inner: &Weak<Inner>, upkeep_task: UpkeepTask) {
        let (mut has_full, mut needs_sidecar) = (false, false);
        // When the task is due.
        let mut due = Instant::now();
        let Some(pause) = inner.upgrade().map(|inner| inner.renewal_pause()) else {
            return;
        };
        loop {
            // A handle that closes soon writes the sidecar then. For one that writes much in a short
            // time, the index is cheaper in memory.
            if needs_sidecar && self.closes_within(pause) {
                return;
            }
            let Some(inner) = inner.upgrade() else {
                return;
            };
            if needs_sidecar {
                inner.renew_sidecar();
            }
            if has_full || due <= Instant::now() {
                let store = Store { inner, _open: None };
                let done = upkeep_task(&store, has_full, &|| self.lock().is_closing);
                self.lock().failed = done.err();
                due = Instant::now() + INTERVAL;
            } else {
                drop(inner);
            }
            let state = self.lock();
            let is_idle = |state: &mut UpkeepState| {
                !state.is_closing && !state.has_full && !state.needs_sidecar
            };
            let left = due.saturating_duration_since(Instant::now());
            let waited = self.changed.wait_timeout_while(state, left, is_idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
            has_full = std::mem::take(&mut state.has_full);
            needs_sidecar = std::mem::take(&mut state.needs_sidecar);
            if state.is_closing {
                return;
            }
        }
    }

    fn closes_within(&self, pause: Duration) -> bool {
        let is_open = |state: &mut UpkeepState| !state.is_closing;
        let waited = self.changed.wait_timeout_while(self.lock(), pause, is_open);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_closing
    }

    /// Notifies the thread that the sidecar should be renewed.
    pub(in crate::store) fn notify_renewal(&self) {
        self.lock().needs_sidecar = true;
        self.changed.notify_all();
    }

    /// Notifies the thread that a segment is full.
    pub(in crate::store) fn notify_full(&self) {
        self.lock().has_full = true;
        self.changed.notify_all();
    }

    /// The error of the last run, if it failed.
    pub(in crate::store) fn failure(&self) -> Option<String> {
        self.lock().failed.as_ref().map(Error::to_string)
    }

    /// Ends the thread. Waits for the current run.
    fn close(&self) {
        if self.process.is_another() {
            // After a fork, the thread belongs to the parent.
            return;
        }
        let mut state = self.lock();
        state.is_closing = true;
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        // A panic of the thread is not this caller's error.
        let _ = thread.map(JoinHandle::join);
    }
}

/// An open handle. When the last clone is dropped, the upkeep thread ends.
#[derive(Debug)]
pub(in crate::store) struct OpenHandle(pub Arc<UpkeepThread>);

impl Drop for OpenHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Inner {
    /// Whether no process has run the daily upkeep today. False on the day on which the store was
    /// created.
    pub(crate) fn is_upkeep_due(&self, today: Day) -> bool {
        if let Some(last) = self.last_upkeep() {
            // Also if it is a later day: the clock was ahead.
            return last != today;
        }
        let made = self.storage.times("decklog.json").ok().flatten();
        let made = made.and_then(|times| Day::of(times.modified_ns / 1_000_000).ok());
        made.is_some_and(|made| made < today)
    }

    /// The day of the last complete upkeep.
    pub(crate) fn last_upkeep(&self) -> Option<Day> {
        let file = self.storage.open(NAME, Access::Read).ok()?;
        let mut text = [0; DAY_BYTES];
        let read = read_full(&*file, &mut text, 0).ok()?;
        str::from_utf8(text.get(..read)?).ok()?.parse().ok()
    }

    /// Records that the upkeep of a day is complete. The caller holds [`Upkeep`].
    pub(crate) fn note_upkeep(&self, day: Day) -> Result<()> {
        let io = |e| io_error(&*self.storage, "write", NAME, e);
        let file = self.storage.open(NAME, Access::Overwrite).map_err(io)?;
        write_all_at(&*file, day.to_string().as_bytes(), 0).map_err(io)
    }
}
