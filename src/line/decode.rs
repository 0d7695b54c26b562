//! A whole line, in any field order, to the record it holds: the slow path of reading.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::cursor::Cursor;
use super::envelope::Envelope;
use super::{Op, canonical};
use crate::record::{
    CodeEditProposal, ConversationTurn, InboxStep, InboxTask, Kind, ProposalStatus, ProposalStep,
    Record, TaskStatus, ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, from_json,
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
        Envelope::of(&self.record, seq)
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
    match canonical::decode(kind, line) {
        Ok(decoded) => Ok(decoded),
        Err(_) => decode_any(kind, line),
    }
}

/// As [`decode`], by parsing all of it.
pub(super) fn decode_any(kind: Kind, line: &[u8]) -> Result<Decoded, Reason> {
    let decoded = match kind {
        Kind::ConversationTurns => read(line).and_then(TurnLine::into_decoded),
        Kind::ToolCalls => read(line).and_then(CallLine::into_decoded),
        Kind::CodeEditProposals => read(line).and_then(ProposalLine::into_decoded),
        Kind::Inbox => read(line).and_then(InboxLine::into_decoded),
        Kind::Conversations => whole(kind, line, |op, conversation| match op {
            Op::Updated => Record::ConversationUpdated(conversation),
            _ => Record::Conversation(conversation),
        }),
        Kind::Messages => whole(kind, line, |_, message| Record::Message(message)),
        Kind::Events => whole(kind, line, |_, event| Record::Event(event)),
        Kind::History => whole(kind, line, |_, entry| Record::History(entry)),
        Kind::ThoughtRecords => whole(kind, line, |_, thought| Record::Thought(thought)),
        Kind::Rollups => whole(kind, line, |_, rollup| Record::Rollup(rollup)),
    };
    decoded.map_err(|text| Reason {
        is_object: line.trim_ascii_start().starts_with(b"{")
            && serde_json::from_slice::<IgnoredAny>(line).is_ok(),
        text,
    })
}

/// Reads the record that a line of a file holds, which has all that the log gives. A thought
/// counts without its hashes, too: the check of its chain tells where it stands.
pub(super) fn decode_logged(kind: Kind, line: &[u8]) -> Result<Decoded, Reason> {
    let decoded = decode(kind, line)?;
    match decoded.record.missing() {
        None => Ok(decoded),
        Some(_) if kind == Kind::ThoughtRecords => Ok(decoded),
        Some(field) => Err(Reason {
            is_object: true,
            text: format!("missing field `{field}`"),
        }),
    }
}

fn read<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|e| e.to_string())
}

/// A line whose fields are those of the record's own type.
fn whole<T: DeserializeOwned>(
    kind: Kind,
    line: &[u8],
    record: impl FnOnce(Op, T) -> Record,
) -> Result<Decoded, String> {
    let (seq, op) = if let Ok((seq, _, op)) = Cursor::new(line).head(kind) {
        (Some(seq), op)
    } else {
        let head: Head<'_> = read(line)?;
        (real(head.seq), op_named(kind, head.op.as_deref())?)
    };
    Ok(Decoded {
        seq,
        op,
        record: record(op, read(line)?),
    })
}

/// The envelope of a line in any order.
#[derive(Deserialize)]
struct Head<'a> {
    seq: Option<u64>,
    op: Option<Cow<'a, str>>,
}

