//! The description of lines of `/records` in `/openapi.json`: the declared fields of each type of
//! record, with its kind and op.

use serde_json::{Map, Value, json};

use crate::line::Op;
use crate::record::Kind;
use crate::wire::new::{fields, moment, nullable};

const NAME: &str = "RecordLine";

/// A form of a line: its name, kind and ops, further required fields, and fields of its type that are
/// not allowed.
type Form = (
    &'static str,
    Kind,
    &'static [Op],
    &'static [&'static str],
    &'static [&'static str],
);

/// The first op is the default. A kind is required if no field determines it.
const FORMS: &[Form] = &[
    (
        "Turn",
        Kind::ConversationTurns,
        &[Op::Asserted, Op::Retracted],
        &["turn_kind"],
        &["kind"],
    ),
    (
        "Call",
        Kind::ToolCalls,
        &[Op::Requested, Op::Retracted],
        &["op"],
        &[],
    ),
    (
        "CompletedCall",
        Kind::ToolCalls,
        &[Op::Completed],
        &["op"],
        &["error_kind", "error_msg"],
    ),
    ("FailedCall", Kind::ToolCalls, &[Op::Failed], &["op"], &[]),
    (
        "Proposal",
        Kind::CodeEditProposals,
        &[Op::Pending, Op::Retracted],
        &[],
        &[],
    ),
    (
        "DecidedProposal",
        Kind::CodeEditProposals,
        &[Op::Approved, Op::Denied],
        &["op"],
        &["applied_at", "commit_hash"],
    ),
    (
        "AppliedProposal",
        Kind::CodeEditProposals,
        &[Op::Applied],
        &["kind", "op"],
        &["decided_at"],
    ),
    (
        "RevertedProposal",
        Kind::CodeEditProposals,
        &[Op::Reverted],
        &["kind", "op"],
        &["decided_at", "applied_at"],
    ),
    (
        "Conversation",
        Kind::Conversations,
        &[Op::Created],
        &[],
        &["updated_at"],
    ),
    (
        "ChangedConversation",
        Kind::Conversations,
        &[Op::Updated],
        &["op", "id", "created_at"],
        &["updated_at"],
    ),
    ("Message", Kind::Messages, &[Op::Added], &[], &[]),
    ("Event", Kind::Events, &[Op::Logged], &[], &[]),
    ("Entry", Kind::History, &[Op::Added], &[], &[]),
    ("Task", Kind::Inbox, &[Op::Queued], &[], &[]),
    ("ClaimedTask", Kind::Inbox, &[Op::InProgress], &["op"], &[]),
    (
        "EndedTask",
        Kind::Inbox,
        &[Op::Done, Op::Failed, Op::Queued],
        &[],
        &[],
    ),
    (
        "Thought",
        Kind::ThoughtRecords,
        &[Op::Recorded],
        &[],
        &["prev_hash", "hash"],
    ),
];

/// Fields that determine the kind of a form.
const TELLING: &[(&str, &str)] = &[
    ("DecidedProposal", "decided_at"),
    ("ClaimedTask", "attempts"),
    ("EndedTask", "attempts"),
];

/// Describes the lines.
pub(in crate::http) fn describe(schemas: &mut Value) {
    let mut names = Vec::new();
    let lines: Vec<(&Form, Map<String, Value>, Vec<&str>)> = FORMS.iter().map(line).collect();
    for (form, properties, required) in &lines {
        let (name, kind, ..) = form;
        let name = format!("{name}Line");
        names.push(json!({ "$ref": format!("#/components/schemas/{name}") }));
        let mut properties = properties.clone();
        // Null means absent, also for a field of another form.
        let others = lines.iter().filter(|((_, other, ..), ..)| other == kind);
        for field in others.flat_map(|(_, fields, _)| fields.keys()) {
            let null = || json!({ "type": "null" });
            properties.entry(field.as_str()).or_insert_with(null);
        }
        schemas[name] = json!({
            "type": "object",
            "required": required,
            "properties": properties,
            "additionalProperties": false,
        });
    }
    for (name, telling) in TELLING {
        schemas[format!("{name}Line")]["anyOf"] = json!([
            { "required": ["kind"], "properties": { "kind": { "type": "string" } } },
            { "required": [telling], "properties": { *telling: { "not": { "type": "null" } } } },
        ]);
    }
    schemas[NAME]["anyOf"] = names.into();
}

/// The fields of a form, and its required fields.
fn line(form: &'static Form) -> (&'static Form, Map<String, Value>, Vec<&'static str>) {
    let (_, kind, ops, more, without) = form;
    let (mut properties, mut required) = fields(*kind, ops, more, without);
    let others = more.iter().filter(|name| !properties.contains_key(**name));
    required.extend(others);
    if *kind == Kind::ConversationTurns {
        let (turn, _) = fields(*kind, ops, more, &[]);
        properties.insert("turn_kind".to_owned(), turn["kind"].clone());
    }
    if *kind == Kind::CodeEditProposals {
        properties.insert("at".to_owned(), nullable(moment()));
    }
    match (kind, ops) {
        // A task that was read has a null or 0 here.
        (Kind::Inbox, [Op::Queued]) => {
            let none = json!({ "type": ["integer", "null"], "enum": [0, null] });
            properties.insert("attempts".to_owned(), none);
        }
        (Kind::Inbox, [Op::InProgress]) => {
            properties.insert("locked_at".to_owned(), nullable(moment()));
        }
        _ => {}
    }
    let words: Vec<&str> = ops.iter().map(|op| op.as_str()).collect();
    for (name, words) in [("kind", vec![kind.stem()]), ("op", words)] {
        let word = json!({ "type": "string", "enum": words });
        let is_required = more.contains(&name);
        let word = if is_required { word } else { nullable(word) };
        properties.insert(name.to_owned(), word);
    }
    (form, properties, required)
}
