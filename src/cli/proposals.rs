//! `decklog proposals`

use decklog::{Order, ProposalQuery, ProposalStatus};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part, Times, one_of};
use super::order::First;
use super::time;

/// List code edit proposals and what became of them, the last proposed first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog proposals --status pending --json | jq '{request_id, confidence}'"
)]
pub struct Args {
    #[command(flatten)]
    times: Times,
    /// Only proposals that stand there
    #[arg(long, value_parser = one_of(ProposalStatus::ALL, ProposalStatus::as_str))]
    status: Option<ProposalStatus>,
    /// The proposals as they stood at this time
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    as_of: Option<i64>,
    #[command(flatten)]
    part: Part,
    /// The end that comes first
    #[arg(long, value_name = "END", default_value = "newest")]
    order: First,
    /// Show all there is to each proposal, its id and diffs too
    #[arg(long, short)]
    long: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let list = List {
        part: args.part,
        first: args.order,
        is_log: false,
        long: args.long,
        none: "no proposals match",
    };
    list.print(context, |limit, after| {
        let query = ProposalQuery {
            status: args.status,
            since: args.times.since,
            until: args.times.until,
            order: Order::from(args.order),
            limit,
            after,
        };
        match args.as_of {
            Some(at) => store.as_of(at).proposals(&query),
            None => store.proposals(&query),
        }
    })
}
