//! Matches of a search.

use std::io;

use decklog::query::SearchMatch;

use super::{Shown, field, moment};
use crate::cli::escape::{one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const SEQ_COLUMNS: usize = 6;
const KIND_COLUMNS: usize = 19;

impl Shown for SearchMatch {
    const HEADING: &'static str = "AT (UTC)                    SEQ  KIND                 TEXT";

    fn row(&self) -> String {
        format!(
            "{}  {:>SEQ_COLUMNS$}  {}  {}",
            time::shown(self.at),
            self.seq,
            padded(self.kind.stem(), KIND_COLUMNS),
            one_line(self.snippet.trim())
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("{} {}", self.kind, one_line(&self.key)))?;
        field(out, "at", &moment(self.at))?;
        field(out, "line", &self.seq.to_string())?;
        if let Some(id) = self.conversation_id {
            field(out, "in", &id.to_string())?;
        }
        field(out, "field", &self.field)?;
        field(out, "text", &self.snippet)
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(self)
    }
}
