//! Trees of events: what happened under an event, how it ended and how long it took.

mod spans;

use std::collections::HashSet;

use serde::Serialize;

use self::spans::close_spans;
use super::events::{children, find};
use super::standing_as;
use crate::error::Result;
use crate::index::{Position, Select};
use crate::record::{Event, Kind};
use crate::store::{Reads, Store, View};

const KIND: Kind = Kind::Events;

/// How what began with an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "face", derive(utoipa::ToSchema))]
pub enum SpanStatus {
    /// It began, and no event says that it ended.
    Running,
    /// It ended well.
    Completed,
    /// It failed.
    Failed,
}

impl SpanStatus {
    /// The status as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            SpanStatus::Running => "running",
            SpanStatus::Completed => "completed",
            SpanStatus::Failed => "failed",
        }
    }
}

/// An event in its tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "face", derive(utoipa::ToSchema))]
pub struct EventNode {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// How deep it stands, from 0 at the root.
    pub depth: usize,
    /// Of an event that begins something: how that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SpanStatus>,
    /// Of an event that begins something: how long that took, in milliseconds, once it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// It names a parent that is not in the log any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub parent_is_gone: bool,
}

/// An event and all that is under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTree {
    /// The root first, then under each event its children by id: the order in which a tree is
    /// drawn.
    pub nodes: Vec<EventNode>,
}

impl Store {
    /// The tree under an event; `None` if there is no such event.
    ///
    /// What `x.started` began ends with the `x.completed` or `x.failed` under it or, failing
    /// that, beside it: the one whose payload names the same `call_id` or, where one of the two
    /// names none, the first that no other began. Events with other endings, such as
    /// `worker.spawned`, have neither status nor duration.
    ///
    /// ```
    /// # use decklog::{SpanStatus, Store, event_type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let run = store.log_event(None, event_type::AGENT_STARTED, None)?;
    /// let call = Some(r#"{"call_id":"c1","tool":"bash"}"#);
    /// store.log_event(Some(run), event_type::TOOL_CALL_STARTED, call)?;
    /// store.log_event(Some(run), event_type::TOOL_CALL_FAILED, call)?;
    /// let nodes = store.event_tree(run)?.expect("logged above").nodes;
    /// assert_eq!((nodes[0].depth, nodes[0].status), (0, Some(SpanStatus::Running)));
    /// assert_eq!((nodes[1].depth, nodes[1].status), (1, Some(SpanStatus::Failed)));
    /// assert!(nodes[1].duration_ms.is_some());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn event_tree(&self, id: i64) -> Result<Option<EventTree>> {
        self.inner().ask(|view| {
            let mut nodes = match gather(view, id)? {
                Some(events) => drawn(events, id),
                None => nodes_one_by_one(view, id)?,
            };
            let Some(root) = nodes.first_mut() else {
                return Ok(None);
            };
            root.parent_is_gone = match root.event.parent_id {
                Some(parent) => find(view, parent)?.is_none(),
                None => false,
            };
            close_spans(&mut nodes);
            close_root(view, &mut nodes[0])?;
            Ok(Some(EventTree { nodes }))
        })
    }
}

/// The events from a root on, and maybe others, read in the order in which they were logged.
/// `None` where the index alone cannot tell them: two ids that have the same hash, an event
/// before the one it is under, or lines that are not what the index says.
fn gather(view: &View<'_>, root: i64) -> Result<Option<Vec<Event>>> {
    let table = view.table(KIND);
    let mut text = itoa::Buffer::new();
    let Some((root, _)) = view.find(KIND, [text.format(root), ""]) else {
        return Ok(Some(Vec::new()));
    };
    let id_of = |row| table.place(Select::All, row).map(|position| position.at);
    let mut rows = vec![root];
    let mut next = 0;
    while let Some(row) = rows.get(next).copied() {
        next += 1;
        let Some(id) = id_of(row) else {
            return Ok(None);
        };
        let select = Select::Lookup(0, view.hasher().lookup(text.format(id)));
        let known = rows.len();
        rows.extend(table.walk(select, Position::FIRST, Position::END));
        if rows[known..].iter().any(|child| *child <= row) || rows.len() > table.len() {
            return Ok(None);
        }
    }
    rows.sort_unstable();
    if rows.windows(2).any(|pair| pair[0] == pair[1]) {
        return Ok(None);
    }
    let mut events = Vec::with_capacity(rows.len());
    for row in view.reading(KIND, &rows, |row| row) {
        let Some(event) = standing_as::<Event>(view, row)? else {
            continue;
        };
        if id_of(row) != Some(event.id) {
            return Ok(None);
        }
        events.push(event);
    }
    Ok(Some(events))
}

