//! The fast path of a scan: reads what the index needs of a canonical line, without parsing its
//! JSON.

use std::borrow::Cow;

use super::cursor::Cursor;
use super::encode::op_of;
use super::{Op, member};
use crate::record::declare::{Field, Fields, Found, LookupReader};
use crate::record::of_kind;
use crate::record::{
    ConversationMessage, ConversationStatus, Event, HistoryEntry, InboxStep, InboxTask, Kind,
    Record, Role, each_type, group_key, nano_usd,
};

pub(crate) use crate::record::declare::{LOOKUPS_MAX, Value};

/// The first members of a line: enough to index it.
#[derive(Debug, Clone)]
pub(crate) struct Envelope<'a> {
    pub seq: u64,
    pub at: i64,
    pub op: Op,
    /// The parts of the record's key; unused ones are empty.
    pub key: [Value<'a>; 2],
    /// The values of the lookup fields, in the order of their declaration.
    pub lookups: [Option<Value<'a>>; LOOKUPS_MAX],
    /// The number that records of some kinds are ordered by: an id that the store assigned, or a
    /// message's sequence; else the time.
    pub number: i64,
    measured: Measured<'a>,
}

/// The source of a message's measures or a conversation's status. It is evaluated only on demand.
#[derive(Debug, Clone, Copy)]
enum Measured<'a> {
    /// No measures and no status.
    None,
    /// The rest of a message's line after its lookup fields.
    Line(Cursor<'a>),
    Message(&'a ConversationMessage),
    /// The rest of a conversation's line after its lookup fields.
    Said(Cursor<'a>),
    Status(ConversationStatus),
}

/// The contribution of a message to the totals of its conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Measures<'a> {
    pub model_used: Option<Cow<'a, str>>,
    pub config_used: Option<Cow<'a, str>>,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub latency_ms: u64,
    /// As [`nano_usd`].
    pub cost_nano_usd: Option<u64>,
    pub is_error: bool,
    /// As [`ConversationMessage::is_failure`].
    pub is_failure: bool,
    /// `None` if the role is unknown.
    pub role: Option<Role>,
    /// Whether it has a task type.
    pub has_task_type: bool,
}

/// Reads the envelope of a canonical line; `None` if it is not in canonical form.
pub(crate) fn parse(kind: Kind, line: &[u8]) -> Option<Envelope<'_>> {
    let mut line = Cursor::new(line);
    let (seq, at, op) = line.head(kind)?;
    let line = &mut line;
    let found = of_kind!(kind, Type => Type::read_found(line));
    let Found { mut key, lookups } = found?;
    if kind == Kind::Rollups {
        key[1] = Value::Unescaped(take_group(line)?);
    }
    let number = match kind {
        Kind::Messages => lookups[1].as_ref()?.integer()?,
        Kind::Events | Kind::Inbox | Kind::History => key[0].integer()?,
        Kind::ThoughtRecords => seq.try_into().ok()?,
        _ => at,
    };
    let measured = match kind {
        Kind::Messages => Measured::Line(*line),
        Kind::Conversations => Measured::Said(*line),
        _ => Measured::None,
    };
    Some(Envelope {
        seq,
        at,
        op,
        key,
        lookups,
        number,
        measured,
    })
}

impl<'a> LookupReader<'a> for Cursor<'a> {
    #[inline(always)]
    #[allow(clippy::inline_always)] // The field is constant where it is inlined.
    fn key(&mut self, field: &'static Field) -> Option<Value<'a>> {
        self.need(field.member, Cursor::value)
    }

    // A value that cannot be read counts as absent, and so do the lookups after it.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn lookup(&mut self, field: &'static Field) -> Option<Value<'a>> {
        self.may(field.member, Cursor::value).flatten()
    }
}

impl<'a> Envelope<'a> {
    /// The envelope that `record` would have as line `seq`: the same that [`parse`] reads from that
    /// line.
    pub(crate) fn of(record: &'a Record, seq: u64) -> Envelope<'a> {
        let at = record.at();
        let Found { mut key, lookups } = each_type!(record, it => it.found());
        let (mut number, mut measured) = (at, Measured::None);
        match record {
            Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
                measured = Measured::Status(conversation.status);
            }
            Record::Message(message) => {
                number = message.sequence.unwrap_or(-1);
                measured = Measured::Message(message);
            }
            Record::Event(Event { id, .. })
            | Record::InboxTask(InboxTask { id, .. })
            | Record::InboxStep(InboxStep { id, .. })
            | Record::History(HistoryEntry { id, .. }) => number = *id,
            Record::Thought(_) => number = i64::try_from(seq).unwrap_or(i64::MAX),
            Record::Rollup(rollup) => key[1] = Value::Unescaped(rollup.group_key()),
            _ => {}
        }
        Envelope {
            seq,
            at,
            op: op_of(record),
            key,
            lookups,
            number,
            measured,
        }
    }

