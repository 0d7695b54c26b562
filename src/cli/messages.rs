//! `decklog messages`

use decklog::{MessageQuery, Order, Role};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::list::{List, Part, Times, one_of};

/// List messages: of one conversation, in the order of their sequence, or of all, by time
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog messages 67e55044-10b1-426f-9247-bb680e5fe0c8 --json | jq '{role, content, inference_metadata}'\n  decklog messages --error --since 2025-12-01"
)]
pub struct Args {
    /// The conversation's id, as 'decklog conversations' shows it. Default: all conversations
    conversation: Option<Uuid>,
    /// Only messages with this sequence or a later one
    #[arg(long, value_name = "N", requires = "conversation")]
    from_sequence: Option<i64>,
    /// Only messages with an earlier sequence
    #[arg(long, value_name = "N", requires = "conversation")]
    until_sequence: Option<i64>,
    #[command(flatten)]
    times: Times,
    /// Only messages in this role
    #[arg(long, value_parser = one_of(Role::ALL, Role::as_str))]
    role: Option<Role>,
    /// Only messages that this model answered
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Only messages that were answered under this configuration
    #[arg(long, value_name = "NAME")]
    config: Option<String>,
    /// Only messages with an error
    #[arg(long)]
    error: bool,
    #[command(flatten)]
    part: Part,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let id = args.conversation;
    if let Some(id) = id
        && store.get_conversation(id)?.is_none()
    {
        return Ok(missing(&format!("conversation {id}")));
    }
    let none = "no messages match";
    let list = match id {
        Some(_) => List::from(Order::OldestFirst, args.part, none),
        None => List::log(context, args.part, none),
    };
    list.print(context, |order, limit, after| {
        let query = MessageQuery {
            from_sequence: args.from_sequence,
            until_sequence: args.until_sequence,
            since: args.times.since,
            until: args.times.until,
            role: args.role,
            model_used: args.model.clone(),
            config_used: args.config.clone(),
            error: args.error.then_some(true),
            order,
            limit,
            after,
        };
        store.messages(id, &query)
    })
}
