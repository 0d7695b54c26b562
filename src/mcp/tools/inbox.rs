//! Tasks that wait for a worker.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::answer::Fault;
use super::given::put;
use super::{Call, Effect, Tool};
use crate::record::InboxTask;
use crate::wire::fields::{AnyInt, Attempt, AttemptsMax, Int};
use crate::wire::new::NewTask;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "inbox_enqueue",
            "Queue a task",
            "Queues a task in the inbox for a worker. A known update_id is not queued again: the answer is the existing task.",
            Effect::AddsOnce,
            enqueue,
        ),
        Tool::new(
            "inbox_claim",
            "Claim a task",
            "Claims the oldest queued task of the inbox for you. Finish it with inbox_done or inbox_fail, with its id and attempts. The task is null if none is queued.",
            Effect::Adds,
            claim,
        ),
        Tool::new(
            "inbox_done",
            "Mark a task as done",
            "Marks a task claimed with inbox_claim as done.",
            Effect::Adds,
            done,
        ),
        Tool::new(
            "inbox_fail",
            "Mark a task as failed",
            "Marks a claimed task as failed, with the reason. It is not retried.",
            Effect::Adds,
            fail,
        ),
    ]
}

fn enqueue(call: &Call<'_>, given: NewTask) -> Result<InboxTask, Fault> {
    let (_, ack) = put(call, given)?;
    task(call, ack.assigned.unwrap_or(0))
}

/// How to claim a task.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// A task claimed this many times fails instead. Default: no limit.
    attempts_max: Option<AttemptsMax>,
}

/// A claimed task.
#[derive(Debug, Serialize)]
struct Claimed {
    /// The task, now in progress; null if none is queued.
    task: Option<InboxTask>,
}

fn claim(call: &Call<'_>, given: Claim) -> Result<Claimed, Fault> {
    let inbox = call.store.inbox();
    let most = given
        .attempts_max
        .and_then(|most| u32::try_from(most.0).ok());
    let inbox = match most {
        Some(most) => inbox.attempts_max(most),
        None => inbox,
    };
    let task = inbox.claim()?;
    Ok(Claimed { task })
}

/// A task to mark as done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Done {
    /// The task's id.
    id: AnyInt,
    /// Its attempts, from inbox_claim.
    attempt: Attempt,
}

fn done(call: &Call<'_>, given: Done) -> Result<InboxTask, Fault> {
    let held = held(call, given.id, given.attempt)?;
    call.store.inbox().done(&held)?;
    task(call, held.id)
}

/// A task to mark as failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fail {
    /// The task's id.
    id: AnyInt,
    /// Its attempts, from inbox_claim.
    attempt: Attempt,
    /// The reason.
    error: String,
}

fn fail(call: &Call<'_>, given: Fail) -> Result<InboxTask, Fault> {
    let held = held(call, given.id, given.attempt)?;
    call.store.inbox().fail(&held, &given.error)?;
    task(call, held.id)
}

/// The task at the given claim.
fn held(call: &Call<'_>, Int(id): AnyInt, attempt: Attempt) -> Result<InboxTask, Fault> {
    Ok(InboxTask {
        attempts: attempt.0,
        ..task(call, id)?
    })
}

fn task(call: &Call<'_>, id: i64) -> Result<InboxTask, Fault> {
    let unknown = || {
        Fault::not_found(format!(
            "there is no task {id}: use the id from inbox_claim"
        ))
        .with_field("id")
    };
    call.store.inbox().get(id)?.ok_or_else(unknown)
}
