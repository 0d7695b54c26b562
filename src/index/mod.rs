//! The index: 64-bit hashes and locations, never the keys and never the payloads. It says where
//! to look; whoever looks confirms the hit against the line itself.

mod entry;
mod groups;
mod list;
mod rows;
mod shape;
mod slots;
mod table;
mod talks;
mod walk;

pub(crate) use entry::{Entry, Hasher, Loc};
pub(crate) use rows::{Position, Row, RowId};
pub(crate) use table::{Select, Table};
pub(crate) use talks::Talks;
pub(crate) use walk::Walk;

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
        for kind in Kind::ALL {
            let of_kind = entries.iter().filter(|(of, _)| *of == kind);
            let mut news = Vec::new();
            index.tables[kind as usize].build(of_kind.map(|(_, entry)| entry), |entry, is_new| {
                if entry.sums.is_some() {
                    news.push((entry, is_new));
                }
            });
            for (entry, is_new) in news {
                index.add_up(entry, is_new);
            }
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
mod tests;
