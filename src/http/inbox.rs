//! `/inbox`: queued tasks, each claimed by one worker at a time.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::app::{App, Shared};
use super::body::{Answer, Json, JsonOrNone, Made, OneOrMore};
use super::params::{Id, Query, WaitParams};
use super::problem::{NotFound, Problem};
use super::puts::{Handed, Put, status_of};
use crate::collections::{Inbox, TaskCounts, TaskQuery};
use crate::error::Result;
use crate::record::InboxTask;
use crate::wire::fields::{AnyInt, Attempt, AttemptsMax, Int, Length};
use crate::wire::new::NewTask;
use crate::wire::pages::Paged;

/// Queues a task.
///
/// A known `update_id` is not queued again: the answer is the existing task in its current state.
#[utoipa::path(
    post,
    path = "/inbox",
    params(WaitParams),
    request_body = NewTask,
    responses(
        (status = 201, description = "Queued", body = InboxTask),
        (status = 200, description = "The update_id is known: the existing task", body = InboxTask),
        (status = 202, description = "Queued", body = Put),
    )
)]
pub(super) async fn enqueue(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewTask>,
) -> Answer {
    let handed = Handed::given(OneOrMore::One(new), None, |_, _| Ok(()))?;
    let mut answered = handed.put(&app, params.wait, Problem::from).await?;
    let status = status_of(&answered);
    match answered.pop().flatten() {
        Some(Ok(ack)) => {
            let id = ack.assigned.unwrap_or(0);
            app.ask(move |app| Made::new(status, &task(app, id)?)).await
        }
        other => Made::new(status, &Put::new(String::new(), other)),
    }
}

fn task(app: &App, id: i64) -> Result<InboxTask, Problem> {
    let task = app.store.inbox().get(id)?;
    task.ok_or_else(|| Problem::unknown("task", id))
}

type Tasks = Paged<InboxTask>;

/// Lists tasks, page by page.
#[utoipa::path(
    get,
    path = "/inbox",
    params(TaskQuery),
    responses((status = 200, description = "A page", body = Tasks))
)]
pub(super) async fn list(State(app): State<Shared>, Query(query): Query<TaskQuery>) -> Answer {
    app.list(query.limit, move |app, bytes_max| {
        app.store.as_of(None).list(&query, bytes_max)
    })
    .await
}

/// Counts tasks by status.
#[utoipa::path(
    get,
    path = "/inbox/counts",
    responses((status = 200, description = "Number of tasks by status", body = TaskCounts))
)]
pub(super) async fn counts(State(app): State<Shared>) -> Answer {
    app.ask(|app| Made::ok(&app.store.inbox().counts()?)).await
}

/// Reads a task.
#[utoipa::path(
    get,
    path = "/inbox/{id}",
    params(("id" = AnyInt, Path)),
    responses((status = 200, description = "The task", body = InboxTask), NotFound)
)]
pub(super) async fn get(State(app): State<Shared>, Id(Int(id)): Id<AnyInt>) -> Answer {
    app.ask(move |app| Made::ok(&task(app, id)?)).await
}

/// How to claim a task.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    /// A task that was claimed this many times fails instead. Default: no limit.
    attempts_max: Option<AttemptsMax>,
}

/// The inbox, with a limit of attempts.
fn inbox(app: &App, attempts_max: Option<AttemptsMax>) -> Inbox<'_> {
    let inbox = app.store.inbox();
    let most = attempts_max.and_then(|most| u32::try_from(most.0).ok());
    most.map_or(inbox, |most| inbox.attempts_max(most))
}

/// Claims the oldest queued task: no other worker gets it until it is returned or its claim is
/// released. Requests that end the claim need its `attempts`.
#[utoipa::path(
    post,
    path = "/inbox/claim",
    request_body = Option<Claim>,
    responses(
        (status = 200, description = "The claimed task", body = InboxTask),
        (status = 204, description = "No task is queued"),
    )
)]
pub(super) async fn claim(
    State(app): State<Shared>,
    JsonOrNone(claim): JsonOrNone<Claim>,
) -> Result<Response, Problem> {
    app.work(move |app| match inbox(app, claim.attempts_max).claim()? {
        Some(task) => Ok(Made::ok(&task)?.into_response()),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    })
    .await
}

