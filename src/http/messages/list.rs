//! Lists of messages.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::collections::{MessageQuery, Order};
use crate::http::app::Shared;
use crate::http::body::Made;
use crate::http::pages::IsCut;
use crate::http::params::{Id, Limit, Query, Time, number};
use crate::http::problem::Problem;
use crate::record::{ConversationMessage, Role};
use crate::wire::fields::AnyInt;
use crate::wire::pages::{After, Paged};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(list_all))
}

/// The parameters of a list of messages: those that every list has, after its own.
macro_rules! list_params {
    ($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        struct $name {
            $($(#[$attr])* $field: $type,)*
            /// Only messages of this time or later: epoch milliseconds, RFC 3339 or a day.
            since: Option<Time>,
            /// Only messages before this time.
            until: Option<Time>,
            /// Only messages in this role.
            role: Option<Role>,
            /// Only messages with this `model_used`.
            model: Option<String>,
            /// Only messages with this `config_used`.
            config: Option<String>,
            /// `true`: only messages with an error; `false`: only messages without one.
            error: Option<bool>,
            /// Maximum number of messages. Default: 100.
            #[serde(default)]
            #[param(value_type = Option<u32>, maximum = 1000)]
            limit: Limit,
            /// The `next` of the page before.
            after: Option<After>,
        }

        impl $name {
            fn query(self, order: Order) -> MessageQuery {
                MessageQuery {
                    from_sequence: None,
                    until_sequence: None,
                    since: self.since.map(|time| time.0),
                    until: self.until.map(|time| time.0),
                    role: self.role,
                    model_used: self.model,
                    config_used: self.config,
                    error: self.error,
                    order,
                    limit: self.limit.0,
                    after: self.after.map(|after| after.0),
                }
            }
        }
    };
}

list_params! {
    /// Which messages of a conversation to list.
    ListParams {
        /// Only messages with this sequence or a later one.
        #[serde(default, deserialize_with = "number")]
        from_sequence: Option<AnyInt>,
        /// Only messages with an earlier sequence.
        #[serde(default, deserialize_with = "number")]
        until_sequence: Option<AnyInt>,
        /// By sequence. Default: asc.
        order: Option<Order>,
    }
}

list_params! {
    /// Which messages of all conversations to list.
    ListAllParams {
        /// By time. Default: desc.
        order: Option<Order>,
    }
}

/// Lists the messages of a conversation, page by page.
#[utoipa::path(
    get,
    path = "/conversations/{id}/messages",
    tag = "conversations",
    params(("id" = Uuid, Path), ListParams),
    responses(
        (status = 200, description = "A page", body = Messages),
        (status = 404, description = "The conversation is not found", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn list(
    State(app): State<Shared>,
    Id(id): Id<Uuid>,
    Query(params): Query<ListParams>,
) -> Result<Made, Problem> {
    let bounds = (params.from_sequence, params.until_sequence);
    let order = params.order.unwrap_or(Order::OldestFirst);
    let query = MessageQuery {
        from_sequence: bounds.0.map(|from| from.0),
        until_sequence: bounds.1.map(|until| until.0),
        ..params.query(order)
    };
    page(&app, Some(id), query).await
}

/// Lists the messages of all conversations, by time, page by page.
#[utoipa::path(
    get,
    path = "/messages",
    tag = "conversations",
    params(ListAllParams),
    responses((status = 200, description = "A page", body = Messages))
)]
async fn list_all(
    State(app): State<Shared>,
    Query(params): Query<ListAllParams>,
) -> Result<Made, Problem> {
    let order = params.order.unwrap_or(Order::NewestFirst);
    page(&app, None, params.query(order)).await
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

/// What a page has beside its items.
#[derive(Serialize)]
struct Next {
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}
