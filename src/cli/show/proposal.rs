//! Code edit proposals.

use std::io;

use decklog::CodeEditProposal;

use super::{Shown, field, moment, optional};
use crate::cli::escape::{clipped, one_line, padded};
use crate::cli::output::Output;
use crate::cli::time;

const STATUS_COLUMNS: usize = 8;
const CONFIDENCE_COLUMNS: usize = 10;
const COMMIT_COLUMNS: usize = 10;

impl Shown for CodeEditProposal {
    const HEADING: &'static str =
        "CREATED (UTC)            STATUS    CONFIDENCE  COMMIT      DIFFS";

    fn row(&self) -> String {
        let confidence = self.confidence.map(|part| part.to_string());
        let commit = one_line(self.commit_hash.as_deref().unwrap_or("-")).into_owned();
        format!(
            "{}  {}  {:>CONFIDENCE_COLUMNS$}  {}  {}",
            time::shown(self.created_at.at),
            padded(self.status.as_str(), STATUS_COLUMNS),
            confidence.as_deref().unwrap_or("-"),
            padded(&clipped(&commit, COMMIT_COLUMNS), COMMIT_COLUMNS),
            one_line(self.diffs_json.trim())
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("proposal {}", self.request_id))?;
        field(out, "status", self.status.as_str())?;
        field(out, "created", &moment(self.created_at.at))?;
        let confidence = self.confidence.map(|part| part.to_string());
        optional(out, "confident", confidence.as_deref())?;
        optional(out, "decided", self.decided_at.map(moment).as_deref())?;
        optional(out, "applied", self.applied_at.map(moment).as_deref())?;
        optional(out, "commit", self.commit_hash.as_deref())?;
        field(out, "diffs", &self.diffs_json)
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(self)
    }
}
