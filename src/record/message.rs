//! The messages of a conversation and a gateway's metadata about them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::GIVEN_NUMBER_MAX;
use super::declare::record;
use super::timestamp::Timestamp;
use super::words::words;
use crate::error::{Error, Result};

/// The prefix of the content of a message that reports an error.
pub(crate) const ERROR_PREFIX: &str = "Error: ";

words! {
    /// The role of the author of a message.
    Role("role") {
        /// The system prompt.
        System = "system",
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// A tool.
        Tool = "tool",
    }
    or {
        // OpenAI's name for the system prompt of newer models.
        "developer" => System,
    }
}

words! {
    /// The source of a message.
    Source("source") {
        /// The user, or a program acting as the user.
        User = "user",
        /// A model.
        Model = "model",
        /// The gateway or the harness.
        System = "system",
        /// A tool.
        Tool = "tool",
    }
}

impl Source {
    /// The usual source of a message with this role.
    pub fn of(role: Role) -> Source {
        match role {
            Role::System => Source::System,
            Role::User => Source::User,
            Role::Assistant => Source::Model,
            Role::Tool => Source::Tool,
        }
    }
}

words! {
    /// The format of a message's content.
    #[derive(Default)]
    ContentType("content_type") {
        /// Plain text.
        #[default]
        Text = "text",
        /// Source code.
        Code = "code",
        /// Markdown.
        Markdown = "markdown",
        /// JSON.
        Json = "json",
    }
}

record! {
    /// A message of a conversation. Key: `id`; `sequence` is unique within the conversation.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Cli);
    /// let question = ConversationMessage::new(conversation.id, Role::User, "What is 1 + 1?");
    /// let answer = ConversationMessage::new(conversation.id, Role::Assistant, "2")
    ///     .model_used("small-1")
    ///     .tokens_in(12)
    ///     .tokens_out(1);
    /// for answer in store.record_batch([conversation.clone().into(), question.into(), answer.into()])? {
    ///     answer?;
    /// }
    /// let (_, stats) = store.get_conversation(conversation.id)?.unwrap();
    /// assert_eq!((stats.message_count, stats.total_tokens_in), (2, 12));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    pub non_exhaustive struct ConversationMessage {
        /// Unique id.
        [uuid, key] id: Uuid = "a new UUID",
        /// The conversation, which must be in the log.
        [uuid, lookup] conversation_id: Uuid,
        /// Position in the conversation, from 0. If absent: one more than the greatest, or 1 in a
        /// conversation without messages. Always present in reads.
        [sequence, lookup] sequence: Option<i64>,
        /// Time of the message.
        [own_instant] timestamp: Timestamp,
        /// The role of the author.
        [word] role: Role,
        /// The source of the message.
        [word] source: Source = "the one of its role",
        /// The format of the content.
        [word, default] content_type: ContentType = "`json` if the content is an array of blocks, otherwise `text`",
        /// The model that answered.
        [name] model_used: Option<String>,
        /// The gateway configuration used for the answer.
        [name] config_used: Option<String>,
        /// The orchestration mode, such as `cascade`.
        [name] orchestration_mode: Option<String>,
        /// The task type. Default for an answer or an error: that of the last message in the role
        /// `user` before it.
        [name] task_type: Option<String>,
        /// The branch of the repository in which the agent worked.
        [name] git_branch: Option<String>,
        /// Prompt tokens, including cached ones.
        [count] tokens_in: Option<i64>,
        /// Answer tokens, including reasoning.
        [count] tokens_out: Option<i64>,
        /// The part of `tokens_in` written to the provider's cache.
        [count] tokens_cache_write: Option<i64>,
        /// The part of `tokens_cache_write` that the provider keeps for one hour. It keeps the rest for
        /// five minutes.
        [count] tokens_cache_write_1h: Option<i64>,
        /// The part of `tokens_in` read from the provider's cache.
        [count] tokens_cache_read: Option<i64>,
        /// The part of `tokens_out` used for reasoning.
        [count] tokens_reasoning: Option<i64>,
        /// Latency of the answer, in milliseconds.
        [count] latency_ms: Option<i64>,
        /// Used fraction of the context window, from 0 to 1.
        [fraction] context_utilization: Option<f64>,
        /// Cost of the answer, in US dollars.
        [amount] cost_usd: Option<f64>,
        /// Number of handoffs between models.
        [count] handoff_steps: Option<i64>,
        /// Whether the context was compressed before the request.
        [flag] compression_applied: Option<bool>,
        /// The error class, such as `timeout`. Without an `error`: that of a failed tool result,
        /// which is no error of the conversation.
        [name] error_type: Option<String>,
        /// The error message. Sets the conversation's `last_error`, and its status to `error`,
        /// until an answer without an error follows.
        [content] error: Option<String>,
        /// The tool of the call or the result.
        [name] tool_name: Option<String>,
        /// The provider's id of the call that is made or answered; of several calls, that of the
        /// first.
        [name] tool_call_id: Option<String>,
        /// The models that took part, in order.
        [names] models_in_chain: Option<Vec<String>>,
        /// In a further part of an answer: the message that represents the request. A part does not
        /// count as a request; its tokens are added to those of the request.
        [uuid] part_of: Option<Uuid>,
        /// The text, stored byte for byte, without the model's reasoning.
        [said] content: String,
        /// The model's reasoning, as far as the provider shows it.
        [content] reasoning: Option<String>,
        /// The tool's arguments, stored byte for byte.
        [arguments] tool_args: Option<String>,
        /// The tool's output.
        [output] tool_result: Option<String>,
        /// Metadata of the gateway or provider about the answer, such as an [`InferenceMetadata`]
        /// or a usage object, stored in full. Fields that the message does not set are filled in
        /// from an [`InferenceMetadata`].
        [metadata] inference_metadata: Option<String>,
    }
}

