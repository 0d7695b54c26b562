//! The fast path: what the index needs of a canonical line, without parsing its JSON.

use std::borrow::Cow;

use super::{LINE_START, Op};
use crate::record::{Kind, Record};

/// What is in front of a line: enough to index it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub seq: u64,
    pub at: i64,
    pub op: Op,
    /// The parts of the record's key; unused ones are empty.
    pub key: [Cow<'a, str>; 2],
    /// What the record is found by, in the order that [`Kind::lookups`] names.
    pub lookups: [Option<Cow<'a, str>>; 3],
}

impl Kind {
    /// The fields that make the key, in canonical order.
    pub(crate) fn key_fields(self) -> &'static [&'static str] {
        match self {
            Kind::ConversationTurns => &["id"],
            Kind::ToolCalls => &["request_id", "call_id"],
        }
    }

    /// The fields that records are found by, in canonical order.
    pub(crate) fn lookups(self) -> &'static [&'static str] {
        match self {
            Kind::ConversationTurns => &["parent_id", "message_id", "thread_id"],
            Kind::ToolCalls => &["parent_id", "vendor", "tool_name"],
        }
    }
}

/// Reads the envelope of a canonical line; `None` if it is not in canonical form.
pub(crate) fn parse(kind: Kind, line: &[u8]) -> Option<Envelope<'_>> {
    let mut rest = line.strip_prefix(LINE_START)?;
    let seq = take_int::<u64>(&mut rest).filter(|seq| *seq > 0)?;
    rest = rest.strip_prefix(b",\"at\":")?;
    let at = take_int(&mut rest)?;
    rest = rest.strip_prefix(b",\"op\":")?;
    let op = Op::from_word(&take_string(&mut rest)?)?;

    let mut key = [const { Cow::Borrowed("") }; 2];
    for (part, name) in key.iter_mut().zip(kind.key_fields()) {
        *part = take_field(&mut rest, name)?;
    }
    let mut lookups = [const { None }; 3];
    for (value, name) in lookups.iter_mut().zip(kind.lookups()) {
        *value = take_field(&mut rest, name);
    }
    Some(Envelope {
        seq,
        at,
        op,
        key,
        lookups,
    })
}

/// The envelope that `record` would have as line `seq`: what [`parse`] reads of it once written.
pub(crate) fn of(record: &Record, op: Op, seq: u64) -> Envelope<'_> {
    let uuid = |id: &uuid::Uuid| Cow::Owned(id.to_string());
    let text = |text| Cow::Borrowed(text);
    let (key, lookups) = match record {
        Record::Turn(turn) => (
            [uuid(&turn.id), text("")],
            [
                turn.parent_id.as_ref().map(uuid),
                Some(uuid(&turn.message_id)),
                turn.thread_id.as_ref().map(uuid),
            ],
        ),
        Record::CallRequested(req) => (
            [uuid(&req.request_id), text(&req.call_id)],
            [
                Some(uuid(&req.parent_id)),
                Some(text(&req.vendor)),
                Some(text(&req.tool_name)),
            ],
        ),
        Record::CallDone(done) => (
            [uuid(&done.request_id), text(&done.call_id)],
            [const { None }; 3],
        ),
    };
    Envelope {
        seq,
        at: record.at(),
        op,
        key,
        lookups,
    }
}

fn take_int<T: std::str::FromStr>(rest: &mut &[u8]) -> Option<T> {
    let digits = rest
        .iter()
        .take_while(|b| b.is_ascii_digit() || **b == b'-')
        .count();
    let (number, after) = rest.split_at(digits);
    *rest = after;
    std::str::from_utf8(number).ok()?.parse().ok()
}

fn take_field<'a>(rest: &mut &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    let mut ahead = rest
        .strip_prefix(b",\"")?
        .strip_prefix(name.as_bytes())?
        .strip_prefix(b"\":")?;
    let value = take_string(&mut ahead)?;
    *rest = ahead;
    Some(value)
}

fn take_string<'a>(rest: &mut &'a [u8]) -> Option<Cow<'a, str>> {
    let inner = rest.strip_prefix(b"\"")?;
    let stop = memchr::memchr2(b'"', b'\\', inner)?;
    if inner[stop] == b'"' {
        *rest = &inner[stop + 1..];
        return std::str::from_utf8(&inner[..stop]).ok().map(Cow::Borrowed);
    }
    // An escape: leave the decoding to the parser that knows them all.
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<String>();
    let value = values.next()?.ok()?;
    *rest = &rest[values.byte_offset()..];
    Some(Cow::Owned(value))
}
