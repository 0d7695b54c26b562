//! Shell commands by program: how often they ran, how often they failed, and how long they took.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;
use uuid::Uuid;

use super::{
    CallEnd, ROWS_DEFAULT, TEXT_CHARS_MAX, Talks, WorkQuery, each_call, moment, why_failed,
};
use crate::analytics::Analytics;
use crate::analytics::rows::part;
use crate::analytics::shell::{self, Command};
use crate::error::Result;
use crate::human::one_line;
use crate::record::{Sketch, Timestamp, ToolCall};

/// The time that commands took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CommandLatencyMs {
    /// The average. Absent, like the others, if no run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
    /// The 95th percentile, within 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// The maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// The runs of commands.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CommandSums {
    /// Number of runs.
    pub runs: u64,
    /// Number of runs that failed: their call failed, or their outcome has an exit code other
    /// than 0.
    pub failed: u64,
    /// Number of runs that the user or the client denied. They are not counted as failed.
    pub denied: u64,
    /// Number of runs without an outcome.
    pub running: u64,
    /// Failed runs divided by runs that ended, from 0 to 1. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_rate: Option<f64>,
    /// The time of the runs that ended.
    pub latency_ms: CommandLatencyMs,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CommandFailure {
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The start of the command, in one line.
    pub command: String,
    /// The first line of its output that says what went wrong. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The conversation of the call, if it is in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<Uuid>,
    /// The request of the call.
    pub request_id: Uuid,
    /// The id of the call.
    pub call_id: String,
}

/// The runs of a command.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CommandRow {
    /// The program and, for programs that have subcommands, the subcommand: `cargo test`.
    pub command: String,
    /// The sums of its runs.
    #[serde(flatten)]
    pub sums: CommandSums,
    /// The latest run that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_failure: Option<CommandFailure>,
}

/// Shell commands by program and subcommand.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct CommandsReport {
    /// The rows: most failures first, then most runs.
    pub rows: Vec<CommandRow>,
    /// Number of rows without the limit.
    pub row_count: usize,
    /// The sums of all rows, including those past the limit.
    pub total: CommandSums,
    /// Number of shell calls without a recognised command in their arguments.
    pub not_understood: u64,
}

/// The sums of a command while they are collected.
#[derive(Default)]
struct Sums {
    counts: CommandSums,
    count: u64,
    sum_ms: u64,
    sketch: Sketch,
    /// The start and the turn of the latest failure.
    latest: Option<(i64, Uuid, CommandFailure)>,
}

impl Sums {
    fn add(&mut self, (_, done): &ToolCall, end: CallEnd) {
        let sums = &mut self.counts;
        sums.runs += 1;
        sums.failed += u64::from(end == CallEnd::Failed);
        sums.denied += u64::from(end == CallEnd::Denied);
        sums.running += u64::from(end == CallEnd::Requested);
        let latency = done.as_ref().filter(|_| end != CallEnd::Denied);
        let latency = latency.and_then(|done| u64::try_from(done.latency_ms).ok());
        if let Some(ms) = latency {
            self.count += 1;
            self.sum_ms = self.sum_ms.saturating_add(ms);
            sums.latency_ms.max = sums.latency_ms.max.max(Some(ms));
            self.sketch.add(ms);
        }
    }

    fn merge(&mut self, other: &Sums) {
        let (sums, more) = (&mut self.counts, &other.counts);
        sums.runs += more.runs;
        sums.failed += more.failed;
        sums.denied += more.denied;
        sums.running += more.running;
        sums.latency_ms.max = sums.latency_ms.max.max(more.latency_ms.max);
        self.count += other.count;
        self.sum_ms = self.sum_ms.saturating_add(other.sum_ms);
        self.sketch.merge(&other.sketch);
    }

