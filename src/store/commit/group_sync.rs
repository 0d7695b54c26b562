//! Group commit: many writers wait for one fsync. The remaining writes are synced in the background.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::storage::{Access, Named, Storage, StorageFile, if_there, io_error, is_gone};
use crate::store::background::{Job, Lane};
use crate::store::counts::{SyncTimes, Times};

/// Maximum number of attempts to open a file for syncing, and the time between them, if the
/// process has too many files open.
const REOPEN_TRIES: u32 = 100;
const REOPEN_PAUSE: Duration = Duration::from_millis(20);
/// Maximum time to wait for others to join a sync.
const PATIENCE_MAX: Duration = Duration::from_millis(2);

/// A position in the order of writes that a caller can wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket(u64);

/// A segment open for append, and for the sync after it.
#[derive(Debug, Clone)]
pub(in crate::store) struct Handle {
    pub named: Named,
    pub path: Arc<str>,
}

/// A file's name and identity. Several files may have had the same name, if earlier ones were
/// moved away.
type FileKey = (Arc<str>, u64);

/// Files and directories written and not yet synced.
#[derive(Debug, Default)]
struct Dirty {
    /// `None` for a file that is not kept open. It is opened again for the sync.
    files: BTreeMap<FileKey, Option<Arc<dyn StorageFile>>>,
    /// Number of files kept open.
    open: usize,
    dirs: BTreeSet<String>,
}

impl Dirty {
    fn note(&mut self, key: FileKey, file: Arc<dyn StorageFile>, open_max: usize) {
        // Any descriptor will do: a sync applies to the file.
        if let Entry::Vacant(place) = self.files.entry(key) {
            let is_kept = self.open < open_max;
            self.open += usize::from(is_kept);
            place.insert(is_kept.then_some(file));
        }
    }

    /// Whether some dirty files are not kept open. They should be synced soon.
    fn is_crowded(&self) -> bool {
        self.files.len() > self.open
    }
}

#[derive(Debug, Default)]
struct State {
    dirty: Dirty,
    written: u64,
    is_syncing: bool,
    /// Syncs the writes that no caller waits for.
    background: Option<Job>,
    /// Whether it will sync what was written.
    is_scheduled: bool,
    group: Group,
    /// The waiting threads and their tickets.
    parked: Vec<(u64, Thread)>,
    /// The first failure. It is permanent: a failed fsync is never retried.
    failed: Option<Error>,
}

/// The callers that wait for the next sync. Those of the last sync usually write again at once,
/// and a sync that starts before they do costs all of them another one.
#[derive(Debug, Default)]
pub(super) struct Group {
    waiting: usize,
    /// Number of callers that waited for the last sync.
    before: usize,
    /// Maximum time to wait until as many callers wait again: the duration of the last sync.
    patience: Duration,
}

impl Group {
    /// Adds a caller. Returns whether all expected ones wait.
    pub(super) fn join(&mut self) -> bool {
        self.waiting += 1;
        self.is_whole()
    }

    fn is_whole(&self) -> bool {
        self.waiting >= self.before
    }

    /// Waits until the expected callers have joined, but not for longer than the last sync took.
    pub(super) fn gather<'a, S>(
        arrived: &Condvar,
        state: MutexGuard<'a, S>,
        group: impl Fn(&S) -> &Group,
    ) -> MutexGuard<'a, S> {
        let patience = group(&state).patience;
        arrived
            .wait_timeout_while(state, patience, |state| !group(state).is_whole())
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    pub(super) fn begin(&mut self) {
        self.before = std::mem::take(&mut self.waiting);
    }

    /// Notes what the sync of the group took.
    pub(super) fn end(&mut self, taken: Duration) {
        self.patience = taken.min(PATIENCE_MAX);
    }
}

