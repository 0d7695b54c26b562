//! Records that other programs hand over as JSON, with the names that the files use.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Op;
use super::decode::decode;
use super::encode::Members;
use crate::error::{Error, Result};
use crate::record::declare::Class;
use crate::record::{
    Client, Content, ContentType, ConversationStatus, Day, IdHashes, Kind, MessageSums, Record,
    Role, Sketch, Source, ThoughtType, Timestamp, TurnKind, Validity, epoch_ms, has_lone_surrogate,
    now,
};

/// What a line of a file also has, or is shown with, and what is given anew.
const UNUSED: [&str; 3] = ["seq", "crc", "file"];

/// How much of what was given an error shows.
const SHOWN_BYTES_MAX: usize = 80;

type Member<'a> = (Cow<'a, str>, &'a RawValue);

impl Class {
    /// Checks one field by itself, so that an error can name it.
    pub(super) fn check(self, name: &str, json: &str) -> Result<()> {
        let checked = match self {
            Class::Uuid => is::<Uuid>(json),
            Class::TextId
            | Class::Name
            | Class::User
            | Class::DottedName
            | Class::Hash
            | Class::Label
            | Class::Title
            | Class::Content
            | Class::Said
            | Class::Output => is::<Cow<'_, str>>(json),
            Class::Names => is::<Vec<Cow<'_, str>>>(json),
            Class::Id
            | Class::Sequence
            | Class::Int
            | Class::Count
            | Class::Millis
            | Class::OwnMillis
            | Class::At
            | Class::Repeated => is::<i64>(json),
            Class::Sum | Class::SumIfAny => is::<u64>(json),
            Class::Counts => is::<BTreeMap<Cow<'_, str>, u64>>(json),
            Class::Sketch => is::<Sketch>(json),
            Class::Sums => is::<MessageSums>(json),
            Class::Hashes => is::<IdHashes>(json),
            Class::Day => is::<Day>(json),
            Class::Fraction | Class::FractionSum => is::<f64>(json),
            Class::Flag => is::<bool>(json),
            Class::Validity => is::<Validity>(json),
            Class::Instant | Class::OwnInstant => is::<Timestamp>(json),
            Class::Client => is::<Client>(json),
            Class::Word | Class::Op => check_word(name, json),
            Class::Arguments | Class::Payload | Class::Metadata if json.starts_with('"') => {
                is::<Cow<'_, str>>(json)
            }
            Class::Arguments | Class::Payload | Class::Metadata => is::<IgnoredAny>(json),
        };
        checked.map_err(|e| {
            if has_lone_surrogate(json.as_bytes()) {
                let message = format!("{name} holds a lone surrogate, which is no text");
                return Error::invalid(message).with_field(name);
            }
            let reason = e.to_string();
            // A reason may repeat what was given before it says what to give.
            let reason = if json.len() > SHOWN_BYTES_MAX {
                clipped(&reason)
            } else {
                readable(&reason)
            };
            Error::invalid(format!("{name} is {}: {reason}", clipped(json))).with_field(name)
        })
    }
}

