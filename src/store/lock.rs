//! The write lock of a store: an advisory lock on `LOCK`, released by the operating system when
//! its holder dies.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::head::Head;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Access, Named, Storage, StorageFile, full_path};

const NAME: &str = "LOCK";
/// Tries without sleep: most holds are a few microseconds long.
const SPINS: u32 = 50;
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// The lock of one handle, free or held.
#[derive(Debug, Default)]
pub(super) struct Lock {
    file: Option<Named>,
}

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct Guard(Arc<dyn StorageFile>);

impl Drop for Guard {
    fn drop(&mut self) {
        // Should it fail, the lock ends with the handle; there is nothing better to do.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// Takes the lock; makes `LOCK` if it is not there.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] after `timeout`, naming the process that holds it.
    pub(super) fn acquire(&mut self, storage: &dyn Storage, timeout: Duration) -> Result<Guard> {
        let io = |e| Error::io("lock the store", &full_path(storage, NAME), e);
        loop {
            let file = match self.file.take() {
                Some(file) => file,
                None => Named::open(storage, NAME, Access::Append).map_err(io)?,
            };
            wait_for(storage, &*file.file, timeout)?;
            let guard = Guard(Arc::clone(&file.file));
            // Someone may have deleted or renamed the file, and others may hold a new one.
            if file.is_current(storage, NAME).map_err(io)? {
                self.file = Some(file);
                return Ok(guard);
            }
        }
    }
}

fn wait_for(storage: &dyn Storage, file: &dyn StorageFile, timeout: Duration) -> Result<()> {
    let (mut tries, mut sleep) = (0u32, Duration::from_micros(20));
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("lock the store", &full_path(storage, NAME), e)),
        }
        tries = tries.saturating_add(1);
        if tries <= SPINS {
            std::thread::yield_now();
            continue;
        }
        if started.elapsed() >= timeout {
            return Err(held(storage, timeout));
        }
        std::thread::sleep(sleep);
        sleep = (sleep * 2).min(SLEEP_MAX);
    }
}

fn held(storage: &dyn Storage, timeout: Duration) -> Error {
    let header = Head::open_for_reading(storage)
        .ok()
        .flatten()
        .and_then(|head| head.header().ok()?);
    let holder = match header.map(|header| header.holder) {
        Some(pid) if pid != 0 => format!("process {pid}"),
        _ => "another process".to_owned(),
    };
    let message = format!(
        "the store is locked by {holder}, for more than {} ms: end that process, or wait and try again",
        timeout.as_millis()
    );
    Error::new(ErrorKind::Locked, message).with_path(&full_path(storage, NAME))
}
