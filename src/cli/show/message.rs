//! Messages of conversations: in a list, and in a transcript.

use std::io;
use std::sync::LazyLock;

use decklog::{ConversationMessage, Kind, Role};

use super::{Shown, count, failure, failure_in_row, field, grouped, moment, optional, others};
use crate::cli::escape::{clipped, lines, one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const SEQUENCE_COLUMNS: usize = 5;
const ROLE_COLUMNS: usize = 9;
const MODEL_COLUMNS: usize = 14;

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
    const HEADING: &'static str =
        "SENT (UTC)                   #  ROLE       MODEL           CONTENT, AND WHY IT FAILED";

    fn row(&self) -> String {
        let model = one_line(self.model_used.as_deref().unwrap_or("-")).into_owned();
        // A message that only calls a tool has no text.
        let (call, content) = (self.call(), self.content.trim());
        let says = match call {
            Some(call) if content.is_empty() => call,
            None if content.is_empty() => match self.reasoning.as_deref() {
                Some(reasoning) => format!("(reasoning)  {}", reasoning.trim()),
                None => String::new(),
            },
            _ => content.to_owned(),
        };
        format!(
            "{}  {:>SEQUENCE_COLUMNS$}  {}  {}  {}{}",
            time::shown(self.timestamp.at()),
            self.sequence.unwrap_or_default(),
            padded(self.role.as_str(), ROLE_COLUMNS),
            padded(&clipped(&model, MODEL_COLUMNS), MODEL_COLUMNS),
            failure_in_row(self.failure().as_deref()),
            one_line(&says)
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("message {}", self.id))?;
        field(out, "in", &self.conversation_id.to_string())?;
        let sequence = self.sequence.unwrap_or_default();
        field(out, "sequence", &sequence.to_string())?;
        field(out, "sent", self.timestamp.as_str())?;
        let role = format!("{}, from the {}", self.role, self.source);
        field(out, "role", &role)?;
        optional(out, "used", joined(&self.cost()).as_deref())?;
        optional(out, "error", self.failure().as_deref())?;
        others(out, Kind::Messages, self, SHOWN)?;
        field(out, self.content_type.as_str(), &self.content)
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(self)
    }
}

/// Words separated by commas, if there are any.
fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(", "))
}

/// The metadata of a message.
trait InWords {
    fn failure(&self) -> Option<String>;
    fn call(&self) -> Option<String>;
    fn cost(&self) -> Vec<String>;
    fn cached(&self) -> String;
    fn reasoned(&self) -> String;
}

impl InWords for ConversationMessage {
    fn failure(&self) -> Option<String> {
        failure(self.error_type.as_deref(), self.error.as_deref())
    }

    /// The tool's name and arguments.
    fn call(&self) -> Option<String> {
        let parts = [&self.tool_name, &self.tool_args];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    /// Tokens and time.
    fn cost(&self) -> Vec<String> {
        let tokens = |n: i64| count(n.unsigned_abs(), "token");
        let parts = [
            (self.tokens_in).map(|n| format!("{} in{}", tokens(n), self.cached())),
            (self.tokens_out).map(|n| format!("{} out{}", tokens(n), self.reasoned())),
            self.latency_ms
                .map(|ms| format!("{} ms", grouped(ms.unsigned_abs()))),
        ];
        parts.into_iter().flatten().collect()
    }

    /// The tokens written to and read from the provider's cache.
    fn cached(&self) -> String {
        let of =
            |part: Option<i64>, how| part.map(|n| format!("{} {how}", grouped(n.unsigned_abs())));
        in_brackets([
            of(self.tokens_cache_write, "cache write"),
            of(self.tokens_cache_read, "cache read"),
        ])
    }

    /// The reasoning tokens.
    fn reasoned(&self) -> String {
        let reasoning = self.tokens_reasoning.map(i64::unsigned_abs);
        in_brackets([reasoning.map(|n| format!("{} reasoning", grouped(n)))])
    }
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

/// The parts that exist, after their total.
fn in_brackets<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match joined(&parts) {
        Some(parts) => format!(" ({parts})"),
        None => String::new(),
    }
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
    heading.extend(message.cost());
    heading.extend(others_of_unit(message));
    out.line("")?;
    out.line(&one_line(&heading.join("  ")))?;
    if let Some(why) = message.failure() {
        field(out, "! error", &why)?;
    }
    optional(out, "reasoning", message.reasoning.as_deref())?;
    if !message.content.is_empty() {
        for line in lines(&message.content).split('\n') {
            out.line(&format!("    {line}"))?;
        }
    }
    if message.role == Role::Tool {
        // The name of the answering tool, not a call.
        optional(out, "tool", message.tool_name.as_deref())?;
        optional(out, "call", message.tool_call_id.as_deref())?;
        optional(out, "arguments", message.tool_args.as_deref())?;
    } else {
        optional(out, "→ call", message.call().as_deref())?;
    }
    optional(out, "← result", message.tool_result.as_deref())
}
