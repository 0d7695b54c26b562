//! Records as clients submit them. Their fields, and which of them are optional, follow from the
//! declarations of the records.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::fields::{Millis, Moment};
use super::issues::Issue;
use crate::collections::IfKnown;
use crate::line::{FieldFault, Form, Given, Op, OpField};
use crate::record::declare::{Class, Field, Place};
use crate::record::{Client, GIVEN_NUMBER_MAX, Kind, NAME_BYTES_MAX, Record, Timestamp};

/// A record as a client submits it.
#[derive(Debug)]
pub(crate) struct New<F> {
    pub(crate) given: Given<'static>,
    form: PhantomData<F>,
}

/// A type of record that clients submit.
pub(crate) trait NewForm {
    /// Its name in descriptions.
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const FORM: Form;
    /// Fields that only the log assigns.
    const WITHOUT: &'static [&'static str];
}

macro_rules! forms {
    ($($(#[doc = $doc:literal])+ $new:ident, $form:ident: $kind:ident [$($op:ident),+] $field:ident $(without $($without:literal)+)?;)+) => {$(
        $(#[doc = $doc])+
        #[cfg_attr(not(feature = "http"), allow(dead_code))]
        pub(crate) type $new = New<$form>;

        #[cfg_attr(not(feature = "http"), allow(dead_code))]
        #[derive(Debug)]
        pub(crate) enum $form {}

        impl NewForm for $form {
            const NAME: &'static str = stringify!($new);
            const DESCRIPTION: &'static str = concat!($($doc),+);
            const FORM: Form = Form {
                kind: Kind::$kind,
                ops: &[$(Op::$op),+],
                op: OpField::$field,
            };
            const WITHOUT: &'static [&'static str] = &[$($($without),+)?];
        }
    )+};
}

forms! {
    /// A turn to record.
    NewTurn, TurnForm: ConversationTurns [Asserted] None;
    /// The request of a tool call.
    NewCall, CallForm: ToolCalls [Requested] None;
    /// The outcome of a tool call.
    NewOutcome, OutcomeForm: ToolCalls [Completed, Failed] Required;
    /// An edit to propose.
    NewProposal, ProposalForm: CodeEditProposals [Pending, Retracted] Optional;
    /// The next step of a proposal. `op` is another name for `status`, and `at` for its time.
    NewStep, StepForm: CodeEditProposals [Approved, Denied, Applied, Reverted] Required;
    /// A new conversation.
    NewConversation, ConversationForm: Conversations [Created] None without "updated_at";
    /// A message to add.
    NewMessage, MessageForm: Messages [Added] None;
    /// An event to log.
    NewEvent, EventForm: Events [Logged] None;
    /// A task to queue.
    NewTask, TaskForm: Inbox [Queued] None without "id";
    /// An entry to append.
    NewEntry, EntryForm: History [Added] None;
    /// A thought to record.
    NewThought, ThoughtForm: ThoughtRecords [Recorded] None without "prev_hash" "hash";
}

impl<'de, F: NewForm> Deserialize<'de> for New<F> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<New<F>, D::Error> {
        let form = PhantomData;
        Given::deserialize(F::FORM.kind, from).map(|given| New { given, form })
    }
}

impl<F: NewForm> New<F> {
    /// Parses the record, with the rule for an existing one.
    pub(crate) fn read(self) -> Result<(Record, IfKnown), Vec<Issue>> {
        let refused = F::WITHOUT
            .iter()
            .filter(|name| self.given.json(name).is_some());
        let refused: Vec<Issue> = refused
            .map(|name| Issue::of_field(name, format!("unknown field `{name}`")))
            .collect();
        if !refused.is_empty() {
            return Err(refused);
        }
        let issue = |FieldFault { name, reason, .. }: FieldFault| {
            let path = Some(name).filter(|name| !name.is_empty());
            Issue::new(path.into_iter().map(Value::from).collect(), reason)
        };
        match self.given.read(F::FORM, true) {
            // With the same id, a conversation is the same, whatever its time.
            Ok(given) if F::FORM.kind == Kind::Conversations => {
                Ok((given.record, IfKnown::CompareExceptTime))
            }
            Ok(given) => Ok((given.record, IfKnown::of_client(given.has_time))),
            Err(faults) => Err(faults.into_iter().map(issue).collect()),
        }
    }
}

