//! Records that other programs hand over as JSON, with the names that the files use.

use std::borrow::Cow;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::Op;
use super::decode::decode;
use super::encode::Members;
use super::payload::has_lone_surrogate;
use crate::error::{Error, Result};
use crate::record::{Kind, Record, TurnKind, Validity};

const TURN_FIELDS: &[(&str, Type)] = &[
    ("id", Type::Uuid),
    ("parent_id", Type::Uuid),
    ("message_id", Type::Uuid),
    ("thread_id", Type::Uuid),
    ("created_at", Type::Time),
    ("content", Type::Text),
];
const CALL_FIELDS: &[(&str, Type)] = &[
    ("request_id", Type::Uuid),
    ("call_id", Type::Text),
    ("parent_id", Type::Uuid),
    ("vendor", Type::Text),
    ("tool_name", Type::Text),
    ("started_at", Type::Time),
    ("args_sha256", Type::Text),
    ("arguments_json", Type::Payload),
    ("ended_at", Type::Time),
    ("latency_ms", Type::Integer),
    ("error_kind", Type::Text),
    ("error_msg", Type::Text),
    ("outcome_json", Type::Payload),
];
/// What a line of a file also has, or is shown with. `seq` and `crc` are given anew.
const ENVELOPE_FIELDS: &[(&str, Type)] = &[
    ("at", Type::Integer),
    ("op", Type::Text),
    ("seq", Type::Unused),
    ("crc", Type::Unused),
    // As `decklog tail --json` adds it.
    ("file", Type::Unused),
];

/// What a field holds; checked one by one, so that an error can name the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Uuid,
    Text,
    Integer,
    Time,
    /// Any JSON, or a string that holds the text.
    Payload,
    Unused,
}

impl Type {
    fn check(self, name: &str, json: &str) -> Result<()> {
        let checked = match self {
            Type::Uuid => serde_json::from_str::<Uuid>(json).map(drop),
            Type::Text => serde_json::from_str::<Cow<'_, str>>(json).map(drop),
            Type::Integer => serde_json::from_str::<i64>(json).map(drop),
            Type::Time => serde_json::from_str::<Validity>(json).map(drop),
            Type::Payload if json.starts_with('"') => {
                serde_json::from_str::<Cow<'_, str>>(json).map(drop)
            }
            Type::Payload | Type::Unused => Ok(()),
        };
        checked.map_err(|e| {
            const SHOWN_CHARS: usize = 80;
            if has_lone_surrogate(json.as_bytes()) {
                return Error::invalid(format!("{name} holds a lone surrogate, which is no text"));
            }
            let shown: String = json.chars().take(SHOWN_CHARS).collect();
            Error::invalid(format!("{name} is {shown}: {}", readable(&e.to_string())))
        })
    }
}

impl Record {
    /// Reads a record from one JSON object with the field names of the files and its `kind`, the
    /// stem of the files that hold it.
    ///
    /// A conversation turn has a field `kind` of its own. Give both, in either order, or the
    /// turn's alone (`"kind":"user"` says that it is a turn), or the turn's as `turn_kind`. A
    /// tool call says in `op` whether it is `requested`, `completed`, `failed` or `retracted`, and
    /// may leave out its `kind`. The envelope's `seq` and `crc` may be there and are not used, so
    /// a line of a file is good input too.
    ///
    /// ```
    /// use decklog::{Kind, Record};
    /// let turn = Record::from_json(
    ///     r#"{"kind":"conversation_turns","turn_kind":"user","content":"hi","created_at":1766832000123,
    ///         "id":"67e55044-10b1-426f-9247-bb680e5fe0c8",
    ///         "message_id":"67e55044-10b1-426f-9247-bb680e5fe0c8"}"#,
    /// )?;
    /// assert_eq!(turn.kind(), Kind::ConversationTurns);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) that names the field at fault: no JSON
    /// object, an unknown kind, a field that is missing, unknown or of another type.
    pub fn from_json(text: &str) -> Result<Record> {
        let members: Members<'_> = serde_json::from_str(text)
            .map_err(|e| Error::invalid(format!("not a JSON object: {e}")))?;
        let (kind, turn_kind) = kinds(&members.0)?;
        check_op(kind, &members.0)?;
        let known = match kind {
            Kind::ConversationTurns => TURN_FIELDS,
            Kind::ToolCalls => CALL_FIELDS,
        };
        check_times(&members.0)?;
        let mut line = String::with_capacity(text.len());
        for (name, value) in &members.0 {
            let name: &str = name;
            // A null says that the field is not there.
            if name == "kind" || name == "turn_kind" || value.get() == "null" {
                continue;
            }
            let Some((_, field)) = known
                .iter()
                .chain(ENVELOPE_FIELDS)
                .find(|(known, _)| *known == name)
            else {
                return Err(Error::invalid(format!("{kind} has no field {name:?}")));
            };
            field.check(name, value.get())?;
            if *field != Type::Unused {
                push_member(&mut line, name, value.get());
            }
        }
        if let Some(turn_kind) = turn_kind {
            push_member(&mut line, "kind", &format!("\"{}\"", turn_kind.as_str()));
        }
        line.push_str(if line.is_empty() { "{}" } else { "}" });
        let decoded = decode(kind, line.as_bytes())
            .map_err(|reason| Error::invalid(format!("{kind}: {}", readable(&reason.text))))?;
        Ok(decoded.record)
    }
}

