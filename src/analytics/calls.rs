//! Sums of tool calls by day and tool, updated with new calls and outcomes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::activity::{Hours, hour_of};
use super::cache::in_threads;
use super::query::Scope;
use crate::collections::{CallRow, calls_of_day, first_start, with_calls};
use crate::error::Result;
use crate::index::{Row, RowId};
use crate::record::{Day, Kind, Sketch, ToolCall, ToolStatus};
use crate::store::{Reads, Snapshot, Store, Watermark};

/// Number of rows that a thread reads at a time.
const ROWS_AT_A_TIME: u32 = 4_096;

/// The sums of some calls.
#[derive(Debug, Default)]
pub(super) struct CallSums {
    pub calls: u64,
    pub completed: u64,
    pub failed: u64,
    pub latency_count: u64,
    pub latency_ms_sum: u64,
    pub latency_ms_max: u64,
    pub latency_sketch: Sketch,
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

/// The sums of the calls of a day.
#[derive(Debug, Default)]
struct DayCalls {
    /// The number of calls by hour.
    hours: Hours,
    tools: BTreeMap<String, CallSums>,
}

/// The sums of calls with one version.
#[derive(Debug, Default)]
struct Counted {
    days: BTreeMap<Day, DayCalls>,
    /// Rows without an outcome or without a request, and whether they are in the sums.
    open: BTreeMap<RowId, bool>,
}

/// A call with several versions.
#[derive(Debug)]
struct Version {
    /// As [`CallRow::versions`], and whether it has an outcome, when it was read.
    read: (usize, bool),
    /// Its start, tool and sums, if it stands.
    sums: Option<(i64, String, CallSums)>,
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
    pub(super) fn catch_up(&mut self, store: &Store) -> Result<()> {
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
            let at = call.0.started_at.at;
            Day::of(at).ok()?;
            let mut sums = CallSums {
                calls: 1,
                ..CallSums::default()
            };
            sums.add_outcome(&call);
            Some((at, call.0.tool_name, sums))
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
                let Some(sums) = sums_of(days, &call, true) else {
                    return;
                };
                match open.get_mut(&row) {
                    // An outcome since counts in the next update.
                    Some(is_counted) => *is_counted = true,
                    None => sums.add_outcome(&call),
                }
            },
        )
    }

    /// Whether the calls were read before, so that little is left to read.
    pub(super) fn is_read(&self) -> bool {
        self.watermark.is_some()
    }

    /// The number of calls by hour, of these days.
    pub(super) fn hours(&self, days: Range<Day>) -> BTreeMap<Day, Hours> {
        let counted = self.counted.days.range(days.clone());
        let mut hours: BTreeMap<Day, Hours> =
            counted.map(|(day, calls)| (*day, calls.hours)).collect();
        let versions = self.versions.values().filter_map(|it| it.sums.as_ref());
        for (at, ..) in versions {
            if let Some(day) = Day::of(*at).ok().filter(|day| days.contains(day)) {
                hours.entry(day).or_default()[hour_of(*at)] += 1;
            }
        }
        hours
    }

    /// The sums of the report's days by tool.
    pub(super) fn by_tool(&self, scope: &Scope) -> BTreeMap<&str, Vec<&CallSums>> {
        let mut by_tool: BTreeMap<&str, Vec<&CallSums>> = BTreeMap::new();
        let days = self.counted.days.iter();
        let days = days.filter(|(day, _)| scope.has(**day));
        let versions = self.versions.values().filter_map(|it| it.sums.as_ref());
        let versions = versions.filter(|(at, ..)| Day::of(*at).is_ok_and(|day| scope.has(day)));
        let all = days.flat_map(|(_, calls)| calls.tools.iter());
        for (name, sums) in all.chain(versions.map(|(_, name, sums)| (name, sums))) {
            by_tool.entry(name).or_default().push(sums);
        }
        by_tool
    }
}

/// The sums of a call's day and tool, to which a new call is added. `None` for a time outside the
/// calendar, which only a forged line has.
fn sums_of<'d>(
    days: &'d mut BTreeMap<Day, DayCalls>,
    (request, _): &ToolCall,
    is_new: bool,
) -> Option<&'d mut CallSums> {
    let at = request.started_at.at;
    let DayCalls { hours, tools } = days.entry(Day::of(at).ok()?).or_default();
    hours[hour_of(at)] += u32::from(is_new);
    if !tools.contains_key(&request.tool_name) {
        tools.insert(request.tool_name.clone(), CallSums::default());
    }
    let sums = tools.get_mut(&request.tool_name)?;
    sums.calls += u64::from(is_new);
    Some(sums)
}

impl Counted {
    /// Adds a row with one version, or what is new in it.
    fn add(&mut self, CallRow { row, call, .. }: CallRow) {
        let is_counted = self.open.remove(&row).unwrap_or(false);
        let Some(call) = call else {
            self.open.insert(row, is_counted);
            return;
        };
        if let Some(sums) = sums_of(&mut self.days, &call, !is_counted) {
            sums.add_outcome(&call);
        }
        if call.1.is_none() {
            self.open.insert(row, true);
        }
    }

    fn merge(&mut self, other: Counted) {
        for (day, calls) in other.days {
            let known = self.days.entry(day).or_default();
            for (sum, more) in known.hours.iter_mut().zip(calls.hours) {
                *sum += more;
            }
            for (name, sums) in calls.tools {
                known.tools.entry(name).or_default().merge(&sums);
            }
        }
        self.open.extend(other.open);
    }
}
