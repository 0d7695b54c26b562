//! Detects that a thread uses a store while it holds that store's lock, as in a callback. Without
//! this check, it would deadlock.

use std::cell::RefCell;

use crate::error::{Error, ErrorKind, Result};
use crate::store::Inner;

thread_local! {
    /// The handles that this thread currently reads or writes.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Marks a handle as locked by this thread until it is dropped.
#[derive(Debug)]
pub(in crate::store) struct ReentrancyGuard(usize);

impl ReentrancyGuard {
    pub(in crate::store) fn of(inner: &Inner) -> ReentrancyGuard {
        let handle = std::ptr::from_ref(inner).addr();
        with_held(|held| held.push(handle));
        ReentrancyGuard(handle)
    }
}

impl Drop for ReentrancyGuard {
    fn drop(&mut self) {
        with_held(|held| {
            if let Some(last) = held.iter().rposition(|handle| *handle == self.0) {
                held.remove(last);
            }
        });
    }
}

/// `None` if the thread is ending: its list is destroyed, and it runs no more callbacks.
fn with_held<T>(ask: impl FnOnce(&mut Vec<usize>) -> T) -> Option<T> {
    HELD.try_with(|held| ask(&mut held.borrow_mut())).ok()
}

/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput) if this thread holds a lock of the handle.
pub(in crate::store) fn check(inner: &Inner) -> Result<()> {
    let handle = std::ptr::from_ref(inner).addr();
    if with_held(|held| held.contains(&handle)) != Some(true) {
        return Ok(());
    }
    let message = "the store is used by a closure that it called, which would wait for itself: use it after the closure has returned";
    Err(Error::new(ErrorKind::InvalidInput, message).with_path(inner.storage.root()))
}
