//! Group commit: many writers wait for one fsync, and a thread sees to what no one waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::storage::{Storage, StorageFile, full_path};

/// More dirty files than this are synced at once, so that their descriptors can be closed.
const DIRTY_FILES_MAX: usize = 64;
/// How often it is seen to that a lock that is kept and not used is given back.
const LOCK_WATCH: Duration = Duration::from_millis(1);

/// A point in the order of writes, to wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    number: u64,
    /// So much is dirty that it should be synced now.
    pub is_crowded: bool,
}

/// A file that was written.
#[derive(Debug)]
pub(super) struct Written {
    pub path: Arc<str>,
    pub file: Arc<dyn StorageFile>,
}

/// What was written and not yet synced.
#[derive(Debug, Default)]
struct Dirty {
    files: BTreeMap<Arc<str>, Arc<dyn StorageFile>>,
    dirs: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct State {
    dirty: Dirty,
    written: u64,
    synced: u64,
    is_syncing: bool,
    is_closing: bool,
    /// The lock is kept between writes: someone must see that it is given back.
    is_lock_kept: bool,
    /// The first failure; it stays, an fsync that failed is never tried again.
    failed: Option<Error>,
}

#[derive(Debug)]
pub(super) struct GroupSync {
    storage: Arc<dyn Storage>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Ticket {
    fn at(number: u64) -> Ticket {
        Ticket {
            number,
            is_crowded: false,
        }
    }
}

impl GroupSync {
    pub(super) fn new(storage: Arc<dyn Storage>) -> GroupSync {
        GroupSync {
            storage,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a directory that got a new name.
    pub(super) fn mark_dir(&self, dir: &str) {
        self.lock().dirty.dirs.insert(dir.to_owned());
    }

    /// Notes files that were written; the point after everything noted so far. Wakes the
    /// background thread.
    pub(super) fn ticket(&self, written: impl Iterator<Item = Written>) -> Ticket {
        let mut state = self.lock();
        for Written { path, file } in written {
            state.dirty.files.insert(path, file);
        }
        state.written += 1;
        if state.written == state.synced + 1 {
            self.changed.notify_all();
        }
        Ticket {
            number: state.written,
            is_crowded: state.dirty.files.len() > DIRTY_FILES_MAX,
        }
    }

    /// The failure after which nothing is acknowledged any more.
    pub(super) fn failure(&self) -> Option<Error> {
        self.lock().failed.as_ref().map(Error::again)
    }

    /// Returns once everything up to the ticket is on disk. Whoever comes first syncs for all
    /// that wait.
    pub(super) fn wait(&self, ticket: Ticket) -> Result<()> {
        let mut state = self.lock();
        loop {
            if state.synced >= ticket.number {
                return Ok(());
            }
            if let Some(failed) = &state.failed {
                return Err(failed.again());
            }
            if state.is_syncing {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_syncing = true;
            let dirty = std::mem::take(&mut state.dirty);
            let upto = state.written;
            drop(state);
            let result = self.sync(&dirty);
            state = self.lock();
            state.is_syncing = false;
            match result {
                Ok(()) => state.synced = state.synced.max(upto),
                Err(e) => state.failed = Some(e),
            }
            self.changed.notify_all();
        }
    }

    fn sync(&self, dirty: &Dirty) -> Result<()> {
        let io = |doing: &str, path: &str, e| Error::io(doing, &full_path(&*self.storage, path), e);
        for (path, file) in &dirty.files {
            file.sync().map_err(|e| io("fsync", path, e))?;
        }
        for dir in &dirty.dirs {
            self.storage
                .sync_dir(dir)
                .map_err(|e| io("fsync the directory", dir, e))?;
        }
        Ok(())
    }

    /// Lets the background thread call what gives the lock back.
    pub(super) fn watch_lock(&self) {
        self.lock().is_lock_kept = true;
        self.changed.notify_all();
    }

    /// Starts the thread that syncs within `interval` what no one waits for, until
    /// [`close`](GroupSync::close). It also calls `give_back`, some time after the lock was last
    /// [watched](GroupSync::watch_lock), until that says that the lock was given back.
    pub(super) fn start_background(
        self: &Arc<Self>,
        interval: Duration,
        give_back: impl Fn() -> bool + Send + 'static,
    ) -> Result<JoinHandle<()>> {
        let sync = Arc::clone(self);
        std::thread::Builder::new()
            .name("decklog-sync".to_owned())
            .spawn(move || sync.run_background(interval, &give_back))
            .map_err(|e| Error::io("start the thread that syncs", self.storage.root(), e))
    }

    fn run_background(&self, interval: Duration, give_back: &dyn Fn() -> bool) {
        let mut sync_at = None;
        loop {
            let mut state = self.lock();
            let is_dirty = state.synced != state.written && state.failed.is_none();
            if state.is_closing {
                let upto = state.written;
                drop(state);
                // A failure stays in the state, where the next append finds it.
                let _ = self.wait(Ticket::at(upto));
                return;
            }
            let now = Instant::now();
            sync_at = is_dirty.then(|| sync_at.unwrap_or(now + interval));
            if sync_at.is_some_and(|at| at <= now) {
                let upto = state.written;
                drop(state);
                let _ = self.wait(Ticket::at(upto));
                sync_at = None;
                continue;
            }
            let until_sync = sync_at.map(|at| at - now);
            let is_lock_kept = std::mem::take(&mut state.is_lock_kept);
            let watch = is_lock_kept.then_some(LOCK_WATCH);
            let Some(pause) = until_sync.into_iter().chain(watch).min() else {
                drop(self.changed.wait(state));
                continue;
            };
            if !is_lock_kept {
                drop(self.changed.wait_timeout(state, pause));
                continue;
            }
            drop(state);
            std::thread::sleep(pause);
            if !give_back() {
                self.lock().is_lock_kept = true;
            }
        }
    }

    /// Lets the background thread sync what is left, and end.
    pub(super) fn close(&self) {
        self.lock().is_closing = true;
        self.changed.notify_all();
    }
}
