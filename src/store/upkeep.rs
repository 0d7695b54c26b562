//! The one process that rewrites segments.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Inner;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Access, StorageFile, full_path};

const NAME: &str = "cache/upkeep";
const SLEEP: Duration = Duration::from_millis(10);

/// The right to rewrite segments, until it is dropped.
#[derive(Debug)]
pub(crate) struct Upkeep(Arc<dyn StorageFile>);

impl Drop for Upkeep {
    fn drop(&mut self) {
        // It also ends with the handle.
        let _ = self.0.unlock();
    }
}

impl Inner {
    /// Waits until no one else rewrites segments.
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