impl<F: NewForm> PartialSchema for New<F> {
    fn schema() -> RefOr<Schema> {
        let (mut properties, mut required) = fields(F::FORM.kind, F::FORM.ops, &[], F::WITHOUT);
        let words: Vec<&str> = F::FORM.ops.iter().map(|op| op.as_str()).collect();
        let op = F::FORM.ops.first().copied().unwrap_or(Op::Asserted);
        let of = F::FORM.kind.type_of(op, false);
        let mut status = of.iter().filter(|field| field.class == Class::Op);
        let said = status.next().map_or(String::new(), description);
        let mut word = json!({ "type": "string", "enum": words, "description": said });
        match F::FORM.op {
            OpField::None => {}
            OpField::Required => {
                properties.insert("status".to_owned(), word);
                required.push("status");
            }
            OpField::Optional => {
                word["description"] =
                    "`retracted` retracts the proposal. Default: `pending`.".into();
                properties.insert("op".to_owned(), nullable(word.clone()));
                word["description"] = "Alias of `op`: give only one.".into();
                properties.insert("status".to_owned(), nullable(word));
            }
        }
        let schema = json!({
            "type": "object",
            "description": F::DESCRIPTION.trim(),
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        // Cannot fail: the type can represent this schema.
        let schema = serde_json::from_value::<Schema>(schema);
        schema
            .unwrap_or_else(|_| ObjectBuilder::new().into())
            .into()
    }
}

impl<F: NewForm> ToSchema for New<F> {
    fn name() -> Cow<'static, str> {
        F::NAME.into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Moment::name().into_owned(), Moment::schema()));
        schemas.push((Timestamp::name().into_owned(), Timestamp::schema()));
    }
}

/// The fields of lines of these ops, as JSON Schemas by name, and the names of the required ones,
/// including `required`. `without`: fields that are not allowed.
pub(crate) fn fields(
    kind: Kind,
    ops: &[Op],
    required: &[&str],
    without: &[&str],
) -> (Map<String, Value>, Vec<&'static str>) {
    let op = ops.first().copied().unwrap_or(Op::Asserted);
    let of = kind.type_of(op, op != Op::Queued);
    let (mut properties, mut needed) = (Map::new(), Vec::new());
    for field in of {
        let is_given = field.is_of_lines()
            && field.class != Class::Repeated
            && field.place != Place::OtherOps
            && !without.contains(&field.name);
        if !is_given {
            continue;
        }
        let mut schema = schema(kind, field);
        if field.is_required() || required.contains(&field.name) {
            needed.push(field.name);
        } else {
            schema = nullable(schema);
        }
        schema["description"] = description(field).into();
        properties.insert(field.name.to_owned(), schema);
    }
    if kind == Kind::Events {
        let mut timestamp = nullable(moment());
        timestamp["description"] = "Alias of `created_at`: give only one.".into();
        properties.insert("timestamp".to_owned(), timestamp);
    }
    (properties, needed)
}

/// A time, as a text or a number.
pub(crate) fn moment() -> Value {
    json!({ "oneOf": [{ "$ref": "#/components/schemas/Moment" }] })
}

/// The field's description, and its default.
fn description(field: &Field) -> String {
    let lines: Vec<&str> = field.doc.iter().map(|line| line.trim()).collect();
    let mut text = lines.join(" ");
    if let Some(default) = field.default {
        text.push_str(" Default: ");
        text.push_str(default);
        text.push('.');
    }
    text
}

/// The same or null, which means absent.
pub(crate) fn nullable(mut schema: Value) -> Value {
    let null = || Value::from("null");
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(Value::Array(types)) => types.push(null()),
        Some(one) => *one = Value::Array(vec![one.take(), null()]),
        None => {
            if let Some(Value::Array(choices)) = schema.get_mut("oneOf") {
                choices.push(json!({ "type": "null" }));
            }
        }
    }
    schema
}

