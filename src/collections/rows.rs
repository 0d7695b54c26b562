//! Reads the rows of the index as records.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::error::{Error, ErrorKind, Result};
use crate::index::{Loc, Position, RowId, Select};
use crate::line::{Decoded, TypedRecord};
use crate::record::{Kind, Record, RecordType};
use crate::store::{Inner, Reads, RowLines, Snapshot, Unclear};

/// The latest assertion of a row, if it is not retracted.
pub(super) fn standing(from: &impl Reads, kind: Kind, id: RowId) -> Result<Option<Decoded>> {
    let row = from.table(kind).row(id).filter(|row| row.stands());
    row.map(|row| from.read(kind, row.asserted)).transpose()
}

/// Reads the row of a key; `None` if the log has no lines with that key. `quick` reads its current
/// lines if they are as decklog wrote them, and `read` the row in any case.
pub(super) fn get_row<T>(
    inner: &Inner,
    kind: Kind,
    key: [&str; 2],
    quick: Option<impl Fn(&RowLines<'_>) -> Result<T, Unclear>>,
    read: impl Fn(&Snapshot<'_>, RowId) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let key = inner.hasher().key(key);
    if let Some(quick) = quick
        && let Ok(found) = inner.read_row(kind, key, quick)?
    {
        return Ok(found);
    }
    inner.with_snapshot(|view| match view.table(kind).find(key) {
        Some(row) => {
            view.expect(kind, std::iter::once(row));
            read(view, row)
        }
        None => Ok(None),
    })
}

/// Formats a UUID in the form used in lines: lower case with hyphens.
pub(super) fn lower(id: Uuid, text: &mut [u8; Hyphenated::LENGTH]) -> &str {
    id.hyphenated().encode_lower(text)
}

/// As [`standing`], for a statically known type.
pub(super) fn standing_as<T: TypedRecord>(from: &impl Reads, id: RowId) -> Result<Option<T>> {
    let row = from.table(T::KIND).row(id).filter(|row| row.stands());
    row.map(|row| read_as(from, row.asserted)).transpose()
}

/// Reads the record at `loc`, which must be of this type.
#[inline]
pub(super) fn read_as<T: TypedRecord>(from: &impl Reads, loc: Loc) -> Result<T> {
    from.read_as(loc)?.ok_or_else(collision)
}

/// The record of this type in a decoded line.
pub(super) fn record_of<T: RecordType>(decoded: Decoded) -> Result<T> {
    T::of(decoded.record).ok_or_else(collision)
}

/// The record of this type in a record.
pub(super) fn record_in<T: RecordType>(record: &Record) -> Result<&T> {
    T::of_ref(record).ok_or_else(collision)
}

/// All positions of a list.
pub(super) const EVERYWHERE: (Position, Position) = (Position::FIRST, Position::END);

/// The live records that the index selects between two positions and that `is` accepts. The index
/// has only hashes.
pub(super) fn selected<'a, T: TypedRecord>(
    from: &'a impl Reads,
    select: Select,
    (start, end): (Position, Position),
    is: impl Fn(&T) -> bool + 'a,
) -> impl DoubleEndedIterator<Item = Result<T>> + 'a {
    let rows = from.table(T::KIND).walk(select, start, end);
    rows.filter_map(move |row| {
        let record = standing_as(from, row);
        record.map(|record| record.filter(&is)).transpose()
    })
}

/// The rows of a kind whose status is this word, which is also the op of their last line.
pub(super) fn at_status(kind: Kind, status: &str) -> Select {
    kind.op(status).map_or(Select::All, Select::State)
}

/// The outcome of a row, or its latest step.
pub(super) fn outcome(from: &impl Reads, kind: Kind, id: RowId) -> Result<Option<Decoded>> {
    let row = from.table(kind).row(id).filter(|row| row.done.is_some());
    row.map(|row| from.read(kind, row.done)).transpose()
}

/// The log has a line with the same hash but another key. This is too improbable to happen by
/// chance.
pub(super) fn collision() -> Error {
    Error::new(
        ErrorKind::Damaged,
        "the index points to a line of another key",
    )
}

/// Whether the log has lines of a kind with each of these ids as the key.
pub(crate) fn has_ids(from: &impl Reads, kind: Kind, ids: &[Uuid]) -> Vec<bool> {
    let mut text = [0; Hyphenated::LENGTH];
    let ids = ids.iter();
    ids.map(|id| from.find(kind, [lower(*id, &mut text), ""]).is_some())
        .collect()
}
