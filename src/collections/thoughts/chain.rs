//! Checks of chains: every hash is recomputed from the current content of the lines.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Serialize;

use super::{KIND, select};
use crate::collections::seqs::each_row;
use crate::collections::{EVERYWHERE, record_of};
use crate::error::Result;
use crate::index::{Loc, Position, RowId, Select};
use crate::line::Decoded;
use crate::record::{GENESIS_HASH, ThoughtRecord};
use crate::segment::Damage;
use crate::store::{Inner, Reads, Snapshot};

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
    #[serde(
        serialize_with = "<[_]>::serialize",
        skip_serializing_if = "<[_]>::is_empty"
    )]
    pub damage: Arc<[Damage]>,
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

/// A record whose line can no longer be read: the sequence number of its row, and the break.
type Lost = (u64, ChainBreak);

/// Checks the chain of one task, or of all tasks. `go_on` gets the number of records checked so
/// far; if it breaks, the result is `None`. The lock is released at intervals, so records that
/// writers add meanwhile may be checked too.
pub(super) fn check(
    inner: &Inner,
    task_id: Option<&str>,
    go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<BTreeMap<String, ChainCheck>>> {
    let (mut checks, mut lost) = (BTreeMap::new(), Vec::new());
    let (mut seen, mut is_ended) = (0, false);
    let select = select(inner.hasher(), task_id);
    each_row(inner, KIND, select, EVERYWHERE, true, |view, id| {
        let Some(row) = view.table(KIND).row(id) else {
            return Ok(ControlFlow::Continue(()));
        };
        let found = match view.read_checked(KIND, row.asserted) {
            Err(e) if view.lacks_lines() => return Err(e),
            found => found,
        };
        let goes_on = go_on(seen);
        is_ended = goes_on.is_break();
        if !is_ended {
            seen += 1;
            check_one(view, task_id, id, found, (&mut checks, &mut lost));
        }
        Ok(goes_on)
    })?;
    if is_ended {
        return Ok(None);
    }
    let view = inner.snapshot()?;
    for lost in lost {
        note_lost(&view, &mut checks, task_id, lost);
    }
    view.check()?;
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

/// Checks the record of a row against the one before it.
fn check_one(
    view: &Snapshot<'_>,
    task_id: Option<&str>,
    id: RowId,
    found: Result<(Decoded, bool)>,
    (checks, lost): (&mut BTreeMap<String, ChainCheck>, &mut Vec<Lost>),
) {
    let table = view.table(KIND);
    let Some(row) = table.row(id) else { return };
    let read = found.and_then(|(decoded, is_good)| Ok((record_of(decoded)?, is_good)));
    let (record, is_good): (ThoughtRecord, bool) = match read {
        Ok(read) => read,
        Err(e) => {
            let broken = break_at(view, row.asserted, 0, None, e.reason());
            lost.push((row.seq, broken));
            return;
        }
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
    } else if !is_good {
        Some("its line was changed: the checksum is wrong".to_owned())
    } else if table.history(id).is_some() {
        Some("another line says its id, too".to_owned())
    } else {
        None
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
    (seq, broken): Lost,
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
    let first = check.broken.as_ref();
    if first.is_none_or(|first| position <= first.position) {
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