/// The time from which a record is valid or, as an object, retracted.
fn validity() -> Value {
    json!({ "oneOf": [
        { "$ref": "#/components/schemas/Moment" },
        {
            "type": "object",
            "description": "`is_valid` false retracts the record.",
            "required": ["at", "is_valid"],
            "properties": {
                "at": Millis::schema(),
                "is_valid": { "type": "boolean" },
            },
            "additionalProperties": false,
        },
    ] })
}

/// The content of a message.
fn content() -> Value {
    json!({ "oneOf": [
        { "type": "string" },
        {
            "type": "array",
            "description": "Blocks. Texts of text blocks are joined by an empty line; an array with other blocks is stored as JSON.",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": { "type": "string" },
                    "text": { "type": ["string", "null"] },
                    "thinking": { "type": ["string", "null"] },
                },
            },
        },
    ] })
}

fn schema(kind: Kind, field: &Field) -> Value {
    let name = || json!({ "type": "string", "maxLength": NAME_BYTES_MAX });
    let number = |min: Option<i64>, max: Option<i64>| {
        let mut number = json!({ "type": "integer", "format": "int64" });
        for (name, bound) in [("minimum", min), ("maximum", max)] {
            if let Some(bound) = bound {
                number[name] = bound.into();
            }
        }
        number
    };
    match field.class {
        Class::Uuid => json!({ "type": "string", "format": "uuid" }),
        Class::TextId => {
            json!({ "type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX })
        }
        Class::DottedName => json!({
            "type": "string",
            "maxLength": NAME_BYTES_MAX,
            "pattern": r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$",
        }),
        // A commit hash may not be empty.
        Class::Name if field.name == "commit_hash" => {
            json!({ "type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX })
        }
        Class::Name | Class::User | Class::Title => name(),
        Class::Names => json!({ "type": "array", "items": name() }),
        Class::Client => json!(Client::schema()),
        Class::Hash => json!({ "type": "string", "pattern": "^(sha256:)?[0-9a-fA-F]{64}$" }),
        Class::Said if kind == Kind::Messages => content(),
        Class::Label
        | Class::Content
        | Class::Said
        | Class::Output
        | Class::Hashes
        | Class::Op
        | Class::At
        | Class::Repeated => json!({ "type": "string" }),
        Class::Arguments | Class::Payload | Class::Metadata => {
            json!({ "type": ["object", "array", "string", "number", "boolean"] })
        }
        // Below the maximum, so that one more number remains.
        Class::Id | Class::Sequence => number(Some(0), Some(GIVEN_NUMBER_MAX)),
        // The id of an existing task.
        Class::Int if field.name == "id" => number(Some(1), None),
        Class::Int if field.name == "update_id" => number(None, Some(GIVEN_NUMBER_MAX)),
        Class::Int => number(None, None),
        Class::Count | Class::Elapsed | Class::Sum | Class::SumIfAny => number(Some(0), None),
        Class::Millis | Class::OwnMillis => moment(),
        Class::Validity => validity(),
        Class::Fraction => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Class::Amount => json!({ "type": "number", "minimum": 0 }),
        Class::Flag => json!({ "type": "boolean" }),
        Class::Instant | Class::OwnInstant => {
            json!({ "oneOf": [{ "$ref": "#/components/schemas/Timestamp" }] })
        }
        Class::Word => json!({ "type": "string", "enum": field.words }),
        Class::Day => json!({ "type": "string", "format": "date" }),
        Class::Sketch | Class::Counts | Class::Sums => json!({ "type": "object" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described<F: NewForm>() -> Value {
        json!(New::<F>::schema())
    }

    /// The description passes through a type that may lose parts of it.
    #[test]
    fn a_description_has_every_field() {
        let message = described::<MessageForm>();
        for name in ["content", "tool_args", "models_in_chain", "timestamp"] {
            assert!(message["properties"][name].is_object(), "{name}");
        }
        assert_eq!(
            message["required"],
            json!(["conversation_id", "role", "content"])
        );
        let properties = fields(Kind::Messages, &[Op::Added], &[], &[]).0;
        for (name, schema) in properties {
            assert_eq!(message["properties"][&name], schema, "{name}");
        }
        assert_eq!(
            described::<OutcomeForm>()["required"],
            json!(["request_id", "call_id", "status"])
        );
    }
}
