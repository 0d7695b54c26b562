//! Conversation turns.

use std::io;

use decklog::ConversationTurn;

use super::{Shown, field, moment, optional};
use crate::cli::output::Output;
use crate::cli::time;

impl Shown for ConversationTurn {
    const COLUMNS: &'static str = "CREATED                |KIND     |CONTENT";

    fn cells(&self) -> Vec<String> {
        vec![
            time::shown(self.created_at.at),
            self.kind.to_string(),
            self.content.trim().to_owned(),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("turn {}", self.id))?;
        field(out, "kind", self.kind)?;
        field(out, "created", moment(self.created_at.at))?;
        field(out, "message", self.message_id)?;
        optional(out, "parent", self.parent_id)?;
        optional(out, "thread", self.thread_id)?;
        field(out, "content", &self.content)
    }
}
