//! `/login`: a browser exchanges a code from the command line for a cookie.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::caller::COOKIE;
use crate::access::{Secret, TokenInfo};
use crate::http::app::Shared;
use crate::http::problem::Problem;

pub(super) const PATH: &str = "/login";
/// The page after login.
const AFTERWARDS: &str = if cfg!(feature = "page") {
    "/"
} else {
    "/analytics/dashboard"
};

/// Logs a browser in with a one-time code from `decklog token login`.
#[utoipa::path(
    get,
    path = "/login",
    params(("code" = String, Query, description = "The code")),
    responses(
        (status = 303, description = "Sets the session cookie"),
        (status = 400, description = "The code is missing"),
        (status = 403, description = "The code is unknown, used or expired"),
    ),
)]
pub(in crate::http) async fn login(
    State(app): State<Shared>,
    method: Method,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    // A HEAD request does not consume the code.
    if method != Method::GET {
        let detail = "a code is only accepted by GET";
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let problem = Problem::new(status, "method_not_allowed", detail);
        return Ok(([(header::ALLOW, "GET")], problem).into_response());
    }
    let query = query.unwrap_or_default();
    let code = query.split('&').find_map(|pair| pair.strip_prefix("code="));
    let Some(code) = code.map(str::to_owned) else {
        let detail = "the code is missing: open the address that 'decklog token login' prints";
        return Err(Problem::bad_request(detail).with_field("code"));
    };
    let session = app.work(move |app| Ok(app.store.log_in(&code)?)).await?;
    let Some((secret, info)) = session else {
        let detail = "the code is unknown, used or expired: 'decklog token login' prints another";
        let status = StatusCode::FORBIDDEN;
        return Err(Problem::new(status, "bad_code", detail).with_field("code"));
    };
    let mut cookie = HeaderValue::try_from(cookie(&secret, &info, app.gatekeeper.is_tls))
        .map_err(|_| Problem::unavailable("internal", "no cookie could be created: try again"))?;
    cookie.set_sensitive(true);
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::LOCATION, HeaderValue::from_static(AFTERWARDS)),
        // This page's address contains the code.
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// The cookie, hidden from scripts and never sent by other sites.
fn cookie(secret: &Secret, info: &TokenInfo, is_tls: bool) -> String {
    let lives_ms = info.expires_at.unwrap_or(info.created_at) - info.created_at;
    let secure = if is_tls { "; Secure" } else { "" };
    format!(
        "{COOKIE}={}; Max-Age={}; Path=/; HttpOnly; SameSite=Strict{secure}",
        secret.as_str(),
        lives_ms / 1000,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::AccessRole;
    use crate::store::Store;

    #[test]
    fn a_cookie_that_came_encrypted_goes_encrypted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let (code, _) = store.add_login_code(AccessRole::Admin).unwrap();
        let (secret, info) = store.log_in(code.as_str()).unwrap().unwrap();
        for (is_tls, is_secure) in [(true, true), (false, false)] {
            let cookie = cookie(&secret, &info, is_tls);
            assert_eq!(cookie.ends_with("; SameSite=Strict; Secure"), is_secure);
        }
    }
}
