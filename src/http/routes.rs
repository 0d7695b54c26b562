//! All routes, their common layers, and their description.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Bytes, HttpBody as _, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{HELD, Shared};
use super::described::described;
use super::memory::{Held, SMALL_BYTES};
use super::problem::Problem;
use super::unqueried::{Unqueried, refusal, unqueried};
use super::{
    access, analytics, calls, conversations, events, health, history, inbox, messages, metrics,
    params, proposals, records, rejected, search, stream, thoughts, turns,
};
use crate::analytics::{Bucket, Dimension, SpendSort};
use crate::collections::{ConversationSort, Cursor};
use crate::record::Day;
use crate::wire::fields::{AnyInt, SearchAfter};

/// The description of the service.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "decklog",
        description = "A log for LLM agents: capture, query and analytics over HTTP. Errors are RFC 9457 problem details; `code` identifies the error and `field` names the invalid field."
    ),
    components(schemas(
        AnyInt, Bucket, ConversationSort, Day, Dimension, Cursor, SearchAfter, SpendSort, crate::collections::Order, params::TimeText, params::Wait, records::WaitFor
    )),
    tags(
        (name = "conversations", description = "Conversations and their messages"),
        (name = "analytics", description = "Reports over messages and tool calls"),
        (name = "turns", description = "Conversation turns"),
        (name = "tool calls", description = "Tool calls and their outcomes"),
        (name = "proposals", description = "Code edit proposals and their status"),
        (name = "events", description = "Events of supervisors and agents"),
        (name = "history", description = "The history of chats"),
        (name = "inbox", description = "The queue of tasks"),
        (name = "thoughts", description = "Hash-chained thoughts"),
        (name = "records", description = "Records of all kinds, one JSON object a line"),
        (name = "server", description = "Health and metrics"),
    )
)]
struct Described;

/// All operations, with their descriptions.
fn operations() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(conversations::create, conversations::list))
        .routes(routes!(conversations::get, conversations::change))
        .routes(routes!(conversations::erase))
        .routes(routes!(messages::add, messages::list))
        .routes(routes!(messages::list_all))
        .routes(routes!(analytics::usage))
        .routes(routes!(analytics::models))
        .routes(routes!(analytics::errors))
        .routes(routes!(analytics::latency))
        .routes(routes!(analytics::tasks))
        .routes(routes!(analytics::context))
        .routes(routes!(analytics::compression))
        .routes(routes!(analytics::active))
        .routes(routes!(analytics::tools))
        .routes(routes!(analytics::projects))
        .routes(routes!(analytics::sessions))
        .routes(routes!(analytics::activity))
        .routes(routes!(analytics::dashboard))
        .routes(routes!(analytics::cost))
        .routes(routes!(turns::add, turns::list))
        .routes(routes!(turns::get))
        .routes(routes!(calls::request, calls::list))
        .routes(routes!(calls::get))
        .routes(routes!(calls::done))
        .routes(routes!(proposals::propose, proposals::list))
        .routes(routes!(proposals::get))
        .routes(routes!(proposals::step))
        .routes(routes!(events::log, events::list))
        .routes(routes!(events::get))
        .routes(routes!(events::tree))
        .routes(routes!(events::state))
        .routes(routes!(history::add))
        .routes(routes!(history::last))
        .routes(routes!(inbox::enqueue, inbox::list))
        .routes(routes!(inbox::counts))
        .routes(routes!(inbox::claim))
        .routes(routes!(inbox::release))
        .routes(routes!(inbox::get))
        .routes(routes!(inbox::done))
        .routes(routes!(inbox::fail))
        .routes(routes!(inbox::retry))
        .routes(routes!(thoughts::add, thoughts::list))
        .routes(routes!(thoughts::verify))
        .routes(routes!(thoughts::get))
        .routes(routes!(records::record))
        .routes(routes!(rejected::rejected))
        .routes(routes!(search::search))
        .routes(routes!(stream::stream))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(access::login::login))
        .routes(routes!(metrics::metrics))
}

