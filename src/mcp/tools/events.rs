//! Events and their trees.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::answer::Fault;
use super::super::bound::PAGE_BYTES_MAX;
use super::given::{FromChar, Limit, Status, length, limit, put};
use super::{Call, Effect, Tool};
use crate::collections::{EventNode, SupervisorState, Warning};
use crate::record::Kind;
use crate::wire::fields::{AnyInt, Int};
use crate::wire::new::NewEvent;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "event_log",
            "Log an event",
            "Logs an event of a run, under its parent event. agent.started begins a run, agent.completed or agent.failed under it ends it; between them use tool_call.started, turn.completed or any dotted name. Returns the id, for the events under it.",
            Effect::Adds,
            log,
        ),
        Tool::new(
            "event_tree",
            "Read a run",
            "Reads an event with all events under it, in order, with depth, outcome and duration. Give the id of a run's first event to see the whole run.",
            Effect::Reads,
            tree,
        )
        .reading(&[Kind::Events]),
        Tool::new(
            "supervisor_state",
            "Read a supervisor's state",
            "Reads the state of a supervisor, derived from the log: telegram_offset, current_good_rev, and worker_instance_seq.",
            Effect::Reads,
            state,
        )
        .reading(&[Kind::Events, Kind::Inbox]),
    ]
}

/// A recorded event.
#[derive(Debug, Serialize)]
struct Logged {
    /// Its id.
    id: i64,
    /// The sequence number of its line.
    seq: u64,
    /// Whether the call added it or it existed.
    status: Status,
    /// A probable mistake in the accepted record.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

fn log(call: &Call<'_>, given: NewEvent) -> Result<Logged, Fault> {
    let (_, ack) = put(call, given)?;
    Ok(Logged {
        id: ack.assigned.unwrap_or_default(),
        seq: ack.seq,
        status: ack.status.into(),
        warning: ack.warning.map(Warning::as_str),
    })
}

/// The tree to read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Tree {
    /// The event at the root.
    id: AnyInt,
    /// Maximum number of events. Default: 100.
    limit: Option<Limit>,
    /// The next_cursor of the previous page.
    #[schema(pattern = "^[0-9]{1,18}$")]
    cursor: Option<String>,
    /// First character to show of truncated texts. Default: 0.
    #[allow(dead_code)] // Used to cut the answer.
    from_char: Option<FromChar>,
}

/// An event with the events under it.
#[derive(Debug, Serialize)]
struct Drawn {
    /// The root first, then under each event its children by id.
    nodes: Vec<EventNode>,
    /// Number of events in the whole tree.
    total: usize,
    /// The cursor of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn tree(call: &Call<'_>, given: Tree) -> Result<Drawn, Fault> {
    let Int(id) = given.id;
    let from = given.cursor.as_deref().map_or(Ok(0), str::parse::<usize>);
    let from = from.map_err(|_| {
        Fault::invalid("cursor: must be the next_cursor of an answer, unchanged")
            .with_field("cursor")
    })?;
    let tree = call.store.event_tree(id)?.ok_or_else(|| {
        Fault::not_found(format!(
            "there is no event {id}: find events with log_search"
        ))
        .with_field("id")
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
    Ok(Drawn {
        next_cursor: (next < total && !nodes.is_empty()).then(|| next.to_string()),
        nodes,
        total,
    })
}

/// The supervisor.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OfSupervisor {
    /// The event that started the supervisor. Default: the latest process.started without a parent.
    supervisor_id: Option<AnyInt>,
}

fn state(call: &Call<'_>, given: OfSupervisor) -> Result<SupervisorState, Fault> {
    let supervisor = given.supervisor_id.map(|id| id.0);
    Ok(call.store.supervisor_state(supervisor)?)
}
