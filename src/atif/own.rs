//! Records of decklog inside a document. Texts that are at their own place in a step are not
//! repeated: `from_step` names the fields that are taken from there.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::record::{
    Conversation, ConversationMessage, ConversationTurn, ToolCallDone, ToolCallReq,
};

pub(crate) type Own = Map<String, Value>;

/// The fields of a record that are in the step.
const FROM_STEP: &str = "from_step";
/// The turns of a message.
pub(crate) const TURNS: &str = "turns";

fn map(record: &impl Serialize) -> Own {
    match serde_json::to_value(record) {
        Ok(Value::Object(map)) => map,
        // Records are objects.
        _ => Own::new(),
    }
}

fn record<T: DeserializeOwned>(own: Own) -> Result<T, String> {
    serde_json::from_value(Value::Object(own)).map_err(|e| format!("extra.decklog: {e}"))
}

/// Payloads are kept as text, because their bytes are part of the record.
fn put(own: &mut Own, name: &str, text: Option<String>) {
    match text {
        Some(text) => own.insert(name.to_owned(), Value::String(text)),
        None => own.remove(name),
    };
}

fn take(own: &mut Own, name: &str) -> Option<String> {
    match own.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

pub(crate) fn mark(own: &mut Own, names: &[&str]) {
    for name in names {
        own.remove(*name);
    }
    if !names.is_empty() {
        own.insert(FROM_STEP.to_owned(), Value::from(names));
    }
}

fn marks(own: &mut Own) -> Vec<String> {
    let names = own.remove(FROM_STEP);
    names
        .and_then(|names| serde_json::from_value(names).ok())
        .unwrap_or_default()
}

pub(crate) fn of_conversation(conversation: &Conversation) -> Own {
    let mut own = map(conversation);
    own.remove("id");
    own
}

pub(crate) fn conversation(mut own: Own, id: Uuid) -> Result<Conversation, String> {
    own.insert("id".to_owned(), id.to_string().into());
    record(own)
}

/// A message, without the fields that its step has.
pub(crate) fn of_message(message: &ConversationMessage, from_step: &[&str]) -> Own {
    let bare = ConversationMessage {
        tool_args: None,
        inference_metadata: None,
        ..message.clone()
    };
    let mut own = map(&bare);
    own.remove("conversation_id");
    put(&mut own, "tool_args", message.tool_args.clone());
    let metadata = message.inference_metadata.clone();
    put(&mut own, "inference_metadata", metadata);
    mark(&mut own, from_step);
    own
}

/// The message of a conversation. `from_step` returns the text of the step for a field.
pub(crate) fn message(
    mut own: Own,
    conversation: Uuid,
    from_step: impl Fn(&str) -> Option<String>,
) -> Result<ConversationMessage, String> {
    for name in marks(&mut own) {
        let text = from_step(&name);
        put(&mut own, &name, text);
    }
    own.remove(TURNS);
    let tool_args = take(&mut own, "tool_args");
    let inference_metadata = take(&mut own, "inference_metadata");
    own.insert(
        "conversation_id".to_owned(),
        conversation.to_string().into(),
    );
    Ok(ConversationMessage {
        tool_args,
        inference_metadata,
        ..record(own)?
    })
}

/// The content of a turn that is the same as its message.
pub(crate) fn said(message: &ConversationMessage) -> &str {
    message.tool_result.as_deref().unwrap_or(&message.content)
}

/// A turn. `said` is the text that its message has.
pub(crate) fn of_turn(turn: &ConversationTurn, talk: Uuid, said: &str) -> Own {
    let mut own = map(turn);
    if turn.content == said {
        own.remove("content");
    }
    if turn.thread_id == Some(talk) {
        own.remove("thread_id");
    } else if turn.thread_id.is_none() {
        own.insert("thread_id".to_owned(), Value::Null);
    }
    if turn.message_id == turn.id {
        own.remove("message_id");
    }
    own
}

pub(crate) fn turn(mut own: Own, talk: Uuid, said: &str) -> Result<ConversationTurn, String> {
    let id = own.get("id").cloned().unwrap_or_default();
    own.entry("message_id").or_insert(id);
    own.entry("content").or_insert_with(|| said.into());
    own.entry("thread_id")
        .or_insert_with(|| talk.to_string().into());
    record(own)
}

/// How the arguments of a call are in a document, which has only objects there.
pub(crate) enum Arguments {
    /// As they are.
    Object(String),
    /// As the only member `input`.
    Input(String),
    /// Not recorded.
    Missing,
}

impl Arguments {
    pub(crate) fn of(text: Option<&str>) -> Arguments {
        let Some(text) = text else {
            return Arguments::Missing;
        };
        let is_object = text.starts_with('{')
            && text.ends_with('}')
            && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        if is_object {
            Arguments::Object(text.to_owned())
        } else {
            Arguments::Input(text.to_owned())
        }
    }

    /// The object that a document has.
    pub(crate) fn shown(&self) -> String {
        match self {
            Arguments::Object(text) => text.clone(),
            Arguments::Input(text) => {
                let text = serde_json::to_string(text).unwrap_or_default();
                format!("{{\"input\":{text}}}")
            }
            Arguments::Missing => "{}".to_owned(),
        }
    }

    fn form(&self) -> &'static str {
        match self {
            Arguments::Object(_) => "object",
            Arguments::Input(_) => "input",
            Arguments::Missing => "missing",
        }
    }

    /// The recorded arguments of an object of this form.
    fn read(form: &str, shown: &str) -> Option<String> {
        match form {
            "missing" => None,
            "input" => {
                let object: Own = serde_json::from_str(shown).ok()?;
                Some(object.get("input")?.as_str()?.to_owned())
            }
            _ => Some(shown.to_owned()),
        }
    }
}

