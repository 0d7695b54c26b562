//! The attributes of a span or a log record by their meaning.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::mapping::{FLATTENED, Field, Operation, meaning};
use super::message::{self, Message};
use super::proto::{AnyValue, KeyValue, SpanEvent, Value};
use super::value::{parsed, to_count, to_json, to_name};
use crate::record::Role;

/// An attribute that has a meaning.
struct Meaning {
    field: Field,
    /// Of two attributes with the same meaning, the one with the lower place applies.
    place: usize,
    key: String,
    value: AnyValue,
}

/// Attributes by their meaning.
#[derive(Default)]
pub(super) struct Meant {
    fields: Vec<Meaning>,
    /// Elements of lists by the field and the path.
    flattened: BTreeMap<(usize, Vec<String>), AnyValue>,
    /// What has no meaning.
    pub(super) rest: Map<String, Json>,
}

impl Meant {
    pub(super) fn of(attributes: Vec<KeyValue>) -> Meant {
        let mut meant = Meant::default();
        for KeyValue { key, value } in attributes {
            meant.add(key, value.unwrap_or_default());
        }
        meant
    }

    /// Keeps an attribute, also if there is another one with the same name.
    fn keep(&mut self, key: &str, value: Json) {
        let mut name = key.to_owned();
        let mut nth = 1;
        while self.rest.get(&name).is_some_and(|known| *known != value) {
            nth += 1;
            name = format!("{key} ({nth})");
        }
        self.rest.insert(name, value);
    }

    fn add(&mut self, key: String, value: AnyValue) {
        if let Some((field, place)) = meaning(&key) {
            let mut later = Meaning {
                field,
                place,
                key,
                value,
            };
            let Some(stands) = self.fields.iter_mut().find(|it| it.field == field) else {
                self.fields.push(later);
                return;
            };
            if later.place <= stands.place {
                std::mem::swap(stands, &mut later);
            }
            // An attribute that says the same once more is not kept.
            if stands.value != later.value {
                self.keep(&later.key, to_json(later.value));
            }
            return;
        }
        for (prefix, field) in FLATTENED {
            if let Some(path) = key.strip_prefix(prefix)
                && path.starts_with(|first: char| first.is_ascii_digit())
            {
                let path = path.split('.').map(str::to_owned).collect();
                self.flattened.insert((*field as usize, path), value);
                return;
            }
        }
        self.keep(&key, to_json(value));
    }

    pub(super) fn take(&mut self, field: Field) -> Option<AnyValue> {
        self.take_named(field).map(|(_, value)| value)
    }

    fn take_named(&mut self, field: Field) -> Option<(String, AnyValue)> {
        let at = self.fields.iter().position(|it| it.field == field)?;
        let found = self.fields.swap_remove(at);
        Some((found.key, found.value))
    }

    pub(super) fn name(&mut self, field: Field) -> Option<String> {
        self.take(field).and_then(to_name)
    }

    fn has(&self, field: Field) -> bool {
        self.fields.iter().any(|it| it.field == field)
    }

    fn peek(&self, field: Field) -> Option<&str> {
        let found = self.fields.iter().find(|it| it.field == field)?;
        match &found.value.value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn count(&mut self, field: Field) -> Option<u64> {
        self.take(field).and_then(|value| to_count(&value))
    }

    /// The list of a field whose elements are attributes of their own.
    fn unflattened(&mut self, field: Field) -> Option<Json> {
        let of_field = |(key, _): &(&(usize, Vec<String>), &AnyValue)| key.0 == field as usize;
        if !self.flattened.iter().any(|entry| of_field(&entry)) {
            return None;
        }
        let mut root = Tree::default();
        for ((at, path), value) in std::mem::take(&mut self.flattened) {
            if at == field as usize {
                root.insert(&path, value);
            } else {
                self.flattened.insert((at, path), value);
            }
        }
        Some(root.into_json())
    }

    /// The messages of a field. What cannot be read as messages is kept.
    pub(super) fn messages(&mut self, field: Field, role: Role) -> Vec<Message> {
        let mut found = self
            .unflattened(field)
            .and_then(|list| message::messages(list, role));
        if let Some((key, value)) = self.take_named(field) {
            let read = if found.is_some() {
                None
            } else {
                read_messages(&value, role)
            };
            match read {
                Some(read) => found = Some(read),
                None => self.keep(&key, to_json(value)),
            }
        }
        found.unwrap_or_default()
    }

    /// Gives back the fields that an operation does not use.
    pub(super) fn give_back(&mut self) {
        for unused in std::mem::take(&mut self.fields) {
            self.keep(&unused.key, to_json(unused.value));
        }
        for ((field, path), value) in std::mem::take(&mut self.flattened) {
            let prefix = FLATTENED.iter().find(|(_, of)| *of as usize == field);
            let prefix = prefix.map_or("", |(prefix, _)| prefix);
            self.keep(&[prefix, &path.join(".")].concat(), to_json(value));
        }
    }
}

/// The messages in a value: JSON as text, a list, or the text of one message. `None` for any other
/// value.
fn read_messages(value: &AnyValue, role: Role) -> Option<Vec<Message>> {
    match value.value.as_ref()? {
        Value::String(text) if text.trim_start().starts_with(['[', '{']) => {
            match serde_json::from_str(text) {
                Ok(list) => message::messages(list, role),
                Err(_) => Some(vec![Message::text(role, text.clone())]),
            }
        }
        Value::String(text) => Some(vec![Message::text(role, text.clone())]),
        _ => message::messages(to_json(value.clone()), role),
    }
}

/// An object or a list whose members are named by paths.
#[derive(Default)]
struct Tree {
    value: Option<AnyValue>,
    members: BTreeMap<String, Tree>,
}

impl Tree {
    fn insert(&mut self, path: &[String], value: AnyValue) {
        match path.split_first() {
            // Deeper than any message is.
            Some((first, rest)) if rest.len() < 16 => {
                self.members
                    .entry(first.clone())
                    .or_default()
                    .insert(rest, value);
            }
            Some((first, _)) => {
                self.members.entry(first.clone()).or_default().value = Some(value);
            }
            None => self.value = Some(value),
        }
    }

