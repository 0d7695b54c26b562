//! `/thoughts`: recorded at the end of their task's chain, read, and verified.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Json, Made, OneOrMore};
use super::pages::IsCut;
use super::params::{Id, IdempotencyKey, Limit, Query, WaitParams};
use super::problem::Problem;
use super::puts::{Handed, Identified, status_of};
use crate::collections::Cursor;
use crate::collections::ThoughtQuery;
use crate::record::ThoughtRecord;
use crate::wire::chain::Verified;
use crate::wire::new::NewThought;
use crate::wire::pages::Paged;

/// The namespace of ids derived from idempotency keys: a random UUID.
const KEYS: Uuid = Uuid::from_u128(0x5a1c_7e0d_93b2_4c68_8f14_d27b_60e9_3ac5);

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(add, list))
        .routes(routes!(verify))
        .routes(routes!(get))
}

/// Records a thought at the end of its task's chain.
///
/// A retry with the same id or `Idempotency-Key` is answered 200 and records nothing.
#[utoipa::path(
    post,
    path = "/thoughts",
    tag = "thoughts",
    params(
        WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe, like an id", min_length = 1, max_length = 1024, pattern = "^[!-~]+$"),
    ),
    request_body = NewThought,
    responses(
        (status = 201, description = "Recorded, with the hashes that chain it", body = ThoughtRecord),
        (status = 200, description = "Unchanged: the log already has it", body = ThoughtRecord),
        (status = 202, description = "Queued", body = Identified),
        (status = 409, description = "Another thought has the id", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn add(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    key: IdempotencyKey,
    Json(new): Json<NewThought>,
) -> Result<Made, Problem> {
    let handed = Handed::given(OneOrMore::One(new), None, |given, _| {
        if let Some(id) = key.id(KEYS, 0) {
            given.fill_text("id", || id.to_string());
        }
        Ok(())
    })?;
    let id = handed.keys().pop().unwrap_or_default();
    let mut answered = handed.put(&app, params.wait, |e| e.into()).await?;
    let status = status_of(&answered);
    match answered.pop().flatten() {
        Some(Ok(_)) => {
            app.ask(move |app| {
                let thought = app.store.thoughts().get(&id)?;
                Made::new(status, &thought.ok_or_else(unknown)?)
            })
            .await
        }
        other => Made::new(status, &Identified::from((id, other))),
    }
}

fn unknown() -> Problem {
    Problem::not_found("there is no thought with this id").with_field("id")
}

/// Which thoughts to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListParams {
    /// Only those of this task.
    #[param(min_length = 1, max_length = 1024)]
    task_id: Option<String>,
    /// Only those chained to the thought with this hash; 64 zeros for those that begin a chain.
    #[param(pattern = "^[0-9a-fA-F]{64}$")]
    prev_hash: Option<String>,
    /// Maximum number of thoughts. Default: 100.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Limit<1>,
    after: Option<Cursor>,
}

type Thoughts = Paged<ThoughtRecord>;

/// Lists thoughts in the order in which they were recorded, page by page.
#[utoipa::path(
    get,
    path = "/thoughts",
    tag = "thoughts",
    params(ListParams),
    responses((status = 200, description = "A page", body = Thoughts))
)]
async fn list(
    State(app): State<Shared>,
    Query(params): Query<ListParams>,
) -> Result<Made, Problem> {
    app.page(move |app, bytes_max| {
        let query = ThoughtQuery {
            task_id: params.task_id.clone(),
            prev_hash: params.prev_hash.clone(),
            limit: params.limit.0,
            after: params.after,
        };
        let page = app.store.thoughts().page_within(&query, bytes_max);
        let page = page.map_err(|e| Problem::of_query(&e))?;
        let is_cut = IsCut::of(&page, params.limit.0);
        Ok((Made::ok(&Thoughts::from(page))?, is_cut))
    })
    .await
}

/// Reads a thought.
#[utoipa::path(
    get,
    path = "/thoughts/{id}",
    tag = "thoughts",
    params(("id" = String, Path, description = "Percent-encoded")),
    responses(
        (status = 200, description = "The thought", body = ThoughtRecord),
        (status = 404, description = "Not found", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn get(State(app): State<Shared>, Id(id): Id<String>) -> Result<Made, Problem> {
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
struct VerifyParams {
    /// The task.
    #[param(min_length = 1, max_length = 1024)]
    task_id: String,
}

/// Recomputes the chain of a task from the files. The chain of an unknown task has no records.
#[utoipa::path(
    get,
    path = "/thoughts/verify",
    tag = "thoughts",
    params(VerifyParams),
    responses((status = 200, description = "The result, also for a broken chain", body = Verified))
)]
async fn verify(
    State(app): State<Shared>,
    Query(params): Query<VerifyParams>,
) -> Result<Made, Problem> {
    app.work(move |app| {
        let check = app.store.thoughts().verify_chain(&params.task_id);
        let check = check.map_err(|e| Problem::of_query(&e))?;
        Made::ok(&Verified::from(check))
    })
    .await
}
