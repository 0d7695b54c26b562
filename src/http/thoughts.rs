//! `/thoughts`: recorded at the end of their task's chain, read, and verified.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Answer, Json, Made, OneOrMore};
use super::params::{Id, IdempotencyKey, Query, WaitParams};
use super::problem::{NotFound, Problem};
use super::puts::{Handed, Identified, status_of};
use crate::collections::ThoughtQuery;
use crate::record::ThoughtRecord;
use crate::wire::chain::Verified;
use crate::wire::new::NewThought;
use crate::wire::pages::Paged;

/// The namespace of ids derived from idempotency keys: a random UUID.
const KEYS: Uuid = Uuid::from_u128(0x5a1c_7e0d_93b2_4c68_8f14_d27b_60e9_3ac5);

/// Records a thought at the end of its task's chain.
///
/// A retry with the same id or `Idempotency-Key` is answered 200 and records nothing.
#[utoipa::path(
    post,
    path = "/thoughts",
    params(
        WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe, like an id", min_length = 1, max_length = 1024, pattern = "^[!-~]+$"),
    ),
    request_body = NewThought,
    responses(
        (status = 201, description = "Recorded, with the hashes that chain it", body = ThoughtRecord),
        (status = 200, description = "Unchanged: the log already has it", body = ThoughtRecord),
        (status = 202, description = "Queued", body = Identified),
        (status = 409, description = "Another thought has the id"),
    )
)]
pub(super) async fn add(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    key: IdempotencyKey,
    Json(new): Json<NewThought>,
) -> Answer {
    let handed = Handed::given(OneOrMore::One(new), None, |given, _| {
        key.fill_id(given, KEYS, 0);
        Ok(())
    })?;
    let id = handed.keys().pop().unwrap_or_default();
    let mut answered = handed.put(&app, params.wait, Problem::from).await?;
    let status = status_of(&answered);
    match answered.pop().flatten() {
        Some(Ok(_)) => {
            app.ask(move |app| {
                let thought = app.store.thoughts().get(&id)?;
                Made::new(status, &thought.ok_or_else(unknown)?)
            })
            .await
        }
        other => Made::new(status, &Identified::new(id, other)),
    }
}

fn unknown() -> Problem {
    Problem::not_found("there is no thought with this id").with_field("id")
}

type Thoughts = Paged<ThoughtRecord>;

/// Lists thoughts in the order in which they were recorded, page by page.
#[utoipa::path(
    get,
    path = "/thoughts",
    params(ThoughtQuery),
    responses((status = 200, description = "A page", body = Thoughts))
)]
pub(super) async fn list(State(app): State<Shared>, Query(query): Query<ThoughtQuery>) -> Answer {
    app.list(query.limit, move |app, bytes_max| {
        let page = app.store.thoughts().page_within(&query, bytes_max);
        page.map_err(|e| Problem::of_query(&e))
    })
    .await
}

/// Reads a thought.
#[utoipa::path(
    get,
    path = "/thoughts/{id}",
    params(("id" = String, Path, description = "Percent-encoded")),
    responses((status = 200, description = "The thought", body = ThoughtRecord), NotFound)
)]
pub(super) async fn get(State(app): State<Shared>, Id(id): Id<String>) -> Answer {
    app.ask(move |app| {
        let thought = app.store.thoughts().get(&id)?;
        Made::ok(&thought.ok_or_else(unknown)?)
    })
    .await
}

/// The chain to verify.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VerifyParams {
    /// The task.
    #[param(min_length = 1, max_length = 1024)]
    task_id: String,
}

/// Recomputes the chain of a task from the files. The chain of an unknown task has no records.
#[utoipa::path(
    get,
    path = "/thoughts/verify",
    params(VerifyParams),
    responses((status = 200, description = "The result, also for a broken chain", body = Verified))
)]
pub(super) async fn verify(
    State(app): State<Shared>,
    Query(params): Query<VerifyParams>,
) -> Answer {
    app.work(move |app| {
        let check = app.store.thoughts().verify_chain(&params.task_id);
        let check = check.map_err(|e| Problem::of_query(&e))?;
        Made::ok(&Verified::from(check))
    })
    .await
}
