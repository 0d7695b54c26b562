//! `decklog show`

use decklog::Key;
use decklog::query::{ConversationQuery, MessageQuery, Order};
use uuid::Uuid;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::pages::{PAGE_RECORDS, each};
use super::show::{Shown, field, in_transcript};

/// Show a conversation as a transcript
///
/// Lists the conversations of its sub-agents, each with the call that started it. --json prints the
/// conversation on the first line and one message on each further line;
/// 'decklog conversations --parent ID' lists those of its sub-agents.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog show 67e55044-10b1-426f-9247-bb680e5fe0c8 | less")]
pub struct Args {
    /// The conversation's id, as 'decklog conversations' shows it
    conversation: Uuid,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let id = args.conversation;
    let Some(conversation) = store.get_conversation(id)? else {
        return Ok(missing(Key::Conversation(id)));
    };
    let is_json = context.json;
    let agents = ConversationQuery {
        parent_id: Some(id),
        order: Order::OldestFirst,
        limit: usize::MAX,
        ..ConversationQuery::default()
    };
    let agents = store.conversations(&agents)?.items;
    let out = &mut context.out;
    if is_json {
        conversation.json(out)?;
    } else {
        conversation.in_full(out)?;
        for (agent, _) in &agents {
            let call = agent
                .parent_call_id
                .as_deref()
                .map(|id| format!("call {id}"));
            let words = [call.as_deref(), agent.title.as_deref()];
            let words: Vec<&str> = words.into_iter().flatten().collect();
            let words = one_line(&words.join("  ")).into_owned();
            field(out, "sub-agent", &format!("{}  {words}", agent.id))?;
        }
    }
    each(
        None,
        PAGE_RECORDS,
        None,
        |limit, after| {
            let query = MessageQuery {
                limit,
                after,
                ..MessageQuery::default()
            };
            store
                .messages(id, &query)
                .map(|page| (page.items, page.next))
        },
        |message| {
            if is_json {
                message.json(out)?;
            } else {
                in_transcript(out, &message)?;
            }
            Ok(())
        },
    )?;
    Ok(Exit::Ok)
}
