//! `/conversations/{id}/messages`: added and read; and `/messages`, those of all conversations.

mod list;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Made, OneOrMore};
use super::params::{Id, IdempotencyKey, Query, Wait, set_as_path};
use super::problem::Problem;
use super::puts::{Answered, Each, Handed, Outcome, status_of};
use crate::collections::{IfKnown, Warning};
use crate::error::{Error, ErrorKind, Result};
use crate::line::Given;
use crate::record::{Client, Conversation};
use crate::wire::new::NewMessage;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    list::routes().routes(routes!(add))
}

type NewMessages = OneOrMore<NewMessage>;

/// What became of a message.
#[derive(Debug, Serialize, ToSchema)]
struct Added {
    #[schema(format = Uuid)]
    id: String,
    conversation_id: Uuid,
    /// Its place in the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<i64>,
    /// The number of the line that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    status: Outcome,
    /// What is probably a mistake in it, though it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    warning: Option<&'static str>,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

impl Added {
    fn new(id: String, conversation_id: Uuid, answered: Answered) -> Added {
        let status = Outcome::of(&answered);
        let (ack, problem) = match answered {
            Some(Ok(ack)) => (Some(ack), None),
            Some(Err(problem)) => (None, Some(problem)),
            None => (None, None),
        };
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

/// How messages are added.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AddParams {
    /// Default: as the server was started, as a rule once the operating system has the record. `disk`: once it is on disk. `none`: at once, with 202; the record waits in a queue. `GET /capture/rejected` lists records that the log rejected later. It is lost if the server fails, or its disk fills up, before it is written.
    wait: Option<Wait>,
    /// Make the conversation if there is none with this id. Default: false.
    #[serde(default)]
    create: bool,
    /// The `client` of a conversation that is made. Default: api.
    client: Option<Client>,
}

/// Adds a message, or several in one array.
///
/// Sent again with the same ids or the same `Idempotency-Key`, they are added once. Of an array,
/// each is taken or rejected by itself; a message that cannot be one rejects the request.
#[utoipa::path(
    post,
    path = "/conversations/{id}/messages",
    tag = "conversations",
    params(
        ("id" = Uuid, Path),
        AddParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe, as ids do", min_length = 1, max_length = 1024, pattern = "^[!-~]+$"),
    ),
    request_body = NewMessages,
    responses(
        (status = 201, description = "Added", body = AddedAnswer),
        (status = 200, description = "Unchanged: the log has them already", body = AddedAnswer),
        (status = 202, description = "Queued", body = AddedAnswer),
        (status = 207, description = "Some were rejected: see each result", body = AddedAnswer),
        (status = 404, description = "The conversation is not found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Another message has the id or the sequence", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "More than 16 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is invalid", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "The queue is full: try again after Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn add(
    State(app): State<Shared>,
    Id(conversation): Id<Uuid>,
    Query(params): Query<AddParams>,
    key: IdempotencyKey,
    body: NewMessages,
) -> Result<Made, Problem> {
    let handed = Handed::given(body, None, |given, nth| {
        of_path(given, conversation, &key, nth)
    })?;
    begin(&app, conversation, &params).await?;
    let ids = handed.keys();
    let is_array = handed.is_array();
    let rejected = |error: &Error| rejected(error, conversation);
    let answered = handed.put(&app, params.wait, rejected).await?;
    let status = status_of(&answered);
    let added = ids.into_iter().zip(answered);
    let added = added.map(|(id, answered)| Added::new(id, conversation, answered));
    let results: Vec<Added> = added.collect();
    Made::new(status, &Each::new(results, is_array))
}

/// Sets what the request says of its `nth` message beside the body.
pub(super) fn of_path(
    given: &mut Given<'static>,
    conversation: Uuid,
    key: &IdempotencyKey,
    nth: usize,
) -> Result<(), Problem> {
    set_as_path(given, "conversation_id", &conversation)?;
    if let Some(id) = key.id(conversation, nth) {
        given.fill_text("id", || id.to_string());
    }
    Ok(())
}

/// Makes the conversation if that is asked for. Without waiting, a message of no conversation would
/// be answered with 202 and be rejected later.
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
    // Another request may make it meanwhile.
    Handed::made(new, IfKnown::Skip)
        .put(app, None, |e| e.into())
        .await
        .map(|_| ())
}

fn no_conversation(id: Uuid) -> Problem {
    let detail = format!(
        "there is no conversation {id}: POST /conversations makes one, and so does ?create=true"
    );
    Problem::not_found(detail).with_field("id")
}

/// Why the log did not take a message.
fn rejected(error: &Error, conversation: Uuid) -> Problem {
    match error.kind() {
        ErrorKind::NotFound => no_conversation(conversation),
        _ => Problem::from(error),
    }
}
