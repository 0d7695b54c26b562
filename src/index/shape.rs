//! What the table of each kind keeps.

use super::entry::{CALL_ID, REQUEST_ID};
use crate::line::Op;
use crate::record::Kind;

/// What rows are in the order of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Time,
    /// [`Entry::number`](super::Entry::number).
    Number,
}

/// Which states rows are listed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum States {
    None,
    All,
    /// Most rows come to stay in this one, which has no list.
    AllBut(Op),
}

/// Which of several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    First,
    Last,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// How many lookup hashes a row has.
    pub width: usize,
    /// Rows have the other half of each lookup hash as well, so that rows can be counted without
    /// reading their lines.
    pub has_checks: bool,
    /// The lookups that have few rows a value, and so postings of their own. Others are found by
    /// walking all rows with an eye on their hashes.
    pub posted: &'static [usize],
    /// Rows without the first lookup are posted under hash 0.
    pub posts_absent: bool,
    /// What all rows are in the order of.
    pub order: Place,
    /// What the rows under a lookup are in the order of.
    pub lookup_order: Place,
    /// The states that have postings.
    pub states: States,
    /// Assertions and retractions are kept, so that the past can be asked for.
    pub has_history: bool,
    /// Which outcome of a row stands.
    pub outcome: Which,
    /// Which assertion of a row stands. What is only ever added is never asserted again, so
    /// another line of the key is none of ours.
    pub assertion: Which,
}

impl Shape {
    /// Whether a row with this hash of a lookup is posted.
    pub(super) fn posts(&self, field: usize, hash: u32) -> bool {
        hash != 0 || (self.posts_absent && field == 0)
    }

    /// Whether rows of this state are listed.
    pub(super) fn lists(&self, state: Op) -> bool {
        match self.states {
            States::None => false,
            States::All => true,
            States::AllBut(usual) => usual != state,
        }
    }

    /// Whether anything is in the order of numbers.
    pub(super) fn has_numbers(&self) -> bool {
        [self.order, self.lookup_order].contains(&Place::Number)
    }

    /// What most kinds keep.
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
        let numbered = Shape {
            order: Place::Number,
            lookup_order: Place::Number,
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
            // Workspace, project, client, user, session, parent. Its state is the status.
            Kind::Conversations => Shape {
                has_checks: true,
                posted: &[0, 1, 2, 3, 4, 5],
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
                assertion: Which::First,
                ..numbered
            },
            // Update. Another task under the same id, of a log whose files were put among these,
            // must not put what is done back into the queue.
            Kind::Inbox => Shape {
                posted: &[0],
                states: States::AllBut(Op::Done),
                assertion: Which::First,
                ..numbered
            },
            // Chat.
            Kind::History => Shape {
                posted: &[0],
                assertion: Which::First,
                ..numbered
            },
            // Task and hash, not the hash before it. The history tells of lines that would change
            // what was recorded.
            Kind::ThoughtRecords => Shape {
                posted: &[0, 2],
                has_history: true,
                assertion: Which::First,
                ..numbered
            },
            // Rollups by their time, which is their day.
            _ => plain,
        }
    }
}
