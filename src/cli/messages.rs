//! `decklog messages`

use decklog::{MessageQuery, Order};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::list::{List, Part};

/// List the messages of a conversation, in the order of their sequence
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog messages 67e55044-10b1-426f-9247-bb680e5fe0c8 --json | jq '{role, content, inference_metadata}'"
)]
pub struct Args {
    /// The conversation's id, as 'decklog conversations' shows it
    conversation: Uuid,
    /// Only messages with this sequence or a later one
    #[arg(long, value_name = "N")]
    from: Option<i64>,
    /// Only messages with an earlier sequence
    #[arg(long, value_name = "N")]
    until: Option<i64>,
    #[command(flatten)]
    part: Part,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let id = args.conversation;
    if store.get_conversation(id)?.is_none() {
        return Ok(missing(&format!("conversation {id}")));
    }
    let list = List::from(Order::OldestFirst, args.part, "no messages match");
    list.print(context, |order, limit, after| {
        let query = MessageQuery {
            from: args.from,
            until: args.until,
            order,
            limit,
            after,
        };
        store.messages(id, &query)
    })
}
