//! `/inbox`: queued tasks, each claimed by one worker at a time.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::body::{Json, JsonOrNone, Made, OneOrMore};
use super::pages::IsCut;
use super::params::{Id, Query, WaitParams};
use super::problem::Problem;
use super::puts::{Handed, Put, status_of};
use crate::collections::{Inbox, TaskCounts, TaskQuery};
use crate::record::InboxTask;
use crate::wire::fields::{AnyInt, Attempt, AttemptsMax, Int, Length};
use crate::wire::new::NewTask;
use crate::wire::pages::Paged;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(enqueue, list))
        .routes(routes!(counts))
        .routes(routes!(claim))
        .routes(routes!(release))
        .routes(routes!(get))
        .routes(routes!(done))
        .routes(routes!(fail))
        .routes(routes!(retry))
}

/// Queues a task.
///
/// A known `update_id` is not queued again: the answer is the existing task in its current state.
#[utoipa::path(
    post,
    path = "/inbox",
    tag = "inbox",
    params(WaitParams),
    request_body = NewTask,
    responses(
        (status = 201, description = "Queued", body = InboxTask),
        (status = 200, description = "The update_id is known: the existing task", body = InboxTask),
        (status = 202, description = "Queued", body = Put),
    )
)]
async fn enqueue(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewTask>,
) -> Result<Made, Problem> {
    let handed = Handed::given(OneOrMore::One(new), None, |_, _| Ok(()))?;
    let mut answered = handed.put(&app, params.wait, |e| e.into()).await?;
    let status = status_of(&answered);
    match answered.pop().flatten() {
        Some(Ok(ack)) => {
            let id = ack.assigned.unwrap_or(0);
            app.ask(move |app| Made::new(status, &task(app, id)?)).await
        }
        other => Made::new(status, &Put::from((String::new(), other))),
    }
}

fn task(app: &App, id: i64) -> Result<InboxTask, Problem> {
    let unknown = || Problem::not_found(format!("there is no task {id}")).with_field("id");
    app.store.inbox().get(id)?.ok_or_else(unknown)
}

type Tasks = Paged<InboxTask>;

/// Lists tasks, page by page.
#[utoipa::path(
    get,
    path = "/inbox",
    tag = "inbox",
    params(TaskQuery),
    responses((status = 200, description = "A page", body = Tasks))
)]
async fn list(State(app): State<Shared>, Query(query): Query<TaskQuery>) -> Result<Made, Problem> {
    app.page(move |app, bytes_max| {
        let page = app.store.as_of(None).list(&query, bytes_max)?;
        let is_cut = IsCut::of(&page, query.limit);
        Ok((Made::ok(&Tasks::from(page))?, is_cut))
    })
    .await
}

/// Counts tasks by status.
#[utoipa::path(
    get,
    path = "/inbox/counts",
    tag = "inbox",
    responses((status = 200, description = "Number of tasks by status", body = TaskCounts))
)]
async fn counts(State(app): State<Shared>) -> Result<Made, Problem> {
    app.ask(|app| Made::ok(&app.store.inbox().counts()?)).await
}

/// Reads a task.
#[utoipa::path(
    get,
    path = "/inbox/{id}",
    tag = "inbox",
    params(("id" = AnyInt, Path)),
    responses(
        (status = 200, description = "The task", body = InboxTask),
        (status = 404, description = "Not found", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn get(State(app): State<Shared>, Id(Int(id)): Id<AnyInt>) -> Result<Made, Problem> {
    app.ask(move |app| Made::ok(&task(app, id)?)).await
}

/// How to claim a task.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// A task claimed this many times fails instead. Default: no limit.
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
    tag = "inbox",
    request_body = Option<Claim>,
    responses(
        (status = 200, description = "The claimed task", body = InboxTask),
        (status = 204, description = "No task is queued"),
    )
)]
async fn claim(
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
struct Done {
    /// The `attempts` of the claim.
    attempt: Attempt,
}

/// Marks a claimed task as done.
#[utoipa::path(
    post,
    path = "/inbox/{id}/done",
    tag = "inbox",
    params(("id" = AnyInt, Path)),
    request_body = Done,
    responses(
        (status = 200, description = "The task after the change", body = InboxTask),
        (status = 404, description = "Not found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The task is not in progress, or another attempt holds it", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn done(
    State(app): State<Shared>,
    Id(Int(id)): Id<AnyInt>,
    Json(done): Json<Done>,
) -> Result<Made, Problem> {
    app.work(move |app| {
        let held = held(app, id, done.attempt)?;
        app.store.inbox().done(&held)?;
        Made::ok(&task(app, id)?)
    })
    .await
}

/// The task at the given claim.
fn held(app: &App, id: i64, attempt: Attempt) -> Result<InboxTask, Problem> {
    Ok(InboxTask {
        attempts: attempt.0,
        ..task(app, id)?
    })
}

/// Marks a task as failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fail {
    /// The `attempts` of the claim.
    attempt: Attempt,
    /// The reason.
    error: String,
}

/// Marks a claimed task as failed.
#[utoipa::path(
    post,
    path = "/inbox/{id}/fail",
    tag = "inbox",
    params(("id" = AnyInt, Path)),
    request_body = Fail,
    responses(
        (status = 200, description = "The task after the change", body = InboxTask),
        (status = 404, description = "Not found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The task is not in progress, or another attempt holds it", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn fail(
    State(app): State<Shared>,
    Id(Int(id)): Id<AnyInt>,
    Json(fail): Json<Fail>,
) -> Result<Made, Problem> {
    app.work(move |app| {
        let held = held(app, id, fail.attempt)?;
        app.store.inbox().fail(&held, &fail.error)?;
        Made::ok(&task(app, id)?)
    })
    .await
}

/// Returns a task for another attempt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Retry {
    /// The `attempts` of the claim.
    attempt: Attempt,
    /// The reason.
    error: String,
    /// A task claimed this many times fails instead. Default: no limit.
    attempts_max: Option<AttemptsMax>,
}

/// Returns a claimed task to the queue for another attempt.
#[utoipa::path(
    post,
    path = "/inbox/{id}/retry",
    tag = "inbox",
    params(("id" = AnyInt, Path)),
    request_body = Retry,
    responses(
        (status = 200, description = "The task: queued, or failed after its last attempt", body = InboxTask),
        (status = 404, description = "Not found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The task is not in progress, or another attempt holds it", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn retry(
    State(app): State<Shared>,
    Id(Int(id)): Id<AnyInt>,
    Json(retry): Json<Retry>,
) -> Result<Made, Problem> {
    app.work(move |app| {
        let held = held(app, id, retry.attempt)?;
        inbox(app, retry.attempts_max).retry(&held, &retry.error)?;
        Made::ok(&task(app, id)?)
    })
    .await
}

/// The claims to release.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Release {
    /// Minimum age of a claim, in milliseconds.
    older_than_ms: Length,
    /// A task claimed this many times fails instead. Default: no limit.
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
    tag = "inbox",
    request_body = Release,
    responses((status = 200, description = "The released tasks: queued, or failed after their last attempt", body = Released))
)]
async fn release(State(app): State<Shared>, Json(release): Json<Release>) -> Result<Made, Problem> {
    let timeout = Duration::from_millis(release.older_than_ms.0.unsigned_abs());
    app.work(move |app| {
        let items = inbox(app, release.attempts_max).release_stale(timeout)?;
        Made::ok(&Released { items })
    })
    .await
}
