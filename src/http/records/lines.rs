//! What `/openapi.json` says of the lines that `/records` takes: the fields are those of the bodies
//! that other endpoints take, with the record's kind and what becomes of it.

use serde_json::{Value, json};

use crate::line::DERIVED;
use crate::record::Kind;

const MILLIS: &str = "#/components/schemas/Int_0_253402300799999";
const NAME: &str = "RecordLine";

/// A form of a line.
struct Form<'a> {
    name: &'a str,
    kind: Kind,
    /// What becomes of the record. The first is meant where a line names none and need not.
    ops: &'a [&'a str],
    /// The body that has the same fields.
    body: Option<&'a str>,
    without: &'a [&'a str],
    with: Value,
    /// The fields that a line must have beside those of the body.
    required: &'a [&'a str],
}

/// Describes the lines, by the schemas of bodies, which stand among `schemas` before.
pub(in crate::http) fn describe(schemas: &mut Value) {
    let mut names = Vec::new();
    let mut lines: Vec<(Form, Value)> = Vec::new();
    for form in forms(schemas) {
        let line = form.schema(schemas);
        lines.push((form, line));
    }
    for (form, line) in &lines {
        let name = format!("{}Line", form.name);
        names.push(json!({ "$ref": format!("#/components/schemas/{name}") }));
        let mut line = line.clone();
        // A null says that the field is not there, also one that another form has.
        let others = lines.iter().filter(|(other, _)| other.kind == form.kind);
        let others = others.filter_map(|(_, other)| other["properties"].as_object());
        for field in others.flat_map(|fields| fields.keys()) {
            if line["properties"].get(field).is_none() {
                line["properties"][field] = json!({ "type": "null" });
            }
        }
        schemas[name] = line;
    }
    for name in ["ClaimedTaskLine", "EndedTaskLine"] {
        schemas[name]["anyOf"] = json!([
            { "required": ["kind"], "properties": { "kind": { "type": "string" } } },
            { "required": ["attempts"], "properties": { "attempts": { "type": "integer" } } },
        ]);
    }
    schemas[NAME]["anyOf"] = names.into();
}

