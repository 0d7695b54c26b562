//! Reports over tool calls. The sums of each day and tool are kept and updated with new calls and
//! outcomes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::cache::in_threads;
use super::query::{AnalyticsQuery, Defaults, Scope};
use super::rows::part;
use super::{Analytics, lock};
use crate::collections::{CallRow, calls_of_day, first_start, with_calls};
use crate::error::Result;
use crate::index::{Row, RowId};
use crate::record::{Day, DenseSketch, Kind, Sketch, ToolCall, ToolStatus};
use crate::store::{Reads, Snapshot, Store, Watermark};

/// Upper bounds of the latency histogram, in milliseconds.
const BOUNDS_MS: [u64; 18] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    200_000, 500_000,
];
/// Number of rows that a thread reads at a time.
const ROWS_AT_A_TIME: u32 = 4_096;

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

/// The sums of some calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct CallSums {
    calls: u64,
    completed: u64,
    failed: u64,
    latency_count: u64,
    latency_ms_sum: u64,
    latency_ms_max: u64,
    latency_sketch: Sketch,
}

impl CallSums {
    /// Adds the outcome of a call, if it has one.
    fn add_outcome(&mut self, (_, done): &ToolCall) {
        let Some(done) = done else { return };
        match done.status {
            ToolStatus::Completed => self.completed += 1,
            ToolStatus::Failed => self.failed += 1,
        }
        // A line edited by hand may have a negative number.
        if let Ok(ms) = u64::try_from(done.latency_ms) {
            self.latency_count += 1;
            self.latency_ms_sum = self.latency_ms_sum.saturating_add(ms);
            self.latency_ms_max = self.latency_ms_max.max(ms);
            self.latency_sketch.add(ms);
        }
    }

    fn merge(&mut self, other: &CallSums) {
        self.calls += other.calls;
        self.completed += other.completed;
        self.failed += other.failed;
        self.latency_count += other.latency_count;
        self.latency_ms_sum = self.latency_ms_sum.saturating_add(other.latency_ms_sum);
        self.latency_ms_max = self.latency_ms_max.max(other.latency_ms_max);
        self.latency_sketch.merge(&other.latency_sketch);
    }
}

/// The sums of the calls of a log.
///
/// An outcome is final, and a request stands unless another version of it follows. So, of the calls
/// that were counted, only those without an outcome and those with several versions are looked at
/// again.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The state of the log that the sums reflect.
    watermark: Option<Watermark>,
    /// Number of rows of the index that were read.
    rows: u32,
    counted: Counted,
    /// Calls with several versions. Few have.
    versions: HashMap<RowId, Version>,
}

/// The sums of calls with one version.
#[derive(Debug, Default)]
struct Counted {
    days: BTreeMap<Day, BTreeMap<String, CallSums>>,
    /// Rows without an outcome or without a request, and whether they are in the sums.
    open: BTreeMap<RowId, bool>,
}

/// A call with several versions.
#[derive(Debug)]
struct Version {
    /// As [`CallRow::versions`], and whether it has an outcome, when it was read.
    read: (usize, bool),
    /// Its day, tool and sums, if it stands.
    sums: Option<(Day, String, CallSums)>,
}

/// What changed since the last update.
struct News {
    now: Watermark,
    /// Number of rows of the index.
    rows: u32,
    /// Open rows that may have an outcome or a request now.
    ended: Vec<RowId>,
    /// Rows with a new version.
    versions: Vec<RowId>,
    /// The days of those that were counted before.
    recount: BTreeSet<Day>,
}

impl Calls {
    /// Adds everything that was acknowledged before this call.
    fn catch_up(&mut self, store: &Store) -> Result<()> {
        let inner = store.inner();
        let now = inner.with_snapshot(|view| Ok(view.watermark()))?;
        // If the update fails halfway, the next one starts from the beginning.
        let before = self.watermark.take();
        if before == Some(now) {
            self.watermark = before;
            return Ok(());
        }
        if !before.is_some_and(|before| now.has_same_rows(before)) {
            *self = Calls::default();
        }
        let news = inner.with_snapshot(|view| self.news(view))?;
        let starts: Vec<u32> = (self.rows..news.rows)
            .step_by(ROWS_AT_A_TIME as usize)
            .collect();
        let parts = in_threads(&starts, |start| {
            let end = start.saturating_add(ROWS_AT_A_TIME).min(news.rows);
            let rows: Vec<RowId> = (*start..end).map(RowId).collect();
            let (mut counted, mut versions) = (Counted::default(), Vec::new());
            with_calls(inner, &rows, |row| {
                if row.versions > 0 {
                    versions.push(row);
                } else {
                    counted.add(row);
                }
            })?;
            Ok((counted, versions))
        })?;
        for (counted, versions) in parts {
            self.counted.merge(counted);
            for row in versions {
                self.set_version(row);
            }
        }
        self.rows = news.rows;
        with_calls(inner, &news.ended, |row| {
            // One with another version since stays as it is until the next update.
            if row.versions == 0 {
                self.counted.add(row);
            }
        })?;
        with_calls(inner, &news.versions, |row| self.set_version(row))?;
        for day in news.recount {
            self.recount(store, day)?;
        }
        self.watermark = Some(news.now);
        Ok(())
    }

