//! Trees of events: what happened under an event, how it ended and how long it took.

use std::collections::{HashMap, HashSet, VecDeque};

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
            close_root(view, &mut nodes[0])?;
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
        nodes.push(node(depth, event));
    }
    Ok(nodes)
}

/// What is open under one event, of one sort: places in the list of nodes, the first begun first.
#[derive(Default)]
struct Begun {
    all: VecDeque<usize>,
    /// Those whose payload names a call, by its name.
    calls: HashMap<String, VecDeque<usize>>,
    /// Those whose payload names none.
    others: VecDeque<usize>,
}

impl Begun {
    /// The one that an end belongs to: that of its call or, if neither names another call, the
    /// first.
    fn find(&mut self, call_id: Option<&String>, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let mut first = |places: &mut VecDeque<usize>| {
            // What has ended meanwhile never opens again.
            while places.front().is_some_and(|place| !is_open(*place)) {
                places.pop_front();
            }
            places.front().copied()
        };
        match call_id {
            Some(call_id) => self
                .calls
                .get_mut(call_id)
                .and_then(&mut first)
                .or_else(|| first(&mut self.others)),
            None => first(&mut self.all),
        }
    }
}

/// Pairs what began with what ended.
fn close_spans(nodes: &mut [EventNode]) {
    // What is open, by what it is and the event that its end would be beside.
    let mut beside: HashMap<(String, Option<i64>), Begun> = HashMap::new();
    // What began, by its id and what it is.
    let mut above: HashMap<(i64, String), usize> = HashMap::new();
    for place in 0..nodes.len() {
        let event = &nodes[place].event;
        let Some((what, word)) = event.event_type.rsplit_once('.') else {
            continue;
        };
        let what = what.to_owned();
        let (id, parent) = (event.id, event.parent_id);
        let call_id = call_id(event);
        match word {
            "started" => {
                nodes[place].status = Some(SpanStatus::Running);
                above.insert((id, what.clone()), place);
                let begun = beside.entry((what, parent)).or_default();
                begun.all.push_back(place);
                let own = match call_id {
                    Some(call_id) => begun.calls.entry(call_id).or_default(),
                    None => &mut begun.others,
                };
                own.push_back(place);
            }
            "completed" | "failed" => {
                let is_open = |place: usize| nodes[place].status == Some(SpanStatus::Running);
                let over = parent.and_then(|parent| above.get(&(parent, what.clone())));
                let found = match over.copied().filter(|place| is_open(*place)) {
                    Some(place) => Some(place),
                    None => beside
                        .get_mut(&(what, parent))
                        .and_then(|begun| begun.find(call_id.as_ref(), is_open)),
                };
                if let Some(begun) = found {
                    let is_failed = word == "failed";
                    let ended_at = event.created_at;
                    let node = &mut nodes[begun];
                    node.status = Some(if is_failed {
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

/// The call that an event's payload names.
fn call_id(event: &Event) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Payload {
        call_id: Option<serde_json::Value>,
    }
    let payload: Payload = serde_json::from_str(event.payload.as_deref()?).ok()?;
    payload.call_id.map(|id| id.to_string())
}
