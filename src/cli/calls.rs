//! `decklog calls`

use decklog::query::{CallQuery, Order};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part};

/// List tool calls with their outcomes, latest first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog calls --status failed --json | jq '{tool_name, error_msg}'"
)]
pub struct Args {
    #[command(flatten)]
    query: CallQuery,
    /// The state of the calls at this time
    #[arg(long, value_name = "TIME", value_parser = decklog::record::epoch_ms)]
    as_of: Option<i64>,
    #[command(flatten)]
    part: Part,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let list = List::from(
        Order::NewestFirst,
        args.part,
        "no calls match; names are case-sensitive",
    );
    list.print(context, &args.query, |query| {
        store.as_of(args.as_of).tool_calls(query)
    })
}
