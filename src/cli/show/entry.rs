//! Entries of a chat's history.

use std::io;

use decklog::HistoryEntry;

use super::{Shown, field, moment};
use crate::cli::escape::{one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const ROLE_COLUMNS: usize = 9;

impl Shown for HistoryEntry {
    const HEADING: &'static str = "AT (UTC)                 ROLE       TEXT";

    fn row(&self) -> String {
        format!(
            "{}  {}  {}",
            time::shown(self.created_at),
            padded(self.role.as_str(), ROLE_COLUMNS),
            one_line(self.text.trim())
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("entry {}", self.id))?;
        field(out, "chat", &self.chat_id.to_string())?;
        field(out, "at", &moment(self.created_at))?;
        field(out, "role", self.role.as_str())?;
        field(out, "text", &self.text)
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(self)
    }
}
