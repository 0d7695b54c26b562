//! The reports and their defaults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::answers::{
    ActiveReport, ActiveRow, CompressionReport, CompressionRow, ContextReport, ContextRow,
    DashboardMetrics, ErrorCount, ErrorRow, ErrorSample, ErrorsReport, LatencyReport, LatencyRow,
    ModelRow, ModelsReport, RowKey, TaskRow, TaskSums, TasksReport, UsageReport, UsageRow,
};
use super::cache::Cache;
use super::query::{AnalyticsQuery, Bucket, Defaults, Dimension, Scope};
use super::rows::Row;
use super::{Analytics, rows};
use crate::collections::{clipped, with_seqs};
use crate::error::{Error, Result};
use crate::record::{ConversationMessage, Day};

/// Maximum number of messages with errors in a report.
const SAMPLES_MAX: usize = 20;
/// Maximum number of bytes of an error in a report.
const SAMPLE_BYTES_MAX: usize = 4 << 10;
/// Maximum number of names of each dimension in a dashboard.
const DASHBOARD_NAMES_MAX: usize = 100;

/// Defaults of a report over all days, with these groups.
const fn all_days(group: &'static [Dimension]) -> Defaults {
    Defaults {
        group: Some(group),
        bucket: Some(Bucket::All),
        ..Defaults::PLAIN
    }
}

/// Builds a report from the rows that pass the filter, with their sums.
macro_rules! report {
    ($report:ident { $row:ident }: $analytics:ident, $scope:expr, $query:ident, $passes:expr, $sum:expr) => {{
        let scope = $scope;
        let mut kept = $analytics.caught_up()?;
        let (rows, row_count) = kept.sums(&scope, $query.rows_max(), $passes, $sum);
        let rows = rows.into_iter().map(|(of, sums)| $row { of, sums });
        Ok($report {
            rows: rows.collect(),
            row_count,
            total: kept.total(&scope, $sum),
            scope,
        })
    }};
}

impl Analytics {
    /// Messages and tokens of all roles. Default: all days, by model, configuration and day.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an invalid query, such as one whose
    /// `until` is before its `since`; otherwise as [`catch_up`](Self::catch_up). This applies to
    /// all reports.
    pub fn usage(&self, query: &AnalyticsQuery) -> Result<UsageReport> {
        let by_day = Defaults {
            bucket: Some(Bucket::Day),
            ..all_days(&[Dimension::Model, Dimension::Config])
        };
        let scope = query.scope("usage", &by_day)?;
        let mut kept = self.updated(|kept, store| kept.turns.catch_up(store))?;
        let (rows, row_count) = kept.sums(&scope, query.rows_max(), |_| true, rows::usage);
        let rows = rows.into_iter().map(|(of, sums)| UsageRow { of, sums });
        Ok(UsageReport {
            rows: rows.collect(),
            row_count,
            total: kept.total(&scope, rows::usage),
            turns: kept.turns.rows(&scope, query.rows_max()),
            scope,
        })
    }

    /// Sums of requests. Default: the current UTC day and the six days before it, by model and
    /// configuration.
    pub fn models(&self, query: &AnalyticsQuery) -> Result<ModelsReport> {
        let last_week = Defaults {
            days_before: Some(6),
            ..all_days(&[Dimension::Model, Dimension::Config])
        };
        let scope = query.scope("models", &last_week)?;
        report!(ModelsReport { ModelRow }: self, scope, query, has_answers, rows::models)
    }

    /// Latency. Default: all days, by orchestration mode.
    pub fn latency(&self, query: &AnalyticsQuery) -> Result<LatencyReport> {
        let scope = query.scope("latency", &all_days(&[Dimension::Mode]))?;
        let says = |row: &Row<'_>| has_requests(row) || row.any(|sums| sums.latency_count);
        report!(LatencyReport { LatencyRow }: self, scope, query, says, rows::latency)
    }

