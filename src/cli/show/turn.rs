//! Conversation turns.

use std::io;

use decklog::ConversationTurn;

use super::{Shown, field, moment, optional};
use crate::cli::escape::{one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const KIND_COLUMNS: usize = 9;

impl Shown for ConversationTurn {
    const HEADING: &'static str = "CREATED (UTC)            KIND       CONTENT";

    fn row(&self) -> String {
        format!(
            "{}  {}  {}",
            time::shown(self.created_at.at),
            padded(self.kind.as_str(), KIND_COLUMNS),
            one_line(self.content.trim())
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("turn {}", self.id))?;
        field(out, "kind", self.kind.as_str())?;
        field(out, "created", &moment(self.created_at.at))?;
        field(out, "message", &self.message_id.to_string())?;
        let id = |id: Option<uuid::Uuid>| id.map(|id| id.to_string());
        optional(out, "parent", id(self.parent_id).as_deref())?;
        optional(out, "thread", id(self.thread_id).as_deref())?;
        field(out, "content", &self.content)
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(self)
    }
}
