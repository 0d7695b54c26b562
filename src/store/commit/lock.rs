//! The write lock: an advisory lock on `LOCK`. The operating system releases it when its holder
//! dies.

use std::io;
use std::time::{Duration, Instant};

use super::head::Head;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Access, Named, Storage, StorageFile, full_path, io_error};
use crate::store::health::LockState;

const NAME: &str = "LOCK";
/// Time for which it is tried without sleep. The lock is usually held for a few microseconds.
const SPIN_MAX: Duration = Duration::from_micros(20);
const SLEEP_MIN: Duration = Duration::from_micros(20);
/// Maximum sleep at first of the process that has waited longest, and takes the lock next.
const SLEEP_FIRST_MAX: Duration = Duration::from_micros(100);
/// Maximum sleep at first, when other processes are likely to release the lock soon.
const SLEEP_SHORT_MAX: Duration = Duration::from_micros(600);
/// After this time, another process is likely to keep the lock for long.
const SHORT_WAIT: Duration = Duration::from_millis(50);
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// Maximum time that a process leaves the lock to one that has waited longer, which may have died.
const LEFT_MAX: Duration = Duration::from_millis(10);

/// The lock of one handle, free or held.
#[derive(Debug, Default)]
pub(in crate::store) struct Lock {
    file: Option<Named>,
    is_held: bool,
}

impl Lock {
    pub(in crate::store) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Takes the lock. Creates `LOCK` if it does not exist. Calls `is_next` before each sleep. If it
    /// returns `false`, the lock is left to another process that waits.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] after `timeout`. The message names the process that holds the lock.
    pub(in crate::store) fn acquire(
        &mut self,
        storage: &dyn Storage,
        timeout: Duration,
        is_next: &dyn Fn() -> bool,
    ) -> Result<()> {
        let io = |e| io_error(storage, "lock the store", NAME, e);
        loop {
            let file = match self.file.take() {
                Some(file) => file,
                None => Named::open(storage, NAME, Access::Append).map_err(io)?,
            };
            wait_for(storage, &*file.file, timeout, is_next)?;
            // The file may have been deleted or renamed, and other processes may hold a new one.
            let is_current = file.is_current(storage, NAME);
            self.file = Some(file);
            self.is_held = true;
            match is_current {
                Ok(true) => return Ok(()),
                found => {
                    self.release();
                    self.file = None;
                    found.map_err(io)?;
                }
            }
        }
    }

    /// Whether the held lock is the one that other processes use.
    pub(in crate::store) fn is_current(&self, storage: &dyn Storage) -> io::Result<bool> {
        self.file
            .as_ref()
            .map_or(Ok(false), |file| file.is_current(storage, NAME))
    }

    /// Releases the lock, if it is held.
    pub(in crate::store) fn release(&mut self) {
        let held = self.file.as_ref().filter(|_| self.is_held);
        if held.is_some_and(|held| held.file.unlock().is_err()) {
            // Closing the file releases the lock.
            self.file = None;
        }
        self.is_held = false;
    }
}

fn wait_for(
    storage: &dyn Storage,
    file: &dyn StorageFile,
    timeout: Duration,
    is_next: &dyn Fn() -> bool,
) -> Result<()> {
    let (mut sleep, mut may_try) = (SLEEP_MIN, true);
    let started = Instant::now();
    let mut last_try = started;
    loop {
        if may_try || last_try.elapsed() >= LEFT_MAX {
            last_try = Instant::now();
            match file.try_lock() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io_error(storage, "lock the store", NAME, e)),
            }
        }
        let waited = started.elapsed();
        if waited < SPIN_MAX {
            // Where all processors are busy, this takes as long as others may run, a few
            // milliseconds.
            std::thread::yield_now();
            continue;
        }
        if waited >= timeout {
            return Err(held(storage, timeout));
        }
        may_try = is_next();
        let longest = match waited {
            _ if may_try && waited < SHORT_WAIT => SLEEP_FIRST_MAX,
            _ if may_try || waited < SHORT_WAIT => SLEEP_SHORT_MAX,
            _ => SLEEP_MAX,
        };
        // Subtract the time that `is_next` took.
        let until = waited + sleep.min(longest);
        std::thread::sleep(until.saturating_sub(started.elapsed()));
        sleep = (sleep * 2).min(longest);
    }
}

/// The current state of the lock.
///
/// # Errors
/// [`ErrorKind::Io`], but not if permission is denied.
pub(in crate::store) fn state(storage: &dyn Storage) -> Result<LockState> {
    let io = |e| io_error(storage, "look at the lock", NAME, e);
    let is_free = match storage.open(NAME, Access::Read) {
        Ok(file) => match file.try_lock() {
            Ok(is_free) => {
                if is_free {
                    file.unlock().map_err(io)?;
                }
                is_free
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => false,
            Err(e) => return Err(io(e)),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => true,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(LockState::Unknown),
        Err(e) => return Err(io(e)),
    };
    Ok(match (is_free, holder(storage)) {
        (true, None) => LockState::Free,
        (true, Some(process)) => LockState::Abandoned { process },
        (false, process) => LockState::Held { process },
    })
}

/// The process id of the lock's holder in `HEAD`.
fn holder(storage: &dyn Storage) -> Option<u32> {
    let head = Head::open_for_reading(storage).ok()??;
    let header = head.header().ok()??;
    (header.holder != 0).then_some(header.holder)
}

fn held(storage: &dyn Storage, timeout: Duration) -> Error {
    let holder = holder(storage).map_or_else(
        || "another process".to_owned(),
        |process| format!("process {process}"),
    );
    let message = format!(
        "the store is locked by {holder}, for more than {} ms: end that process, or wait and try again",
        timeout.as_millis()
    );
    Error::new(ErrorKind::Locked, message).with_path(&full_path(storage, NAME))
}