    /// Number of requests. Default: all days, by task type.
    pub fn tasks(&self, query: &AnalyticsQuery) -> Result<TasksReport> {
        let scope = query.scope("tasks", &all_days(&[Dimension::TaskType]))?;
        let mut kept = self.caught_up()?;
        let buckets = Scope {
            group: Vec::new(),
            ..scope.clone()
        };
        let (buckets, _) = kept.rows(&buckets);
        let of_bucket: HashMap<Option<Day>, u64> = buckets
            .iter()
            .map(|row| (row.bucket, row.requests))
            .collect();
        let (rows, row_count) = kept.sums(&scope, query.rows_max(), has_requests, rows::requests);
        let row = |(of, requests): (RowKey, u64)| {
            let all = of_bucket.get(&of.bucket).copied().unwrap_or(0);
            let share = rows::part(requests, all);
            let sums = TaskSums { requests, share };
            TaskRow { of, sums }
        };
        let rows = rows.into_iter().map(row).collect();
        let requests = kept.total(&scope, rows::requests);
        Ok(TasksReport {
            scope,
            rows,
            row_count,
            total: TaskSums {
                requests,
                share: rows::part(requests, requests),
            },
        })
    }

    /// Use of context windows. Default: all days, by model.
    pub fn context(&self, query: &AnalyticsQuery) -> Result<ContextReport> {
        let scope = query.scope("context", &all_days(&[Dimension::Model]))?;
        let says = |row: &Row<'_>| row.any(|sums| sums.context_utilization_count);
        report!(ContextReport { ContextRow }: self, scope, query, says, rows::context)
    }

    /// Compression of contexts. Default: all days, by model.
    pub fn compression(&self, query: &AnalyticsQuery) -> Result<CompressionReport> {
        let scope = query.scope("compression", &all_days(&[Dimension::Model]))?;
        let says = |row: &Row<'_>| has_requests(row) || row.any(|sums| sums.compressed);
        report!(CompressionReport { CompressionRow }: self, scope, query, says, rows::compression)
    }

    /// Errors of messages of all roles, by type. Default: all days, by model. Includes the latest
    /// errors in the log.
    pub fn errors(&self, query: &AnalyticsQuery) -> Result<ErrorsReport> {
        let scope = query.scope("errors", &all_days(&[Dimension::Model]))?;
        let mut kept = self.caught_up()?;
        let mut rows = error_rows(&mut kept, &scope);
        let row_count = rows.len();
        rows.truncate(query.rows_max());
        let total = kept.total(&scope, rows::errors);
        let latest = kept.latest_failed(&scope);
        drop(kept);
        Ok(ErrorsReport {
            rows,
            row_count,
            total,
            samples: self.samples(&latest)?,
            scope,
        })
    }

    /// Messages with errors, read from the log by their sequence numbers.
    fn samples(&self, seqs: &[u64]) -> Result<Vec<ErrorSample>> {
        let mut samples = Vec::new();
        let inner = self.store.inner();
        with_seqs(inner, seqs, |_, message: Box<ConversationMessage>| {
            let message = *message;
            samples.extend(message.error.map(|error| ErrorSample {
                id: message.id,
                conversation_id: message.conversation_id,
                timestamp: message.timestamp,
                model_used: message.model_used,
                error_type: message.error_type,
                error: clipped(error, SAMPLE_BYTES_MAX),
            }));
            Ok(())
        })?;
        Ok(samples)
    }

    /// Active conversations. Default: all days, by day. It has no groups.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) also for a bucket of several days if one of
    /// them has a rollup by another tool without conversation ids. It is then unknown which
    /// conversations were active on several days.
    pub fn active(&self, query: &AnalyticsQuery) -> Result<ActiveReport> {
        let by_day = Defaults {
            bucket: Some(Bucket::Day),
            ..Defaults::PLAIN
        };
        let scope = query.scope("active", &by_day)?;
        let counts = self.caught_up()?.conversations(&scope).map_err(|day| {
            let message = format!(
                "a rollup of {day} does not name the conversations of its messages: use bucket day, or a since after that day"
            );
            Error::invalid(message)
        })?;
        let row = |(bucket, conversations)| ActiveRow {
            bucket,
            conversations,
        };
        let rows = counts.into_iter().filter(|(_, count)| *count > 0).map(row);
        let mut rows: Vec<ActiveRow> = rows.collect();
        let row_count = rows.len();
        rows.truncate(query.rows_max());
        Ok(ActiveReport {
            scope,
            rows,
            row_count,
        })
    }

