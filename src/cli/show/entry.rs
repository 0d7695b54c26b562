//! Entries of a chat's history.

use std::io;

use decklog::HistoryEntry;

use super::{Shown, field, moment};
use crate::cli::output::Output;
use crate::cli::time;

impl Shown for HistoryEntry {
    const COLUMNS: &'static str = "AT                     |ROLE     |TEXT";

    fn cells(&self) -> Vec<String> {
        vec![
            time::shown(self.created_at),
            self.role.to_string(),
            self.text.trim().to_owned(),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("entry {}", self.id))?;
        field(out, "chat", self.chat_id)?;
        field(out, "at", moment(self.created_at))?;
        field(out, "role", self.role)?;
        field(out, "text", &self.text)
    }
}
