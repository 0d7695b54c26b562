//! The index: 64-bit hashes and locations, never the keys and never the payloads. It says where
//! to look; whoever looks confirms the hit against the line itself.

mod entry;
mod postings;
mod shape;
mod table;
mod talks;

pub(crate) use entry::{Entry, Hasher, Loc};
pub(crate) use postings::Position;
pub(crate) use table::{Row, RowId, Select, Table};
pub(crate) use talks::Talks;

use crate::record::Kind;
use entry::Sums;

/// One table for every kind, and what is derived from many lines.
#[derive(Debug)]
pub(crate) struct Index {
    tables: [Table; Kind::ALL.len()],
    talks: Talks,
    update_id_max: Option<i64>,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index {
            tables: Kind::ALL.map(Table::new),
            talks: Talks::default(),
            update_id_max: None,
        }
    }

    // `Kind::ALL` is in the order of its variants; a test says so.
    pub(crate) fn table(&self, kind: Kind) -> &Table {
        &self.tables[kind as usize]
    }

    /// What the messages of each conversation add up to.
    pub(crate) fn talks(&self) -> &Talks {
        &self.talks
    }

    /// The greatest `update_id` of the inbox.
    pub(crate) fn update_id_max(&self) -> Option<i64> {
        self.update_id_max
    }

    /// Takes one line in; lines come in the order of their sequence numbers.
    pub(crate) fn apply(&mut self, kind: Kind, entry: &Entry) {
        let is_new = self.tables[kind as usize].apply(entry);
        self.add_up(entry, is_new);
    }

    /// Builds the index of a whole store at once, from lines in the order of their sequence
    /// numbers.
    pub(crate) fn build(entries: &[(Kind, Entry)]) -> Index {
        let mut index = Index::new();
        for (kind, entry) in entries {
            let (_, is_new) = index.tables[*kind as usize].apply_unposted(entry);
            index.add_up(entry, is_new);
        }
        for table in &mut index.tables {
            table.post_all();
        }
        index
    }

    fn add_up(&mut self, entry: &Entry, is_new: bool) {
        match entry.sums.as_deref() {
            Some(Sums::Message(measured)) if is_new => self.talks.add(entry, measured),
            Some(Sums::Update(id)) => self.update_id_max = self.update_id_max.max(Some(*id)),
            Some(Sums::Message(_)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_table() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }
}
