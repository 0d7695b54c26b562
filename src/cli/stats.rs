//! `decklog stats`

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::ValueEnum;
use decklog::analytics::{
    ActiveReport, AnalyticsQuery, Bucket, CompressionSums, ContextSums, DashboardMetrics,
    Dimension, ErrorSample, ErrorsReport, LatencySums, ModelSums, RowKey, Scope, TaskSums,
    TurnSums, UsageReport, UsageSums,
};
use decklog::human::{count, dollars};
use decklog::record::Day;
use serde::Serialize;

use super::context::Context;
use super::escape::{one_line, padded};
use super::exit::{Exit, Failure};
use super::output;
use super::show::{self, whole};
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

/// The columns of a report: their headings, and how each shows the sums of a row.
type Columns<S> = [(&'static str, fn(&S) -> String)];

/// Prints a report whose rows and total have the same columns.
macro_rules! tell {
    ($context:expr, $report:expr, $columns:expr) => {{
        let report = $report;
        let rows = report.rows.iter().map(|row| (&row.of, &row.sums));
        let mut table = Table::of(&report.scope, $columns, rows);
        table.total(
            $columns
                .iter()
                .map(|(_, cell)| cell(&report.total))
                .collect(),
        );
        print(
            $context,
            &report,
            &table,
            [report.rows.len(), report.row_count],
        )?;
    }};
}

const USAGE: &Columns<UsageSums> = &[
    ("MESSAGES", |sums| count(sums.messages)),
    ("REQUESTS", |sums| count(sums.requests)),
    ("TOKENS IN", |sums| count(sums.tokens_in)),
    ("INPUT", |sums| count(sums.tokens_input)),
    ("CACHE WRITE", |sums| count(sums.tokens_cache_write)),
    ("CACHE READ", |sums| count(sums.tokens_cache_read)),
    ("TOKENS OUT", |sums| count(sums.tokens_out)),
    ("REASONING", |sums| count(sums.tokens_reasoning)),
    ("COST", |sums| sums.cost_usd.map_or("-".into(), dollars)),
];

const MODELS: &Columns<ModelSums> = &[
    ("REQUESTS", |sums| count(sums.requests)),
    ("AVG MS", |sums| whole(sums.latency_ms.avg)),
    ("P50 MS", |sums| whole(sums.latency_ms.p50)),
    ("P95 MS", |sums| whole(sums.latency_ms.p95)),
    ("P99 MS", |sums| whole(sums.latency_ms.p99)),
    ("TOKENS IN", |sums| count(sums.tokens_in)),
    ("TOKENS OUT", |sums| count(sums.tokens_out)),
    ("CONTEXT", |sums| percent(sums.context_utilization_avg)),
    ("ERRORS", |sums| count(sums.errors)),
    ("RATE", |sums| percent(sums.error_rate)),
];

const LATENCY: &Columns<LatencySums> = &[
    ("REQUESTS", |sums| count(sums.requests)),
    ("AVG MS", |sums| whole(sums.latency_ms.avg)),
    ("P50 MS", |sums| whole(sums.latency_ms.p50)),
    ("P95 MS", |sums| whole(sums.latency_ms.p95)),
    ("P99 MS", |sums| whole(sums.latency_ms.p99)),
];

const TASKS: &Columns<TaskSums> = &[
    ("REQUESTS", |sums| count(sums.requests)),
    ("SHARE", |sums| percent(sums.share)),
];

const CONTEXT: &Columns<ContextSums> = &[
    ("REQUESTS", |sums| count(sums.count)),
    ("CONTEXT", |sums| percent(sums.avg)),
];

const COMPRESSION: &Columns<CompressionSums> = &[
    ("REQUESTS", |sums| count(sums.requests)),
    ("COMPRESSED", |sums| count(sums.compressed)),
    ("RATE", |sums| percent(sums.rate)),
];

const TURNS: &Columns<TurnSums> = &[
    ("TURNS", |sums| count(sums.turns)),
    ("TOKENS IN", |sums| count(sums.tokens_in)),
    ("TOKENS OUT", |sums| count(sums.tokens_out)),
];

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let analytics = store.analytics();
    let query = AnalyticsQuery {
        since: args.since,
        until: args.until,
        group: args.group.clone(),
        bucket: args.bucket,
        limit: args.limit,
        ..AnalyticsQuery::default()
    };
    match args.name {
        Name::Usage => {
            let report = analytics.usage(&query)?;
            tell!(context, &report, USAGE);
            if !context.json {
                print_turns(context, &report)?;
            }
        }
        Name::Models => tell!(context, analytics.models(&query)?, MODELS),
        Name::Errors => print_errors(context, &analytics.errors(&query)?)?,
        Name::Latency => tell!(context, analytics.latency(&query)?, LATENCY),
        Name::Tasks => tell!(context, analytics.tasks(&query)?, TASKS),
        Name::Context => tell!(context, analytics.context(&query)?, CONTEXT),
        Name::Compression => tell!(context, analytics.compression(&query)?, COMPRESSION),
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
        table.row(&row.of, &[error_type], vec![count(row.sums.errors)]);
    }
    table.total(vec![count(report.total.errors)]);
    print(
        context,
        report,
        &table,
        [report.rows.len(), report.row_count],
    )?;
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
        table.row(&of, &[], vec![count(row.conversations)]);
    }
    print(
        context,
        report,
        &table,
        [report.rows.len(), report.row_count],
    )
}

