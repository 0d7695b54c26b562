//! `decklog commands`

use decklog::analytics::{CommandRow, CommandSums, CommandsReport, WorkQuery};
use decklog::human::{count, counted};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::output;
use super::table::{Cell, Column, Table};
use super::time::Times;

/// Number of rows on a terminal.
const ROWS: usize = 25;

/// Show which shell commands agents ran, and which fail most
///
/// Commands are grouped by program and subcommand: 'cd x && sudo timeout 60 cargo test --lib' is a
/// run of 'cargo test'. A run failed if its call failed or its exit code was not 0. Runs that the
/// user denied are not part of the failure rate. Rows are sorted by number of failures. The running
/// time grows with the number of commands in the period.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog commands --since 7d\n  decklog commands --project decklog --limit 10\n  decklog commands --json | jq '.rows[] | select(.failure_rate > 0.5) | .command'"
)]
pub struct Args {
    #[command(flatten)]
    times: Times,
    /// Only conversations of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Maximum number of rows. Default: 25 on a terminal, else 1000
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let on_terminal = context.out.is_terminal() && !context.json;
    let query = WorkQuery {
        since: args.times.since,
        until: args.times.until,
        project: args.project.clone(),
        limit: args.limit.or(on_terminal.then_some(ROWS)),
    };
    let report = store.analytics().commands(&query)?;
    if context.json {
        context.out.json(&report)?;
        return Ok(Exit::Ok);
    }
    if report.row_count == 0 {
        output::say("no commands found");
    } else {
        table(&report).print(&mut context.out)?;
    }
    if report.not_understood > 0 {
        let calls = counted(report.not_understood, "call");
        context.say_below(&format!("{calls} without a recognised command"))?;
    }
    let shown = report.rows.len();
    if shown < report.row_count {
        let [shown, all] = [shown, report.row_count].map(|rows| count(rows as u64));
        context.say_below(&format!("{shown} of {all} commands shown: set --limit"))?;
    }
    Ok(Exit::Ok)
}

fn table(report: &CommandsReport) -> Table {
    let numbers = |sums: &CommandSums| {
        [
            Cell::Count(sums.runs),
            Cell::Count(sums.failed),
            Cell::Share(sums.failure_rate),
            Cell::Duration(sums.latency_ms.avg),
            Cell::Duration(sums.latency_ms.p95),
        ]
    };
    let row = |row: &CommandRow| {
        let error = row.latest_failure.as_ref().and_then(|it| it.error.clone());
        let mut cells = vec![Cell::Text(Some(row.command.clone()))];
        cells.extend(numbers(&row.sums));
        cells.push(Cell::Text(Some(error.unwrap_or_default())));
        cells
    };
    Table {
        columns: vec![
            Column::text("COMMAND", "command"),
            Column::number("RUNS", "runs", 0),
            Column::number("FAILED", "failed", 0),
            Column::number("RATE", "failure_rate", 1),
            Column::number("AVG", "latency_ms_avg", 3),
            Column::number("P95", "latency_ms_p95", 2),
            Column::text("LATEST ERROR", "error"),
        ],
        rows: report.rows.iter().map(row).collect(),
        total: Some(numbers(&report.total).into()),
        bar: None,
    }
}
