//! Records as a person reads them: a line in a table, or all there is to them.

use std::io;

use decklog::{CallStatus, ConversationTurn, ToolCall, ToolCallDone};

use super::escape::{clipped, lines, one_line, padded};
use super::output::Output;
use super::time;

const KIND_COLUMNS: usize = 9;
const LATENCY_COLUMNS: usize = 9;
const TOOL_COLUMNS: usize = 14;
/// Where the values of a record shown in full begin.
const LABEL_COLUMNS: usize = 10;

/// A line of a table, cut where the terminal ends.
pub fn row(out: &mut Output, text: &str) -> io::Result<()> {
    let columns = out.columns();
    out.line(clipped(text, columns).trim_end())
}

pub fn turn_heading(out: &mut Output) -> io::Result<()> {
    row(out, "CREATED (UTC)            KIND       CONTENT")
}

pub fn turn_row(out: &mut Output, turn: &ConversationTurn) -> io::Result<()> {
    let text = format!(
        "{}  {}  {}",
        time::shown(turn.created_at.at),
        padded(turn.kind.as_str(), KIND_COLUMNS),
        one_line(turn.content.trim())
    );
    row(out, &text)
}

pub fn call_heading(out: &mut Output) -> io::Result<()> {
    row(
        out,
        "STARTED (UTC)            STATUS       LATENCY  TOOL            ARGUMENTS, AND WHY IT FAILED",
    )
}

pub fn call_row(out: &mut Output, call: &ToolCall) -> io::Result<()> {
    let (req, done) = call;
    let latency = done.as_ref().map_or("-".to_owned(), |done| {
        format!("{} ms", grouped(done.latency_ms.unsigned_abs()))
    });
    let failure = done
        .as_ref()
        .and_then(failure)
        .map_or(String::new(), |why| {
            // In front: the arguments are of any length.
            format!("! {}  ", one_line(why.trim()))
        });
    let text = format!(
        "{}  {}  {latency:>LATENCY_COLUMNS$}  {}  {failure}{}",
        time::shown(req.started_at.at),
        padded(CallStatus::of(done.as_ref()).as_str(), KIND_COLUMNS),
        padded(&one_line(&req.tool_name), TOOL_COLUMNS),
        one_line(req.arguments_json.as_deref().unwrap_or_default().trim()),
    );
    row(out, &text)
}

/// Why a call failed, if it did.
fn failure(done: &ToolCallDone) -> Option<String> {
    match (&done.error_kind, &done.error_msg) {
        (Some(kind), Some(msg)) => Some(format!("{kind}: {msg}")),
        (Some(one), None) | (None, Some(one)) => Some(one.clone()),
        (None, None) => None,
    }
}

/// A turn with all it has.
pub fn turn(out: &mut Output, turn: &ConversationTurn) -> io::Result<()> {
    out.line(&format!("turn {}", turn.id))?;
    field(out, "kind", turn.kind.as_str())?;
    field(out, "created", &moment(turn.created_at.at))?;
    field(out, "message", &turn.message_id.to_string())?;
    if let Some(id) = turn.parent_id {
        field(out, "parent", &id.to_string())?;
    }
    if let Some(id) = turn.thread_id {
        field(out, "thread", &id.to_string())?;
    }
    field(out, "content", &turn.content)
}

/// A call with all it has.
pub fn call(out: &mut Output, (req, done): &ToolCall) -> io::Result<()> {
    out.line(&format!(
        "call {} {}",
        req.request_id,
        one_line(&req.call_id)
    ))?;
    field(out, "tool", &req.tool_name)?;
    field(out, "vendor", &req.vendor)?;
    field(out, "status", CallStatus::of(done.as_ref()).as_str())?;
    field(out, "started", &moment(req.started_at.at))?;
    if let Some(done) = done {
        let latency = grouped(done.latency_ms.unsigned_abs());
        let ended = format!("{}, after {latency} ms", moment(done.ended_at.at));
        field(out, "ended", &ended)?;
    }
    field(out, "turn", &req.parent_id.to_string())?;
    field(out, "sha256", &req.args_sha256)?;
    if let Some(arguments) = &req.arguments_json {
        field(out, "arguments", arguments)?;
    }
    let Some(done) = done else { return Ok(()) };
    if let Some(why) = failure(done) {
        field(out, "error", &why)?;
    }
    if let Some(outcome) = &done.outcome_json {
        field(out, "outcome", outcome)?;
    }
    Ok(())
}

fn moment(at: i64) -> String {
    format!("{} UTC", time::shown(at))
}

/// A field of a record; the lines of its value stay below each other.
fn field(out: &mut Output, label: &str, value: &str) -> io::Result<()> {
    let value = lines(value);
    let mut label = label;
    for line in value.trim_end().split('\n') {
        let text = format!("  {label:<LABEL_COLUMNS$}{line}");
        out.line(text.trim_end())?;
        label = "";
    }
    Ok(())
}

/// A number with its thousands apart.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things, in words.
pub fn count(n: u64, thing: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(n))
}
