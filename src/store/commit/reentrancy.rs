//! What a thread has locked: a caller's closure that is called under a lock, and uses the store, would
//! wait for itself.

use std::cell::RefCell;

use crate::error::{Error, ErrorKind, Result};
use crate::store::Inner;

thread_local! {
    /// The handles that this thread reads or writes right now.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, its thread holds a lock of a handle.
#[derive(Debug)]
pub(in crate::store) struct Holding(usize);

impl Holding {
    pub(in crate::store) fn of(inner: &Inner) -> Holding {
        let handle = std::ptr::from_ref(inner).addr();
        with_held(|held| held.push(handle));
        Holding(handle)
    }
}

impl Drop for Holding {
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
