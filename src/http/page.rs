//! The web page: `/`, the pages under `/ui/`, and their style sheet, script and icon.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::app::Shared;
use super::problem::Problem;
use crate::page::{self, ICON, SCRIPT, STYLE, Site, Status};

/// What a page may load: only the files of this service. Nothing in a page can run or be loaded
/// from elsewhere, and no other page can frame it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";

/// Files of the pages that need no token: they are the same for everyone.
pub(super) const FILES: [&str; 3] = ["/ui/style.css", "/ui/script.js", "/ui/icon.svg"];

pub(super) fn routes() -> Router<Shared> {
    let file = |kind: &'static str, text: &'static str| {
        get(move || {
            // A new version of the service has other files.
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            std::future::ready((headers, text))
        })
    };
    Router::new()
        .route("/", get(page))
        .route("/ui/{*page}", get(page))
        .route(FILES[0], file("text/css; charset=utf-8", STYLE))
        .route(FILES[1], file("text/javascript; charset=utf-8", SCRIPT))
        .route(FILES[2], file("image/svg+xml", ICON))
}

async fn page(State(app): State<Shared>, uri: Uri) -> Result<Response, Problem> {
    let (status, text) = app
        .read_much(move |app| {
            let site = Site {
                store: &app.store,
                analytics: &app.analytics,
            };
            Ok(page::answer(
                &site,
                uri.path(),
                uri.query().unwrap_or_default(),
            )?)
        })
        .await?;
    let status = match status {
        Status::Found => StatusCode::OK,
        Status::Invalid => StatusCode::BAD_REQUEST,
        Status::Missing => StatusCode::NOT_FOUND,
    };
    Ok(framed(status, text))
}

fn framed(status: StatusCode, text: String) -> Response {
    let mut response = (status, text).into_response();
    add_headers(response.headers_mut());
    response
}

fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_TYPE, HTML),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Whether a path is that of a page, so that a browser shows the answer to a person.
pub(super) fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with("/ui/")
}

/// The answer to a request for a page, with a problem as a page, too.
pub(super) fn for_people(is_page: bool, mut answer: Response) -> Response {
    let problem = answer.extensions_mut().remove::<Problem>();
    let Some(problem) = problem.filter(|_| is_page) else {
        return answer;
    };
    let (kept, _) = answer.into_parts();
    let text = page::refusal(problem.title(), problem.detail());
    let mut response = framed(problem.status(), text);
    for name in [header::RETRY_AFTER, header::WWW_AUTHENTICATE, header::ALLOW] {
        if let Some(value) = kept.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}
