//! `decklog events`

use decklog::query::EventQuery;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::list::{List, Part, none_found};

/// List events, by id
///
/// Text output has the last events, earliest first; --json has all events from the first one on.
/// 'decklog tree' shows the events under one event.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog events --type agent.failed --json | jq '{id, payload}'"
)]
pub struct Args {
    #[command(flatten)]
    query: EventQuery,
    #[command(flatten)]
    part: Part,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let none = none_found("events", args.query.event_type.is_some());
    let list = List::log(context, args.part, &none);
    list.print(context, &args.query, |query| store.events(query))
}
