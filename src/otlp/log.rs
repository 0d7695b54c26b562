//! Log records: the events of the GenAI conventions, and those of Claude Code and Codex.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};
use uuid::Uuid;

use super::attributes::Meant;
use super::events;
use super::item::{Item, Origin, SpanRef, millis};
use super::mapping::Operation;
use super::message::{self, Message};
use super::proto::{KeyValue, LogRecord};
use super::value::{parsed, to_name};
use crate::import::named;
use crate::record::Role;

/// Makes items of log records, each with the number of its records.
#[derive(Default)]
pub(super) struct Records {
    items: Vec<(usize, Box<Item>)>,
    /// The messages of a span that are events of their own, by the span.
    of_spans: HashMap<SpanRef, usize>,
}

impl Records {
    /// Adds a record.
    pub(super) fn add(&mut self, record: LogRecord, origin: &Origin) {
        let record = Record::read(record, origin);
        if let (Some(span), Some(role)) = (record.span, role_of(&record.name))
            && let Some(messages) = said(&record, role)
        {
            let place = *self.of_spans.entry(span).or_insert_with(|| {
                let mut item = record.clone().item();
                item.operation = Operation::Inference;
                item.key = span.turn;
                item.rest = Map::new();
                self.items.push((0, Box::new(item)));
                self.items.len() - 1
            });
            let (size, item) = &mut self.items[place];
            *size += 1;
            item.start = item.start.min(record.at);
            item.end = item.end.max(Some(record.at));
            if record.name == CHOICE {
                item.output.extend(messages);
            } else {
                item.input.extend(messages);
            }
            return;
        }
        self.items.push((1, Box::new(events::item(record))));
    }

    pub(super) fn into_items(self) -> Vec<(usize, Box<Item>)> {
        self.items
    }
}

const CHOICE: &str = "gen_ai.choice";
/// The event that describes a request to a model.
const DETAILS: &str = "gen_ai.client.inference.operation.details";

/// The role of an event that is one message, in earlier versions of the conventions.
fn role_of(name: &str) -> Option<Role> {
    Some(match name {
        "gen_ai.system.message" => Role::System,
        "gen_ai.user.message" => Role::User,
        "gen_ai.assistant.message" | CHOICE => Role::Assistant,
        "gen_ai.tool.message" => Role::Tool,
        _ => return None,
    })
}

fn said(record: &Record, role: Role) -> Option<Vec<Message>> {
    let mut body = match &record.body {
        Json::Object(body) => body.clone(),
        _ => return None,
    };
    // Calls may stand beside the message that makes them.
    if let Some(calls) = body.remove("tool_calls") {
        match body.get_mut("message") {
            Some(Json::Object(inner)) => inner.entry("tool_calls").or_insert(calls),
            _ => body.entry("tool_calls").or_insert(calls),
        };
    }
    let mut found = Vec::new();
    message::message(Json::Object(body), role, &mut found)?;
    Some(found)
}

/// A log record with its name.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) name: String,
    /// Derived from what the record says, so that a record that is sent again has the same id.
    pub(super) id: Uuid,
    /// Epoch milliseconds.
    pub(super) at: i64,
    pub(super) span: Option<SpanRef>,
    pub(super) trace: Option<Uuid>,
    pub(super) attributes: Vec<KeyValue>,
    pub(super) body: Json,
    pub(super) about: Map<String, Json>,
    program: Option<String>,
}

impl Record {
    fn read(mut record: LogRecord, origin: &Origin) -> Record {
        let id = named("otlp:log", &identity(&record, origin));
        let span = SpanRef::new(&record.trace_id, &record.span_id);
        let trace = span.map(|span| span.trace);
        let trace = trace.or_else(|| super::item::trace_of(&record.trace_id));
        // Codex has the name in the attribute, and a line of its source as the event's name.
        let at = record
            .attributes
            .iter()
            .position(|it| it.key == "event.name");
        let name = at.map(|at| record.attributes.remove(at));
        let name = name.and_then(|it| it.value).and_then(to_name);
        let event_name = std::mem::take(&mut record.event_name);
        let name = name.unwrap_or(event_name);
        let nanos = match record.time_unix_nano {
            0 => record.observed_time_unix_nano,
            time => time,
        };
        let body = record.body.take().map_or(Json::Null, parsed);
        let mut about = Map::new();
        let mut add = |name: &str, value: Json| about.insert(name.to_owned(), value);
        add("event", name.clone().into());
        if let Some(trace) = trace {
            add("trace_id", trace.simple().to_string().into());
        }
        if let Some(span) = span {
            add("span_id", format!("{:016x}", span.span).into());
        }
        if !origin.scope.is_empty() {
            add("scope", origin.scope.clone().into());
        }
        if let Some(resource) = origin.resource {
            add("resource", resource.to_string().into());
        }
        if record.severity_number != 0 {
            add("severity", record.severity_number.into());
        }
        if !record.severity_text.is_empty() {
            add(
                "severity_text",
                std::mem::take(&mut record.severity_text).into(),
            );
        }
        if record.dropped_attributes_count > 0 {
            add("dropped_attributes", record.dropped_attributes_count.into());
        }
        Record {
            name,
            id,
            at: millis(nanos),
            span,
            trace,
            attributes: record.attributes,
            body,
            about,
            program: origin.program.clone(),
        }
    }

    /// The item of the record by the meaning of its attributes.
    pub(super) fn item(mut self) -> Item {
        if !self.body.is_null() {
            let body = std::mem::take(&mut self.body);
            self.about.insert("body".to_owned(), body);
        }
        let is_details = self.name == DETAILS;
        let meant = Meant::of(self.attributes);
        let mut item = if is_details {
            Item::of_operation(Operation::Inference, meant, self.about)
        } else {
            Item::new(meant, self.about)
        };
        item.program = self.program;
        item.key = self.id;
        if is_details {
            item.key = self.span.map_or(self.id, |span| span.turn);
        }
        item.span = self.span;
        item.trace = self.trace;
        item.start = self.at;
        item.end = Some(self.at);
        item.is_event = true;
        item
    }
}

/// What tells a record from others.
fn identity(record: &LogRecord, origin: &Origin) -> String {
    use prost::Message as _;
    let hash = xxhash_rust::xxh3::xxh3_128(&record.encode_to_vec());
    let resource = origin.resource.unwrap_or_default();
    format!("{hash:032x}:{resource}:{}", origin.scope)
}
