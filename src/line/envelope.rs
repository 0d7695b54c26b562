//! The fast path of a scan: what the index needs of a canonical line, without parsing its JSON.

use std::borrow::Cow;

use uuid::Uuid;

use super::cursor::{Cursor, Unsure};
use super::encode::op_of;
use super::{Op, member};
use crate::record::{
    Conversation, ConversationMessage, ConversationStatus, Kind, Record, Role, group_key,
};

/// The most fields that a kind's records are found by.
pub(crate) const LOOKUPS_MAX: usize = 6;

/// What is in front of a line: enough to index it.
#[derive(Debug, Clone)]
pub(crate) struct Envelope<'a> {
    pub seq: u64,
    pub at: i64,
    pub op: Op,
    /// The parts of the record's key; unused ones are empty.
    pub key: [Value<'a>; 2],
    /// What the record is found by, in the order that [`Kind::lookups`] names.
    pub lookups: [Option<Value<'a>>; LOOKUPS_MAX],
    /// What the records of some kinds are ordered by: an id that the log gave, a message's
    /// sequence; else the time.
    pub number: i64,
    measured: Measured<'a>,
}

/// A part of a key, or what a record is found by.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    /// UTF-8.
    Text(&'a [u8]),
    /// A text whose line has escapes.
    Unescaped(String),
    Uuid(Uuid),
    Integer(i64),
}

impl Value<'_> {
    /// The longest of those that are no text yet.
    pub(crate) const BYTES: usize = 36;

    pub(crate) const EMPTY: Value<'static> = Value::Text(b"");

    /// The value as a line has it, in UTF-8; `buffer` holds it if it is no text yet.
    pub(crate) fn text<'b>(&'b self, buffer: &'b mut [u8; Value::BYTES]) -> &'b [u8] {
        match self {
            Value::Text(text) => text,
            Value::Unescaped(text) => text.as_bytes(),
            Value::Uuid(id) => id.hyphenated().encode_lower(buffer).as_bytes(),
            Value::Integer(number) => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(*number).as_bytes();
                // The longest has 20 bytes.
                let (start, _) = buffer.split_at_mut(digits.len());
                start.copy_from_slice(digits);
                start
            }
        }
    }

    /// The number that it is or says.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            Value::Unescaped(text) => text.parse().ok(),
            Value::Uuid(_) => None,
            Value::Integer(number) => Some(*number),
        }
    }
}

