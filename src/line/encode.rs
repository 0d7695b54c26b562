//! Records to lines.

use std::borrow::Cow;
use std::io::Write;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::classify::{Line, classify};
use super::decode::decode;
use super::{LINE_BYTES_MAX, Op, TAIL_LEN, TAIL_START};
use crate::error::{Error, Result};
use crate::record::{
    CodeEditProposal, Form, InboxStep, InboxTask, Kind, ProposalStatus, ProposalStep, Record,
    TaskStatus, ToolCallDone, ToolCallReq, ToolStatus, form,
};

/// Appends `record` to `out` as line `seq`, with its LF. `parent_id` is the call's parent, which
/// the line of an outcome repeats so that a grep for the parent finds it.
///
/// # Errors
/// A payload that may not be stored, or a line past `line_bytes_max`; `out` is as before.
pub(crate) fn encode(
    record: &Record,
    parent_id: Option<Uuid>,
    seq: u64,
    line_bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    let too_long = |len: usize| {
        Error::invalid(format!(
            "the record is too long for one line: {len} bytes, the limit is {line_bytes_max}; {}",
            largest_field(record)
        ))
    };
    let text_len = text_len(record);
    if text_len > line_bytes_max {
        return Err(too_long(text_len));
    }
    let mut line = LineWriter { out };
    line.begin(seq, record.at(), op_of(record));
    let written = line.body(record, parent_id).map_err(|e| named(record, e));
    line.end(start);
    let len = out.len() - start;
    let written = written.and_then(|()| {
        if len > line_bytes_max {
            Err(too_long(len))
        } else {
            Ok(())
        }
    });
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// The error of a record that does not serialize itself: the payload at fault, by its name.
fn named(record: &Record, error: Error) -> Error {
    let payloads = match record {
        Record::Message(message) => vec![
            ("tool_args", &message.tool_args),
            ("inference_metadata", &message.inference_metadata),
        ],
        Record::Event(event) => vec![("payload", &event.payload)],
        _ => Vec::new(),
    };
    let mut errors = payloads
        .into_iter()
        .filter_map(|(name, text)| form(name, text.as_deref()?).err());
    errors.next().unwrap_or(error)
}

/// What a line of this record asserts.
pub(super) fn op_of(record: &Record) -> Op {
    match record {
        Record::Turn(turn) if turn.created_at.is_valid => Op::Asserted,
        Record::CallRequested(req) if req.started_at.is_valid => Op::Requested,
        Record::Proposal(proposal) if proposal.created_at.is_valid => Op::Pending,
        Record::Turn(_) | Record::CallRequested(_) | Record::Proposal(_) => Op::Retracted,
        Record::CallDone(done) => match done.status {
            ToolStatus::Completed => Op::Completed,
            ToolStatus::Failed => Op::Failed,
        },
        Record::ProposalStep(step) => match step.status {
            ProposalStatus::Pending => Op::Pending,
            ProposalStatus::Approved => Op::Approved,
            ProposalStatus::Denied => Op::Denied,
            ProposalStatus::Applied => Op::Applied,
            ProposalStatus::Reverted => Op::Reverted,
        },
        Record::Conversation(_) => Op::Created,
        Record::ConversationUpdated(_) => Op::Updated,
        Record::Message(_) | Record::History(_) => Op::Added,
        Record::Event(_) => Op::Logged,
        Record::InboxTask(_) => Op::Queued,
        Record::InboxStep(step) => match step.status {
            TaskStatus::Queued => Op::Queued,
            TaskStatus::InProgress => Op::InProgress,
            TaskStatus::Done => Op::Done,
            TaskStatus::Failed => Op::Failed,
        },
        Record::Thought(_) => Op::Recorded,
    }
}

/// The altered line under a new checksum, with its sequence number: its record in canonical form,
/// then the members that no record has, as they stood. `None` if it holds no record that could
/// have been written, or a sequence number that is not among those `believable`.
pub(crate) fn restamp(
    kind: Kind,
    line: &[u8],
    believable: RangeInclusive<u64>,
) -> Option<(u64, Vec<u8>)> {
    let decoded = decode(kind, line).ok()?;
    let seq = decoded.seq.filter(|seq| believable.contains(seq))?;
    let record = decoded.record;
    if record.missing().is_some() {
        return None;
    }
    // Steps are stored with what the log filled in, which the check of input takes out.
    record.clone().checked().ok()?;
    let members: Members<'_> = serde_json::from_slice(line).ok()?;
    let member = |wanted: &str| {
        let mut found = members.0.iter().filter(|(name, _)| name == wanted);
        found.next().map(|(_, value)| value.get())
    };
    let parent_id = member("parent_id").and_then(|json| serde_json::from_str(json).ok());

    let mut out = Vec::with_capacity(line.len() + TAIL_LEN + 1);
    let mut writer = LineWriter { out: &mut out };
    writer.begin(seq, record.at(), op_of(&record));
    writer.body(&record, parent_id).ok()?;
    for (name, value) in &members.0 {
        let is_known = ["seq", "at", "op", "crc"].contains(&&**name) || kind.has_field(name);
        if !is_known {
            writer.raw(name, value.get());
        }
    }
    writer.end(0);
    let is_good = matches!(classify(kind, out.strip_suffix(b"\n")?), Line::Good(_));
    (is_good && out.len() <= LINE_BYTES_MAX).then_some((seq, out))
}

/// An object's members in the order in which they stand.
pub(super) struct Members<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}

