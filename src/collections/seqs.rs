//! Records by the sequence numbers of their lines.

use super::standing_as;
use crate::error::Result;
use crate::index::RowId;
use crate::line::TypedRecord;
use crate::store::{Reads, Snapshot};

/// The records with these sequence numbers, but for those that are gone; each with its number and
/// its time.
pub(crate) fn with_seqs<T: TypedRecord>(
    view: &Snapshot<'_>,
    seqs: &[u64],
) -> Result<Vec<(u64, i64, T)>> {
    let table = view.table(T::KIND);
    let row = |seq: &u64| {
        let id = table.row_from_seq(*seq);
        let row = table.row(id).filter(|row| row.seq == *seq)?;
        Some((id, *seq, row.at))
    };
    let rows: Vec<(RowId, u64, i64)> = seqs.iter().filter_map(row).collect();
    let mut found = Vec::with_capacity(rows.len());
    for (id, seq, at) in view.reading(T::KIND, &rows, |(id, ..)| id) {
        if let Some(record) = standing_as(view, id)? {
            found.push((seq, at, record));
        }
    }
    Ok(found)
}
