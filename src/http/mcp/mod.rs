//! `/mcp`: the MCP server over streamable HTTP, by the SDK's own transport.
//!
//! The access checks apply, and each tool checks the role it requires. It is not described at
//! `/openapi.json`: MCP clients list tools and resources themselves.

mod calls;
mod sessions;
mod watched;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::watch;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

pub(super) use self::sessions::SESSIONS_MAX;
use self::sessions::{ID_IN_USE, InUse, Sessions};
use self::watched::watched;
use super::access::{Caller, From as CameFrom};
use super::app::Shared;
use super::body;
use super::problem::Problem;
use super::serve::Options;

/// The path of the endpoint.
pub(super) const PATH: &str = "/mcp";

const SESSION: &str = "mcp-session-id";
const METHOD: &str = "mcp-method";
const VERSION: &str = "mcp-protocol-version";
/// The first protocol version without sessions.
const SESSIONS_UNTIL: &str = "2026-07-28";
/// The request whose answer is an endless stream of changes.
const LISTEN: &str = "subscriptions/listen";
/// Maximum length of an error message that is passed on.
const REASON_BYTES_MAX: usize = 4 << 10;

/// Any handler of MCP.
#[derive(Clone)]
pub(super) struct Mcp {
    service: BoxCloneSyncService<Request, Response, Infallible>,
    sessions: Arc<Sessions>,
}

impl Mcp {
    /// The handler that `made` creates for each session and for each request without one.
    pub(super) fn new<S: ServerHandler>(
        made: impl Fn() -> S + Send + Sync + 'static,
        options: &Options,
        stopped: watch::Receiver<bool>,
        runtime: &tokio::runtime::Handle,
    ) -> Mcp {
        let config = StreamableHttpServerConfig::default()
            // The access layer checks both, also if the server is known by
            // other names.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_json_response(true)
            .with_max_request_body_bytes(options.body_bytes_max);
        let token = config.cancellation_token.clone();
        let grace = options.shutdown_timeout / 2;
        let sessions = Arc::new(Sessions::new());
        let kept = Arc::clone(&sessions);
        runtime.spawn(async move {
            tokio::select! {
                () = stop(stopped, grace) => token.cancel(),
                () = kept.end_idle() => {}
            }
        });
        let service = StreamableHttpService::new(move || Ok(made()), sessions.clone(), config);
        let service = ServiceExt::<Request>::map_response(service, |answer| answer.map(Body::new));
        let service = BoxCloneSyncService::new(service);
        Mcp { service, sessions }
    }

    pub(super) fn routes(self) -> Router<Shared> {
        let handle = move |State(app), request| handle(self.clone(), app, request);
        let routes = get(handle.clone()).merge(post(handle.clone()));
        Router::new().route(PATH, routes.merge(delete(handle)))
    }
}

/// Returns when running requests must be aborted.
async fn stop(mut stopped: watch::Receiver<bool>, grace: Duration) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
    tokio::time::sleep(grace).await;
}

async fn handle(mcp: Mcp, app: Shared, mut request: Request) -> Result<Response, Problem> {
    let caller = caller(&app, &request);
    if is_without_sessions(request.headers()) {
        // The header has no meaning since that version, and must not select a session.
        request.headers_mut().remove(SESSION);
    }
    let headers = request.headers();
    let session = match headers.get(SESSION) {
        // No session has an empty id.
        Some(id) => {
            let id = id.to_str().unwrap_or_default();
            let entered = mcp.sessions.enter(id, caller.shower());
            Some(entered.ok_or_else(no_session)?)
        }
        None => None,
    };
    let is_endless = *request.method() == Method::GET
        || headers.get(METHOD).is_some_and(|method| method == LISTEN);
    let is_end = *request.method() == Method::DELETE;
    let (request, sent) = read(request, &app).await?;
    let Ok(mut response) = mcp.service.clone().oneshot(request).await;
    if let Some(id) = response.headers().get(SESSION) {
        let id = id.to_str().unwrap_or_default();
        mcp.sessions.own(id, caller.shower());
    }
    if response.status().is_client_error() || response.status().is_server_error() {
        return mcp.not_done(response, session, &sent).await;
    }
    if is_end {
        // Some clients treat ACCEPTED as a failure.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|media_type| media_type == "text/event-stream");
    if !is_stream {
        return Ok(response);
    }
    Ok(response.map(|body| watched(body, caller, session, is_endless)))
}

/// Whether the client uses a version of MCP without sessions.
fn is_without_sessions(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION).map(HeaderValue::as_bytes);
    // Versions are dates, so they can be compared.
    version.is_some_and(|version| version >= SESSIONS_UNTIL.as_bytes())
}

