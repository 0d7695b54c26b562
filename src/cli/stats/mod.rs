//! `decklog stats`

mod columns;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::ValueEnum;
use decklog::analytics::{
    ActiveReport, AnalyticsQuery, Bucket, DashboardMetrics, Dimension, ErrorSample, ErrorsReport,
    RowKey, Scope, UsageReport,
};
use decklog::human::{average, count, percent};
use decklog::record::Day;
use serde::Serialize;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output;
use super::show;
use super::table::{Cell, Column, Table};
use super::time;
use columns::{COMPRESSION, CONTEXT, Columns, LATENCY, MODELS, TASKS, TURNS, USAGE, tokens};

/// Columns of a name in the dashboard.
const NAME_COLUMNS: usize = 20;

/// Report on tokens, costs, latencies, errors, contexts and conversations
///
/// Without a name: messages and tokens by day, or as --by says. Messages that retention removed are
/// counted too. A request is a message in the role assistant, or a message in another role that has
/// an error; a message that is part of another one's answer is no request of its own. Latencies,
/// compression and context are of messages in the role assistant. Latency quantiles are accurate to
/// 1 %.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog stats --since 2025-12-01\n  decklog stats --by week,model --csv > usage.csv\n  decklog stats models --since 2025-12-01 --by model,task_type\n  decklog stats usage --by month,model --json | jq '.rows[] | {bucket, model_used, tokens_out}'"
)]
pub struct Args {
    /// The report
    #[arg(value_enum)]
    name: Option<Name>,
    /// What each row is of, separated by commas: a period, or groups, or both
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with_all = ["group", "bucket"])]
    by: Vec<By>,
    /// Only this UTC day and later ones: YYYY-MM-DD. Default: all days; of models the last seven,
    /// of the dashboard today
    #[arg(long, value_name = "DAY")]
    since: Option<Day>,
    /// Only days before this one
    #[arg(long, value_name = "DAY")]
    until: Option<Day>,
    /// Columns to group by, separated by commas; the period is that of --bucket
    #[arg(long, value_delimiter = ',')]
    group: Option<Vec<Dimension>>,
    /// Bucket size. Default: day for usage and active, else no buckets
    #[arg(long)]
    bucket: Option<Bucket>,
    /// Maximum number of rows. Default: 1000
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print the rows as CSV: plain numbers, no total
    #[arg(long)]
    csv: bool,
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

/// What a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Day,
    Week,
    Month,
    Model,
    Config,
    Mode,
    #[value(name = "task_type")]
    TaskType,
}

impl By {
    fn bucket(self) -> Option<Bucket> {
        match self {
            By::Day => Some(Bucket::Day),
            By::Week => Some(Bucket::Week),
            By::Month => Some(Bucket::Month),
            _ => None,
        }
    }

    fn dimension(self) -> Option<Dimension> {
        match self {
            By::Model => Some(Dimension::Model),
            By::Config => Some(Dimension::Config),
            By::Mode => Some(Dimension::Mode),
            By::TaskType => Some(Dimension::TaskType),
            _ => None,
        }
    }
}