    /// The dashboard. Default: the current UTC day. It has no groups and no buckets.
    pub fn dashboard(&self, query: &AnalyticsQuery) -> Result<DashboardMetrics> {
        let today = Defaults {
            days_before: Some(0),
            ..Defaults::PLAIN
        };
        let scope = query.scope("dashboard", &today)?;
        let mut kept = self.caught_up()?;
        let usage = kept.total(&scope, rows::usage);
        let models = kept.total(&scope, rows::models);
        // An empty period has no conversations.
        let conversations = kept.conversations(&scope).ok();
        let conversations_today = conversations.map(|counts| {
            let of_all = counts.first();
            of_all.map_or(0, |(_, count)| *count)
        });
        let mut by = |dimension| -> BTreeMap<String, u64> {
            let scope = Scope {
                group: vec![dimension],
                ..scope.clone()
            };
            let (rows, _) = kept.sums(&scope, DASHBOARD_NAMES_MAX, has_requests, rows::requests);
            let named = rows.into_iter().filter_map(|(of, requests)| {
                // A row has only the name of its dimension.
                let name = of.model_used.or(of.config_used).or(of.task_type)?;
                Some((name, requests))
            });
            named.collect()
        };
        Ok(DashboardMetrics {
            conversations_today,
            messages_today: usage.messages,
            tokens_today: usage.tokens_in.saturating_add(usage.tokens_out),
            tokens_in_today: usage.tokens_in,
            tokens_out_today: usage.tokens_out,
            avg_latency_ms: models.latency_ms.avg,
            p95_latency_ms: models.latency_ms.p95,
            error_rate: models.error_rate,
            by_model: by(Dimension::Model),
            by_config: by(Dimension::Config),
            by_task_type: by(Dimension::TaskType),
            avg_context_utilization: models.context_utilization_avg,
            compression_rate: kept.total(&scope, rows::compression).rate,
            scope,
        })
    }
}

fn has_requests(row: &Row<'_>) -> bool {
    row.requests > 0
}

/// Whether a row contributes to the sums of requests. A row that only has parts of answers
/// contributes as well, if the requests themselves are in other groups or days.
fn has_answers(row: &Row<'_>) -> bool {
    has_requests(row)
        || row.any(|sums| sums.tokens_in)
        || row.any(|sums| sums.tokens_out)
        || row.any(|sums| sums.cost_count)
        || row.any(|sums| sums.latency_count)
        || row.any(|sums| sums.context_utilization_count)
        || row.any(|sums| sums.errors)
}

fn error_rows(kept: &mut Cache, scope: &Scope) -> Vec<ErrorRow> {
    let (rows, groups) = kept.rows(scope);
    let mut found = Vec::new();
    for row in rows {
        let mut types: BTreeMap<Option<&str>, u64> = BTreeMap::new();
        for cell in row.cells.iter().filter(|cell| cell.all.errors > 0) {
            let mut untold = cell.all.errors;
            for (error_type, errors) in &cell.all.errors_by_type {
                let sum = types.entry(Some(error_type)).or_default();
                *sum = sum.saturating_add(*errors);
                untold = untold.saturating_sub(*errors);
            }
            let sum = types.entry(None).or_default();
            *sum = sum.saturating_add(untold);
        }
        let types = types.into_iter().filter(|(_, errors)| *errors > 0);
        found.extend(types.map(|(error_type, errors)| ErrorRow {
            of: row.key(groups),
            sums: ErrorCount {
                error_type: error_type.map(str::to_owned),
                errors,
            },
        }));
    }
    found.sort_by_cached_key(|ErrorRow { of, sums }| {
        let names = (of.clone(), sums.error_type.clone());
        (of.bucket, Reverse(sums.errors), names)
    });
    found
}

impl Cache {
    /// The sequence numbers of the latest messages with an error, latest first.
    fn latest_failed(&self, scope: &Scope) -> Vec<u64> {
        let days = self.days(scope).rev();
        let failed = days.flat_map(|(_, kept)| kept.failed.iter().rev());
        failed.map(|(_, seq)| *seq).take(SAMPLES_MAX).collect()
    }
}
