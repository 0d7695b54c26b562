//! `decklog messages`

use decklog::Key;
use decklog::query::{MessageQuery, Order};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::list::{List, Part};

/// List messages: of one conversation, in the order of their sequence, or of all, by time
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog messages 67e55044-10b1-426f-9247-bb680e5fe0c8 --json | jq '{role, content, inference_metadata}'\n  decklog messages --error --since 2025-12-01"
)]
pub struct Args {
    /// The conversation: its id, the start of its id, or 'latest'. Default: all conversations
    conversation: Option<Uuid>,
    #[command(flatten)]
    query: MessageQuery,
    #[command(flatten)]
    part: Part,
}

impl Args {
    /// All messages of a conversation.
    pub fn of(conversation: Uuid) -> Args {
        Args {
            conversation: Some(conversation),
            query: MessageQuery::default(),
            part: Part::default(),
        }
    }
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let id = args.conversation;
    if let Some(id) = id
        && store.get_conversation(id)?.is_none()
    {
        return Ok(missing(Key::Conversation(id)));
    }
    let none = "no messages found";
    let list = match id {
        Some(_) => List::from(Order::OldestFirst, args.part, none),
        None => List::log(context, args.part, none),
    };
    list.print(context, &args.query, |query| store.messages(id, query))
}
