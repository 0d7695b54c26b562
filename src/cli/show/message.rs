//! Messages of conversations: in a list, and in a transcript.

use std::io;
use std::sync::LazyLock;

use decklog::human::{count, counted};
use decklog::{ConversationMessage, Kind, Role};

use super::{Shown, failure, failure_in_row, field, milliseconds, moment, name, optional, others};
use crate::cli::escape::{lines, one_line};
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
    "tokens_cache_read",
    "tokens_reasoning",
    "latency_ms",
    "error_type",
    "error",
    "content",
];

impl Shown for ConversationMessage {
    const COLUMNS: &'static str =
        "SENT                   |>    #|ROLE     |MODEL         |CONTENT, AND WHY IT FAILED";

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
        let cost = cost(self);
        optional(out, "used", (!cost.is_empty()).then(|| cost.join(", ")))?;
        optional(out, "error", why_failed(self))?;
        others(out, Kind::Messages, self, SHOWN)?;
        field(out, self.content_type.as_str(), &self.content)
    }
}

fn why_failed(message: &ConversationMessage) -> Option<String> {
    failure(message.error_type.as_deref(), message.error.as_deref())
}

/// The tool's name and arguments.
fn call(message: &ConversationMessage) -> Option<String> {
    let parts = [&message.tool_name, &message.tool_args];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Tokens and time.
fn cost(message: &ConversationMessage) -> Vec<String> {
    let tokens = |n: i64| counted(n.unsigned_abs(), "token");
    let cached = in_brackets([
        (message.tokens_cache_write, "cache write"),
        (message.tokens_cache_read, "cache read"),
    ]);
    let reasoned = in_brackets([(message.tokens_reasoning, "reasoning")]);
    let (tokens_in, tokens_out) = (message.tokens_in, message.tokens_out);
    let parts = [
        tokens_in.map(|n| format!("{} in{cached}", tokens(n))),
        tokens_out.map(|n| format!("{} out{reasoned}", tokens(n))),
        message.latency_ms.map(|ms| milliseconds(Some(ms))),
    ];
    parts.into_iter().flatten().collect()
}

/// The parts that exist, after their total.
fn in_brackets<const N: usize>(parts: [(Option<i64>, &str); N]) -> String {
    let parts = parts.into_iter();
    let parts = parts.filter_map(|(n, of)| Some(format!("{} {of}", count(n?.unsigned_abs()))));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(" ({})", parts.join(", "))
}

/// Other numbers with a unit, such as the cost.
fn others_of_unit(message: &ConversationMessage) -> Vec<String> {
    static FIELDS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
        let fields = Kind::Messages.schema().fields.into_iter();
        let of_unit = fields.filter_map(|field| Some((field.name, field.unit?)));
        let others = of_unit.filter(|(name, unit)| !SHOWN.contains(name) && *unit != "fraction");
        others.collect()
    });
    let message = serde_json::to_value(message).unwrap_or_default();
    let fields = FIELDS.iter();
    let numbers = fields.filter_map(|(name, unit)| Some((message.get(name)?, unit)));
    numbers
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect()
}

/// A message of a transcript: a heading at the margin, its metadata below, and its content further
/// indented, so that no content can imitate either.
pub fn in_transcript(out: &mut Output, message: &ConversationMessage) -> io::Result<()> {
    let mut heading = vec![
        format!("#{}", message.sequence.unwrap_or_default()),
        message.role.to_string(),
        moment(message.timestamp.at()),
    ];
    heading.extend(message.model_used.clone());
    heading.extend(cost(message));
    heading.extend(others_of_unit(message));
    out.line("")?;
    out.line(&one_line(&heading.join("  ")))?;
    optional(out, "! error", why_failed(message))?;
    optional(out, "reasoning", message.reasoning.as_ref())?;
    if !message.content.is_empty() {
        for line in lines(&message.content).split('\n') {
            out.line(&format!("    {line}"))?;
        }
    }
    if message.role == Role::Tool {
        // The name of the answering tool, not a call.
        optional(out, "tool", message.tool_name.as_ref())?;
        optional(out, "call", message.tool_call_id.as_ref())?;
        optional(out, "arguments", message.tool_args.as_ref())?;
    } else {
        optional(out, "→ call", call(message))?;
    }
    optional(out, "← result", message.tool_result.as_ref())
}
