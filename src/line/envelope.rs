//! The fast path: what the index needs of a canonical line, without parsing its JSON.

use std::borrow::Cow;

use uuid::Uuid;

use super::{LINE_START, Op};
use crate::record::{Conversation, ConversationMessage, Kind, Record};

/// The most fields that a kind's records are found by.
pub(crate) const LOOKUPS_MAX: usize = 5;

/// What is in front of a line: enough to index it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Envelope<'a> {
    pub seq: u64,
    pub at: i64,
    pub op: Op,
    /// The parts of the record's key; unused ones are empty.
    pub key: [Cow<'a, str>; 2],
    /// What the record is found by, in the order that [`Kind::lookups`] names.
    pub lookups: [Option<Cow<'a, str>>; LOOKUPS_MAX],
    /// What the records of some kinds are ordered by: an id that the log gave, a message's
    /// sequence; else the time.
    pub number: i64,
    /// Of a message. Boxed: envelopes are moved about, and few have any.
    pub measures: Option<Box<Measures<'a>>>,
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
}

/// Reads the envelope of a canonical line; `None` if it is not in canonical form.
pub(crate) fn parse(kind: Kind, line: &[u8]) -> Option<Envelope<'_>> {
    let mut rest = line;
    let (seq, at, op) = take_head(kind, &mut rest)?;
    let mut key = [const { Cow::Borrowed("") }; 2];
    for (part, name) in key.iter_mut().zip(kind.key_fields()) {
        *part = take_field(&mut rest, name)?;
    }
    let mut lookups = [const { None }; LOOKUPS_MAX];
    for (value, name) in lookups.iter_mut().zip(kind.lookups()) {
        *value = take_field(&mut rest, name);
    }
    let number = match kind {
        Kind::Messages => lookups[1].as_ref()?.parse().ok()?,
        Kind::Events | Kind::Inbox | Kind::History => key[0].parse().ok()?,
        Kind::ThoughtRecords => seq.try_into().ok()?,
        _ => at,
    };
    let measures = (kind == Kind::Messages).then(|| Box::new(take_measures(rest)));
    Some(Envelope {
        seq,
        at,
        op,
        key,
        lookups,
        number,
        measures,
    })
}

/// The three fields that every canonical line begins with.
pub(super) fn take_head(kind: Kind, rest: &mut &[u8]) -> Option<(u64, i64, Op)> {
    *rest = rest.strip_prefix(LINE_START)?;
    let seq = take_int::<u64>(rest).filter(|seq| *seq > 0)?;
    *rest = rest.strip_prefix(b",\"at\":")?;
    let at = take_int(rest)?;
    *rest = rest.strip_prefix(b",\"op\":")?;
    let op = kind.op(&take_string(rest)?)?;
    Some((seq, at, op))
}

/// The envelope that `record` would have as line `seq`: what [`parse`] reads of it once written.
pub(crate) fn of(record: &Record, op: Op, seq: u64) -> Envelope<'_> {
    let at = record.at();
    let mut envelope = Envelope {
        seq,
        at,
        op,
        key: [const { Cow::Borrowed("") }; 2],
        lookups: [const { None }; LOOKUPS_MAX],
        number: at,
        measures: None,
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
        }
        Record::Message(message) => {
            let sequence = message.sequence.unwrap_or(-1);
            key[0] = uuid(&message.id);
            lookups[0] = Some(uuid(&message.conversation_id));
            lookups[1] = Some(int(sequence));
            envelope.number = sequence;
            envelope.measures = Some(Box::new(measures_of(message)));
        }
        Record::Event(event) => {
            key[0] = int(event.id);
            lookups[0] = event.parent_id.map(int);
            lookups[1] = Some(text(&event.event_type));
            envelope.number = event.id;
        }
        Record::InboxTask(task) => {
            key[0] = int(task.id);
            lookups[0] = Some(int(task.update_id));
            envelope.number = task.id;
        }
        Record::InboxStep(step) => {
            key[0] = int(step.id);
            envelope.number = step.id;
        }
        Record::History(entry) => {
            key[0] = int(entry.id);
            lookups[0] = Some(int(entry.chat_id));
            envelope.number = entry.id;
        }
        Record::Thought(thought) => {
            key[0] = text(&thought.id);
            lookups[0] = Some(text(&thought.task_id));
            lookups[1] = Some(text(&thought.prev_hash));
            lookups[2] = Some(text(&thought.hash));
            envelope.number = i64::try_from(seq).unwrap_or(i64::MAX);
        }
    }
    envelope
}