#[allow(clippy::too_many_lines)] // A table.
fn forms(schemas: &Value) -> Vec<Form<'static>> {
    let id = || json!({ "type": "string", "format": "uuid" });
    let millis = || json!({ "$ref": MILLIS });
    let call_key = || {
        let call = &schemas["NewCall"]["properties"];
        json!({ "request_id": call["request_id"], "call_id": call["call_id"] })
    };
    let commit = json!({
        "type": ["string", "null"], "minLength": 1, "maxLength": 1024,
        "description": "The commit that applied the edit.",
    });
    let optional_millis = json!({ "oneOf": [millis(), { "type": "null" }] });
    let task = json!({
        "id": { "type": "integer", "format": "int64", "minimum": 1, "description": "The task's id." },
        "attempts": {
            "type": ["integer", "null"], "format": "int64", "minimum": 0,
            "description": "The number of the claim, from 1. It tells the kind where that is missing.",
        },
        "error": { "type": ["string", "null"], "description": "Why the attempt failed." },
    });
    let mut diffs = schemas["NewProposal"]["properties"]["diffs_json"].clone();
    diffs["not"] = json!({ "type": "null" });
    let turn_kind = schemas["NewTurn"]["properties"]["kind"].clone();
    let form = |name, kind, ops, body| Form {
        name,
        kind,
        ops,
        body,
        without: &[],
        with: json!({}),
        required: &[],
    };
    vec![
        Form {
            without: &["kind"],
            with: json!({ "turn_kind": turn_kind }),
            required: &["turn_kind"],
            ..form(
                "Turn",
                Kind::ConversationTurns,
                &["asserted", "retracted"],
                Some("NewTurn"),
            )
        },
        Form {
            required: &["op"],
            ..form(
                "Call",
                Kind::ToolCalls,
                &["requested", "retracted"],
                Some("NewCall"),
            )
        },
        Form {
            without: &["status", "error_kind", "error_msg"],
            with: call_key(),
            required: &["op", "request_id", "call_id"],
            ..form(
                "CompletedCall",
                Kind::ToolCalls,
                &["completed"],
                Some("NewOutcome"),
            )
        },
        Form {
            without: &["status"],
            with: call_key(),
            required: &["op", "request_id", "call_id"],
            ..form(
                "FailedCall",
                Kind::ToolCalls,
                &["failed"],
                Some("NewOutcome"),
            )
        },
        Form {
            without: &["status"],
            with: json!({ "at": optional_millis, "diffs_json": diffs }),
            ..form(
                "Proposal",
                Kind::CodeEditProposals,
                &["pending", "retracted"],
                Some("NewProposal"),
            )
        },
        Form {
            with: json!({ "request_id": id(), "decided_at": millis(), "at": optional_millis }),
            required: &["op", "request_id", "decided_at"],
            ..form(
                "DecidedProposal",
                Kind::CodeEditProposals,
                &["approved", "denied"],
                None,
            )
        },
        Form {
            with: json!({ "request_id": id(), "applied_at": millis(), "at": optional_millis, "commit_hash": commit }),
            required: &["kind", "op", "request_id", "applied_at"],
            ..form(
                "AppliedProposal",
                Kind::CodeEditProposals,
                &["applied"],
                None,
            )
        },
        Form {
            with: json!({ "request_id": id(), "at": millis(), "commit_hash": commit }),
            required: &["kind", "op", "request_id", "at"],
            ..form(
                "RevertedProposal",
                Kind::CodeEditProposals,
                &["reverted"],
                None,
            )
        },
        Form {
            without: WITH_MESSAGES,
            with: json!({ "id": id() }),
            required: &["id"],
            ..form(
                "Conversation",
                Kind::Conversations,
                &["created"],
                Some("NewConversation"),
            )
        },
        Form {
            without: WITH_MESSAGES,
            with: json!({ "id": id(), "created_at": { "$ref": "#/components/schemas/Timestamp" } }),
            required: &["op", "id", "created_at"],
            ..form(
                "ChangedConversation",
                Kind::Conversations,
                &["updated"],
                Some("NewConversation"),
            )
        },
        Form {
            with: json!({ "conversation_id": id() }),
            required: &["conversation_id"],
            ..form("Message", Kind::Messages, &["added"], Some("NewMessage"))
        },
        Form {
            with: json!({ "created_at": optional_millis }),
            ..form("Event", Kind::Events, &["logged"], Some("NewEvent"))
        },
        form("Entry", Kind::History, &["added"], Some("NewEntry")),
        Form {
            with: json!({
                "id": schemas["NewEvent"]["properties"]["id"],
                "attempts": { "type": ["integer", "null"], "enum": [0, null] },
            }),
            ..form("Task", Kind::Inbox, &["queued"], Some("NewTask"))
        },
        Form {
            with: json!({ "id": task["id"], "attempts": task["attempts"], "error": task["error"], "locked_at": optional_millis }),
            required: &["op", "id"],
            ..form("ClaimedTask", Kind::Inbox, &["in_progress"], None)
        },
        Form {
            with: task,
            required: &["id"],
            ..form(
                "EndedTask",
                Kind::Inbox,
                &["queued", "done", "failed"],
                None,
            )
        },
        form(
            "Thought",
            Kind::ThoughtRecords,
            &["recorded"],
            Some("NewThought"),
        ),
    ]
}

/// What the body of a conversation may also have, and a line does not.
const WITH_MESSAGES: &[&str] = &["messages", "next"];

impl Form<'_> {
    fn schema(&self, schemas: &Value) -> Value {
        let body = self.body.map_or(&Value::Null, |name| &schemas[name]);
        let mut fields = body["properties"].as_object().cloned().unwrap_or_default();
        let derived: &[&str] = match self.kind {
            Kind::Conversations => &DERIVED,
            _ => &[],
        };
        fields.retain(|name, _| ![self.without, derived].concat().contains(&name.as_str()));
        let with = self.with.as_object().cloned().unwrap_or_default();
        let required = body["required"].as_array().into_iter().flatten();
        let mut required: Vec<Value> = required
            .filter(|name| name.as_str().is_some_and(|name| fields.contains_key(name)))
            .cloned()
            .collect();
        required.extend(self.required.iter().map(|name| Value::from(*name)));
        let mut properties = fields;
        properties.extend(with);
        let word = |name: &str, words: &[&str]| {
            if self.required.contains(&name) {
                return json!({ "type": "string", "enum": words });
            }
            let mut words: Vec<Value> = words.iter().map(|word| Value::from(*word)).collect();
            words.push(Value::Null);
            json!({ "type": ["string", "null"], "enum": words })
        };
        properties.insert("kind".to_owned(), word("kind", &[self.kind.stem()]));
        properties.insert("op".to_owned(), word("op", self.ops));
        json!({
            "type": "object",
            "required": required,
            "properties": properties,
            "additionalProperties": false,
        })
    }
}