struct LineWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl LineWriter<'_> {
    fn begin(&mut self, seq: u64, at: i64, op: Op) {
        // Writing to a Vec cannot fail, here and below.
        let _ = write!(
            self.out,
            "{{\"seq\":{seq},\"at\":{at},\"op\":\"{}\"",
            op.as_str()
        );
    }

    /// The key's fields, what the record is found by, and the rest.
    fn body(&mut self, record: &Record, parent_id: Option<Uuid>) -> Result<()> {
        match record {
            Record::Turn(turn) => {
                self.uuid("id", &turn.id);
                self.opt_uuid("parent_id", turn.parent_id.as_ref());
                self.uuid("message_id", &turn.message_id);
                self.opt_uuid("thread_id", turn.thread_id.as_ref());
                self.text("kind", turn.kind.as_str());
                self.int("created_at", turn.created_at.at);
                self.text("content", &turn.content);
                Ok(())
            }
            Record::CallRequested(req) => self.request(req),
            Record::CallDone(done) => self.outcome(done, parent_id),
            Record::Proposal(proposal) => self.proposal(proposal),
            Record::ProposalStep(step) => {
                self.proposal_step(step);
                Ok(())
            }
            // The fields of these types stand in canonical order.
            Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
                self.members(conversation)
            }
            Record::Message(message) => self.members(message),
            Record::Event(event) => self.members(event),
            Record::History(entry) => self.members(entry),
            Record::Thought(thought) => self.members(thought),
            Record::InboxTask(task) => self.task(task),
            Record::InboxStep(step) => {
                self.task_step(step);
                Ok(())
            }
        }
    }

    fn request(&mut self, req: &ToolCallReq) -> Result<()> {
        self.uuid("request_id", &req.request_id);
        self.text("call_id", &req.call_id);
        self.uuid("parent_id", &req.parent_id);
        self.text("vendor", &req.vendor);
        self.text("tool_name", &req.tool_name);
        self.int("started_at", req.started_at.at);
        self.text("args_sha256", &req.args_sha256);
        self.opt_json("arguments_json", req.arguments_json.as_deref())
    }

    fn outcome(&mut self, done: &ToolCallDone, parent_id: Option<Uuid>) -> Result<()> {
        self.uuid("request_id", &done.request_id);
        self.text("call_id", &done.call_id);
        self.opt_uuid("parent_id", parent_id.as_ref());
        self.int("ended_at", done.ended_at.at);
        self.int("latency_ms", done.latency_ms);
        self.opt_text("error_kind", done.error_kind.as_deref());
        self.opt_text("error_msg", done.error_msg.as_deref());
        self.opt_json("outcome_json", done.outcome_json.as_deref())
    }

    fn proposal(&mut self, proposal: &CodeEditProposal) -> Result<()> {
        self.uuid("request_id", &proposal.request_id);
        self.int("created_at", proposal.created_at.at);
        if let Some(confidence) = proposal.confidence {
            self.name("confidence");
            let _ = serde_json::to_writer(&mut *self.out, &confidence);
        }
        self.opt_json("diffs_json", Some(&proposal.diffs_json))
    }

    fn proposal_step(&mut self, step: &ProposalStep) {
        let ProposalStep { status, at, .. } = *step;
        let is_decision = matches!(status, ProposalStatus::Approved | ProposalStatus::Denied);
        let own = |is_own: bool| is_own.then_some(at);
        self.uuid("request_id", &step.request_id);
        self.opt_int("decided_at", own(is_decision).or(step.decided_at));
        let is_applied = status == ProposalStatus::Applied;
        self.opt_int("applied_at", own(is_applied).or(step.applied_at));
        self.opt_text("commit_hash", step.commit_hash.as_deref());
    }

    fn task(&mut self, task: &InboxTask) -> Result<()> {
        self.int("id", task.id);
        self.int("update_id", task.update_id);
        self.int("created_at", task.created_at);
        self.opt_json("payload", task.payload.as_deref())
    }

    fn task_step(&mut self, step: &InboxStep) {
        self.int("id", step.id);
        self.int("attempts", step.attempt);
        let is_claim = step.status == TaskStatus::InProgress;
        self.opt_int("locked_at", is_claim.then_some(step.at));
        self.opt_text("error", step.error.as_deref());
    }

    /// All fields of a record, as it serializes itself.
    fn members(&mut self, record: &impl Serialize) -> Result<()> {
        let start = self.out.len();
        serde_json::to_writer(&mut *self.out, record).map_err(|e| Error::invalid(e.to_string()))?;
        // An object of at least one member: its braces give way to the line's own.
        self.out[start] = b',';
        self.out.pop();
        Ok(())
    }

    fn name(&mut self, name: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        let _ = serde_json::to_writer(&mut *self.out, value);
    }

    fn opt_text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn uuid(&mut self, name: &str, id: &Uuid) {
        let mut text = Uuid::encode_buffer();
        let text = id.hyphenated().encode_lower(&mut text);
        self.name(name);
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }

    fn opt_uuid(&mut self, name: &str, id: Option<&Uuid>) {
        if let Some(id) = id {
            self.uuid(name, id);
        }
    }

    fn int(&mut self, name: &str, value: i64) {
        self.name(name);
        let _ = write!(self.out, "{value}");
    }

    fn opt_int(&mut self, name: &str, value: Option<i64>) {
        if let Some(value) = value {
            self.int(name, value);
        }
    }

    fn opt_json(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        match form(name, value)? {
            Form::Nested => self.raw(name, value),
            Form::Text => self.text(name, value),
        }
        Ok(())
    }

    fn raw(&mut self, name: &str, json: &str) {
        self.out.push(b',');
        let _ = serde_json::to_writer(&mut *self.out, name);
        self.out.push(b':');
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Seals the line that starts at `start` with its checksum and LF.
    fn end(&mut self, start: usize) {
        let crc = crc32fast::hash(&self.out[start..]);
        self.out.extend_from_slice(TAIL_START);
        let _ = writeln!(self.out, "{crc:08x}\"}}");
    }
}

