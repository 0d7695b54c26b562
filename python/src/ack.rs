//! Acknowledgements.

use decklog::bindings::{RecordId, Recorded};
use decklog::{AckStatus, Warning};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors;

/// What the log says of a recorded fact.
#[pyclass(frozen, eq, hash, get_all, module = "decklog")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Ack {
    seq: u64,
    status: &'static str,
    id: Option<Id>,
    sequence: Option<i64>,
    warning: Option<&'static str>,
}

#[derive(PartialEq, Eq, Hash, FromPyObject, IntoPyObjectRef)]
enum Id {
    Number(i64),
    Text(String),
}

impl From<Recorded> for Ack {
    fn from(recorded: Recorded) -> Ack {
        Ack {
            seq: recorded.seq,
            status: recorded.status.as_str(),
            id: recorded.id.map(|id| match id {
                RecordId::Number(number) => Id::Number(number),
                RecordId::Text(text) => Id::Text(text),
            }),
            sequence: recorded.sequence,
            warning: recorded.warning.map(Warning::as_str),
        }
    }
}

/// The same text, of those known.
fn known<const N: usize>(
    field: &str,
    text: &str,
    known: [&'static str; N],
) -> PyResult<&'static str> {
    let mut known = known.into_iter();
    let unknown = || errors::invalid(field, &format!("unknown {field} {text:?}"));
    known.find(|known| *known == text).ok_or_else(unknown)
}

#[pymethods]
impl Ack {
    #[new]
    #[pyo3(signature = (seq, status, id = None, sequence = None, warning = None))]
    fn new(
        seq: u64,
        status: &str,
        id: Option<Id>,
        sequence: Option<i64>,
        warning: Option<&str>,
    ) -> PyResult<Ack> {
        let statuses = [AckStatus::Added, AckStatus::Unchanged].map(AckStatus::as_str);
        let warnings = Warning::ALL.map(Warning::as_str);
        Ok(Ack {
            seq,
            status: known("status", status, statuses)?,
            id,
            sequence,
            warning: warning
                .map(|warning| known("warning", warning, warnings))
                .transpose()?,
        })
    }

    /// For `pickle` and `copy`.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyAny>)> {
        let fields = (self.seq, self.status, &self.id, self.sequence, self.warning);
        Ok((py.get_type::<Ack>(), fields.into_bound_py_any(py)?))
    }

    fn __repr__(&self) -> String {
        let Ack { seq, status, .. } = self;
        let id = match &self.id {
            None => String::new(),
            Some(Id::Number(id)) => format!(", id={id}"),
            Some(Id::Text(id)) => format!(", id='{id}'"),
        };
        format!("Ack(seq={seq}, status='{status}'{id})")
    }
}
