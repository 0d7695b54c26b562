//! A message of a transcript: what the user, the model or a tool said.

use maud::{Markup, html};
use uuid::Uuid;

use super::content::{self, Budget};
use super::lines::of_call;
use super::text::time;
use crate::error::Result;
use crate::human::{count, dollars, duration, one_line, tool_arguments};
use crate::record::{CallStatus, ContentType, ConversationMessage, Role, ToolCall, ToolStatus};
use crate::store::Store;

/// Outputs and prompts with more lines are folded.
const LINES_UNFOLDED: usize = 16;
/// Characters of the line that stands for a folded text.
const FOLDED_CHARS: usize = 140;

/// What a message is to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    System,
    Prompt,
    Thinking,
    Answer,
    /// An answer without text: the tokens of a request.
    Usage,
    Call,
    Result,
}

impl Sort {
    fn of(message: &ConversationMessage) -> Sort {
        match message.role {
            Role::System => Sort::System,
            Role::User => Sort::Prompt,
            Role::Tool => Sort::Result,
            Role::Assistant if message.tool_args.is_some() || message.tool_name.is_some() => {
                Sort::Call
            }
            Role::Assistant if message.content.is_empty() && message.reasoning.is_some() => {
                Sort::Thinking
            }
            Role::Assistant
                if message.content.is_empty()
                    && (message.tokens_in.is_some() || message.tokens_out.is_some())
                    && message.tool_result.is_none()
                    && !message.is_failure() =>
            {
                Sort::Usage
            }
            Role::Assistant => Sort::Answer,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sort::System => "System",
            Sort::Prompt => "User",
            Sort::Thinking => "Thinking",
            Sort::Answer => "Assistant",
            Sort::Usage => "Tokens",
            Sort::Call => "Tool call",
            Sort::Result => "Result",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Sort::System => "system",
            Sort::Prompt => "user",
            Sort::Thinking => "assistant thinking",
            Sort::Answer => "assistant",
            Sort::Usage => "usage",
            Sort::Call => "call",
            Sort::Result => "tool",
        }
    }
}

/// The address of a message in its conversation.
pub(super) fn address(message: &ConversationMessage) -> String {
    let sequence = message.sequence.unwrap_or_default();
    let (conversation, id) = (message.conversation_id, message.id);
    format!("/ui/conversations/{conversation}?at={sequence}#m-{id}")
}

/// The message with this id, or that of the turn with this id.
pub(super) fn message_of(store: &Store, id: Uuid) -> Result<Option<ConversationMessage>> {
    if let Some(message) = store.get_message(id)? {
        return Ok(Some(message));
    }
    let Some(turn) = store.get_turn(id)? else {
        return Ok(None);
    };
    store.get_message(turn.message_id)
}

/// A step of a transcript in a few words.
pub(super) fn summary(message: &ConversationMessage, chars_max: usize) -> String {
    let arguments = message.tool_args.as_deref().map(tool_arguments);
    let text = [
        Some(message.content.as_str()),
        arguments.as_deref(),
        message.tool_result.as_deref(),
        message.reasoning.as_deref(),
        message.error.as_deref(),
    ];
    let text = text.into_iter().flatten().find(|text| !text.is_empty());
    let text = text.unwrap_or_default();
    match &message.tool_name {
        Some(tool) => one_line(&format!("{tool} {text}"), chars_max),
        None => one_line(text, chars_max),
    }
}

/// The name of what a message is: `User`, `Tool call`.
pub(super) fn sort(message: &ConversationMessage) -> &'static str {
    Sort::of(message).name()
}

