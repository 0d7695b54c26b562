//! `decklog events`

use decklog::{EventQuery, Order};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part, Times};
use super::order::First;

/// List events, by id
///
/// Text shows the last events, the earliest of them at the top, as a log does; --json gives
/// events from the first one on. 'decklog tree' shows what happened under one of them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog events --type agent.failed --json | jq '{id, payload}'"
)]
pub struct Args {
    #[command(flatten)]
    times: Times,
    /// Only events of this type, such as worker.spawned
    #[arg(long = "type", value_name = "NAME")]
    event_type: Option<String>,
    /// Only events right under this one
    #[arg(long, value_name = "ID")]
    parent: Option<i64>,
    /// Only events that are under no other
    #[arg(long, conflicts_with = "parent")]
    roots: bool,
    #[command(flatten)]
    part: Part,
    /// The end from which --limit counts. Default: newest, and oldest with --json
    #[arg(long, value_name = "END")]
    order: Option<First>,
    /// Show all there is to each event
    #[arg(long, short)]
    long: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let list = List {
        part: args.part,
        first: List::end_of_log(context, args.order, args.part.limit),
        is_log: true,
        long: args.long,
        none: "no events match; types are compared as they are, capitals too",
    };
    list.print(context, |limit, after| {
        let query = EventQuery {
            parent_id: args.parent,
            roots: args.roots,
            event_type: args.event_type.clone(),
            since: args.times.since,
            until: args.times.until,
            order: Order::from(list.first),
            limit,
            after,
        };
        store.events(&query)
    })
}
