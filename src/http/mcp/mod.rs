//! `/mcp`: the MCP server over streamable HTTP, by the SDK's own transport.
//!
//! Whoever is let in reaches it, and each tool asks for the role it takes. It is not described at
//! `/openapi.json`: its clients ask the server itself what there is.

mod sessions;
mod watched;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use http_body_util::BodyExt;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::watch;

use self::sessions::{InUse, SESSIONS_MAX, Sessions};
use self::watched::{Caller, Watched};
use super::access::From as CameFrom;
use super::app::Shared;
use super::body;
use super::problem::Problem;
use super::serve::Options;

/// Where it is.
pub(super) const PATH: &str = "/mcp";

const SESSION: &str = "mcp-session-id";
const METHOD: &str = "mcp-method";
/// The request whose answer is a stream of what changes, without an end.
const LISTEN: &str = "subscriptions/listen";
/// The longest message of an error that is told on.
const REASON_BYTES_MAX: usize = 4 << 10;

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler of MCP, whichever it is.
#[derive(Clone)]
pub(super) struct Mcp {
    answer: Arc<dyn Fn(Request) -> Answering + Send + Sync>,
    sessions: Arc<Sessions>,
}

impl Mcp {
    /// The handler that `made` makes for each session and for each request without one.
    pub(super) fn new<S: ServerHandler>(
        made: impl Fn() -> S + Send + Sync + 'static,
        options: &Options,
        stopped: watch::Receiver<bool>,
        runtime: &tokio::runtime::Handle,
    ) -> Mcp {
        let config = StreamableHttpServerConfig::default()
            // The guard in front of all routes checks both, also where the server is known by
            // other names.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_json_response(true)
            .with_max_request_body_bytes(options.body_bytes_max);
        let token = config.cancellation_token.clone();
        let grace = options.shutdown_timeout / 2;
        runtime.spawn(async move {
            stop(stopped, grace).await;
            token.cancel();
        });
        let sessions = Arc::new(Sessions::new());
        let service = StreamableHttpService::new(move || Ok(made()), sessions.clone(), config);
        let answer = move |request| {
            let service = service.clone();
            let answering = async move { service.handle(request).await.map(Body::new) };
            Box::pin(answering) as Answering
        };
        Mcp {
            answer: Arc::new(answer),
            sessions,
        }
    }

    pub(super) fn routes(self) -> Router<Shared> {
        let handle = move |State(app), request| handle(self.clone(), app, request);
        let routes = get(handle.clone()).merge(post(handle.clone()));
        Router::new().route(PATH, routes.merge(delete(handle)))
    }
}

/// Returns when what is still being answered is to be cut short.
async fn stop(mut stopped: watch::Receiver<bool>, grace: Duration) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
    tokio::time::sleep(grace).await;
}

async fn handle(mcp: Mcp, app: Shared, request: Request) -> Result<Response, Problem> {
    let headers = request.headers();
    let session = match headers.get(SESSION) {
        // Not a name that one of them has.
        Some(id) => Some(mcp.enter(id.to_str().unwrap_or_default())?),
        None => None,
    };
    let is_open_ended = *request.method() == Method::GET
        || headers.get(METHOD).is_some_and(|method| method == LISTEN);
    let caller = caller(&app, &request);
    let request = read(request, &app).await?;
    let bytes = request.1;
    let response = (mcp.answer)(request.0).await;
    if response.status().is_client_error() || response.status().is_server_error() {
        return mcp.not_done(response, session, &bytes).await;
    }
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|media_type| media_type == "text/event-stream");
    if !is_stream {
        return Ok(response);
    }
    let watch = |body| Body::new(Watched::new(body, caller, session, is_open_ended));
    Ok(response.map(watch))
}

fn caller(app: &Shared, request: &Request) -> Caller {
    let from = request.extensions().get::<CameFrom>();
    Caller {
        app: app.clone(),
        headers: request.headers().clone(),
        // Cookies are not taken from there.
        from: from.copied().unwrap_or(CameFrom::Allowed),
    }
}

/// Reads what is sent, within the limits that hold for all; the handler is not shown what the
/// client shows to be let in.
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
    fn enter(&self, id: &str) -> Result<InUse, Problem> {
        self.sessions.enter(id).ok_or_else(no_session)
    }

    /// What the client is told where the transport did not do it: in words, unless it says it as
    /// MCP has it already.
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
        if status.is_server_error() {
            return Err(if session.is_some() {
                // It ended meanwhile.
                no_session()
            } else if self.sessions.are_all_in_use() {
                let detail = format!(
                    "as many sessions as may be, {SESSIONS_MAX}, are in use: end one, or try again later"
                );
                Problem::unavailable("too_many_sessions", detail)
            } else {
                Problem::unavailable("stopping", "the server stops: try again")
            });
        }
        let allow = response.headers().get(header::ALLOW).cloned();
        let text = response.into_body().collect().await;
        let text = text
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        let text = &text[..text.len().min(REASON_BYTES_MAX)];
        let text = String::from_utf8_lossy(text);
        let problem = Problem::new(status, code(status), text);
        let mut headers = HeaderMap::new();
        headers.extend(allow.map(|allow| (header::ALLOW, allow)));
        Ok((headers, problem).into_response())
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
    let detail = "there is no such session: it ended, or made room for others; begin another with initialize";
    Problem::not_found(detail)
}

/// JSON-RPC's own word for what is no message, as clients of MCP expect it.
fn unreadable(sent: &[u8]) -> Response {
    let (code, message) = match serde_json::from_slice::<IgnoredAny>(sent) {
        Ok(_) => (
            -32600,
            "Invalid Request: the body is not one JSON-RPC message".to_owned(),
        ),
        Err(error) => (-32700, format!("Parse error: {error}")),
    };
    let error = json!({ "code": code, "message": message });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    let json = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, json, body.to_string()).into_response()
}
