//! `/conversations`: created, listed, read, changed, erased.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Answer, Json, Made, OneOrMore};
use super::messages::of_path;
use super::pages::IsCut;
use super::params::{Id, IdempotencyKey, Query};
use super::problem::{NotFound, Problem};
use super::puts::{Handed, status_of};
use crate::collections::{ConversationList, ConversationQuery, MessageQuery, PAGE_LIMIT_MAX};
use crate::line::DERIVED;
use crate::record::{ConversationMessage, ConversationStatus, Timestamp};
use crate::retention::{EraseOptions, Erased, Erasure};
use crate::store::Store;
use crate::wire::conversation::Whole;
use crate::wire::fields::Length;
use crate::wire::issues::Issue;
use crate::wire::new::{NewConversation, NewMessage};
use crate::wire::pages::Paged;

/// The namespace of ids derived from idempotency keys: a random UUID.
const KEYS: Uuid = Uuid::from_u128(0x9e1b_0d3f_5c68_4f0b_9a57_6a0c_1f2d_7e44);

/// The member of a new conversation with its messages.
const MESSAGES: &str = "messages";

/// Members of a body besides the fields of a conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[allow(dead_code)] // Most members are ignored.
pub(super) struct ExtraMembers {
    /// Messages to add to the conversation.
    messages: Option<Vec<NewMessage>>,
    // Further members of answers, so that an answer can be posted.
    /// Ignored: derived from the messages.
    updated_at: Option<Timestamp>,
    /// Ignored: derived from the messages.
    message_count: Option<Length>,
    /// Ignored: derived from the messages.
    total_tokens_in: Option<Length>,
    /// Ignored: derived from the messages.
    total_tokens_out: Option<Length>,
    /// Ignored: derived from the messages.
    total_latency_ms: Option<Length>,
    /// Ignored: derived from the messages.
    total_cost_usd: Option<f64>,
    /// Ignored: derived from the messages.
    error_count: Option<Length>,
    /// Ignored: derived from the messages.
    failure_count: Option<Length>,
    /// Ignored: derived from the messages.
    models_used: Option<Vec<String>>,
    /// Ignored: derived from the messages.
    configs_used: Option<Vec<String>>,
    /// Ignored: the start of the next page of messages.
    next: Option<String>,
}

impl ExtraMembers {
    /// Removes these members from a body.
    fn of(new: &mut NewConversation) -> Result<ExtraMembers, Problem> {
        let names = DERIVED.into_iter().chain(["updated_at", "next", MESSAGES]);
        let members: Vec<String> = names
            .filter_map(|name| Some(format!("\"{name}\":{}", new.given.take(name)?)))
            .collect();
        let json = format!("{{{}}}", members.join(","));
        let mut from = serde_json::Deserializer::from_str(&json);
        serde_path_to_error::deserialize(&mut from).map_err(|error| {
            let path = error.path().clone();
            let message = error.into_inner().to_string();
            Problem::of_issues(&[Issue::of_error(&path, message, None)])
        })
    }
}

fn whole(store: &Store, id: Uuid) -> Result<Whole, Problem> {
    let found = store.get_conversation(id)?;
    let unknown = || Problem::unknown("conversation", id);
    found.map(Whole::of).ok_or_else(unknown)
}

/// Creates a conversation.
///
/// The body can have the form that reading one returns, including messages. A retry with the same id or `Idempotency-Key` is answered 200 and creates nothing.
#[utoipa::path(
    post,
    path = "/conversations",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe, like an id", min_length = 1, max_length = 1024, pattern = "^[!-~]+$"),
    ),
    request_body = NewConversation,
    responses(
        (status = 201, description = "Created", body = Whole),
        (status = 200, description = "Unchanged: the conversation exists", body = Whole),
        (status = 409, description = "Another conversation has the id"),
        (status = 422, description = "A field is invalid"),
    )
)]
pub(super) async fn create(
    State(app): State<Shared>,
    key: IdempotencyKey,
    Json(mut new): Json<NewConversation>,
) -> Result<Response, Problem> {
    let messages = ExtraMembers::of(&mut new)?.messages.unwrap_or_default();
    let conversation = Handed::given(OneOrMore::One(new), None, |given, _| {
        key.fill_id(given, KEYS, 0);
        Ok(())
    })?;
    let id = conversation.keys().pop().unwrap_or_default();
    let id = Uuid::try_parse(&id).unwrap_or_default();
    let has_messages = !messages.is_empty();
    let messages = Handed::given(OneOrMore::More(messages), Some(MESSAGES), |given, nth| {
        of_path(given, id, &key, nth)
    })?;
    let mut answered = conversation.put(&app, None, Problem::from).await?;
    if has_messages {
        let added = messages.put(&app, None, Problem::from).await?;
        for (nth, added) in added.into_iter().enumerate() {
            let at = |problem: Problem| problem.with_field(format!("/{MESSAGES}/{nth}"));
            answered.push(added.transpose().map_err(at)?.map(Ok));
        }
    }
    let status = status_of(&answered);
    let made = app
        .ask(move |app| Made::new(status, &whole(&app.store, id)?))
        .await?;
    let place = [(header::LOCATION, format!("/conversations/{id}"))];
    Ok((place, made).into_response())
}

