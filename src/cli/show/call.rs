//! Tool calls with their outcomes.

use std::io;

use decklog::record::{ToolCall, ToolCallView};
use decklog::{CallStatus, ToolCallDone};

use super::{Shown, failure_in_row, field, grouped, milliseconds, moment, optional};
use crate::cli::escape::{one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const STATUS_COLUMNS: usize = 9;
const LATENCY_COLUMNS: usize = 9;
const TOOL_COLUMNS: usize = 14;

impl Shown for ToolCall {
    const HEADING: &'static str = "STARTED (UTC)            STATUS       LATENCY  TOOL            ARGUMENTS, AND WHY IT FAILED";

    fn row(&self) -> String {
        let (req, done) = self;
        let latency = milliseconds(done.as_ref().map(|done| done.latency_ms));
        let failure = done.as_ref().and_then(failure);
        format!(
            "{}  {}  {latency:>LATENCY_COLUMNS$}  {}  {}{}",
            time::shown(req.started_at.at),
            padded(CallStatus::of(done.as_ref()).as_str(), STATUS_COLUMNS),
            padded(&one_line(&req.tool_name), TOOL_COLUMNS),
            failure_in_row(failure.as_deref()),
            one_line(req.arguments_json.as_deref().unwrap_or_default().trim()),
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        let (req, done) = self;
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
        optional(out, "arguments", req.arguments_json.as_deref())?;
        let Some(done) = done else { return Ok(()) };
        optional(out, "error", failure(done).as_deref())?;
        optional(out, "outcome", done.outcome_json.as_deref())
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(&ToolCallView::from(self))
    }
}

/// Why a call failed, if it did.
fn failure(done: &ToolCallDone) -> Option<String> {
    super::failure(done.error_kind.as_deref(), done.error_msg.as_deref())
}
