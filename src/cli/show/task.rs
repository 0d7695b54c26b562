//! Tasks of the inbox.

use std::io;

use decklog::InboxTask;
use decklog::record::TaskStatus;

use super::{Shown, failure_in_row, field, moment, optional};
use crate::cli::output::Output;
use crate::cli::time;

impl Shown for InboxTask {
    const COLUMNS: &'static str = "QUEUED                 |>    ID|72:>    UPDATE|60:STATUS     |80:>ATTEMPTS|TEXT OR PAYLOAD, AND WHY IT FAILED";

    fn cells(&self) -> Vec<String> {
        let error = self.error.as_deref();
        let failure = error.filter(|_| self.status != TaskStatus::Done);
        let text = self.text.as_deref().or(self.payload.as_deref());
        vec![
            time::shown(self.created_at),
            self.id.to_string(),
            self.update_id.to_string(),
            self.status.to_string(),
            self.attempts.to_string(),
            failure_in_row(failure) + text.unwrap_or_default().trim(),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("task {}", self.id))?;
        field(out, "update", self.update_id)?;
        optional(out, "chat", self.chat_id)?;
        optional(out, "text", self.text.as_ref())?;
        optional(out, "message_date", self.message_date)?;
        field(out, "queued", moment(self.created_at))?;
        field(out, "updated", moment(self.updated_at))?;
        field(out, "status", self.status)?;
        field(out, "attempts", self.attempts)?;
        optional(out, "locked", self.locked_at.map(moment))?;
        let name = match self.status {
            TaskStatus::Failed => "error",
            _ => "last error",
        };
        optional(out, name, self.error.as_ref())?;
        optional(out, "payload", self.payload.as_ref())
    }
}
