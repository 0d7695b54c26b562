//! Detects that a thread uses a store while it holds that store's lock, which would be a deadlock:
//! a closure of the caller's may run under the lock.

use std::cell::RefCell;

use crate::error::{Error, ErrorKind, Result};
use crate::store::Inner;

thread_local! {
    /// The handles that this thread reads or writes right now.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, its thread holds a lock of a handle.
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

/// A thread that is about to end has no list any more, and runs no closures.
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