    /// Whether the line's key has these parts. The index has only hashes of keys.
    pub(crate) fn has_key(&self, parts: [&str; 2]) -> bool {
        let mut both = self.key.iter().zip(parts);
        both.all(|(part, given)| part.text(&mut [0; Value::BYTES]) == given.as_bytes())
    }

    /// Whether both would give the same index entry.
    pub(super) fn is_as(&self, other: &Envelope<'_>) -> bool {
        let same = |one: &Value<'_>, other: &Value<'_>| {
            one.text(&mut [0; Value::BYTES]) == other.text(&mut [0; Value::BYTES])
        };
        // The record of an outcome has no parent: its line repeats that of the request.
        let is_outcome = matches!(self.op, Op::Completed | Op::Failed);
        let mut lookups = self.lookups.iter().zip(&other.lookups);
        let head = |envelope: &Envelope<'_>| (envelope.at, envelope.op, envelope.number);
        head(self) == head(other)
            && self.key.iter().zip(&other.key).all(|(a, b)| same(a, b))
            && (is_outcome
                || lookups.all(|pair| match pair {
                    (Some(a), Some(b)) => same(a, b),
                    (None, None) => true,
                    _ => false,
                }))
            && self.measures() == other.measures()
            && self.status() == other.status()
    }

    /// The contribution of a message to the totals of its conversation.
    pub(crate) fn measures(&self) -> Option<Measures<'a>> {
        match self.measured {
            Measured::None | Measured::Said(_) | Measured::Status(_) => None,
            Measured::Line(mut rest) => Some(take_measures(&mut rest)),
            Measured::Message(message) => Some(measures_of(message)),
        }
    }

    /// The status in a conversation's line.
    pub(crate) fn status(&self) -> Option<ConversationStatus> {
        match self.measured {
            Measured::None | Measured::Line(_) | Measured::Message(_) => None,
            Measured::Said(mut rest) => Some(take_status(&mut rest).unwrap_or_default()),
            Measured::Status(status) => Some(status),
        }
    }
}

/// The group in a canonical line of a rollup, which follows the day.
fn take_group(line: &mut Cursor<'_>) -> Option<String> {
    let names = [
        line.may(member!("model_used"), Cursor::string)?,
        line.may(member!("config_used"), Cursor::string)?,
        line.may(member!("orchestration_mode"), Cursor::string)?,
        line.may(member!("task_type"), Cursor::string)?,
    ];
    let part = line.may(member!("part"), Cursor::digits)?;
    let names = names.each_ref().map(Option::as_deref);
    Some(group_key(names, part.unwrap_or(0)))
}

fn measures_of(message: &ConversationMessage) -> Measures<'_> {
    let count = |number: Option<i64>| number.map_or(0, |n| u64::try_from(n).unwrap_or(0));
    Measures {
        model_used: message.model_used.as_deref().map(Cow::Borrowed),
        config_used: message.config_used.as_deref().map(Cow::Borrowed),
        tokens_in: count(message.tokens_in),
        tokens_out: count(message.tokens_out),
        latency_ms: count(message.latency_ms),
        cost_nano_usd: message.cost_usd.and_then(nano_usd),
        is_error: message.error.is_some(),
        is_failure: message.is_failure(),
        role: Some(message.role),
        has_task_type: message.task_type.is_some(),
    }
}

/// The status in a canonical line of a conversation.
fn take_status(line: &mut Cursor<'_>) -> Option<ConversationStatus> {
    while let Some((name, value)) = line.scalar() {
        if name == b"status" {
            return Cursor::new(value).string()?.parse().ok();
        }
    }
    None
}

/// The measures in a canonical line of a message, between its lookup fields and its content.
fn take_measures<'a>(line: &mut Cursor<'a>) -> Measures<'a> {
    let mut measures = Measures::default();
    // Stops at the content, or at a value that is not a string, a number or a literal.
    while let Some((name, value)) = line.scalar().filter(|(name, _)| *name != b"content") {
        let mut value = Cursor::new(value);
        let count = |value: &mut Cursor<'_>| value.digits().unwrap_or(0);
        match name {
            b"model_used" => measures.model_used = value.string(),
            b"config_used" => measures.config_used = value.string(),
            b"tokens_in" => measures.tokens_in = count(&mut value),
            b"tokens_out" => measures.tokens_out = count(&mut value),
            b"latency_ms" => measures.latency_ms = count(&mut value),
            b"cost_usd" => measures.cost_nano_usd = value.fraction().and_then(nano_usd),
            b"error" => (measures.is_error, measures.is_failure) = (true, true),
            b"error_type" => measures.is_failure = true,
            b"task_type" => measures.has_task_type = true,
            b"role" => {
                measures.role = value.string().and_then(|role| role.parse().ok());
            }
            _ => {}
        }
    }
    measures
}
