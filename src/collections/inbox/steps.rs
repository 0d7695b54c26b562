//! The life cycle of a task: queued once for each update, then a sequence of steps.

use super::KIND;
use crate::collections::{
    Ack, collision, conflict, lifecycle, next_id, not_found, number, record_in, record_of, row_of,
    says, unchanged,
};
use crate::error::Result;
use crate::index::{Position, Row, Select};
use crate::record::{InboxStep, InboxTask, Record, TaskStatus};
use crate::store::{Reads, Redacted, Txn};

pub(in crate::collections) fn put(txn: &mut Txn<'_>, redacted: &mut Redacted) -> Result<Ack> {
    let task: &InboxTask = record_in(redacted.record())?;
    if let Some((row, known)) = with_update_id(txn, task.update_id)? {
        // With another id it would be another task.
        if task.id != 0 && task.id != known.id {
            return Err(conflict(format!(
                "update_id {} is that of task {}, not {}",
                task.update_id, known.id, task.id
            )));
        }
        let ack = unchanged(txn, row.asserted, row.seq)?;
        return Ok(ack.assigning(Some(known.id)));
    }
    if task.id != 0
        && let Some((_, row)) = row_of(txn, redacted.record())
    {
        let known = read(txn, &row)?.ok_or_else(collision)?;
        return Err(conflict(format!(
            "task {} has update_id {}, not {}: leave the id out for the next one",
            known.id, known.update_id, task.update_id
        )));
    }
    let latest = txn.index().update_id_max().unwrap_or(0);
    number("update_id", Some(task.update_id), latest)?;
    let id = next_id(txn, KIND, task.id)?;
    redacted.assign(|task: &mut InboxTask| task.id = id);
    let seq = txn.push(redacted, None)?;
    Ok(Ack::added(seq).assigning(Some(id)))
}

/// The task with this `update_id`.
fn with_update_id(from: &impl Reads, update_id: i64) -> Result<Option<(Row, InboxTask)>> {
    let select = Select::Lookup(0, from.hasher().lookup(&update_id.to_string()));
    let table = from.table(KIND);
    for id in table.walk(select, Position::FIRST, Position::END) {
        if let Some(row) = table.row(id)
            && let Some(task) = read(from, row)?.filter(|task| task.update_id == update_id)
        {
            return Ok(Some((*row, task)));
        }
    }
    Ok(None)
}

pub(in crate::collections) fn put_step(txn: &mut Txn<'_>, redacted: &mut Redacted) -> Result<Ack> {
    let step: &InboxStep = record_in(redacted.record())?;
    let found = row_of(txn, redacted.record());
    let Some((_, row)) = found.filter(|(_, row)| row.stands()) else {
        return Err(not_found("there is no such task: queue it first"));
    };
    let task = read(txn, &row)?.ok_or_else(collision)?;
    if row.done.is_some()
        && let decoded = txn.read(KIND, row.done)?
        && says(txn, &decoded.record, |last| is_again(last, step))?
    {
        let ack = unchanged(txn, row.done, decoded.seq.unwrap_or(0))?;
        return Ok(ack.assigning(Some(task.id)));
    }
    let is_claim = step.status == TaskStatus::InProgress;
    let from = if is_claim || (task.status == TaskStatus::Queued && step.attempt == task.attempts) {
        TaskStatus::Queued
    } else {
        TaskStatus::InProgress
    };
    // A queued task may only be claimed or, after too many attempts, failed.
    let is_given_up = step.status == TaskStatus::Failed && step.attempt > 0;
    if task.status != from || (from == TaskStatus::Queued && !is_claim && !is_given_up) {
        return Err(lifecycle(format!(
            "the task is {}, attempts {}, and cannot become {}: claim what is queued; what is in_progress may become done, failed or queued",
            task.status, task.attempts, step.status
        )));
    }
    let attempt = task.attempts + i64::from(is_claim);
    if step.attempt != 0 && step.attempt != attempt {
        let message = if is_claim {
            format!("the next attempt is {attempt}, not {}", step.attempt)
        } else {
            format!(
                "attempt {attempt} holds the task, not {}: that claim was released",
                step.attempt
            )
        };
        return Err(conflict(message));
    }
    // The task keeps the error of its latest failure.
    if step.error.is_none() && task.error.is_some() {
        let error = task.error;
        *redacted = txn.redact(Record::InboxStep(InboxStep {
            error,
            ..step.clone()
        }))?;
    }
    redacted.assign(|step: &mut InboxStep| step.attempt = attempt);
    let seq = txn.push(redacted, None)?;
    Ok(Ack::added(seq).assigning(Some(task.id)))
}

/// Whether a step repeats the last one. A claim does only if its time is equal: otherwise two
/// workers would hold one task.
fn is_again(last: &InboxStep, step: &InboxStep) -> bool {
    let is_same_attempt = if step.status == TaskStatus::InProgress {
        step.attempt == last.attempt && step.at == last.at
    } else {
        step.attempt == 0 || step.attempt == last.attempt
    };
    let is_same_error = step.error.is_none() || step.error == last.error;
    last.status == step.status && is_same_attempt && is_same_error
}

/// The current state of a row's task.
pub(super) fn read(from: &impl Reads, row: &Row) -> Result<Option<InboxTask>> {
    if !row.stands() {
        return Ok(None);
    }
    let mut task: InboxTask = record_of(from.read(KIND, row.asserted)?)?;
    if row.done.is_some()
        && let Record::InboxStep(step) = from.read(KIND, row.done)?.record
    {
        task.status = step.status;
        task.updated_at = step.at;
        task.attempts = step.attempt;
        task.locked_at = (step.status == TaskStatus::InProgress).then_some(step.at);
        task.error = step.error;
    }
    Ok(Some(task))
}
