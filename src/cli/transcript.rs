//! `decklog show`

use decklog::Key;
use decklog::query::{ConversationQuery, MessageQuery, Order};
use uuid::Uuid;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::list::Paged;
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
    let out = &mut context.out;
    if is_json {
        conversation.json(out)?;
    } else {
        let agents = ConversationQuery {
            parent_id: Some(id),
            order: Order::OldestFirst,
            limit: usize::MAX,
            ..ConversationQuery::default()
        };
        conversation.in_full(out)?;
        for (agent, _) in store.conversations(&agents)?.items {
            let call = agent.parent_call_id.map(|id| format!("call {id}"));
            let words: Vec<String> = call.into_iter().chain(agent.title).collect();
            let words = one_line(&words.join("  ")).into_owned();
            field(out, "sub-agent", format!("{}  {words}", agent.id))?;
        }
    }
    let page = |limit, after| {
        let query = MessageQuery::default().page(Order::OldestFirst, limit, after);
        let page = store.messages(id, &query)?;
        Ok((page.items, page.next))
    };
    each(None, PAGE_RECORDS, None, page, |message| {
        if is_json {
            message.json(out)?;
        } else {
            in_transcript(out, &message)?;
        }
        Ok(())
    })?;
    Ok(Exit::Ok)
}
