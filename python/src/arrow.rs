//! Records as Arrow, through the C stream interface.

use arrow_array::RecordBatchReader as _;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use decklog::bindings::ArrowReader;
use decklog::{Kind, Store};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{self, OrRaise as _};
use crate::fork::OfProcess;

/// Records of a kind, as any program takes them that knows Arrow. They are read once.
#[pyclass(frozen, module = "decklog")]
pub(crate) struct ArrowStream {
    reader: OfProcess<ArrowReader>,
    schema: arrow_schema::SchemaRef,
}

impl ArrowStream {
    pub(crate) fn new(
        store: Store,
        kind: Kind,
        times: (Option<i64>, Option<i64>),
        columns: Option<Vec<String>>,
    ) -> PyResult<ArrowStream> {
        let reader = ArrowReader::new(&store, kind, times, columns.as_deref()).or_raise()?;
        Ok(ArrowStream {
            schema: reader.schema(),
            reader: OfProcess::new(reader),
        })
    }
}

#[pymethods]
impl ArrowStream {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Consumers convert what they get.
        drop(requested_schema);
        let reader = self.reader.take()?.ok_or_else(|| {
            errors::of_class("LifecycleError", "the stream was read: ask for a new one")
        })?;
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema).map_err(errors::fault)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}