/// Prints a report whose rows and total have the same columns. The column with this key has a bar.
macro_rules! tell {
    ($told:expr, $report:expr, $columns:expr, $bar:expr) => {{
        let report = $report;
        let rows = report.rows.iter().map(|row| (&row.of, &row.sums));
        let mut table = table(&report.scope, $columns, rows);
        table.total = Some(
            $columns
                .iter()
                .map(|(_, cell)| cell(&report.total))
                .collect(),
        );
        table.bar = table.columns.iter().position(|column| column.key == $bar);
        $told.print(report, &table, [report.rows.len(), report.row_count])?;
    }};
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    if args.csv && context.json {
        return Err(Failure::usage("give --csv or --json, not both"));
    }
    let query = query(args)?;
    let store = context.open_to_read()?;
    let analytics = store.analytics();
    let mut told = Teller {
        context,
        csv: args.csv,
    };
    match args.name.unwrap_or(Name::Usage) {
        Name::Usage => {
            let report = analytics.usage(&query)?;
            let bar = if tokens(&report.total) > 0 {
                "tokens"
            } else {
                "messages"
            };
            tell!(told, &report, USAGE, bar);
            told.print_turns(&report)?;
        }
        Name::Models => tell!(told, &analytics.models(&query)?, MODELS, "requests"),
        Name::Errors => told.print_errors(&analytics.errors(&query)?)?,
        Name::Latency => tell!(told, &analytics.latency(&query)?, LATENCY, "latency_ms_avg"),
        Name::Tasks => tell!(told, &analytics.tasks(&query)?, TASKS, "share"),
        Name::Context => {
            let report = analytics.context(&query)?;
            tell!(told, &report, CONTEXT, "context_utilization_avg");
        }
        Name::Compression => tell!(told, &analytics.compression(&query)?, COMPRESSION, "rate"),
        Name::Active => told.print_active(&analytics.active(&query)?)?,
        Name::Dashboard if args.csv => {
            return Err(Failure::usage("the dashboard is no table: omit --csv"));
        }
        Name::Dashboard => {
            let metrics = analytics.dashboard(&query)?;
            if told.context.json {
                told.context.out.json(&metrics)?;
            } else {
                print_dashboard(told.context, &metrics)?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn query(args: &Args) -> Result<AnalyticsQuery, Failure> {
    let is_plain = args.name.is_none() && args.group.is_none() && args.bucket.is_none();
    let by = match &args.by[..] {
        [] if is_plain => &[By::Day][..],
        by => by,
    };
    let mut buckets = by.iter().filter_map(|by| by.bucket());
    let (bucket, others) = (buckets.next(), buckets.count());
    if others > 0 {
        return Err(Failure::usage(
            "--by has several periods: give one of day, week and month",
        ));
    }
    let dimensions = by.iter().filter_map(|by| by.dimension());
    let is_by = !by.is_empty();
    Ok(AnalyticsQuery {
        since: args.since,
        until: args.until,
        group: is_by
            .then(|| dimensions.collect())
            .or_else(|| args.group.clone()),
        bucket: bucket.or(is_by.then_some(Bucket::All)).or(args.bucket),
        limit: args.limit,
    })
}

/// The table of a report. It has the texts of a row's key to the left, and numbers to the right.
fn table<'s, S: 's>(
    scope: &Scope,
    columns: &Columns<S>,
    rows: impl Iterator<Item = (&'s RowKey, &'s S)>,
) -> Table {
    let numbers = columns.iter().map(|(column, _)| *column);
    let row = |(of, sums): (&RowKey, &S)| {
        let numbers = columns.iter().map(|(_, cell)| cell(sums));
        texts(scope, of).chain(numbers).collect()
    };
    Table {
        columns: text_columns(scope).chain(numbers).collect(),
        rows: rows.map(row).collect(),
        ..Table::default()
    }
}

/// The columns of the bucket and the groups of rows.
fn text_columns(scope: &Scope) -> impl Iterator<Item = Column> {
    let bucket = match scope.bucket {
        Bucket::Day => Some(Column::text("DAY", "day")),
        Bucket::Week => Some(Column::text("WEEK", "week")),
        Bucket::Month => Some(Column::text("MONTH", "month")),
        Bucket::All => None,
    };
    let dimensions = scope.group.iter().map(|of| match of {
        Dimension::Model => Column::text("MODEL", "model_used"),
        Dimension::Config => Column::text("CONFIG", "config_used"),
        Dimension::Mode => Column::text("MODE", "orchestration_mode"),
        Dimension::TaskType => Column::text("TASK", "task_type"),
    });
    bucket.into_iter().chain(dimensions)
}

/// The bucket and the groups of a row.
fn texts(scope: &Scope, of: &RowKey) -> impl Iterator<Item = Cell> {
    let bucket = (scope.bucket != Bucket::All).then(|| of.bucket.map(|day| day.to_string()));
    let dimensions = scope.group.iter().map(|dimension| match dimension {
        Dimension::Model => of.model_used.clone(),
        Dimension::Config => of.config_used.clone(),
        Dimension::Mode => of.orchestration_mode.clone(),
        Dimension::TaskType => of.task_type.clone(),
    });
    bucket.into_iter().chain(dimensions).map(Cell::Text)
}

/// Prints reports.
struct Teller<'a> {
    context: &'a mut Context,
    csv: bool,
}

impl Teller<'_> {
    /// A report as JSON, or its table. `shown` of `all` rows are in the report.
    fn print(
        &mut self,
        report: &impl Serialize,
        table: &Table,
        [shown, all]: [usize; 2],
    ) -> Result<(), Failure> {
        let context = &mut *self.context;
        if context.json {
            return Ok(context.out.json(report)?);
        }
        if self.csv {
            table.csv(&mut context.out)?;
        } else if all == 0 {
            output::say("no such messages in this period");
        } else {
            table.print(&mut context.out)?;
        }
        if shown < all {
            let [shown, all] = [shown, all].map(|rows| count(rows as u64));
            context.say_below(&format!("{shown} of {all} rows shown: set --limit"))?;
        }
        Ok(())
    }

    /// Whether only one table is to be printed.
    fn is_for_programs(&self) -> bool {
        self.csv || self.context.json
    }

    fn print_errors(&mut self, report: &ErrorsReport) -> Result<(), Failure> {
        let columns = [
            Column::text("ERROR TYPE", "error_type"),
            Column::number("ERRORS", "errors", 0),
        ];
        let rows = report.rows.iter().map(|row| {
            let error_type = Cell::Text(row.sums.error_type.clone());
            let numbers = [error_type, Cell::Count(row.sums.errors)];
            texts(&report.scope, &row.of).chain(numbers).collect()
        });
        let columns: Vec<Column> = text_columns(&report.scope).chain(columns).collect();
        let table = Table {
            bar: Some(columns.len() - 1),
            columns,
            rows: rows.collect(),
            total: Some(vec![Cell::Count(report.total.errors)]),
        };
        self.print(report, &table, [report.rows.len(), report.row_count])?;
        if self.is_for_programs() {
            return Ok(());
        }
        print_samples(self.context, &report.samples)
    }

    fn print_active(&mut self, report: &ActiveReport) -> Result<(), Failure> {
        let number = Column::number("CONVERSATIONS", "conversations", 0);
        let columns: Vec<Column> = text_columns(&report.scope).chain([number]).collect();
        let rows = report.rows.iter().map(|row| {
            let of = RowKey {
                bucket: row.bucket,
                ..RowKey::default()
            };
            let conversations = Cell::Count(row.conversations);
            texts(&report.scope, &of).chain([conversations]).collect()
        });
        let table = Table {
            bar: Some(columns.len() - 1),
            columns,
            rows: rows.collect(),
            // A conversation counts on each of its days.
            total: None,
        };
        self.print(report, &table, [report.rows.len(), report.row_count])
    }

    /// The tokens of turn.completed events; messages may have the same tokens.
    fn print_turns(&mut self, report: &UsageReport) -> Result<(), Failure> {
        if report.turns.is_empty() || self.is_for_programs() {
            return Ok(());
        }
        let by_model = report.scope.group.contains(&Dimension::Model);
        let scope = Scope {
            group: by_model.then_some(Dimension::Model).into_iter().collect(),
            ..report.scope.clone()
        };
        let rows = report.turns.iter().map(|row| (&row.of, &row.sums));
        let table = table(&scope, TURNS, rows);
        let out = &mut self.context.out;
        out.line("")?;
        show::row(out, "turn.completed events, not counted above:")?;
        Ok(table.print(out)?)
    }
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
    let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), average);
    let rate = |part: Option<f64>| part.map_or("-".to_owned(), percent);
    let [avg, p95] = [metrics.avg_latency_ms, metrics.p95_latency_ms].map(ms);
    for (label, value) in [
        ("days", days.join(", ")),
        ("conversations", conversations),
        ("messages", count(metrics.messages_today)),
        ("tokens", format!("{tokens_in} in, {tokens_out} out")),
        ("latency", format!("avg {avg}, p95 {p95}")),
        ("errors", rate(metrics.error_rate)),
        ("context", rate(metrics.avg_context_utilization)),
        ("compressed", rate(metrics.compression_rate)),
        ("models", requests(&metrics.by_model)),
        ("configs", requests(&metrics.by_config)),
        ("tasks", requests(&metrics.by_task_type)),
    ] {
        show::row(&mut context.out, &format!("{label:<LABEL_COLUMNS$}{value}"))?;
    }
    Ok(())
}
