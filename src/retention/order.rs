//! The order of removal of a record's lines: earlier versions before later ones, so that no superseded
//! or retracted version becomes current again if the work is interrupted.

use crate::index::{Entry, Loc};
use crate::record::Kind;
use crate::segment::SegmentName;
use crate::store::{Reads, Snapshot};

/// Whether earlier lines of the same record are in other segments than these, which change together.
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
        // Also a step that was followed by others: the last one repeats its times.
        None if line.loc == row.asserted || line.loc != row.done => false,
        // An outcome or a step.
        None => versions.iter().chain([&row.asserted]).any(is_elsewhere),
    }
}