/// What a message's measures and a conversation's status are taken from, once they are asked for.
#[derive(Debug, Clone, Copy)]
enum Measured<'a> {
    /// Neither.
    None,
    /// What follows the lookups of a message.
    Line(Cursor<'a>),
    Message(&'a ConversationMessage),
    /// What follows those of a conversation.
    Said(Cursor<'a>),
    Status(ConversationStatus),
}

/// What a message adds to the sums of its conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Measures<'a> {
    pub model_used: Option<Cow<'a, str>>,
    pub config_used: Option<Cow<'a, str>>,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub latency_ms: u64,
    pub is_error: bool,
    /// `None` if it is none that there is.
    pub role: Option<Role>,
    /// It has a task type.
    pub has_task_type: bool,
}

/// Reads the envelope of a canonical line; `None` if it is not in canonical form.
pub(crate) fn parse(kind: Kind, line: &[u8]) -> Option<Envelope<'_>> {
    let mut line = Cursor::new(line);
    let (seq, at, op) = line.head(kind).ok()?;
    let mut key = [Value::EMPTY; 2];
    let mut lookups = [const { None }; LOOKUPS_MAX];
    match kind {
        Kind::ToolCalls => {
            key[0] = line.need(member!("request_id"), Cursor::value).ok()?;
            key[1] = line.need(member!("call_id"), Cursor::value).ok()?;
        }
        Kind::CodeEditProposals => {
            key[0] = line.need(member!("request_id"), Cursor::value).ok()?;
        }
        Kind::Rollups => {
            key[0] = line.need(member!("day"), Cursor::value).ok()?;
            key[1] = Value::Unescaped(take_group(&mut line)?);
        }
        _ => key[0] = line.need(member!("id"), Cursor::value).ok()?,
    }
    // One that reads as nothing is not there; nor are those after it.
    let mut lookup = |place: usize, member| {
        lookups[place] = line.may(member, Cursor::value).ok().flatten();
    };
    match kind {
        Kind::ConversationTurns => {
            lookup(0, member!("parent_id"));
            lookup(1, member!("message_id"));
            lookup(2, member!("thread_id"));
        }
        Kind::ToolCalls => {
            lookup(0, member!("parent_id"));
            lookup(1, member!("vendor"));
            lookup(2, member!("tool_name"));
        }
        Kind::CodeEditProposals | Kind::Rollups => {}
        Kind::Conversations => {
            lookup(0, member!("workspace"));
            lookup(1, member!("project"));
            lookup(2, member!("client"));
            lookup(3, member!("user_id"));
            lookup(4, member!("session_id"));
            lookup(5, member!("parent_id"));
        }
        Kind::Messages => {
            lookup(0, member!("conversation_id"));
            lookup(1, member!("sequence"));
        }
        Kind::Events => {
            lookup(0, member!("parent_id"));
            lookup(1, member!("event_type"));
        }
        Kind::Inbox => lookup(0, member!("update_id")),
        Kind::History => lookup(0, member!("chat_id")),
        Kind::ThoughtRecords => {
            lookup(0, member!("task_id"));
            lookup(1, member!("prev_hash"));
            lookup(2, member!("hash"));
        }
    }
    let number = match kind {
        Kind::Messages => lookups[1].as_ref()?.integer()?,
        Kind::Events | Kind::Inbox | Kind::History => key[0].integer()?,
        Kind::ThoughtRecords => seq.try_into().ok()?,
        _ => at,
    };
    let measured = match kind {
        Kind::Messages => Measured::Line(line),
        Kind::Conversations => Measured::Said(line),
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

impl<'a> Envelope<'a> {
    /// The envelope that `record` would have as line `seq`: what [`parse`] reads of it once written.
    pub(crate) fn of(record: &'a Record, seq: u64) -> Envelope<'a> {
        let at = record.at();
        let mut envelope = Envelope {
            seq,
            at,
            op: op_of(record),
            key: [Value::EMPTY; 2],
            lookups: [const { None }; LOOKUPS_MAX],
            number: at,
            measured: Measured::None,
        };
        let Envelope { key, lookups, .. } = &mut envelope;
        match record {
            Record::Turn(turn) => {
                key[0] = uuid(&turn.id);
                lookups[0] = turn.parent_id.as_ref().map(uuid);
                lookups[1] = Some(uuid(&turn.message_id));
                lookups[2] = turn.thread_id.as_ref().map(uuid);
            }
            Record::CallRequested(req) => {
                *key = [uuid(&req.request_id), text(&req.call_id)];
                lookups[0] = Some(uuid(&req.parent_id));
                lookups[1] = Some(text(&req.vendor));
                lookups[2] = Some(text(&req.tool_name));
            }
            Record::CallDone(done) => *key = [uuid(&done.request_id), text(&done.call_id)],
            Record::Proposal(proposal) => key[0] = uuid(&proposal.request_id),
            Record::ProposalStep(step) => key[0] = uuid(&step.request_id),
            Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
                key[0] = uuid(&conversation.id);
                *lookups = conversation_lookups(conversation);
                envelope.measured = Measured::Status(conversation.status);
            }
            Record::Message(message) => {
                let sequence = message.sequence.unwrap_or(-1);
                key[0] = uuid(&message.id);
                lookups[0] = Some(uuid(&message.conversation_id));
                lookups[1] = Some(Value::Integer(sequence));
                envelope.number = sequence;
                envelope.measured = Measured::Message(message);
            }
            Record::Event(event) => {
                key[0] = Value::Integer(event.id);
                lookups[0] = event.parent_id.map(Value::Integer);
                lookups[1] = Some(text(&event.event_type));
                envelope.number = event.id;
            }
            Record::InboxTask(task) => {
                key[0] = Value::Integer(task.id);
                lookups[0] = Some(Value::Integer(task.update_id));
                envelope.number = task.id;
            }
            Record::InboxStep(step) => {
                key[0] = Value::Integer(step.id);
                envelope.number = step.id;
            }
            Record::History(entry) => {
                key[0] = Value::Integer(entry.id);
                lookups[0] = Some(Value::Integer(entry.chat_id));
                envelope.number = entry.id;
            }
            Record::Thought(thought) => {
                key[0] = text(&thought.id);
                lookups[0] = Some(text(&thought.task_id));
                lookups[1] = Some(text(&thought.prev_hash));
                lookups[2] = Some(text(&thought.hash));
                envelope.number = i64::try_from(seq).unwrap_or(i64::MAX);
            }
            Record::Rollup(rollup) => {
                key[0] = Value::Unescaped(rollup.day.to_string());
                key[1] = Value::Unescaped(rollup.group_key());
            }
        }
        envelope
    }

    /// Whether the index would take the same from both.
    pub(super) fn is_as(&self, other: &Envelope<'_>) -> bool {
        let same = |one: &Value<'_>, other: &Value<'_>| {
            one.text(&mut [0; Value::BYTES]) == other.text(&mut [0; Value::BYTES])
        };
        // A record of an outcome has none: its line repeats its request's parent.
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

    /// What a message adds to the sums of its conversation.
    pub(crate) fn measures(&self) -> Option<Measures<'a>> {
        match self.measured {
            Measured::None | Measured::Said(_) | Measured::Status(_) => None,
            Measured::Line(mut rest) => Some(take_measures(&mut rest)),
            Measured::Message(message) => Some(measures_of(message)),
        }
    }

    /// The status that a conversation's line says.
    pub(crate) fn status(&self) -> Option<ConversationStatus> {
        match self.measured {
            Measured::None | Measured::Line(_) | Measured::Message(_) => None,
            Measured::Said(mut rest) => Some(take_status(&mut rest).unwrap_or_default()),
            Measured::Status(status) => Some(status),
        }
    }
}

/// The group of a canonical line of a rollup, which stands after the day.
fn take_group(line: &mut Cursor<'_>) -> Option<String> {
    let names = [
        line.may(member!("model_used"), |line| line.string().ok_or(Unsure)),
        line.may(member!("config_used"), |line| line.string().ok_or(Unsure)),
        line.may(member!("orchestration_mode"), |line| {
            line.string().ok_or(Unsure)
        }),
        line.may(member!("task_type"), |line| line.string().ok_or(Unsure)),
    ];
    let [Ok(model), Ok(config), Ok(mode), Ok(task)] = &names else {
        return None;
    };
    let part = line.may(member!("part"), Cursor::digits).ok()?;
    let names = [model, config, mode, task].map(Option::as_deref);
    Some(group_key(names, part.unwrap_or(0)))
}

fn uuid(id: &Uuid) -> Value<'static> {
    Value::Uuid(*id)
}

fn text(text: &str) -> Value<'_> {
    Value::Text(text.as_bytes())
}

