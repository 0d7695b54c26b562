//! `decklog tree`

use decklog::EventNode;

use super::branches::{Node, draw};
use super::context::Context;
use super::escape::clipped;
use super::exit::{Exit, Failure};
use super::get::missing;

/// How much of a payload is shown.
const PAYLOAD_COLUMNS: usize = 80;

/// Show what happened under an event: how each part ended, and how long it took
///
/// --json prints one event a line, from the root on, with its depth, status and duration_ms.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog tree 12 --json | jq 'select(.status==\"failed\")'\n\nIts colours stay away where NO_COLOR is set, and where no terminal shows them."
)]
pub struct Args {
    /// The event's id, as 'decklog events --roots' shows it
    #[arg(value_parser = event_id)]
    id: i64,
}

fn event_id(text: &str) -> Result<i64, String> {
    let id = text.parse().ok();
    id.ok_or_else(|| "give the number of an event".to_owned())
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let Some(tree) = store.event_tree(args.id)? else {
        return Ok(missing(&format!("event {}", args.id)));
    };
    if context.json {
        for node in &tree.nodes {
            context.out.json(node)?;
        }
        return Ok(Exit::Ok);
    }
    let depths: Vec<usize> = tree.nodes.iter().map(|node| node.depth).collect();
    draw(&mut context.out, &depths, tree.nodes.into_iter().map(drawn))?;
    Ok(Exit::Ok)
}

fn drawn(node: EventNode) -> Node {
    let gone = if node.parent_is_gone {
        " (its parent is not in the log any more)"
    } else {
        ""
    };
    let payload = node.event.payload.unwrap_or_default();
    Node {
        label: format!("#{} {}{gone}", node.event.id, node.event.event_type),
        status: node.status,
        duration_ms: node.duration_ms,
        detail: clipped(&payload, PAYLOAD_COLUMNS).into_owned(),
    }
}