/// The start of what was given: an error shows no more of it.
fn clipped(text: &str) -> &str {
    let mut end = SHOWN_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn is<'a, T: serde::Deserialize<'a>>(json: &'a str) -> serde_json::Result<()> {
    serde_json::from_str::<T>(json).map(drop)
}

fn check_word(name: &str, json: &str) -> serde_json::Result<()> {
    match name {
        "status" => is::<ConversationStatus>(json),
        "role" => is::<Role>(json),
        "source" => is::<Source>(json),
        "content_type" => is::<ContentType>(json),
        "type" => is::<ThoughtType>(json),
        _ => is::<Cow<'_, str>>(json),
    }
}

impl Record {
    /// Reads a record from one JSON object with the field names of the files and its `kind`, the
    /// stem of the files that hold it.
    ///
    /// A conversation turn has a field `kind` of its own. Give both, in either order, or the
    /// turn's alone (`"kind":"user"` says that it is a turn), or the turn's as `turn_kind`. A
    /// tool call says in `op` whether it is `requested`, `completed`, `failed` or `retracted`, may
    /// leave out its `kind` and, with arguments, their hash, which is then computed when it is
    /// recorded; the steps of a proposal and of a task of the inbox say in `op`
    /// what became of it, and that a proposal was `reverted` has its time as `at`. The envelope's
    /// `seq` and `crc` may be there and are not used, so a line of a file is good input too: its
    /// fields tell its kind.
    ///
    /// An event may call its `created_at` `timestamp`, and give it in RFC 3339, too. Messages,
    /// thoughts, events, tasks and entries of a history may leave out their id and
    /// their time, which is then now, and conversations their times. A conversation that the log
    /// has is given whole, with its `created_at`: what is left out is gone.
    ///
    /// ```
    /// use decklog::{Kind, Record};
    /// let turn = Record::from_json(
    ///     r#"{"kind":"conversation_turns","turn_kind":"user","content":"hi","created_at":1766832000123,
    ///         "id":"67e55044-10b1-426f-9247-bb680e5fe0c8",
    ///         "message_id":"67e55044-10b1-426f-9247-bb680e5fe0c8"}"#,
    /// )?;
    /// assert_eq!(turn.kind(), Kind::ConversationTurns);
    /// let event = Record::from_json(r#"{"kind":"events","event_type":"worker.spawned","parent_id":1}"#)?;
    /// assert_eq!(event.kind(), Kind::Events);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) that names the field at fault: no JSON
    /// object, an unknown kind, a field that is missing, unknown or of another type.
    pub fn from_json(text: &str) -> Result<Record> {
        let members: Members<'_> = serde_json::from_str(text)
            .map_err(|e| Error::invalid(format!("not a JSON object: {e}")))?;
        check_given_once(&members.0)?;
        // A null says that the field is not there.
        let members: Vec<Member<'_>> = members
            .0
            .into_iter()
            .filter(|(_, value)| value.get() != "null")
            .collect();
        let (kind, turn_kind) = kinds(&members)?;
        let moment = timestamp_of_event(kind, &members)?;
        let members: Vec<Member<'_>> = members
            .into_iter()
            .map(|member| match &moment {
                Some(moment) if member.0 == TIMESTAMP => ("created_at".into(), &**moment),
                _ => member,
            })
            .collect();
        let op = op(kind, &members)?;
        check_of_op(kind, op, &members)?;
        let mut line = String::with_capacity(text.len() + 64);
        for (name, value) in &members {
            let name: &str = name;
            let is_derived = kind == Kind::Conversations && DERIVED.contains(&name);
            if name == "kind" || name == "turn_kind" || is_derived || UNUSED.contains(&name) {
                continue;
            }
            let class = match name {
                "at" => Some(Class::At),
                "op" => Some(Class::Op),
                name => kind.field(name).map(|field| field.class),
            };
            let Some(class) = class else {
                let hint = if name == "status" && kind.ops().len() > 2 {
                    "say in op what becomes of the record".to_owned()
                } else {
                    let names: Vec<&str> = kind.fields().map(|field| field.name).collect();
                    format!("it has {}", names.join(", "))
                };
                let name = clipped(name);
                return Err(
                    Error::invalid(format!("{kind} has no field {name:?}: {hint}"))
                        .with_field(name),
                );
            };
            if kind == Kind::Messages && name == "content" && value.get().starts_with('[') {
                push_content(&mut line, value.get(), &members)?;
                continue;
            }
            class.check(name, value.get())?;
            push_member(&mut line, name, value.get());
        }
        check_times(kind, op, &members)?;
        if let Some(turn_kind) = turn_kind {
            push_member(&mut line, "kind", &format!("\"{}\"", turn_kind.as_str()));
        }
        for (name, json) in defaults(kind, op, &members)? {
            push_member(&mut line, name, &json);
        }
        line.push_str(if line.is_empty() { "{}" } else { "}" });
        let decoded = decode(kind, line.as_bytes())
            .map_err(|reason| Error::invalid(format!("{kind}: {}", readable(&reason.text))))?;
        Ok(decoded.record)
    }
}

/// Fields of a conversation that was read which are derived from its messages. They are ignored.
pub(crate) const DERIVED: [&str; 6] = [
    "message_count",
    "total_tokens_in",
    "total_tokens_out",
    "total_latency_ms",
    "models_used",
    "configs_used",
];

/// What an event may call its `created_at`, which may be a text then.
const TIMESTAMP: &str = "timestamp";

/// The `timestamp` of an event, in epoch milliseconds where it is a text that is a time.
fn timestamp_of_event(kind: Kind, members: &[Member<'_>]) -> Result<Option<Box<RawValue>>> {
    let Some(json) = member(members, TIMESTAMP).filter(|_| kind == Kind::Events) else {
        return Ok(None);
    };
    if member(members, "created_at").is_some() {
        let message = "timestamp is another name for created_at: give one of them";
        return Err(Error::invalid(message).with_field(TIMESTAMP));
    }
    let text = serde_json::from_str::<Cow<'_, str>>(json);
    let json = match text {
        Ok(text) => epoch_ms(&text)
            .map_err(|e| e.with_field(TIMESTAMP))?
            .to_string(),
        Err(_) => json.to_owned(),
    };
    let raw = RawValue::from_string(json);
    let raw = raw.map_err(|e| Error::invalid(format!("timestamp is no JSON: {e}")))?;
    Ok(Some(raw))
}

/// Of a field that is given twice, one would be lost.
fn check_given_once(members: &[Member<'_>]) -> Result<()> {
    let mut seen = HashSet::with_capacity(members.len());
    // A turn and its file both have a kind.
    let names = members.iter().map(|(name, _)| &**name);
    match { names }.find(|name| *name != "kind" && !seen.insert(*name)) {
        Some(name) => Err(Error::invalid(format!(
            "{} is given twice: give it once",
            clipped(name)
        ))
        .with_field(clipped(name))),
        None => Ok(()),
    }
}

/// Refuses fields that lines of other ops of the kind have: the log would not keep them.
fn check_of_op(kind: Kind, op: Op, members: &[Member<'_>]) -> Result<()> {
    let is_step = member(members, "update_id").is_none();
    let mut names = members.iter().map(|(name, _)| &**name);
    match names.find(|name| kind.is_of_other_ops(name, op, is_step)) {
        Some(name) => {
            let op = op.as_str();
            let message = format!("{kind} has no {name} where op is {op}: leave it out");
            Err(Error::invalid(message).with_field(name))
        }
        None => Ok(()),
    }
}

/// Adds the content of a message that is given as blocks, and what it says of other fields that
/// the message does not have.
fn push_content(line: &mut String, blocks: &str, members: &[Member<'_>]) -> Result<()> {
    let content = Content::from_json(blocks).map_err(|e| {
        let message = format!(
            "content is {}: {}",
            clipped(blocks),
            readable(&e.to_string())
        );
        Error::invalid(message).with_field("content")
    })?;
    push_member(line, "content", &Value::from(content.text).to_string());
    if content.is_json && member(members, "content_type").is_none() {
        push_member(line, "content_type", "\"json\"");
    }
    if let Some(reasoning) = content.reasoning
        && member(members, "reasoning").is_none()
    {
        push_member(line, "reasoning", &Value::from(reasoning).to_string());
    }
    Ok(())
}

fn push_member(line: &mut String, name: &str, json: &str) {
    line.push(if line.is_empty() { '{' } else { ',' });
    line.push('"');
    line.push_str(name);
    line.push_str("\":");
    line.push_str(json);
}

fn member<'a>(members: &[Member<'a>], wanted: &str) -> Option<&'a str> {
    let mut found = members.iter().filter(|(name, _)| name == wanted);
    found.next().map(|(_, value)| value.get())
}

/// The parser's position is one in the text made here, not in the caller's.
fn readable(reason: &str) -> &str {
    reason
        .split_once(" at line ")
        .map_or(reason, |(message, _)| message)
}

/// The lines of files do not name their kind; fields that no other kind has tell it.
fn kind_of_fields(members: &[Member<'_>]) -> Option<Kind> {
    const TELLING: [(&str, Kind); 11] = [
        ("call_id", Kind::ToolCalls),
        ("diffs_json", Kind::CodeEditProposals),
        ("decided_at", Kind::CodeEditProposals),
        ("client", Kind::Conversations),
        ("conversation_id", Kind::Messages),
        ("event_type", Kind::Events),
        ("update_id", Kind::Inbox),
        ("attempts", Kind::Inbox),
        ("chat_id", Kind::History),
        ("task_id", Kind::ThoughtRecords),
        ("through_seq", Kind::Rollups),
    ];
    let mut told = TELLING
        .iter()
        .filter(|(name, _)| member(members, name).is_some());
    told.next().map(|(_, kind)| *kind)
}

/// The kind of record that the members name and, for a turn, the kind of turn.
fn kinds(members: &[Member<'_>]) -> Result<(Kind, Option<TurnKind>)> {
    let stems = || Kind::ALL.map(Kind::stem).join(", ");
    let turn_kinds = || {
        let words: Vec<&str> = TurnKind::ALL.iter().map(|kind| kind.as_str()).collect();
        words.join(", ")
    };
    let (mut kind, mut turn_kind) = (None, None);
    for (name, value) in members {
        if name != "kind" && name != "turn_kind" {
            continue;
        }
        let word: Cow<'_, str> = serde_json::from_str(value.get()).map_err(|_| {
            Error::invalid(format!("{name} is {}, not a text", clipped(value.get())))
        })?;
        match (word.parse::<TurnKind>(), Kind::from_stem(&word)) {
            (Ok(found), _) => {
                if turn_kind.replace(found).is_some() {
                    return Err(Error::invalid("the turn's kind is given twice"));
                }
            }
            (Err(unknown), _) if name == "turn_kind" => return Err(unknown),
            (_, Some(found)) => {
                if kind.replace(found).is_some() {
                    return Err(Error::invalid("kind is given twice"));
                }
            }
            (_, None) => {
                let (word, known) = (clipped(&word), stems());
                let message = format!("unknown kind {word:?}: give one of {known}");
                return Err(Error::invalid(message));
            }
        }
    }
    let kind = kind.or_else(|| turn_kind.is_none().then(|| kind_of_fields(members))?);
    match (kind, turn_kind) {
        (None, None) => Err(Error::invalid(format!(
            "kind is missing: give one of {}",
            stems()
        ))),
        (None | Some(Kind::ConversationTurns), Some(turn_kind)) => {
            Ok((Kind::ConversationTurns, Some(turn_kind)))
        }
        (Some(Kind::ConversationTurns), None) => Err(Error::invalid(format!(
            "the turn's own kind is missing: give turn_kind, one of {}",
            turn_kinds()
        ))),
        (Some(kind), None) => Ok((kind, None)),
        (Some(kind), Some(_)) => Err(Error::invalid(format!("{kind} has no turn_kind"))),
    }
}

/// The field that says a line's time once more.
fn time_field(kind: Kind, op: Op) -> Option<&'static str> {
    match (kind, op) {
        (Kind::ToolCalls, Op::Completed | Op::Failed) => Some("ended_at"),
        (Kind::ToolCalls, _) => Some("started_at"),
        (Kind::CodeEditProposals, Op::Approved | Op::Denied) => Some("decided_at"),
        (Kind::CodeEditProposals, Op::Applied) => Some("applied_at"),
        (Kind::Conversations, Op::Updated) => Some("updated_at"),
        (Kind::Messages | Kind::ThoughtRecords, _) => Some("timestamp"),
        (Kind::Inbox, Op::InProgress) => Some("locked_at"),
        (Kind::Rollups, _) => Some("day"),
        (Kind::CodeEditProposals, Op::Reverted) | (Kind::Inbox, Op::Done | Op::Failed) => None,
        _ => Some("created_at"),
    }
}

/// A line says its time twice. Where both are given they must agree: one of them would be lost.
fn check_times(kind: Kind, op: Op, members: &[Member<'_>]) -> Result<()> {
    let time = |json: &str| {
        let validity = serde_json::from_str(json).map(|validity: Validity| validity.at);
        let time = || serde_json::from_str(json).map(|time: Timestamp| time.at());
        let day = || serde_json::from_str(json).map(|day: Day| day.bounds_ms().0);
        validity.or_else(|_| time()).or_else(|_| day())
    };
    let Some(name) = time_field(kind, op) else {
        return Ok(());
    };
    let (at, given) = (member(members, "at"), member(members, name));
    match (at.map(time), given.map(time)) {
        (Some(Ok(at)), Some(Ok(given))) if at != given => Err(Error::invalid(format!(
            "at is {at} and {name} is {given}: give one of them, or both the same"
        ))),
        _ => Ok(()),
    }
}

/// What input may leave out, as JSON.
fn defaults(kind: Kind, op: Op, members: &[Member<'_>]) -> Result<Vec<(&'static str, String)>> {
    let quoted = |text: &str| format!("\"{text}\"");
    let is_given = |name| member(members, name).is_some();
    let at = member(members, "at").and_then(|json| serde_json::from_str(json).ok());
    let mut given = Vec::new();
    match kind {
        // Computed from the arguments.
        Kind::ToolCalls if matches!(op, Op::Requested | Op::Retracted) => {
            if !is_given("args_sha256") {
                given.push(("args_sha256", quoted("")));
            }
        }
        Kind::ConversationTurns | Kind::ToolCalls | Kind::CodeEditProposals | Kind::Rollups => {}
        Kind::Conversations => {
            let time = Timestamp::from_ms(at.unwrap_or_else(now))?;
            if !is_given("updated_at") {
                let time = match member(members, "created_at") {
                    Some(created_at) if op == Op::Created => created_at.to_owned(),
                    _ => quoted(time.as_str()),
                };
                given.push(("updated_at", time));
            }
            if !is_given("created_at") && op == Op::Created {
                given.push(("created_at", quoted(time.as_str())));
            }
        }
        Kind::Messages | Kind::ThoughtRecords => {
            if !is_given("id") {
                given.push(("id", quoted(&Uuid::new_v4().to_string())));
            }
            if !is_given("timestamp") {
                let time = Timestamp::from_ms(at.unwrap_or_else(now))?;
                given.push(("timestamp", quoted(time.as_str())));
            }
            let role = member(members, "role").and_then(|json| serde_json::from_str(json).ok());
            if let Some(role) = role.filter(|_| kind == Kind::Messages && !is_given("source")) {
                given.push(("source", quoted(Source::of(role).as_str())));
            }
        }
        Kind::Events | Kind::Inbox | Kind::History => {
            let is_timed = is_given("at") || time_field(kind, op).is_some_and(is_given);
            let json = at.unwrap_or_else(now).to_string();
            if kind != Kind::Inbox && !is_given("created_at") {
                given.push(("created_at", json));
            } else if !is_timed {
                given.push(("at", json));
            }
        }
    }
    Ok(given)
}

/// The op, before all else: which fields are needed depends on it.
fn op(kind: Kind, members: &[Member<'_>]) -> Result<Op> {
    let known = || {
        let words: Vec<&str> = kind.ops().iter().map(|op| op.as_str()).collect();
        words.join(", ")
    };
    let Some(json) = member(members, "op") else {
        // A call without it may as well be an outcome.
        let default = kind.ops().first().filter(|_| kind != Kind::ToolCalls);
        let missing = || Error::invalid(format!("op is missing: give one of {}", known()));
        return default.copied().ok_or_else(missing);
    };
    kind.op(json.trim_matches('"')).ok_or_else(|| {
        let (word, known) = (clipped(json), known());
        Error::invalid(format!("unknown op {word}: give one of {known}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_field_and_what_it_holds() {
        let cases = [
            (r#"{"kind":"user","id":"zzz"}"#, r#"id is "zzz": UUID"#),
            (
                r#"{"kind":"user","content":"\ud800"}"#,
                "content holds a lone surrogate",
            ),
            (
                r#"{"kind":"user","created_at":"soon"}"#,
                r#"created_at is "soon""#,
            ),
            (
                r#"{"kind":"tool_calls","op":"failed","latency_ms":1e99}"#,
                "latency_ms is 1e99",
            ),
            (
                r#"{"kind":"tool_calls","op":"sung","started_at":1,"request_id":"67e55044-10b1-426f-9247-bb680e5fe0c8","call_id":"c"}"#,
                r#"unknown op "sung""#,
            ),
            (r#"{"kind":"user","contents":1}"#, r#"no field "contents""#),
            (r#"{"kind":"user","id":null}"#, "missing field `id`"),
            (r#"{"kind":"poems"}"#, r#"unknown kind "poems""#),
            (r#"{"id":1}"#, "kind is missing"),
            (
                r#"{"kind":"tool_calls","op":"done"}"#,
                "give one of requested, completed",
            ),
            (r#"{"call_id":"c"}"#, "op is missing"),
            (
                r#"{"kind":"user","at":5,"created_at":6}"#,
                "at is 5 and created_at is 6",
            ),
            (r#"{"turn_kind":"bot"}"#, "give one of user, assistant"),
            (r#"{"event_type":7}"#, "event_type is 7"),
            (
                r#"{"kind":"messages","contnet":"a"}"#,
                r#"no field "contnet": it has id, conversation_id"#,
            ),
            (
                r#"{"kind":"messages","timestamp":1766832000000}"#,
                "expected a time as in RFC 3339",
            ),
            (
                r#"{"kind":"tool_calls","kind":"user"}"#,
                "tool_calls has no turn_kind",
            ),
            (r#"{"kind":"user","content":NaN}"#, "not a JSON object"),
            (
                r#"{"kind":"messages","at":1,"content":"a","\u0061t":2}"#,
                "at is given twice",
            ),
            (
                r#"{"kind":"user","content":"a","content":null}"#,
                "content is given twice",
            ),
            (r#"{"kind":"user","seq":1,"seq":2}"#, "seq is given twice"),
            (
                r#"{"kind":"user","created_at":{"at":5,"is_valid":true,"x":1}}"#,
                "created_at is {",
            ),
            (
                r#"{"kind":"tool_calls","op":"requested","outcome_json":{}}"#,
                "tool_calls has no outcome_json where op is requested",
            ),
            (
                r#"{"kind":"inbox","op":"done","id":1,"text":"a"}"#,
                "inbox has no text where op is done",
            ),
            (
                r#"{"kind":"inbox","update_id":1,"status":"done"}"#,
                r#"no field "status": say in op"#,
            ),
        ];
        for (input, expected) in cases {
            let error = Record::from_json(input).unwrap_err().to_string();
            assert!(error.contains(expected), "{input} gives: {error}");
        }
    }
    /// Bug: an error repeated megabytes of what was given.
    #[test]
    fn an_error_repeats_no_more_than_the_start_of_what_it_was_given() {
        let long = "\u{e9}".repeat(100_000);
        for input in [
            format!(r#"{{"kind":"{long}"}}"#),
            format!(r#"{{"turn_kind":"{long}"}}"#),
            format!(r#"{{"kind":["{long}"]}}"#),
            format!(r#"{{"kind":"events","op":"{long}"}}"#),
            format!(r#"{{"kind":"events","{long}":1}}"#),
            format!(r#"{{"kind":"events","event_type":"{long}"}}"#),
            format!(r#"{{"kind":"events","id":"{long}"}}"#),
            format!(r#"{{"kind":"conversations","client":"{long}"}}"#),
            format!(r#"{{"kind":"conversations","created_at":"{long}"}}"#),
        ] {
            let error = Record::from_json(&input).and_then(Record::checked);
            let error = error.unwrap_err().to_string();
            assert!(error.len() < 1_000, "{} bytes: {error:.300}", error.len());
        }
    }
}
