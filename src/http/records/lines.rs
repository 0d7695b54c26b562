//! The description of lines of `/records` in `/openapi.json`: the declared fields of each type of
//! record, with its kind and op.

use serde_json::{Map, Value, json};

use crate::line::Op;
use crate::record::Kind;
use crate::wire::new::{fields, moment, nullable};

const NAME: &str = "RecordLine";

/// A form of a line.
struct Form {
    name: &'static str,
    kind: Kind,
    /// The first one is the default.
    ops: &'static [Op],
    /// Further required fields. A kind is required if no field determines it.
    required: &'static [&'static str],
    /// Fields of its type that are not allowed.
    without: &'static [&'static str],
    /// The field that determines the kind.
    telling: Option<&'static str>,
}

macro_rules! forms {
    ($($name:ident: $kind:ident [$($op:ident),+]
        $(requires $($required:literal)+)? $(without $($without:literal)+)? $(told_by $telling:literal)?;)+
    ) => {
        const FORMS: &[Form] = &[$(Form {
            name: stringify!($name),
            kind: Kind::$kind,
            ops: &[$(Op::$op),+],
            required: &[$($($required),+)?],
            without: &[$($($without),+)?],
            telling: forms!(@ $($telling)?),
        }),+];
    };
    (@) => { None };
    (@ $telling:literal) => { Some($telling) };
}

forms! {
    Turn: ConversationTurns [Asserted, Retracted] requires "turn_kind" without "kind";
    Call: ToolCalls [Requested, Retracted] requires "op";
    CompletedCall: ToolCalls [Completed] requires "op" without "error_kind" "error_msg";
    FailedCall: ToolCalls [Failed] requires "op";
    Proposal: CodeEditProposals [Pending, Retracted];
    DecidedProposal: CodeEditProposals [Approved, Denied]
        requires "op" without "applied_at" "commit_hash" told_by "decided_at";
    AppliedProposal: CodeEditProposals [Applied] requires "kind" "op" without "decided_at";
    RevertedProposal: CodeEditProposals [Reverted]
        requires "kind" "op" without "decided_at" "applied_at";
    Conversation: Conversations [Created] without "updated_at";
    ChangedConversation: Conversations [Updated]
        requires "op" "id" "created_at" without "updated_at";
    Message: Messages [Added];
    Event: Events [Logged];
    Entry: History [Added];
    Task: Inbox [Queued];
    ClaimedTask: Inbox [InProgress] requires "op" told_by "attempts";
    EndedTask: Inbox [Done, Failed, Queued] told_by "attempts";
    Thought: ThoughtRecords [Recorded] without "prev_hash" "hash";
}

/// Describes the lines.
pub(in crate::http) fn describe(schemas: &mut Value) {
    let mut names = Vec::new();
    let lines: Vec<_> = FORMS.iter().map(|form| (form, line(form))).collect();
    for (form, (properties, required)) in &lines {
        let name = format!("{}Line", form.name);
        names.push(json!({ "$ref": format!("#/components/schemas/{name}") }));
        let mut properties = properties.clone();
        // Null means absent, also for a field of another form.
        let others = lines.iter().filter(|(other, _)| other.kind == form.kind);
        for field in others.flat_map(|(_, (fields, _))| fields.keys()) {
            let null = || json!({ "type": "null" });
            properties.entry(field.as_str()).or_insert_with(null);
        }
        schemas[&name] = json!({
            "type": "object",
            "required": required,
            "properties": properties,
            "additionalProperties": false,
        });
        if let Some(telling) = form.telling {
            schemas[&name]["anyOf"] = json!([
                { "required": ["kind"], "properties": { "kind": { "type": "string" } } },
                { "required": [telling], "properties": { telling: { "not": { "type": "null" } } } },
            ]);
        }
    }
    schemas[NAME]["anyOf"] = names.into();
}

/// The fields of a form, and its required fields.
fn line(form: &Form) -> (Map<String, Value>, Vec<&'static str>) {
    let Form { kind, ops, .. } = *form;
    let (mut properties, mut required) = fields(kind, ops, form.required, form.without);
    let others = form.required.iter();
    required.extend(others.filter(|name| !properties.contains_key(**name)));
    if kind == Kind::ConversationTurns {
        let (turn, _) = fields(kind, ops, form.required, &[]);
        properties.insert("turn_kind".to_owned(), turn["kind"].clone());
    }
    if kind == Kind::CodeEditProposals {
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
        let is_required = form.required.contains(&name);
        let word = if is_required { word } else { nullable(word) };
        properties.insert(name.to_owned(), word);
    }
    (properties, required)
}
