//! What reports say: plain values, the same as JSON in every face.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::query::Scope;
use crate::record::{Day, Timestamp};

/// What a row is of: the bucket, and what its messages have in common. A name is left out where
/// the report does not tell it apart, or where the messages have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct RowKey {
    /// The first day of the bucket, or the Monday of a week of which only later days are asked
    /// for; left out where all days are added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>, format = Date))]
    pub bucket: Option<Day>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_used: Option<String>,
    /// The gateway's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_used: Option<String>,
    /// How models were put together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration_mode: Option<String>,
    /// The sort of task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
}

/// How long answers took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct LatencyMs {
    /// How many answers say how long they took.
    pub count: u64,
    /// On average; left out if none says it, as are the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
    /// Half of them took no longer, within 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 95 % of them took no longer, within 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// 99 % of them took no longer, within 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

/// How many messages and tokens there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct UsageSums {
    /// Messages in any role.
    pub messages: u64,
    /// Requests: messages in the role `assistant` that are no further part of another one's
    /// answer, and messages in other roles that have an error.
    pub requests: u64,
    /// Tokens of prompts, of messages in any role.
    pub tokens_in: u64,
    /// Tokens of answers, of messages in any role.
    pub tokens_out: u64,
    /// How many of `tokens_in` were neither written to a cache nor read from one.
    pub tokens_input: u64,
    /// How many of `tokens_in` were written to a cache.
    pub tokens_cache_write: u64,
    /// How many of `tokens_in` were read from a cache.
    pub tokens_cache_read: u64,
    /// How many of `tokens_out` models reasoned with.
    pub tokens_reasoning: u64,
}

/// What `turn.completed` events say of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct TurnSums {
    /// How many turns were completed.
    pub turns: u64,
    /// The sum of their `input_tokens`.
    pub tokens_in: u64,
    /// The sum of their `output_tokens`.
    pub tokens_out: u64,
}

impl TurnSums {
    pub(super) fn add_tokens(&mut self, tokens_in: u64, tokens_out: u64) {
        self.tokens_in = self.tokens_in.saturating_add(tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(tokens_out);
    }
}

/// The turns of a bucket and model.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct TurnRow {
    /// The bucket, and the `model_name` of the events as `model_used`.
    #[serde(flatten)]
    pub of: RowKey,
    /// What they add up to.
    #[serde(flatten)]
    pub sums: TurnSums,
}

/// The sums of the requests of a model and configuration. Latencies, tokens and context are of
/// messages in the role `assistant` alone. A group that has only further parts of answers, to
/// requests of another group or day, has a row as well.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ModelSums {
    /// Requests: messages in the role `assistant` that are no further part of another one's
    /// answer, and messages in other roles that have an error.
    pub requests: u64,
    /// How long they took.
    pub latency_ms: LatencyMs,
    /// Tokens of their prompts.
    pub tokens_in: u64,
    /// Tokens of their answers.
    pub tokens_out: u64,
    /// How much of the context window was used on average, from 0 to 1; left out if none says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_utilization_avg: Option<f64>,
    /// Messages in any role that have an error.
    pub errors: u64,
    /// Which part of the requests failed, from 0 to 1; left out if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
}

/// How many errors there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ErrorSums {
    /// Messages in any role that have an error.
    pub errors: u64,
    /// Requests: messages in the role `assistant` that are no further part of another one's
    /// answer, and messages in other roles that have an error.
    pub requests: u64,
    /// How many of them failed.
    pub failed_requests: u64,
    /// Which part of the requests failed, from 0 to 1; left out if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
}

/// How many errors of one type there were.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ErrorCount {
    /// The class of the error; left out for errors of none, and for those past the first 1000
    /// types of a group and day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// Messages in any role that have such an error.
    pub errors: u64,
}

/// A message with an error, as it stands in the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ErrorSample {
    /// The message's id.
    pub id: Uuid,
    /// Its conversation's.
    pub conversation_id: Uuid,
    /// When it was sent, RFC 3339.
    #[cfg_attr(feature = "wire", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// The model that was to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_used: Option<String>,
    /// The class of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// What failed; of a text of more than 4 KiB its first 4 KiB and `…`, the message has the rest.
    pub error: String,
}

/// How many requests were of some sort.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct TaskSums {
    /// Requests: messages in the role `assistant` that are no further part of another one's
    /// answer, and messages in other roles that have an error.
    pub requests: u64,
    /// Which part of the bucket's requests these are, from 0 to 1; left out if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// How full the context window was. Messages in the role `assistant` alone count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ContextSums {
    /// How many answers say it.
    pub count: u64,
    /// How much of it was used on average, from 0 to 1; left out if none says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
}

