//! `decklog today`

use super::context::Context;
use super::day;
use super::exit::{Exit, Failure};
use super::time;

/// Show what agents did today: sessions, edits, failures and cost, by project
///
/// The same as 'decklog day today'. 'decklog' without a command compares the figures of today with
/// the usual day.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog today --project decklog")]
pub struct Args {
    /// Only conversations of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let today = time::day_bounds("today")?;
    day::print(context, today, args.project.as_ref())
}
