//! The record kinds as plain types: what an agent hands over and gets back. No IO, no rules that
//! need to know what the log already holds.

mod call;
mod json;
mod time;
mod turn;

pub use call::{CallStatus, ToolCall, ToolCallDone, ToolCallReq, ToolStatus};
pub use json::args_sha256;
pub(crate) use json::same_json;
pub use time::{Day, Validity};
pub use turn::{ConversationTurn, TurnKind};

use crate::error::{Error, Result};

/// The most bytes a name or id may have: `call_id`, `vendor`, `tool_name`.
pub const NAME_BYTES_MAX: usize = 1024;

/// A kind of record: one stem of segment files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `conversation_turns`: what was said.
    ConversationTurns,
    /// `tool_calls`: what was done.
    ToolCalls,
}

impl Kind {
    /// Every kind, in the order in which reports list them.
    pub const ALL: [Kind; 2] = [Kind::ConversationTurns, Kind::ToolCalls];

    /// The name that files and the command line use.
    pub fn stem(self) -> &'static str {
        match self {
            Kind::ConversationTurns => "conversation_turns",
            Kind::ToolCalls => "tool_calls",
        }
    }

    /// The kind whose files have this stem.
    pub fn from_stem(stem: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.stem() == stem)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.stem())
    }
}

/// One fact to log, of any kind.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Record {
    /// A conversation turn asserted or, if its `created_at` is not valid, retracted.
    Turn(ConversationTurn),
    /// A tool call requested or, if its `started_at` is not valid, retracted.
    CallRequested(ToolCallReq),
    /// A tool call's outcome.
    CallDone(ToolCallDone),
}

impl Record {
    /// The kind of file this record goes to.
    pub fn kind(&self) -> Kind {
        match self {
            Record::Turn(_) => Kind::ConversationTurns,
            Record::CallRequested(_) | Record::CallDone(_) => Kind::ToolCalls,
        }
    }

    /// The time of the fact itself, epoch milliseconds: it picks the day's directory.
    pub fn at(&self) -> i64 {
        match self {
            Record::Turn(turn) => turn.created_at.at,
            Record::CallRequested(req) => req.started_at.at,
            Record::CallDone(done) => done.ended_at.at,
        }
    }

    /// The record's key as a person would write it.
    pub fn key(&self) -> String {
        match self {
            Record::Turn(turn) => turn.id.to_string(),
            Record::CallRequested(req) => format!("{} {}", req.request_id, req.call_id),
            Record::CallDone(done) => format!("{} {}", done.request_id, done.call_id),
        }
    }

    /// Checks what can be checked of the record alone and puts it in its canonical form.
    pub(crate) fn checked(mut self) -> Result<Record> {
        let checked = match &mut self {
            Record::Turn(turn) => turn.check(),
            Record::CallRequested(req) => req.check(),
            Record::CallDone(done) => done.check(),
        };
        checked
            .and_then(|()| Day::of(self.at()))
            .map_err(|e| e.with_key(format!("{} {}", self.kind(), self.key())))?;
        Ok(self)
    }
}

impl From<ConversationTurn> for Record {
    fn from(turn: ConversationTurn) -> Record {
        Record::Turn(turn)
    }
}

impl From<ToolCallReq> for Record {
    fn from(req: ToolCallReq) -> Record {
        Record::CallRequested(req)
    }
}

impl From<ToolCallDone> for Record {
    fn from(done: ToolCallDone) -> Record {
        Record::CallDone(done)
    }
}

fn check_name(field: &str, value: &str, empty_allowed: bool) -> Result<()> {
    if value.is_empty() && !empty_allowed {
        return Err(Error::invalid(format!(
            "{field} is empty: give a non-empty text"
        )));
    }
    if value.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "{field} has {} bytes: at most {NAME_BYTES_MAX} are allowed",
            value.len()
        )));
    }
    Ok(())
}
