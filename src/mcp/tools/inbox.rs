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
            "Queues a task in the inbox for a worker. A task whose update_id is known is not queued again: the answer is the task that is there.",
            Effect::AddsOnce,
            enqueue,
        ),
        Tool::new(
            "inbox_claim",
            "Claim a task",
            "Claims the oldest waiting task of the inbox, for you alone. End it with inbox_done or inbox_fail, giving its id and attempts. The task is null if none waits.",
            Effect::Adds,
            claim,
        ),
        Tool::new(
            "inbox_done",
            "Mark a task as done",
            "Marks a task that you claimed with inbox_claim as done.",
            Effect::Adds,
            done,
        ),
        Tool::new(
            "inbox_fail",
            "Mark a task as failed",
            "Marks a task that you claimed as failed, with the reason. It is not tried again.",
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

/// A task that was claimed.
#[derive(Debug, Serialize)]
struct Claimed {
    /// The task, which is in progress now; null if none waits.
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

/// That a task is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Done {
    /// The task's id.
    id: AnyInt,
    /// Its attempts, as inbox_claim gave it.
    attempt: Attempt,
}

fn done(call: &Call<'_>, given: Done) -> Result<InboxTask, Fault> {
    let held = held(call, given.id, given.attempt)?;
    call.store.inbox().done(&held)?;
    task(call, held.id)
}

/// That a task failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fail {
    /// The task's id.
    id: AnyInt,
    /// Its attempts, as inbox_claim gave it.
    attempt: Attempt,
    /// Why.
    error: String,
}

fn fail(call: &Call<'_>, given: Fail) -> Result<InboxTask, Fault> {
    let held = held(call, given.id, given.attempt)?;
    call.store.inbox().fail(&held, &given.error)?;
    task(call, held.id)
}

/// The task as who claimed it knows it.
fn held(call: &Call<'_>, Int(id): AnyInt, attempt: Attempt) -> Result<InboxTask, Fault> {
    Ok(InboxTask {
        attempts: attempt.0,
        ..task(call, id)?
    })
}

fn task(call: &Call<'_>, id: i64) -> Result<InboxTask, Fault> {
    let unknown = || {
        Fault::not_found(format!(
            "there is no task {id}: give the id that inbox_claim gave"
        ))
        .with_field("id")
    };
    call.store.inbox().get(id)?.ok_or_else(unknown)
}
