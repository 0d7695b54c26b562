//! Messages as instrumentations write them: in the parts of the GenAI conventions, or in the form
//! of OpenAI, Anthropic or the Vercel AI SDK.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::record::Role;

/// A message, or one of the tool results that a message has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) texts: Vec<String>,
    pub(super) reasoning: Vec<String>,
    pub(super) calls: Vec<Call>,
    pub(super) result: Option<ToolResult>,
    /// Parts without a place of their own, such as images.
    pub(super) others: Vec<Value>,
}

/// A tool call that a model asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON; empty if the call has no arguments.
    pub(super) args: String,
}

/// The result of a tool call, as a model gets it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ToolResult {
    pub(super) call_id: String,
    pub(super) text: String,
}

impl Message {
    pub(super) fn new(role: Role) -> Message {
        Message {
            role,
            texts: Vec::new(),
            reasoning: Vec::new(),
            calls: Vec::new(),
            result: None,
            others: Vec::new(),
        }
    }

    pub(super) fn text(role: Role, text: impl Into<String>) -> Message {
        Message {
            texts: vec![text.into()],
            ..Message::new(role)
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
            && self.reasoning.is_empty()
            && self.calls.is_empty()
            && self.result.is_none()
            && self.others.is_empty()
    }

    /// The id of the message after another one. It depends on what was said and not on how it was
    /// reported, so that the same history gives the same ids in each request.
    pub(super) fn id_after(&self, before: Uuid) -> Uuid {
        let mut said = Sha256::new();
        said.update([self.role as u8]);
        let mut add = |kind: u8, text: &str| {
            said.update([kind]);
            said.update((text.len() as u64).to_le_bytes());
            said.update(text);
        };
        for text in &self.texts {
            add(1, text.trim());
        }
        for call in &self.calls {
            add(2, &call.id);
            add(3, &call.name);
            if call.id.is_empty() {
                add(4, &call.args);
            }
        }
        if let Some(result) = &self.result {
            add(5, &result.call_id);
            add(6, result.text.trim());
        }
        for other in &self.others {
            add(7, &other.to_string());
        }
        Uuid::new_v5(&before, &said.finalize())
    }

    /// The message in the form of the GenAI conventions.
    pub(super) fn into_json(self) -> Value {
        let texts = self.texts.into_iter();
        let mut parts: Vec<Value> = self
            .reasoning
            .into_iter()
            .map(|text| json!({ "type": "reasoning", "content": text }))
            .collect();
        parts.extend(texts.map(|text| json!({ "type": "text", "content": text })));
        for call in self.calls {
            let args = serde_json::from_str(&call.args).unwrap_or(Value::String(call.args));
            parts.push(json!({
                "type": "tool_call", "id": call.id, "name": call.name, "arguments": args,
            }));
        }
        if let Some(result) = self.result {
            parts.push(json!({
                "type": "tool_call_response", "id": result.call_id, "response": result.text,
            }));
        }
        parts.extend(self.others);
        json!({ "role": self.role.as_str(), "parts": parts })
    }
}

/// Joins messages that have only reasoning with the answer that follows: some report the items of
/// an answer as messages of their own.
pub(super) fn join_reasoning(messages: &mut Vec<Message>) {
    let mut joined: Vec<Message> = Vec::with_capacity(messages.len());
    for mut message in messages.drain(..) {
        let is_assistant = |it: &Message| it.role == Role::Assistant;
        let is_before = |it: &mut Message| {
            is_assistant(it) && it.texts.is_empty() && it.calls.is_empty() && it.others.is_empty()
        };
        if is_assistant(&message)
            && let Some(before) = joined.pop_if(is_before)
        {
            message.reasoning.splice(0..0, before.reasoning);
        }
        joined.push(message);
    }
    *messages = joined;
}

/// The messages in a list; `None` if this is no list of messages.
pub(super) fn messages(value: Value, role: Role) -> Option<Vec<Message>> {
    let list = match value {
        Value::Array(list) => list,
        one @ Value::Object(_) => vec![one],
        _ => return None,
    };
    let mut found = Vec::with_capacity(list.len());
    for item in list {
        message(item, role, &mut found)?;
    }
    Some(found)
}

/// Adds a message. `role` is the role if it names none. `None` if this is no message.
pub(super) fn message(value: Value, role: Role, to: &mut Vec<Message>) -> Option<()> {
    let mut object = match value {
        Value::Object(object) => object,
        Value::String(text) => {
            to.push(Message::text(role, text));
            return Some(());
        }
        _ => return None,
    };
    // Items of OpenAI's Responses API are not always in a message.
    if !object.contains_key("role") && object.get("type").is_some_and(is_item_type) {
        let role = item_role(&object).unwrap_or(role);
        parts(vec![Value::Object(object)], role, None, to);
        return Some(());
    }
    // A choice has its message in a member.
    if let Some(Value::Object(inner)) = object.remove("message") {
        object = inner;
    }
    let named = text_of(&mut object, &["role"]).and_then(|name| role_of(&name));
    let role = named.unwrap_or(role);
    let members = ["parts", "content", "contents"];
    let content = members.into_iter().find_map(|name| object.remove(name));
    let mut content = match content {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(parts)) => parts,
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        // Some write the blocks of a message as text.
        Some(Value::String(text)) if text.starts_with("[{\"") => {
            serde_json::from_str(&text).unwrap_or_else(|_| vec![Value::String(text)])
        }
        Some(other) => vec![other],
    };
    for (name, kind) in [
        ("reasoning_content", "reasoning"),
        ("reasoning", "reasoning"),
    ] {
        if let Some(text) = text_of(&mut object, &[name]) {
            let mut part = Map::new();
            part.insert("type".to_owned(), kind.into());
            part.insert("content".to_owned(), text.into());
            content.insert(0, Value::Object(part));
        }
    }
    if let Some(Value::Array(calls)) = object.remove("tool_calls") {
        content.extend(calls.into_iter().map(|call| typed(call, "tool_call")));
    }
    if let Some(call @ Value::Object(_)) = object.remove("function_call") {
        content.push(typed(call, "tool_call"));
    }
    let answers = text_of(&mut object, &["tool_call_id", "tool_use_id", "id"]);
    let answers = answers.filter(|_| role == Role::Tool);
    parts(content, role, answers, to);
    Some(())
}

