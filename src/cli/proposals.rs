//! `decklog proposals`

use decklog::query::{Order, ProposalQuery};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part};

/// List code edit proposals with their status, latest first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog proposals --status pending --json | jq '{request_id, confidence}'"
)]
pub struct Args {
    #[command(flatten)]
    query: ProposalQuery,
    /// The state of the proposals at this time
    #[arg(long, value_name = "TIME", value_parser = decklog::record::epoch_ms)]
    as_of: Option<i64>,
    #[command(flatten)]
    part: Part,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let list = List::from(Order::NewestFirst, args.part, "no proposals found");
    list.print(context, &args.query, |query| {
        store.as_of(args.as_of).proposals(query)
    })
}
