//! The current state of records as rows of typed columns, for SQL engines.

#[cfg(feature = "ship")]
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use super::as_of::Lists;
use super::conversations::get_row as conversation;
use super::rows::standing;
use super::seqs::{each_row, read_each};
use super::{CallQuery, ProposalQuery, TaskQuery};
use crate::error::Result;
use crate::index::{self, KeyHash, Position, RowId, Select, Table};
use crate::record::columns::{Cell, Row};
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
        let read = |view: &Snapshot<'_>, id| {
            let key = view.table(kind).row(id).map(index::Row::key);
            Ok(key.zip(read_row(view, kind, id)?))
        };
        read_each(self.inner(), kind, keys, Table::find, read, take)
    }

    /// The next current records of a kind within the bounds, at most `limit`, in the order of the
    /// list of their kind: by their own time, or by their number. Moves the lower bound behind
    /// them. Empty at the end.
    pub(crate) fn next_rows(
        &self,
        kind: Kind,
        bounds: &mut RowBounds,
        limit: usize,
    ) -> Result<Vec<CurrentRow>> {
        let mut found = Vec::new();
        let RowBounds { from, to } = *bounds;
        let mut last = to;
        each_row(
            self.inner(),
            kind,
            Select::All,
            (from, to),
            true,
            |view, id| {
                let place = view.table(kind).place(Select::All, id);
                if let Some(row) = read_row(view, kind, id)? {
                    found.push(row);
                }
                if found.len() < limit {
                    return Ok(ControlFlow::Continue(()));
                }
                last = place.map_or(to, |place| Position::after(place.at, place.seq));
                Ok(ControlFlow::Break(()))
            },
        )?;
        bounds.from = last;
        Ok(found)
    }
}

/// A part of the list of a kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowBounds {
    from: Position,
    to: Position,
}

impl RowBounds {
    /// The records of a kind whose own time is from `since` to before `until`, in epoch
    /// milliseconds. Kinds that are listed by number are not limited.
    pub(crate) fn new(kind: Kind, since: i64, until: i64) -> RowBounds {
        if RowBounds::is_by_number(kind) || until == i64::MAX {
            let from = if RowBounds::is_by_number(kind) {
                Position::FIRST
            } else {
                Position::before(since)
            };
            return RowBounds {
                from,
                to: Position::END,
            };
        }
        RowBounds {
            from: Position::before(since),
            to: Position::before(until),
        }
    }

    /// Whether a kind is listed by the number that the log assigns, not by time.
    pub(crate) fn is_by_number(kind: Kind) -> bool {
        matches!(kind, Kind::Events | Kind::Inbox | Kind::History)
    }
}

/// The current state of a row; `None` if the record is retracted or has no assertion.
fn read_row(view: &Snapshot<'_>, kind: Kind, id: RowId) -> Result<Option<CurrentRow>> {
    let table = view.table(kind);
    let Some(row) = table.row(id).filter(|row| row.stands()) else {
        return Ok(None);
    };
    let (seq, at) = (row.seq, row.at);
    let history = table.history(id);
    let has_history = history.is_some();
    #[cfg(feature = "ship")]
    let home = {
        let first = history.and_then(<[_]>::first).copied();
        let line = first.filter(|_| kind == Kind::Conversations);
        let line = line.unwrap_or(row.asserted);
        (view.segment(line), u64::from(line.offset))
    };
    let cells = match kind {
        Kind::ToolCalls => CallQuery::read(view, id, None)?.map(|call| Row::of_call(&call)),
        Kind::CodeEditProposals => {
            ProposalQuery::read(view, id, None)?.map(|proposal| Row::of_proposal(&proposal))
        }
        Kind::Inbox => TaskQuery::read(view, id, None)?.map(|task| Row::of_task(&task)),
        Kind::Conversations => {
            conversation(view, id)?.map(|(found, stats)| Row::of_conversation(&found, &stats))
        }
        _ => standing(view, kind, id)?.map(|decoded| {
            let mut row = Row::new(kind);
            each_type!(&decoded.record, it => it.write(&mut row))?;
            Ok(row)
        }),
    };
    let cells = cells.transpose()?.map(Row::into_cells);
    Ok(cells.map(|cells| CurrentRow {
        seq,
        at,
        has_history,
        #[cfg(feature = "ship")]
        home,
        cells,
    }))
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
        use crate::error::{Error, ErrorKind};
        use crate::line::Value;
        use crate::segment::{Fact, Span, scan};
        use crate::storage::{Access, if_there, io_error};

        let (storage, hasher) = (self.inner().storage(), self.inner().hasher());
        let (path, kind) = (segment.name.path(), segment.name.kind);
        let io = |e| io_error(storage, "read the segment", &path, e);
        let file = if_there(storage.open(&path, Access::Read)).map_err(io)?;
        let file = file.filter(|file| file.stat().is_ok_and(|it| it.identity == segment.identity));
        let Some(file) = file else {
            let message = format!("{path} was rewritten while it was copied: try again");
            return Err(Error::new(ErrorKind::Conflict, message));
        };
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