/// An article of a transcript. `call` is the recorded call that it makes or answers; `below` comes
/// at its end.
pub(super) fn article(
    message: &ConversationMessage,
    call: Option<&ToolCall>,
    below: &Markup,
    budget: &Budget,
) -> Markup {
    let sort = Sort::of(message);
    let is_failed = message.is_failure();
    html! {
        article class={ "message " (sort.class()) @if is_failed { " failed" } } id={ "m-" (message.id) }
            data-item data-failed[is_failed] data-sequence=[message.sequence] {
            (head(message, sort, call))
            @if let Some(error) = &message.error {
                p.error { @if let Some(kind) = &message.error_type { strong { (kind) ": " } } (content_start(error)) }
            }
            @if let Some(reasoning) = message.reasoning.as_deref().filter(|it| !it.is_empty()) {
                div.thought { (content::markdown(reasoning, budget)) }
            }
            (said(message, sort, budget))
            @if let Some(arguments) = &message.tool_args {
                (content::arguments(arguments, budget))
            }
            @if let Some(result) = message.tool_result.as_deref().filter(|it| !it.is_empty()) {
                (folded(result, content::output(result, budget)))
            } @else if sort == Sort::Result && message.content.is_empty() {
                p.empty { "No output" }
            }
            (below)
        }
    }
}

fn content_start(error: &str) -> &str {
    super::text::cut(error, content::TEXT_BYTES_MAX).0
}

fn said(message: &ConversationMessage, sort: Sort, budget: &Budget) -> Markup {
    let text = &message.content;
    // An error is shown once.
    let is_error = message
        .error
        .as_ref()
        .is_some_and(|error| text.contains(error.as_str()));
    if text.is_empty() || is_error {
        return html! {};
    }
    match (message.content_type, sort) {
        (ContentType::Json, _) => content::json(text, budget),
        (ContentType::Code, _) => content::code(text, "", budget),
        (ContentType::Markdown, _) | (_, Sort::Answer | Sort::Call | Sort::Thinking) => {
            content::markdown(text, budget)
        }
        (_, Sort::Result) => folded(text, content::output(text, budget)),
        _ => folded(text, content::plain(text, budget)),
    }
}

/// Folds a long text behind its first words.
fn folded(text: &str, shown: Markup) -> Markup {
    let lines = text.lines().count();
    if lines <= LINES_UNFOLDED {
        return shown;
    }
    html! {
        details.fold {
            summary { (one_line(text, FOLDED_CHARS)) " " small { (count(lines as u64)) " lines" } }
            (shown)
        }
    }
}

fn head(message: &ConversationMessage, sort: Sort, call: Option<&ToolCall>) -> Markup {
    let sequence = message.sequence.unwrap_or_default();
    let failed = call.and_then(|(_, done)| done.as_ref());
    let failed = failed.is_some_and(|done| done.status == ToolStatus::Failed);
    html! {
        header {
            strong { (sort.name()) }
            @if let Some(tool) = &message.tool_name { code { (one_line(tool, 80)) } }
            @if message.is_failure() {
                span.tag.failed { (message.error_type.as_deref().map_or("error".to_owned(), |kind| one_line(kind, 60))) }
            } @else if failed && sort == Sort::Call {
                span.tag.failed { "failed" }
            }
            @if let (Sort::Call, Some((request, done))) = (sort, call) {
                @match done {
                    Some(done) => span { (duration(done.latency_ms)) },
                    None => span.tag { (CallStatus::Requested.as_str()) },
                }
                a href=(of_call(&request.request_id.to_string(), &request.call_id)) { "Call record" }
            }
            @if let Some(model) = &message.model_used { span.soft { (one_line(model, 60)) } }
            @if let Some(latency) = message.latency_ms { span { (duration(latency)) } }
            (used(message))
            span.far { (time(message.timestamp.at())) }
            a href=(address(message)) aria-label={ "Link to message " (sequence) } { "#" (sequence) }
            a href={ "/ui/lines/messages/" (message.id) } { "JSONL" }
        }
    }
}

/// The tokens and the cost of an answer.
fn used(message: &ConversationMessage) -> Markup {
    let count = |number: i64| count(number.unsigned_abs());
    let some = |number: Option<i64>| number.filter(|number| *number > 0);
    html! {
        @if let Some(tokens) = some(message.tokens_in) {
            span title="Prompt tokens" {
                (count(tokens)) " in"
                @if let Some(cached) = some(message.tokens_cache_read) { " (" (count(cached)) " cached)" }
            }
        }
        @if let Some(tokens) = some(message.tokens_out) {
            span title="Answer tokens" { (count(tokens)) " out" }
        }
        @if let Some(cost) = message.cost_usd { span { (dollars(cost)) } }
    }
}
