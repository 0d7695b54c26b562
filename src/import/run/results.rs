//! Results of tool calls. They may come before their call.

use super::{Run, shown};
use crate::error::Result;
use crate::import::batch::Place;
use crate::record::ToolCallDone;

impl Run<'_> {
    pub(super) fn result(&mut self, place: Place, done: ToolCallDone) -> Result<()> {
        if self.results.insert(done.request_id) {
            self.report(place).tool_results += 1;
        }
        if let Some(started_at) = self.started_at(&done)? {
            return self.finish_call(place, done, started_at);
        }
        let bytes = held_size(&done);
        if self.held_bytes + bytes > self.held_bytes_max {
            let reason = format!(
                "the call {} of this result was not seen before it, and the results that wait \
                 for theirs fill {} bytes already",
                shown(&done.call_id),
                self.held_bytes_max
            );
            self.broken(place, reason);
            return Ok(());
        }
        self.held_bytes += bytes;
        self.held.push((place, done));
        Ok(())
    }

    /// When the call began, if it is in this run or in the log.
    fn started_at(&self, done: &ToolCallDone) -> Result<Option<i64>> {
        if let Some(call) = self.calls.get(&done.request_id) {
            return Ok(Some(call.started_at));
        }
        let log = self.batch.log();
        let call = log.get_tool_call(done.request_id, &done.call_id)?;
        Ok(call.map(|(req, _)| req.started_at.at))
    }

    fn finish_call(&mut self, place: Place, mut done: ToolCallDone, started: i64) -> Result<()> {
        if done.latency_ms == 0 {
            done.latency_ms = done.ended_at.at.saturating_sub(started).max(0);
        }
        self.push(place, done.into())
    }

    /// Ends a path: results are matched with calls that came after them, or keep waiting for
    /// another path.
    pub(in crate::import) fn settle(&mut self) -> Result<()> {
        self.held_bytes = 0;
        for (place, done) in std::mem::take(&mut self.held) {
            if let Some(call) = self.calls.get(&done.request_id) {
                let started_at = call.started_at;
                self.finish_call(place, done, started_at)?;
            } else {
                self.held_bytes += held_size(&done);
                self.held.push((place, done));
            }
        }
        let unsettled = self.resolve_headings()?;
        self.send_last()?;
        self.head_logged(&unsettled)
    }

    /// Ends an import: results without a call are given up.
    pub(in crate::import) fn give_up_results(&mut self) {
        for (place, done) in std::mem::take(&mut self.held) {
            let reason = format!(
                "a result of the call {}, which is neither in what was imported nor in the log",
                shown(&done.call_id)
            );
            self.broken(place, reason);
        }
    }
}

fn held_size(done: &ToolCallDone) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    512 + done.call_id.len() + text(&done.outcome_json) + text(&done.error_msg)
}