fn caller(app: &Shared, request: &Request) -> Caller {
    let from = request.extensions().get::<CameFrom>();
    Caller {
        app: app.clone(),
        headers: request.headers().clone(),
        // The stricter case: cookies are ignored.
        from: from.copied().unwrap_or(CameFrom::Allowed),
    }
}

/// Reads the body, within the common limits; credentials are removed before the handler sees the
/// request.
async fn read(request: Request, app: &Shared) -> Result<(Request, Bytes), Problem> {
    let (mut parts, body) = request.into_parts();
    if parts.method == Method::POST {
        body::check_is_json(&parts.headers)?;
    }
    let bytes = body::read(body, app).await?;
    for shown in [header::AUTHORIZATION, header::COOKIE] {
        parts.headers.remove(shown);
    }
    let request = Request::from_parts(parts, Body::from(bytes.clone()));
    Ok((request, bytes))
}

impl Mcp {
    /// Turns an error of the transport into a problem, unless it already is a JSON-RPC error.
    async fn not_done(
        &self,
        response: Response,
        session: Option<InUse>,
        sent: &[u8],
    ) -> Result<Response, Problem> {
        let status = response.status();
        if response.headers().contains_key(header::CONTENT_TYPE) {
            return Ok(response);
        }
        if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return Ok(unreadable(sent));
        }
        let allow = response.headers().get(header::ALLOW).cloned();
        let text = to_bytes(response.into_body(), usize::MAX).await;
        let text = text.unwrap_or_default();
        let text = String::from_utf8_lossy(&text[..text.len().min(REASON_BYTES_MAX)]);
        if text.ends_with(ID_IN_USE) {
            return Ok(invalid(-32600, &format!("Invalid Request: {ID_IN_USE}")));
        }
        if status.is_server_error() {
            return Err(self.cannot(session.is_some()));
        }
        let problem = Problem::new(status, code(status), text);
        let allow = allow.map(|allow| [(header::ALLOW, allow)]);
        Ok((allow, problem).into_response())
    }

    /// The problem that prevented the request.
    fn cannot(&self, is_in_session: bool) -> Problem {
        if is_in_session {
            // The session ended meanwhile.
            return no_session();
        }
        if self.sessions.are_all_in_use() {
            let detail = format!(
                "the maximum of {SESSIONS_MAX} sessions are in use: end one, or try again later"
            );
            return Problem::unavailable("too_many_sessions", detail);
        }
        Problem::unavailable("unavailable", "temporarily unavailable: try again")
    }
}

fn code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::NOT_ACCEPTABLE => "not_acceptable",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        _ => "bad_request",
    }
}

fn no_session() -> Problem {
    let detail = "unknown session: it ended or was evicted; start another with initialize";
    Problem::not_found(detail)
}

/// JSON-RPC's error for an invalid message, as clients of MCP expect.
fn unreadable(sent: &[u8]) -> Response {
    match serde_json::from_slice::<IgnoredAny>(sent) {
        Ok(_) => invalid(
            -32600,
            "Invalid Request: the body is not one JSON-RPC message",
        ),
        Err(error) => invalid(-32700, &format!("Parse error: {error}")),
    }
}

fn invalid(code: i32, message: &str) -> Response {
    let error = json!({ "code": code, "message": message });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    let json = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, json, body.to_string()).into_response()
}
