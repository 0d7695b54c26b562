//! All routes, their common layers, and their description.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::app::{HELD, Shared};
use super::described::described;
use super::memory::{Answer, Held, SMALL_BYTES};
use super::problem::Problem;
use super::unqueried::{refuse, unqueried};
use super::{
    access, analytics, calls, conversations, events, health, history, inbox, messages, metrics,
    params, proposals, records, rejected, search, stream, thoughts, turns,
};
use crate::analytics::{Bucket, Dimension};
use crate::collections::Cursor;
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
        AnyInt, Bucket, Day, Dimension, Cursor, SearchAfter, crate::collections::Order, params::TimeText, params::Wait, records::WaitFor
    )),
    tags(
        (name = "conversations", description = "Conversations and their messages"),
        (name = "analytics", description = "Reports over messages"),
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

pub(super) fn router(app: Shared, more: Router<Shared>) -> Router {
    let (router, api) = OpenApiRouter::with_openapi(Described::openapi())
        .merge(conversations::routes())
        .merge(messages::routes())
        .merge(analytics::routes())
        .merge(turns::routes())
        .merge(calls::routes())
        .merge(proposals::routes())
        .merge(events::routes())
        .merge(history::routes())
        .merge(inbox::routes())
        .merge(thoughts::routes())
        .merge(records::routes())
        .merge(rejected::routes())
        .merge(search::routes())
        .merge(stream::routes())
        .merge(health::routes())
        .merge(access::routes())
        .merge(metrics::routes())
        .split_for_parts();
    let api = described(api);
    let unqueried = unqueried(&api);
    let api = Bytes::from(api.to_string());
    let describe = move || {
        let json = HeaderValue::from_static("application/json");
        std::future::ready(([(header::CONTENT_TYPE, json)], api.clone()))
    };
    router
        .route("/openapi.json", get(describe))
        .merge(more)
        .fallback(nothing_there)
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn_with_state(unqueried, refuse))
        .layer(middleware::from_fn_with_state(app.clone(), around))
        .with_state(app)
}

async fn nothing_there() -> Problem {
    Problem::not_found("unknown path: see /openapi.json")
}

async fn not_so() -> Problem {
    let detail = "method not allowed: see the Allow header";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// The layer around every request: counts it, logs it without client content, and adds headers that
/// prevent browsers from guessing media types.
async fn around(
    State(app): State<Shared>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let method = name_of(request.method());
    let is_read = request.method() == Method::GET;
    let answered = HELD.scope(RefCell::default(), access::guard(&app, request, next));
    let mut response = held(&app, answered.await, is_read);
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
fn held(app: &Shared, mut response: Response, is_read: bool) -> Response {
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
    response.map(|body| Body::new(Answer::new(body, held)))
}

/// A method's name; unknown ones are `OTHER`.
fn name_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
