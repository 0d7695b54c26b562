//! Reads `HEAD` without the lock, to find out what other processes committed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::head::Head;
use crate::error::Result;
use crate::storage::{Storage, io_error};
use crate::store::root_check;

/// Interval of checks whether `HEAD` was deleted. Reading a `HEAD` in shared memory is so cheap
/// that checking the file each time would cost much more.
const SEEN_AGAIN: Duration = Duration::from_micros(100);

/// The open `HEAD`, once it exists, and when it was last checked to be the current file.
#[derive(Debug, Default)]
pub(in crate::store) struct HeadReader(Mutex<Option<(Arc<Head>, Instant)>>);

impl HeadReader {
    /// The number of the last commit, if the file was checked recently, which is usual.
    pub(in crate::store) fn commits(&self) -> Option<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (head, seen) = known.as_ref()?;
        let is_seen = head.is_shared() && seen.elapsed() < SEEN_AGAIN;
        is_seen.then(|| head.commits().ok().flatten()).flatten()
    }

    /// [`Header::settings`](super::head::Header::settings); `None` if it is not known.
    pub(in crate::store) fn settings(&self, storage: &dyn Storage) -> Option<u64> {
        let head = self.head(storage).ok()?.0?;
        let read = || Some(head.header().ok()??.settings);
        head.shared_settings().or_else(read)
    }

    /// The file; `None` if there is none. Also returns whether it may be another file than before,
    /// such as an older copy that reuses known counts. Must not be called while the state is
    /// locked.
    pub(in crate::store) fn head(
        &self,
        storage: &dyn Storage,
    ) -> Result<(Option<Arc<Head>>, bool)> {
        let io = |e| io_error(storage, "open HEAD", "HEAD", e);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((head, seen)) = &mut *known {
            if head.is_shared() && seen.elapsed() < SEEN_AGAIN {
                return Ok((Some(Arc::clone(head)), false));
            }
            root_check::check(storage)?;
            if head.is_current(storage).map_err(io)? {
                *seen = Instant::now();
                return Ok((Some(Arc::clone(head)), false));
            }
        }
        root_check::check(storage)?;
        let found = Head::open_for_reading(storage).map_err(io)?.map(Arc::new);
        // A file that is still being created is opened again later.
        let whole = match &found {
            Some(head) => head.commits().map_err(io)?.and(found.clone()),
            None => None,
        };
        *known = whole.map(|head| (head, Instant::now()));
        Ok((found, true))
    }
}
