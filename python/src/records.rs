//! Records that were read, as instances of the classes in `decklog/records.py`.

use std::sync::Mutex;

use decklog::bindings::{Item, List};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::errors::{self, OrRaise as _};
use crate::fork::Handle;
use crate::from_json;

/// The classes by the name of their kind.
static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// A record as an instance of its class.
pub(crate) fn instance<'py>(py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyAny>> {
    let classes = CLASSES.get_or_try_init(py, || {
        let classes = py.import("decklog.records")?.getattr("BY_KIND")?;
        Ok::<_, PyErr>(classes.cast_into::<PyDict>()?.unbind())
    })?;
    let class = classes.bind(py).get_item(item.kind().stem())?;
    let class = class.ok_or_else(|| errors::fault("a kind without a class"))?;
    let instance = class.call_method1(intern!(py, "__new__"), (&class,))?;
    instance.setattr(intern!(py, "__dict__"), from_json::value(py, item)?)?;
    Ok(instance)
}

/// As [`instance`]; `None` for no record.
pub(crate) fn optional(py: Python<'_>, item: Option<Item>) -> PyResult<Option<Bound<'_, PyAny>>> {
    item.map(|item| instance(py, &item)).transpose()
}

/// An iterator of records, which reads them page by page.
#[pyclass(frozen, module = "decklog")]
pub(crate) struct Records {
    store: Handle,
    state: Mutex<State>,
}

struct State {
    list: List,
    page: std::vec::IntoIter<Item>,
}

impl Records {
    pub(crate) fn new(store: Handle, list: List) -> Records {
        Records {
            store,
            state: Mutex::new(State {
                list,
                page: Vec::new().into_iter(),
            }),
        }
    }
}

#[pymethods]
impl Records {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let store = self.store.get()?;
        let next = || {
            let mut state = self
                .state
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(item) = state.page.next() {
                return Ok(Some(item));
            }
            state.page = state.list.next(&store)?.into_iter();
            Ok(state.page.next())
        };
        let item = py.detach(next).or_raise()?;
        optional(py, item)
    }
}
