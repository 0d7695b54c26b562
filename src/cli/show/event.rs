//! Events.

use std::io;

use decklog::Event;

use super::{Shown, field, moment, optional};
use crate::cli::output::Output;
use crate::cli::time;

impl Shown for Event {
    const COLUMNS: &'static str =
        "AT                     |60:>    ID|76:> UNDER|TYPE               |PAYLOAD";

    fn cells(&self) -> Vec<String> {
        let payload = self.payload.as_deref().unwrap_or_default();
        vec![
            time::shown(self.created_at),
            self.id.to_string(),
            self.parent_id.map_or("-".to_owned(), |id| id.to_string()),
            self.event_type.clone(),
            payload.trim().to_owned(),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("event {}", self.id))?;
        field(out, "type", &self.event_type)?;
        field(out, "at", moment(self.created_at))?;
        optional(out, "under", self.parent_id)?;
        optional(out, "payload", self.payload.as_ref())
    }
}
