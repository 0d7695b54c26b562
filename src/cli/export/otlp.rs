//! Conversations, runs and events as OTLP in JSON.

use std::io::Write as _;

use decklog::Key;
use decklog::query::ConversationQuery;
use uuid::Uuid;

use super::is_filtered;
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
    let is_filtered = is_filtered(&args.conversation, args.all, &args.query)?;
    let store = context.open_to_read()?;
    let mut write = |line: String| -> Result<(), Failure> { Ok(writeln!(context.out, "{line}")?) };
    for id in &args.conversation {
        if !store.each_otlp_of(*id, &mut write)? {
            return Ok(missing(Key::Conversation(*id)));
        }
    }
    if is_filtered {
        store.each_otlp(&args.query, write)?;
    } else if args.all {
        store.each_otlp_line(write)?;
    }
    Ok(Exit::Ok)
}