fn push_member(line: &mut String, name: &str, json: &str) {
    line.push(if line.is_empty() { '{' } else { ',' });
    line.push('"');
    line.push_str(name);
    line.push_str("\":");
    line.push_str(json);
}

/// The parser's position is one in the text made here, not in the caller's.
fn readable(reason: &str) -> &str {
    reason
        .split_once(" at line ")
        .map_or(reason, |(message, _)| message)
}

/// The kind of record that the members name and, for a turn, the kind of turn.
fn kinds(members: &[(Cow<'_, str>, &RawValue)]) -> Result<(Kind, Option<TurnKind>)> {
    let stems = || Kind::ALL.map(Kind::stem).join(", ");
    let turn_kinds = || TurnKind::ALL.map(TurnKind::as_str).join(", ");
    let (mut kind, mut turn_kind) = (None, None);
    for (name, value) in members {
        if name != "kind" && name != "turn_kind" {
            continue;
        }
        let word: Cow<'_, str> = serde_json::from_str(value.get())
            .map_err(|_| Error::invalid(format!("{name} is {}, not a text", value.get())))?;
        if let Some(found) = TurnKind::ALL.into_iter().find(|kind| kind.as_str() == word) {
            if turn_kind.replace(found).is_some() {
                return Err(Error::invalid("the turn's kind is given twice"));
            }
        } else if name == "turn_kind" {
            let message = format!("unknown turn_kind {word:?}: give one of {}", turn_kinds());
            return Err(Error::invalid(message));
        } else if let Some(found) = Kind::from_stem(&word) {
            if kind.replace(found).is_some() {
                return Err(Error::invalid("kind is given twice"));
            }
        } else {
            let message = format!("unknown kind {word:?}: give one of {}", stems());
            return Err(Error::invalid(message));
        }
    }
    // The lines of files do not name the kind of their file.
    let is_call = || members.iter().any(|(name, _)| name == "call_id");
    match (kind, turn_kind) {
        (None, None) if is_call() => Ok((Kind::ToolCalls, None)),
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

/// A line says its time twice. Where both are given they must agree: one of them would be lost.
fn check_times(members: &[(Cow<'_, str>, &RawValue)]) -> Result<()> {
    let time = |wanted: &[&str]| {
        let mut found = members.iter().filter(|(name, _)| wanted.contains(&&**name));
        let (name, value) = found.next()?;
        let validity: Validity = serde_json::from_str(value.get()).ok()?;
        Some((name, validity.at))
    };
    match (
        time(&["at"]),
        time(&["created_at", "started_at", "ended_at"]),
    ) {
        (Some((_, at)), Some((name, given))) if at != given => Err(Error::invalid(format!(
            "at is {at} and {name} is {given}: give one of them, or both the same"
        ))),
        _ => Ok(()),
    }
}

/// Checks the op before all else: which fields are needed depends on it.
fn check_op(kind: Kind, members: &[(Cow<'_, str>, &RawValue)]) -> Result<()> {
    let ops: &[Op] = match kind {
        Kind::ConversationTurns => &[Op::Asserted, Op::Retracted],
        Kind::ToolCalls => &[Op::Requested, Op::Completed, Op::Failed, Op::Retracted],
    };
    let known = || {
        ops.iter()
            .map(|op| op.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match members.iter().find(|(name, _)| name == "op") {
        None if kind == Kind::ConversationTurns => Ok(()),
        None => Err(Error::invalid(format!(
            "op is missing: give one of {}",
            known()
        ))),
        Some((_, value)) => {
            let word = value.get().trim_matches('"');
            if ops.iter().any(|op| op.as_str() == word) {
                return Ok(());
            }
            let message = format!("unknown op {}: give one of {}", value.get(), known());
            Err(Error::invalid(message))
        }
    }
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
            (
                r#"{"kind":"tool_calls","kind":"user"}"#,
                "tool_calls has no turn_kind",
            ),
            (r#"{"kind":"user","content":NaN}"#, "not a JSON object"),
        ];
        for (input, expected) in cases {
            let error = Record::from_json(input).unwrap_err().to_string();
            assert!(error.contains(expected), "{input} gives: {error}");
        }
    }
}