    fn whole(&self) -> CommandSums {
        let sums = &self.counts;
        let ended = sums.runs.saturating_sub(sums.running + sums.denied);
        #[allow(clippy::cast_precision_loss)] // Quantiles are within 1 %.
        let max = sums.latency_ms.max.map(|max| max as f64);
        CommandSums {
            failure_rate: part(sums.failed, ended),
            latency_ms: CommandLatencyMs {
                avg: part(self.sum_ms, self.count),
                p95: self
                    .sketch
                    .quantile(0.95)
                    .map(|p95| max.map_or(p95, |max| p95.min(max))),
                max: sums.latency_ms.max,
            },
            ..sums.clone()
        }
    }

    fn fail(&mut self, (request, done): &ToolCall, command: &Command) {
        let at = request.started_at.at;
        if self
            .latest
            .as_ref()
            .is_some_and(|(latest, ..)| *latest > at)
        {
            return;
        }
        let failure = CommandFailure {
            at: moment(at),
            command: one_line(&command.script(), TEXT_CHARS_MAX),
            error: done.as_ref().and_then(why_failed),
            conversation_id: None,
            request_id: request.request_id,
            call_id: request.call_id.clone(),
        };
        self.latest = Some((at, request.parent_id, failure));
    }
}

impl Analytics {
    /// Shell commands by program and subcommand, most failures first. A command such as
    /// `cd x && sudo timeout 60 cargo test` counts as `cargo test`.
    ///
    /// ```
    /// # use decklog::{Store, ToolCallReq, ToolCallDone, ToolStatus};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// use decklog::analytics::WorkQuery;
    ///
    /// let id = uuid::Uuid::new_v4();
    /// let arguments = r#"{"command":"cd app && cargo test --lib"}"#;
    /// store.record(ToolCallReq {
    ///     arguments_json: Some(arguments.into()),
    ///     ..ToolCallReq::new(id, "c1", "anthropic", "Bash")
    /// })?;
    /// store.record(ToolCallDone::new(id, "c1", ToolStatus::Failed))?;
    /// let report = store.analytics().commands(&WorkQuery::default())?;
    /// assert_eq!((&*report.rows[0].command, report.rows[0].sums.failed), ("cargo test", 1));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors of reading records; [`InvalidInput`](crate::ErrorKind::InvalidInput) if `until` is
    /// before `since`.
    pub fn commands(&self, query: &WorkQuery) -> Result<CommandsReport> {
        let mut all: HashMap<String, Sums> = HashMap::new();
        let mut not_understood = 0;
        let mut talks = Talks::new(&self.store);
        each_call(&mut talks, query, Some(shell::TOOLS), |call, _| {
            let arguments = call.0.arguments_json.as_deref();
            let Some(command) = arguments.and_then(Command::of) else {
                not_understood += 1;
                return;
            };
            let end = CallEnd::of(call.1.as_ref(), true);
            let sums = all.entry(command.name()).or_default();
            sums.add(call, end);
            if end == CallEnd::Failed {
                sums.fail(call, &command);
            }
        })?;
        let mut total = Sums::default();
        for sums in all.values() {
            total.merge(sums);
        }
        let mut rows: Vec<(String, Sums)> = all.into_iter().collect();
        rows.sort_by(|(name, one), (other_name, other)| {
            let order = |sums: &CommandSums| Reverse((sums.failed, sums.runs));
            order(&one.counts)
                .cmp(&order(&other.counts))
                .then_with(|| name.cmp(other_name))
        });
        let row_count = rows.len();
        rows.truncate(query.limit.unwrap_or(ROWS_DEFAULT));
        let inner = self.store.inner();
        let row = |(command, sums): (String, Sums)| {
            let whole = sums.whole();
            let latest = sums.latest.map(|(_, turn, mut failure)| {
                let found = talks.places.of_turns(inner, &[turn])?;
                failure.conversation_id = found.into_iter().next().flatten();
                Ok(failure)
            });
            Ok(CommandRow {
                command,
                sums: whole,
                latest_failure: latest.transpose()?,
            })
        };
        Ok(CommandsReport {
            rows: rows.into_iter().map(row).collect::<Result<_>>()?,
            row_count,
            total: total.whole(),
            not_understood,
        })
    }
}
