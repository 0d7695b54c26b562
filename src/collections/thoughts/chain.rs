//! Checks of chains: every hash is recomputed from the current content of the lines.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Serialize;

use super::super::page::{PartEnd, ROWS_AT_A_TIME};
use super::{KIND, select};
use crate::collections::collision;
use crate::error::Result;
use crate::index::{Loc, Position, RowId, Select};
use crate::line::Decoded;
use crate::record::{GENESIS_HASH, Record, ThoughtRecord};
use crate::segment::Damage;
use crate::store::{Inner, ReadAhead, Reads, Snapshot};

/// The result of a check of one task's chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChainCheck {
    /// The task.
    pub task_id: String,
    /// Number of records of the chain.
    pub records: u64,
    /// The hash of the last record, to compare with a copy kept elsewhere.
    pub head: Option<String>,
    /// The first break of the chain, if any.
    pub broken: Option<ChainBreak>,
    /// Damage in the files of thoughts that may have destroyed records of this chain. It is the
    /// same for all chains of one check.
    #[serde(serialize_with = "as_list", skip_serializing_if = "<[_]>::is_empty")]
    pub damage: Arc<[Damage]>,
}

fn as_list<S: serde::Serializer>(
    list: &Arc<[Damage]>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    list.as_ref().serialize(to)
}

impl ChainCheck {
    /// Whether the chain is unbroken and no line that may belong to it is damaged. A chain that
    /// lost its last records is unbroken, and so is a chain without records: compare
    /// [`records`](ChainCheck::records) and [`head`](ChainCheck::head) with copies kept elsewhere.
    pub fn is_intact(&self) -> bool {
        self.broken.is_none() && self.damage.is_empty()
    }
}

/// A break of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainBreak {
    /// Position of the record in the chain, from 1.
    pub position: u64,
    /// The id of the record, if it can be read.
    pub id: Option<String>,
    /// The file, relative to the store.
    pub file: String,
    /// Offset of its line in the file, in bytes.
    pub offset: u64,
    /// The reason for the break.
    pub reason: String,
}

/// A record whose line can no longer be read.
struct Lost {
    /// The sequence number of its row.
    seq: u64,
    broken: ChainBreak,
}

