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
use super::params::{Id, IdempotencyKey, Query, Wait, same_as_path};
use super::problem::Problem;
use super::puts::{Answered, Each, Handed, Outcome, status_of};
use crate::collections::{IfKnown, Warning};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{
    Client, Content, ContentType, Conversation, ConversationMessage, GIVEN_NUMBER_MAX, Role,
    Source, Timestamp, payload_text,
};
use crate::wire::fields::{Int, Length};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    list::routes().routes(routes!(add))
}

/// A place in a conversation, which leaves one after it.
type Sequence = Int<0, GIVEN_NUMBER_MAX>;

/// A message to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMessage {
    /// Its id: sent again with the same one, it is added once. Default: a new one.
    id: Option<Uuid>,
    /// The conversation's id, as in the path. Default: that of the path.
    conversation_id: Option<Uuid>,
    /// Its place in the conversation. Default: the one after the greatest.
    sequence: Option<Sequence>,
    /// When it was sent. Default: now.
    timestamp: Option<Timestamp>,
    /// In which role it speaks.
    role: Role,
    /// What it comes from. Default: as its role has it.
    source: Option<Source>,
    /// The text, or an array of blocks, without what the model thought before it answered. The
    /// texts of `{"type": "text", "text": …}` are joined by an empty line; an array with other
    /// blocks is kept as JSON.
    #[schema(value_type = TextOrBlocks)]
    content: Content,
    /// What the model thought before it answered.
    reasoning: Option<String>,
    /// Default: `json` for an array of blocks that is kept, else `text`.
    content_type: Option<ContentType>,
    /// The tool that was called, or that answers.
    #[schema(max_length = 1024)]
    tool_name: Option<String>,
    /// The id of the call that it makes or answers, as the provider has it.
    #[schema(max_length = 1024)]
    tool_call_id: Option<String>,
    /// The tool's arguments: an object or array, kept to the byte, or a string.
    #[serde(default, with = "payload_text")]
    #[schema(value_type = Option<serde_json::Value>)]
    tool_args: Option<String>,
    /// What the tool returned.
    tool_result: Option<String>,
    /// The model that answered.
    #[schema(max_length = 1024)]
    model_used: Option<String>,
    /// The gateway's configuration that it was answered under.
    #[schema(max_length = 1024)]
    config_used: Option<String>,
    /// How models were put together to answer.
    #[schema(max_length = 1024)]
    orchestration_mode: Option<String>,
    /// The models that took part, in order.
    models_in_chain: Option<Vec<String>>,
    /// The message that stands for the request, if this one is another part of the answer to it:
    /// such a part is no request of its own.
    part_of: Option<Uuid>,
    /// Tokens of the prompt, cached ones included.
    tokens_in: Option<Length>,
    /// Tokens of the answer, the model's reasoning included.
    tokens_out: Option<Length>,
    /// How many of `tokens_in` were written to the provider's cache.
    tokens_cache_write: Option<Length>,
    /// How many of `tokens_in` were read from the provider's cache.
    tokens_cache_read: Option<Length>,
    /// How many of `tokens_out` the model reasoned with.
    tokens_reasoning: Option<Length>,
    /// How long the answer took, in milliseconds.
    latency_ms: Option<Length>,
    /// How much of the context window was used.
    #[schema(minimum = 0, maximum = 1)]
    context_utilization: Option<f64>,
    /// The sort of task that was asked for.
    #[schema(max_length = 1024)]
    task_type: Option<String>,
    /// How often one model handed over to another.
    handoff_steps: Option<Length>,
    /// Whether the context was compressed first.
    compression_applied: Option<bool>,
    /// What failed. It becomes the conversation's `last_error`, and its status `error`, until an
    /// answer without an error follows.
    error: Option<String>,
    /// The class of the error, such as `timeout`; without an `error` it counts for nothing.
    #[schema(max_length = 1024)]
    error_type: Option<String>,
    /// What the gateway or provider says of the answer, kept whole.
    #[serde(default, with = "payload_text")]
    #[schema(value_type = Option<serde_json::Value>)]
    inference_metadata: Option<String>,
}

type NewMessages = OneOrMore<NewMessage>;

/// How [`Content`] is described.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum TextOrBlocks {
    Text(String),
    Blocks(Vec<Block>),
}

/// A block of content.
#[derive(ToSchema)]
#[allow(dead_code)]
struct Block {
    /// `text`, or another type, which is kept as it is.
    r#type: String,
    /// The text of a block of the type `text`.
    text: Option<String>,
}

