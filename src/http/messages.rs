//! `/conversations/{id}/messages`: added and read; and `/messages` of all conversations.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::app::Shared;
use super::body::{Answer, Made, OneOrMore};
use super::pages::IsCut;
use super::params::{Id, IdempotencyKey, Query, Wait, set_as_path};
use super::problem::Problem;
use super::puts::{Answered, Each, Handed, Outcome, parts};
use crate::collections::{IfKnown, MessageQuery, Warning};
use crate::error::{Error, ErrorKind, Result};
use crate::line::Given;
use crate::record::{Client, Conversation, ConversationMessage};
use crate::wire::new::NewMessage;
use crate::wire::pages::Paged;

type NewMessages = OneOrMore<NewMessage>;

/// The result of a message.
#[derive(Debug, Serialize, ToSchema)]
struct Added {
    #[schema(format = Uuid)]
    id: String,
    conversation_id: Uuid,
    /// Its position in the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<i64>,
    /// The sequence number of its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    status: Outcome,
    /// A probable mistake in the accepted record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    warning: Option<&'static str>,
    /// The reason of a rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

impl Added {
    fn new(id: String, conversation_id: Uuid, answered: Answered) -> Added {
        let status = Outcome::of(&answered);
        let (ack, problem) = parts(answered);
        Added {
            id,
            conversation_id,
            sequence: ack.and_then(|ack| ack.assigned),
            seq: ack.map(|ack| ack.seq),
            status,
            warning: ack.and_then(|ack| ack.warning).map(Warning::as_str),
            problem,
        }
    }
}

type AddedAnswer = Each<Added>;

/// Options for adding messages.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AddParams {
    /// Default: by the server's `--durability`, normally when the operating system has the record. `disk`: when it is on disk. `none`: at once, with 202; the record waits in a queue. `GET /capture/rejected` lists records that were rejected later. It is lost if the server fails, or its disk fills up, before it is written.
    wait: Option<Wait>,
    /// Create the conversation if it does not exist. Default: false.
    #[serde(default)]
    create: bool,
    /// The `client` of a created conversation. Default: api.
    client: Option<Client>,
}

/// Adds a message, or several in one array.
///
/// A retry with the same ids or the same `Idempotency-Key` adds nothing. In an array, each message
/// is accepted or rejected separately; an invalid one rejects the request.
#[utoipa::path(
    post,
    path = "/conversations/{id}/messages",
    params(
        ("id" = Uuid, Path),
        AddParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe, like ids", min_length = 1, max_length = 1024, pattern = "^[!-~]+$"),
    ),
    request_body = NewMessages,
    responses(
        (status = 201, description = "Added", body = AddedAnswer),
        (status = 200, description = "Unchanged: the log already has them", body = AddedAnswer),
        (status = 202, description = "Queued", body = AddedAnswer),
        (status = 207, description = "Some were rejected: see each result", body = AddedAnswer),
        (status = 404, description = "The conversation is not found"),
        (status = 409, description = "Another message has the id or the sequence"),
        (status = 413, description = "More than 16 MiB"),
        (status = 422, description = "A field is invalid"),
        (status = 429, description = "The queue is full: try again after Retry-After"),
    )
)]
pub(super) async fn add(
    State(app): State<Shared>,
    Id(conversation): Id<Uuid>,
    Query(params): Query<AddParams>,
    key: IdempotencyKey,
    body: NewMessages,
) -> Answer {
    let handed = Handed::given(body, None, |given, nth| {
        of_path(given, conversation, &key, nth)
    })?;
    begin(&app, conversation, &params).await?;
    let rejected = |error: Error| match error.kind() {
        ErrorKind::NotFound => no_conversation(conversation),
        _ => Problem::from(error),
    };
    let added = |id, answered| Added::new(id, conversation, answered);
    handed.answer(&app, params.wait, rejected, added).await
}

/// Sets the fields of the `nth` message that come from the path and headers.
pub(super) fn of_path(
    given: &mut Given<'static>,
    conversation: Uuid,
    key: &IdempotencyKey,
    nth: usize,
) -> Result<(), Problem> {
    set_as_path(given, "conversation_id", &conversation)?;
    key.fill_id(given, conversation, nth);
    Ok(())
}

/// Creates the conversation if requested. Checked before a 202, because a message without a
/// conversation would otherwise be rejected later.
async fn begin(app: &Shared, id: Uuid, params: &AddParams) -> Result<(), Problem> {
    if !params.create && params.wait != Some(Wait::None) {
        return Ok(());
    }
    let is_known = app
        .ask(move |app| Ok(app.store.has_conversation(id)?))
        .await?;
    if is_known {
        return Ok(());
    }
    if !params.create {
        return Err(no_conversation(id));
    }
    let new = Conversation::new(id, params.client.unwrap_or(Client::Api));
    // Another request may create it meanwhile.
    let created = Handed::made(new, IfKnown::Skip);
    created.put(app, None, Problem::from).await.map(drop)
}

fn no_conversation(id: Uuid) -> Problem {
    let detail = format!(
        "there is no conversation {id}: create it with POST /conversations or ?create=true"
    );
    Problem::not_found(detail).with_field("id")
}

/// Lists the messages of a conversation, page by page.
#[utoipa::path(
    get,
    path = "/conversations/{id}/messages",
    params(("id" = Uuid, Path), MessageQuery),
    responses(
        (status = 200, description = "A page", body = Messages),
        (status = 404, description = "The conversation is not found"),
    )
)]
pub(super) async fn list(
    State(app): State<Shared>,
    Id(id): Id<Uuid>,
    Query(query): Query<MessageQuery>,
) -> Answer {
    page(&app, Some(id), query).await
}

/// Lists the messages of all conversations, by time, page by page.
#[utoipa::path(
    get,
    path = "/messages",
    params(MessageQuery),
    responses((status = 200, description = "A page", body = Messages))
)]
pub(super) async fn list_all(
    State(app): State<Shared>,
    Query(query): Query<MessageQuery>,
) -> Answer {
    page(&app, None, query).await
}

async fn page(app: &Shared, of: Option<Uuid>, query: MessageQuery) -> Answer {
    app.page(move |app, bytes_max| {
        let page = app.store.messages_as_json(of, &query, bytes_max)?;
        let is_cut = IsCut::of(&page, query.limit);
        let Paged { items, next } = page.into();
        if let Some(id) = of.filter(|_| items.is_empty())
            && app.store.get_conversation(id)?.is_none()
        {
            return Err(Problem::unknown("conversation", id));
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
