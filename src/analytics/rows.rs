//! Rows of reports, built from days and groups.

use std::cmp::Reverse;

use super::answers::{
    CompressionSums, ContextSums, ErrorSums, LatencyMs, LatencySums, ModelSums, RowKey, UsageSums,
};
use super::cache::Cache;
use super::cells::{Cell, Groups, Mask};
use super::query::Scope;
use crate::record::{Computed, Day, DenseSketch, MessageSums, usd};

/// The cells of a row.
pub(super) struct Row<'a> {
    pub bucket: Option<Day>,
    pub group: u32,
    pub messages: u64,
    pub requests: u64,
    pub cells: Vec<&'a Cell>,
}

impl Cache {
    /// The rows of a report and the names of their groups. Rows are sorted by bucket only.
    pub(super) fn rows(&mut self, scope: &Scope) -> (Vec<Row<'_>>, &Groups) {
        let (cells, groups) = self.cells(scope, Mask::of(&scope.group));
        let mut rows: Vec<Row<'_>> = Vec::new();
        // For each group, the index of its row in the current bucket.
        let mut places: Vec<Option<usize>> = vec![None; groups.len()];
        let mut bucket = None;
        for (day, cells) in cells {
            let of = scope.bucket.of(day);
            if of != bucket {
                bucket = of;
                places.fill(None);
            }
            for cell in cells {
                let place = *places[cell.group as usize].get_or_insert_with(|| {
                    rows.push(Row {
                        bucket,
                        group: cell.group,
                        messages: 0,
                        requests: 0,
                        cells: Vec::new(),
                    });
                    rows.len() - 1
                });
                let row = &mut rows[place];
                row.messages = row.messages.saturating_add(cell.messages);
                row.requests = row.requests.saturating_add(cell.requests());
                row.cells.push(cell);
            }
        }
        (rows, groups)
    }

    /// The rows that pass the filter, sorted and limited, with their sums; and the number of rows
    /// that pass.
    pub(super) fn sums<S>(
        &mut self,
        scope: &Scope,
        rows_max: usize,
        passes: impl Fn(&Row<'_>) -> bool,
        sum: impl Fn(&[&Cell], &mut DenseSketch) -> S,
    ) -> (Vec<(RowKey, S)>, usize) {
        let (mut rows, groups) = self.rows(scope);
        rows.retain(|row| passes(row));
        let row_count = rows.len();
        let order = |row: &Row<'_>| (row.bucket, Reverse((row.requests, row.messages)));
        rows.sort_unstable_by(|a, b| {
            let by_name = || groups.name(a.group).cmp(groups.name(b.group));
            order(a).cmp(&order(b)).then_with(by_name)
        });
        rows.truncate(rows_max);
        let mut sketch = DenseSketch::new();
        let row = |row: Row<'_>| (row.key(groups), sum(&row.cells, &mut sketch));
        (rows.into_iter().map(row).collect(), row_count)
    }

    /// The sums of all rows.
    pub(super) fn total<S>(
        &mut self,
        scope: &Scope,
        sum: impl Fn(&[&Cell], &mut DenseSketch) -> S,
    ) -> S {
        let (cells, _) = self.cells(scope, Mask::of(&[]));
        let cells: Vec<&Cell> = cells.flat_map(|(_, cells)| cells).collect();
        sum(&cells, &mut DenseSketch::new())
    }
}

impl Row<'_> {
    /// Whether the answers have a value other than 0 for this field.
    pub(super) fn any(&self, of: impl Fn(&MessageSums) -> u64) -> bool {
        self.cells.iter().any(|cell| of(&cell.answers) > 0)
    }

    pub(super) fn key(&self, groups: &Groups) -> RowKey {
        let [model_used, config_used, orchestration_mode, task_type] =
            groups.name(self.group).clone();
        RowKey {
            bucket: self.bucket,
            model_used,
            config_used,
            orchestration_mode,
            task_type,
        }
    }
}

fn total(cells: &[&Cell], of: impl Fn(&Cell) -> u64) -> u64 {
    let numbers = cells.iter().map(|cell| of(cell));
    numbers.fold(0, u64::saturating_add)
}

/// The ratio of two numbers.
#[allow(clippy::cast_precision_loss)] // A part is not to the last digit.
pub(super) fn part(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| some as f64 / all as f64)
}

/// The number of failed requests. Several parts of one answer may have an error.
fn failed(cells: &[&Cell]) -> u64 {
    let answered = total(cells, |cell| cell.answered);
    let answers = total(cells, |cell| cell.answers.errors);
    let unanswered = total(cells, Cell::unanswered);
    answers.min(answered).saturating_add(unanswered)
}

/// The recorded and computed costs of some messages.
fn cost(cells: &[&Cell], of: fn(&Cell) -> (&MessageSums, &Computed)) -> Costs {
    let mut costs = Costs::default();
    for cell in cells {
        let (sums, computed) = of(cell);
        costs.add(&Costs {
            recorded_nano_usd: sums.cost_nano_usd,
            recorded: sums.cost_count,
            computed: *computed,
        });
    }
    costs
}

