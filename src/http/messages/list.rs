//! Lists of messages.

use axum::extract::State;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::collections::MessageQuery;
use crate::http::app::Shared;
use crate::http::body::Made;
use crate::http::pages::IsCut;
use crate::http::params::{Id, Query};
use crate::http::problem::Problem;
use crate::record::ConversationMessage;
use crate::wire::pages::Paged;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(list_all))
}

/// Lists the messages of a conversation, page by page.
#[utoipa::path(
    get,
    path = "/conversations/{id}/messages",
    tag = "conversations",
    params(("id" = Uuid, Path), MessageQuery),
    responses(
        (status = 200, description = "A page", body = Messages),
        (status = 404, description = "The conversation is not found", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn list(
    State(app): State<Shared>,
    Id(id): Id<Uuid>,
    Query(query): Query<MessageQuery>,
) -> Result<Made, Problem> {
    page(&app, Some(id), query).await
}

/// Lists the messages of all conversations, by time, page by page.
#[utoipa::path(
    get,
    path = "/messages",
    tag = "conversations",
    params(MessageQuery),
    responses((status = 200, description = "A page", body = Messages))
)]
async fn list_all(
    State(app): State<Shared>,
    Query(query): Query<MessageQuery>,
) -> Result<Made, Problem> {
    page(&app, None, query).await
}

async fn page(app: &Shared, of: Option<Uuid>, query: MessageQuery) -> Result<Made, Problem> {
    app.page(move |app, bytes_max| {
        let page = app.store.messages_as_json(of, &query, bytes_max)?;
        let is_cut = IsCut::of(&page, query.limit);
        let Paged { items, next } = page.into();
        if let Some(id) = of.filter(|_| items.is_empty())
            && app.store.get_conversation(id)?.is_none()
        {
            let detail = format!("there is no conversation {id}");
            return Err(Problem::not_found(detail).with_field("id"));
        }
        Ok((Made::with_items(&Next { next }, "items", items)?, is_cut))
    })
    .await
}

/// A page of messages.
type Messages = Paged<ConversationMessage>;

/// The fields of a page besides its items.
#[derive(Serialize)]
struct Next {
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}
