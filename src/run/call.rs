//! A running call: its outcome, its latency, and the handling of a call that is dropped.

use std::fmt::Display;
use std::time::Instant;

use serde::Serialize;
use uuid::Uuid;

use super::{Run, json};
use crate::collections::IfKnown;
use crate::error::Result;
use crate::record::{ToolCallDone, ToolStatus};

/// The `error_kind` of a tool's own error.
const TOOL_ERROR: &str = "tool_error";
/// The `error_kind` of a call without an outcome.
const ABANDONED: &str = "abandoned";

/// A tool call of a [`Run`] that was requested and has no outcome yet; returned by
/// [`Turn::call`](super::Turn::call) and [`Draft::record`](super::Draft::record).
///
/// Latency is measured from the creation of this handle, with a monotonic clock. If the handle is
/// dropped without an outcome, also during a panic, the call is recorded as failed with the
/// `error_kind` `abandoned`. An error while writing that is not returned.
///
/// ```
/// use decklog::{Store, ToolStatus};
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = Store::open(dir.path().join("log"))?;
/// # let run = store.run("anthropic");
/// let turn = run.assistant("I will look.")?;
/// let call = turn.call("toolu_1", "read_file", &["mian.rs"])?;
/// let read = call.run(|| std::fs::read_to_string("/nonexistent/mian.rs"))?;
/// assert!(read.is_err());
/// turn.call("toolu_2", "fetch", &["http://localhost"])?.failed("timeout", "no answer in 30 s")?;
/// drop(turn.call("toolu_3", "fetch", &["http://localhost"])?);
///
/// for (call_id, error_kind) in [("toolu_1", "tool_error"), ("toolu_2", "timeout"), ("toolu_3", "abandoned")] {
///     let outcome = store.get_tool_call(turn.id(), call_id)?.unwrap().1.unwrap();
///     assert_eq!(outcome.status, ToolStatus::Failed);
///     assert_eq!(outcome.error_kind.as_deref(), Some(error_kind));
/// }
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a call that is dropped is recorded as abandoned"]
pub struct Call {
    run: Run,
    turn_id: Uuid,
    id: String,
    started: Instant,
    /// The message for a call that is dropped. `None` once the outcome is final.
    abandoned: Option<String>,
}

impl Call {
    pub(super) fn new(run: Run, turn_id: Uuid, call_id: String) -> Call {
        Call {
            run,
            turn_id,
            id: call_id,
            started: Instant::now(),
            abandoned: Some("the call was dropped without an outcome".to_owned()),
        }
    }

    /// The call's id, as assigned by the provider.
    pub fn call_id(&self) -> &str {
        &self.id
    }

    /// The id of the turn that made the call, which is the call's `request_id`.
    pub fn turn_id(&self) -> Uuid {
        self.turn_id
    }

    /// Runs the tool and records its result: `Ok` completes the call, `Err` fails it with the
    /// `error_kind` `tool_error`. Returns the tool's result.
    ///
    /// # Errors
    /// The outer error means that the outcome was not recorded, as by [`done`](Call::done).
    pub fn run<T: Serialize, E: Display>(
        self,
        tool: impl FnOnce() -> Result<T, E>,
    ) -> Result<Result<T, E>> {
        let returned = tool();
        self.ended(&returned)?;
        Ok(returned)
    }

    /// Records the result of a tool, as [`run`](Call::run) does. For tools that are awaited.
    ///
    /// # Errors
    /// As [`done`](Call::done).
    pub fn ended<T: Serialize, E: Display>(self, returned: &Result<T, E>) -> Result<()> {
        match returned {
            Ok(outcome) => self.done(outcome),
            Err(error) => self.failed(TOOL_ERROR, error.to_string()),
        }
    }

    /// Records that the tool completed.
    ///
    /// # Errors
    /// As [`Run::turn`]; also [`InvalidInput`](crate::ErrorKind::InvalidInput) for an outcome that
    /// cannot be serialized as JSON. A call whose outcome is rejected is recorded as abandoned.
    pub fn done(self, outcome: &(impl Serialize + ?Sized)) -> Result<()> {
        match json(outcome) {
            Ok(outcome) => self.done_json(Some(outcome)),
            Err(e) => self.end(Err(e.with_field("outcome_json"))),
        }
    }

    /// As [`done`](Call::done), with an outcome that is JSON already, or text. `None`: the tool
    /// returned nothing.
    pub fn done_json(self, outcome_json: Option<String>) -> Result<()> {
        let done = ToolCallDone {
            outcome_json,
            ..self.outcome(ToolStatus::Completed)
        };
        self.end(Ok(done))
    }

    /// Records that the tool failed. `error_kind` is the class of the error, such as `timeout`.
    ///
    /// # Errors
    /// As [`done`](Call::done).
    pub fn failed(self, error_kind: impl Into<String>, error_msg: impl Into<String>) -> Result<()> {
        let failed = self.failure(error_kind.into(), error_msg.into());
        self.end(Ok(failed))
    }

    fn failure(&self, error_kind: String, error_msg: String) -> ToolCallDone {
        ToolCallDone {
            error_kind: Some(error_kind),
            error_msg: Some(error_msg),
            ..self.outcome(ToolStatus::Failed)
        }
    }

    fn outcome(&self, status: ToolStatus) -> ToolCallDone {
        let latency_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        ToolCallDone {
            ended_at: self.run.now(),
            latency_ms,
            ..ToolCallDone::new(self.turn_id, &*self.id, status)
        }
    }

    fn end(mut self, outcome: Result<ToolCallDone>) -> Result<()> {
        let written = outcome.and_then(|outcome| self.write(outcome));
        self.abandoned = match &written {
            // Otherwise the call would stay open.
            Err(e) if e.kind().is_judgement() => Some(format!("its outcome was rejected: {e}")),
            _ => None,
        };
        written
    }

    fn write(&self, outcome: ToolCallDone) -> Result<()> {
        self.run.write([outcome.into()], IfKnown::Compare)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(why) = self.abandoned.take() {
            let written = self.write(self.failure(ABANDONED.to_owned(), why));
            // The error cannot be returned.
            if let (Some(capture), Err(error)) = (&self.run.capture, written) {
                capture.note(error);
            }
        }
    }
}
