//! Tool calls: requested, done, and read.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::super::answer::Fault;
use super::given::{FromChar, Limit, Put, Time, page, put};
use super::{Call, Effect, Tool};
use crate::collections::{CallQuery, Order, Page};
use crate::error::{Error, ErrorKind};
use crate::record::{
    CallStatus, Kind, ToolCall, ToolCallDone, ToolCallReq, ToolCallView, ToolStatus, Validity, now,
    payload_text,
};
use crate::wire::fields::Length;
use crate::wire::pages::After;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "tool_call_requested",
            "Record that a tool is called",
            "Records that a tool is being called, before it runs. Record its outcome with tool_call_done under the same request_id and call_id.",
            Effect::AddsOnce,
            requested,
        ),
        Tool::new(
            "tool_call_done",
            "Record the outcome of a tool call",
            "Records the outcome of a tool call that tool_call_requested recorded. The first outcome stands: a tool that runs again is another call.",
            Effect::AddsOnce,
            done,
        ),
        Tool::new(
            "tool_call_get",
            "Read a tool call",
            "Reads one tool call with its arguments and its outcome.",
            Effect::Reads,
            get,
        )
        .reading(&[Kind::ToolCalls]),
        Tool::new(
            "tool_calls_list",
            "List tool calls",
            "Lists tool calls with their outcomes, oldest first: of a turn, of a model request, or by their id.",
            Effect::Reads,
            list,
        )
        .reading(&[Kind::ToolCalls]),
    ]
}

/// A call as it is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Requested {
    /// The model request that asked for the call: a UUID.
    request_id: Uuid,
    /// The call's id within the request, as the vendor gave it.
    #[schema(min_length = 1, max_length = 1024)]
    call_id: String,
    /// The turn that made the call: a UUID.
    parent_id: Uuid,
    /// The vendor of the tool or model, such as anthropic.
    #[schema(max_length = 1024)]
    vendor: String,
    /// The tool's name.
    #[schema(max_length = 1024)]
    tool_name: String,
    /// SHA-256 of the arguments as canonical JSON. Default: computed. Give it alone to keep the arguments out of the log.
    #[schema(pattern = "^(sha256:)?[0-9a-fA-F]{64}$")]
    args_sha256: Option<String>,
    /// The arguments: any JSON, or a text, which is kept to the byte. Required without args_sha256.
    #[serde(default, with = "payload_text")]
    #[schema(value_type = Option<Value>)]
    arguments_json: Option<String>,
    /// When the call started. Default: now.
    started_at: Option<Time>,
}

fn requested(call: &Call<'_>, given: Requested) -> Result<Put, Fault> {
    let req = ToolCallReq {
        request_id: given.request_id,
        call_id: given.call_id,
        parent_id: given.parent_id,
        vendor: given.vendor,
        tool_name: given.tool_name,
        args_sha256: given.args_sha256.unwrap_or_default(),
        arguments_json: given.arguments_json,
        started_at: Validity::at(given.started_at.map_or_else(now, |at| at.0)),
    };
    Ok(put(call, req, given.started_at.is_some())?.into())
}

/// What came of a call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Done {
    /// As the call was requested.
    request_id: Uuid,
    /// As the call was requested.
    call_id: String,
    /// How it ended.
    status: ToolStatus,
    /// How long it took, in milliseconds. Default: from when it started until it ended.
    latency_ms: Option<Length>,
    /// When it ended. Default: now.
    ended_at: Option<Time>,
    /// What the tool returned: any JSON, or a text, which is kept to the byte.
    #[serde(default, with = "payload_text")]
    #[schema(value_type = Option<Value>)]
    outcome_json: Option<String>,
    /// The class of the error, such as timeout.
    error_kind: Option<String>,
    /// The error in words.
    error_msg: Option<String>,
}

fn done(call: &Call<'_>, given: Done) -> Result<Put, Fault> {
    let ended_at = given.ended_at.map_or_else(now, |at| at.0);
    let latency_ms = if let Some(latency) = given.latency_ms {
        latency.0
    } else {
        let begun = call.store.get_tool_call(given.request_id, &given.call_id)?;
        begun.map_or(0, |(req, _)| {
            ended_at.saturating_sub(req.started_at.at).max(0)
        })
    };
    let done = ToolCallDone {
        request_id: given.request_id,
        call_id: given.call_id,
        ended_at: Validity::at(ended_at),
        latency_ms,
        outcome_json: given.outcome_json,
        error_kind: given.error_kind,
        error_msg: given.error_msg,
        status: given.status,
    };
    Ok(put(call, done, given.ended_at.is_some())?.into())
}

/// Which call to read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Get {
    /// As the call was requested.
    request_id: Uuid,
    /// As the call was requested.
    call_id: String,
    /// As it stood at this time. Default: now.
    as_of: Option<Time>,
    /// The first character to show of texts that were truncated. Default: 0.
    #[allow(dead_code)] // The answer is cut by it.
    from_char: Option<FromChar>,
}

/// A call with its arguments and its outcome.
fn view(call: &ToolCall) -> crate::Result<Value> {
    serde_json::to_value(ToolCallView::from(call)).map_err(|error| {
        let message = format!("the tool call in the log is not JSON: {error}");
        Error::new(ErrorKind::Damaged, message)
    })
}

fn get(call: &Call<'_>, given: Get) -> Result<Value, Fault> {
    let store = call.store.as_of(given.as_of.map(|time| time.0));
    let found = store.get_tool_call(given.request_id, &given.call_id)?;
    let found = found.ok_or_else(|| {
        Fault::not_found("there is no such call of this request: tool_calls_list or log_search shows which there are")
            .with_field("call_id")
    })?;
    Ok(view(&found)?)
}

/// Whose calls to list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Only calls that this turn made: a UUID.
    parent_id: Option<Uuid>,
    /// Only calls that this model request asked for: a UUID.
    request_id: Option<Uuid>,
    /// Only calls with this id, of whatever request.
    call_id: Option<String>,
    /// Only calls with this status.
    status: Option<CallStatus>,
    /// As they stood at this time. Default: now.
    as_of: Option<Time>,
    /// Maximum number of results. Default: 50.
    limit: Option<Limit>,
    /// The next_cursor of the previous page.
    cursor: Option<After>,
    /// The first character to show of texts that were truncated. Default: 0.
    #[allow(dead_code)] // The answer is cut by it.
    from_char: Option<FromChar>,
}

/// Tool calls, oldest first.
#[derive(Debug, Serialize)]
struct Listed {
    calls: Vec<Value>,
    /// Give it as cursor for those that follow. Missing where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn list(call: &Call<'_>, given: List) -> Result<Listed, Fault> {
    let as_of = given.as_of.map(|time| time.0);
    let read = |limit, after| {
        let page = call.store.as_of(as_of).tool_calls(&CallQuery {
            parent_id: given.parent_id,
            request_id: given.request_id,
            call_id: given.call_id.clone(),
            status: given.status,
            order: Order::OldestFirst,
            limit,
            after,
            ..CallQuery::default()
        })?;
        Ok(Page {
            items: page.items.iter().map(view).collect::<Result<_, _>>()?,
            next: page.next,
        })
    };
    let page = page(given.limit, given.cursor, read)?;
    Ok(Listed {
        calls: page.items,
        next_cursor: page.next,
    })
}
