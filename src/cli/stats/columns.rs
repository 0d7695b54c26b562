//! The columns of reports.

use decklog::analytics::{
    CompressionSums, ContextSums, LatencySums, ModelSums, SpendSums, TaskSums, ToolSums, TurnSums,
    UsageSums,
};

use decklog::human::float;

use crate::cli::table::{Cell, Column};

/// The columns of a report, and how each shows the sums of a row.
pub type Columns<S> = [(Column, fn(&S) -> Cell)];

/// A column of numbers. Columns with a greater rank are left out first on a narrow terminal.
macro_rules! column {
    ($heading:literal, $key:literal, $rank:literal, $cell:expr) => {
        (Column::number($heading, $key, $rank), $cell)
    };
}

pub const USAGE: &Columns<UsageSums> = &[
    column!("MESSAGES", "messages", 5, |it| Cell::Count(it.messages)),
    column!("REQUESTS", "requests", 7, |it| Cell::Count(it.requests)),
    column!("INPUT", "tokens_input", 2, |it| Cell::Count(
        it.tokens_input
    )),
    column!("CACHE READ", "tokens_cache_read", 3, |it| Cell::Count(
        it.tokens_cache_read
    )),
    column!("CACHE WRITE", "tokens_cache_write", 4, |it| Cell::Count(
        it.tokens_cache_write
    )),
    column!("OUTPUT", "tokens_out", 2, |it| Cell::Count(it.tokens_out)),
    column!("REASONING", "tokens_reasoning", 6, |it| Cell::Count(
        it.tokens_reasoning
    )),
    column!("TOKENS", "tokens", 1, |it| Cell::Count(tokens(it))),
    column!("COST", "cost_usd", 1, |it| Cell::Cost(it.cost_usd)),
];

pub const SPENDING: &Columns<SpendSums> = &[
    column!("CONVERSATIONS", "conversations", 6, |it| Cell::Count(
        it.conversations
    )),
    column!("MESSAGES", "messages", 5, |it| Cell::Count(it.messages)),
    column!("INPUT", "tokens_input", 2, |it| Cell::Count(
        it.tokens_input
    )),
    column!("CACHE READ", "tokens_cache_read", 3, |it| Cell::Count(
        it.tokens_cache_read
    )),
    column!("CACHE WRITE", "tokens_cache_write", 4, |it| Cell::Count(
        it.tokens_cache_write
    )),
    column!("OUTPUT", "tokens_out", 2, |it| Cell::Count(it.tokens_out)),
    column!("ERRORS", "errors", 7, |it| Cell::Count(it.errors)),
    column!("TOKENS", "tokens", 1, |it| {
        Cell::Count(it.tokens_in.saturating_add(it.tokens_out))
    }),
    column!("COST", "cost_usd", 1, |it| Cell::Cost(it.cost_usd)),
];

pub const TOOLS: &Columns<ToolSums> = &[
    column!("CALLS", "calls", 0, |it| Cell::Count(it.calls)),
    column!("RUNNING", "running", 5, |it| Cell::Count(it.running)),
    column!("FAILED", "failed", 3, |it| Cell::Count(it.failed)),
    column!("RATE", "failure_rate", 1, |it| Cell::Share(it.failure_rate)),
    column!("AVG", "latency_ms_avg", 2, |it| Cell::Duration(
        it.latency_ms.avg
    )),
    column!("P50", "latency_ms_p50", 4, |it| Cell::Duration(
        it.latency_ms.p50
    )),
    column!("P95", "latency_ms_p95", 1, |it| Cell::Duration(
        it.latency_ms.p95
    )),
    column!("MAX", "latency_ms_max", 2, |it| {
        Cell::Duration(it.latency_ms.max.map(float))
    }),
];

pub const MODELS: &Columns<ModelSums> = &[
    column!("REQUESTS", "requests", 0, |it| Cell::Count(it.requests)),
    column!("AVG", "latency_ms_avg", 1, |it| Cell::Duration(
        it.latency_ms.avg
    )),
    column!("P50", "latency_ms_p50", 4, |it| Cell::Duration(
        it.latency_ms.p50
    )),
    column!("P95", "latency_ms_p95", 2, |it| Cell::Duration(
        it.latency_ms.p95
    )),
    column!("P99", "latency_ms_p99", 5, |it| Cell::Duration(
        it.latency_ms.p99
    )),
    column!("TOKENS IN", "tokens_in", 2, |it| Cell::Count(it.tokens_in)),
    column!("TOKENS OUT", "tokens_out", 2, |it| Cell::Count(
        it.tokens_out
    )),
    column!("COST", "cost_usd", 2, |it| Cell::Cost(it.cost_usd)),
    column!("CONTEXT", "context_utilization_avg", 6, |it| Cell::Share(
        it.context_utilization_avg
    )),
    column!("ERRORS", "errors", 3, |it| Cell::Count(it.errors)),
    column!("RATE", "error_rate", 1, |it| Cell::Share(it.error_rate)),
];

pub const LATENCY: &Columns<LatencySums> = &[
    column!("REQUESTS", "requests", 0, |it| Cell::Count(it.requests)),
    column!("AVG", "latency_ms_avg", 0, |it| Cell::Duration(
        it.latency_ms.avg
    )),
    column!("P50", "latency_ms_p50", 1, |it| Cell::Duration(
        it.latency_ms.p50
    )),
    column!("P95", "latency_ms_p95", 0, |it| Cell::Duration(
        it.latency_ms.p95
    )),
    column!("P99", "latency_ms_p99", 2, |it| Cell::Duration(
        it.latency_ms.p99
    )),
];

pub const TASKS: &Columns<TaskSums> = &[
    column!("REQUESTS", "requests", 0, |it| Cell::Count(it.requests)),
    column!("SHARE", "share", 0, |it| Cell::Share(it.share)),
];

pub const CONTEXT: &Columns<ContextSums> = &[
    column!("REQUESTS", "requests", 0, |it| Cell::Count(it.count)),
    column!("CONTEXT", "context_utilization_avg", 0, |it| Cell::Share(
        it.avg
    )),
];

pub const COMPRESSION: &Columns<CompressionSums> = &[
    column!("REQUESTS", "requests", 0, |it| Cell::Count(it.requests)),
    column!("COMPRESSED", "compressed", 0, |it| Cell::Count(
        it.compressed
    )),
    column!("RATE", "rate", 0, |it| Cell::Share(it.rate)),
];

pub const TURNS: &Columns<TurnSums> = &[
    column!("TURNS", "turns", 0, |it| Cell::Count(it.turns)),
    column!("TOKENS IN", "tokens_in", 0, |it| Cell::Count(it.tokens_in)),
    column!("TOKENS OUT", "tokens_out", 0, |it| Cell::Count(
        it.tokens_out
    )),
];

pub fn tokens(sums: &UsageSums) -> u64 {
    sums.tokens_in.saturating_add(sums.tokens_out)
}
