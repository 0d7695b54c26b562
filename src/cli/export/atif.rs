//! Conversations as documents of ATIF.

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
    /// Ids of conversations, starts of ids, or 'latest'
    #[arg(value_name = "ID", conflicts_with = "all")]
    conversation: Vec<Uuid>,
    /// All conversations, or those that match the filters
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    query: ConversationQuery,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    is_filtered(&args.conversation, args.all, &args.query)?;
    let store = context.open_to_read()?;
    for id in &args.conversation {
        let Some(document) = store.atif(*id)? else {
            return Ok(missing(Key::Conversation(*id)));
        };
        writeln!(context.out, "{document}")?;
    }
    if args.conversation.is_empty() {
        store.each_atif(&args.query, |document| -> Result<(), Failure> {
            Ok(writeln!(context.out, "{document}")?)
        })?;
    }
    Ok(Exit::Ok)
}
