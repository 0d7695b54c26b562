//! Conversations, runs and events as OTLP in JSON.

use std::io::Write as _;

use decklog::Key;
use decklog::query::ConversationQuery;
use uuid::Uuid;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::get::missing;

/// What is exported.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Ids of conversations or threads, starts of ids, or 'latest'
    #[arg(value_name = "ID", conflicts_with = "all")]
    conversation: Vec<Uuid>,
    /// All conversations, runs and events. With filters, the conversations that match
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    query: ConversationQuery,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let (query, defaults) = (&args.query, ConversationQuery::default());
    let is_filtered = format!("{query:?}") != format!("{defaults:?}");
    if is_filtered && !args.conversation.is_empty() {
        return Err(Failure::usage("give either ids or filters"));
    }
    if args.conversation.is_empty() && !args.all && !is_filtered {
        let message = "give ids of conversations, 'latest', --all or a filter: see --help";
        return Err(Failure::usage(message));
    }
    let store = context.open_to_read()?;
    let mut write = |line: String| -> Result<(), Failure> { Ok(writeln!(context.out, "{line}")?) };
    for id in &args.conversation {
        if !store.each_otlp_of(*id, &mut write)? {
            return Ok(missing(Key::Conversation(*id)));
        }
    }
    if is_filtered {
        store.each_otlp(query, write)?;
    } else if args.all {
        store.each_otlp_line(write)?;
    }
    Ok(Exit::Ok)
}