fn typed(mut value: Value, kind: &str) -> Value {
    if let Value::Object(object) = &mut value {
        object.insert("type".to_owned(), kind.into());
    }
    value
}

fn is_text_type(kind: &Value) -> bool {
    kind == "text" || kind == "summary_text"
}

fn is_item_type(kind: &Value) -> bool {
    let kinds = [
        "function_call",
        "function_call_output",
        "reasoning",
        "text",
        "tool_call",
        "tool_call_response",
        "tool_use",
        "tool_result",
        "input_text",
        "output_text",
    ];
    kind.as_str().is_some_and(|kind| kinds.contains(&kind))
}

fn item_role(object: &Map<String, Value>) -> Option<Role> {
    match object.get("type")?.as_str()? {
        "function_call" | "reasoning" | "tool_call" | "tool_use" | "output_text" => {
            Some(Role::Assistant)
        }
        "function_call_output" | "tool_call_response" | "tool_result" => Some(Role::Tool),
        _ => None,
    }
}

/// The role of a name in any of the forms.
pub(super) fn role_of(name: &str) -> Option<Role> {
    Some(match name {
        "system" | "developer" => Role::System,
        "user" | "human" => Role::User,
        "assistant" | "model" | "ai" => Role::Assistant,
        "tool" | "function" | "tool_result" => Role::Tool,
        _ => return None,
    })
}

/// Adds a message of parts. Each tool result becomes a message of its own, before the rest.
/// `answers` is the call whose result the message is, if its parts do not say it.
fn parts(parts: Vec<Value>, role: Role, answers: Option<String>, to: &mut Vec<Message>) {
    let mut rest = Message::new(role);
    for part in parts {
        match read_part(part) {
            Part::Text(text) => rest.texts.push(text),
            Part::Reasoning(text) => rest.reasoning.push(text),
            // Some report a call in two ways.
            Part::Call(call) if !call.id.is_empty() && rest.calls.contains(&call) => {}
            Part::Call(call) => rest.calls.push(call),
            Part::Result(mut result) => {
                if result.call_id.is_empty() {
                    result.call_id = answers.clone().unwrap_or_default();
                }
                to.push(Message {
                    result: Some(result),
                    ..Message::new(Role::Tool)
                });
            }
            Part::Other(other) => rest.others.push(other),
        }
    }
    if let Some(call_id) = answers
        && !rest.texts.is_empty()
    {
        let text = std::mem::take(&mut rest.texts).join("\n\n");
        rest.result = Some(ToolResult { call_id, text });
    }
    rest.texts.retain(|text| !text.is_empty());
    rest.reasoning.retain(|text| !text.is_empty());
    if !rest.is_empty() {
        to.push(rest);
    }
}

