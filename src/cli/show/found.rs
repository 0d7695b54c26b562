//! Matches of a search.

use std::io;

use decklog::query::SearchMatch;

use super::{Shown, field, moment, optional};
use crate::cli::escape::one_line;
use crate::cli::output::Output;
use crate::cli::time;

impl Shown for SearchMatch {
    const COLUMNS: &'static str = "AT                     |60:>   SEQ|60:KIND               |TEXT";

    fn cells(&self) -> Vec<String> {
        vec![
            time::shown(self.at),
            self.seq.to_string(),
            self.kind.to_string(),
            self.snippet.trim().to_owned(),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("{} {}", self.kind, one_line(&self.key)))?;
        field(out, "at", moment(self.at))?;
        field(out, "line", self.seq)?;
        optional(out, "in", self.conversation_id)?;
        field(out, "field", &self.field)?;
        field(out, "text", &self.snippet)
    }
}
