//! Spans that were received and have no place of their own in the log, such as the run of an agent
//! or a request to another service. They are sent on as they came.

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::FAILED;
use super::attributes::structured;
use super::ids::{SpanId, TraceId, bytes};
use crate::collections::is_received;
use crate::error::Result;
use crate::otlp::mapping::{Operation, meaning, span_kind_of};
use crate::otlp::own;
use crate::otlp::proto::{KeyValue, Link, Span, SpanEvent, Status};
use crate::record::{ConversationTurn, Record};

/// What the turn of a received span has, as `otlp::item` keeps it.
#[derive(Deserialize)]
struct Kept {
    otel: Otel,
}

#[derive(Deserialize)]
struct Otel {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    name: String,
    kind: String,
    start_ns: u64,
    end_ns: u64,
    #[serde(default)]
    trace_state: String,
    #[serde(default)]
    attributes: Map<String, Json>,
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default)]
    links: Vec<KeptLink>,
    error: Option<String>,
    /// What is kept under a name of its own, beside the attributes.
    #[serde(flatten)]
    named: Map<String, Json>,
}

#[derive(Deserialize)]
struct Event {
    name: String,
    time_ns: u64,
    #[serde(default)]
    attributes: Map<String, Json>,
}

#[derive(Deserialize)]
struct KeptLink {
    trace_id: String,
    span_id: String,
    #[serde(default)]
    attributes: Map<String, Json>,
}

/// The names of attributes that are kept under other names.
const NAMES: &[(&str, &str)] = &[
    ("agent", "gen_ai.agent.name"),
    ("provider", "gen_ai.provider.name"),
    ("model", "gen_ai.response.model"),
    ("response_id", "gen_ai.response.id"),
    ("conversation", "gen_ai.conversation.id"),
    ("error_type", "error.type"),
    ("request_model", "gen_ai.request.model"),
    ("tokens_in", "gen_ai.usage.input_tokens"),
    ("tokens_out", "gen_ai.usage.output_tokens"),
    ("tokens_cache_read", "gen_ai.usage.cache_read.input_tokens"),
    (
        "tokens_cache_write",
        "gen_ai.usage.cache_creation.input_tokens",
    ),
    ("tokens_reasoning", "gen_ai.usage.reasoning.output_tokens"),
    ("cost_usd", "decklog.cost_usd"),
    ("input", "gen_ai.input.messages"),
    ("output", "gen_ai.output.messages"),
];

/// The span of a turn; `None` if the turn is not that of a received span that ended, or is that of
/// a tool, whose call has a span.
pub(super) fn span(turn: &ConversationTurn, record: &Record) -> Result<Option<Span>> {
    let Some((otel, (trace_id, span_id))) = read(turn) else {
        return Ok(None);
    };
    let parent = otel.parent_span_id.as_deref().and_then(bytes::<8>);
    let mut attributes = key_values(&otel.attributes);
    for (name, key) in NAMES {
        match otel.named.get(*name) {
            // Messages are JSON as text in spans.
            Some(list @ Json::Array(_)) => {
                attributes.push(key_value(key, &list.to_string().into()));
            }
            Some(value) => attributes.push(key_value(key, value)),
            None => {}
        }
    }
    own::add(&[record], &mut attributes)?;
    let is_failed = otel.error.is_some() || otel.named.contains_key("error_type");
    Ok(Some(Span {
        trace_id: trace_id.to_vec(),
        span_id: span_id.to_vec(),
        parent_span_id: parent.map(|id| id.to_vec()).unwrap_or_default(),
        trace_state: otel.trace_state,
        name: otel.name,
        kind: span_kind_of(&otel.kind),
        start_time_unix_nano: otel.start_ns,
        end_time_unix_nano: otel.end_ns,
        attributes,
        events: otel.events.into_iter().map(event).collect(),
        links: otel.links.iter().filter_map(link).collect(),
        status: is_failed.then(|| Status {
            message: otel.error.unwrap_or_default(),
            code: FAILED,
        }),
        ..Span::default()
    }))
}

/// Whether a turn is that of a received span that is sent on.
pub(super) fn is_span(turn: &ConversationTurn) -> bool {
    read(turn).is_some()
}

fn read(turn: &ConversationTurn) -> Option<(Otel, (TraceId, SpanId))> {
    if !is_received(turn) {
        return None;
    }
    let kept: Kept = serde_json::from_str(&turn.content).ok()?;
    let otel = kept.otel;
    let operation = |(key, value): (&String, &Json)| {
        let (field, _) = meaning(key)?;
        Operation::of(field, value.as_str()?)
    };
    let mut operations = otel.attributes.iter().filter_map(operation);
    if operations.any(|it| it == Operation::Tool) || otel.name.starts_with("execute_tool ") {
        return None;
    }
    let ids = (bytes(&otel.trace_id)?, bytes(&otel.span_id)?);
    Some((otel, ids))
}

fn key_value(key: &str, value: &Json) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(structured(value)),
    }
}

fn key_values(attributes: &Map<String, Json>) -> Vec<KeyValue> {
    let attributes = attributes.iter();
    attributes
        .map(|(key, value)| key_value(key, value))
        .collect()
}

fn event(event: Event) -> SpanEvent {
    SpanEvent {
        time_unix_nano: event.time_ns,
        attributes: key_values(&event.attributes),
        name: event.name,
        ..SpanEvent::default()
    }
}

fn link(link: &KeptLink) -> Option<Link> {
    Some(Link {
        trace_id: bytes::<16>(&link.trace_id)?.to_vec(),
        span_id: bytes::<8>(&link.span_id)?.to_vec(),
        attributes: key_values(&link.attributes),
        ..Link::default()
    })
}
