//! A thread that releases the write lock when its lease is idle. It does nothing else, so that a
//! slow fsync cannot delay it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of checks whether a kept lock is idle.
const INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct State {
    /// Whether the lock is kept between writes.
    is_kept: bool,
    is_closing: bool,
}

#[derive(Debug, Default)]
pub(in crate::store) struct LockReleaser {
    state: Mutex<State>,
    changed: Condvar,
}

impl LockReleaser {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread, which runs until [`close`](LockReleaser::close). After each
    /// [`keep`](LockReleaser::keep), it calls `give_back` repeatedly, until that returns `true`:
    /// the lock was released.
    pub(in crate::store) fn start(
        self: &Arc<Self>,
        give_back: impl Fn() -> bool + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let watch = Arc::clone(self);
        std::thread::Builder::new()
            .name("decklog-lock".to_owned())
            .spawn(move || watch.run(&give_back))
    }

    fn run(&self, give_back: &dyn Fn() -> bool) {
        loop {
            let idle = |state: &mut State| !state.is_kept && !state.is_closing;
            let state = self.changed.wait_while(self.lock(), idle);
            let mut state = state.unwrap_or_else(PoisonError::into_inner);
            if state.is_closing {
                return;
            }
            state.is_kept = false;
            drop(state);
            std::thread::sleep(INTERVAL);
            if !give_back() {
                self.lock().is_kept = true;
            }
        }
    }

    /// Tells the thread that the lock is kept, and to release it later.
    pub(in crate::store) fn keep(&self) {
        self.lock().is_kept = true;
        self.changed.notify_one();
    }

    /// Makes the thread end.
    pub(in crate::store) fn close(&self) {
        self.lock().is_closing = true;
        self.changed.notify_one();
    }
}
