//! Events and their trees.

use serde::Serialize;

use super::super::answer::Fault;
use super::super::bound::PAGE_BYTES_MAX;
use super::Call;
use super::given::{FromChar, Limit, Listed, length, limit, position, put};
use crate::collections::{EventNode, SupervisorState};
use crate::record::Kind;
use crate::wire::fields::{AnyInt, Int};
use crate::wire::new::NewEvent;

tools! {
    /// Logs an event of a run, under its parent event. agent.started begins a run, agent.completed
    /// or agent.failed under it ends it; between them use tool_call.started, turn.completed or any
    /// dotted name. Returns the id, for the events under it.
    event_log("Log an event", Adds) => put(NewEvent)

    /// Reads an event with all events under it, in order, with depth, outcome and duration. Give
    /// the id of a run's first event to see the whole run.
    event_tree("Read a run", Reads, [Kind::Events]) => tree(Tree {
        /// The event at the root.
        id: AnyInt,
        /// Maximum number of events. Default: 100.
        limit: Option<Limit>,
        /// The next_cursor of the previous page.
        #[schema(pattern = "^[0-9]{1,18}$")]
        cursor: Option<String>,
        /// First character to show of truncated texts. Default: 0.
        from_char: Option<FromChar>,
    })

    /// Reads the state of a supervisor, derived from the log: telegram_offset, current_good_rev,
    /// and worker_instance_seq.
    supervisor_state("Read a supervisor's state", Reads, [Kind::Events, Kind::Inbox]) => state(OfSupervisor {
        /// The event that started the supervisor. Default: the latest process.started without a parent.
        supervisor_id: Option<AnyInt>,
    })
}

/// An event with the events under it.
#[derive(Debug, Serialize)]
struct Drawn {
    /// The root first, then under each event its children by id.
    #[serde(flatten)]
    nodes: Listed<EventNode>,
    /// Number of events in the whole tree.
    total: usize,
}

fn tree(call: &Call<'_>, given: Tree) -> Result<Drawn, Fault> {
    let Int(id) = given.id;
    let from: usize = position(given.cursor.as_deref())?.unwrap_or(0);
    let tree = call.store.event_tree(id)?.ok_or_else(|| {
        let message = format!("there is no event {id}: find events with log_search");
        Fault::unknown("id", message)
    })?;
    let total = tree.nodes.len();
    let mut bytes = 0;
    let mut is_room = |node: &EventNode| {
        let was = bytes;
        bytes += length(node);
        was < PAGE_BYTES_MAX
    };
    let nodes = tree.nodes.into_iter().skip(from).take(limit(given.limit));
    let nodes: Vec<EventNode> = nodes.take_while(|node| is_room(node)).collect();
    let next = from.saturating_add(nodes.len());
    let next = Some(next).filter(|next| *next < total && !nodes.is_empty());
    Ok(Drawn {
        nodes: Listed::new("nodes", nodes, next),
        total,
    })
}

fn state(call: &Call<'_>, given: OfSupervisor) -> Result<SupervisorState, Fault> {
    let supervisor = given.supervisor_id.map(|id| id.0);
    Ok(call.store.supervisor_state(supervisor)?)
}
