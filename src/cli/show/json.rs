//! Records as one JSON object, with the field names of the files.

use decklog::{CallStatus, ConversationTurn, ToolCall, payload_json};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

/// A turn.
#[derive(Debug, Serialize)]
pub struct Turn<'a> {
    id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<Uuid>,
    message_id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<Uuid>,
    kind: &'a str,
    created_at: i64,
    content: &'a str,
}

impl<'a> Turn<'a> {
    pub fn new(turn: &'a ConversationTurn) -> Turn<'a> {
        Turn {
            id: turn.id,
            parent_id: turn.parent_id,
            message_id: turn.message_id,
            thread_id: turn.thread_id,
            kind: turn.kind.as_str(),
            created_at: turn.created_at.at,
            content: &turn.content,
        }
    }
}

/// A tool call and its outcome, which the files hold in a line each.
// `call_id` is what the files call it.
#[allow(clippy::struct_field_names)]
#[derive(Debug, Serialize)]
pub struct Call<'a> {
    request_id: Uuid,
    call_id: &'a str,
    parent_id: Uuid,
    vendor: &'a str,
    tool_name: &'a str,
    started_at: i64,
    args_sha256: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_json: Option<Box<RawValue>>,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_msg: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome_json: Option<Box<RawValue>>,
}

impl<'a> Call<'a> {
    pub fn new((req, done): &'a ToolCall) -> serde_json::Result<Call<'a>> {
        let done = done.as_ref();
        Ok(Call {
            request_id: req.request_id,
            call_id: &req.call_id,
            parent_id: req.parent_id,
            vendor: &req.vendor,
            tool_name: &req.tool_name,
            started_at: req.started_at.at,
            args_sha256: &req.args_sha256,
            arguments_json: payload(req.arguments_json.as_deref())?,
            status: CallStatus::of(done).as_str(),
            ended_at: done.map(|done| done.ended_at.at),
            latency_ms: done.map(|done| done.latency_ms),
            error_kind: done.and_then(|done| done.error_kind.as_deref()),
            error_msg: done.and_then(|done| done.error_msg.as_deref()),
            outcome_json: payload(done.and_then(|done| done.outcome_json.as_deref()))?,
        })
    }
}

fn payload(text: Option<&str>) -> serde_json::Result<Option<Box<RawValue>>> {
    text.map(|text| RawValue::from_string(payload_json(text).into_owned()))
        .transpose()
}