impl NewMessage {
    /// Checks that it is of the conversation that the path names.
    fn check_conversation(&self, of: Uuid, pointer: &str) -> Result<(), Problem> {
        same_as_path(
            "conversation_id",
            self.conversation_id.as_ref(),
            &of,
            pointer,
        )
    }

    /// The message, as the `nth` of a request.
    fn into_message(
        self,
        conversation_id: Uuid,
        key: &IdempotencyKey,
        nth: usize,
    ) -> (ConversationMessage, IfKnown) {
        let if_known = if self.timestamp.is_some() {
            IfKnown::Compare
        } else {
            IfKnown::CompareExceptTime
        };
        let id = self.id.or_else(|| key.id(conversation_id, nth));
        let message = ConversationMessage {
            id: id.unwrap_or_else(Uuid::new_v4),
            conversation_id,
            sequence: self.sequence.map(|it| it.0),
            timestamp: self.timestamp.unwrap_or_else(Timestamp::now),
            role: self.role,
            source: self.source.unwrap_or_else(|| Source::of(self.role)),
            content_type: self.content_type.unwrap_or(if self.content.is_json {
                ContentType::Json
            } else {
                ContentType::Text
            }),
            content: self.content.text,
            reasoning: self.reasoning.or(self.content.reasoning),
            tool_name: self.tool_name,
            tool_call_id: self.tool_call_id,
            tool_args: self.tool_args,
            tool_result: self.tool_result,
            model_used: self.model_used,
            config_used: self.config_used,
            orchestration_mode: self.orchestration_mode,
            models_in_chain: self.models_in_chain,
            part_of: self.part_of,
            tokens_in: self.tokens_in.map(|it| it.0),
            tokens_out: self.tokens_out.map(|it| it.0),
            tokens_cache_write: self.tokens_cache_write.map(|it| it.0),
            tokens_cache_read: self.tokens_cache_read.map(|it| it.0),
            tokens_reasoning: self.tokens_reasoning.map(|it| it.0),
            latency_ms: self.latency_ms.map(|it| it.0),
            context_utilization: self.context_utilization,
            task_type: self.task_type,
            handoff_steps: self.handoff_steps.map(|it| it.0),
            compression_applied: self.compression_applied,
            error: self.error,
            error_type: self.error_type,
            inference_metadata: self.inference_metadata,
        };
        (message, if_known)
    }
}

/// What became of a message.
#[derive(Debug, Serialize, ToSchema)]
struct Added {
    id: Uuid,
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
    fn new(id: Uuid, conversation_id: Uuid, answered: Answered) -> Added {
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
    mut body: NewMessages,
) -> Result<Made, Problem> {
    body.try_each(|message, pointer| message.check_conversation(conversation, pointer))?;
    begin(&app, conversation, &params).await?;
    let mut ids = Vec::new();
    let handed = Handed::new(body, |new: NewMessage| {
        let (message, if_known) = new.into_message(conversation, &key, ids.len());
        ids.push(message.id);
        (message.into(), if_known)
    });
    let is_array = handed.is_array();
    let rejected = |error: &Error| rejected(error, conversation);
    let answered = handed.put(&app, params.wait, rejected).await?;
    let status = status_of(&answered);
    let added = ids.into_iter().zip(answered);
    let added = added.map(|(id, answered)| Added::new(id, conversation, answered));
    let results: Vec<Added> = added.collect();
    Made::new(status, &Each::new(results, is_array))
}

/// Messages that a new conversation brings, which stand at a JSON pointer; `None` if it has none.
pub(super) fn of_conversation(
    messages: Vec<NewMessage>,
    conversation: Uuid,
    key: &IdempotencyKey,
    pointer: &str,
) -> Result<Option<Handed>, Problem> {
    for (nth, message) in messages.iter().enumerate() {
        message.check_conversation(conversation, &format!("{pointer}/{nth}"))?;
    }
    let mut nth = 0..;
    let handed = (!messages.is_empty()).then(|| {
        Handed::new(OneOrMore::More(messages), |new| {
            let nth = nth.next().unwrap_or_default();
            let (message, if_known) = new.into_message(conversation, key, nth);
            (message.into(), if_known)
        })
    });
    Ok(handed.map(|handed| handed.within(pointer)))
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
    let handed = Handed::new(OneOrMore::One(new), |new| (new.into(), IfKnown::Skip));
    handed.put(app, None, |e| e.into()).await.map(|_| ())
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
        // A message has no other life than its conversation's.
        ErrorKind::Lifecycle => no_conversation(conversation),
        _ => Problem::from(error),
    }
}