/// The parts of one message in a role, such as the system instructions.
pub(super) fn of_parts(value: Value, role: Role) -> Vec<Message> {
    let mut found = Vec::new();
    match value {
        Value::Array(list) => parts(list, role, None, &mut found),
        Value::Null => {}
        other => parts(vec![other], role, None, &mut found),
    }
    found
}

enum Part {
    Text(String),
    Reasoning(String),
    Call(Call),
    Result(ToolResult),
    Other(Value),
}

fn read_part(part: Value) -> Part {
    let mut object = match part {
        Value::String(text) => return Part::Text(text),
        Value::Object(object) => object,
        other => return Part::Other(other),
    };
    // OpenInference has each block and each call in a member.
    for name in ["tool_call", "message_content"] {
        if let Some(Value::Object(inner)) = object.get_mut(name) {
            let mut inner = std::mem::take(inner);
            if name == "tool_call" {
                inner.insert("type".to_owned(), "tool_call".into());
            }
            object = inner;
            break;
        }
    }
    let kind = object.get("type").and_then(Value::as_str).unwrap_or("text");
    match kind {
        "text" | "input_text" | "output_text" => text_of(&mut object, &["content", "text"])
            .map_or_else(|| Part::Other(Value::Object(object)), Part::Text),
        "reasoning" | "thinking" => {
            text_of(&mut object, &["content", "text", "thinking", "reasoning"]).map_or_else(
                || Part::Other(Value::Object(object)),
                |text| Part::Reasoning(blocks_text(text)),
            )
        }
        "tool_call" | "tool_use" | "tool-call" | "function_call" | "function" => {
            Part::Call(call(object))
        }
        "tool_call_response" | "tool_result" | "tool-result" | "function_call_output" => {
            Part::Result(result(object))
        }
        _ => Part::Other(Value::Object(object)),
    }
}

fn call(mut object: Map<String, Value>) -> Call {
    let id = text_of(
        &mut object,
        &["call_id", "toolCallId", "tool_call_id", "id"],
    );
    if let Some(Value::Object(function)) = object.remove("function") {
        object = function;
    }
    let name = text_of(&mut object, &["name", "toolName"]);
    let args = ["arguments", "input", "args", "parameters"];
    let args = args.into_iter().find_map(|name| object.remove(name));
    Call {
        id: id.unwrap_or_default(),
        name: name.unwrap_or_default(),
        args: args.map(json_text).unwrap_or_default(),
    }
}

fn result(mut object: Map<String, Value>) -> ToolResult {
    let id = ["call_id", "tool_use_id", "toolCallId", "tool_call_id", "id"];
    let id = text_of(&mut object, &id);
    let values = ["response", "result", "content", "output"];
    let value = values.into_iter().find_map(|name| object.remove(name));
    ToolResult {
        call_id: id.unwrap_or_default(),
        text: value.map(result_text).unwrap_or_default(),
    }
}

/// The text of a result. Blocks of text are joined.
fn result_text(value: Value) -> String {
    match value {
        Value::Array(blocks) => {
            let text = |block: &Value| match block {
                Value::String(text) => Some(text.clone()),
                Value::Object(object) if object.get("type").is_some_and(is_text_type) => {
                    let text = object.get("text").or_else(|| object.get("content"));
                    text.and_then(Value::as_str).map(str::to_owned)
                }
                _ => None,
            };
            let texts: Option<Vec<String>> = blocks.iter().map(text).collect();
            texts.map_or_else(
                || Value::Array(blocks).to_string(),
                |texts| texts.join("\n\n"),
            )
        }
        // The output of a tool in the Vercel AI SDK.
        Value::Object(mut object) if object.contains_key("type") && object.len() == 2 => {
            match object.remove("value") {
                Some(value) => json_text(value),
                None => Value::Object(object).to_string(),
            }
        }
        other => json_text(other),
    }
}

/// The texts of blocks that are written as text; otherwise the text.
fn blocks_text(text: String) -> String {
    if !text.starts_with("[{") {
        return text;
    }
    serde_json::from_str(&text).map_or(text, result_text)
}

/// A text as it is, other values as JSON.
pub(super) fn json_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Takes the first of these members that is a text.
fn text_of(object: &mut Map<String, Value>, names: &[&str]) -> Option<String> {
    for name in names {
        match object.get_mut(*name) {
            Some(Value::String(text)) => return Some(std::mem::take(text)),
            Some(Value::Number(number)) => return Some(number.to_string()),
            _ => {}
        }
    }
    None
}
