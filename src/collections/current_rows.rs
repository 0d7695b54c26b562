//! The current state of records as rows of typed columns, for SQL engines.

#[cfg(feature = "ship")]
use std::collections::{HashMap, HashSet};

use super::as_of::Lists;
use super::conversations::get_row as conversation;
use super::rows::standing;
use super::seqs::read_each;
use super::{CallQuery, ProposalQuery, TaskQuery};
use crate::error::Result;
use crate::index::{self, KeyHash, RowId, Table};
use crate::record::columns::{Cell, ColumnSet, Row};
use crate::record::declare::Fields as _;
use crate::record::{Kind, each_type};
use crate::store::{Reads, Snapshot, Store};

/// The current state of a record.
#[derive(Debug)]
pub(crate) struct CurrentRow {
    /// The sequence number of its latest assertion or, for a conversation, of its first line.
    pub seq: u64,
    /// The time of the same line, in epoch milliseconds. It is the record's own time.
    pub at: i64,
    /// Whether it was asserted several times, so an earlier version may have had another time.
    #[cfg(feature = "ship")]
    pub has_history: bool,
    /// The segment of the same line, and its offset there.
    #[cfg(feature = "ship")]
    pub home: (crate::segment::SegmentName, u64),
    /// Its values, in the order of [`Kind::columns`].
    pub cells: Vec<Cell>,
}

impl Store {
    /// Calls `take` with the current state of the records with these keys. Leaves out keys without
    /// a record, or with a retracted one.
    pub(crate) fn rows_of_keys(
        &self,
        kind: Kind,
        keys: &[KeyHash],
        take: impl FnMut((KeyHash, CurrentRow)) -> Result<()>,
    ) -> Result<()> {
        self.columns_of_keys(kind, keys, (ColumnSet::ALL, u64::MAX), take)
    }

    /// As [`rows_of_keys`](Store::rows_of_keys), with the values of the wanted columns, and without
    /// the records that were added after this sequence number.
    pub(crate) fn columns_of_keys(
        &self,
        kind: Kind,
        keys: &[KeyHash],
        (wanted, upto): (ColumnSet, u64),
        take: impl FnMut((KeyHash, CurrentRow)) -> Result<()>,
    ) -> Result<()> {
        let read = |view: &Snapshot<'_>, id| {
            if !has_come(view, kind, id, upto)? {
                return Ok(None);
            }
            let key = view.table(kind).row(id).map(index::Row::key);
            Ok(key.zip(read_row(view, kind, id, wanted)?))
        };
        read_each(self.inner(), kind, keys, Table::find, read, take)
    }
}

/// Whether a record has an assertion with this sequence number or an earlier one.
pub(super) fn has_come(view: &Snapshot<'_>, kind: Kind, id: RowId, upto: u64) -> Result<bool> {
    let table = view.table(kind);
    match (table.row(id), table.history(id)) {
        (None, _) => Ok(false),
        (Some(row), _) if row.seq <= upto => Ok(true),
        // It was asserted again since, or for the first time.
        (_, Some([first, ..])) => {
            let first = view.read(kind, *first)?.seq;
            Ok(first.is_some_and(|seq| seq <= upto))
        }
        _ => Ok(false),
    }
}

/// The current state of a row, without its values; `None` if the record is retracted or has no
/// assertion.
pub(super) fn row_head(view: &Snapshot<'_>, kind: Kind, id: RowId) -> Option<CurrentRow> {
    let table = view.table(kind);
    let row = table.row(id).filter(|row| row.stands())?;
    #[cfg(feature = "ship")]
    let history = table.history(id);
    Some(CurrentRow {
        seq: row.seq,
        at: row.at,
        #[cfg(feature = "ship")]
        has_history: history.is_some(),
        #[cfg(feature = "ship")]
        home: {
            let first = history.and_then(<[_]>::first).copied();
            let line = first.filter(|_| kind == Kind::Conversations);
            let line = line.unwrap_or(row.asserted);
            (view.segment(line), u64::from(line.offset))
        },
        cells: Vec::new(),
    })
}

/// As [`row_head`], with the values of the wanted columns.
pub(super) fn read_row(
    view: &Snapshot<'_>,
    kind: Kind,
    id: RowId,
    wanted: ColumnSet,
) -> Result<Option<CurrentRow>> {
    let Some(head) = row_head(view, kind, id) else {
        return Ok(None);
    };
    let row = match kind {
        Kind::ToolCalls => match call_columns(view, id, wanted)? {
            Some(row) => Some(Ok(row)),
            None => CallQuery::read(view, id, None)?.map(|call| Row::of_call(&call, wanted)),
        },
        Kind::CodeEditProposals => {
            ProposalQuery::read(view, id, None)?.map(|proposal| Row::of_proposal(&proposal, wanted))
        }
        Kind::Inbox => TaskQuery::read(view, id, None)?.map(|task| Row::of_task(&task, wanted)),
        Kind::Conversations => conversation(view, id)?
            .map(|(found, stats)| Row::of_conversation(&found, &stats, wanted)),
        _ => read_columns(view, kind, id, wanted)?.map(Ok),
    };
    let cells = row.transpose()?.map(Row::into_cells);
    Ok(cells.map(|cells| CurrentRow { cells, ..head }))
}