const ARGUMENTS: &str = "arguments";

pub(crate) fn of_call(req: &ToolCallReq) -> (Arguments, Own) {
    let arguments = Arguments::of(req.arguments_json.as_deref());
    let bare = ToolCallReq {
        arguments_json: None,
        ..req.clone()
    };
    let mut own = map(&bare);
    for name in ["call_id", "tool_name", "arguments_json"] {
        own.remove(name);
    }
    if !matches!(arguments, Arguments::Object(_)) {
        own.insert(ARGUMENTS.to_owned(), arguments.form().into());
    }
    (arguments, own)
}

/// The text that was recorded as the arguments of a call.
pub(crate) fn arguments(own: Option<&Own>, shown: &str) -> Option<String> {
    let form = own.and_then(|own| own.get(ARGUMENTS)?.as_str());
    Arguments::read(form.unwrap_or_default(), shown)
}

pub(crate) fn call(
    mut own: Own,
    call_id: &str,
    tool_name: &str,
    shown: &str,
) -> Result<ToolCallReq, String> {
    let arguments_json = arguments(Some(&own), shown);
    own.remove(ARGUMENTS);
    own.insert("call_id".to_owned(), call_id.into());
    own.insert("tool_name".to_owned(), tool_name.into());
    Ok(ToolCallReq {
        arguments_json,
        ..record(own)?
    })
}

pub(crate) fn of_result(done: &ToolCallDone, said: &str) -> Own {
    let bare = ToolCallDone {
        outcome_json: None,
        ..done.clone()
    };
    let mut own = map(&bare);
    put(&mut own, "outcome_json", done.outcome_json.clone());
    let mut from_step = Vec::new();
    if done.outcome_json.as_deref() == Some(said) {
        from_step.push("outcome_json");
    }
    if done.error_msg.as_deref() == Some(said) {
        from_step.push("error_msg");
    }
    mark(&mut own, &from_step);
    own
}

pub(crate) fn result(mut own: Own, said: &str) -> Result<ToolCallDone, String> {
    for name in marks(&mut own) {
        put(&mut own, &name, Some(said.to_owned()));
    }
    let outcome_json = take(&mut own, "outcome_json");
    Ok(ToolCallDone {
        outcome_json,
        ..record(own)?
    })
}
