//! The processes that wait for the lock. The one that has waited longest takes it next. They see
//! each other through `HEAD`, which has the time since when that one waits.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::storage::Storage;
use crate::store::Inner;
use crate::store::commit::head::{self, Head};

/// Time for which a process that releases the lock leaves it to those that wait. Longer than they
/// sleep between attempts.
const BACKOFF: Duration = Duration::from_millis(3);
/// Time for which the lock is free, after which the process that has waited longest must have
/// ended. Less than [`BACKOFF`].
const ABANDONED: Duration = Duration::from_micros(1_500);

/// A handle that waits.
pub(super) struct WaitingLine<'a> {
    inner: &'a Inner,
    head: &'a RefCell<Head>,
    /// Since when it waits. Not set before it has to.
    since: Cell<Option<u64>>,
    /// Since when the lock is free, as long as it is.
    free_since: Cell<Option<Instant>>,
}

impl<'a> WaitingLine<'a> {
    pub(super) fn new(inner: &'a Inner, head: &'a RefCell<Head>) -> WaitingLine<'a> {
        WaitingLine {
            inner,
            head,
            since: Cell::new(None),
            free_since: Cell::new(None),
        }
    }

    /// Whether this handle may try to take the lock. Tells the holder that it waits, and reads what
    /// others wrote, so that less remains to do under the lock.
    pub(super) fn is_next(&self) -> bool {
        let is_next = self.shows_as_next();
        // Errors are returned under the lock.
        drop(self.inner.snapshot());
        is_next
    }

    fn shows_as_next(&self) -> bool {
        let mut head = self.head.borrow_mut();
        // Mapped memory past the end of a truncated file must not be accessed.
        if !head.is_current(&*self.inner.storage).unwrap_or(false) {
            return true;
        }
        head.share();
        let mine = self.since.get().unwrap_or_else(head::clock_us);
        self.since.set(Some(mine));
        let first = head.waiting_since();
        if first == 0 || mine <= first {
            head.set_waiting_since(mine);
            return true;
        }
        let now = Instant::now();
        let free_since = is_free(&head).then(|| self.free_since.get().unwrap_or(now));
        self.free_since.set(free_since);
        free_since.is_some_and(|since| now.duration_since(since) >= ABANDONED)
    }

    /// Ends the wait: the lock was taken, or `is_given_up`. The caller has checked that `head` is
    /// the current file.
    pub(super) fn leave(&self, head: &Head, is_given_up: bool) {
        let Some(mine) = self.since.get() else {
            return;
        };
        // One that took the lock before another one that has waited longer clears what that one
        // left, which may have ended. If it has not, it shows itself again.
        let first = head.waiting_since();
        if first == mine || !is_given_up && first < mine {
            head.set_waiting_since(0);
        }
    }
}

fn is_free(head: &Head) -> bool {
    let header = head.header().ok().flatten();
    header.is_some_and(|header| header.holder == 0)
}

/// Waits so that the other processes can take the lock that was released for them at `given`.
pub(super) fn back_off(storage: &dyn Storage, head: &Head, given: Instant) {
    let is_current = || head.is_current(storage).unwrap_or(false);
    while given.elapsed() < BACKOFF {
        if !is_current() || !is_free(head) {
            return;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    // None of them is left.
    if is_current() && is_free(head) {
        head.set_waiting_since(0);
    }
}
