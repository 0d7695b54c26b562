//! Code edit proposals.

use std::io;

use decklog::CodeEditProposal;

use super::{Shown, field, moment, name, optional};
use crate::cli::output::Output;
use crate::cli::time;

impl Shown for CodeEditProposal {
    const COLUMNS: &'static str =
        "CREATED                |STATUS  |60:>CONFIDENCE|72:COMMIT    |DIFFS";

    fn cells(&self) -> Vec<String> {
        vec![
            time::shown(self.created_at.at),
            self.status.to_string(),
            self.confidence
                .map_or("-".to_owned(), |part| part.to_string()),
            name(self.commit_hash.as_deref(), 10),
            self.diffs_json.trim().to_owned(),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("proposal {}", self.request_id))?;
        field(out, "status", self.status)?;
        field(out, "created", moment(self.created_at.at))?;
        optional(out, "confident", self.confidence)?;
        optional(out, "decided", self.decided_at.map(moment))?;
        optional(out, "applied", self.applied_at.map(moment))?;
        optional(out, "commit", self.commit_hash.as_ref())?;
        field(out, "diffs", &self.diffs_json)
    }
}
