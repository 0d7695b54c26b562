//! `decklog tree`

use decklog::human::{count, counted};
use decklog::query::{ConversationQuery, EventQuery, Order, TurnQuery};
use decklog::tree::{EventNode, SessionItem, SessionNode};
use decklog::{Key, Store};
use serde::Serialize;

use super::branches::{Node, draw};
use super::context::Context;
use super::escape::clipped;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::ids::Root;
use super::list::Paged;
use super::output;
use super::show::failure_in_row;

/// Maximum characters of a text.
const DETAIL_COLUMNS: usize = 120;
/// Maximum characters of reasoning within that.
const REASONING_COLUMNS: usize = 60;

/// Show a run or a session as a tree, with results and durations
///
/// For the id of an event: the events under it. For the id of a conversation or a thread of turns:
/// its prompts, answers and tool calls. Without an id: the latest run or session. --json prints one
/// node per line, from the root on, with depth, status and duration_ms.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog tree 12 --json | jq 'select(.status==\"failed\")'\n\nColours are used only on a terminal, and not if NO_COLOR is set."
)]
pub struct Args {
    /// The number of an event, as 'decklog events --roots' shows it, or the id of a conversation or
    /// thread; the start of a conversation's id is enough, or 'latest'
    id: Option<String>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let root = match args.id.as_deref() {
        None => latest(&store)?,
        Some(id) => Some(Root::named(&store, id)?),
    };
    match root {
        Some(Root::Event(id)) => match store.event_tree(id)? {
            Some(tree) => print(context, tree.nodes, event),
            None => Ok(missing(Key::Event(id))),
        },
        Some(Root::Session(id)) => match store.session_tree(id)? {
            Some(tree) => print(context, tree.nodes, place),
            None => Ok(missing(format!("conversation or thread {id}"))),
        },
        None => {
            output::say("the log has no events and no conversations");
            Ok(Exit::Findings)
        }
    }
}

/// The root of the latest run or session.
fn latest(store: &Store) -> decklog::Result<Option<Root>> {
    let events = EventQuery {
        roots: true,
        ..EventQuery::default()
    };
    let events = events.page(Order::NewestFirst, 1, None);
    let conversations = ConversationQuery {
        limit: 1,
        ..ConversationQuery::default()
    };
    let event = store.events(&events)?.items.pop();
    let event = event.map(|event| (event.created_at, Root::Event(event.id)));
    let conversation = store.conversations(&conversations)?.items.pop();
    let conversation = conversation.map(|(it, _)| (it.created_at.at(), Root::Session(it.id)));
    let begun = event.into_iter().chain(conversation);
    if let Some((_, root)) = begun.max_by_key(|(at, _)| *at) {
        return Ok(Some(root));
    }
    // For a log with turns but without conversations.
    let turns = TurnQuery::default().page(Order::NewestFirst, 1, None);
    let turn = store.turns(&turns)?.items.pop();
    Ok(turn.and_then(|turn| turn.thread_id).map(Root::Session))
}

/// Prints the nodes as JSON, or draws them.
fn print<T: Serialize>(
    context: &mut Context,
    nodes: Vec<T>,
    node: impl Fn(T) -> Node,
) -> Result<Exit, Failure> {
    if context.json {
        context.out.json_lines(&nodes)?;
    } else {
        let nodes: Vec<Node> = nodes.into_iter().map(node).collect();
        draw(&mut context.out, &nodes)?;
    }
    Ok(Exit::Ok)
}

fn event(node: EventNode) -> Node {
    let gone = if node.parent_is_gone {
        " (its parent is no longer in the log)"
    } else {
        ""
    };
    let payload = node.event.payload.unwrap_or_default();
    Node {
        depth: node.depth,
        label: format!("#{} {}{gone}", node.event.id, node.event.event_type),
        status: node.status,
        duration_ms: node.duration_ms,
        detail: clipped(&payload, DETAIL_COLUMNS).into_owned(),
    }
}

fn place(node: SessionNode) -> Node {
    let (label, detail) = match node.item {
        SessionItem::Conversation(it) => {
            let (conversation, stats) = *it;
            let title = conversation.title.map(|title| title + "  ");
            let totals = format!(
                "{}{}, {} tokens in, {} out",
                title.unwrap_or_default(),
                counted(stats.message_count, "message"),
                count(stats.total_tokens_in),
                count(stats.total_tokens_out),
            );
            let label = format!("{} {}", conversation.client, conversation.id);
            (label, totals)
        }
        SessionItem::Turn(turn) => {
            let (label, said) = match &node.name {
                // The content of a received span is JSON.
                Some(name) => (clipped(name, DETAIL_COLUMNS).into_owned(), ""),
                None => (turn.kind.to_string(), &*turn.content),
            };
            (label, in_row(node.reasoning) + said)
        }
        SessionItem::Message(message) => {
            let label = match (&message.model_used, &message.tool_name) {
                (Some(name), _) | (None, Some(name)) => format!("{} {name}", message.role),
                (None, None) => message.role.to_string(),
            };
            let said = in_row(message.reasoning) + &message.content;
            (label, message.error.unwrap_or(said))
        }
        SessionItem::Call(call) => {
            let (req, done) = *call;
            let failure = done.and_then(|done| done.error_msg.or(done.error_kind));
            let arguments = req.arguments_json.unwrap_or_default();
            (
                req.tool_name,
                failure_in_row(failure.as_deref()) + &arguments,
            )
        }
    };
    Node {
        depth: node.depth,
        label,
        status: node.status,
        duration_ms: node.duration_ms,
        detail: clipped(detail.trim(), DETAIL_COLUMNS).into_owned(),
    }
}

/// The model's reasoning, shown before the answer.
fn in_row(reasoning: Option<String>) -> String {
    reasoning.map_or(String::new(), |text| {
        format!("({})  ", clipped(text.trim(), REASONING_COLUMNS))
    })
}
