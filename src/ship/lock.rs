//! Excludes other processes of this machine that ship the same store to the same destination.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::status::cache_name;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Access, StorageFile, full_path};
use crate::store::Store;

/// How long a lock that is not free is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// A lock on a file in `cache/`. It ends with the process.
#[derive(Debug)]
pub(super) struct ShipLock {
    _file: Arc<dyn StorageFile>,
}

impl ShipLock {
    /// Takes the lock. `None` if the store's directory cannot be written. Then nothing excludes
    /// other processes, but object stores that compare versions still refuse the later one.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) after the store's lock timeout.
    pub(super) fn take(store: &Store, destination: &str) -> Result<Option<ShipLock>> {
        let storage = store.inner().storage();
        let path = format!("cache/{}.lock", cache_name(destination));
        // A cache that cannot be created is found out when the file is opened.
        let _ = storage.create_dir("cache");
        let Ok(file) = storage.open(&path, Access::Append) else {
            return Ok(None);
        };
        let until = Instant::now() + store.inner().lock_timeout;
        loop {
            match file.try_lock() {
                Ok(true) => return Ok(Some(ShipLock { _file: file })),
                Ok(false) if Instant::now() < until => std::thread::sleep(PAUSE),
                Ok(false) => {
                    let message = format!(
                        "another process ships this store to {destination}: wait for it, or stop it"
                    );
                    let path = full_path(storage, &path);
                    return Err(Error::new(ErrorKind::Locked, message).with_path(&path));
                }
                // The file system has no locks.
                Err(_) => return Ok(None),
            }
        }
    }
}
