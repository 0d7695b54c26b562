//! Records that other programs hand over as JSON, with the names that the files use.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::decode::decode;
use super::encode::Members;
use crate::error::{Error, Result};
use crate::record::{Kind, Record, TurnKind};

const TURN_FIELDS: &[&str] = &[
    "id",
    "parent_id",
    "message_id",
    "thread_id",
    "created_at",
    "content",
];
const CALL_FIELDS: &[&str] = &[
    "request_id",
    "call_id",
    "parent_id",
    "vendor",
    "tool_name",
    "started_at",
    "args_sha256",
    "arguments_json",
    "ended_at",
    "latency_ms",
    "error_kind",
    "error_msg",
    "outcome_json",
];
/// What a line of a file also has; `seq` and `crc` are given anew.
const ENVELOPE_FIELDS: &[&str] = &["seq", "at", "op", "crc"];

impl Record {
    /// Reads a record from one JSON object with the field names of the files and its `kind`, the
    /// stem of the files that hold it.
    ///
    /// A conversation turn has a field `kind` of its own. Give both, in either order, or the
    /// turn's alone (`"kind":"user"` says that it is a turn), or the turn's as `turn_kind`. A
    /// tool call says in `op` whether it is `requested`, `completed`, `failed` or `retracted`.
    /// The envelope's `seq` and `crc` may be there and are not used, so a line of a file is good
    /// input too.
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
        let known = match kind {
            Kind::ConversationTurns => TURN_FIELDS,
            Kind::ToolCalls => CALL_FIELDS,
        };
        let mut line = String::with_capacity(text.len());
        for (name, value) in &members.0 {
            let name: &str = name;
            if name == "kind" || name == "turn_kind" || name == "crc" || name == "seq" {
                continue;
            }
            if !known.contains(&name) && !ENVELOPE_FIELDS.contains(&name) {
                return Err(Error::invalid(format!("{kind} has no field {name:?}")));
            }
            push_member(&mut line, name, value.get());
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
    let (mut kind, mut turn_kind) = (None, None);
    for (name, value) in members {
        if name != "kind" && name != "turn_kind" {
            continue;
        }
        let word: Cow<'_, str> = serde_json::from_str(value.get())
            .map_err(|_| Error::invalid(format!("{name} is {}, not a text", value.get())))?;
        let found = TurnKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        if let Some(found) = found {
            if turn_kind.replace(found).is_some() {
                return Err(Error::invalid("the turn's kind is given twice"));
            }
        } else if let Some(found) = Kind::from_stem(&word).filter(|_| name == "kind") {
            if kind.replace(found).is_some() {
                return Err(Error::invalid("kind is given twice"));
            }
        } else {
            let stems = Kind::ALL.map(Kind::stem).join(", ");
            return Err(Error::invalid(format!(
                "unknown {name} {word:?}: give one of {stems}"
            )));
        }
    }
    match (kind, turn_kind) {
        (None, None) => {
            let stems = Kind::ALL.map(Kind::stem).join(", ");
            Err(Error::invalid(format!(
                "kind is missing: give one of {stems}"
            )))
        }
        (None | Some(Kind::ConversationTurns), Some(turn_kind)) => {
            Ok((Kind::ConversationTurns, Some(turn_kind)))
        }
        (Some(Kind::ConversationTurns), None) => Err(Error::invalid(
            "the turn's own kind is missing: give turn_kind, one of user, assistant, system, sysinfo, tool",
        )),
        (Some(kind), None) => Ok((kind, None)),
        (Some(kind), Some(_)) => Err(Error::invalid(format!("{kind} has no turn_kind"))),
    }
}
