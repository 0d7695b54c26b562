//! `decklog rollups`

use decklog::query::RollupQuery;
use decklog::record::Day;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::Printer;

/// List the sums of messages by day, including removed messages
///
/// Groups by day, model, configuration, orchestration mode and task type. Latency quantiles are
/// accurate to 1 %.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog rollups --since 2025-12-01\n  decklog rollups --json | jq -s 'map(.tokens_out) | add'"
)]
pub struct Args {
    /// Only this UTC day and later ones: YYYY-MM-DD, today, yesterday or 7d
    #[arg(long, value_name = "DAY", value_parser = crate::cli::time::day)]
    since: Option<Day>,
    /// Only days before this one
    #[arg(long, value_name = "DAY", value_parser = crate::cli::time::day)]
    until: Option<Day>,
    /// Show all fields of each rollup
    #[arg(long, short)]
    long: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let rollups = store.rollups(&RollupQuery {
        since: args.since,
        until: args.until,
    })?;
    let mut printer = Printer::new(context, args.long);
    for rollup in &rollups {
        printer.print(rollup)?;
    }
    printer.end("there are no messages")?;
    Ok(Exit::Ok)
}
