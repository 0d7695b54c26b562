//! `decklog show`

use decklog::human::one_line;
use decklog::query::{ConversationQuery, MessageQuery, Order};
use decklog::record::ConversationView;
use decklog::{ConversationMessage, Key};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::list::Paged;
use super::markdown;
use super::pages::{PAGE_RECORDS, each};
use super::show::{Shown, transcript};

/// Show a conversation as a transcript
///
/// Text is wrapped to the terminal's width and shown in $DECKLOG_PAGER, else $PAGER, else less. The
/// start of the arguments and of the result of each tool call is shown. Lists the conversations of
/// its sub-agents, each with the call that started it. --json prints the conversation on the first
/// line and one message on each further line.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog show latest\n  decklog show 67e55044 --last 20 --tools"
)]
pub struct Args {
    /// The conversation: its id, the start of its id, or 'latest'
    conversation: Uuid,
    /// Show the arguments and results of tool calls, and instructions, in full
    #[arg(long)]
    tools: bool,
    /// Show only the last N messages
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Print Markdown
    #[arg(long, conflicts_with = "tools")]
    markdown: bool,
    /// Do not use a pager
    #[arg(long)]
    no_pager: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let id = args.conversation;
    let Some(conversation) = store.get_conversation(id)? else {
        return Ok(missing(Key::Conversation(id)));
    };
    let is_json = context.json;
    if !is_json && !args.no_pager {
        context.out.page();
    }
    let out = &mut context.out;
    if is_json {
        out.json(&ConversationView::from(&conversation))?;
    } else if args.markdown {
        markdown::heading(&store, id, out)?;
    } else {
        let title = store.conversation_title(&conversation.0)?;
        transcript::header(out, title.as_deref(), &conversation)?;
        let agents = ConversationQuery {
            parent_id: Some(id),
            order: Order::OldestFirst,
            limit: usize::MAX,
            ..ConversationQuery::default()
        };
        for (agent, _) in store.conversations(&agents)?.items {
            let title = store.conversation_title(&agent)?.unwrap_or_default();
            let call = agent.parent_call_id.map(|call| format!("call {call}  "));
            let (call, title) = (call.unwrap_or_default(), one_line(&title, 60));
            let words = format!("{}  {call}{title}", agent.id);
            transcript::part(out, "sub-agent", words.trim_end(), None)?;
        }
    }
    let mut messages = transcript::Messages::new(args.tools);
    let mut print = |message: ConversationMessage| {
        if is_json {
            out.json(&message.as_json())?;
        } else if args.markdown {
            markdown::message(out, &message)?;
        } else {
            messages.print(out, &message)?;
        }
        Ok(())
    };
    let page = |order, limit, after| {
        let query = MessageQuery::default().page(order, limit, after);
        let page = store.messages(id, &query)?;
        Ok((page.items, page.next))
    };
    if args.last.is_some() {
        let mut last = Vec::new();
        each(
            args.last,
            PAGE_RECORDS,
            None,
            |limit, after| page(Order::NewestFirst, limit, after),
            |message| {
                last.push(message);
                Ok(())
            },
        )?;
        last.into_iter().rev().try_for_each(&mut print)?;
    } else {
        each(
            None,
            PAGE_RECORDS,
            None,
            |limit, after| page(Order::OldestFirst, limit, after),
            &mut print,
        )?;
    }
    Ok(Exit::Ok)
}
