//! `/turns`: conversation turns, recorded and read.

use axum::extract::State;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Answer, Made, OneOrMore};
use super::params::{AsOfParams, Id, ListAsOf, Query, WaitParams};
use super::problem::{NotFoundOrRetracted, Problem};
use super::puts::{Identified, IdentifiedAnswer, record};
use crate::collections::TurnQuery;
use crate::record::ConversationTurn;
use crate::wire::new::NewTurn;
use crate::wire::pages::Paged;

type NewTurns = OneOrMore<NewTurn>;

/// Records a turn, or several in one array.
///
/// A turn without an id gets a new one, which the answer has. A turn with a known id replaces all
/// fields of that turn. In an array, each turn is accepted or rejected separately; an invalid one
/// rejects the request.
#[utoipa::path(
    post,
    path = "/turns",
    params(WaitParams),
    request_body = NewTurns,
    responses(
        (status = 201, description = "Recorded", body = IdentifiedAnswer),
        (status = 200, description = "Unchanged: the log already has it", body = IdentifiedAnswer),
        (status = 202, description = "Queued", body = IdentifiedAnswer),
        (status = 207, description = "Some were rejected: see each result", body = IdentifiedAnswer),
        (status = 409, description = "Nothing to retract"),
    )
)]
pub(super) async fn add(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    body: NewTurns,
) -> Answer {
    record(&app, body, params.wait, Identified::new).await
}

type Turns = Paged<ConversationTurn>;

/// Lists turns, page by page, without retracted ones.
#[utoipa::path(
    get,
    path = "/turns",
    params(TurnQuery, AsOfParams),
    responses((status = 200, description = "A page", body = Turns))
)]
pub(super) async fn list(
    State(app): State<Shared>,
    ListAsOf { query, as_of }: ListAsOf<TurnQuery>,
) -> Answer {
    app.list(query.limit, move |app, bytes_max| {
        app.store.as_of(as_of).turns_within(&query, bytes_max)
    })
    .await
}

/// Reads a turn.
#[utoipa::path(
    get,
    path = "/turns/{id}",
    params(("id" = Uuid, Path), AsOfParams),
    responses((status = 200, description = "The turn", body = ConversationTurn), NotFoundOrRetracted)
)]
pub(super) async fn get(
    State(app): State<Shared>,
    Id(id): Id<Uuid>,
    Query(params): Query<AsOfParams>,
) -> Answer {
    app.ask(move |app| {
        let turn = app.store.as_of(params.at()).get_turn(id)?;
        Made::ok(&turn.ok_or_else(|| Problem::unknown("turn", id))?)
    })
    .await
}
