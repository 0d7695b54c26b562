//! The loop of an agent: runs, turns and calls.

use std::sync::{Mutex, PoisonError};

use decklog::{Kind, Record, Store, TurnKind, run};
use napi::Result;
use napi_derive::napi;

use crate::capture::Capture;
use crate::errors::{self, OrThrow as _};
use crate::{options, wire};

/// Longer outcomes do not fit into a line of 16 MiB.
const OUTCOME_BYTES_MAX: usize = (16 << 20) - 4096;
/// So long an outcome fits in any form.
const SHORT_BYTES_MAX: usize = 2 << 20;

/// Refuses an outcome that is too long while the call may still have another one: the log would
/// record it as abandoned.
fn check_length(outcome: &str) -> Result<()> {
    if outcome.len() <= SHORT_BYTES_MAX {
        return Ok(());
    }
    let length = decklog::record::payload_json(outcome).len();
    if length <= OUTCOME_BYTES_MAX {
        return Ok(());
    }
    let message = format!("it has {length} bytes as JSON: at most {OUTCOME_BYTES_MAX} are allowed");
    Err(errors::invalid("outcome_json", &message))
}

#[napi]
pub struct Run(run::Run);

impl Run {
    pub(crate) fn new(
        store: &Store,
        vendor: String,
        thread_id: Option<String>,
        through: Option<&Capture>,
        (bytes, length): (&[u8], u32),
    ) -> Result<Run> {
        let mut run = store.run(vendor);
        if let Some(capture) = through {
            run = run.through(&*capture.handle()?);
        }
        if let Some(thread_id) = thread_id {
            run = run
                .in_thread(options::uuid("threadId", &thread_id)?)
                .or_throw()?;
        }
        if length > 0 {
            let input = wire::read(bytes, length, |reader| {
                reader.record_of(Some(Kind::Conversations))
            })?;
            let Record::Conversation(conversation) = input.into_record() else {
                return Err(errors::invalid("conversation", "it is no conversation"));
            };
            run = run.in_conversation(conversation).or_throw()?;
        }
        Ok(Run(run))
    }
}

#[napi]
impl Run {
    #[napi(getter)]
    pub fn thread_id(&self) -> String {
        self.0.thread_id().to_string()
    }

    #[napi]
    pub fn turn(&self, kind: String, content: String) -> Result<Turn> {
        let kind: TurnKind = kind.parse().or_throw()?;
        self.0.turn(kind, content).or_throw().map(Turn)
    }
}

#[napi]
pub struct Turn(run::Turn);

#[napi]
impl Turn {
    #[napi(getter)]
    pub fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// Records the request of a call.
    #[napi]
    pub fn call(
        &self,
        call_id: String,
        tool_name: String,
        bytes: &[u8],
        length: u32,
    ) -> Result<Call> {
        let arguments = wire::payload(bytes, length)?;
        let call = self.0.call_json(call_id, tool_name, arguments).or_throw()?;
        Ok(Call {
            turn_id: call.turn_id().to_string(),
            call: Mutex::new(Some(call)),
        })
    }
}

/// A call that is dropped without an outcome is recorded as abandoned.
#[napi]
pub struct Call {
    turn_id: String,
    call: Mutex<Option<run::Call>>,
}

impl Call {
    fn take(&self) -> Result<run::Call> {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        call.take().ok_or_else(|| {
            errors::of_kind("lifecycle", "the call has an outcome: it is recorded once")
        })
    }
}

#[napi]
impl Call {
    #[napi(getter)]
    pub fn turn_id(&self) -> String {
        self.turn_id.clone()
    }

    #[napi]
    pub fn done(&self, bytes: &[u8], length: u32) -> Result<()> {
        let outcome = (length > 0)
            .then(|| wire::payload(bytes, length))
            .transpose()?;
        outcome.as_deref().map_or(Ok(()), check_length)?;
        self.take()?.done_json(outcome).or_throw()
    }

    #[napi]
    pub fn failed(&self, error_kind: String, error_msg: String) -> Result<()> {
        self.take()?.failed(error_kind, error_msg).or_throw()
    }

    /// Whether the outcome is recorded.
    #[napi(getter)]
    pub fn is_ended(&self) -> bool {
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        call.is_none()
    }
}
