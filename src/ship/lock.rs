//! Excludes other processes of this machine that ship the same store to the same destination.

use std::fs::{File, OpenOptions, TryLockError};
use std::time::{Duration, Instant};

use super::status::cache_name;
use crate::error::{Error, ErrorKind, Result};
use crate::store::Store;

/// How long a lock that is not free is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// A lock on a file in `cache/`. It ends with the process.
#[derive(Debug)]
pub(super) struct ShipLock {
    _file: File,
}

impl ShipLock {
    /// Takes the lock. `None` if the store's directory cannot be written. Then nothing excludes
    /// other processes, but object stores that compare versions still refuse the later one.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) after the store's lock timeout.
    pub(super) fn take(store: &Store, destination: &str) -> Result<Option<ShipLock>> {
        let dir = store.path().join("cache");
        let path = dir.join(format!("{}.lock", cache_name(destination)));
        let _ = std::fs::create_dir(&dir);
        let mut options = OpenOptions::new();
        let Ok(file) = options.create(true).truncate(false).write(true).open(&path) else {
            return Ok(None);
        };
        let until = Instant::now() + store.inner().lock_timeout;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(ShipLock { _file: file })),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let message = format!(
                        "another process ships this store to {destination}: wait for it, or stop it"
                    );
                    return Err(Error::new(ErrorKind::Locked, message).with_path(&path));
                }
                // The file system has no locks.
                Err(TryLockError::Error(_)) => return Ok(None),
            }
        }
    }
}