/// The costs of some messages, as reports show them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Costs {
    pub recorded_nano_usd: u64,
    /// Number of messages that report a cost.
    pub recorded: u64,
    pub computed: Computed,
}

impl Costs {
    pub(super) fn add(&mut self, other: &Costs) {
        let nano_usd = &mut self.recorded_nano_usd;
        *nano_usd = nano_usd.saturating_add(other.recorded_nano_usd);
        self.recorded = self.recorded.saturating_add(other.recorded);
        self.computed.add(&other.computed);
    }

    /// All of it, in US dollars; `None` if no message has a cost.
    pub(super) fn usd(&self) -> Option<f64> {
        let nano_usd = self
            .recorded_nano_usd
            .saturating_add(self.computed.nano_usd);
        usd(nano_usd, self.recorded.saturating_add(self.computed.count))
    }

    /// The computed part.
    pub(super) fn computed_usd(&self) -> Option<f64> {
        usd(self.computed.nano_usd, self.computed.count)
    }
}

pub(super) fn usage(cells: &[&Cell], _: &mut DenseSketch) -> UsageSums {
    let tokens_in = total(cells, |cell| cell.all.tokens_in);
    let tokens_cache_write = total(cells, |cell| cell.all.tokens_cache_write);
    let tokens_cache_read = total(cells, |cell| cell.all.tokens_cache_read);
    let cached = tokens_cache_write.saturating_add(tokens_cache_read);
    let costs = cost(cells, |cell| (&cell.all, &cell.computed));
    UsageSums {
        messages: total(cells, |cell| cell.messages),
        requests: total(cells, Cell::requests),
        tokens_in,
        tokens_out: total(cells, |cell| cell.all.tokens_out),
        tokens_input: tokens_in.saturating_sub(cached),
        tokens_cache_write,
        tokens_cache_write_1h: total(cells, |cell| cell.all.tokens_cache_write_1h),
        tokens_cache_read,
        tokens_reasoning: total(cells, |cell| cell.all.tokens_reasoning),
        cost_usd: costs.usd(),
        cost_computed_usd: costs.computed_usd(),
        unpriced: costs.computed.unpriced,
    }
}

pub(super) fn latency(cells: &[&Cell], sketch: &mut DenseSketch) -> LatencySums {
    sketch.clear();
    for cell in cells {
        sketch.merge(&cell.answers.latency_sketch);
    }
    let count = total(cells, |cell| cell.answers.latency_count);
    LatencySums {
        requests: total(cells, Cell::requests),
        latency_ms: LatencyMs {
            count,
            avg: part(total(cells, |cell| cell.answers.latency_ms_sum), count),
            p50: sketch.quantile(0.5),
            p95: sketch.quantile(0.95),
            p99: sketch.quantile(0.99),
        },
    }
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn context(cells: &[&Cell], _: &mut DenseSketch) -> ContextSums {
    let count = total(cells, |cell| cell.answers.context_utilization_count);
    let add = |sum: f64, cell: &&Cell| sum + cell.answers.context_utilization_sum;
    let sum = cells.iter().fold(0.0, add);
    ContextSums {
        count,
        avg: (count > 0).then(|| sum / count as f64),
    }
}

pub(super) fn models(cells: &[&Cell], sketch: &mut DenseSketch) -> ModelSums {
    let latency = latency(cells, sketch);
    ModelSums {
        requests: latency.requests,
        latency_ms: latency.latency_ms,
        tokens_in: total(cells, |cell| cell.answers.tokens_in),
        tokens_out: total(cells, |cell| cell.answers.tokens_out),
        cost_usd: cost(cells, |cell| (&cell.answers, &cell.computed_of_answers)).usd(),
        context_utilization_avg: context(cells, sketch).avg,
        errors: total(cells, |cell| cell.all.errors),
        error_rate: part(failed(cells), latency.requests),
    }
}

pub(super) fn errors(cells: &[&Cell], _: &mut DenseSketch) -> ErrorSums {
    let requests = total(cells, Cell::requests);
    let failed_requests = failed(cells);
    ErrorSums {
        errors: total(cells, |cell| cell.all.errors),
        requests,
        failed_requests,
        error_rate: part(failed_requests, requests),
    }
}

pub(super) fn requests(cells: &[&Cell], _: &mut DenseSketch) -> u64 {
    total(cells, Cell::requests)
}

pub(super) fn compression(cells: &[&Cell], _: &mut DenseSketch) -> CompressionSums {
    let answered = total(cells, |cell| cell.answered);
    let compressed = total(cells, |cell| cell.answers.compressed);
    CompressionSums {
        requests: answered,
        compressed,
        // Several parts of one answer may be counted.
        rate: part(compressed.min(answered), answered),
    }
}
