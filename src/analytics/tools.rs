//! Reports over tool calls.

use std::cmp::Reverse;

use serde::Serialize;

use super::calls::CallSums;
use super::query::{AnalyticsQuery, Defaults, Scope};
use super::rows::part;
use super::{Analytics, lock};
use crate::error::Result;
use crate::record::DenseSketch;

/// Upper bounds of the latency histogram, in milliseconds.
const BOUNDS_MS: [u64; 18] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    200_000, 500_000,
];

/// The latency of calls, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CallLatencyMs {
    /// Number of calls with an outcome.
    pub count: u64,
    /// The average. Absent, like the quantiles and the maximum, if no call has an outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
    /// The median, within 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// The 95th percentile, within 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// The maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// The calls by latency. All tools have the same buckets.
    pub histogram: Vec<LatencyBucket>,
}

/// A bucket of a latency histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct LatencyBucket {
    /// The greatest latency of the bucket, in milliseconds, within 2 %. Absent for the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_ms: Option<u64>,
    /// Number of calls with a latency of the bucket: above that of the one before.
    pub calls: u64,
}

/// The calls of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ToolSums {
    /// Number of calls.
    pub calls: u64,
    /// Number of completed calls.
    pub completed: u64,
    /// Number of failed calls.
    pub failed: u64,
    /// Number of calls without an outcome.
    pub running: u64,
    /// Failed calls divided by calls with an outcome, from 0 to 1. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_rate: Option<f64>,
    /// Latency of the calls with an outcome.
    pub latency_ms: CallLatencyMs,
}

/// The calls of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ToolRow {
    /// The tool.
    pub tool_name: String,
    /// The sums of its calls.
    #[serde(flatten)]
    pub sums: ToolSums,
}

/// Tool calls by tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ToolsReport {
    /// The query of the report, with its defaults.
    pub scope: Scope,
    /// The rows, sorted by calls, most first.
    pub rows: Vec<ToolRow>,
    /// Number of rows without the limit.
    pub row_count: usize,
    /// The totals of all rows, including those past the limit.
    pub total: ToolSums,
}

impl Analytics {
    /// Tool calls by tool: outcomes and latency. A call belongs to the UTC day on which it started.
    /// Retracted and removed calls are not counted. Default: all days. It has no groups and no
    /// buckets.
    ///
    /// The first report of a handle reads the calls of the log once; later ones read what is new.
    ///
    /// ```
    /// # use decklog::{Store, ToolCallReq, ToolCallDone, ToolStatus};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// use decklog::analytics::AnalyticsQuery;
    ///
    /// let id = uuid::Uuid::new_v4();
    /// let request = ToolCallReq { arguments_json: Some("{}".into()), ..ToolCallReq::new(id, "c1", "mcp", "bash") };
    /// store.record(request)?;
    /// store.record(ToolCallDone::new(id, "c1", ToolStatus::Failed))?;
    /// let tools = store.analytics().tools(&AnalyticsQuery::default())?;
    /// assert_eq!((&*tools.rows[0].tool_name, tools.rows[0].sums.failure_rate), ("bash", Some(1.0)));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`usage`](Self::usage).
    pub fn tools(&self, query: &AnalyticsQuery) -> Result<ToolsReport> {
        let scope = query.scope("tools", &Defaults::PLAIN)?;
        let mut kept = lock(&self.calls);
        kept.catch_up(&self.store)?;
        let by_tool = kept.by_tool(&scope);
        let mut sketch = DenseSketch::new();
        let mut rows: Vec<_> = by_tool.iter().collect();
        rows.sort_by_key(|(name, sums)| (Reverse(total(sums, |it| it.calls)), **name));
        rows.truncate(query.rows_max());
        let rows = rows.into_iter().map(|(name, sums)| ToolRow {
            tool_name: (*name).to_owned(),
            sums: tool_sums(sums, &mut sketch),
        });
        let rows = rows.collect();
        let all: Vec<&CallSums> = by_tool.values().flatten().copied().collect();
        Ok(ToolsReport {
            rows,
            row_count: by_tool.len(),
            total: tool_sums(&all, &mut sketch),
            scope,
        })
    }
}

fn total(sums: &[&CallSums], of: impl Fn(&CallSums) -> u64) -> u64 {
    sums.iter().map(|it| of(it)).fold(0, u64::saturating_add)
}

fn tool_sums(sums: &[&CallSums], sketch: &mut DenseSketch) -> ToolSums {
    sketch.clear();
    for sum in sums {
        sketch.merge(&sum.latency_sketch);
    }
    let [calls, completed, failed] = [
        total(sums, |it| it.calls),
        total(sums, |it| it.completed),
        total(sums, |it| it.failed),
    ];
    let ended = completed.saturating_add(failed);
    let count = total(sums, |it| it.latency_count);
    let max = sums.iter().map(|it| it.latency_ms_max).max();
    let max = max.filter(|_| count > 0);
    let quantile = |q| {
        let quantile = sketch.quantile(q)?;
        #[allow(clippy::cast_precision_loss)]
        Some(max.map_or(quantile, |max| quantile.min(max as f64)))
    };
    let bounds = BOUNDS_MS.into_iter().map(Some).chain([None]);
    let histogram = bounds.zip(sketch.histogram(&BOUNDS_MS));
    let bucket = |(up_to_ms, calls)| LatencyBucket { up_to_ms, calls };
    ToolSums {
        calls,
        completed,
        failed,
        running: calls.saturating_sub(ended),
        failure_rate: part(failed, ended),
        latency_ms: CallLatencyMs {
            count,
            avg: part(total(sums, |it| it.latency_ms_sum), count),
            p50: quantile(0.5),
            p95: quantile(0.95),
            max,
            histogram: histogram.map(bucket).collect(),
        },
    }
}
