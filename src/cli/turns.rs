//! `decklog turns`

use decklog::query::TurnQuery;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part};

/// List conversation turns
///
/// Text output has the last turns, earliest first; --json has all turns from the first one on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog turns --since 2025-12-09 --kind user --json | jq -r .content"
)]
pub struct Args {
    #[command(flatten)]
    query: TurnQuery,
    /// The state of the turns at this time
    #[arg(long, value_name = "TIME", value_parser = decklog::record::epoch_ms)]
    as_of: Option<i64>,
    #[command(flatten)]
    part: Part,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let list = List::log(context, args.part, "no turns found");
    list.print(context, &args.query, |query| {
        store.as_of(args.as_of).turns(query)
    })
}
