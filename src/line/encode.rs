//! Encodes records as lines.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::classify::{Line, classify};
use super::decode::decode;
use super::lengths::{largest_field, text_len};
use super::writer::LineWriter;
use super::{LINE_BYTES_MAX, Op, TAIL_LEN};
use crate::error::{Error, Result};
use crate::record::{Kind, ProposalStatus, Record, TaskStatus, ToolStatus};

/// Size of a typical line without its strings of variable length, in bytes.
const REST_BYTES: usize = 512;

/// Appends `record` to `out` as line `seq`, with its LF. `parent_id` is the call's parent. The line
/// of an outcome repeats it so that a grep for the parent finds it.
///
/// # Errors
/// An invalid payload, or a line longer than `line_bytes_max`; `out` is then unchanged.
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
    out.reserve(REST_BYTES + text_len);
    let mut line = LineWriter::new(out);
    line.begin(seq, record.at(), op_of(record));
    let written = line.body(record, parent_id);
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

/// The op of this record's line.
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
        Record::ConversationUpdated(_) => Op::Updated,
        Record::InboxStep(step) => match step.status {
            TaskStatus::Queued => Op::Queued,
            TaskStatus::InProgress => Op::InProgress,
            TaskStatus::Done => Op::Done,
            TaskStatus::Failed => Op::Failed,
        },
        _ => record.kind().first_op(),
    }
}

/// Rewrites an edited line with a new checksum and its sequence number: the record in canonical
/// form, then its unknown members unchanged. `None` if it holds no valid record, or a sequence
/// number outside `believable`.
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
    // Stored steps have members that the store filled in; the check of input drops them from the
    // copy.
    record.clone().checked().ok()?;
    let members: Members<'_> = serde_json::from_slice(line).ok()?;
    let member = |wanted: &str| {
        let mut found = members.0.iter().filter(|(name, _)| name == wanted);
        found.next().map(|(_, value)| value.get())
    };
    let parent_id = member("parent_id").and_then(|json| serde_json::from_str(json).ok());

    let mut out = Vec::with_capacity(line.len() + TAIL_LEN + 1);
    let mut writer = LineWriter::new(&mut out);
    writer.begin(seq, record.at(), op_of(&record));
    writer.body(&record, parent_id).ok()?;
    for (name, value) in &members.0 {
        let is_known = ["seq", "at", "op", "crc"].contains(&&**name) || kind.field(name).is_some();
        if !is_known {
            writer.raw(name, value.get());
        }
    }
    writer.end(0);
    let is_good = matches!(classify(kind, out.strip_suffix(b"\n")?), Line::Good(_));
    (is_good && out.len() <= LINE_BYTES_MAX).then_some((seq, out))
}

/// An object's members in their original order.
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
