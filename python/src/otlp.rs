//! Spans of OpenTelemetry as records.

use std::sync::Arc;

use decklog::otlp::{self, Encoding, Outcome, Refusal, Signal};
use pyo3::prelude::*;

use crate::errors;
use crate::fork::{Handle, OfProcess};

/// The numbers of items that were accepted and rejected, and the reasons.
type Received = (usize, usize, Vec<String>);

/// Receives requests of OTLP, in the form that exporters send.
#[pyclass(frozen, module = "decklog")]
pub(crate) struct Receiver {
    receiver: OfProcess<Arc<otlp::Receiver>>,
    log: Handle,
}

impl Receiver {
    pub(crate) fn new(log: Handle) -> PyResult<Receiver> {
        let receiver = Arc::new(otlp::Receiver::new(log.get()?));
        Ok(Receiver {
            receiver: OfProcess::new(receiver),
            log,
        })
    }

    fn receive(&self, py: Python<'_>, signal: Signal, request: &[u8]) -> PyResult<Received> {
        self.log.get()?;
        let receiver = self.receiver.get()?;
        let answer = py.detach(|| receiver.receive(Encoding::Protobuf, signal, request));
        let outcome: Outcome = answer.map_err(|refusal| match refusal {
            Refusal::Log(error) => errors::of(error),
            malformed => errors::invalid("request", &malformed.to_string()),
        })?;
        Ok((outcome.accepted, outcome.rejected, outcome.reasons))
    }
}

#[pymethods]
impl Receiver {
    /// Records spans. Returns the numbers of those that were accepted and rejected, and why.
    fn traces(&self, py: Python<'_>, request: &[u8]) -> PyResult<Received> {
        self.receive(py, Signal::Traces, request)
    }

    /// Records log records.
    fn logs(&self, py: Python<'_>, request: &[u8]) -> PyResult<Received> {
        self.receive(py, Signal::Logs, request)
    }
}
