//! Handles in a process that was forked. The locks and threads of the handle are those of the
//! parent, so a child may neither use nor drop it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use decklog::Store;
use pyo3::prelude::*;

use crate::errors;

/// Number of forks between the first process that loaded the module and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Counts the forks that Python makes.
pub(crate) fn watch(py: Python<'_>) -> PyResult<()> {
    let os = py.import("os")?;
    // Windows has no fork.
    let Ok(register) = os.getattr("register_at_fork") else {
        return Ok(());
    };
    let kwargs = pyo3::types::PyDict::new(py);
    kwargs.set_item("after_in_child", wrap_pyfunction!(forked, py)?)?;
    register.call((), Some(&kwargs))?;
    Ok(())
}

#[pyfunction]
fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A value that belongs to the process that made it. In a forked one it is neither used nor dropped,
/// and no lock of it is taken, which a thread of the parent may hold. The lock is never held while
/// this thread waits for the interpreter.
pub(crate) struct OfProcess<T: Send> {
    forks: u64,
    value: Mutex<Option<T>>,
}

impl<T: Send> OfProcess<T> {
    pub(crate) fn new(value: T) -> OfProcess<T> {
        OfProcess {
            forks: FORKS.load(Ordering::Relaxed),
            value: Mutex::new(Some(value)),
        }
    }

    fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<T>>> {
        if !self.is_ours() {
            return Err(errors::forked());
        }
        Ok(self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The value.
    ///
    /// # Errors
    /// `ForkedError` in another process; `ClosedError` if it was taken.
    pub(crate) fn get(&self) -> PyResult<T>
    where
        T: Clone,
    {
        self.lock()?.as_ref().cloned().ok_or_else(errors::closed)
    }

    /// Takes the value; `None` if it was taken before.
    ///
    /// # Errors
    /// `ForkedError` in another process.
    pub(crate) fn take(&self) -> PyResult<Option<T>> {
        Ok(self.lock()?.take())
    }

    /// Whether it was taken.
    pub(crate) fn is_taken(&self) -> PyResult<bool> {
        Ok(self.lock()?.is_none())
    }
}

impl<T: Send> Drop for OfProcess<T> {
    fn drop(&mut self) {
        let is_ours = self.is_ours();
        let value = self.value.get_mut();
        let value = value.unwrap_or_else(PoisonError::into_inner).take();
        if !is_ours {
            std::mem::forget(value);
        } else if let Some(value) = value {
            drop_detached(value);
        }
    }
}

/// Drops a value that may wait or write when it is dropped, without the interpreter's lock.
pub(crate) fn drop_detached<T: Send>(value: T) {
    let mut value = Some(value);
    // None while the interpreter ends: then the value is dropped below.
    let _ = Python::try_attach(|py| py.detach(|| drop(value.take())));
}

/// The store that the handles of a log share: closing the log closes all of them.
pub(crate) type Handle = Arc<OfProcess<Store>>;
