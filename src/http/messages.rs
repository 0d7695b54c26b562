//! `/conversations/{id}/messages`: added and read.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Made, OneOrMore};
use super::pages::IsCut;
use super::params::{Id, IdempotencyKey, Limit, Query, WaitParams, number};
use super::problem::Problem;
use super::puts::{Answered, Each, Handed, Outcome, status_of};
use crate::collections::{IfKnown, MessageQuery, Order, Warning};
use crate::error::{Error, ErrorKind, Result};
use crate::face::fields::{AnyInt, Int, Length};
use crate::face::pages::{After, Paged};
use crate::record::{
    ContentType, ConversationMessage, GIVEN_NUMBER_MAX, Role, Source, Timestamp, payload_text,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(add, list))
}

/// A place in a conversation, which leaves one after it.
type Sequence = Int<0, GIVEN_NUMBER_MAX>;

/// A message to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewMessage {
    /// Its id: sent again with the same one, it is added once. Default: a new one.
    id: Option<Uuid>,
    /// Its place in the conversation. Default: the one after the greatest.
    sequence: Option<Sequence>,
    /// When it was sent. Default: now.
    timestamp: Option<Timestamp>,
    /// In which role it speaks.
    role: Role,
    /// What it comes from. Default: as its role has it.
    source: Option<Source>,
    /// The text, without what the model thought before it answered.
    content: String,
    /// What the model thought before it answered.
    reasoning: Option<String>,
    /// Default: text.
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

impl NewMessage {
    /// The message, as the `nth` of a request.
    fn into_message(
        self,
        conversation_id: Uuid,
        key: &IdempotencyKey,
        nth: usize,
    ) -> (ConversationMessage, IfKnown) {
        let if_known = if self.timestamp.is_some() {
            IfKnown::Judged
        } else {
            IfKnown::SameButTime
        };
        let id = self.id.or_else(|| key.id(conversation_id, nth));
        let message = ConversationMessage {
            id: id.unwrap_or_else(Uuid::new_v4),
            conversation_id,
            sequence: self.sequence.map(|it| it.0),
            timestamp: self.timestamp.unwrap_or_else(Timestamp::now),
            role: self.role,
            source: self.source.unwrap_or_else(|| Source::of(self.role)),
            content: self.content,
            reasoning: self.reasoning,
            content_type: self.content_type.unwrap_or_default(),
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
        WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe, in place of ids", min_length = 1, max_length = 1024, pattern = "^[!-~]+$"),
    ),
    request_body = NewMessages,
    responses(
        (status = 201, description = "Added", body = AddedAnswer),
        (status = 200, description = "All of it was in the log", body = AddedAnswer),
        (status = 202, description = "Queued", body = AddedAnswer),
        (status = 207, description = "Some were rejected: each result says", body = AddedAnswer),
        (status = 404, description = "There is no such conversation", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The id or the sequence is another message's", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "More than 16 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field does not fit", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "The queue is full: try again after Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn add(
    State(app): State<Shared>,
    Id(conversation): Id<Uuid>,
    Query(params): Query<WaitParams>,
    key: IdempotencyKey,
    body: NewMessages,
) -> Result<Made, Problem> {
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

/// Why the log did not take a message.
fn rejected(error: &Error, conversation: Uuid) -> Problem {
    match error.kind() {
        // A message has no other life than its conversation's.
        ErrorKind::Lifecycle => {
            let detail = format!("there is no conversation {conversation}: begin it first");
            Problem::not_found(detail).with_field("id")
        }
        _ => Problem::from(error),
    }
}

/// Which messages to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListParams {
    /// Only those with this sequence or a later one.
    #[serde(default, deserialize_with = "number")]
    from: Option<AnyInt>,
    /// Only those with an earlier sequence.
    #[serde(default, deserialize_with = "number")]
    until: Option<AnyInt>,
    /// By sequence. Default: asc.
    order: Option<Order>,
    /// Maximum number of messages. Default: 100.
    #[serde(default)]
    #[param(value_type = Option<u32>, maximum = 1000)]
    limit: Limit,
    /// What an earlier page has as `next`.
    after: Option<After>,
}

/// Lists the messages of a conversation, page by page.
#[utoipa::path(
    get,
    path = "/conversations/{id}/messages",
    tag = "conversations",
    params(("id" = Uuid, Path), ListParams),
    responses(
        (status = 200, description = "A page", body = Messages),
        (status = 404, description = "There is no such conversation", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn list(
    State(app): State<Shared>,
    Id(id): Id<Uuid>,
    Query(params): Query<ListParams>,
) -> Result<Made, Problem> {
    let query = MessageQuery {
        from: params.from.map(|from| from.0),
        until: params.until.map(|until| until.0),
        order: params.order.unwrap_or(Order::OldestFirst),
        limit: params.limit.0,
        after: params.after.map(|after| after.0),
    };
    app.page(move |app, bytes_max| {
        let page = app.store.messages_as_json(id, &query, bytes_max)?;
        let is_cut = IsCut::of(&page, query.limit);
        let Paged { items, next } = page.into();
        if items.is_empty() && app.store.get_conversation(id)?.is_none() {
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
