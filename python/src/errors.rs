//! Errors of the library as exceptions. The classes are in `decklog/errors.py`.

use decklog::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception of an error.
pub(crate) fn of(error: Error) -> PyErr {
    Python::attach(|py| made(py, &error).unwrap_or_else(|failed| failed))
}

fn made(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let kwargs = PyDict::new(py);
    kwargs.set_item("field", error.field())?;
    kwargs.set_item("path", error.path().map(|path| path.to_string_lossy()))?;
    kwargs.set_item("key", error.key())?;
    kwargs.set_item("offset", error.offset())?;
    let classes = py.import("decklog.errors")?.getattr("BY_KIND")?;
    let class = classes.get_item(error.kind().as_str())?;
    let exception = class.call((error.to_string(),), Some(&kwargs))?;
    Ok(PyErr::from_value(exception))
}

pub(crate) fn of_class(class: &str, message: &str) -> PyErr {
    Python::attach(|py| {
        let made = || {
            py.import("decklog.errors")?
                .getattr(class)?
                .call1((message,))
        };
        match made() {
            Ok(exception) => PyErr::from_value(exception),
            Err(failed) => failed,
        }
    })
}

/// A value or an argument is invalid.
pub(crate) fn invalid(field: &str, message: &str) -> PyErr {
    Python::attach(|py| {
        let made = || {
            let kwargs = PyDict::new(py);
            kwargs.set_item("field", field)?;
            let class = py.import("decklog.errors")?.getattr("InvalidInputError")?;
            class.call((format!("{field}: {message}"),), Some(&kwargs))
        };
        match made() {
            Ok(exception) => PyErr::from_value(exception),
            Err(failed) => failed,
        }
    })
}

/// Whether an exception is a `decklog.Error`.
pub(crate) fn is_ours(py: Python<'_>, error: &PyErr) -> bool {
    let class = py
        .import("decklog.errors")
        .and_then(|it| it.getattr("Error"));
    class.is_ok_and(|class| error.matches(py, class).unwrap_or(false))
}

pub(crate) fn forked() -> PyErr {
    let message = "this log was opened before the process was forked: open it again in the child";
    of_class("ForkedError", message)
}

pub(crate) fn closed() -> PyErr {
    of_class("ClosedError", "the log is closed: open it again")
}

/// A result of the library as one of Python.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for decklog::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(of)
    }
}

/// Something that cannot happen unless the library is at fault.
pub(crate) fn fault(message: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(message.to_string())
}
