//! `/tool-calls`: requested, done, and read.

use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::request::Parts;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Answer, Json, Made, OneOrMore};
use super::pages::IsCut;
use super::params::{AsOfParams, ListAsOf, Query, WaitParams, id_in_path, set_as_path};
use super::problem::{NotFoundOrRetracted, Problem};
use super::puts::{Handed, Put, record};
use crate::collections::CallQuery;
use crate::record::ToolCallView;
use crate::wire::new::{NewCall, NewOutcome};

/// The key of a call in a path.
pub(super) struct CallKey {
    request_id: Uuid,
    call_id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for CallKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<CallKey, Problem> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Problem::bad_request("the path is not UTF-8"))?;
        let of = |name| params.iter().find(|(known, _)| *known == name);
        let value = |name| of(name).map_or("", |(_, value)| value);
        Ok(CallKey {
            request_id: id_in_path("request_id", value("request_id"))?,
            call_id: value("call_id").to_owned(),
        })
    }
}

/// Records the request of a tool call.
///
/// The same request again is recorded once.
#[utoipa::path(
    post,
    path = "/tool-calls",
    params(WaitParams),
    request_body = NewCall,
    responses(
        (status = 201, description = "Recorded", body = Put),
        (status = 200, description = "Unchanged: the log already has it", body = Put),
        (status = 202, description = "Queued", body = Put),
        (status = 409, description = "Nothing to retract"),
    )
)]
pub(super) async fn request(
    State(app): State<Shared>,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewCall>,
) -> Answer {
    record(&app, OneOrMore::One(new), params.wait, Put::new).await
}

/// Records the outcome of a tool call.
///
/// The same outcome again is recorded once. A different one is a conflict: the first is kept.
#[utoipa::path(
    post,
    path = "/tool-calls/{request_id}/{call_id}/done",
    params(("request_id" = Uuid, Path), ("call_id" = String, Path, description = "Percent-encoded"), WaitParams),
    request_body = NewOutcome,
    responses(
        (status = 201, description = "Recorded", body = Put),
        (status = 200, description = "Unchanged: the log already has it", body = Put),
        (status = 202, description = "Queued", body = Put),
        (status = 404, description = "The call is not found, or retracted"),
        (status = 409, description = "The call has another outcome"),
    )
)]
pub(super) async fn done(
    State(app): State<Shared>,
    key: CallKey,
    Query(params): Query<WaitParams>,
    Json(new): Json<NewOutcome>,
) -> Answer {
    let handed = Handed::given(OneOrMore::One(new), None, |given, _| {
        set_as_path(given, "request_id", &key.request_id)?;
        set_as_path(given, "call_id", &key.call_id)
    })?;
    handed
        .answer(&app, params.wait, Problem::from, Put::new)
        .await
}

/// Reads a tool call with its outcome.
#[utoipa::path(
    get,
    path = "/tool-calls/{request_id}/{call_id}",
    params(("request_id" = Uuid, Path), ("call_id" = String, Path, description = "Percent-encoded"), AsOfParams),
    responses((status = 200, description = "The call, with its outcome if it has one", body = ToolCallView), NotFoundOrRetracted)
)]
pub(super) async fn get(
    State(app): State<Shared>,
    key: CallKey,
    Query(params): Query<AsOfParams>,
) -> Answer {
    app.ask(move |app| {
        let store = app.store.as_of(params.at());
        let call = store.get_tool_call(key.request_id, &key.call_id)?;
        let call = call.ok_or_else(|| {
            let detail = format!("there is no such call of request {}", key.request_id);
            Problem::not_found(detail).with_field("call_id")
        })?;
        Made::ok(&ToolCallView::from(&call))
    })
    .await
}

/// A page of tool calls.
#[derive(Debug, Serialize, ToSchema)]
struct Calls<'a> {
    items: Vec<ToolCallView<'a>>,
    /// The `after` of the next page. Missing on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists tool calls, page by page, without retracted ones.
#[utoipa::path(
    get,
    path = "/tool-calls",
    params(CallQuery, AsOfParams),
    responses((status = 200, description = "A page", body = Calls))
)]
pub(super) async fn list(
    State(app): State<Shared>,
    ListAsOf { query, as_of }: ListAsOf<CallQuery>,
) -> Answer {
    app.page(move |app, bytes_max| {
        let store = app.store.as_of(as_of);
        let page = store.tool_calls_within(&query, bytes_max)?;
        let made = Made::ok(&Calls {
            items: page.items.iter().map(ToolCallView::from).collect(),
            next: page.next.map(|next| next.to_string()),
        })?;
        Ok((made, IsCut::of(&page, query.limit)))
    })
    .await
}
