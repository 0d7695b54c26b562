//! `/history`: what was said in chats, appended and read from the end.

use axum::extract::State;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::Shared;
use super::body::{Made, OneOrMore};
use super::pages::IsCut;
use super::params::{Id, Limit, Query, WaitParams, number};
use super::problem::Problem;
use super::puts::{Handed, Numbered, NumberedAnswer};
use crate::collections::IfKnown;
use crate::record::{HistoryEntry, Record, Role, now};
use crate::wire::fields::{AnyInt, Int, Millis, NewId};
use crate::wire::history::Entries;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(add))
        .routes(routes!(last))
}

/// An entry to append.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewEntry {
    /// Its id: sent again with the same one, it is appended once. Default, or 0: the next one, for
    /// each request.
    id: Option<NewId>,
    /// The chat; its id may be negative.
    chat_id: AnyInt,
    /// Who speaks.
    role: Role,
    /// When. Default: now.
    created_at: Option<Millis>,
    /// What is said.
    text: String,
}

type NewEntries = OneOrMore<NewEntry>;

impl NewEntry {
    fn into_record(self) -> (Record, IfKnown) {
        let if_known = match self.created_at {
            Some(_) => IfKnown::Compare,
            None => IfKnown::CompareExceptTime,
        };
        let entry = HistoryEntry {
            id: self.id.map_or(0, |id| id.0),
            chat_id: self.chat_id.0,
            role: self.role,
            created_at: self.created_at.map_or_else(now, |at| at.0),
            text: self.text,
        };
        (entry.into(), if_known)
    }
}

/// Appends an entry to a chat's history, or several in one array.
///
/// Of an array, each is taken or rejected by itself; one that cannot be an entry rejects the
/// request.
#[utoipa::path(
    post,
    path = "/history",
    tag = "history",
    params(WaitParams),
    request_body = NewEntries,
    responses(
        (status = 201, description = "Appended: each has its id", body = NumberedAnswer),
        (status = 200, description = "Unchanged: the log has them already", body = NumberedAnswer),
        (status = 202, description = "Queued", body = NumberedAnswer),
        (status = 207, description = "Some were rejected: see each result", body = NumberedAnswer),
        (status = 409, description = "Another entry has the id", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn add(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    body: NewEntries,
) -> Result<Made, Problem> {
    let handed = Handed::new(body, NewEntry::into_record);
    handed
        .answer::<Numbered>(&app, params.wait, |e| e.into())
        .await
}

/// Which entries of a chat to read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LastParams {
    /// Maximum number of entries, counted from the last one. Default: 100.
    #[serde(default)]
    #[param(value_type = Option<u32>, maximum = 1000)]
    last: Limit,
    /// Only entries before the one with this id: what an earlier answer has as `before`.
    #[serde(default, deserialize_with = "number")]
    before: Option<AnyInt>,
}

/// Reads the last entries of a chat, the earliest of them first. A chat without any is empty.
#[utoipa::path(
    get,
    path = "/history/{chat_id}",
    tag = "history",
    params(("chat_id" = AnyInt, Path), LastParams),
    responses((status = 200, description = "The entries", body = Entries))
)]
async fn last(
    State(app): State<Shared>,
    Id(Int(chat_id)): Id<AnyInt>,
    Query(params): Query<LastParams>,
) -> Result<Made, Problem> {
    let before = params.before.map_or(i64::MAX, |id| id.0);
    app.page(move |app, bytes_max| {
        let limit = params.last.0;
        let entries = Entries::read(&app.store, chat_id, before, limit, bytes_max)?;
        let is_cut = entries.before.is_some() && entries.items.len() < limit;
        Ok((Made::ok(&entries)?, IsCut(is_cut)))
    })
    .await
}
