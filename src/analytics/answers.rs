//! The values of reports, with the same JSON on every face.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::query::Scope;
use crate::record::{Day, Timestamp, is_default};

/// The group of a row: the bucket, and the names that its messages share. A name is absent if the
/// report does not group by it, or if the messages have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct RowKey {
    /// The first day of the bucket, even if the period begins later. Absent without buckets.
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
    /// The average. Absent, like the quantiles, if no answer has a latency.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct UsageSums {
    /// Number of messages, in any role.
    pub messages: u64,
    /// Requests: messages in the role `assistant` that are not a further part of an answer, and
    /// messages in other roles with an error.
    pub requests: u64,
    /// Prompt tokens of messages in any role.
    pub tokens_in: u64,
    /// Answer tokens of messages in any role.
    pub tokens_out: u64,
    /// The part of `tokens_in` that was neither written to a cache nor read from one.
    pub tokens_input: u64,
    /// The part of `tokens_in` that was written to a cache.
    pub tokens_cache_write: u64,
    /// The part of `tokens_cache_write` that is kept for one hour.
    pub tokens_cache_write_1h: u64,
    /// The part of `tokens_in` that was read from a cache.
    pub tokens_cache_read: u64,
    /// The part of `tokens_out` used for reasoning.
    pub tokens_reasoning: u64,
    /// Cost of messages in any role, in US dollars. Absent if no message has a cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The part of `cost_usd` that was computed from the price table, for messages that record no
    /// cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_computed_usd: Option<f64>,
    /// Number of messages with tokens, without a recorded cost and without a price of their model.
    /// Their cost is not in `cost_usd`.
    #[serde(skip_serializing_if = "is_default")]
    pub unpriced: u64,
}

/// The tokens of `turn.completed` events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The sums of the turns.
    #[serde(flatten)]
    pub sums: TurnSums,
}

/// The sums of the requests of a model and configuration. Latencies, tokens and context utilization
/// include only messages in the role `assistant`. A group also has a row if it has only further
/// parts of answers, to requests of another group or day.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ModelSums {
    /// Requests: messages in the role `assistant` that are not a further part of an answer, and
    /// messages in other roles with an error.
    pub requests: u64,
    /// Latency of the answers.
    pub latency_ms: LatencyMs,
    /// Prompt tokens.
    pub tokens_in: u64,
    /// Answer tokens.
    pub tokens_out: u64,
    /// Cost in US dollars. Absent if no answer has a cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Average used fraction of the context window, from 0 to 1. Absent if no answer has a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_utilization_avg: Option<f64>,
    /// Number of messages with an error, in any role.
    pub errors: u64,
    /// Failed requests divided by requests, from 0 to 1. Absent if there were no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
}

/// Numbers of errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ErrorSums {
    /// Number of messages with an error, in any role.
    pub errors: u64,
    /// Requests: messages in the role `assistant` that are not a further part of an answer, and
    /// messages in other roles with an error.
    pub requests: u64,
    /// Failed requests.
    pub failed_requests: u64,
    /// Failed requests divided by requests, from 0 to 1. Absent if there were no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
}

/// Number of errors of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ErrorCount {
    /// The error type. Absent for errors without a type, and for those past the first 1000 types of
    /// a group and day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// Number of messages with such an error, in any role.
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
    /// Time of the message, RFC 3339.
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
    /// Requests: messages in the role `assistant` that are not a further part of an answer, and
    /// messages in other roles with an error.
    pub requests: u64,
    /// Share of the bucket's requests, from 0 to 1. Absent if the bucket has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// Use of the context window by messages with the role `assistant`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ContextSums {
    /// Number of answers with a value.
    pub count: u64,
    /// Average used fraction, from 0 to 1. Absent if no answer has a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
}

/// Compression of contexts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CompressionSums {
    /// Number of messages in the role `assistant` that are not a further part of an answer.
    pub requests: u64,
    /// Number of answers with a compressed context, including further parts.
    pub compressed: u64,
    /// Compressed answers divided by requests, from 0 to 1. Absent if there were no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// Latency of answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct LatencySums {
    /// Requests: messages in the role `assistant` that are not a further part of an answer, and
    /// messages in other roles with an error.
    pub requests: u64,
    /// Latency of the answers.
    pub latency_ms: LatencyMs,
}

macro_rules! reports {
    (
        $($(#[$doc:meta])* $report:ident: $row:ident of $sums:ident, total $total:ident { $($more:tt)* })+
    ) => { $(
        /// A row of the report.
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
            /// The query of the report, with its defaults.
            pub scope: Scope,
            /// The rows, sorted by bucket, earliest first; then by requests, most first, or in an
            /// errors report by errors, most first.
            pub rows: Vec<$row>,
            /// Number of rows without the limit.
            pub row_count: usize,
            /// The totals of all rows, including those past the limit.
            pub total: $total,
            $($more)*
        }
    )+ };
}

reports! {
    /// Messages and tokens.
    UsageReport: UsageRow of UsageSums, total UsageSums {
        /// The tokens of the `turn.completed` events in the log, by bucket and model. Not included
        /// in `rows` and `total`: an agent that also records messages has the same tokens there.
        pub turns: Vec<TurnRow>,
    }
    /// Sums of the requests, by model and configuration.
    ModelsReport: ModelRow of ModelSums, total ModelSums {}
    /// Errors by type, most frequent first, and the latest errors.
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
    /// The first day of the bucket. Absent if all days are in one row.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>, format = Date))]
    pub bucket: Option<Day>,
    /// Number of distinct conversations with a message in the bucket.
    pub conversations: u64,
}

/// Active conversations.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ActiveReport {
    /// The query of the report, with its defaults.
    pub scope: Scope,
    /// The rows, sorted by bucket, earliest first. Buckets without conversations are left out.
    pub rows: Vec<ActiveRow>,
    /// Number of rows without the limit.
    pub row_count: usize,
}

/// Metrics for a dashboard, of the current UTC day or of the requested days. JSON has every member:
/// a rate or an average without data is null.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct DashboardMetrics {
    /// The query of the metrics, with its defaults. Not in JSON.
    #[serde(skip)]
    pub scope: Scope,
    /// Number of distinct conversations with a message in these days; `None` for several days if
    /// one of them has a rollup without the ids of its conversations.
    #[cfg_attr(feature = "wire", schema(required))]
    pub conversations_today: Option<u64>,
    /// Number of messages, in any role.
    pub messages_today: u64,
    /// Prompt and answer tokens of messages in any role.
    pub tokens_today: u64,
    /// Prompt tokens.
    pub tokens_in_today: u64,
    /// Answer tokens.
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
    /// Average used fraction of the context window, from 0 to 1; `None` if no answer has a value.
    #[cfg_attr(feature = "wire", schema(required))]
    pub avg_context_utilization: Option<f64>,
    /// Answers with compressed context divided by answers, from 0 to 1; `None` if there were none.
    #[cfg_attr(feature = "wire", schema(required))]
    pub compression_rate: Option<f64>,
}
