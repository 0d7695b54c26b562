//! The log that is served, which is opened anew after it failed to write.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::analytics::Analytics;
use crate::error::Result;
use crate::store::Store;
use crate::wire::feed::Feed;

/// Opens the log.
pub(super) type Open = Box<dyn Fn() -> Result<Store> + Send + Sync>;

/// A log that is open, and what is kept up with it.
pub(super) struct Log {
    pub(super) store: Store,
    pub(super) analytics: Analytics,
    pub(super) feed: Arc<Feed>,
}

/// The log, for as long as a server runs.
pub(super) struct Served {
    log: RwLock<Arc<Log>>,
    open: OnceLock<Open>,
    streams_max: usize,
}

impl Served {
    pub(super) fn new(log: Log, streams_max: usize) -> Served {
        Served {
            log: RwLock::new(Arc::new(log)),
            open: OnceLock::new(),
            streams_max,
        }
    }

    /// Has it opened so, once it failed.
    pub(super) fn set_open(&self, open: Open) {
        let _ = self.open.set(open);
    }

    pub(super) fn log(&self) -> Arc<Log> {
        let log = self.log.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&log)
    }

    /// Opens the log anew if this one does not write any more: a disk that was full may have room
    /// by now.
    pub(super) fn look_after(&self, log: &Arc<Log>) {
        let is_poisoned = log.store.counts().is_ok_and(|counts| counts.is_poisoned);
        let Some(open) = self.open.get().filter(|_| is_poisoned) else {
            return;
        };
        let mut current = self.log.write().unwrap_or_else(PoisonError::into_inner);
        // Another call did it.
        if !Arc::ptr_eq(&current, log) {
            return;
        }
        match open() {
            Ok(store) => {
                tracing::warn!("the log failed to write, and was opened anew");
                *current = Arc::new(Log {
                    analytics: store.analytics(),
                    feed: Arc::new(Feed::new(store.clone(), self.streams_max)),
                    store,
                });
            }
            Err(error) => tracing::error!(%error, "the log cannot be opened anew"),
        }
    }
}