fn op_named(kind: Kind, word: Option<&str>) -> Result<Op, String> {
    match word {
        None => kind.ops().first().copied(),
        Some(word) => kind.op(word),
    }
    .ok_or_else(|| format!("unknown op {:?}", word.unwrap_or_default()))
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
        let status = match Kind::ToolCalls.op(&self.op) {
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

#[derive(Deserialize)]
struct ProposalLine<'a> {
    seq: Option<u64>,
    at: Option<i64>,
    op: Option<Cow<'a, str>>,
    request_id: Uuid,
    created_at: Option<Validity>,
    confidence: Option<f64>,
    decided_at: Option<i64>,
    applied_at: Option<i64>,
    commit_hash: Option<String>,
    #[serde(borrow)]
    diffs_json: Option<&'a RawValue>,
}

impl ProposalLine<'_> {
    fn into_decoded(self) -> Result<Decoded, String> {
        let named = op_named(Kind::CodeEditProposals, self.op.as_deref())?;
        let status = match named {
            Op::Approved => ProposalStatus::Approved,
            Op::Denied => ProposalStatus::Denied,
            Op::Applied => ProposalStatus::Applied,
            Op::Reverted => ProposalStatus::Reverted,
            _ => return self.into_proposal(named),
        };
        // A step's own time is its line's time, and stands in its own field too.
        let (own_name, own) = match status {
            ProposalStatus::Applied => ("applied_at", self.applied_at),
            ProposalStatus::Reverted => ("at", None),
            _ => ("decided_at", self.decided_at),
        };
        let is = |name| own_name == name;
        let step = ProposalStep {
            request_id: self.request_id,
            status,
            at: need(own_name, own.or(self.at))?,
            decided_at: self.decided_at.filter(|_| !is("decided_at")),
            applied_at: self.applied_at.filter(|_| !is("applied_at")),
            commit_hash: self.commit_hash,
        };
        Ok(Decoded {
            seq: real(self.seq),
            op: named,
            record: Record::ProposalStep(step),
        })
    }

    fn into_proposal(self, named: Op) -> Result<Decoded, String> {
        let (op, created_at) = asserted(
            named.as_str(),
            Op::Pending,
            "created_at",
            self.created_at,
            self.at,
        )?;
        let proposal = CodeEditProposal {
            request_id: self.request_id,
            created_at,
            confidence: self.confidence,
            status: ProposalStatus::Pending,
            decided_at: self.decided_at,
            applied_at: self.applied_at,
            commit_hash: self.commit_hash,
            diffs_json: payload(need("diffs_json", self.diffs_json)?)?,
        };
        Ok(Decoded {
            seq: real(self.seq),
            op,
            record: Record::Proposal(proposal),
        })
    }
}

#[derive(Deserialize)]
struct InboxLine<'a> {
    seq: Option<u64>,
    at: Option<i64>,
    op: Option<Cow<'a, str>>,
    #[serde(default)]
    id: i64,
    update_id: Option<i64>,
    created_at: Option<i64>,
    chat_id: Option<i64>,
    message_date: Option<i64>,
    text: Option<String>,
    attempts: Option<i64>,
    locked_at: Option<i64>,
    error: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

impl InboxLine<'_> {
    fn into_decoded(self) -> Result<Decoded, String> {
        let op = op_named(Kind::Inbox, self.op.as_deref())?;
        let (at, status) = match op {
            Op::InProgress => (self.locked_at.or(self.at), TaskStatus::InProgress),
            Op::Done => (self.at, TaskStatus::Done),
            Op::Failed => (self.at, TaskStatus::Failed),
            _ => (self.created_at.or(self.at), TaskStatus::Queued),
        };
        let at = need("at", at)?;
        let record = match self.update_id {
            Some(update_id) if op == Op::Queued => Record::InboxTask(InboxTask {
                id: self.id,
                update_id,
                chat_id: self.chat_id,
                text: self.text,
                message_date: self.message_date,
                created_at: at,
                updated_at: at,
                status,
                attempts: self.attempts.unwrap_or(0),
                locked_at: self.locked_at,
                error: self.error,
                payload: self.payload.map(payload).transpose()?,
            }),
            Some(_) => {
                return Err(format!(
                    "update_id belongs to op queued, not {}",
                    op.as_str()
                ));
            }
            None if op == Op::Queued && self.id == 0 => {
                return Err("missing field `update_id`".to_owned());
            }
            None => Record::InboxStep(InboxStep {
                id: self.id,
                status,
                at,
                attempt: self.attempts.unwrap_or(0),
                error: self.error,
            }),
        };
        Ok(Decoded {
            seq: real(self.seq),
            op,
            record,
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

fn payload(raw: &RawValue) -> Result<String, String> {
    from_json(raw).map_err(|e| e.to_string())
}
