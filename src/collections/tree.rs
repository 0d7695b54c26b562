//! Trees of events: what happened under an event, how it ended and how long it took.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::events::{children, find};
use crate::error::Result;
use crate::record::Event;
use crate::store::{Reads, Store};

/// How what began with an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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
    /// that, beside it: the first that no other began, or the one whose payload names the same
    /// `call_id`.
    pub fn event_tree(&self, id: i64) -> Result<Option<EventTree>> {
        self.inner().ask(|view| {
            let Some(root) = find(view, id)? else {
                return Ok(None);
            };
            let parent_is_gone = match root.parent_id {
                Some(parent) => find(view, parent)?.is_none(),
                None => false,
            };
            let mut nodes = nodes(view, root)?;
            nodes[0].parent_is_gone = parent_is_gone;
            close_spans(&mut nodes);
            Ok(Some(EventTree { nodes }))
        })
    }
}

/// The events from a root on, as a tree is drawn. Trees may be of any depth.
fn nodes(from: &impl Reads, root: Event) -> Result<Vec<EventNode>> {
    let mut nodes: Vec<EventNode> = Vec::new();
    let mut seen = HashSet::from([root.id]);
    let mut waiting = vec![(0, root)];
    while let Some((depth, event)) = waiting.pop() {
        let below = children(from, event.id)?;
        // Only a forged log has an event above itself.
        let below = below.into_iter().filter(|child| seen.insert(child.id));
        let first = waiting.len();
        waiting.extend(below.map(|child| (depth + 1, child)));
        waiting[first..].reverse();
        nodes.push(EventNode {
            event,
            depth,
            status: None,
            duration_ms: None,
            parent_is_gone: false,
        });
    }
    Ok(nodes)
}

/// Pairs what began with what ended.
fn close_spans(nodes: &mut [EventNode]) {
    // What is open, by what it is and the event that its end would be under.
    let mut open: HashMap<(String, Option<i64>), Vec<usize>> = HashMap::new();
    for place in 0..nodes.len() {
        let event = &nodes[place].event;
        let Some((what, word)) = event.event_type.rsplit_once('.') else {
            continue;
        };
        let what = what.to_owned();
        match word {
            "started" => {
                nodes[place].status = Some(SpanStatus::Running);
                let event = &nodes[place].event;
                let (id, parent) = (event.id, event.parent_id);
                open.entry((what.clone(), Some(id)))
                    .or_default()
                    .push(place);
                open.entry((what, parent)).or_default().push(place);
            }
            "completed" | "failed" => {
                let call_id = call_id(event);
                let parent = event.parent_id;
                let ended_at = event.created_at;
                let failed = word == "failed";
                let Some(begun) = open.get_mut(&(what, parent)) else {
                    continue;
                };
                let is_open = |begun: &usize| nodes[*begun].status == Some(SpanStatus::Running);
                let own = |begun: &&usize| {
                    call_id.is_some() && self::call_id(&nodes[**begun].event) == call_id
                };
                begun.retain(is_open);
                // The event above comes first: it was noted before those beside it.
                let above = begun
                    .iter()
                    .find(|begun| Some(nodes[**begun].event.id) == parent);
                let found = above
                    .or_else(|| begun.iter().find(own))
                    .or_else(|| begun.first());
                if let Some(begun) = found.copied() {
                    let node = &mut nodes[begun];
                    node.status = Some(if failed {
                        SpanStatus::Failed
                    } else {
                        SpanStatus::Completed
                    });
                    node.duration_ms = Some(ended_at.saturating_sub(node.event.created_at));
                }
            }
            _ => {}
        }
    }
}

/// The call that an event's payload names.
fn call_id(event: &Event) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Payload {
        call_id: Option<serde_json::Value>,
    }
    let payload: Payload = serde_json::from_str(event.payload.as_deref()?).ok()?;
    payload.call_id.map(|id| id.to_string())
}
