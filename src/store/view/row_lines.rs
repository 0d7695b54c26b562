//! Reads the lines of one row. The state is locked only while the row is looked up.

use super::read_ahead::ReadAhead;
use crate::error::Result;
use crate::index::{KeyHash, Loc, Row};
use crate::line::{TypedRecord, decode_as, is_intact};
use crate::record::Kind;
use crate::store::{Inner, Reads};

/// A row and its lines as they were when it was looked up.
pub(crate) struct RowLines<'a> {
    row: &'a Row,
    ahead: &'a ReadAhead,
    /// The identities of the segments of the assertion and of the outcome.
    identities: [u64; 2],
}

impl RowLines<'_> {
    /// The record of the assertion; `None` unless its line is intact and holds this type.
    #[inline]
    pub(crate) fn asserted<T: TypedRecord>(&self) -> Option<T> {
        self.read(self.row.asserted, self.identities[0])
    }

    /// As [`asserted`](Self::asserted), for the outcome; `Some(None)` if there is none.
    #[inline]
    pub(crate) fn done<T: TypedRecord>(&self) -> Option<Option<T>> {
        if self.row.done.is_some() {
            self.read(self.row.done, self.identities[1]).map(Some)
        } else {
            Some(None)
        }
    }

    #[inline]
    fn read<T: TypedRecord>(&self, loc: Loc, identity: u64) -> Option<T> {
        let line = self.ahead.line(self.ahead.find(loc, identity)?);
        is_intact(line).then(|| decode_as(line).ok()?).flatten()
    }
}

impl Inner {
    /// What `read` makes of the lines of the row that stands for a key. `Some(None)` if there is no
    /// such row. `None` if the lines are not as the index describes them, so that only a
    /// [`Snapshot`](crate::store::Snapshot) can read them.
    pub(crate) fn read_row<T>(
        &self,
        kind: Kind,
        key: KeyHash,
        read: impl FnOnce(&RowLines<'_>) -> Option<T>,
    ) -> Result<Option<Option<T>>> {
        let view = self.snapshot()?;
        let table = view.table(kind);
        let found = table.find(key).and_then(|id| Some((id, table.row(id)?)));
        let Some((id, row)) = found.filter(|(_, row)| row.stands()) else {
            return Ok(Some(None));
        };
        let row = *row;
        let mut ahead = ReadAhead::new();
        ahead.expected.extend(table.extent(id));
        let locs = [row.asserted, row.done];
        let identities = locs.map(|loc| {
            if loc.is_some() {
                ahead.want(&view.state, loc)
            } else {
                0
            }
        });
        drop(view);
        if self.read_missing(&mut ahead).is_err() {
            return Ok(None);
        }
        let lines = RowLines {
            row: &row,
            ahead: &ahead,
            identities,
        };
        Ok(read(&lines).map(Some))
    }
}
