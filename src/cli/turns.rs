//! `decklog turns`

use decklog::{TurnKind, TurnQuery};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part, Times, one_of};

/// List conversation turns
///
/// Text shows the last turns, the earliest of them at the top, as a log does; --json gives turns
/// from the first one on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog turns --since 2025-12-09 --kind user --json | jq -r .content"
)]
pub struct Args {
    #[command(flatten)]
    times: Times,
    /// Only turns of this message
    #[arg(long, value_name = "ID")]
    message: Option<Uuid>,
    /// Only turns of this thread
    #[arg(long, value_name = "ID")]
    thread: Option<Uuid>,
    /// Only turns that follow this one
    #[arg(long, value_name = "ID")]
    parent: Option<Uuid>,
    /// Only turns of this kind
    #[arg(long, value_parser = one_of(TurnKind::ALL, TurnKind::as_str))]
    kind: Option<TurnKind>,
    /// The turns as they stood at this time
    #[arg(long, value_name = "TIME", value_parser = decklog::epoch_ms)]
    as_of: Option<i64>,
    #[command(flatten)]
    part: Part,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let list = List::log(context, args.part, "no turns match");
    list.print(context, |order, limit, after| {
        let query = TurnQuery {
            message_id: args.message,
            parent_id: args.parent,
            thread_id: args.thread,
            kind: args.kind,
            since: args.times.since,
            until: args.times.until,
            order,
            limit,
            after,
        };
        store.as_of(args.as_of).turns(&query)
    })
}