pub(super) fn router(app: Shared, more: Router<Shared>) -> Router {
    let (router, api) = operations().split_for_parts();
    let api = described(&api);
    let unqueried = unqueried(&api);
    let api = Bytes::from(api.to_string());
    let json = [(header::CONTENT_TYPE, "application/json")];
    let describe = move || std::future::ready((json, api.clone()));
    let router = router.route("/openapi.json", get(describe)).merge(more);
    let unknown = "unknown path: see /openapi.json";
    let port = Port {
        unqueried,
        has_pages: true,
    };
    around_all(app, router, port, unknown)
}

/// A router with these routes alone, which take no parameters.
#[cfg(feature = "otlp")]
pub(super) fn only(app: Shared, routes: Router<Shared>) -> Router {
    let unknown =
        "unknown path: this port receives only OTLP, at /v1/traces, /v1/logs and /v1/metrics";
    around_all(app, routes, Port::default(), unknown)
}

/// What the routes of a port have in common.
#[derive(Clone, Default)]
struct Port {
    unqueried: Unqueried,
    /// Whether it shows the web page, so that browsers get errors as pages.
    #[cfg_attr(not(feature = "page"), allow(dead_code))]
    has_pages: bool,
}

fn around_all(app: Shared, router: Router<Shared>, port: Port, unknown: &'static str) -> Router {
    router
        .fallback(async move || Problem::not_found(unknown))
        .method_not_allowed_fallback(async || {
            let detail = "method not allowed: see the Allow header";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        })
        .layer(middleware::from_fn_with_state((app.clone(), port), around))
        .with_state(app)
}

/// The layer around every request: checks its caller and its parameters, counts it, logs it without
/// client content, and adds headers that prevent browsers from guessing media types. It is one layer,
/// since each costs every request several allocations.
async fn around(
    State((app, port)): State<(Shared, Port)>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let method = name_of(request.method());
    let is_read = request.method() == Method::GET;
    #[cfg(feature = "page")]
    let is_page = port.has_pages && super::page::is_page(request.uri().path());
    let refusal = |request: &Request| refusal(&port.unqueried, path.as_ref(), request);
    let operation = async |request: Request| match refusal(&request) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    let answered = HELD.scope(RefCell::default(), access::guard(&app, request, operation));
    let answered = answered.await;
    #[cfg(feature = "page")]
    let answered = super::page::for_people(is_page, answered);
    let mut response = held(&app, answered, is_read).await;
    let route = path.as_ref().map_or("none", MatchedPath::as_str);
    let (status, took) = (response.status().as_u16(), started.elapsed());
    app.metrics.count(method, route, status, took);
    tracing::info!(
        method,
        route,
        status,
        took_us = took.as_micros(),
        "answered"
    );
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

/// An answer that reserves memory until its client has read it. Only answers to reads are rejected,
/// because they can be requested again.
async fn held(app: &Shared, mut response: Response, is_read: bool) -> Response {
    let length = response.body().size_hint().exact();
    let length = usize::try_from(length.unwrap_or(0)).unwrap_or(usize::MAX);
    if length <= SMALL_BYTES {
        return response;
    }
    // A long page already has reserved memory.
    let held = response.extensions_mut().remove::<Arc<Held>>();
    let held = held.and_then(Arc::into_inner);
    let mut held = held.unwrap_or_else(|| app.answers_held.held());
    match held.resize(length) {
        Err(problem) if is_read => return problem.into_response(),
        Err(_) | Ok(()) => {}
    }
    let (parts, body) = response.into_parts();
    // A body of known length is in memory already.
    let bytes = to_bytes(body, length).await.unwrap_or_default();
    Response::from_parts(parts, Arc::new(held).keep(bytes).into())
}

/// A method's name; unknown ones are `OTHER`.
fn name_of(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let name = known.into_iter().find(|name| method == name);
    name.unwrap_or("other")
}