fn conversation_lookups(conversation: &Conversation) -> [Option<Value<'_>>; LOOKUPS_MAX] {
    [
        conversation.workspace.as_deref().map(text),
        conversation.project.as_deref().map(text),
        Some(text(conversation.client.as_str())),
        conversation.user_id.as_deref().map(text),
        conversation.session_id.as_deref().map(text),
        conversation.parent_id.as_ref().map(uuid),
    ]
}

fn measures_of(message: &ConversationMessage) -> Measures<'_> {
    let count = |number: Option<i64>| number.map_or(0, |n| u64::try_from(n).unwrap_or(0));
    Measures {
        model_used: message.model_used.as_deref().map(Cow::Borrowed),
        config_used: message.config_used.as_deref().map(Cow::Borrowed),
        tokens_in: count(message.tokens_in),
        tokens_out: count(message.tokens_out),
        latency_ms: count(message.latency_ms),
        is_error: message.error.is_some(),
        role: Some(message.role),
        has_task_type: message.task_type.is_some(),
    }
}

/// The status that stands in a canonical line of a conversation.
fn take_status(line: &mut Cursor<'_>) -> Option<ConversationStatus> {
    while let Some((name, value)) = line.scalar() {
        if name == b"status" {
            return Cursor::new(value).string()?.parse().ok();
        }
    }
    None
}

/// What a canonical line of a message says between what it is found by and its content.
fn take_measures<'a>(line: &mut Cursor<'a>) -> Measures<'a> {
    let mut measures = Measures::default();
    // Ends at the content, or at a value that is neither a string nor a number nor a word.
    while let Some((name, value)) = line.scalar().filter(|(name, _)| *name != b"content") {
        let mut value = Cursor::new(value);
        let count = |value: &mut Cursor<'_>| value.digits().unwrap_or(0);
        match name {
            b"model_used" => measures.model_used = value.string(),
            b"config_used" => measures.config_used = value.string(),
            b"tokens_in" => measures.tokens_in = count(&mut value),
            b"tokens_out" => measures.tokens_out = count(&mut value),
            b"latency_ms" => measures.latency_ms = count(&mut value),
            b"error" => measures.is_error = true,
            b"task_type" => measures.has_task_type = true,
            b"role" => {
                measures.role = value.string().and_then(|role| role.parse().ok());
            }
            _ => {}
        }
    }
    measures
}
