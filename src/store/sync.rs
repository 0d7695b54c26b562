//! Group commit: many writers wait for one fsync, and a thread sees to what no one waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::storage::{Storage, StorageFile, full_path};

/// More dirty files than this are synced at once, so that their descriptors can be closed.
const DIRTY_FILES_MAX: usize = 64;

/// A point in the order of writes, to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

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
    /// The first failure; it stays, an fsync that failed is never tried again.
    failed: Option<Error>,
}

#[derive(Debug)]
pub(super) struct GroupSync {
    storage: Arc<dyn Storage>,
    state: Mutex<State>,
    changed: Condvar,
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

    /// Notes a file that was written.
    pub(super) fn mark_file(&self, path: &Arc<str>, file: &Arc<dyn StorageFile>) {
        self.lock()
            .dirty
            .files
            .insert(Arc::clone(path), Arc::clone(file));
    }

    /// Notes a directory that got a new name.
    pub(super) fn mark_dir(&self, dir: &str) {
        self.lock().dirty.dirs.insert(dir.to_owned());
    }

    /// The point after everything marked so far. Wakes the background thread.
    pub(super) fn ticket(&self) -> Ticket {
        let mut state = self.lock();
        state.written += 1;
        if state.written == state.synced + 1 {
            self.changed.notify_all();
        }
        Ticket(state.written)
    }

    /// Whether so much is dirty that it should be synced now.
    pub(super) fn is_crowded(&self) -> bool {
        self.lock().dirty.files.len() > DIRTY_FILES_MAX
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
            if state.synced >= ticket.0 {
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

    /// Starts the thread that syncs within `interval` what no one waits for, until
    /// [`close`](GroupSync::close).
    pub(super) fn start_background(self: &Arc<Self>, interval: Duration) -> Result<JoinHandle<()>> {
        let sync = Arc::clone(self);
        std::thread::Builder::new()
            .name("decklog-sync".to_owned())
            .spawn(move || sync.run_background(interval))
            .map_err(|e| Error::io("start the thread that syncs", self.storage.root(), e))
    }

    fn run_background(&self, interval: Duration) {
        let mut state = self.lock();
        loop {
            while state.synced == state.written && !state.is_closing && state.failed.is_none() {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let woken = |state: &mut State| !state.is_closing;
            state = self
                .changed
                .wait_timeout_while(state, interval, woken)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if state.failed.is_some() {
                return;
            }
            let upto = Ticket(state.written);
            let is_closing = state.is_closing;
            drop(state);
            // A failure stays in the state, where the next append finds it.
            let _ = self.wait(upto);
            if is_closing {
                return;
            }
            state = self.lock();
        }
    }

    /// Lets the background thread sync what is left, and end.
    pub(super) fn close(&self) {
        self.lock().is_closing = true;
        self.changed.notify_all();
    }
}
