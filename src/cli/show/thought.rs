//! Thoughts.

use std::io;

use decklog::ThoughtRecord;

use super::moment;
use super::{Shown, field};
use crate::cli::escape::one_line;
use crate::cli::output::Output;
use crate::cli::time;

impl Shown for ThoughtRecord {
    const COLUMNS: &'static str = "AT                     |TYPE      |60:TASK            |CONTENT";

    fn cells(&self) -> Vec<String> {
        vec![
            time::shown(self.timestamp.at()),
            self.thought_type.to_string(),
            self.task_id.clone(),
            self.content.trim().to_owned(),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("thought {}", one_line(&self.id)))?;
        field(out, "type", self.thought_type)?;
        field(out, "task", &self.task_id)?;
        field(out, "agent", &self.agent_id)?;
        field(out, "at", moment(self.timestamp.at()))?;
        field(out, "prev_hash", &self.prev_hash)?;
        field(out, "hash", &self.hash)?;
        field(out, "content", &self.content)
    }
}
