//! Events.

use std::io;

use decklog::Event;

use super::{Shown, field, moment, optional};
use crate::cli::escape::{one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const ID_COLUMNS: usize = 6;
const TYPE_COLUMNS: usize = 19;

impl Shown for Event {
    const HEADING: &'static str =
        "AT (UTC)                     ID   UNDER  TYPE                 PAYLOAD";

    fn row(&self) -> String {
        let parent = self.parent_id.map(|id| id.to_string());
        format!(
            "{}  {:>ID_COLUMNS$}  {:>ID_COLUMNS$}  {}  {}",
            time::shown(self.created_at),
            self.id,
            parent.as_deref().unwrap_or("-"),
            padded(&one_line(&self.event_type), TYPE_COLUMNS),
            one_line(self.payload.as_deref().unwrap_or_default().trim())
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("event {}", self.id))?;
        field(out, "type", &self.event_type)?;
        field(out, "at", &moment(self.created_at))?;
        let parent = self.parent_id.map(|id| id.to_string());
        optional(out, "under", parent.as_deref())?;
        optional(out, "payload", self.payload.as_deref())
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(self)
    }
}