impl ConversationMessage {
    /// A message with the current time and a new id. It takes the next position in its
    /// conversation.
    pub fn new(conversation_id: Uuid, role: Role, content: impl Into<String>) -> Self {
        ConversationMessage {
            id: Uuid::new_v4(),
            conversation_id,
            sequence: None,
            timestamp: Timestamp::now(),
            role,
            source: Source::of(role),
            content_type: ContentType::Text,
            model_used: None,
            config_used: None,
            orchestration_mode: None,
            task_type: None,
            git_branch: None,
            tokens_in: None,
            tokens_out: None,
            tokens_cache_write: None,
            tokens_cache_write_1h: None,
            tokens_cache_read: None,
            tokens_reasoning: None,
            latency_ms: None,
            context_utilization: None,
            cost_usd: None,
            handoff_steps: None,
            compression_applied: None,
            error_type: None,
            error: None,
            tool_name: None,
            tool_call_id: None,
            models_in_chain: None,
            part_of: None,
            content: content.into(),
            reasoning: None,
            tool_args: None,
            tool_result: None,
            inference_metadata: None,
        }
    }

    /// Whether it has an `error` or an `error_type`. The result of a failed tool call has only the
    /// type.
    ///
    /// ```
    /// use decklog::{ConversationMessage, Role, uuid::Uuid};
    ///
    /// let mut result = ConversationMessage::new(Uuid::nil(), Role::Tool, "no such file");
    /// assert!(!result.is_failure());
    /// result.error_type = Some("tool_error".to_owned());
    /// assert!(result.is_failure());
    /// ```
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.error.is_some() || self.error_type.is_some()
    }

    /// Whether it is an answer to a request, or an error in place of one.
    pub(crate) fn is_answer(&self) -> bool {
        self.role == Role::Assistant || self.role != Role::User && self.error.is_some()
    }

    /// Stores the complete metadata, and fills the fields that it describes. Fields that are
    /// already set are not changed. The answering model is the last one of the chain.
    #[must_use]
    pub fn with_metadata(mut self, metadata: &InferenceMetadata) -> Self {
        // Maps of texts and numbers can always be serialized as JSON.
        self.inference_metadata = serde_json::to_string(metadata).ok();
        self.fill(metadata);
        self
    }

    /// Fills fields from the metadata, if it is an [`InferenceMetadata`].
    pub(crate) fn fill_from_metadata(&mut self) {
        if let Some(Ok(metadata)) = self.metadata() {
            self.fill(&metadata);
        }
    }

    /// Whether the metadata filled no field, because one of its members has the wrong type.
    pub(crate) fn has_unread_metadata(&self) -> bool {
        // Metadata that was read usually filled one of these.
        let is_filled = self.config_used.is_some() || self.latency_ms.is_some();
        !is_filled && matches!(self.metadata(), Some(Err(_)))
    }

    /// The metadata, if it contains one of the known names.
    fn metadata(&self) -> Option<serde_json::Result<InferenceMetadata>> {
        // A provider's own metadata is usually longer and has none of these names.
        static NAMES: LazyLock<[Finder<'_>; 8]> = LazyLock::new(|| {
            [
                "config\"",
                "_mode\"",
                "models_used",
                "handoff_",
                "compression_",
                "context_util",
                "total_latency_ms",
                "tokens_by_model",
            ]
            .map(Finder::new)
        });
        let has_name = |text: &&str| NAMES.iter().any(|it| it.find(text.as_bytes()).is_some());
        let metadata = self.inference_metadata.as_deref().filter(has_name);
        metadata.map(serde_json::from_str)
    }

    fn fill(&mut self, metadata: &InferenceMetadata) {
        fn set<T>(field: &mut Option<T>, value: Option<T>) {
            *field = field.take().or(value);
        }
        let sum = |of: fn(&TokenCount) -> i64| {
            let counts = metadata.tokens_by_model.values().map(of);
            let any = !metadata.tokens_by_model.is_empty();
            any.then(|| counts.fold(0, i64::saturating_add))
        };
        let chain = &metadata.models_used;
        set(&mut self.config_used, metadata.config.clone());
        let mode = metadata.orchestration_mode.clone();
        set(&mut self.orchestration_mode, mode);
        set(&mut self.model_used, chain.last().cloned());
        let chain = (!chain.is_empty()).then(|| chain.clone());
        set(&mut self.models_in_chain, chain);
        set(&mut self.handoff_steps, metadata.handoff_steps);
        set(&mut self.compression_applied, metadata.compression_applied);
        set(&mut self.context_utilization, metadata.context_utilization);
        set(&mut self.latency_ms, metadata.total_latency_ms);
        set(&mut self.tokens_in, sum(|count| count.tokens_in));
        set(&mut self.tokens_out, sum(|count| count.tokens_out));
    }

    /// Checks that the parts of a sum do not exceed it.
    fn check_split(&self) -> Result<()> {
        let number = |part: Option<i64>| part.unwrap_or(0);
        let cached = number(self.tokens_cache_write).checked_add(number(self.tokens_cache_read));
        let (tokens_in, tokens_out) = (number(self.tokens_in), number(self.tokens_out));
        if cached.is_none_or(|cached| cached > tokens_in) {
            let [write, read] = [self.tokens_cache_write, self.tokens_cache_read].map(number);
            return Err(Error::invalid(format!(
                "tokens_in is {tokens_in}, less than tokens_cache_write {write} and tokens_cache_read {read}: tokens_in includes both"
            ))
            .with_field("tokens_in"));
        }
        let [write, hour] = [self.tokens_cache_write, self.tokens_cache_write_1h].map(number);
        if hour > write {
            return Err(Error::invalid(format!(
                "tokens_cache_write is {write}, less than tokens_cache_write_1h {hour}: tokens_cache_write includes it"
            ))
            .with_field("tokens_cache_write"));
        }
        if number(self.tokens_reasoning) > tokens_out {
            let reasoning = number(self.tokens_reasoning);
            return Err(Error::invalid(format!(
                "tokens_out is {tokens_out}, less than tokens_reasoning {reasoning}: tokens_out includes it"
            ))
            .with_field("tokens_out"));
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<()> {
        self.check_split()?;
        if self.part_of == Some(self.id) {
            let message = "part_of is the message itself: leave it out";
            return Err(Error::invalid(message).with_field("part_of"));
        }
        if self.sequence == Some(i64::MAX) {
            let message = format!(
                "sequence is {}: give one from 0 to {GIVEN_NUMBER_MAX}, or none, to get the next one",
                i64::MAX
            );
            return Err(Error::invalid(message).with_field("sequence"));
        }
        Ok(())
    }
}

/// A gateway's metadata about how an answer was produced.
///
/// ```
/// use decklog::{ConversationMessage, InferenceMetadata, Role};
/// let metadata: InferenceMetadata = serde_json::from_str(r#"{
///     "config": "fast", "orchestration_mode": "cascade", "models_used": ["small-1", "big-2"],
///     "handoff_steps": 1, "total_latency_ms": 850, "model_latencies": {"small-1": 50, "big-2": 800},
///     "tokens_by_model": {"small-1": {"in": 10, "out": 2}, "big-2": {"in": 30, "out": 8}}
/// }"#).unwrap();
/// let answer = ConversationMessage::new(uuid::Uuid::new_v4(), Role::Assistant, "2").with_metadata(&metadata);
/// assert_eq!((answer.tokens_in, answer.tokens_out, answer.latency_ms), (Some(40), Some(10), Some(850)));
/// assert_eq!(answer.model_used.as_deref(), Some("big-2"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InferenceMetadata {
    /// The gateway's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The orchestration mode, such as `cascade`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration_mode: Option<String>,
    /// The models that took part, in order. The last one answered. They become `models_in_chain` of
    /// the message, and the last one its `model_used`.
    #[serde(deserialize_with = "null_is_empty")]
    pub models_used: Vec<String>,
    /// Number of handoffs between models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff_steps: Option<i64>,
    /// Whether the context was compressed before the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression_applied: Option<bool>,
    /// The used fraction of the context window, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_utilization: Option<f64>,
    /// Total latency in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_latency_ms: Option<i64>,
    /// Latency of each model in milliseconds.
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub model_latencies: BTreeMap<String, i64>,
    /// Tokens by model.
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub tokens_by_model: BTreeMap<String, TokenCount>,
    /// All other members, unchanged.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// For serde: many gateways write null for an empty list.
fn null_is_empty<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Token counts of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenCount {
    /// Prompt tokens, including cached ones.
    #[serde(rename = "in")]
    pub tokens_in: i64,
    /// Answer tokens.
    #[serde(rename = "out")]
    pub tokens_out: i64,
}
