//! `/search`: full-text search over all records.

use std::time::{Duration, Instant};

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::Shared;
use super::body::{Answer, Made};
use super::params::{Limit, Query, TimeText};
use super::problem::Problem;
use crate::collections::{Found, SearchQuery};
use crate::error::ErrorKind;
use crate::wire::fields::{KindName, SearchAfter};

/// Time after which a search returns its matches so far.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(10);

/// What to look for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchParams {
    /// The text. Upper and lower case are the same; there are no wildcards.
    #[param(min_length = 1, max_length = 1024)]
    text: String,
    /// Only records of this kind.
    #[param(inline)]
    kind: Option<KindName>,
    /// Only records of this time or later: epoch milliseconds, RFC 3339 or a day.
    since: Option<TimeText>,
    /// Only records before this time.
    until: Option<TimeText>,
    /// Maximum number of matches. Default: 100.
    #[serde(default)]
    #[param(value_type = Option<u32>, maximum = 1000)]
    limit: Limit,
    /// The `next` of the page before.
    after: Option<SearchAfter>,
}

/// Finds a text in all records, latest first.
///
/// Searches the texts of all lines, including retracted and replaced records and texts within JSON.
/// After 10 s the answer has the matches so far; `is_whole` is false and `next` continues the search.
#[utoipa::path(
    get,
    path = "/search",
    params(SearchParams),
    responses((status = 200, description = "The matches", body = Found))
)]
pub(super) async fn search(
    State(app): State<Shared>,
    Query(params): Query<SearchParams>,
) -> Answer {
    let query = SearchQuery {
        text: params.text,
        kind: params.kind.map(|kind| kind.0),
        since: params.since.map(|time| time.0),
        until: params.until.map(|time| time.0),
        limit: params.limit.0,
        after: params.after.map(|after| after.0),
    };
    app.read_much(move |app| {
        let end = Instant::now() + SEARCH_TIME_MAX;
        let found = app.store.search_until(&query, end);
        let found = found.map_err(|e| match e.kind() {
            ErrorKind::InvalidInput => Problem::bad_request(e.reason()).with_field("text"),
            _ => Problem::from(e),
        })?;
        Made::ok(&found)
    })
    .await
}
