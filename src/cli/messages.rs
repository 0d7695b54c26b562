//! `decklog messages`

use decklog::{ConversationMessage, MessageQuery, Order, Store};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::list::{Printer, say_more};
use super::order::{First, PAGE_RECORDS, each};

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
    /// The end that comes first
    #[arg(long, value_name = "END", default_value = "oldest")]
    order: First,
    /// At most this many. Default: 50 on a terminal, else all
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Show all there is to each message, its id too
    #[arg(long, short)]
    long: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let id = args.conversation;
    if store.get_conversation(id)?.is_none() {
        return Ok(missing(&format!("conversation {id}")));
    }
    let limit = context.limit(args.limit);
    let mut printer = Printer::new(context, args.long);
    let rest = each(
        limit,
        PAGE_RECORDS,
        None,
        |limit, after| {
            let (mut from, mut until) = (args.from, args.until);
            match args.order {
                First::Oldest => from = after.map_or(from, |last: i64| last.checked_add(1)),
                First::Newest => until = after.or(until),
            }
            page(&store, id, from, until, args.order, limit)
        },
        |message| printer.print(&message),
    )?;
    printer.end("no messages match");
    if let Some(last) = rest {
        let how = match args.order {
            First::Oldest => format!("--from {}", last.saturating_add(1)),
            First::Newest => format!("--order newest --until {last}"),
        };
        say_more(context, &how)?;
    }
    Ok(Exit::Ok)
}

/// A page of messages and, if there are more, the sequence of its last one.
pub fn page(
    store: &Store,
    conversation: Uuid,
    from: Option<i64>,
    until: Option<i64>,
    first: First,
    limit: usize,
) -> decklog::Result<(Vec<ConversationMessage>, Option<i64>)> {
    let query = MessageQuery {
        from,
        until,
        order: Order::from(first),
        // One more tells whether there are more.
        limit: limit.saturating_add(usize::from(limit > 0)),
    };
    let mut messages = store.messages(conversation, &query)?;
    let are_more = messages.len() > limit;
    messages.truncate(limit);
    let last = messages.last().and_then(|last| last.sequence);
    Ok((messages, last.filter(|_| are_more)))
}
