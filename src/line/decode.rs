//! The slow path: a whole line, in any field order, to the record it holds.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Op;
use super::envelope::{self, Envelope};
use crate::record::{
    ConversationTurn, Kind, Record, ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity,
};

/// A line's record, with what the record itself does not say.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// Absent in a rewritten line that lost it, and in input.
    pub seq: Option<u64>,
    pub op: Op,
    pub record: Record,
}

impl Decoded {
    pub(crate) fn envelope(&self, seq: u64) -> Envelope<'_> {
        envelope::of(&self.record, self.op, seq)
    }
}

/// Why a line does not hold a record.
#[derive(Debug)]
pub(crate) struct Reason {
    /// It is a JSON object all the same.
    pub is_object: bool,
    pub text: String,
}

/// Reads the record that a line of `kind` holds.
pub(crate) fn decode(kind: Kind, line: &[u8]) -> Result<Decoded, Reason> {
    let decoded = match kind {
        Kind::ConversationTurns => serde_json::from_slice(line)
            .map_err(|e| e.to_string())
            .and_then(TurnLine::into_decoded),
        Kind::ToolCalls => serde_json::from_slice(line)
            .map_err(|e| e.to_string())
            .and_then(CallLine::into_decoded),
    };
    decoded.map_err(|text| Reason {
        is_object: line.trim_ascii_start().starts_with(b"{")
            && serde_json::from_slice::<IgnoredAny>(line).is_ok(),
        text,
    })
}

#[derive(Deserialize)]
struct TurnLine<'a> {
    seq: Option<u64>,
    at: Option<i64>,
    op: Option<Cow<'a, str>>,
    id: Uuid,
    parent_id: Option<Uuid>,
    message_id: Uuid,
    thread_id: Option<Uuid>,
    kind: TurnKind,
    created_at: Option<Validity>,
    content: String,
}

impl TurnLine<'_> {
    fn into_decoded(self) -> Result<Decoded, String> {
        let given = self.op.as_deref().unwrap_or(Op::Asserted.as_str());
        let (op, created_at) =
            asserted(given, Op::Asserted, "created_at", self.created_at, self.at)?;
        let turn = ConversationTurn {
            id: self.id,
            parent_id: self.parent_id,
            message_id: self.message_id,
            kind: self.kind,
            content: self.content,
            created_at,
            thread_id: self.thread_id,
        };
        Ok(Decoded {
            seq: real(self.seq),
            op,
            record: Record::Turn(turn),
        })
    }
}

#[derive(Deserialize)]
struct CallLine<'a> {
    seq: Option<u64>,
    at: Option<i64>,
    op: Cow<'a, str>,
    request_id: Uuid,
    call_id: String,
    parent_id: Option<Uuid>,
    vendor: Option<String>,
    tool_name: Option<String>,
    started_at: Option<Validity>,
    args_sha256: Option<String>,
    #[serde(borrow)]
    arguments_json: Option<&'a RawValue>,
    ended_at: Option<Validity>,
    latency_ms: Option<i64>,
    error_kind: Option<String>,
    error_msg: Option<String>,
    #[serde(borrow)]
    outcome_json: Option<&'a RawValue>,
}

impl CallLine<'_> {
    fn into_decoded(self) -> Result<Decoded, String> {
        let status = match Op::from_word(&self.op) {
            Some(Op::Completed) => ToolStatus::Completed,
            Some(Op::Failed) => ToolStatus::Failed,
            _ => return self.into_request(),
        };
        let done = ToolCallDone {
            request_id: self.request_id,
            call_id: self.call_id,
            ended_at: need("ended_at", self.ended_at.or(self.at.map(Validity::at)))?,
            latency_ms: need("latency_ms", self.latency_ms)?,
            outcome_json: self.outcome_json.map(payload).transpose()?,
            error_kind: self.error_kind,
            error_msg: self.error_msg,
            status,
        };
        let op = if status == ToolStatus::Completed {
            Op::Completed
        } else {
            Op::Failed
        };
        Ok(Decoded {
            seq: real(self.seq),
            op,
            record: Record::CallDone(done),
        })
    }

    fn into_request(self) -> Result<Decoded, String> {
        let (op, started_at) = asserted(
            &self.op,
            Op::Requested,
            "started_at",
            self.started_at,
            self.at,
        )?;
        let req = ToolCallReq {
            request_id: self.request_id,
            call_id: self.call_id,
            parent_id: need("parent_id", self.parent_id)?,
            vendor: need("vendor", self.vendor)?,
            tool_name: need("tool_name", self.tool_name)?,
            args_sha256: need("args_sha256", self.args_sha256)?,
            arguments_json: self.arguments_json.map(payload).transpose()?,
            started_at,
        };
        Ok(Decoded {
            seq: real(self.seq),
            op,
            record: Record::CallRequested(req),
        })
    }
}

/// Numbers begin at 1: who claims 0 has none.
fn real(seq: Option<u64>) -> Option<u64> {
    seq.filter(|seq| *seq > 0)
}

/// The op and validity of an assertion or its retraction.
fn asserted(
    given: &str,
    assertion: Op,
    field: &str,
    validity: Option<Validity>,
    at: Option<i64>,
) -> Result<(Op, Validity), String> {
    let mut validity = need(field, validity.or(at.map(Validity::at)))?;
    if given == Op::Retracted.as_str() {
        validity.is_valid = false;
    } else if given != assertion.as_str() {
        return Err(format!("unknown op {given:?}"));
    }
    let op = if validity.is_valid {
        assertion
    } else {
        Op::Retracted
    };
    Ok((op, validity))
}

fn need<T>(field: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("missing field `{field}`"))
}

/// A nested value as its bytes, a string as what it says.
fn payload(raw: &RawValue) -> Result<String, String> {
    if raw.get().starts_with('"') {
        serde_json::from_str(raw.get()).map_err(|e| e.to_string())
    } else {
        Ok(raw.get().to_owned())
    }
}
