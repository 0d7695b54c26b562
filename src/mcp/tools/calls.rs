//! Tool calls: requested, done, and read.

use serde_json::Value;
use uuid::Uuid;

use super::super::answer::Fault;
use super::Call;
use super::given::{FromChar, Limit, Listed, Time, page, put};
use crate::collections::{CallQuery, Cursor, Order, Page};
use crate::error::{Error, ErrorKind};
use crate::record::{CallStatus, Kind, ToolCall, ToolCallView};
use crate::wire::new::{NewCall, NewOutcome};

tools! {
    /// Records the start of a tool call, before the tool runs. Record its outcome with
    /// tool_call_done under the same request_id and call_id.
    tool_call_requested("Record a tool call", AddsOnce) => put(NewCall)

    /// Records the outcome of a call recorded by tool_call_requested. The first outcome is final: a
    /// tool that runs again is another call.
    tool_call_done("Record the outcome of a tool call", AddsOnce) => put(NewOutcome)

    /// Reads one tool call with its arguments and its outcome.
    tool_call_get("Read a tool call", Reads, [Kind::ToolCalls]) => get(Get {
        /// As in the request.
        request_id: Uuid,
        /// As in the request.
        call_id: String,
        /// Its state at this time. Default: now.
        as_of: Option<Time>,
        /// First character to show of truncated texts. Default: 0.
        from_char: Option<FromChar>,
    })

    /// Lists tool calls with their outcomes, oldest first: of a turn, of a model request, or with
    /// an id.
    tool_calls_list("List tool calls", Reads, [Kind::ToolCalls]) => list(List {
        /// Only calls of this turn: a UUID.
        parent_id: Option<Uuid>,
        /// Only calls of this model request: a UUID.
        request_id: Option<Uuid>,
        /// Only calls with this id, in any request.
        call_id: Option<String>,
        /// Only calls with this status.
        status: Option<CallStatus>,
        /// Their state at this time. Default: now.
        as_of: Option<Time>,
        /// Maximum number of results. Default: 100.
        limit: Option<Limit>,
        /// The next_cursor of the previous page.
        cursor: Option<Cursor>,
        /// The first character to show of texts that were truncated. Default: 0.
        from_char: Option<FromChar>,
    })
}

/// A call with its arguments and its outcome.
fn view(call: &ToolCall) -> crate::Result<Value> {
    serde_json::to_value(ToolCallView::from(call)).map_err(|error| {
        let message = format!("the tool call cannot be encoded as JSON: {error}");
        Error::new(ErrorKind::Damaged, message)
    })
}

fn get(call: &Call<'_>, given: Get) -> Result<Value, Fault> {
    let store = call.store.as_of(given.as_of.map(|time| time.0));
    let found = store.get_tool_call(given.request_id, &given.call_id)?;
    let found = found.ok_or_else(|| {
        Fault::unknown(
            "call_id",
            "no such call: find calls with tool_calls_list or log_search",
        )
    })?;
    Ok(view(&found)?)
}

fn list(call: &Call<'_>, given: List) -> Result<Listed<Value>, Fault> {
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
    page("calls", given.limit, given.cursor, read)
}
