//! `decklog stats`

mod columns;
mod cost;
mod dashboard;
mod print;

use clap::ValueEnum;
use decklog::analytics::{AnalyticsQuery, Bucket, CostQuery, Dimension, SpendSort, SpendSums};
use decklog::record::Day;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::export::csv;
use super::table::{Cell, Column};
use columns::{COMPRESSION, CONTEXT, LATENCY, MODELS, SPENDING, TASKS, TOOLS, USAGE, tokens};
use print::{Teller, keys, table, texts};

/// Report on tokens, costs, latencies, errors, contexts and conversations
///
/// Without a name: messages and tokens by day, or as --by says. Messages that retention removed are
/// counted too. A request is a message in the role assistant, or a message in another role that has
/// an error; a message that is part of another one's answer is not counted as a request. Latencies,
/// compression and context are of messages in the role assistant. Latency quantiles are accurate to
/// one percent.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("spreadsheet", |it| it.requires("csv")),
    after_help = "Examples:\n  decklog stats --since 2025-12-01\n  decklog stats --by week,model --csv > usage.csv\n  decklog stats --by tool\n  decklog stats cost --by month,project,model\n  decklog stats models --since 2025-12-01 --by model,task_type\n  decklog stats usage --by month,model --json | jq '.rows[] | {bucket, model_used, tokens_out}'"
)]
pub struct Args {
    /// The report
    #[arg(value_enum)]
    name: Option<Name>,
    /// What to group by, separated by commas: a period, columns, or both
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with_all = ["group", "bucket"])]
    by: Vec<By>,
    /// Only this UTC day and later ones: YYYY-MM-DD, today, yesterday or 7d. Default: all days; for
    /// models the last seven days, for dashboard today
    #[arg(long, value_name = "DAY", value_parser = crate::cli::time::day)]
    since: Option<Day>,
    /// Only days before this one
    #[arg(long, value_name = "DAY", value_parser = crate::cli::time::day)]
    until: Option<Day>,
    /// Columns to group by, separated by commas; --bucket sets the period
    #[arg(long, value_delimiter = ',')]
    group: Option<Vec<Dimension>>,
    /// The period of a row. Default: day for usage and active, else all
    #[arg(long)]
    bucket: Option<Bucket>,
    /// Order of projects and sessions. Default: cost
    #[arg(long)]
    sort: Option<SpendSort>,
    /// Maximum number of rows. Default: 1000
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print the rows as CSV: plain numbers, no total. A spreadsheet may run a text that begins with
    /// =, +, - or @ as a formula, unless --spreadsheet is given
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    style: csv::Style,
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
    /// Messages, tokens and cost, by project; only of messages in the log
    Projects,
    /// The same by conversation
    Sessions,
    /// Tokens by kind, and cost; grouped as --by says, by default by day
    Cost,
    /// Tool calls, by tool
    Tools,
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
    /// For the reports projects and cost.
    Project,
    /// For the reports sessions and cost.
    Session,
    /// For the reports tools and cost.
    Tool,
    /// Only for the report cost.
    Branch,
    /// Only for the report cost.
    Agent,
}

