//! `/history`: entries of chats, appended and read from the end.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::Shared;
use super::body::{Answer, Made, OneOrMore};
use super::pages::IsCut;
use super::params::{Id, Limit, Query, WaitParams, number_param};
use super::puts::{Numbered, NumberedAnswer, record};
use crate::wire::fields::{AnyInt, Int};
use crate::wire::history::Entries;
use crate::wire::new::NewEntry;

type NewEntries = OneOrMore<NewEntry>;

/// Appends an entry to a chat's history, or several in one array.
///
/// In an array, each entry is accepted or rejected separately; an invalid one rejects the request.
#[utoipa::path(
    post,
    path = "/history",
    params(WaitParams),
    request_body = NewEntries,
    responses(
        (status = 201, description = "Appended: the answer has the ids", body = NumberedAnswer),
        (status = 200, description = "Unchanged: the log already has them", body = NumberedAnswer),
        (status = 202, description = "Queued", body = NumberedAnswer),
        (status = 207, description = "Some were rejected: see each result", body = NumberedAnswer),
        (status = 409, description = "Another entry has the id"),
    )
)]
pub(super) async fn add(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    body: NewEntries,
) -> Answer {
    record(&app, body, params.wait, Numbered::new).await
}

/// Which entries of a chat to read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LastParams {
    /// Maximum number of entries, counted from the last one. Default: 100.
    #[serde(default)]
    #[param(value_type = Option<u32>, maximum = 1000)]
    last: Limit,
    /// Only entries before the one with this id: what an earlier answer has as `before`.
    #[serde(default, deserialize_with = "number_param")]
    before: Option<AnyInt>,
}

/// Reads the last entries of a chat, earliest first. An unknown chat is empty.
#[utoipa::path(
    get,
    path = "/history/{chat_id}",
    params(("chat_id" = AnyInt, Path), LastParams),
    responses((status = 200, description = "The entries", body = Entries))
)]
pub(super) async fn last(
    State(app): State<Shared>,
    Id(Int(chat_id)): Id<AnyInt>,
    Query(params): Query<LastParams>,
) -> Answer {
    let before = params.before.map_or(i64::MAX, |id| id.0);
    app.page(move |app, bytes_max| {
        let limit = params.last.0;
        let entries = Entries::read(&app.store, chat_id, before, limit, bytes_max)?;
        let is_cut = entries.before.is_some() && entries.items.len() < limit;
        Ok((Made::ok(&entries)?, IsCut(is_cut)))
    })
    .await
}
