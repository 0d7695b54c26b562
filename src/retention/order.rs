//! In which order the lines of one record go. What it was goes before what it came to be, so that
//! nothing that was superseded or retracted stands again, wherever the work ends early.

use crate::index::{Entry, Loc};
use crate::record::Kind;
use crate::segment::SegmentName;
use crate::store::{Reads, Snapshot};

/// Whether lines of the same record that were recorded before this one stand in other segments
/// than these, which change at once.
pub(super) fn has_older_elsewhere(
    view: &Snapshot<'_>,
    kind: Kind,
    line: &Entry,
    here: &[SegmentName],
) -> bool {
    let has_versions = matches!(
        kind,
        Kind::ConversationTurns | Kind::ToolCalls | Kind::CodeEditProposals | Kind::Inbox
    );
    let table = view.table(kind);
    let row = table.find(line.key).filter(|_| has_versions);
    let Some((id, row)) = row.and_then(|id| Some((id, table.row(id)?))) else {
        return false;
    };
    let versions = table.history(id).unwrap_or_default();
    let is_elsewhere = |loc: &Loc| loc.is_some() && !here.contains(&view.segment(*loc));
    match versions.iter().position(|version| *version == line.loc) {
        Some(place) => versions[..place].iter().any(is_elsewhere),
        // Also a step that others followed: without it the last one says the same.
        None if line.loc == row.asserted || line.loc != row.done => false,
        // An outcome or a step.
        None => versions.iter().chain([&row.asserted]).any(is_elsewhere),
    }
}
