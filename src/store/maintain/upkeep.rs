//! Daily upkeep: a lock that only one process can hold, and when the task runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::record::Day;
use crate::storage::{Access, StorageFile, full_path, io_error, read_full, write_all_at};
use crate::store::background::{Job, Lane};
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

/// Runs the upkeep task while a handle that writes is open.
#[derive(Debug, Default)]
pub(in crate::store) struct UpkeepSchedule(Mutex<UpkeepState>);

#[derive(Debug, Default)]
struct UpkeepState {
    job: Option<Job>,
    is_closing: bool,
    has_full: bool,
    /// When the task is due, even if no segment is full. `None`: at once.
    due: Option<Instant>,
    /// When to renew the sidecar.
    renewal: Option<Instant>,
    /// The error of the last run, if it failed.
    failed: Option<Error>,
}

impl UpkeepSchedule {
    fn lock(&self) -> MutexGuard<'_, UpkeepState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the task now, and when it is due again. It does not keep the handle open.
    pub(in crate::store) fn start(self: &Arc<Self>, inner: Weak<Inner>, upkeep_task: UpkeepTask) {
        let schedule = Arc::clone(self);
        let run = move || schedule.run(inner.upgrade()?, upkeep_task);
        let mut state = self.lock();
        if state.job.is_none() && !state.is_closing {
            // If no thread can be started, another process does the upkeep, or this one later.
            state.job = Job::new(Lane::Upkeep, run).ok();
            state.wake_at(Instant::now());
        }
    }

    fn run(&self, inner: Arc<Inner>, upkeep_task: UpkeepTask) -> Option<Instant> {
        let mut state = self.lock();
        let renews = state.renewal.take_if(|at| *at <= Instant::now()).is_some();
        let has_full = std::mem::take(&mut state.has_full);
        let is_due = state.due.is_none_or(|due| due <= Instant::now());
        drop(state);
        if renews {
            inner.renew_sidecar();
        }
        let store = Store { inner, _open: None };
        let done =
            (has_full || is_due).then(|| upkeep_task(&store, has_full, &|| self.lock().is_closing));
        drop(store);
        let mut state = self.lock();
        if let Some(done) = done {
            state.failed = done.err();
            state.due = Some(Instant::now() + INTERVAL);
        }
        state.due.into_iter().chain(state.renewal).min()
    }

    /// Schedules a renewal of the sidecar after a pause, unless one is scheduled. A handle that
    /// closes before that writes the sidecar then. For one that writes much in a short time, the
    /// index is cheaper in memory.
    pub(in crate::store) fn notify_renewal(&self, pause: Duration) {
        let mut state = self.lock();
        let at = *state.renewal.get_or_insert(Instant::now() + pause);
        state.wake_at(at);
    }

    /// Runs the task soon, since a segment is full.
    pub(in crate::store) fn notify_full(&self) {
        let mut state = self.lock();
        state.has_full = true;
        state.wake_at(Instant::now());
    }

    /// The error of the last run, if it failed.
    pub(in crate::store) fn failure(&self) -> Option<String> {
        self.lock().failed.as_ref().map(Error::to_string)
    }

    /// Ends the runs. Waits for the current one.
    fn close(&self) {
        let mut state = self.lock();
        state.is_closing = true;
        let job = state.job.take();
        drop(state);
        drop(job);
    }
}

impl UpkeepState {
    fn wake_at(&self, at: Instant) {
        if let Some(job) = &self.job {
            job.wake_at(at);
        }
    }
}

/// An open handle. When the last clone is dropped, its upkeep ends.
#[derive(Debug)]
pub(in crate::store) struct OpenHandle {
    pub upkeep_schedule: Arc<UpkeepSchedule>,
    pub process: Process,
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        // After a fork, the upkeep belongs to the parent, and its locks may be held for good.
        if !self.process.is_another() {
            self.upkeep_schedule.close();
        }
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
