//! The columns of reports.

use decklog::analytics::{
    CompressionSums, ContextSums, CostSums, LatencySums, ModelSums, SpendSums, TaskSums, ToolSums,
    TurnSums, UsageSums,
};

use decklog::human::float;

use crate::cli::table::{Cell, Column};

/// The columns of a report, and how each shows the sums of a row.
pub type Columns<S> = [(Column, fn(&S) -> Cell)];

/// A column of numbers: of a field, or of what a function makes of the sums. Columns with a greater
/// rank are left out first on a narrow terminal.
macro_rules! column {
    ($heading:literal, $key:literal, $rank:literal, $cell:ident $($field:ident).+) => {
        column!($heading, $key, $rank, |it| Cell::$cell(it.$($field).+))
    };
    ($heading:literal, $key:literal, $rank:literal, $cell:expr) => {
        (Column::number($heading, $key, $rank), $cell)
    };
}

pub const USAGE: &Columns<UsageSums> = &[
    column!("MESSAGES", "messages", 5, Count messages),
    column!("REQUESTS", "requests", 7, Count requests),
    column!("INPUT", "tokens_input", 2, Count tokens_input),
    column!("CACHE READ", "tokens_cache_read", 3, Count tokens_cache_read),
    column!("CACHE WRITE", "tokens_cache_write", 4, Count tokens_cache_write),
    column!("WRITE 1H", "tokens_cache_write_1h", 6, Count tokens_cache_write_1h),
    column!("OUTPUT", "tokens_out", 2, Count tokens_out),
    column!("REASONING", "tokens_reasoning", 6, Count tokens_reasoning),
    column!("TOKENS", "tokens", 1, |it| Cell::Count(tokens(it))),
    column!("COST", "cost_usd", 1, Cost cost_usd),
];

pub const SPENDING: &Columns<SpendSums> = &[
    column!("CONVERSATIONS", "conversations", 6, Count conversations),
    column!("MESSAGES", "messages", 5, Count messages),
    column!("INPUT", "tokens_input", 2, Count tokens_input),
    column!("CACHE READ", "tokens_cache_read", 3, Count tokens_cache_read),
    column!("CACHE WRITE", "tokens_cache_write", 4, Count tokens_cache_write),
    column!("WRITE 1H", "tokens_cache_write_1h", 6, Count tokens_cache_write_1h),
    column!("OUTPUT", "tokens_out", 2, Count tokens_out),
    column!("REASONING", "tokens_reasoning", 6, Count tokens_reasoning),
    column!("ERRORS", "errors", 7, Count errors),
    column!("TOKENS", "tokens", 1, |it| {
        Cell::Count(it.tokens_in.saturating_add(it.tokens_out))
    }),
    column!("COST", "cost_usd", 1, Cost cost_usd),
];

pub const COST: &Columns<CostSums> = &[
    column!("MESSAGES", "messages", 7, Count messages),
    column!("INPUT", "tokens_input", 2, Count tokens_input),
    column!("WRITE 5M", "tokens_cache_write_5m", 4, |it| {
        Cell::Count(
            it.tokens_cache_write
                .saturating_sub(it.tokens_cache_write_1h),
        )
    }),
    column!("WRITE 1H", "tokens_cache_write_1h", 5, Count tokens_cache_write_1h),
    column!("CACHE READ", "tokens_cache_read", 3, Count tokens_cache_read),
    column!("OUTPUT", "tokens_out", 2, Count tokens_out),
    column!("REASONING", "tokens_reasoning", 6, Count tokens_reasoning),
    column!("UNPRICED", "unpriced", 8, Count unpriced),
    column!("COMPUTED", "cost_computed_usd", 6, Cost cost_computed_usd),
    column!("COST", "cost_usd", 0, Cost cost_usd),
];

pub const TOOLS: &Columns<ToolSums> = &[
    column!("CALLS", "calls", 0, Count calls),
    column!("RUNNING", "running", 5, Count running),
    column!("FAILED", "failed", 3, Count failed),
    column!("RATE", "failure_rate", 1, Share failure_rate),
    column!("AVG", "latency_ms_avg", 2, Duration latency_ms.avg),
    column!("P50", "latency_ms_p50", 4, Duration latency_ms.p50),
    column!("P95", "latency_ms_p95", 1, Duration latency_ms.p95),
    column!("MAX", "latency_ms_max", 2, |it| {
        Cell::Duration(it.latency_ms.max.map(float))
    }),
];

pub const MODELS: &Columns<ModelSums> = &[
    column!("REQUESTS", "requests", 0, Count requests),
    column!("AVG", "latency_ms_avg", 1, Duration latency_ms.avg),
    column!("P50", "latency_ms_p50", 4, Duration latency_ms.p50),
    column!("P95", "latency_ms_p95", 2, Duration latency_ms.p95),
    column!("P99", "latency_ms_p99", 5, Duration latency_ms.p99),
    column!("TOKENS IN", "tokens_in", 2, Count tokens_in),
    column!("TOKENS OUT", "tokens_out", 2, Count tokens_out),
    column!("COST", "cost_usd", 2, Cost cost_usd),
    column!("CONTEXT", "context_utilization_avg", 6, Share context_utilization_avg),
    column!("ERRORS", "errors", 3, Count errors),
    column!("RATE", "error_rate", 1, Share error_rate),
];

pub const LATENCY: &Columns<LatencySums> = &[
    column!("REQUESTS", "requests", 0, Count requests),
    column!("AVG", "latency_ms_avg", 0, Duration latency_ms.avg),
    column!("P50", "latency_ms_p50", 1, Duration latency_ms.p50),
    column!("P95", "latency_ms_p95", 0, Duration latency_ms.p95),
    column!("P99", "latency_ms_p99", 2, Duration latency_ms.p99),
];

pub const TASKS: &Columns<TaskSums> = &[
    column!("REQUESTS", "requests", 0, Count requests),
    column!("SHARE", "share", 0, Share share),
];

pub const CONTEXT: &Columns<ContextSums> = &[
    column!("REQUESTS", "requests", 0, Count count),
    column!("CONTEXT", "context_utilization_avg", 0, Share avg),
];

pub const COMPRESSION: &Columns<CompressionSums> = &[
    column!("REQUESTS", "requests", 0, Count requests),
    column!("COMPRESSED", "compressed", 0, Count compressed),
    column!("RATE", "rate", 0, Share rate),
];

pub const TURNS: &Columns<TurnSums> = &[
    column!("TURNS", "turns", 0, Count turns),
    column!("TOKENS IN", "tokens_in", 0, Count tokens_in),
    column!("TOKENS OUT", "tokens_out", 0, Count tokens_out),
];

pub fn tokens(sums: &UsageSums) -> u64 {
    sums.tokens_in.saturating_add(sums.tokens_out)
}
