//! `decklog calls`

use decklog::query::{CallQuery, Order};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part, none_found};

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
    let is_named = args.query.tool_name.is_some() || args.query.vendor.is_some();
    let none = none_found("calls", is_named);
    let list = List::from(Order::NewestFirst, args.part, &none);
    list.print(context, &args.query, |query| {
        store.as_of(args.as_of).tool_calls(query)
    })
}
