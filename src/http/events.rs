//! `/events`: logged, read, and as trees.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::app::Shared;
use super::body::{Answer, Made, OneOrMore};
use super::pages::PAGE_BYTES_MAX;
use super::params::{Id, Query, WaitParams, number_param};
use super::problem::{NotFound, Problem};
use super::puts::{Numbered, NumberedAnswer, record};
use crate::collections::{EventNode, EventQuery, SupervisorState};
use crate::record::Event;
use crate::wire::fields::{AnyInt, Int};
use crate::wire::new::NewEvent;
use crate::wire::pages::Paged;

type NewEvents = OneOrMore<NewEvent>;

/// Logs an event, or several in one array.
///
/// In an array, each event is accepted or rejected separately; an invalid one rejects the request.
#[utoipa::path(
    post,
    path = "/events",
    params(WaitParams),
    request_body = NewEvents,
    responses(
        (status = 201, description = "Logged: the answer has the ids", body = NumberedAnswer),
        (status = 200, description = "Unchanged: the log already has them", body = NumberedAnswer),
        (status = 202, description = "Queued", body = NumberedAnswer),
        (status = 207, description = "Some were rejected: see each result", body = NumberedAnswer),
        (status = 409, description = "The parent is not found, or another event has the id"),
    )
)]
pub(super) async fn log(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    body: NewEvents,
) -> Answer {
    record(&app, body, params.wait, Numbered::new).await
}

type Events = Paged<Event>;

/// Lists events, page by page.
#[utoipa::path(
    get,
    path = "/events",
    params(EventQuery),
    responses((status = 200, description = "A page", body = Events))
)]
pub(super) async fn list(State(app): State<Shared>, Query(query): Query<EventQuery>) -> Answer {
    app.list(query.limit, move |app, bytes_max| {
        app.store.events_within(&query, bytes_max)
    })
    .await
}

/// Reads an event.
#[utoipa::path(
    get,
    path = "/events/{id}",
    params(("id" = AnyInt, Path)),
    responses((status = 200, description = "The event", body = Event), NotFound)
)]
pub(super) async fn get(State(app): State<Shared>, Id(Int(id)): Id<AnyInt>) -> Answer {
    app.ask(move |app| {
        let event = app.store.get_event(id)?;
        Made::ok(&event.ok_or_else(|| Problem::unknown("event", id))?)
    })
    .await
}

/// An event with all events under it.
#[derive(Debug, Serialize, ToSchema)]
struct Tree {
    /// The root first, then under each event its children by id.
    nodes: Vec<EventNode>,
}

/// Reads an event with all events under it, with depth, outcome and duration.
#[utoipa::path(
    get,
    path = "/events/{id}/tree",
    params(("id" = AnyInt, Path)),
    responses(
        (status = 200, description = "The whole tree", body = Tree),
        (status = 422, description = "The tree has more than 8 MiB: read parts of it, or its events page by page"),
        NotFound,
    )
)]
pub(super) async fn tree(State(app): State<Shared>, Id(Int(id)): Id<AnyInt>) -> Answer {
    app.read_much(move |app| {
        let tree = app.store.event_tree_within(id, PAGE_BYTES_MAX)?;
        let tree = tree.ok_or_else(|| Problem::unknown("event", id))?;
        Made::ok(&Tree { nodes: tree.nodes })
    })
    .await
}

/// The supervisor.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StateParams {
    /// The event that began the supervisor. Default: the latest `process.started` without a parent.
    #[serde(default, deserialize_with = "number_param")]
    supervisor_id: Option<AnyInt>,
}

/// Reads the state of a supervisor, derived from the log: the Telegram offset, the current good
/// revision and the number of spawned workers.
#[utoipa::path(
    get,
    path = "/state",
    params(StateParams),
    responses((status = 200, description = "The state", body = SupervisorState))
)]
pub(super) async fn state(State(app): State<Shared>, Query(params): Query<StateParams>) -> Answer {
    app.ask(move |app| {
        let supervisor = params.supervisor_id.map(|id| id.0);
        Made::ok(&app.store.supervisor_state(supervisor)?)
    })
    .await
}
