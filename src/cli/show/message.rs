//! Messages of conversations.

use std::io;

use decklog::human::{count, dollars, duration};
use decklog::{ConversationMessage, Kind};

use super::{Shown, failure, failure_in_row, field, moment, name, optional, others};
use crate::cli::output::Output;
use crate::cli::time;

/// The fields with a format of their own.
const SHOWN: &[&str] = &[
    "id",
    "conversation_id",
    "sequence",
    "timestamp",
    "role",
    "source",
    "content_type",
    "tokens_in",
    "tokens_out",
    "tokens_cache_write",
    "tokens_cache_write_1h",
    "tokens_cache_read",
    "tokens_reasoning",
    "latency_ms",
    "error_type",
    "error",
    "content",
];

impl Shown for ConversationMessage {
    const COLUMNS: &'static str =
        "SENT                   |60:>    #|ROLE     |76:MODEL         |CONTENT, AND WHY IT FAILED";

    fn cells(&self) -> Vec<String> {
        // A message that only calls a tool has no text.
        let says = match (self.content.trim(), call(self), &self.reasoning) {
            ("", Some(call), _) => call,
            ("", None, Some(reasoning)) => format!("(reasoning)  {}", reasoning.trim()),
            (content, ..) => content.to_owned(),
        };
        vec![
            time::shown(self.timestamp.at()),
            self.sequence.unwrap_or_default().to_string(),
            self.role.to_string(),
            name(self.model_used.as_deref(), 14),
            failure_in_row(why_failed(self).as_deref()) + &says,
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("message {}", self.id))?;
        field(out, "in", self.conversation_id)?;
        field(out, "sequence", self.sequence.unwrap_or_default())?;
        field(out, "sent", moment(self.timestamp.at()))?;
        let role = format!("{}, from the {}", self.role, self.source);
        field(out, "role", role)?;
        let used = used(self);
        optional(out, "used", (!used.is_empty()).then(|| used.join(", ")))?;
        optional(out, "error", why_failed(self))?;
        others(out, Kind::Messages, self, SHOWN)?;
        field(out, self.content_type.as_str(), &self.content)
    }
}

pub(super) fn why_failed(message: &ConversationMessage) -> Option<String> {
    failure(message.error_type.as_deref(), message.error.as_deref())
}

/// The tool's name and arguments.
fn call(message: &ConversationMessage) -> Option<String> {
    let parts = [&message.tool_name, &message.tool_args];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Tokens, time and cost.
pub(super) fn used(message: &ConversationMessage) -> Vec<String> {
    let tokens =
        |number: Option<i64>, of: &str| Some(format!("{} {of}", count(number?.unsigned_abs())));
    let cached = [
        tokens(message.tokens_cache_read, "cache read"),
        tokens(message.tokens_cache_write, "cache write"),
        tokens(message.tokens_cache_write_1h, "of it for 1 hour"),
    ];
    let cached: Vec<String> = cached.into_iter().flatten().collect();
    let read = tokens(message.tokens_in, "tokens in").map(|read| match &cached[..] {
        [] => read,
        cached => format!("{read} ({})", cached.join(", ")),
    });
    let reasoned = tokens(message.tokens_reasoning, "reasoning");
    let written = tokens(message.tokens_out, "out").map(|written| match reasoned {
        Some(reasoned) => format!("{written} ({reasoned})"),
        None => written,
    });
    let parts = [
        read,
        written,
        message.latency_ms.map(duration),
        message.cost_usd.map(dollars),
    ];
    parts.into_iter().flatten().collect()
}
