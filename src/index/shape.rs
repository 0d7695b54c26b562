//! The layout of each kind's table.

use super::entry::{CALL_ID, REQUEST_ID};
use crate::line::Op;
use crate::record::Kind;

/// The sort key of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Time,
    /// [`Entry::number`](super::Entry::number).
    Number,
}

/// The states that have a list of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum States {
    None,
    All,
    /// Most rows end in this state, which has no list.
    AllBut(Op),
}

/// Which of several lines counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    First,
    Last,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Number of lookup hashes per row.
    pub width: usize,
    /// Rows also store the second half of each lookup hash, so that matches can be counted without
    /// reading their lines.
    pub has_checks: bool,
    /// The lookups with few rows per value. They have postings. For other lookups, all rows are
    /// scanned and their hashes compared.
    pub posted: &'static [usize],
    /// Rows without the first lookup are posted under hash 0.
    pub posts_absent: bool,
    /// The sort key of the list of all rows.
    pub order: Place,
    /// The sort key of the rows in a posting.
    pub lookup_order: Place,
    /// The states that have postings.
    pub states: States,
    /// Assertions and retractions are kept, for queries as of a past time.
    pub has_history: bool,
    /// Which outcome of a row counts.
    pub outcome: Which,
    /// Which assertion of a row counts. Records of append-only kinds are asserted once, so another
    /// line with the same key was not written by decklog.
    pub assertion: Which,
}

impl Shape {
    /// Whether a row with this hash in a lookup field is posted.
    pub(super) fn posts(&self, field: usize, hash: u32) -> bool {
        hash != 0 || (self.posts_absent && field == 0)
    }

    /// Whether rows with this state are listed.
    pub(super) fn lists(&self, state: Op) -> bool {
        match self.states {
            States::None => false,
            States::All => true,
            States::AllBut(usual) => usual != state,
        }
    }

    /// Whether anything is ordered by number.
    pub(super) fn has_numbers(&self) -> bool {
        [self.order, self.lookup_order].contains(&Place::Number)
    }

    /// The layout that most kinds share.
    fn plain(kind: Kind) -> Shape {
        Shape {
            width: kind.lookups_len(),
            posted: &[],
            posts_absent: false,
            order: Place::Time,
            lookup_order: Place::Time,
            has_checks: false,
            states: States::None,
            has_history: false,
            outcome: Which::Last,
            assertion: Which::Last,
        }
    }

    pub(super) fn of(kind: Kind) -> Shape {
        let plain = Shape::plain(kind);
        // The layout of append-only kinds whose records have numbers.
        let numbered = Shape {
            order: Place::Number,
            lookup_order: Place::Number,
            assertion: Which::First,
            ..plain
        };
        match kind {
            // Parent, message, thread.
            Kind::ConversationTurns => Shape {
                posted: &[0, 1, 2],
                has_history: true,
                ..plain
            },
            // Parent, tool and request, not vendor and call id.
            Kind::ToolCalls => Shape {
                width: CALL_ID + 1,
                posted: &[0, 2, REQUEST_ID],
                states: States::AllBut(Op::Completed),
                has_history: true,
                outcome: Which::First,
                ..plain
            },
            Kind::CodeEditProposals => Shape {
                states: States::AllBut(Op::Reverted),
                has_history: true,
                ..plain
            },
            // Workspace, project, client, user, session, parent, agent. Its state is the status.
            Kind::Conversations => Shape {
                has_checks: true,
                posted: &[0, 1, 2, 3, 4, 5, 6],
                states: States::All,
                ..plain
            },
            // Conversation, in the order of its sequence.
            Kind::Messages => Shape {
                width: 1,
                posted: &[0],
                lookup_order: Place::Number,
                assertion: Which::First,
                ..plain
            },
            // Parent, type. Roots have no parent.
            Kind::Events => Shape {
                posted: &[0, 1],
                posts_absent: true,
                ..numbered
            },
            // Update id. If another log's files were copied into this one, a second task with the
            // same id must not requeue a finished task.
            Kind::Inbox => Shape {
                posted: &[0],
                states: States::AllBut(Op::Done),
                ..numbered
            },
            // Chat.
            Kind::History => Shape {
                posted: &[0],
                ..numbered
            },
            // Task and hash, but not the previous hash. The history reveals lines that would change
            // a recorded thought.
            Kind::ThoughtRecords => Shape {
                posted: &[0, 2],
                has_history: true,
                ..numbered
            },
            // Rollups are ordered by time, which is their day.
            _ => plain,
        }
    }
}
