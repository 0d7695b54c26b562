//! Batches of records grouped by kind.

use crate::record::{Kind, Record};

/// Number of groups of a batch.
pub(crate) const GROUPS: usize = 4;

/// The group of a record that an import or a receiver writes, in the order in which groups are
/// written. The log makes one write for each run of records of a kind, and a conversation comes
/// before its messages.
pub(crate) fn group(record: &Record) -> usize {
    match record.kind() {
        Kind::Conversations => 0,
        Kind::ConversationTurns => 1,
        Kind::ToolCalls => 2,
        // Messages. No other kinds are grouped.
        _ => 3,
    }
}