/// A part of a list.
#[derive(Debug, Serialize, ToSchema)]
struct List {
    conversations: Vec<Whole>,
    /// Number of matches, independent of limit and offset.
    total: usize,
    limit: usize,
    offset: usize,
    /// The `offset` of the next page. Missing on the last one. A page may end before its limit, with
    /// the conversation at which it reaches 8 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<usize>,
}

/// Lists conversations.
#[utoipa::path(
    get,
    path = "/conversations",
    params(ConversationQuery),
    responses((status = 200, description = "A page of conversations", body = List))
)]
pub(super) async fn list(
    State(app): State<Shared>,
    Query(query): Query<ConversationQuery>,
) -> Answer {
    app.page(move |app, bytes_max| {
        let (list, is_more) = app.store.conversations_within(&query, bytes_max)?;
        let ConversationList { items, total } = list;
        let next = query.offset.saturating_add(items.len());
        let is_cut = is_more && items.len() < query.limit;
        let made = Made::ok(&List {
            next: is_more.then_some(next),
            conversations: items.into_iter().map(Whole::of).collect(),
            total,
            limit: query.limit,
            offset: query.offset,
        })?;
        Ok((made, IsCut(is_cut)))
    })
    .await
}

/// A conversation with its messages.
#[derive(ToSchema)]
#[allow(dead_code)] // Only a description: the answer is composed without it.
struct WithMessages {
    #[schema(inline)]
    #[serde(flatten)]
    whole: WithNext,
    /// Its messages from the first on, up to 1,000, or up to the one at which they reach 8 MiB.
    messages: Vec<ConversationMessage>,
}

/// A conversation, and the start of further messages.
#[derive(Serialize, ToSchema)]
struct WithNext {
    #[serde(flatten)]
    whole: Whole,
    /// If there are more messages: `after` of `/conversations/{id}/messages` for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Reads a conversation with its messages.
#[utoipa::path(
    get,
    path = "/conversations/{id}",
    params(("id" = Uuid, Path)),
    responses((status = 200, description = "The conversation with its messages", body = WithMessages), NotFound)
)]
pub(super) async fn get(State(app): State<Shared>, Id(id): Id<Uuid>) -> Answer {
    app.page(move |app, bytes_max| {
        let whole = whole(&app.store, id)?;
        let query = MessageQuery {
            limit: PAGE_LIMIT_MAX,
            ..MessageQuery::default()
        };
        let page = app.store.messages_as_json(Some(id), &query, bytes_max)?;
        let is_cut = IsCut::of(&page, query.limit);
        let Paged { items, next } = page.into();
        // The messages are already JSON.
        let made = Made::with_items(&WithNext { whole, next }, "messages", items)?;
        Ok((made, is_cut))
    })
    .await
}

/// Changes of a conversation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    status: Option<ConversationStatus>,
    /// The last error.
    last_error: Option<String>,
    #[schema(max_length = 1024)]
    project: Option<String>,
    #[schema(max_length = 1024)]
    title: Option<String>,
}

/// Changes a conversation's status, last error, project or title.
#[utoipa::path(
    patch,
    path = "/conversations/{id}",
    params(("id" = Uuid, Path)),
    request_body = Change,
    responses(
        (status = 200, description = "The conversation after the change", body = Whole),
        NotFound,
        (status = 422, description = "A field is invalid"),
    )
)]
pub(super) async fn change(
    State(app): State<Shared>,
    Id(id): Id<Uuid>,
    Json(change): Json<Change>,
) -> Answer {
    app.work(move |app| {
        whole(&app.store, id)?;
        app.store.update_conversation(id, |old| {
            old.status = change.status.unwrap_or(old.status);
            old.last_error = change.last_error.or(old.last_error.take());
            old.project = change.project.or(old.project.take());
            old.title = change.title.or(old.title.take());
        })?;
        Made::ok(&whole(&app.store, id)?)
    })
    .await
}

/// Erases a conversation with its messages and related records from every file.
#[utoipa::path(
    delete,
    path = "/conversations/{id}",
    params(("id" = Uuid, Path)),
    responses((status = 200, description = "Erased from every file", body = Erased), NotFound)
)]
pub(super) async fn erase(State(app): State<Shared>, Id(id): Id<Uuid>) -> Answer {
    app.work(move |app| {
        let is_known = app.store.get_conversation(id)?.is_some();
        let options = EraseOptions::default();
        // A conversation that was removed before may have left records.
        let erased = app.store.erase(&Erasure::Conversation(id), options)?;
        if !is_known && erased.parts.is_empty() {
            return Err(Problem::unknown("conversation", id));
        }
        Made::ok(&erased)
    })
    .await
}