/// The events from a root on, as a tree is drawn. Trees may be of any depth.
fn drawn(events: Vec<Event>, root: i64) -> Vec<EventNode> {
    let places = events.iter().enumerate();
    let under = places.filter_map(|(place, event)| Some((event.parent_id?, event.id, place)));
    let mut under: Vec<(i64, i64, usize)> = under.collect();
    // Mostly they are already.
    under.sort_unstable();
    let root = events.iter().position(|event| event.id == root);
    let mut waiting = Vec::from_iter(root.map(|place| (0, place)));
    let mut nodes = Vec::with_capacity(events.len());
    let mut events: Vec<_> = events.into_iter().map(Some).collect();
    while let Some((depth, place)) = waiting.pop() {
        let Some(event) = events[place].take() else {
            continue;
        };
        let first = under.partition_point(|(parent, ..)| *parent < event.id);
        let below = under[first..].iter();
        let below = below.take_while(|(parent, ..)| *parent == event.id);
        let known = waiting.len();
        waiting.extend(below.map(|(.., place)| (depth + 1, *place)));
        waiting[known..].reverse();
        nodes.push(node(depth, event));
    }
    nodes
}

/// As [`drawn`], of what [`gather`] does not tell.
fn nodes_one_by_one(from: &impl Reads, root: i64) -> Result<Vec<EventNode>> {
    let mut nodes: Vec<EventNode> = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut waiting = Vec::from_iter(find(from, root)?.map(|root| (0, root)));
    while let Some((depth, event)) = waiting.pop() {
        let below = children(from, event.id)?;
        // Only a forged log has an event above itself.
        let below = below.into_iter().filter(|child| seen.insert(child.id));
        let first = waiting.len();
        waiting.extend(below.map(|child| (depth + 1, child)));
        waiting[first..].reverse();
        nodes.push(node(depth, event));
    }
    Ok(nodes)
}

/// How a root ended by what stands beside it, which is not in its tree.
fn close_root(from: &impl Reads, root: &mut EventNode) -> Result<()> {
    let (Some(SpanStatus::Running), Some(parent)) = (root.status, root.event.parent_id) else {
        return Ok(());
    };
    let what = |event: &Event| {
        event
            .event_type
            .rsplit_once('.')
            .map(|(what, _)| what.to_owned())
    };
    let wanted = what(&root.event);
    // What is above takes the first end that is beside.
    let above = find(from, parent)?;
    let mut around = Vec::from_iter(above.map(|event| node(0, event)));
    for beside in children(from, parent)? {
        if what(&beside) != wanted {
            continue;
        }
        let below = children(from, beside.id)?;
        around.push(node(1, beside));
        let below = below.into_iter().filter(|event| what(event) == wanted);
        around.extend(below.map(|event| node(2, event)));
    }
    close_spans(&mut around);
    let found = around
        .into_iter()
        .find(|node| node.event.id == root.event.id);
    if let Some(found) = found {
        (root.status, root.duration_ms) = (found.status, found.duration_ms);
    }
    Ok(())
}

fn node(depth: usize, event: Event) -> EventNode {
    EventNode {
        event,
        depth,
        status: None,
        duration_ms: None,
        parent_is_gone: false,
    }
}
