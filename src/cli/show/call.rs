//! Tool calls with their outcomes.

use std::io;

use decklog::human::duration;
use decklog::record::{ToolCall, ToolCallView};
use decklog::{CallStatus, ToolCallDone};
use serde::Serialize;

use super::{Shown, failure_in_row, field, moment, optional};
use crate::cli::escape::one_line;
use crate::cli::output::Output;
use crate::cli::time;

impl Shown for ToolCall {
    const COLUMNS: &'static str = "STARTED                |60:STATUS   |76:>  LATENCY|TOOL          |ARGUMENTS, AND WHY IT FAILED";

    fn cells(&self) -> Vec<String> {
        let (req, done) = self;
        let failure = done.as_ref().and_then(failure);
        let arguments = req.arguments_json.as_deref().unwrap_or_default();
        vec![
            time::shown(req.started_at.at),
            CallStatus::of(done.as_ref()).to_string(),
            done.as_ref()
                .map_or("-".to_owned(), |done| duration(done.latency_ms)),
            req.tool_name.clone(),
            failure_in_row(failure.as_deref()) + arguments.trim(),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        let (req, done) = self;
        let call_id = one_line(&req.call_id);
        out.line(&format!("call {} {call_id}", req.request_id))?;
        field(out, "tool", &req.tool_name)?;
        field(out, "vendor", &req.vendor)?;
        field(out, "status", CallStatus::of(done.as_ref()))?;
        field(out, "started", moment(req.started_at.at))?;
        if let Some(done) = done {
            let latency = duration(done.latency_ms);
            let ended = format!("{}, after {latency}", moment(done.ended_at.at));
            field(out, "ended", ended)?;
        }
        field(out, "turn", req.parent_id)?;
        field(out, "sha256", &req.args_sha256)?;
        optional(out, "arguments", req.arguments_json.as_ref())?;
        let Some(done) = done else { return Ok(()) };
        optional(out, "error", failure(done))?;
        optional(out, "outcome", done.outcome_json.as_ref())
    }

    fn as_json(&self) -> impl Serialize {
        ToolCallView::from(self)
    }
}

/// Why a call failed, if it did.
fn failure(done: &ToolCallDone) -> Option<String> {
    super::failure(done.error_kind.as_deref(), done.error_msg.as_deref())
}