    fn news(&self, view: &Snapshot<'_>) -> Result<News> {
        let table = view.table(Kind::ToolCalls);
        let open = self.counted.open.iter();
        let has_news =
            |row: &Row, is_counted: bool| row.stands() && (!is_counted || row.done.is_some());
        let ended = open.filter(|(id, is_counted)| {
            let row = table.row(**id).filter(|row| has_news(row, **is_counted));
            row.is_some() && table.history(**id).is_none()
        });
        let ended = ended.map(|(id, _)| *id).collect();
        let (mut versions, mut recount) = (Vec::new(), BTreeSet::new());
        for id in table.rows_with_history().filter(|id| id.0 < self.rows) {
            let count = table.history(id).map_or(0, <[_]>::len);
            let has_done = |row: &Row| row.stands() && row.done.is_some();
            let has_done = table.row(id).is_some_and(has_done);
            let known = self.versions.get(&id);
            if known.is_some_and(|known| known.read == (count, has_done)) {
                continue;
            }
            versions.push(id);
            let is_counted = known.is_none() && self.counted.open.get(&id) != Some(&false);
            if is_counted && let Some(start) = first_start(view, id)? {
                recount.extend(Day::of(start).ok());
            }
        }
        Ok(News {
            now: view.watermark(),
            rows: table.rows_len(),
            ended,
            versions,
            recount,
        })
    }

    fn set_version(
        &mut self,
        CallRow {
            row,
            versions,
            call,
        }: CallRow,
    ) {
        self.counted.open.remove(&row);
        let has_done = call.as_ref().is_some_and(|(_, done)| done.is_some());
        let sums = call.and_then(|call| {
            let day = Day::of(call.0.started_at.at).ok()?;
            let mut sums = CallSums {
                calls: 1,
                ..CallSums::default()
            };
            sums.add_outcome(&call);
            Some((day, call.0.tool_name, sums))
        });
        let read = (versions, has_done);
        self.versions.insert(row, Version { read, sums });
    }

    /// Sums a day anew, without the calls that have several versions.
    fn recount(&mut self, store: &Store, day: Day) -> Result<()> {
        let mut rows = calls_of_day(store.inner(), day)?;
        rows.retain(|row| row.0 < self.rows && !self.versions.contains_key(row));
        let Counted { days, open } = &mut self.counted;
        days.remove(&day);
        with_calls(
            store.inner(),
            &rows,
            |CallRow {
                 row,
                 versions,
                 call,
             }| {
                let Some(call) = call.filter(|_| versions == 0) else {
                    return;
                };
                let sums = sums_of(days, &call);
                let Some(sums) = sums else { return };
                sums.calls += 1;
                match open.get_mut(&row) {
                    // An outcome since counts in the next update.
                    Some(is_counted) => *is_counted = true,
                    None => sums.add_outcome(&call),
                }
            },
        )
    }

    /// The sums of the report's days by tool.
    fn by_tool(&self, scope: &Scope) -> BTreeMap<&str, Vec<&CallSums>> {
        let mut by_tool: BTreeMap<&str, Vec<&CallSums>> = BTreeMap::new();
        let days = self.counted.days.iter();
        let days = days.filter(|(day, _)| scope.has(**day));
        let versions = self.versions.values().filter_map(|it| it.sums.as_ref());
        let versions = versions.filter(|(day, ..)| scope.has(*day));
        let all = days.flat_map(|(_, tools)| tools.iter());
        for (name, sums) in all.chain(versions.map(|(_, name, sums)| (name, sums))) {
            by_tool.entry(name).or_default().push(sums);
        }
        by_tool
    }
}

/// The sums of a call's day and tool. `None` for a time outside the calendar, which only a forged
/// line has.
fn sums_of<'d>(
    days: &'d mut BTreeMap<Day, BTreeMap<String, CallSums>>,
    (request, _): &ToolCall,
) -> Option<&'d mut CallSums> {
    let tools = days
        .entry(Day::of(request.started_at.at).ok()?)
        .or_default();
    if !tools.contains_key(&request.tool_name) {
        tools.insert(request.tool_name.clone(), CallSums::default());
    }
    tools.get_mut(&request.tool_name)
}

impl Counted {
    /// Adds a row with one version, or what is new in it.
    fn add(&mut self, CallRow { row, call, .. }: CallRow) {
        let is_counted = self.open.remove(&row).unwrap_or(false);
        let Some(call) = call else {
            self.open.insert(row, is_counted);
            return;
        };
        if let Some(sums) = sums_of(&mut self.days, &call) {
            sums.calls += u64::from(!is_counted);
            sums.add_outcome(&call);
        }
        if call.1.is_none() {
            self.open.insert(row, true);
        }
    }

    fn merge(&mut self, other: Counted) {
        for (day, tools) in other.days {
            let known = self.days.entry(day).or_default();
            for (name, sums) in tools {
                known.entry(name).or_default().merge(&sums);
            }
        }
        self.open.extend(other.open);
    }
}