fn uuid(id: &Uuid) -> Cow<'static, str> {
    Cow::Owned(id.to_string())
}

fn text(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

fn int(number: i64) -> Cow<'static, str> {
    Cow::Owned(number.to_string())
}

fn conversation_lookups(conversation: &Conversation) -> [Option<Cow<'_, str>>; LOOKUPS_MAX] {
    [
        conversation.workspace.as_deref(),
        conversation.project.as_deref(),
        Some(conversation.client.as_str()),
        conversation.user_id.as_deref(),
        conversation.session_id.as_deref(),
    ]
    .map(|value| value.map(text))
}

fn measures_of(message: &ConversationMessage) -> Measures<'_> {
    let count = |number: Option<i64>| number.map_or(0, |n| u64::try_from(n).unwrap_or(0));
    Measures {
        model_used: message.model_used.as_deref().map(text),
        config_used: message.config_used.as_deref().map(text),
        tokens_in: count(message.tokens_in),
        tokens_out: count(message.tokens_out),
        latency_ms: count(message.latency_ms),
        is_error: message.error.is_some(),
    }
}

/// What a canonical line of a message says between what it is found by and its content.
fn take_measures(mut rest: &[u8]) -> Measures<'_> {
    let mut measures = Measures::default();
    // Ends at the content, or at a value that is none of these.
    while let Some((name, value)) = take_scalar(&mut rest).filter(|(name, _)| *name != b"content") {
        let text = |mut value| take_string(&mut value);
        let count = |mut value| take_int::<u64>(&mut value).unwrap_or(0);
        match name {
            b"model_used" => measures.model_used = text(value),
            b"config_used" => measures.config_used = text(value),
            b"tokens_in" => measures.tokens_in = count(value),
            b"tokens_out" => measures.tokens_out = count(value),
            b"latency_ms" => measures.latency_ms = count(value),
            b"error" => measures.is_error = true,
            _ => {}
        }
    }
    measures
}

/// The next member, if its value is a string, a number or a word.
fn take_scalar<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let member = rest.strip_prefix(b",\"")?;
    let (name, value) = member.split_at_checked(memchr::memchr(b'"', member)?)?;
    let value = value.strip_prefix(b"\":")?;
    let len = match value.first()? {
        b'"' => {
            let mut from = 1;
            loop {
                let stop = from + memchr::memchr2(b'"', b'\\', value.get(from..)?)?;
                if value[stop] == b'"' {
                    break stop + 1;
                }
                from = stop + 2;
            }
        }
        b'[' | b'{' => return None,
        _ => memchr::memchr(b',', value)?,
    };
    let (value, after) = value.split_at_checked(len)?;
    *rest = after;
    Some((name, value))
}

fn take_int<T: std::str::FromStr>(rest: &mut &[u8]) -> Option<T> {
    let (number, after) = rest.split_at(int_len(rest));
    *rest = after;
    std::str::from_utf8(number).ok()?.parse().ok()
}

fn int_len(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|b| b.is_ascii_digit() || **b == b'-')
        .count()
}

/// The value of a field that is a string or an integer.
fn take_field<'a>(rest: &mut &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    let mut ahead = rest
        .strip_prefix(b",\"")?
        .strip_prefix(name.as_bytes())?
        .strip_prefix(b"\":")?;
    let value = if ahead.first() == Some(&b'"') {
        take_string(&mut ahead)?
    } else {
        let (number, after) = ahead.split_at(int_len(ahead));
        ahead = after;
        let number = std::str::from_utf8(number).ok()?;
        number.parse::<i64>().ok()?;
        Cow::Borrowed(number)
    };
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
