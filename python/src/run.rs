//! The loop of an agent: runs, turns and calls.

use decklog::{Kind, Record, TurnKind, run};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::capture::Capture;
use crate::errors::{self, OrRaise as _};
use crate::fork::{Handle, OfProcess};
use crate::log::uuid;
use crate::{to_json, values};

#[pyclass(frozen, module = "decklog")]
pub(crate) struct Run {
    run: OfProcess<run::Run>,
    log: Handle,
}

impl Run {
    pub(crate) fn new(
        py: Python<'_>,
        log: Handle,
        vendor: &str,
        (thread_id, conversation): (Option<&str>, Option<&Bound<'_, PyAny>>),
        through: Option<&Capture>,
    ) -> PyResult<Run> {
        let mut run = log.get()?.run(vendor);
        if let Some(capture) = through {
            let capture = capture.handle()?;
            run = run.through(&capture);
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
        Ok(Run {
            run: OfProcess::new(run),
            log,
        })
    }
}

#[pymethods]
impl Run {
    #[getter]
    fn thread_id(&self) -> PyResult<String> {
        Ok(self.run.get()?.thread_id().to_string())
    }

    #[pyo3(signature = (kind, content, /))]
    fn turn(&self, py: Python<'_>, kind: &str, content: &Bound<'_, PyAny>) -> PyResult<Turn> {
        let kind: TurnKind = kind.parse().or_raise()?;
        let Ok(content) = content.cast::<PyString>() else {
            let of_type = content.get_type().name()?;
            let message = format!("a turn has a text, not a value of type {of_type}");
            return Err(errors::invalid("content", &message));
        };
        let content = to_json::text(content, "content")?;
        self.log.get()?;
        let run = self.run.get()?;
        let turn = py.detach(|| run.turn(kind, content)).or_raise()?;
        Ok(Turn {
            turn: OfProcess::new(turn),
            log: Handle::clone(&self.log),
        })
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("Run(thread_id='{}')", self.thread_id()?))
    }
}

#[pyclass(frozen, module = "decklog")]
pub(crate) struct Turn {
    turn: OfProcess<run::Turn>,
    log: Handle,
}

#[pymethods]
impl Turn {
    #[getter]
    fn id(&self) -> PyResult<String> {
        Ok(self.turn.get()?.id().to_string())
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
        let arguments = to_json::payload(arguments, "arguments_json")?;
        self.log.get()?;
        let turn = self.turn.get()?;
        let call = py.detach(|| turn.call_json(call_id, tool_name, arguments));
        let call = call.or_raise()?;
        Ok(Call {
            call_id: call.call_id().to_owned(),
            turn_id: call.turn_id().to_string(),
            running: OfProcess::new(call),
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
    running: OfProcess<run::Call>,
}

impl Call {
    fn ended(&self) -> PyResult<run::Call> {
        self.running.take()?.ok_or_else(|| {
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
        self.running.is_taken().unwrap_or(true)
    }
}
