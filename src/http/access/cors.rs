//! CORS headers for allowed origins: each by name, and never with credentials.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

const METHODS: &str = "GET, HEAD, POST, PATCH, DELETE";
const HEADERS: &str = "authorization, content-type, content-encoding, idempotency-key, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
const EXPOSED: &str = "location, retry-after, mcp-session-id";
/// Lifetime of a preflight answer.
const MAX_AGE_SECS: &str = "600";

/// Whether this is a preflight request.
pub(super) fn is_preflight(request: &Request) -> bool {
    let headers = request.headers();
    *request.method() == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

pub(super) fn preflight(origin: &HeaderValue) -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECS),
    ];
    let mut response = (StatusCode::NO_CONTENT, headers).into_response();
    allow(response.headers_mut(), origin);
    response
}

/// Allows a page of this origin to read an answer.
pub(super) fn allow(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    let exposed = HeaderValue::from_static(EXPOSED);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
