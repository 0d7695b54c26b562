//! Attributes of spans and log records.

use serde_json::{Map, Value as Json};

use crate::otlp::proto::{AnyValue, ArrayValue, KeyValue, KeyValueList, Value};
use crate::record::{ConversationMessage, ConversationTurn, Role, TurnKind};

/// Maximum depth of a value that is sent in structured form.
const DEPTH_MAX: usize = 32;

/// A list of attributes.
#[derive(Debug, Default)]
pub(super) struct Attributes(pub(super) Vec<KeyValue>);

impl Attributes {
    pub(super) fn text(&mut self, key: &str, text: impl Into<String>) -> &mut Self {
        self.push(key, Value::String(text.into()))
    }

    pub(super) fn some_text(&mut self, key: &str, text: Option<&str>) -> &mut Self {
        if let Some(text) = text {
            self.text(key, text);
        }
        self
    }

    pub(super) fn count(&mut self, key: &str, count: Option<i64>) -> &mut Self {
        if let Some(count) = count {
            self.push(key, Value::Int(count));
        }
        self
    }

    pub(super) fn number(&mut self, key: &str, number: Option<f64>) -> &mut Self {
        if let Some(number) = number {
            self.push(key, Value::Double(number));
        }
        self
    }

    /// A list of messages or parts, if it has any. Spans have it as JSON, as many receivers
    /// expect; log records have it in structured form.
    pub(super) fn list(&mut self, key: &str, list: Vec<Json>, form: Form) -> &mut Self {
        if list.is_empty() {
            return self;
        }
        let list = Json::Array(list);
        match form {
            Form::Span => self.text(key, list.to_string()),
            Form::Log => {
                let value = structured(&list).value;
                if let Some(value) = value {
                    self.push(key, value);
                }
                self
            }
        }
    }

    fn push(&mut self, key: &str, value: Value) -> &mut Self {
        self.0.push(KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
        });
        self
    }
}

/// What has the attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Span,
    Log,
}

/// A JSON value in structured form.
pub(super) fn structured(json: &Json) -> AnyValue {
    structured_within(json, DEPTH_MAX)
}

fn structured_within(json: &Json, depth: usize) -> AnyValue {
    let value = match json {
        Json::Null => None,
        Json::Bool(flag) => Some(Value::Bool(*flag)),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Some(Value::Int(number)),
            None => number.as_f64().map(Value::Double),
        },
        Json::String(text) => Some(Value::String(text.clone())),
        Json::Array(_) | Json::Object(_) if depth == 0 => Some(Value::String(json.to_string())),
        Json::Array(items) => {
            let values = items.iter().map(|item| structured_within(item, depth - 1));
            Some(Value::Array(ArrayValue {
                values: values.collect(),
            }))
        }
        Json::Object(members) => {
            let values = members.iter().map(|(key, value)| KeyValue {
                key: key.clone(),
                value: Some(structured_within(value, depth - 1)),
            });
            Some(Value::KeyValues(KeyValueList {
                values: values.collect(),
            }))
        }
    };
    AnyValue { value }
}

/// An object of a part or message. Members without a value are left out.
fn object<const N: usize>(members: [(&str, Option<Json>); N]) -> Json {
    let members = members.into_iter();
    let members = members.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Json::Object(members.collect::<Map<_, _>>())
}

pub(super) fn text_part(text: &str) -> Json {
    object([
        ("type", Some("text".into())),
        ("content", Some(text.into())),
    ])
}

pub(super) fn reasoning_part(text: &str) -> Json {
    object([
        ("type", Some("reasoning".into())),
        ("content", Some(text.into())),
    ])
}

/// `arguments` is JSON if it can be read as such.
pub(super) fn call_part(id: Option<&str>, name: &str, arguments: Option<&str>) -> Json {
    let arguments = arguments.map(|text| serde_json::from_str(text).unwrap_or(text.into()));
    object([
        ("type", Some("tool_call".into())),
        ("id", id.map(Json::from)),
        ("name", Some(name.into())),
        ("arguments", arguments),
    ])
}

pub(super) fn message(role: Role, parts: Vec<Json>, finish_reason: Option<&str>) -> Json {
    object([
        ("role", Some(role.as_str().into())),
        ("parts", Some(Json::Array(parts))),
        ("finish_reason", finish_reason.map(Json::from)),
    ])
}

/// What was said, of which parts are made.
pub(super) fn said(message: &ConversationMessage) -> Vec<Json> {
    let mut parts = Vec::new();
    if message.role == Role::Tool {
        let result = message.tool_result.as_deref().unwrap_or(&message.content);
        return vec![object([
            ("type", Some("tool_call_response".into())),
            ("id", message.tool_call_id.as_deref().map(Json::from)),
            ("response", Some(result.into())),
        ])];
    }
    if let Some(reasoning) = &message.reasoning {
        parts.push(reasoning_part(reasoning));
    }
    if !message.content.is_empty() {
        parts.push(text_part(&message.content));
    }
    if message.role == Role::Assistant
        && let Some(name) = &message.tool_name
    {
        let id = message.tool_call_id.as_deref();
        parts.push(call_part(id, name, message.tool_args.as_deref()));
    }
    parts
}

/// The role of a turn; `None` for a note of the harness.
pub(super) fn role_of(turn: &ConversationTurn) -> Option<Role> {
    match turn.kind {
        TurnKind::User => Some(Role::User),
        TurnKind::Assistant => Some(Role::Assistant),
        TurnKind::System => Some(Role::System),
        TurnKind::Tool => Some(Role::Tool),
        TurnKind::SysInfo => None,
    }
}

/// Nanoseconds of epoch milliseconds.
pub(super) fn nanos(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000)
}

/// The provider of a model by its name, or of an agent that uses the models of one provider.
pub(super) fn provider(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let name = name.rsplit('/').next().unwrap_or_default();
    let of_start = [
        ("claude", "anthropic"),
        ("anthropic", "anthropic"),
        ("gpt", "openai"),
        ("chatgpt", "openai"),
        ("codex", "openai"),
        ("openai", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("gemini", "gcp.gemini"),
        ("google", "gcp.gen_ai"),
        ("mistral", "mistral_ai"),
        ("codestral", "mistral_ai"),
        ("devstral", "mistral_ai"),
        ("deepseek", "deepseek"),
        ("grok", "x_ai"),
        ("xai", "x_ai"),
        ("command-", "cohere"),
        ("cohere", "cohere"),
    ];
    let found = of_start.iter().find(|(start, _)| name.starts_with(start));
    found.map(|(_, provider)| *provider)
}
