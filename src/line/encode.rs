//! Records to lines.

use std::borrow::Cow;
use std::io::Write;
use std::ops::RangeInclusive;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::classify::{Line, classify};
use super::decode::decode;
use super::payload::{Form, form};
use super::{LINE_BYTES_MAX, Op, TAIL_LEN, TAIL_START};
use crate::error::{Error, Result};
use crate::record::{Kind, Record, ToolStatus};

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
    let written = match record {
        Record::Turn(turn) => {
            line.uuid("id", &turn.id);
            line.opt_uuid("parent_id", turn.parent_id.as_ref());
            line.uuid("message_id", &turn.message_id);
            line.opt_uuid("thread_id", turn.thread_id.as_ref());
            line.text("kind", turn.kind.as_str());
            line.int("created_at", turn.created_at.at);
            line.text("content", &turn.content);
            Ok(())
        }
        Record::CallRequested(req) => {
            line.uuid("request_id", &req.request_id);
            line.text("call_id", &req.call_id);
            line.uuid("parent_id", &req.parent_id);
            line.text("vendor", &req.vendor);
            line.text("tool_name", &req.tool_name);
            line.int("started_at", req.started_at.at);
            line.text("args_sha256", &req.args_sha256);
            line.opt_json("arguments_json", req.arguments_json.as_deref())
        }
        Record::CallDone(done) => {
            line.uuid("request_id", &done.request_id);
            line.text("call_id", &done.call_id);
            line.opt_uuid("parent_id", parent_id.as_ref());
            line.int("ended_at", done.ended_at.at);
            line.int("latency_ms", done.latency_ms);
            line.opt_text("error_kind", done.error_kind.as_deref());
            line.opt_text("error_msg", done.error_msg.as_deref());
            line.opt_json("outcome_json", done.outcome_json.as_deref())
        }
    };
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

/// What a line of this record asserts.
pub(super) fn op_of(record: &Record) -> Op {
    match record {
        Record::Turn(turn) if turn.created_at.is_valid => Op::Asserted,
        Record::CallRequested(req) if req.started_at.is_valid => Op::Requested,
        Record::Turn(_) | Record::CallRequested(_) => Op::Retracted,
        Record::CallDone(done) => match done.status {
            ToolStatus::Completed => Op::Completed,
            ToolStatus::Failed => Op::Failed,
        },
    }
}

/// The altered line under a new checksum, with its sequence number: its envelope and what it is found by in canonical form,
/// every other member after it as it stood. `None` if it holds no record that could have been
/// written, or a sequence number that is not among those `believable`.
pub(crate) fn restamp(
    kind: Kind,
    line: &[u8],
    believable: RangeInclusive<u64>,
) -> Option<(u64, Vec<u8>)> {
    let decoded = decode(kind, line).ok()?;
    decoded.record.clone().checked().ok()?;
    let envelope = decoded.envelope(decoded.seq.filter(|seq| believable.contains(seq))?);
    let members: Members<'_> = serde_json::from_slice(line).ok()?;

    let mut out = Vec::with_capacity(line.len() + TAIL_LEN + 1);
    let mut writer = LineWriter { out: &mut out };
    writer.begin(envelope.seq, envelope.at, envelope.op);
    let mut written = vec!["seq", "at", "op", "crc"];
    for (name, value) in kind.key_fields().iter().zip(&envelope.key) {
        writer.text(name, value);
        written.push(name);
    }
    for (name, value) in kind.lookups().iter().zip(&envelope.lookups) {
        if let Some(value) = value {
            writer.text(name, value);
            written.push(name);
        }
    }
    for (name, value) in members.0 {
        let value = value.get();
        let is_payload = ["arguments_json", "outcome_json"].contains(&&*name);
        if is_payload && value != "null" && !value.starts_with(['{', '[', '"']) {
            return None;
        }
        if value != "null" && !written.contains(&&*name) {
            writer.raw(&name, value);
        }
    }
    writer.end(0);
    let is_good = matches!(classify(kind, out.strip_suffix(b"\n")?), Line::Good(_));
    (is_good && out.len() <= LINE_BYTES_MAX).then_some((envelope.seq, out))
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

fn fields(record: &Record) -> Vec<(&'static str, usize)> {
    let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match record {
        Record::Turn(turn) => vec![("content", turn.content.len())],
        Record::CallRequested(req) => vec![("arguments_json", len(&req.arguments_json))],
        Record::CallDone(done) => vec![
            ("outcome_json", len(&done.outcome_json)),
            ("error_msg", len(&done.error_msg)),
            ("error_kind", len(&done.error_kind)),
        ],
    }
}

fn text_len(record: &Record) -> usize {
    fields(record).iter().map(|(_, len)| len).sum()
}

fn largest_field(record: &Record) -> String {
    let largest = fields(record).into_iter().max_by_key(|(_, len)| *len);
    largest.map_or_else(String::new, |(name, len)| format!("{name} has {len}"))
}
