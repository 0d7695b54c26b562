//! The native part of the Python package `decklog`. The package's Python files are the public API,
//! and document it.

// Of each method, the arguments are what Python calls it with, and the documentation is for Python.
#![allow(
    clippy::doc_link_with_quotes,
    clippy::needless_pass_by_value,
    clippy::unused_self,
    clippy::too_many_arguments,
    missing_docs
)]

mod ack;
mod arrow;
mod capture;
mod errors;
mod fork;
mod from_json;
mod inbox;
mod log;
mod options;
mod otlp;
mod records;
mod run;
mod thoughts;
mod to_json;
mod values;

// Free-threaded Python is untried: it takes its lock while the module is loaded.
#[pyo3::pymodule(gil_used = true)]
mod _decklog {
    #[pymodule_export]
    use crate::ack::Ack;
    #[pymodule_export]
    use crate::arrow::ArrowStream;
    #[pymodule_export]
    use crate::capture::Capture;
    #[pymodule_export]
    use crate::inbox::Inbox;
    #[pymodule_export]
    use crate::log::{Log, args_sha256};
    #[pymodule_export]
    use crate::otlp::Receiver;
    #[pymodule_export]
    use crate::records::Records;
    #[pymodule_export]
    use crate::run::{Call, Run, Turn};
    #[pymodule_export]
    use crate::thoughts::Thoughts;

    use pyo3::prelude::*;

    use crate::fork;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        fork::watch(module.py())
    }
}