    fn into_json(self) -> Json {
        if self.members.is_empty() {
            return self.value.map_or(Json::Null, to_json);
        }
        let number = |name: &String| name.parse::<u32>().ok();
        if self.members.keys().all(|name| number(name).is_some()) {
            let mut members: Vec<(String, Tree)> = self.members.into_iter().collect();
            members.sort_by_key(|(name, _)| number(name));
            return members.into_iter().map(|(_, it)| it.into_json()).collect();
        }
        let members = self.members.into_iter();
        Json::Object(members.map(|(name, it)| (name, it.into_json())).collect())
    }
}

/// What the attributes say that an item stands for.
pub(super) fn operation(meant: &Meant, about: &Map<String, Json>) -> Operation {
    let fields = [Field::Operation, Field::SpanKind, Field::VercelOperation];
    let of_field = |field| Operation::of(field, meant.peek(field)?);
    if let Some(operation) = fields.into_iter().find_map(of_field) {
        return operation;
    }
    let has = |field| meant.has(field);
    let is_inference = has(Field::Output) || has(Field::TokensOut);
    if is_inference && (has(Field::RequestModel) || has(Field::ResponseModel)) {
        return Operation::Inference;
    }
    let is_named = about.get("name").and_then(Json::as_str);
    if is_named.is_some_and(|name| name.starts_with("execute_tool ")) {
        return Operation::Tool;
    }
    Operation::Other
}

/// The output whose parts are reported apart.
pub(super) fn apart(meant: &mut Meant) -> Option<Message> {
    let mut message = Message::new(Role::Assistant);
    message.texts.extend(meant.name(Field::OutputText));
    message.reasoning.extend(meant.name(Field::OutputReasoning));
    if let Some(calls) = meant.take(Field::OutputCalls) {
        let mut object = Map::new();
        object.insert("tool_calls".to_owned(), parsed(calls));
        let mut read = Vec::new();
        message::message(Json::Object(object), Role::Assistant, &mut read);
        message
            .calls
            .extend(read.into_iter().flat_map(|it| it.calls));
    }
    (!message.is_empty()).then_some(message)
}

/// Reads an event of a span whose attributes are the messages of the span. Returns any other event.
pub(super) fn absorbed(event: SpanEvent, meant: &mut Meant) -> Option<SpanEvent> {
    let names: &[(&str, &str)] = match event.name.as_str() {
        "gen_ai.client.inference.operation.details" => {
            for KeyValue { key, value } in event.attributes {
                meant.add(key, value.unwrap_or_default());
            }
            return None;
        }
        "tool.output" => &[("output", "gen_ai.tool.call.result")],
        "gen_ai.content.prompt" => &[("gen_ai.prompt", "gen_ai.prompt")],
        "gen_ai.content.completion" => &[("gen_ai.completion", "gen_ai.completion")],
        _ => return Some(event),
    };
    let mut event = event;
    event.attributes.retain_mut(|attribute| {
        let name = names.iter().find(|(from, _)| *from == attribute.key);
        if let Some((_, to)) = name {
            meant.add((*to).to_owned(), attribute.value.take().unwrap_or_default());
        }
        name.is_none()
    });
    (!event.attributes.is_empty()).then_some(event)
}
