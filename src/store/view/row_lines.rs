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

/// A line is not intact, or does not hold the expected type: only a
/// [`Snapshot`](crate::store::Snapshot) can tell what it is.
pub(crate) struct Unclear;

impl RowLines<'_> {
    /// The record of the assertion.
    #[inline]
    pub(crate) fn asserted<T: TypedRecord>(&self) -> Result<T, Unclear> {
        self.read(self.row.asserted, self.identities[0])
    }

    /// The outcome, if there is one.
    #[inline]
    pub(crate) fn done<T: TypedRecord>(&self) -> Result<Option<T>, Unclear> {
        if self.row.done.is_some() {
            self.read(self.row.done, self.identities[1]).map(Some)
        } else {
            Ok(None)
        }
    }

    #[inline]
    fn read<T: TypedRecord>(&self, loc: Loc, identity: u64) -> Result<T, Unclear> {
        let place = self.ahead.find(loc, identity).ok_or(Unclear)?;
        let line = self.ahead.line(place);
        let record = is_intact(line).then(|| decode_as(line).ok()?);
        record.flatten().ok_or(Unclear)
    }
}

impl Inner {
    /// What `read` makes of the lines of the row that stands for a key, if there is one.
    pub(crate) fn read_row<T>(
        &self,
        kind: Kind,
        key: KeyHash,
        read: impl FnOnce(&RowLines<'_>) -> Result<T, Unclear>,
    ) -> Result<Result<Option<T>, Unclear>> {
        let view = self.snapshot()?;
        let table = view.table(kind);
        let found = table.find(key).and_then(|id| Some((id, table.row(id)?)));
        let Some((id, row)) = found.filter(|(_, row)| row.stands()) else {
            let is_broken = view.is_broken();
            return Ok(if is_broken { Err(Unclear) } else { Ok(None) });
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
        let is_broken = view.is_broken();
        drop(view);
        if is_broken || self.read_missing(&mut ahead).is_err() {
            return Ok(Err(Unclear));
        }
        let lines = RowLines {
            row: &row,
            ahead: &ahead,
            identities,
        };
        Ok(read(&lines).map(Some))
    }
}