/// Names to the left and numbers to the right.
struct Table<'a> {
    scope: &'a Scope,
    /// The heading, the rows, and the total if there is one.
    lines: Vec<(Vec<String>, Vec<String>)>,
}

impl<'a> Table<'a> {
    fn new(scope: &'a Scope, names: &[&str], numbers: &[&str]) -> Table<'a> {
        const DAY_COLUMNS: usize = 10;
        let bucket = (scope.bucket != Bucket::All)
            .then(|| padded(&scope.bucket.as_str().to_uppercase(), DAY_COLUMNS));
        let dimensions = scope.group.iter().map(|of| match of {
            Dimension::Model => "MODEL",
            Dimension::Config => "CONFIG",
            Dimension::Mode => "MODE",
            Dimension::TaskType => "TASK",
        });
        let names = dimensions.chain(names.iter().copied());
        let names = names.map(|name| padded(name, NAME_COLUMNS));
        let names = bucket.into_iter().chain(names).collect();
        let numbers = numbers.iter().map(|name| (*name).to_owned()).collect();
        let lines = vec![(names, numbers)];
        Table { scope, lines }
    }

    fn of<'s, S: 's>(
        scope: &'a Scope,
        columns: &Columns<S>,
        rows: impl Iterator<Item = (&'s RowKey, &'s S)>,
    ) -> Table<'a> {
        let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
        let mut table = Table::new(scope, &[], &headings);
        for (of, sums) in rows {
            table.row(
                of,
                &[],
                columns.iter().map(|(_, cell)| cell(sums)).collect(),
            );
        }
        table
    }

    fn row(&mut self, of: &RowKey, more: &[Option<&str>], numbers: Vec<String>) {
        let dimensions = self.scope.group.iter().map(|dimension| match dimension {
            Dimension::Model => of.model_used.as_deref(),
            Dimension::Config => of.config_used.as_deref(),
            Dimension::Mode => of.orchestration_mode.as_deref(),
            Dimension::TaskType => of.task_type.as_deref(),
        });
        let names = dimensions.chain(more.iter().copied());
        let names = names.map(|name| padded(&show::name(name, NAME_COLUMNS), NAME_COLUMNS));
        let bucket = of.bucket.iter().map(Day::to_string);
        self.lines.push((bucket.chain(names).collect(), numbers));
    }

    fn total(&mut self, numbers: Vec<String>) {
        let heading = self.lines.iter().take(1).flat_map(|(names, _)| names);
        let width: usize = heading.map(|name| name.len() + 2).sum();
        let name = padded("total", width.saturating_sub(2));
        self.lines.push((vec![name], numbers));
    }

    fn print(&self, context: &mut Context) -> Result<(), Failure> {
        let mut widths = Vec::new();
        for (_, numbers) in &self.lines {
            widths.resize(numbers.len(), 0);
            for (width, number) in widths.iter_mut().zip(numbers) {
                *width = number.len().max(*width);
            }
        }
        for (names, numbers) in &self.lines {
            let numbers = numbers.iter().zip(&widths);
            let numbers = numbers.map(|(number, width)| format!("{number:>width$}"));
            let cells: Vec<String> = names.iter().cloned().chain(numbers).collect();
            show::row(&mut context.out, &cells.join("  "))?;
        }
        Ok(())
    }
}

/// A report as JSON, or its table. `shown` of `all` rows are in the report.
fn print(
    context: &mut Context,
    report: &impl Serialize,
    table: &Table<'_>,
    [shown, all]: [usize; 2],
) -> Result<(), Failure> {
    if context.json {
        return Ok(context.out.json(report)?);
    }
    if all == 0 {
        output::say("no such messages in this period");
        return Ok(());
    }
    table.print(context)?;
    if shown < all {
        let [shown, all] = [shown, all].map(|rows| count(rows as u64));
        context.say_below(&format!("{shown} of {all} rows shown: set --limit"))?;
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
    let rows = report.turns.iter().map(|row| (&row.of, &row.sums));
    let table = Table::of(&scope, TURNS, rows);
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
        let text: Vec<_> = words.map(|word| one_line(word.trim())).collect();
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
    let requests = |these: &BTreeMap<String, u64>| {
        let mut these: Vec<(&String, &u64)> = these.iter().collect();
        these.sort_by_key(|(_, requests)| Reverse(**requests));
        let these = these.into_iter().map(|(name, requests)| {
            let name = show::name(Some(name.as_str()), NAME_COLUMNS);
            format!("{name} {}", count(*requests))
        });
        these.collect::<Vec<String>>().join(", ")
    };
    let conversations = metrics.conversations_today.map_or("-".to_owned(), count);
    let tokens = [metrics.tokens_in_today, metrics.tokens_out_today];
    let [tokens_in, tokens_out] = tokens.map(count);
    let [avg, p95] = [metrics.avg_latency_ms, metrics.p95_latency_ms].map(whole);
    for (label, value) in [
        ("days", days.join(", ")),
        ("conversations", conversations),
        ("messages", count(metrics.messages_today)),
        ("tokens", format!("{tokens_in} in, {tokens_out} out")),
        ("latency", format!("avg {avg} ms, p95 {p95} ms")),
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

fn percent(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.1} %", part * 100.0))
}
