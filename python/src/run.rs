//! The loop of an agent: runs, turns and calls.

use std::sync::{Mutex, PoisonError};

use decklog::{Kind, Record, Store, TurnKind, run};
use pyo3::prelude::*;
use serde_json::value::RawValue;

use crate::capture::Capture;
use crate::errors::{self, OrRaise as _};
use crate::fork::OfProcess;
use crate::log::uuid;
use crate::{to_json, values};

/// JSON that is written as it is.
fn raw(value: &Bound<'_, PyAny>, field: &str) -> PyResult<Box<RawValue>> {
    RawValue::from_string(to_json::json(value, field)?).map_err(errors::fault)
}

#[pyclass(frozen, module = "decklog")]
pub(crate) struct Run(OfProcess<run::Run>);

impl Run {
    pub(crate) fn new(
        py: Python<'_>,
        store: Store,
        vendor: &str,
        (thread_id, conversation): (Option<&str>, Option<&Bound<'_, PyAny>>),
        through: Option<&Capture>,
    ) -> PyResult<Run> {
        let mut run = store.run(vendor);
        if let Some(capture) = through {
            run = run.through(&capture.handle()?);
        }
        if let Some(thread_id) = thread_id {
            let thread_id = uuid("thread_id", thread_id)?;
            run = py.detach(|| run.in_thread(thread_id)).or_raise()?;
        }
        if let Some(conversation) = conversation {
            let input = values::input(conversation, Some(Kind::Conversations))?;
            let Record::Conversation(conversation) = input.into_record() else {
                return Err(errors::invalid("conversation", "it is no conversation"));
            };
            run = py.detach(|| run.in_conversation(conversation)).or_raise()?;
        }
        Ok(Run(OfProcess::new(run)))
    }
}

#[pymethods]
impl Run {
    #[getter]
    fn thread_id(&self) -> PyResult<String> {
        Ok(self.0.get()?.thread_id().to_string())
    }

    #[pyo3(signature = (kind, content, /))]
    fn turn(&self, py: Python<'_>, kind: &str, content: &str) -> PyResult<Turn> {
        let kind: TurnKind = kind.parse().or_raise()?;
        let run = self.0.get()?;
        let turn = py.detach(|| run.turn(kind, content)).or_raise()?;
        Ok(Turn(OfProcess::new(turn)))
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("Run(thread_id='{}')", self.thread_id()?))
    }
}

#[pyclass(frozen, module = "decklog")]
pub(crate) struct Turn(OfProcess<run::Turn>);

#[pymethods]
impl Turn {
    #[getter]
    fn id(&self) -> PyResult<String> {
        Ok(self.0.get()?.id().to_string())
    }

    /// Records the request of a call. `arguments` is JSON, or a value that has a form in JSON.
    #[pyo3(signature = (call_id, tool_name, arguments, /))]
    fn call(
        &self,
        py: Python<'_>,
        call_id: &str,
        tool_name: &str,
        arguments: &Bound<'_, PyAny>,
    ) -> PyResult<Call> {
        let arguments = raw(arguments, "arguments_json")?;
        let turn = self.0.get()?;
        let call = py
            .detach(|| turn.call(call_id, tool_name, &arguments))
            .or_raise()?;
        Ok(Call {
            call_id: call.call_id().to_owned(),
            turn_id: call.turn_id().to_string(),
            running: Mutex::new(OfProcess::new(call)),
        })
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("Turn(id='{}')", self.id()?))
    }
}

// `call_id` is the name in the files.
#[allow(clippy::struct_field_names)]
#[pyclass(frozen, module = "decklog")]
pub(crate) struct Call {
    #[pyo3(get)]
    call_id: String,
    #[pyo3(get)]
    turn_id: String,
    running: Mutex<OfProcess<run::Call>>,
}

impl Call {
    fn take(&self) -> PyResult<Option<run::Call>> {
        let mut call = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        call.take()
    }

    fn ended(&self) -> PyResult<run::Call> {
        self.take()?.ok_or_else(|| {
            errors::of_class(
                "LifecycleError",
                "the call has an outcome: it is recorded once",
            )
        })
    }
}

#[pymethods]
impl Call {
    #[pyo3(signature = (outcome = None, /))]
    fn done(&self, py: Python<'_>, outcome: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let outcome = outcome.filter(|outcome| !outcome.is_none());
        let outcome = outcome
            .map(|it| to_json::payload(it, "outcome_json"))
            .transpose()?;
        let call = self.ended()?;
        py.detach(|| call.done_json(outcome)).or_raise()
    }

    #[pyo3(signature = (error_kind, error_msg = "", /))]
    fn failed(&self, py: Python<'_>, error_kind: &str, error_msg: &str) -> PyResult<()> {
        let call = self.ended()?;
        py.detach(|| call.failed(error_kind, error_msg)).or_raise()
    }

    /// Whether the outcome is recorded.
    #[getter]
    fn is_ended(&self) -> bool {
        let call = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        call.get().is_err()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // A call without an outcome is recorded as abandoned, for which it may wait.
        if let Ok(Some(call)) = self.take() {
            Python::attach(|py| py.detach(|| drop(call)));
        }
    }
}