/// Marks a task as done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    /// The `attempts` of the claim.
    attempt: Attempt,
}

/// Marks a claimed task as done.
#[utoipa::path(
    post,
    path = "/inbox/{id}/done",
    params(("id" = AnyInt, Path)),
    request_body = Done,
    responses(
        (status = 200, description = "The task after the change", body = InboxTask),
        NotFound,
        (status = 409, description = "The task is not in progress, or another attempt holds it"),
    )
)]
pub(super) async fn done(
    State(app): State<Shared>,
    Id(Int(id)): Id<AnyInt>,
    Json(done): Json<Done>,
) -> Answer {
    end_claim(&app, id, done.attempt, None, |inbox, held| inbox.done(held)).await
}

/// Ends a claim, and answers with the task after the change. `end` gets the task at the given claim.
async fn end_claim<T>(
    app: &Shared,
    id: i64,
    attempt: Attempt,
    attempts_max: Option<AttemptsMax>,
    end: impl FnOnce(Inbox<'_>, &InboxTask) -> Result<T> + Send + 'static,
) -> Answer {
    app.work(move |app| {
        let held = InboxTask {
            attempts: attempt.0,
            ..task(app, id)?
        };
        end(inbox(app, attempts_max), &held)?;
        Made::ok(&task(app, id)?)
    })
    .await
}

/// Marks a task as failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fail {
    /// The `attempts` of the claim.
    attempt: Attempt,
    /// The reason.
    error: String,
}

/// Marks a claimed task as failed.
#[utoipa::path(
    post,
    path = "/inbox/{id}/fail",
    params(("id" = AnyInt, Path)),
    request_body = Fail,
    responses(
        (status = 200, description = "The task after the change", body = InboxTask),
        NotFound,
        (status = 409, description = "The task is not in progress, or another attempt holds it"),
    )
)]
pub(super) async fn fail(
    State(app): State<Shared>,
    Id(Int(id)): Id<AnyInt>,
    Json(fail): Json<Fail>,
) -> Answer {
    let end = move |inbox: Inbox<'_>, held: &InboxTask| inbox.fail(held, &fail.error);
    end_claim(&app, id, fail.attempt, None, end).await
}

/// Returns a task for another attempt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    /// The `attempts` of the claim.
    attempt: Attempt,
    /// The reason.
    error: String,
    /// A task that was claimed this many times fails instead. Default: no limit.
    attempts_max: Option<AttemptsMax>,
}

/// Returns a claimed task to the queue for another attempt.
#[utoipa::path(
    post,
    path = "/inbox/{id}/retry",
    params(("id" = AnyInt, Path)),
    request_body = Retry,
    responses(
        (status = 200, description = "The task: queued, or failed after its last attempt", body = InboxTask),
        NotFound,
        (status = 409, description = "The task is not in progress, or another attempt holds it"),
    )
)]
pub(super) async fn retry(
    State(app): State<Shared>,
    Id(Int(id)): Id<AnyInt>,
    Json(retry): Json<Retry>,
) -> Answer {
    let end = move |inbox: Inbox<'_>, held: &InboxTask| inbox.retry(held, &retry.error);
    end_claim(&app, id, retry.attempt, retry.attempts_max, end).await
}

/// The claims to release.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Release {
    /// Minimum age of a claim, in milliseconds.
    older_than_ms: Length,
    /// A task that was claimed this many times fails instead. Default: no limit.
    attempts_max: Option<AttemptsMax>,
}

/// Tasks whose claims were released.
#[derive(Debug, Serialize, ToSchema)]
struct Released {
    items: Vec<InboxTask>,
}

/// Releases old claims, such as those of dead workers.
#[utoipa::path(
    post,
    path = "/inbox/release",
    request_body = Release,
    responses((status = 200, description = "The released tasks: queued, or failed after their last attempt", body = Released))
)]
pub(super) async fn release(State(app): State<Shared>, Json(release): Json<Release>) -> Answer {
    let timeout = Duration::from_millis(release.older_than_ms.0.unsigned_abs());
    app.work(move |app| {
        let items = inbox(app, release.attempts_max).release_stale(timeout)?;
        Made::ok(&Released { items })
    })
    .await
}
