//! Tool calls: rates and latencies by tool, and the calls themselves.

use maud::{Markup, html};

use super::content::{Budget, arguments, output};
use super::layout::{Page, choice, filters, pager};
use super::lines::of_call;
use super::message::{address, message_of};
use super::params::Params;
use super::text::time;
use super::{Answer, Site, tools};
use crate::collections::{CallQuery, Cursor};
use crate::human::{duration, one_line, tool_arguments};
use crate::record::{CallStatus, ConversationMessage, Kind, ToolCall};

const PATH: &str = "/ui/calls";
const CALLS: usize = 50;
const ARGUMENT_CHARS: usize = 120;

pub(super) fn page(site: &Site<'_>, params: &Params) -> Answer {
    let query = CallQuery {
        status: params.read::<CallStatus>("status")?,
        vendor: params.text("vendor"),
        tool_name: params.text("tool"),
        since: params.days()?.0,
        until: params.days()?.1,
        limit: CALLS,
        after: params.read::<Cursor>("after")?,
        ..CallQuery::default()
    };
    let calls = site.store.tool_calls(&query)?;
    let next = params.next(PATH, calls.next.as_ref());
    let mut rows = Vec::with_capacity(calls.items.len());
    for it in &calls.items {
        rows.push((it, message_of(site.store, it.0.parent_id)?));
    }
    let budget = Budget::of_page();
    let main = html! {
        h1 { "Tool calls" }
        (filters(params, PATH, &[
            ("tool", "text", "Tool"),
            ("since", "date", "From day (UTC)"),
            ("until", "date", "To day (UTC)"),
        ]))
        (choice("Status", params, PATH, "status", &[
            (None, "all"), (Some("failed"), "failed"), (Some("requested"), "running"), (Some("completed"), "completed"),
        ]))
        (tools::table(site, params)?)
        h2 { "Calls" }
        div data-part="calls" {
            @if calls.items.is_empty() { p.empty { "No calls match." } }
            div.messages {
                @for (it, message) in &rows { (call(it, message.as_ref(), &budget)) }
            }
            @if !calls.items.is_empty() { (pager(calls.items.len(), "call", next)) }
        }
    };
    Ok(Page::new("Tool calls", PATH, main).live(&[Kind::ToolCalls]))
}

/// A call, with a link to the message that made it.
fn call(
    (request, done): &ToolCall,
    message: Option<&ConversationMessage>,
    budget: &Budget,
) -> Markup {
    let status = CallStatus::of(done.as_ref());
    let is_failed = status == CallStatus::Failed;
    let given = request.arguments_json.as_deref().unwrap_or_default();
    let lines = of_call(&request.request_id.to_string(), &request.call_id);
    html! {
        article class={ "message call" @if is_failed { " failed" } } data-item data-failed[is_failed] {
            header {
                strong { (one_line(&request.tool_name, 80)) }
                span.tag.failed[is_failed] {
                    (status.as_str())
                    @if let Some(kind) = done.as_ref().and_then(|done| done.error_kind.as_deref()) { ": " (one_line(kind, 60)) }
                }
                @if let Some(done) = done { span { (duration(done.latency_ms)) } }
                span.far { (time(request.started_at.at)) }
                @if let Some(message) = message { a href=(address(message)) { "Conversation" } }
                a href=(lines) { "JSONL" }
            }
            details id={ "call-" (request.request_id) "-" (one_line(&request.call_id, 80)) } {
                summary { code { (one_line(&tool_arguments(given), ARGUMENT_CHARS)) } }
                (arguments(given, budget))
                @if let Some(error) = done.as_ref().and_then(|done| done.error_msg.as_deref()) {
                    p.error { (super::text::cut(error, 4_000).0) }
                }
                @if let Some(outcome) = done.as_ref().and_then(|done| done.outcome_json.as_deref()) {
                    (outcome_of(outcome, budget))
                }
            }
        }
    }
}

/// An outcome: JSON, or the text in a JSON string.
fn outcome_of(outcome: &str, budget: &Budget) -> Markup {
    match serde_json::from_str::<String>(outcome) {
        Ok(text) => output(&text, budget),
        Err(_) => output(outcome, budget),
    }
}
