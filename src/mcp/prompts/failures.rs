//! Failures and decisions in a time range.

use serde_json::{Value, json};

use super::super::log::Log;
use super::short::{clipped, fitting, name, without_nulls};
use crate::analytics::AnalyticsQuery;
use crate::collections::{CallQuery, EventQuery, Order};
use crate::error::Result;
use crate::record::{CallStatus, Day, Event, ThoughtType, ToolCall, event_type};
use crate::store::Store;

/// Maximum size of each list, in bytes of JSON.
const LIST_BYTES_MAX: usize = 8 << 10;
/// Maximum number of records of each type.
const LOOKED_AT_MAX: usize = 50;
const TEXT_BYTES_MAX: usize = 500;

/// The types of events that report a failure.
const FAILED: [&str; 7] = [
    event_type::AGENT_FAILED,
    event_type::TOOL_CALL_FAILED,
    event_type::CRASH_LOOP_DETECTED,
    event_type::ROLLBACK_ATTEMPTED,
    "turn.failed",
    "llm_call.failed",
    "process.failed",
];

/// Failures, each type latest first. The time range: start inclusive, end exclusive, in epoch
/// milliseconds.
pub(super) fn gather(log: &Log, (since, until): (i64, i64)) -> Result<Value> {
    let Log {
        store, analytics, ..
    } = log;
    let calls = store.tool_calls(&CallQuery {
        status: Some(CallStatus::Failed),
        since: Some(since),
        until: Some(until),
        limit: LOOKED_AT_MAX,
        ..CallQuery::default()
    })?;
    let errors = analytics.errors(&AnalyticsQuery {
        since: Some(Day::of(since)?),
        until: Day::of(until).ok(),
        ..AnalyticsQuery::default()
    })?;
    let samples = errors.samples.iter();
    let samples = samples.filter(|sample| (since..until).contains(&sample.timestamp.at()));
    let samples = samples.map(|sample| {
        without_nulls(json!({
            "message_id": sample.id,
            "conversation_id": sample.conversation_id,
            "timestamp": sample.timestamp,
            "model_used": sample.model_used.as_deref().map(name),
            "error_type": sample.error_type.as_deref().map(name),
            "error": clipped(&sample.error, TEXT_BYTES_MAX),
        }))
    });
    let mut events = Vec::new();
    for kind in FAILED {
        let found = store.events(&EventQuery {
            event_type: Some(kind.to_owned()),
            since: Some(since),
            until: Some(until),
            order: Order::NewestFirst,
            limit: LOOKED_AT_MAX,
            ..EventQuery::default()
        })?;
        events.extend(found.items);
    }
    events.sort_by_key(|event| std::cmp::Reverse(event.id));
    Ok(json!({
        "failed_calls": fitting(calls.items.iter().map(call), LIST_BYTES_MAX),
        "errors": fitting(samples, LIST_BYTES_MAX),
        "failed_events": fitting(events.iter().map(event), LIST_BYTES_MAX),
    }))
}

fn call((req, done): &ToolCall) -> Value {
    let done = done.as_ref();
    let text = |text: Option<&String>| text.map(|text| clipped(text, TEXT_BYTES_MAX));
    without_nulls(json!({
        "request_id": req.request_id,
        "call_id": name(&req.call_id),
        "tool_name": name(&req.tool_name),
        "started_at": req.started_at.at,
        "latency_ms": done.map(|done| done.latency_ms),
        "error_kind": done.and_then(|done| done.error_kind.as_deref()).map(name),
        "error_msg": text(done.and_then(|done| done.error_msg.as_ref())),
        "arguments": text(req.arguments_json.as_ref()),
    }))
}

fn event(event: &Event) -> Value {
    let payload = event.payload.as_deref();
    without_nulls(json!({
        "id": event.id,
        "parent_id": event.parent_id,
        "event_type": name(&event.event_type),
        "created_at": event.created_at,
        "payload": payload.map(|text| clipped(text, TEXT_BYTES_MAX)),
    }))
}

/// Decisions in a time range.
pub(super) fn decisions(store: &Store, times: (i64, i64)) -> Result<Value> {
    let thoughts = store.thoughts();
    let is_decision =
        |thought: &crate::record::ThoughtRecord| thought.thought_type == ThoughtType::Decision;
    let found = thoughts.of_time(times, LOOKED_AT_MAX, is_decision)?;
    let found = found.iter().map(|thought| {
        json!({
            "id": name(&thought.id),
            "task_id": name(&thought.task_id),
            "agent_id": name(&thought.agent_id),
            "timestamp": thought.timestamp,
            "content": clipped(&thought.content, TEXT_BYTES_MAX),
        })
    });
    Ok(fitting(found, LIST_BYTES_MAX))
}
