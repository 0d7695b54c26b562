//! Tasks that wait for a worker.

use serde::Serialize;

use super::super::answer::Fault;
use super::Call;
use super::given::recorded;
use crate::record::InboxTask;
use crate::wire::fields::{AnyInt, Attempt, AttemptsMax, Int};
use crate::wire::new::NewTask;

tools! {
    /// Queues a task in the inbox for a worker. A known update_id is not queued again: the answer
    /// is the existing task.
    inbox_enqueue("Queue a task", AddsOnce) => enqueue(NewTask)

    /// Claims the oldest queued task of the inbox for you. Finish it with inbox_done or inbox_fail,
    /// with its id and attempts. The task is null if none is queued.
    inbox_claim("Claim a task", Adds) => claim(Claim {
        /// A task that was claimed this many times fails instead. Default: no limit.
        attempts_max: Option<AttemptsMax>,
    })

    /// Marks a task claimed with inbox_claim as done.
    inbox_done("Mark a task as done", Adds) => done(Done {
        /// The task's id.
        id: AnyInt,
        /// Its attempts, from inbox_claim.
        attempt: Attempt,
    })

    /// Marks a claimed task as failed, with the reason. It is not retried.
    inbox_fail("Mark a task as failed", Adds) => fail(Fail {
        /// The task's id.
        id: AnyInt,
        /// Its attempts, from inbox_claim.
        attempt: Attempt,
        /// The reason.
        error: String,
    })
}

fn enqueue(call: &Call<'_>, given: NewTask) -> Result<InboxTask, Fault> {
    let (_, ack) = recorded(call, given)?;
    task(call, ack.assigned.unwrap_or(0))
}

/// A claimed task.
#[derive(Debug, Serialize)]
struct Claimed {
    /// The task, now in progress; null if none is queued.
    task: Option<InboxTask>,
}

fn claim(call: &Call<'_>, given: Claim) -> Result<Claimed, Fault> {
    let mut inbox = call.store.inbox();
    if let Some(Int(most)) = given.attempts_max {
        inbox = inbox.attempts_max(u32::try_from(most).unwrap_or(u32::MAX));
    }
    let task = inbox.claim()?;
    Ok(Claimed { task })
}

fn done(call: &Call<'_>, given: Done) -> Result<InboxTask, Fault> {
    let held = held(call, given.id, given.attempt)?;
    call.store.inbox().done(&held)?;
    task(call, held.id)
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
    call.store.inbox().get(id)?.ok_or_else(|| {
        let message = format!("there is no task {id}: use the id from inbox_claim");
        Fault::unknown("id", message)
    })
}
