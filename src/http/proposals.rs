//! `/proposals`: proposed edits, their steps and their status.

use axum::extract::State;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Answer, Json, Made, OneOrMore};
use super::params::{AsOfParams, Id, ListAsOf, Query, WaitParams, set_as_path};
use super::problem::{NotFoundOrRetracted, Problem};
use super::puts::{Handed, Put, record};
use crate::collections::ProposalQuery;
use crate::error::{Error, ErrorKind};
use crate::record::CodeEditProposal;
use crate::wire::new::{NewProposal, NewStep};
use crate::wire::pages::Paged;

/// Records a proposed edit.
///
/// The same proposal again is recorded once.
#[utoipa::path(
    post,
    path = "/proposals",
    params(WaitParams),
    request_body = NewProposal,
    responses(
        (status = 201, description = "Recorded; it is pending", body = Put),
        (status = 200, description = "Unchanged: the log already has it", body = Put),
        (status = 202, description = "Queued", body = Put),
        (status = 409, description = "The proposal was decided, so its edits cannot change; or nothing to retract"),
    )
)]
pub(super) async fn propose(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewProposal>,
) -> Answer {
    record(&app, OneOrMore::One(new), params.wait, Put::new).await
}

/// Records the next step of a proposal: a pending one is approved or denied, an approved one
/// applied, an applied one reverted.
///
/// The last step again changes nothing, with any time.
#[utoipa::path(
    post,
    path = "/proposals/{request_id}/steps",
    params(("request_id" = Uuid, Path), WaitParams),
    request_body = NewStep,
    responses(
        (status = 201, description = "Recorded", body = Put),
        (status = 200, description = "Unchanged: it already has this status", body = Put),
        (status = 202, description = "Queued", body = Put),
        (status = 404, description = "The proposal is not found, or retracted"),
        (status = 409, description = "The proposal cannot take this status, or another commit applied it"),
    )
)]
pub(super) async fn step(
    State(app): State<Shared>,
    Id(request_id): Id<Uuid>,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewStep>,
) -> Answer {
    let handed = Handed::given(OneOrMore::One(new), None, |given, _| {
        set_as_path(given, "request_id", &request_id)
    })?;
    let rejected = |error: Error| match error.kind() {
        ErrorKind::NotFound => Problem::from(error).with_field("request_id"),
        _ => Problem::from(error),
    };
    handed.answer(&app, params.wait, rejected, Put::new).await
}

type Proposals = Paged<CodeEditProposal>;

/// Lists proposals, page by page, without retracted ones.
#[utoipa::path(
    get,
    path = "/proposals",
    params(ProposalQuery, AsOfParams),
    responses((status = 200, description = "A page", body = Proposals))
)]
pub(super) async fn list(
    State(app): State<Shared>,
    ListAsOf { query, as_of }: ListAsOf<ProposalQuery>,
) -> Answer {
    app.list(query.limit, move |app, bytes_max| {
        app.store.as_of(as_of).list(&query, bytes_max)
    })
    .await
}

/// Reads a proposal.
#[utoipa::path(
    get,
    path = "/proposals/{request_id}",
    params(("request_id" = Uuid, Path), AsOfParams),
    responses((status = 200, description = "The proposal, with its status", body = CodeEditProposal), NotFoundOrRetracted)
)]
pub(super) async fn get(
    State(app): State<Shared>,
    Id(request_id): Id<Uuid>,
    Query(params): Query<AsOfParams>,
) -> Answer {
    app.ask(move |app| {
        let proposal = app.store.as_of(params.at()).get_proposal(request_id)?;
        let proposal = proposal.ok_or_else(|| {
            let detail = format!("there is no proposal of request {request_id}: record it first");
            Problem::not_found(detail).with_field("request_id")
        })?;
        Made::ok(&proposal)
    })
    .await
}
