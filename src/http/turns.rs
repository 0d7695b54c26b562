//! `/turns`: conversation turns, recorded and read.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Made, OneOrMore};
use super::pages::IsCut;
use super::params::{AsOfParams, Id, Limit, Query, Time, WaitParams};
use super::problem::Problem;
use super::puts::{Handed, Identified, IdentifiedAnswer};
use crate::collections::{Order, TurnQuery};
use crate::record::{ConversationTurn, TurnKind};
use crate::wire::new::NewTurn;
use crate::wire::pages::{After, Paged};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(add, list))
        .routes(routes!(get))
}

type NewTurns = OneOrMore<NewTurn>;

/// Records a turn, or several in one array.
///
/// A turn without an id gets a new one, which the answer has. A turn whose id is known stands as it
/// is given then, in all of its fields. Of an array, each is
/// taken or rejected by itself; a turn that cannot be one rejects the request.
#[utoipa::path(
    post,
    path = "/turns",
    tag = "turns",
    params(WaitParams),
    request_body = NewTurns,
    responses(
        (status = 201, description = "Recorded", body = IdentifiedAnswer),
        (status = 200, description = "Unchanged: the log has it already", body = IdentifiedAnswer),
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

/// Which turns to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListParams {
    /// Only turns of this message.
    message_id: Option<Uuid>,
    /// Only turns that follow this one.
    parent_id: Option<Uuid>,
    /// Only turns of this thread.
    thread_id: Option<Uuid>,
    kind: Option<TurnKind>,
    /// Said then or later: epoch milliseconds, RFC 3339 or a day.
    since: Option<Time>,
    /// Said before.
    until: Option<Time>,
    /// As they stood at this time: epoch milliseconds, RFC 3339 or a day. Default: now.
    as_of: Option<Time>,
    /// By `created_at`. Default: asc.
    order: Option<Order>,
    /// Maximum number of turns. Default: 100.
    #[serde(default)]
    #[param(value_type = Option<u32>, maximum = 1000)]
    limit: Limit,
    after: Option<After>,
}

type Turns = Paged<ConversationTurn>;

/// Lists turns that stand, page by page.
#[utoipa::path(
    get,
    path = "/turns",
    tag = "turns",
    params(ListParams),
    responses((status = 200, description = "A page", body = Turns))
)]
async fn list(
    State(app): State<Shared>,
    Query(params): Query<ListParams>,
) -> Result<Made, Problem> {
    let query = TurnQuery {
        message_id: params.message_id,
        parent_id: params.parent_id,
        thread_id: params.thread_id,
        kind: params.kind,
        since: params.since.map(|time| time.0),
        until: params.until.map(|time| time.0),
        order: params.order.unwrap_or(Order::OldestFirst),
        limit: params.limit.0,
        after: params.after.map(|after| after.0),
    };
    let as_of = params.as_of.map(|time| time.0);
    app.page(move |app, bytes_max| {
        let page = app.store.as_of(as_of).turns_within(&query, bytes_max)?;
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
