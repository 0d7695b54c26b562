//! Notifies streams of new records. One thread watches the log for all streams, because the system
//! limits the number of watches. Without streams there is no thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::store::Store;

/// Interval of the check for remaining streams.
const WAIT: Duration = Duration::from_millis(250);
/// Delay before a retry after an error.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Feed {
    store: Store,
    last_seq: watch::Sender<u64>,
    state: Mutex<State>,
    streams_max: usize,
}

#[derive(Default)]
struct State {
    streams: usize,
    is_watching: bool,
}

/// A stream's slot.
pub(crate) struct Listener {
    feed: Arc<Feed>,
    last_seq: watch::Receiver<u64>,
}

impl Feed {
    pub(crate) fn new(store: Store, streams_max: usize) -> Feed {
        Feed {
            store,
            last_seq: watch::Sender::new(0),
            state: Mutex::default(),
            streams_max,
        }
    }

    /// A slot for one more stream, if one is free.
    pub(crate) fn listen(self: &Arc<Self>) -> Option<Listener> {
        let mut state = self.lock();
        if state.streams >= self.streams_max {
            return None;
        }
        state.streams += 1;
        if !std::mem::replace(&mut state.is_watching, true) {
            let feed = Arc::clone(self);
            tokio::task::spawn_blocking(move || feed.watch());
        }
        drop(state);
        Some(Listener {
            feed: Arc::clone(self),
            last_seq: self.last_seq.subscribe(),
        })
    }

    #[cfg(all(test, feature = "mcp"))]
    pub(crate) fn streams(&self) -> usize {
        self.lock().streams
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the log while there are streams.
    fn watch(&self) {
        let mut news = self.store.news();
        loop {
            let known = *self.last_seq.borrow();
            match news.wait(known, WAIT) {
                Ok(last_seq) => {
                    self.last_seq.send_if_modified(|known| {
                        let is_new = *known != last_seq;
                        *known = last_seq;
                        is_new
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the log cannot be watched");
                    std::thread::sleep(PAUSE);
                }
            }
            let mut state = self.lock();
            if state.streams == 0 {
                state.is_watching = false;
                return;
            }
        }
    }
}

impl Listener {
    /// Records up to here are known.
    pub(crate) fn look(&mut self) {
        self.last_seq.mark_unchanged();
    }

    /// Returns when there may be new records.
    pub(crate) async fn changed(&mut self) {
        // The sender lives as long as the feed.
        let _ = self.last_seq.changed().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.feed.lock().streams -= 1;
    }
}
