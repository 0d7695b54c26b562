//! `decklog stats`

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::ValueEnum;
use decklog::analytics::{
    ActiveReport, AnalyticsQuery, Bucket, CompressionSums, ContextSums, DashboardMetrics,
    Dimension, ErrorSample, ErrorsReport, LatencyMs, LatencySums, ModelSums, RowKey, Scope,
    TaskSums, TurnSums, UsageReport, UsageSums,
};
use decklog::record::Day;
use serde::Serialize;

use super::context::Context;
use super::escape::{clipped, one_line, padded};
use super::exit::{Exit, Failure};
use super::output;
use super::show::{self, grouped};
use super::time;

const NAME_COLUMNS: usize = 20;

/// Report on tokens, latencies, errors, contexts and conversations
///
/// Messages that retention removed are counted too. A request is a message in the role
/// assistant, or a message in another role that has an error; a message that is part of another
/// one's answer is no request of its own. Latencies, compression and context are of messages in
/// the role assistant. Latency quantiles are accurate to 1 %.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog stats dashboard\n  decklog stats models --since 2025-12-01 --group model,task_type\n  decklog stats usage --bucket month --json | jq '.rows[] | {bucket, model_used, tokens_out}'"
)]
pub struct Args {
    /// The report
    #[arg(value_enum)]
    name: Name,
    /// Only this UTC day and later ones: YYYY-MM-DD. Default: all days; of models the last seven,
    /// of the dashboard today
    #[arg(long, value_name = "DAY")]
    since: Option<Day>,
    /// Only days before this one
    #[arg(long, value_name = "DAY")]
    until: Option<Day>,
    /// Columns to group by, separated by commas
    #[arg(long, value_delimiter = ',')]
    group: Option<Vec<Dimension>>,
    /// Bucket size. Default: day for usage and active, else no buckets
    #[arg(long)]
    bucket: Option<Bucket>,
    /// Maximum number of rows. Default: 1000
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Name {
    /// Messages and tokens, by model, configuration and day
    Usage,
    /// Requests, latency, tokens, context and errors, by model and configuration
    Models,
    /// Errors by type and model, and the latest errors
    Errors,
    /// Latency by orchestration mode
    Latency,
    /// Requests by task type
    Tasks,
    /// Use of context windows, by model
    Context,
    /// Compression of contexts, by model
    Compression,
    /// Active conversations, by day
    Active,
    /// An overview of today
    Dashboard,
}

/// Prints a report whose rows and total have the same columns.
macro_rules! tell {
    ($context:expr, $report:expr, $columns:expr, $cells:expr) => {{
        let report = $report;
        let mut table = Table::new(&report.scope, &[], &$columns);
        for row in &report.rows {
            table.row(&row.of, &[], $cells(&row.sums));
        }
        table.total($cells(&report.total));
        print($context, &report, &table, report.row_count)?;
    }};
}

const MODELS_COLUMNS: [&str; 10] = [
    "REQUESTS",
    "AVG MS",
    "P50 MS",
    "P95 MS",
    "P99 MS",
    "TOKENS IN",
    "TOKENS OUT",
    "CONTEXT",
    "ERRORS",
    "RATE",
];

fn of_model(sums: &ModelSums) -> Vec<String> {
    let mut cells = vec![grouped(sums.requests)];
    cells.extend(latency(&sums.latency_ms));
    cells.extend([grouped(sums.tokens_in), grouped(sums.tokens_out)]);
    cells.push(percent(sums.context_utilization_avg));
    cells.extend([grouped(sums.errors), percent(sums.error_rate)]);
    cells
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let analytics = store.analytics();
    let query = AnalyticsQuery {
        since: args.since,
        until: args.until,
        group: args.group.clone(),
        bucket: args.bucket,
        limit: args.limit,
    };
    match args.name {
        Name::Usage => {
            let report = analytics.usage(&query)?;
            tell!(context, &report, USAGE_COLUMNS, usage);
            if !context.json {
                print_turns(context, &report)?;
            }
        }
        Name::Models => tell!(context, analytics.models(&query)?, MODELS_COLUMNS, of_model),
        Name::Errors => print_errors(context, &analytics.errors(&query)?)?,
        Name::Latency => {
            let columns = ["REQUESTS", "AVG MS", "P50 MS", "P95 MS", "P99 MS"];
            let cells = |sums: &LatencySums| {
                let mut cells = vec![grouped(sums.requests)];
                cells.extend(latency(&sums.latency_ms));
                cells
            };
            tell!(context, analytics.latency(&query)?, columns, cells);
        }
        Name::Tasks => {
            let cells = |sums: &TaskSums| vec![grouped(sums.requests), percent(sums.share)];
            tell!(
                context,
                analytics.tasks(&query)?,
                ["REQUESTS", "SHARE"],
                cells
            );
        }
        Name::Context => {
            let cells = |sums: &ContextSums| vec![grouped(sums.count), percent(sums.avg)];
            tell!(
                context,
                analytics.context(&query)?,
                ["REQUESTS", "CONTEXT"],
                cells
            );
        }
        Name::Compression => {
            let columns = ["REQUESTS", "COMPRESSED", "RATE"];
            let cells = |sums: &CompressionSums| {
                let [requests, compressed] = [sums.requests, sums.compressed].map(grouped);
                vec![requests, compressed, percent(sums.rate)]
            };
            tell!(context, analytics.compression(&query)?, columns, cells);
        }
        Name::Active => print_active(context, &analytics.active(&query)?)?,
        Name::Dashboard => {
            let metrics = analytics.dashboard(&query)?;
            if context.json {
                context.out.json(&metrics)?;
            } else {
                print_dashboard(context, &metrics)?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn print_errors(context: &mut Context, report: &ErrorsReport) -> Result<(), Failure> {
    let mut table = Table::new(&report.scope, &["ERROR TYPE"], &["ERRORS"]);
    for row in &report.rows {
        let error_type = row.sums.error_type.as_deref();
        table.row(&row.of, &[error_type], vec![grouped(row.sums.errors)]);
    }
    table.total(vec![grouped(report.total.errors)]);
    print(context, report, &table, report.row_count)?;
    if context.json {
        return Ok(());
    }
    print_samples(context, &report.samples)
}

fn print_active(context: &mut Context, report: &ActiveReport) -> Result<(), Failure> {
    let mut table = Table::new(&report.scope, &[], &["CONVERSATIONS"]);
    for row in &report.rows {
        let of = RowKey {
            bucket: row.bucket,
            ..RowKey::default()
        };
        table.row(&of, &[], vec![grouped(row.conversations)]);
    }
    print(context, report, &table, report.row_count)
}

/// Names to the left and numbers to the right.
struct Table {
    scope: Scope,
    names: Vec<&'static str>,
    numbers: Vec<&'static str>,
    rows: Vec<(Vec<String>, Vec<String>)>,
    total: Option<Vec<String>>,
}

impl Table {
    fn new(scope: &Scope, names: &[&'static str], numbers: &[&'static str]) -> Table {
        let dimension = |of: &Dimension| match of {
            Dimension::Model => "MODEL",
            Dimension::Config => "CONFIG",
            Dimension::Mode => "MODE",
            Dimension::TaskType => "TASK",
        };
        Table {
            scope: scope.clone(),
            names: scope
                .group
                .iter()
                .map(dimension)
                .chain(names.iter().copied())
                .collect(),
            numbers: numbers.to_vec(),
            rows: Vec::new(),
            total: None,
        }
    }

    fn row(&mut self, of: &RowKey, more: &[Option<&str>], numbers: Vec<String>) {
        let mut names: Vec<String> = of.bucket.iter().map(Day::to_string).collect();
        let name = |name: Option<&str>| {
            let name = one_line(name.unwrap_or("-"));
            padded(&clipped(&name, NAME_COLUMNS), NAME_COLUMNS)
        };
        names.extend(self.scope.group.iter().map(|dimension| {
            name(match dimension {
                Dimension::Model => of.model_used.as_deref(),
                Dimension::Config => of.config_used.as_deref(),
                Dimension::Mode => of.orchestration_mode.as_deref(),
                Dimension::TaskType => of.task_type.as_deref(),
            })
        }));
        names.extend(more.iter().map(|one| name(*one)));
        self.rows.push((names, numbers));
    }

    fn total(&mut self, numbers: Vec<String>) {
        self.total = Some(numbers);
    }

    fn print(&self, context: &mut Context) -> Result<(), Failure> {
        const DAY_COLUMNS: usize = 10;
        let mut heading = Vec::new();
        if self.scope.bucket != Bucket::All {
            let name = self.scope.bucket.as_str().to_uppercase();
            heading.push(padded(&name, DAY_COLUMNS));
        }
        heading.extend(self.names.iter().map(|name| padded(name, NAME_COLUMNS)));
        let width = heading.iter().map(|name| name.len() + 2).sum::<usize>();
        let total = self.total.iter().map(|numbers| {
            let name = padded("total", width.saturating_sub(2));
            (vec![name], numbers.clone())
        });
        let numbers = self.numbers.iter().map(|name| (*name).to_owned()).collect();
        let lines: Vec<(Vec<String>, Vec<String>)> = [(heading, numbers)]
            .into_iter()
            .chain(self.rows.iter().cloned())
            .chain(total)
            .collect();
        let mut widths = vec![0; self.numbers.len()];
        for (_, numbers) in &lines {
            for (width, number) in widths.iter_mut().zip(numbers) {
                *width = number.len().max(*width);
            }
        }
        for (names, numbers) in lines {
            let numbers = numbers.iter().zip(&widths);
            let numbers = numbers.map(|(number, width)| format!("{number:>width$}"));
            let cells: Vec<String> = names.into_iter().chain(numbers).collect();
            show::row(&mut context.out, &cells.join("  "))?;
        }
        Ok(())
    }
}

/// A report as JSON, or its table.
fn print(
    context: &mut Context,
    report: &impl Serialize,
    table: &Table,
    row_count: usize,
) -> Result<(), Failure> {
    if context.json {
        return Ok(context.out.json(report)?);
    }
    if row_count == 0 {
        output::say("no such messages in this period");
        return Ok(());
    }
    table.print(context)?;
    if table.rows.len() < row_count {
        context.out.flush()?;
        let (shown, all) = (grouped(table.rows.len() as u64), grouped(row_count as u64));
        output::say(&format!("{shown} of {all} rows shown: set --limit"));
    }
    Ok(())
}

/// The tokens of turn.completed events; messages may have the same tokens.
fn print_turns(context: &mut Context, report: &UsageReport) -> Result<(), Failure> {
    if report.turns.is_empty() {
        return Ok(());
    }
    let by_model = report.scope.group.contains(&Dimension::Model);
    let scope = Scope {
        group: by_model.then_some(Dimension::Model).into_iter().collect(),
        ..report.scope.clone()
    };
    let mut table = Table::new(&scope, &[], &["TURNS", "TOKENS IN", "TOKENS OUT"]);
    for row in &report.turns {
        let TurnSums {
            turns,
            tokens_in,
            tokens_out,
        } = row.sums;
        let numbers = [turns, tokens_in, tokens_out].map(grouped);
        table.row(&row.of, &[], numbers.to_vec());
    }
    context.out.line("")?;
    show::row(
        &mut context.out,
        "turn.completed events, not counted above:",
    )?;
    table.print(context)
}

fn print_samples(context: &mut Context, samples: &[ErrorSample]) -> Result<(), Failure> {
    if samples.is_empty() {
        return Ok(());
    }
    context.out.line("")?;
    show::row(&mut context.out, "the latest:")?;
    for sample in samples {
        let words = [sample.model_used.as_deref(), sample.error_type.as_deref()];
        let words = words.into_iter().flatten().chain([sample.error.as_str()]);
        let text: Vec<String> = words
            .map(|word| one_line(word.trim()).into_owned())
            .collect();
        let at = time::shown(sample.timestamp.at());
        show::row(&mut context.out, &format!("{at}  {}", text.join("  ")))?;
    }
    Ok(())
}

fn print_dashboard(context: &mut Context, metrics: &DashboardMetrics) -> Result<(), Failure> {
    const LABEL_COLUMNS: usize = 15;
    let Scope { since, until, .. } = &metrics.scope;
    let days = [("since", since), ("until", until)];
    let days = days.map(|(word, day)| day.map(|day| format!("{word} {day}")));
    let days: Vec<String> = days.into_iter().flatten().collect();
    let ms = |ms: Option<f64>| format!("{} ms", whole(ms));
    let requests = |these: &BTreeMap<String, u64>| -> String {
        let mut these: Vec<(&String, &u64)> = these.iter().collect();
        these.sort_by_key(|(_, requests)| Reverse(**requests));
        let one = |(name, requests): (&String, &u64)| {
            format!(
                "{} {}",
                clipped(&one_line(name), NAME_COLUMNS),
                grouped(*requests)
            )
        };
        let these: Vec<String> = these.into_iter().map(one).collect();
        these.join(", ")
    };
    let conversations = metrics.conversations_today.map_or("-".to_owned(), grouped);
    for (label, value) in [
        ("days", days.join(", ")),
        ("conversations", conversations),
        ("messages", grouped(metrics.messages_today)),
        (
            "tokens",
            format!(
                "{} in, {} out",
                grouped(metrics.tokens_in_today),
                grouped(metrics.tokens_out_today)
            ),
        ),
        (
            "latency",
            format!(
                "avg {}, p95 {}",
                ms(metrics.avg_latency_ms),
                ms(metrics.p95_latency_ms)
            ),
        ),
        ("errors", percent(metrics.error_rate)),
        ("context", percent(metrics.avg_context_utilization)),
        ("compressed", percent(metrics.compression_rate)),
        ("models", requests(&metrics.by_model)),
        ("configs", requests(&metrics.by_config)),
        ("tasks", requests(&metrics.by_task_type)),
    ] {
        show::row(&mut context.out, &format!("{label:<LABEL_COLUMNS$}{value}"))?;
    }
    Ok(())
}

const USAGE_COLUMNS: [&str; 8] = [
    "MESSAGES",
    "REQUESTS",
    "TOKENS IN",
    "INPUT",
    "CACHE WRITE",
    "CACHE READ",
    "TOKENS OUT",
    "REASONING",
];

fn usage(sums: &UsageSums) -> Vec<String> {
    let cells = [
        sums.messages,
        sums.requests,
        sums.tokens_in,
        sums.tokens_input,
        sums.tokens_cache_write,
        sums.tokens_cache_read,
        sums.tokens_out,
        sums.tokens_reasoning,
    ];
    cells.map(grouped).to_vec()
}

fn latency(ms: &LatencyMs) -> [String; 4] {
    [ms.avg, ms.p50, ms.p95, ms.p99].map(whole)
}

/// A number without its fraction, or `-`.
fn whole(number: Option<f64>) -> String {
    // Never negative; saturates at 64 bits.
    #[allow(clippy::cast_sign_loss)]
    number.map_or("-".to_owned(), |number| grouped(number.round() as u64))
}

fn percent(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.1} %", part * 100.0))
}