/// Checks the chain of one task, or of all tasks. `go_on` gets the number of records checked so
/// far; if it breaks, the result is `None`. The lock is released at intervals, so records that
/// writers add meanwhile may be checked too.
pub(super) fn check(
    inner: &Inner,
    task_id: Option<&str>,
    go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<BTreeMap<String, ChainCheck>>> {
    let checking = RefCell::new(Checking {
        checks: BTreeMap::new(),
        lost: Vec::new(),
        from: Position::FIRST,
        seen: 0,
    });
    let (go_on, mut ahead) = (RefCell::new(go_on), ReadAhead::new());
    loop {
        let part = inner.with_snapshot_ahead(&mut ahead, |view| {
            let (mut checking, mut go_on) = (checking.borrow_mut(), go_on.borrow_mut());
            check_part(view, task_id, &mut checking, *go_on)
        });
        match part? {
            ControlFlow::Break(()) => return Ok(None),
            ControlFlow::Continue(true) => {}
            ControlFlow::Continue(false) => break,
        }
    }
    let Checking {
        mut checks, lost, ..
    } = checking.into_inner();
    let view = inner.snapshot()?;
    for lost in lost {
        note_lost(&view, &mut checks, task_id, lost);
    }
    let damage: Arc<[Damage]> = view.damage_of(KIND).into();
    // Report damage even if no chain is left to report it with.
    if checks.is_empty() && !damage.is_empty() {
        entry(&mut checks, task_id.unwrap_or_default());
    }
    for check in checks.values_mut() {
        check.damage = Arc::clone(&damage);
    }
    Ok(Some(checks))
}

/// The progress of a check.
struct Checking {
    checks: BTreeMap<String, ChainCheck>,
    lost: Vec<Lost>,
    /// The position to continue from.
    from: Position,
    /// Number of records checked so far.
    seen: u64,
}

/// Checks some records; returns whether there may be more.
fn check_part(
    view: &Snapshot<'_>,
    task_id: Option<&str>,
    checking: &mut Checking,
    go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<ControlFlow<(), bool>> {
    let table = view.table(KIND);
    let select = select(view.hasher(), task_id);
    let rows = table.walk(select, checking.from, Position::END);
    let ahead = table.walk(select, checking.from, Position::END);
    view.expect(KIND, ahead.take(ROWS_AT_A_TIME));
    let mut end = PartEnd::new();
    for id in rows {
        let Some(row) = table.row(id) else { continue };
        let found = match view.read_checked(KIND, row.asserted) {
            Err(e) if view.lacks_lines() => return Err(e),
            found => found,
        };
        if go_on(checking.seen).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        checking.seen += 1;
        check_one(view, task_id, id, found, checking);
        let place = table.place(select, id);
        checking.from = place.map_or(Position::END, |place| Position::after(place.at, place.seq));
        if end.has_come(true) {
            return Ok(ControlFlow::Continue(true));
        }
    }
    Ok(ControlFlow::Continue(false))
}

/// Checks the record of a row against the one before it.
fn check_one(
    view: &Snapshot<'_>,
    task_id: Option<&str>,
    id: RowId,
    found: Result<(Decoded, bool)>,
    Checking { checks, lost, .. }: &mut Checking,
) {
    let table = view.table(KIND);
    let Some(row) = table.row(id) else { return };
    let (record, fault) = match found {
        Ok((decoded, is_good)) => match decoded.record {
            Record::Thought(record) => {
                let fault = if !is_good {
                    Some("its line was changed: the checksum is wrong")
                } else if table.history(id).is_some() {
                    Some("another line says its id, too")
                } else {
                    None
                };
                (Some(record), fault.map(str::to_owned))
            }
            _ => (None, Some(collision().to_string())),
        },
        Err(e) => (None, Some(e.reason())),
    };
    let Some(record) = record else {
        let broken = break_at(view, row.asserted, 0, None, fault.unwrap_or_default());
        let seq = row.seq;
        lost.push(Lost { seq, broken });
        return;
    };
    if task_id.is_some_and(|task_id| task_id != record.task_id) {
        return;
    }
    let check = entry(checks, &record.task_id);
    check.records += 1;
    let expected = check.head.as_deref().unwrap_or(GENESIS_HASH);
    let computed = record.computed_hash();
    let reason = if record.hash != computed {
        let hash = &record.hash;
        Some(format!(
            "its hash is {hash}, but what it says has {computed}"
        ))
    } else if record.prev_hash != expected && !follows_removed(view, check, &record) {
        let prev_hash = &record.prev_hash;
        Some(format!(
            "its prev_hash is {prev_hash}, but the record before it has {expected}"
        ))
    } else {
        fault
    };
    if let (None, Some(reason)) = (&check.broken, reason) {
        let position = check.records;
        let id = Some(record.id);
        check.broken = Some(break_at(view, row.asserted, position, id, reason));
    }
    check.head = Some(record.hash);
}

/// Whether a record is the first one left in its chain and continues from a removed one.
fn follows_removed(view: &Snapshot<'_>, check: &ChainCheck, record: &ThoughtRecord) -> bool {
    let mut removed = view.anchors(&record.task_id);
    check.head.is_none() && removed.any(|anchor| anchor.hash == record.prev_hash)
}

/// Reports a record whose line can no longer be read in the chain that it belongs to. The index
/// tells which chain that is. If no record of that chain can be read, its name is unknown, and the
/// requested task is used.
fn note_lost(
    view: &Snapshot<'_>,
    checks: &mut BTreeMap<String, ChainCheck>,
    task_id: Option<&str>,
    Lost { seq, broken }: Lost,
) {
    let table = view.table(KIND);
    // Row ids change when rows are removed.
    let id = table.row_from_seq(seq);
    let Some(place) = table.place(Select::All, id) else {
        return;
    };
    let select = |task_id: &str| select(view.hasher(), Some(task_id));
    let is_of =
        |task_id: &str| table.walk(select(task_id), place, Position::END).next() == Some(id);
    let owner = checks.keys().find(|task_id| is_of(task_id)).cloned();
    let owner = owner.unwrap_or_else(|| task_id.unwrap_or_default().to_owned());
    let before = table.walk(select(&owner), Position::FIRST, place).count() as u64;
    let check = entry(checks, &owner);
    let position = before + 1;
    // The check already reported the record after it as a break, at this record's position.
    if check
        .broken
        .as_ref()
        .is_none_or(|first| position <= first.position)
    {
        check.broken = Some(ChainBreak { position, ..broken });
    }
}

fn entry<'a>(checks: &'a mut BTreeMap<String, ChainCheck>, task_id: &str) -> &'a mut ChainCheck {
    checks
        .entry(task_id.to_owned())
        .or_insert_with(|| ChainCheck {
            task_id: task_id.to_owned(),
            ..ChainCheck::default()
        })
}

fn break_at(
    view: &Snapshot<'_>,
    loc: Loc,
    position: u64,
    id: Option<String>,
    reason: String,
) -> ChainBreak {
    let (file, offset) = view.place(loc);
    ChainBreak {
        position,
        id,
        file,
        offset,
        reason,
    }
}
