//! The index: 64-bit hashes and locations, never the keys and never the payloads. It says where
//! to look; whoever looks confirms the hit against the line.

mod entry;
mod postings;
mod table;

pub(crate) use entry::{Entry, Hasher, Loc};
pub(crate) use postings::Position;
pub(crate) use table::{CallState, Row, RowId, Select, Table};

use crate::record::Kind;

/// One table for every kind.
#[derive(Debug)]
pub(crate) struct Index {
    turns: Table,
    calls: Table,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index {
            turns: Table::new(Kind::ConversationTurns),
            calls: Table::new(Kind::ToolCalls),
        }
    }

    pub(crate) fn table(&self, kind: Kind) -> &Table {
        match kind {
            Kind::ConversationTurns => &self.turns,
            Kind::ToolCalls => &self.calls,
        }
    }

    fn table_mut(&mut self, kind: Kind) -> &mut Table {
        match kind {
            Kind::ConversationTurns => &mut self.turns,
            Kind::ToolCalls => &mut self.calls,
        }
    }

    /// Takes one line in; lines come in the order of their sequence numbers.
    pub(crate) fn apply(&mut self, kind: Kind, entry: &Entry) {
        self.table_mut(kind).apply(entry);
    }

    /// Builds the index of a whole store at once, from lines in the order of their sequence
    /// numbers.
    pub(crate) fn build(entries: &[(Kind, Entry)]) -> Index {
        let mut index = Index::new();
        for (kind, entry) in entries {
            index.table_mut(*kind).apply_unposted(entry);
        }
        for kind in Kind::ALL {
            index.table_mut(kind).post_all();
        }
        index
    }
}
