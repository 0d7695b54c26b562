//! `/turns`: conversation turns, recorded and read.

use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Made, OneOrMore};
use super::pages::IsCut;
use super::params::{AsOfParams, Id, ListAsOf, Query, WaitParams};
use super::problem::Problem;
use super::puts::{Handed, Identified, IdentifiedAnswer};
use crate::collections::TurnQuery;
use crate::record::ConversationTurn;
use crate::wire::new::NewTurn;
use crate::wire::pages::Paged;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(add, list))
        .routes(routes!(get))
}

type NewTurns = OneOrMore<NewTurn>;

/// Records a turn, or several in one array.
///
/// A turn without an id gets a new one, which the answer has. A turn with a known id replaces all
/// fields of that turn. In an array, each turn is accepted or rejected separately; an invalid one
/// rejects the request.
#[utoipa::path(
    post,
    path = "/turns",
    tag = "turns",
    params(WaitParams),
    request_body = NewTurns,
    responses(
        (status = 201, description = "Recorded", body = IdentifiedAnswer),
        (status = 200, description = "Unchanged: the log already has it", body = IdentifiedAnswer),
        (status = 202, description = "Queued", body = IdentifiedAnswer),
        (status = 207, description = "Some were rejected: see each result", body = IdentifiedAnswer),
        (status = 409, description = "Nothing to retract", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn add(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    body: NewTurns,
) -> Result<Made, Problem> {
    let handed = Handed::given(body, None, |_, _| Ok(()))?;
    handed
        .answer::<Identified>(&app, params.wait, |e| e.into())
        .await
}

type Turns = Paged<ConversationTurn>;

/// Lists turns, page by page, without retracted ones.
#[utoipa::path(
    get,
    path = "/turns",
    tag = "turns",
    params(TurnQuery, AsOfParams),
    responses((status = 200, description = "A page", body = Turns))
)]
async fn list(
    State(app): State<Shared>,
    ListAsOf { query, as_of }: ListAsOf<TurnQuery>,
) -> Result<Made, Problem> {
    app.page(move |app, bytes_max| {
        let page = app.store.as_of(as_of).list(&query, bytes_max)?;
        let is_cut = IsCut::of(&page, query.limit);
        Ok((Made::ok(&Turns::from(page))?, is_cut))
    })
    .await
}

/// Reads a turn.
#[utoipa::path(
    get,
    path = "/turns/{id}",
    tag = "turns",
    params(("id" = Uuid, Path), AsOfParams),
    responses(
        (status = 200, description = "The turn", body = ConversationTurn),
        (status = 404, description = "Not found, or retracted", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn get(
    State(app): State<Shared>,
    Id(id): Id<Uuid>,
    Query(params): Query<AsOfParams>,
) -> Result<Made, Problem> {
    app.ask(move |app| {
        let turn = app.store.as_of(params.at()).get_turn(id)?;
        let unknown = || Problem::not_found(format!("there is no turn {id}")).with_field("id");
        Made::ok(&turn.ok_or_else(unknown)?)
    })
    .await
}