/// The values of a tool call, read from its lines if these are as decklog wrote them.
fn call_columns(view: &Snapshot<'_>, id: RowId, wanted: ColumnSet) -> Result<Option<Row>> {
    const KIND: Kind = Kind::ToolCalls;
    let Some(lines) = view.table(KIND).row(id) else {
        return Ok(None);
    };
    let mut row = Row::of(KIND, wanted);
    let Some(mut op) = view.add_line(&mut row, KIND, lines.asserted)? else {
        return Ok(None);
    };
    if lines.done.is_some() {
        match view.add_line(&mut row, KIND, lines.done)? {
            Some(done) => op = done,
            None => return Ok(None),
        }
    }
    // The ops are the words of the status.
    row.set_if("status", Some(op), |op| Cell::Text(op.as_str().to_owned()));
    Ok(Some(row))
}

/// The values of a record that one line describes.
fn read_columns(
    view: &Snapshot<'_>,
    kind: Kind,
    id: RowId,
    wanted: ColumnSet,
) -> Result<Option<Row>> {
    let Some(line) = view.table(kind).row(id).map(|row| row.asserted) else {
        return Ok(None);
    };
    let mut row = Row::of(kind, wanted);
    if view.add_line(&mut row, kind, line)?.is_some() {
        return Ok(Some(row));
    }
    let Some(decoded) = standing(view, kind, id)? else {
        return Ok(None);
    };
    let mut row = Row::of(kind, wanted);
    each_type!(&decoded.record, it => it.write(&mut row))?;
    Ok(Some(row))
}

/// The keys of the lines in a part of a segment, each once.
#[derive(Debug, Default)]
#[cfg(feature = "ship")]
pub(crate) struct RangeKeys {
    pub keys: Vec<KeyHash>,
    /// The texts of the same keys, in the same order.
    pub texts: Vec<[String; 2]>,
    /// The time of each line, in epoch milliseconds, with the place of its key.
    pub times: Vec<(usize, i64)>,
    /// The conversations of messages, each once.
    pub conversations: Vec<KeyHash>,
    /// The offset after the last line that was read.
    pub end: u64,
}

#[cfg(feature = "ship")]
impl Store {
    /// The keys of the lines of a segment that start from `from` to before `stop`.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) if the segment was rewritten;
    /// [`Io`](crate::ErrorKind::Io).
    pub(crate) fn keys_of_range(
        &self,
        segment: &crate::store::PointSegment,
        from: u64,
        stop: u64,
    ) -> Result<RangeKeys> {
        use crate::line::Value;
        use crate::segment::{Fact, Span, scan};
        use crate::storage::io_error;

        let (storage, hasher) = (self.inner().storage(), self.inner().hasher());
        let (path, kind) = (segment.name.path(), segment.name.kind);
        let io = |e| io_error(storage, "read the segment", &path, e);
        let file = segment.open(storage)?;
        let mut found = RangeKeys::default();
        let (mut known, mut talks) = (HashMap::new(), HashSet::new());
        let span = Span {
            from,
            stop,
            until: segment.bytes,
        };
        let scanned = scan(&*file, kind, span, &mut |line| {
            line.facts(kind, &mut |fact: Fact<'_>| {
                let [one, two] = &fact.envelope.key;
                let key = hasher.key_of([one, two]);
                let place = *known.entry(key).or_insert(found.keys.len());
                found.times.push((place, fact.envelope.at));
                if place == found.keys.len() {
                    let text = |value: &Value<'_>| {
                        let text = value.text(&mut [0; Value::BYTES]).to_vec();
                        String::from_utf8_lossy(&text).into_owned()
                    };
                    found.keys.push(key);
                    found.texts.push([text(one), text(two)]);
                }
                if kind == Kind::Messages
                    && let Some(talk) = &fact.envelope.lookups[0]
                {
                    let key = hasher.key_of([talk, &Value::EMPTY]);
                    if talks.insert(key) {
                        found.conversations.push(key);
                    }
                }
            });
        });
        found.end = scanned.map_err(io)?.end.max(from);
        Ok(found)
    }
}