/// The texts of any length that a record has, with their lengths.
fn texts(record: &Record) -> Vec<(&'static str, usize)> {
    let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match record {
        Record::Turn(turn) => vec![("content", turn.content.len())],
        Record::CallRequested(req) => vec![("arguments_json", len(&req.arguments_json))],
        Record::CallDone(done) => vec![
            ("outcome_json", len(&done.outcome_json)),
            ("error_msg", len(&done.error_msg)),
            ("error_kind", len(&done.error_kind)),
        ],
        Record::Proposal(proposal) => vec![("diffs_json", proposal.diffs_json.len())],
        Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
            vec![("last_error", len(&conversation.last_error))]
        }
        Record::Message(message) => vec![
            ("content", message.content.len()),
            ("tool_args", len(&message.tool_args)),
            ("tool_result", len(&message.tool_result)),
            ("inference_metadata", len(&message.inference_metadata)),
            ("error", len(&message.error)),
            (
                "models_in_chain",
                message
                    .models_in_chain
                    .iter()
                    .flatten()
                    .map(String::len)
                    .sum(),
            ),
        ],
        Record::Event(event) => vec![("payload", len(&event.payload))],
        Record::InboxTask(task) => vec![("payload", len(&task.payload))],
        Record::InboxStep(step) => vec![("error", len(&step.error))],
        Record::History(entry) => vec![("content", entry.content.len())],
        Record::Thought(thought) => vec![("content", thought.content.len())],
        Record::ProposalStep(_) => Vec::new(),
    }
}

/// The bytes of a record's texts of any length.
pub(crate) fn text_len(record: &Record) -> usize {
    texts(record).iter().map(|(_, len)| len).sum()
}

fn largest_field(record: &Record) -> String {
    let largest = texts(record).into_iter().max_by_key(|(_, len)| *len);
    largest.map_or_else(String::new, |(name, len)| format!("{name} has {len}"))
}
