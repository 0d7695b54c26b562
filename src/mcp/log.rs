//! The served log, which is reopened after a failed write.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::subscriptions::STREAMS_MAX;
use crate::analytics::Analytics;
use crate::error::Result;
use crate::store::Store;
use crate::wire::feed::Feed;

/// Opens the log.
pub(super) type Open = Box<dyn Fn() -> Result<Store> + Send + Sync>;

/// An open log, with its reports and feed.
pub(super) struct Log {
    pub(super) store: Store,
    pub(super) analytics: Analytics,
    pub(super) feed: Arc<Feed>,
}

impl Log {
    pub(super) fn new(store: Store) -> Log {
        Log {
            analytics: store.analytics(),
            feed: Arc::new(Feed::new(store.clone(), STREAMS_MAX)),
            store,
        }
    }
}

/// The log, for as long as a server runs.
pub(super) struct Served {
    log: RwLock<Arc<Log>>,
    open: OnceLock<Open>,
}

impl Served {
    pub(super) fn new(log: Log) -> Served {
        Served {
            log: RwLock::new(Arc::new(log)),
            open: OnceLock::new(),
        }
    }

    /// Sets how it is reopened.
    pub(super) fn set_open(&self, open: Open) {
        let _ = self.open.set(open);
    }

    pub(super) fn log(&self) -> Arc<Log> {
        let log = self.log.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&log)
    }

    /// Reopens the log if this one no longer writes: a full disk may have space again.
    pub(super) fn look_after(&self, log: &Arc<Log>) {
        let is_poisoned = log.store.counts().is_ok_and(|counts| counts.is_poisoned);
        let Some(open) = self.open.get().filter(|_| is_poisoned) else {
            return;
        };
        let mut current = self.log.write().unwrap_or_else(PoisonError::into_inner);
        // Another call reopened it.
        if !Arc::ptr_eq(&current, log) {
            return;
        }
        match open() {
            Ok(store) => {
                tracing::warn!("a write to the log failed; the log was reopened");
                *current = Arc::new(Log::new(store));
            }
            Err(error) => tracing::error!(%error, "the log cannot be reopened"),
        }
    }
}
