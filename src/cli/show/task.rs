//! Tasks of the inbox.

use std::io;

use decklog::InboxTask;
use decklog::record::TaskStatus;

use super::{Shown, failure_in_row, field, moment, optional};
use crate::cli::escape::{one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const ID_COLUMNS: usize = 6;
const UPDATE_COLUMNS: usize = 10;
const STATUS_COLUMNS: usize = 11;
const ATTEMPTS_COLUMNS: usize = 8;

impl Shown for InboxTask {
    const HEADING: &'static str = "QUEUED (UTC)                 ID      UPDATE  STATUS       ATTEMPTS  TEXT OR PAYLOAD, AND WHY IT FAILED";

    fn row(&self) -> String {
        format!(
            "{}  {:>ID_COLUMNS$}  {:>UPDATE_COLUMNS$}  {}  {:>ATTEMPTS_COLUMNS$}  {}{}",
            time::shown(self.created_at),
            self.id,
            self.update_id,
            padded(self.status.as_str(), STATUS_COLUMNS),
            self.attempts,
            failure_in_row(
                self.error
                    .as_deref()
                    .filter(|_| self.status != TaskStatus::Done)
            ),
            one_line(
                self.text
                    .as_deref()
                    .or(self.payload.as_deref())
                    .unwrap_or_default()
                    .trim()
            )
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("task {}", self.id))?;
        field(out, "update", &self.update_id.to_string())?;
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        optional(out, "chat", number(self.chat_id).as_deref())?;
        optional(out, "text", self.text.as_deref())?;
        optional(out, "message_date", number(self.message_date).as_deref())?;
        field(out, "queued", &moment(self.created_at))?;
        field(out, "updated", &moment(self.updated_at))?;
        field(out, "status", self.status.as_str())?;
        field(out, "attempts", &self.attempts.to_string())?;
        optional(out, "locked", self.locked_at.map(moment).as_deref())?;
        let name = match self.status {
            TaskStatus::Failed => "error",
            _ => "last error",
        };
        optional(out, name, self.error.as_deref())?;
        optional(out, "payload", self.payload.as_deref())
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(self)
    }
}
