//! Rejects unknown query parameters of operations that have none.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use serde_json::Value;

use super::problem::Problem;

/// Methods and paths without query parameters.
pub(super) type Unqueried = Arc<HashSet<(String, String)>>;

/// Derived from an API description. Probes and scrapers may send query parameters, which are
/// ignored.
pub(super) fn unqueried(api: &Value) -> Unqueried {
    let mut found = HashSet::new();
    for (path, item) in members(&api["paths"]) {
        for (method, operation) in members(item) {
            let mut params = operation["parameters"].as_array().into_iter().flatten();
            let takes_any = params.any(|param| param["in"] == "query");
            if !takes_any && operation["tags"][0] != "server" {
                found.insert((method.to_ascii_uppercase(), path.clone()));
            }
        }
    }
    Arc::new(found)
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The problem with a request that has a query parameter although its operation has none.
pub(super) fn refusal(
    unqueried: &Unqueried,
    path: Option<&MatchedPath>,
    request: &Request,
) -> Option<Problem> {
    let query = request.uri().query()?;
    let (name, _) = form_urlencoded::parse(query.as_bytes()).next()?;
    let method = match request.method() {
        &Method::HEAD => &Method::GET,
        method => method,
    };
    let operation = (method.to_string(), path?.as_str().to_owned());
    if !unqueried.contains(&operation) {
        return None;
    }
    let (method, path) = operation;
    let detail = format!("{method} {path} has no query parameter {name:?}");
    Some(Problem::bad_request(detail).with_field(name))
}
