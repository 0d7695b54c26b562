//! Thoughts.

use std::io;

use decklog::ThoughtRecord;

use super::{Shown, field};
use crate::cli::escape::{one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const TYPE_COLUMNS: usize = 10;
const TASK_COLUMNS: usize = 16;

impl Shown for ThoughtRecord {
    const HEADING: &'static str = "AT (UTC)                 TYPE        TASK              CONTENT";

    fn row(&self) -> String {
        format!(
            "{}  {}  {}  {}",
            time::shown(self.timestamp.at()),
            padded(self.thought_type.as_str(), TYPE_COLUMNS),
            padded(&one_line(&self.task_id), TASK_COLUMNS),
            one_line(self.content.trim())
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("thought {}", one_line(&self.id)))?;
        field(out, "type", self.thought_type.as_str())?;
        field(out, "task", &self.task_id)?;
        field(out, "agent", &self.agent_id)?;
        field(out, "at", self.timestamp.as_str())?;
        field(out, "prev_hash", &self.prev_hash)?;
        field(out, "hash", &self.hash)?;
        field(out, "content", &self.content)
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(self)
    }
}