impl By {
    /// The report that has rows of such a thing, and no others.
    fn report(self) -> Option<Name> {
        match self {
            By::Project => Some(Name::Projects),
            By::Session => Some(Name::Sessions),
            By::Tool => Some(Name::Tools),
            By::Branch | By::Agent => Some(Name::Cost),
            _ => None,
        }
    }

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
/// The rows are of `$keys`, with the cells that `$cells` gives for a row; by default of the buckets
/// and groups.
macro_rules! tell {
    ($told:expr, $report:expr, $columns:expr, $bar:expr) => {{
        let report = $report;
        let scope = &report.scope;
        tell!($told, report, $columns, $bar, keys(scope), |row| texts(
            scope, &row.of
        ));
    }};
    ($told:expr, $report:expr, $columns:expr, $bar:expr, $keys:expr, |$row:ident| $cells:expr) => {{
        let report = $report;
        let rows = report.rows.iter().map(|$row| ($cells, &$row.sums));
        let mut table = table($keys, $columns, rows);
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
    let (name, query) = query(args)?;
    let store = context.open_to_read()?;
    let analytics = store.analytics();
    let mut told = Teller {
        context,
        csv: args.csv.then_some(args.style),
    };
    match name {
        Name::Usage => {
            let report = analytics.usage(&query)?;
            let bar = bar(report.total.cost_usd, tokens(&report.total));
            tell!(told, &report, USAGE, bar);
            told.print_turns(&report)?;
            told.print_budgets(&analytics)?;
        }
        Name::Projects => {
            let report = &analytics.projects(&query)?;
            let project = Column::text("PROJECT", "project");
            tell!(
                told,
                report,
                SPENDING,
                spent(&report.total),
                [project],
                |row| [Cell::Text(row.project.clone())]
            );
        }
        Name::Sessions => {
            let report = &analytics.sessions(&query)?;
            // Each row is of one conversation.
            let columns = &SPENDING[1..];
            let keys = [
                Column::text("CONVERSATION", "conversation_id"),
                Column::text("PROJECT", "project"),
                Column::text("TITLE", "title"),
            ];
            tell!(told, report, columns, spent(&report.total), keys, |row| [
                Cell::Id(row.conversation_id),
                Cell::Text(row.project.clone()),
                Cell::Text(row.title.clone()),
            ]);
        }
        Name::Cost => {
            let report = analytics.cost(&cost_query(args, &query)?)?;
            told.print_cost(&report)?;
            told.print_budgets(&analytics)?;
        }
        Name::Tools => {
            let tool = Column::text("TOOL", "tool_name");
            tell!(
                told,
                &analytics.tools(&query)?,
                TOOLS,
                "calls",
                [tool],
                |row| [Cell::Text(Some(row.tool_name.clone()))]
            );
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
                dashboard::print(told.context, &metrics)?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// The key of the column that has a bar in reports on usage.
fn bar(cost: Option<f64>, tokens: u64) -> &'static str {
    match cost {
        Some(cost) if cost > 0.0 => "cost_usd",
        _ if tokens > 0 => "tokens",
        _ => "messages",
    }
}

fn spent(total: &SpendSums) -> &'static str {
    bar(
        total.cost_usd,
        total.tokens_in.saturating_add(total.tokens_out),
    )
}

/// The query of a report on cost.
fn cost_query(args: &Args, query: &AnalyticsQuery) -> Result<CostQuery, Failure> {
    if args.group.is_some() || args.bucket.is_some() || args.sort.is_some() {
        let message = "cost takes --by instead of --group and --bucket, and has no --sort";
        return Err(Failure::usage(message));
    }
    let by = args.by.iter().map(|by| by.of_cost());
    Ok(CostQuery {
        since: query.since,
        until: query.until,
        by: by.collect::<Result<_, _>>()?,
        limit: query.limit,
    })
}

/// The report, and its query.
fn query(args: &Args) -> Result<(Name, AnalyticsQuery), Failure> {
    let plain = AnalyticsQuery {
        since: args.since,
        until: args.until,
        group: args.group.clone(),
        bucket: args.bucket,
        limit: args.limit,
        sort: args.sort,
    };
    let name = args.name.unwrap_or(Name::Usage);
    if matches!(name, Name::Cost) {
        return Ok((name, plain));
    }
    let by = match &args.by[..] {
        [] if args.name.is_some() || args.group.is_some() || args.bucket.is_some() => {
            return Ok((name, plain));
        }
        [] => &[By::Day],
        by => by,
    };
    if let Some(report) = by.iter().find_map(|by| by.report()) {
        if matches!(report, Name::Cost) && args.name.is_none() {
            return Ok((report, plain));
        }
        if by.len() > 1 || args.name.is_some() {
            let message = "--by project, session, tool, branch and agent cannot be combined with another --by or a report name, except cost";
            return Err(Failure::usage(message));
        }
        return Ok((report, plain));
    }
    let mut buckets = by.iter().filter_map(|by| by.bucket());
    let (bucket, others) = (buckets.next(), buckets.count());
    if others > 0 {
        let message = "--by has several periods: give one of day, week and month";
        return Err(Failure::usage(message));
    }
    let query = AnalyticsQuery {
        group: Some(by.iter().filter_map(|by| by.dimension()).collect()),
        bucket: Some(bucket.unwrap_or(Bucket::All)),
        ..plain
    };
    Ok((name, query))
}
