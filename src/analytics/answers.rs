//! The values of reports, with the same JSON on every face.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::query::Scope;
use crate::record::{Day, Timestamp};

/// The group of a row: the bucket, and the names that its messages share. A name is left out if the
/// report does not group by it, or if the messages have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct RowKey {
    /// The first day of the bucket, also if the period begins later in that bucket; left out without
    /// buckets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>, format = Date))]
    pub bucket: Option<Day>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_used: Option<String>,
    /// The gateway's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_used: Option<String>,
    /// The orchestration mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration_mode: Option<String>,
    /// The task type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
}

/// The latency of answers, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct LatencyMs {
    /// Number of answers with a latency.
    pub count: u64,
    /// The average; like the quantiles, left out if no answer has a latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
    /// The median, within 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// The 95th percentile, within 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// The 99th percentile, within 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

/// Numbers of messages and tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct UsageSums {
    /// Messages with any role.
    pub messages: u64,
    /// Requests: messages in the role `assistant` that are no further part of another one's
    /// answer, and messages in other roles that have an error.
    pub requests: u64,
    /// Tokens of prompts, of messages in any role.
    pub tokens_in: u64,
    /// Tokens of answers, of messages in any role.
    pub tokens_out: u64,
    /// The part of `tokens_in` that was neither written to a cache nor read from one.
    pub tokens_input: u64,
    /// The part of `tokens_in` that was written to a cache.
    pub tokens_cache_write: u64,
    /// The part of `tokens_in` that was read from a cache.
    pub tokens_cache_read: u64,
    /// The part of `tokens_out` used for reasoning.
    pub tokens_reasoning: u64,
}

/// The tokens of `turn.completed` events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct TurnSums {
    /// Number of completed turns.
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
    /// Their sums.
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
    /// Average use of the context window, from 0 to 1; left out if no answer has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_utilization_avg: Option<f64>,
    /// Messages in any role that have an error.
    pub errors: u64,
    /// Which part of the requests failed, from 0 to 1; left out if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
}

/// Numbers of errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ErrorSums {
    /// Messages in any role that have an error.
    pub errors: u64,
    /// Requests: messages in the role `assistant` that are no further part of another one's
    /// answer, and messages in other roles that have an error.
    pub requests: u64,
    /// Failed requests.
    pub failed_requests: u64,
    /// Which part of the requests failed, from 0 to 1; left out if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
}

/// Number of errors of one type.
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

/// A message with an error.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ErrorSample {
    /// The message's id.
    pub id: Uuid,
    /// The conversation's id.
    pub conversation_id: Uuid,
    /// When it was sent, RFC 3339.
    #[cfg_attr(feature = "wire", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// The requested model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_used: Option<String>,
    /// The class of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// The error message; a text of more than 4 KiB is cut there and ends with `…`.
    pub error: String,
}

/// Number of requests of a group.
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

/// Use of the context window by messages with the role `assistant`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ContextSums {
    /// Number of answers with a value.
    pub count: u64,
    /// Average use, from 0 to 1; left out if no answer has a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
}

/// Compression of contexts.
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

/// Latency of answers.
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
            /// The group.
            #[serde(flatten)]
            pub of: RowKey,
            /// The sums of the group.
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
            /// Number of rows without the limit.
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
        /// The latest messages with an error, latest first. Maximum: 20.
        pub samples: Vec<ErrorSample>,
    }
    /// Latency by orchestration mode.
    LatencyReport: LatencyRow of LatencySums, total LatencySums {}
    /// Requests by task type.
    TasksReport: TaskRow of TaskSums, total TaskSums {}
    /// Use of context windows, by model.
    ContextReport: ContextRow of ContextSums, total ContextSums {}
    /// Compression of contexts, by model.
    CompressionReport: CompressionRow of CompressionSums, total CompressionSums {}
}

/// Active conversations of a bucket.
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

/// Active conversations.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ActiveReport {
    /// What it was made of.
    pub scope: Scope,
    /// By bucket, the earliest first; those without any are left out.
    pub rows: Vec<ActiveRow>,
    /// Number of rows without the limit.
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
    /// Messages with any role.
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
    /// Average use of the context window, from 0 to 1; `None` if no answer has it.
    #[cfg_attr(feature = "wire", schema(required))]
    pub avg_context_utilization: Option<f64>,
    /// Answers with compressed context divided by answers, from 0 to 1; `None` if there were none.
    #[cfg_attr(feature = "wire", schema(required))]
    pub compression_rate: Option<f64>,
}
