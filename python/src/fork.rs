//! Handles in a process that was forked. The locks and threads of the handle are those of the
//! parent, so a child may neither use nor drop it.

use std::sync::atomic::{AtomicU64, Ordering};

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

/// A value that belongs to the process that made it. In a forked one it is not dropped.
pub(crate) struct OfProcess<T> {
    value: Option<T>,
    forks: u64,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> OfProcess<T> {
        OfProcess {
            value: Some(value),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// The value.
    ///
    /// # Errors
    /// `ForkedError` in another process; `ClosedError` if it was taken.
    pub(crate) fn get(&self) -> PyResult<&T> {
        if !self.is_ours() {
            return Err(errors::forked());
        }
        self.value.as_ref().ok_or_else(errors::closed)
    }

    /// Takes the value; `None` if it was taken before.
    ///
    /// # Errors
    /// `ForkedError` in another process.
    pub(crate) fn take(&mut self) -> PyResult<Option<T>> {
        if !self.is_ours() {
            return Err(errors::forked());
        }
        Ok(self.value.take())
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.is_ours() {
            std::mem::forget(self.value.take());
        }
    }
}
