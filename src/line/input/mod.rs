//! Records that other programs submit as JSON, with the field names of the files.

#[cfg(feature = "bindings")]
mod dynamic;
mod given;
#[cfg(feature = "wire")]
mod parse;
mod value;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;

pub(crate) use self::given::{FieldFault, Form, Given, GivenRecord, OpField};
pub(crate) use self::value::check;
use self::value::clipped;
use super::encode::Members;
use crate::error::{Error, Result};
use crate::record::{Kind, Record, TurnKind};

type Member<'a> = (Cow<'a, str>, &'a RawValue);

impl Record {
    /// Reads a record from one JSON object with the field names of the files and its `kind`, the
    /// stem of the files that hold it.
    ///
    /// A conversation turn has a field `kind` of its own. Give both, in either order, or only the
    /// turn's (`"kind":"user"` implies that it is a turn), or the turn's as `turn_kind`. The `op`
    /// of a tool call is `requested`, `completed`, `failed` or `retracted`; its `kind` is optional,
    /// and so are the hash of given arguments, which is then computed when the call is recorded,
    /// and the `latency_ms` of an outcome. The `op` of a proposal step or inbox step is its new
    /// status; a `reverted` step has its time in `at`. The envelope's `seq` and `crc` are accepted
    /// and ignored, so a line of a file is also valid input; its kind is recognised by its fields.
    ///
    /// Times in milliseconds may also be given in RFC 3339, and an event's `created_at` may be
    /// named `timestamp`. Every record may omit its time, which is then now, and all but calls,
    /// proposals and steps may omit their id. To change a conversation that the log has, give all
    /// of its fields, including `created_at`: omitted fields are removed.
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
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), naming the invalid field: not a JSON
    /// object, an unknown kind, or a field that is missing, unknown or of another type.
    pub fn from_json(text: &str) -> Result<Record> {
        Record::from_line(text).map(|given| given.record)
    }

    /// As [`from_json`](Record::from_json). Also returns whether the record's time was given.
    pub(crate) fn from_line(text: &str) -> Result<GivenRecord> {
        let Members(mut members) = serde_json::from_str(text)
            .map_err(|e| Error::invalid(format!("not a JSON object: {e}")))?;
        check_given_once(&members)?;
        // A null field counts as absent.
        members.retain(|(_, value)| value.get() != "null");
        let (kind, turn_kind) = kinds(&members)?;
        let is_unused = |name: &str| {
            let is_derived = kind == Kind::Conversations && DERIVED.contains(&name);
            is_derived || ["kind", "turn_kind", "seq", "crc", "file"].contains(&name)
        };
        let used = members.iter().filter(|(name, _)| !is_unused(name));
        let mut given = Given::line(used.map(|(name, value)| (&**name, value.get())));
        if let Some(turn_kind) = turn_kind {
            given.fill_text("kind", || turn_kind.as_str().to_owned());
        }
        let form = Form {
            kind,
            ops: kind.ops(),
            // Without `op`, a tool call could as well be an outcome.
            op: match kind {
                Kind::ToolCalls => OpField::Required,
                _ => OpField::Optional,
            },
        };
        let is_task = given.json("update_id").is_some();
        given.read(form, is_task).map_err(|faults| {
            // Faults of given fields are more helpful than missing ones.
            let is_there = |fault: &&FieldFault| member(&members, &fault.name).is_some();
            let Some(fault) = faults.iter().find(is_there).or(faults.first()) else {
                return Error::invalid("not a record");
            };
            let FieldFault { name, reason, .. } = fault;
            let message = match member(&members, name) {
                Some(json) if fault.is_of_value => {
                    format!("{name} is {}: {reason}", clipped(json))
                }
                None if !name.is_empty() => format!("{kind}: {name} is {reason}"),
                _ => format!("{kind}: {reason}"),
            };
            let error = Error::invalid(message);
            if name.is_empty() {
                error
            } else {
                error.with_field(name)
            }
        })
    }
}

/// Fields of a conversation that are derived from its messages. They are ignored in input.
pub(crate) const DERIVED: [&str; 9] = [
    "message_count",
    "total_tokens_in",
    "total_tokens_out",
    "total_latency_ms",
    "total_cost_usd",
    "error_count",
    "failure_count",
    "models_used",
    "configs_used",
];

/// If a field were given twice, one value would be lost.
fn check_given_once(members: &[Member<'_>]) -> Result<()> {
    let mut seen = HashSet::with_capacity(members.len());
    // A turn has a kind, and so does its file.
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

fn member<'a>(members: &[Member<'a>], wanted: &str) -> Option<&'a str> {
    let mut found = members.iter().filter(|(name, _)| name == wanted);
    found.next().map(|(_, value)| value.get())
}

/// Lines of files do not name their kind. It is recognised by fields that no other kind has.
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

/// The kind of record that the members give and, for a turn, the kind of turn.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_field_and_what_it_holds() {
        let cases = [
            (r#"{"kind":"user","id":"zzz"}"#, r#"id is "zzz": UUID"#),
            (
                r#"{"kind":"user","content":"\ud800"}"#,
                "a lone surrogate is no text",
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
            (
                r#"{"kind":"user","contents":1}"#,
                "unknown field `contents`",
            ),
            (r#"{"kind":"user","id":null}"#, "content is missing"),
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
                "unknown field `contnet`, expected one of id, conversation_id",
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
                "unknown field `status`, say in op",
            ),
        ];
        for (input, expected) in cases {
            let error = Record::from_json(input).unwrap_err().to_string();
            assert!(error.contains(expected), "{input} gives: {error}");
        }
    }
    /// Regression: an error repeated megabytes of its input.
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
