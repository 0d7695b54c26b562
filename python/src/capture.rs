//! Recording without waiting.

use std::sync::Arc;

use decklog::capture::WhenFull;
use decklog::{Error, Record, Store};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, OrRaise as _};
use crate::fork::OfProcess;
use crate::options::seconds;
use crate::values;

/// The limits of the queue.
pub(crate) struct Limits<'a> {
    pub(crate) queue_records_max: Option<i64>,
    pub(crate) queue_bytes_max: Option<i64>,
    pub(crate) when_full: &'a str,
    pub(crate) drain_timeout: Option<f64>,
}

#[pyclass(frozen, weakref, module = "decklog")]
pub(crate) struct Capture(OfProcess<Arc<decklog::Capture>>);

impl Capture {
    pub(crate) fn new(
        store: &Store,
        limits: &Limits<'_>,
        on_error: Option<Py<PyAny>>,
    ) -> PyResult<Capture> {
        let mut options = store.capture_options().when_full(match limits.when_full {
            "refuse" => WhenFull::Refuse,
            "wait" => WhenFull::Wait,
            other => {
                let message = format!("unknown policy {other:?}: give refuse or wait");
                return Err(errors::invalid("when_full", &message));
            }
        });
        if let Some(records) = limits.queue_records_max {
            options = options.queue_records_max(values::count("queue_records_max", records)?);
        }
        if let Some(bytes) = limits.queue_bytes_max {
            options = options.queue_bytes_max(values::count("queue_bytes_max", bytes)?);
        }
        if let Some(timeout) = limits.drain_timeout {
            options = options.drain_timeout(seconds("drain_timeout", timeout)?);
        }
        if let Some(on_error) = on_error {
            options = options.on_error(move |error, record| told(&on_error, error, record));
        }
        let capture = options.start().or_raise()?;
        Ok(Capture(OfProcess::new(Arc::new(capture))))
    }

    /// All uses share one handle, which tells each error once.
    pub(crate) fn handle(&self) -> PyResult<Arc<decklog::Capture>> {
        self.0.get()
    }
}

/// Calls the caller's function. An exception in it is printed, as of a thread.
fn told(on_error: &Py<PyAny>, error: &Error, record: &Record) {
    // None while the interpreter ends.
    let _ = Python::try_attach(|py| {
        let what = (
            errors::of(error.clone()),
            record.kind().stem(),
            record.key(),
        );
        if let Err(raised) = on_error.call1(py, what) {
            raised.write_unraisable(py, Some(on_error.bind(py)));
        }
    });
}

#[pymethods]
impl Capture {
    #[pyo3(signature = (record, /, *, kind = None))]
    fn record(
        &self,
        py: Python<'_>,
        record: &Bound<'_, PyAny>,
        kind: Option<&str>,
    ) -> PyResult<Option<String>> {
        let capture = self.handle()?;
        let input = values::input(record, values::kind(kind)?)?;
        let id = input.id();
        py.detach(|| capture.record_input(input)).or_raise()?;
        Ok(id)
    }

    /// Queues a conversation, unless the log has it, and messages of it.
    #[pyo3(signature = (conversation, messages, /))]
    fn request(
        &self,
        py: Python<'_>,
        conversation: &Bound<'_, PyAny>,
        messages: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        use decklog::Kind;
        let capture = self.handle()?;
        let conversation = values::input(conversation, Some(Kind::Conversations))?;
        let Record::Conversation(conversation) = conversation.into_record() else {
            return Err(errors::invalid("conversation", "it is no conversation"));
        };
        let mut asked = Vec::new();
        for message in messages.try_iter()? {
            let message = values::input(&message?, Some(Kind::Messages))?;
            match message.into_record() {
                Record::Message(message) => asked.push(*message),
                _ => return Err(errors::invalid("messages", "it is no message")),
            }
        }
        py.detach(|| capture.capture_request(conversation, asked))
            .or_raise()
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let capture = self.handle()?;
        py.detach(|| capture.flush()).or_raise()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(capture) = self.0.take()? {
            py.detach(|| capture.close());
        }
        Ok(())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.handle()?.stats();
        let dict = PyDict::new(py);
        for (name, count) in [
            ("queued", stats.queued),
            ("accepted", stats.accepted),
            ("written", stats.written),
            ("unchanged", stats.unchanged),
            ("refused", stats.refused),
            ("rejected", stats.rejected),
            ("failed", stats.failed),
            ("lock_retries", stats.lock_retries),
        ] {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    fn last_error(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let error = self.handle()?.last_error();
        Ok(error.map(|error| errors::of(error).into_value(py).into_any()))
    }
}