#[derive(Debug)]
pub(in crate::store) struct GroupSync {
    storage: Arc<dyn Storage>,
    state: Mutex<State>,
    /// The last ticket that is on disk.
    synced: AtomicU64,
    /// The time after which the background syncs what no caller waits for.
    interval: Duration,
    /// Maximum number of files kept open for a sync.
    open_max: usize,
    /// Signalled when the group is complete.
    arrived: Condvar,
    times: Times,
}

impl GroupSync {
    pub(in crate::store) fn new(
        storage: Arc<dyn Storage>,
        open_max: usize,
        interval: Duration,
    ) -> GroupSync {
        GroupSync {
            storage,
            open_max,
            interval,
            state: Mutex::default(),
            synced: AtomicU64::new(0),
            arrived: Condvar::new(),
            times: Times::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a directory to sync, since it got a new name.
    pub(in crate::store) fn mark_dir(&self, dir: &str) {
        self.lock().dirty.dirs.insert(dir.to_owned());
    }

    /// Adds files to sync. Returns the ticket for everything added so far.
    pub(in crate::store) fn ticket(&self, written: impl Iterator<Item = Handle>) -> Ticket {
        let mut state = self.lock();
        for Handle { named, path } in written {
            let key = (path, named.identity);
            state.dirty.note(key, named.file, self.open_max);
        }
        state.written += 1;
        self.schedule(&mut state);
        Ticket(state.written)
    }

    /// The durations of the fsyncs of files so far.
    pub(in crate::store) fn times(&self) -> SyncTimes {
        self.times.read()
    }

    /// The failure after which nothing is acknowledged.
    pub(in crate::store) fn failure(&self) -> Option<Error> {
        self.lock().failed.clone()
    }

    /// Returns once everything up to the ticket is on disk. The first caller syncs for all that
    /// wait.
    pub(in crate::store) fn wait(&self, ticket: Ticket) -> Result<()> {
        let mut has_come = false;
        loop {
            // Check without the lock first: all served callers would contend for it.
            if self.synced.load(Ordering::Acquire) >= ticket.0 {
                return Ok(());
            }
            let mut state = self.lock();
            if self.synced.load(Ordering::Acquire) >= ticket.0 {
                return Ok(());
            }
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            if !std::mem::replace(&mut has_come, true) && state.group.join() {
                self.arrived.notify_one();
            }
            if !state.is_syncing {
                self.sync_for_all(state);
                continue;
            }
            let me = std::thread::current();
            state.parked.retain(|(_, thread)| thread.id() != me.id());
            state.parked.push((ticket.0, me));
            drop(state);
            // `park` can return early. Then the loop parks the thread again.
            std::thread::park();
        }
    }

    /// Syncs the dirty files once the expected callers have joined.
    fn sync_for_all(&self, mut state: MutexGuard<'_, State>) {
        state.is_syncing = true;
        state = Group::gather(&self.arrived, state, |state| &state.group);
        let dirty = std::mem::take(&mut state.dirty);
        let upto = state.written;
        state.group.begin();
        drop(state);
        let started = Instant::now();
        let result = self.sync(dirty);
        let mut state = self.lock();
        state.is_syncing = false;
        state.group.end(started.elapsed());
        let has_failed = result.is_err();
        match result {
            Ok(()) => self.synced.store(upto, Ordering::Release),
            Err(e) => state.failed = Some(e),
        }
        let (served, mut left): (Vec<_>, Vec<_>) = std::mem::take(&mut state.parked)
            .into_iter()
            .partition(|(number, _)| has_failed || *number <= upto);
        // One remaining thread does the next sync.
        let next = left.pop();
        state.parked = left;
        drop(state);
        for (_, thread) in served.into_iter().chain(next) {
            thread.unpark();
        }
    }

    fn sync(&self, dirty: Dirty) -> Result<()> {
        let io = |doing: &str, path: &str, e| io_error(&*self.storage, doing, path, e);
        for ((path, identity), file) in dirty.files {
            let file = match file {
                Some(file) => file,
                None => match self.reopen(&path, identity) {
                    Ok(Some(file)) => file,
                    // The file was moved away. Whoever moved it is responsible for it.
                    Ok(None) => continue,
                    Err(e) => return Err(io("open, to fsync,", &path, e)),
                },
            };
            let started = Instant::now();
            file.sync().map_err(|e| io("fsync", &path, e))?;
            self.times.note(started.elapsed());
        }
        for dir in &dirty.dirs {
            // As above.
            let synced = if_there(self.storage.sync_dir(dir));
            synced.map_err(|e| io("fsync the directory", dir, e))?;
        }
        Ok(())
    }

    /// Opens a file by name, if it is still the same file. If an earlier write-back failed and was
    /// not reported yet, Linux reports the error to this later descriptor.
    fn reopen(&self, path: &str, identity: u64) -> io::Result<Option<Arc<dyn StorageFile>>> {
        let storage = &*self.storage;
        for tries in 0.. {
            let opened = storage.stat(path).and_then(|found| {
                // Outside Unix, a sync needs write access, so only sealed files are opened for
                // reading.
                let access = if cfg!(unix) || found.is_read_only {
                    Access::Read
                } else {
                    Access::Append
                };
                Named::open(storage, path, access)
            });
            match opened {
                Err(e) if is_gone(&e) => break,
                Err(e) if is_of_this_moment(&e) && tries < REOPEN_TRIES => {
                    std::thread::sleep(REOPEN_PAUSE);
                }
                Err(e) => return Err(e),
                Ok(named) => return Ok((named.identity == identity).then_some(named.file)),
            }
        }
        Ok(None)
    }

    /// Has the writes that no caller waits for synced in the background, until
    /// [`close`](GroupSync::close).
    pub(in crate::store) fn start_background(self: &Arc<Self>) -> Result<()> {
        let sync = Arc::downgrade(self);
        let job = Job::new(Lane::Sync, move || sync.upgrade()?.sync_in_background());
        let failed = |e| io_error(&*self.storage, "start the thread that syncs", "", e);
        self.lock().background = Some(job.map_err(failed)?);
        Ok(())
    }

    /// Schedules the background, unless it is.
    fn schedule(&self, state: &mut State) {
        let is_crowded = state.dirty.is_crowded();
        if state.is_scheduled && !is_crowded {
            return;
        }
        let interval = if is_crowded {
            Duration::ZERO
        } else {
            self.interval
        };
        // An interval without end leaves the sync to `close`.
        let at = Instant::now().checked_add(interval);
        if let (Some(job), Some(at)) = (&state.background, at) {
            job.wake_at(at);
            state.is_scheduled = true;
        }
    }

    /// Syncs what was written, if no caller did. Returns `None`: the next write schedules it again.
    fn sync_in_background(&self) -> Option<Instant> {
        let mut state = self.lock();
        state.is_scheduled = false;
        let upto = state.written;
        drop(state);
        // The failure stays in the state, and the next append returns it.
        let _ = self.wait(Ticket(upto));
        let mut state = self.lock();
        if state.failed.is_none() && self.synced.load(Ordering::Acquire) != state.written {
            self.schedule(&mut state);
        }
        None
    }

    /// Ends the work in the background, and syncs the remaining writes. The failure of that sync is
    /// not reported: [`Store::close`](crate::Store::close) does.
    pub(in crate::store) fn close(&self) {
        let mut state = self.lock();
        let (background, upto) = (state.background.take(), state.written);
        drop(state);
        if background.is_some() {
            drop(background);
            let _ = self.wait(Ticket(upto));
        }
    }
}

/// Whether a descriptor may become available later.
fn is_of_this_moment(e: &io::Error) -> bool {
    // `ENFILE`, `EMFILE`.
    cfg!(unix) && matches!(e.raw_os_error(), Some(23 | 24))
}
