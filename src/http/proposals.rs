//! `/proposals`: proposed edits, their steps and their status.

use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::app::{App, Shared};
use super::body::{Json, Made, OneOrMore};
use super::pages::IsCut;
use super::params::{AsOfParams, Id, ListAsOf, Query, WaitParams, set_as_path};
use super::problem::Problem;
use super::puts::{Handed, Put};
use crate::collections::{AsOf, ProposalQuery};
use crate::error::{Error, ErrorKind};
use crate::record::CodeEditProposal;
use crate::wire::new::{NewProposal, NewStep};
use crate::wire::pages::Paged;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(propose, list))
        .routes(routes!(get))
        .routes(routes!(step))
}

/// Records a proposed edit.
///
/// The same proposal again is recorded once.
#[utoipa::path(
    post,
    path = "/proposals",
    tag = "proposals",
    params(WaitParams),
    request_body = NewProposal,
    responses(
        (status = 201, description = "Recorded; it is pending", body = Put),
        (status = 200, description = "Unchanged: the log already has it", body = Put),
        (status = 202, description = "Queued", body = Put),
        (status = 409, description = "The proposal was decided, so its edits cannot change; or nothing to retract", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn propose(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewProposal>,
) -> Result<Made, Problem> {
    let handed = Handed::given(OneOrMore::One(new), None, |_, _| Ok(()))?;
    handed.answer::<Put>(&app, params.wait, |e| e.into()).await
}

/// Records the next step of a proposal: a pending one is approved or denied, an approved one
/// applied, an applied one reverted.
///
/// The last step again changes nothing, with any time.
#[utoipa::path(
    post,
    path = "/proposals/{request_id}/steps",
    tag = "proposals",
    params(("request_id" = Uuid, Path), WaitParams),
    request_body = NewStep,
    responses(
        (status = 201, description = "Recorded", body = Put),
        (status = 200, description = "Unchanged: it already has this status", body = Put),
        (status = 202, description = "Queued", body = Put),
        (status = 404, description = "The proposal is not found, or retracted", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The status cannot follow, or another commit applied it", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn step(
    State(app): State<Shared>,
    Id(request_id): Id<Uuid>,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewStep>,
) -> Result<Made, Problem> {
    let handed = Handed::given(OneOrMore::One(new), None, |given, _| {
        set_as_path(given, "request_id", &request_id)
    })?;
    let rejected = |error: &Error| match error.kind() {
        ErrorKind::NotFound => Problem::from(error).with_field("request_id"),
        _ => Problem::from(error),
    };
    handed.answer::<Put>(&app, params.wait, rejected).await
}

type Proposals = Paged<CodeEditProposal>;

/// Lists proposals, page by page, without retracted ones.
#[utoipa::path(
    get,
    path = "/proposals",
    tag = "proposals",
    params(ProposalQuery, AsOfParams),
    responses((status = 200, description = "A page", body = Proposals))
)]
async fn list(
    State(app): State<Shared>,
    ListAsOf { query, as_of }: ListAsOf<ProposalQuery>,
) -> Result<Made, Problem> {
    app.page(move |app, bytes_max| {
        let page = app.store.as_of(as_of).list(&query, bytes_max)?;
        let is_cut = IsCut::of(&page, query.limit);
        Ok((Made::ok(&Proposals::from(page))?, is_cut))
    })
    .await
}

/// Reads a proposal.
#[utoipa::path(
    get,
    path = "/proposals/{request_id}",
    tag = "proposals",
    params(("request_id" = Uuid, Path), AsOfParams),
    responses(
        (status = 200, description = "The proposal, with its status", body = CodeEditProposal),
        (status = 404, description = "Not found, or retracted", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn get(
    State(app): State<Shared>,
    Id(request_id): Id<Uuid>,
    Query(params): Query<AsOfParams>,
) -> Result<Made, Problem> {
    let read = move |app: &App| Made::ok(&proposal(&app.store.as_of(params.at()), request_id)?);
    app.ask(read).await
}

fn proposal(store: &AsOf<'_>, request_id: Uuid) -> Result<CodeEditProposal, Problem> {
    store.get_proposal(request_id)?.ok_or_else(|| {
        let detail = format!("there is no proposal of request {request_id}: record it first");
        Problem::not_found(detail).with_field("request_id")
    })
}