/// How often the context was compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CompressionSums {
    /// Messages in the role `assistant` that are no further part of another one's answer.
    pub requests: u64,
    /// Answers whose context was compressed first, further parts included.
    pub compressed: u64,
    /// Which part of the requests these are, from 0 to 1; left out if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// How many answers took how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct LatencySums {
    /// Requests: messages in the role `assistant` that are no further part of another one's
    /// answer, and messages in other roles that have an error.
    pub requests: u64,
    /// How long they took.
    pub latency_ms: LatencyMs,
}

macro_rules! reports {
    (
        $($(#[$doc:meta])* $report:ident: $row:ident of $sums:ident, total $total:ident { $($more:tt)* })+
    ) => { $(
        /// A row of its report.
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
        pub struct $row {
            /// What it is of.
            #[serde(flatten)]
            pub of: RowKey,
            /// What that adds up to.
            #[serde(flatten)]
            pub sums: $sums,
        }

        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
        pub struct $report {
            /// What it was made of.
            pub scope: Scope,
            /// By bucket, the earliest first; then those with the most requests first, of errors
            /// those with the most errors.
            pub rows: Vec<$row>,
            /// How many rows there are, whatever the limit is.
            pub row_count: usize,
            /// What all rows add up to, those past the limit included.
            pub total: $total,
            $($more)*
        }
    )+ };
}

reports! {
    /// Messages and tokens.
    UsageReport: UsageRow of UsageSums, total UsageSums {
        /// The tokens that `turn.completed` events in the log name, by bucket and model. An agent
        /// that records messages as well names the same tokens there, so `rows` and `total` do not
        /// have these.
        pub turns: Vec<TurnRow>,
    }
    /// What requests came to, by model and configuration.
    ModelsReport: ModelRow of ModelSums, total ModelSums {}
    /// Errors by type, the most first; and the latest of them.
    ErrorsReport: ErrorRow of ErrorCount, total ErrorSums {
        /// The latest messages with an error that are in the log, the latest first; at most 20.
        pub samples: Vec<ErrorSample>,
    }
    /// How long answers took, by orchestration mode.
    LatencyReport: LatencyRow of LatencySums, total LatencySums {}
    /// Which sorts of tasks were asked for.
    TasksReport: TaskRow of TaskSums, total TaskSums {}
    /// How full context windows were, by model.
    ContextReport: ContextRow of ContextSums, total ContextSums {}
    /// How often contexts were compressed, by model.
    CompressionReport: CompressionRow of CompressionSums, total CompressionSums {}
}

/// How many conversations were held in a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ActiveRow {
    /// The first day of the bucket; left out where all days are added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>, format = Date))]
    pub bucket: Option<Day>,
    /// The conversations that have a message of its days, each once.
    pub conversations: u64,
}

/// How many conversations were held.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ActiveReport {
    /// What it was made of.
    pub scope: Scope,
    /// By bucket, the earliest first; those without any are left out.
    pub rows: Vec<ActiveRow>,
    /// How many rows there are, whatever the limit is.
    pub row_count: usize,
}

/// What a dashboard shows: of the current UTC day, or of the days asked for. As JSON, every member
/// is there: a rate or an average of nothing is null.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct DashboardMetrics {
    /// What it was made of. Not in JSON.
    #[serde(skip)]
    pub scope: Scope,
    /// Conversations that have a message of these days; `None` for several days of which one has
    /// a rollup that does not name its conversations.
    #[cfg_attr(feature = "wire", schema(required))]
    pub conversations_today: Option<u64>,
    /// Messages in any role.
    pub messages_today: u64,
    /// Tokens of prompts and answers, of messages in any role.
    pub tokens_today: u64,
    /// Tokens of prompts.
    pub tokens_in_today: u64,
    /// Tokens of answers.
    pub tokens_out_today: u64,
    /// Average latency of answers in milliseconds; `None` if no answer has a latency.
    #[cfg_attr(feature = "wire", schema(required))]
    pub avg_latency_ms: Option<f64>,
    /// 95th percentile of the latency in milliseconds, within 1 %.
    #[cfg_attr(feature = "wire", schema(required))]
    pub p95_latency_ms: Option<f64>,
    /// Failed requests divided by requests, from 0 to 1; `None` if there were no requests.
    #[cfg_attr(feature = "wire", schema(required))]
    pub error_rate: Option<f64>,
    /// Requests per model. Requests without a model are left out. At most the 100 models with the
    /// most requests; the same holds for the two below.
    pub by_model: BTreeMap<String, u64>,
    /// Requests per configuration.
    pub by_config: BTreeMap<String, u64>,
    /// Requests per task type.
    pub by_task_type: BTreeMap<String, u64>,
    /// Average part of the context window that was used, from 0 to 1; `None` if no answer has it.
    #[cfg_attr(feature = "wire", schema(required))]
    pub avg_context_utilization: Option<f64>,
    /// Answers with compressed context divided by answers, from 0 to 1; `None` if there were none.
    #[cfg_attr(feature = "wire", schema(required))]
    pub compression_rate: Option<f64>,
}
