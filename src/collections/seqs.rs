//! Reads records by the sequence numbers of their lines.

use super::page::{PartEnd, ROWS_AT_A_TIME};
use super::standing_as;
use crate::error::Result;
use crate::index::RowId;
use crate::line::TypedRecord;
use crate::store::{Inner, ReadAhead, Reads};

/// Calls `take` with the records that have these sequence numbers, each with its number and its
/// time. Removed records are left out. The lock is released after every few records to let writers
/// in.
pub(crate) fn with_seqs<T: TypedRecord>(
    inner: &Inner,
    seqs: &[u64],
    mut take: impl FnMut(u64, i64, T),
) -> Result<()> {
    let (mut left, mut ahead) = (seqs, ReadAhead::new());
    while !left.is_empty() {
        let (found, count) = inner.with_snapshot_ahead(&mut ahead, |view| {
            let table = view.table(T::KIND);
            let row = |seq: &u64| {
                let id = table.row_from_seq(*seq);
                let row = table.row(id).filter(|row| row.seq == *seq)?;
                Some((id, *seq, row.at))
            };
            let some = left.iter().take(ROWS_AT_A_TIME);
            let rows: Vec<Option<(RowId, u64, i64)>> = some.map(row).collect();
            view.expect(T::KIND, rows.iter().flatten().map(|(id, ..)| *id));
            let (mut found, mut end) = (Vec::new(), PartEnd::new());
            for (place, (id, seq, at)) in rows
                .iter()
                .enumerate()
                .filter_map(|(place, row)| Some((place, (*row)?)))
            {
                match standing_as(view, id) {
                    Err(_) if view.lacks_lines() && place > 0 => return Ok((found, place)),
                    record => found.extend(record?.map(|record| (seq, at, record))),
                }
                if end.has_come(true) {
                    return Ok((found, place + 1));
                }
            }
            Ok((found, rows.len()))
        })?;
        for (seq, at, record) in found {
            take(seq, at, record);
        }
        left = left.get(count..).unwrap_or_default();
    }
    Ok(())
}
