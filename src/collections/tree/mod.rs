//! Event trees: what happened below an event, how it ended and how long it took.

mod names;
mod spans;

use std::cell::RefCell;
use std::collections::HashSet;

use serde::Serialize;

use self::spans::{close_below, close_spans, end_of, end_status, what};
use super::events::under;
use super::page::PartEnd;
use super::with_seqs;
use crate::error::{Error, Result};
use crate::index::{Position, RowId, Select};
use crate::record::{Event, Kind};
use crate::store::{Inner, Reads, Snapshot, Store, Watermark};

const KIND: Kind = Kind::Events;
/// Estimated memory overhead of a node, without its strings.
const NODE_BYTES: usize = 128;

/// The status of a span, which is opened by an event. A span that is open when a span above it
/// ends, such as a turn of a failed run, ends at the same time with the same status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub enum SpanStatus {
    /// Started; neither it nor a span above it has ended.
    Running,
    /// Completed, or open when a span above it completed.
    Completed,
    /// Failed, or open when a span above it failed.
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
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct EventNode {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// The depth; the root has 0.
    pub depth: usize,
    /// For an event that opens a span: the status of the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SpanStatus>,
    /// For an event that opens a span: the duration of the span, in milliseconds, once it has
    /// ended. If no event closes it, up to the end of the span above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Whether its parent is no longer in the log.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub parent_is_gone: bool,
}

/// An event and all events under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTree {
    /// The nodes in pre-order: the root first, and each event followed by its children, by id.
    pub nodes: Vec<EventNode>,
}

impl Store {
    /// The tree below an event; `None` if there is no such event.
    ///
    /// A span opened by `x.started` is closed by an `x.completed` or `x.failed` event under it or,
    /// if there is none, by one with the same parent. An event of the latter kind closes the span
    /// with the same `call_id`; otherwise the first open span with the same `tool_name`, or for
    /// agents the same `task_id`; otherwise the first open span that names no other. It never
    /// closes a span that names another call, tool or task. A process uses its `pid` as `call_id`
    /// and is closed by `worker.exited`. Events of other types, such as `worker.spawned`, have
    /// neither a status nor a duration.
    ///
    /// A span that no event closes ends with the nearest span above it that has ended. It has the
    /// same status, and its duration is the time up to that end.
    ///
    /// ```
    /// # use decklog::{Store, event_type};
    /// # use decklog::tree::SpanStatus;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let run = store.log_event(None, event_type::AGENT_STARTED, None)?;
    /// let call = Some(r#"{"call_id":"c1","tool_name":"bash"}"#);
    /// store.log_event(Some(run), event_type::TOOL_CALL_STARTED, call)?;
    /// store.log_event(Some(run), event_type::TOOL_CALL_FAILED, call)?;
    /// let nodes = store.event_tree(run)?.expect("logged above").nodes;
    /// assert_eq!((nodes[0].depth, nodes[0].status), (0, Some(SpanStatus::Running)));
    /// assert_eq!((nodes[1].depth, nodes[1].status), (1, Some(SpanStatus::Failed)));
    /// assert!(nodes[1].duration_ms.is_some());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn event_tree(&self, id: i64) -> Result<Option<EventTree>> {
        self.event_tree_within(id, usize::MAX)
    }

    /// As [`event_tree`](Store::event_tree), for a tree whose events have at most this number of
    /// bytes.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) also if the tree is larger.
    pub(crate) fn event_tree_within(&self, id: i64, bytes_max: usize) -> Result<Option<EventTree>> {
        let mut left = bytes_max;
        let mut events = Vec::new();
        let seqs = seqs_of_tree(self.inner(), id)?;
        with_seqs(self.inner(), &seqs, |place, event: Event| {
            let payload = event.payload.as_ref().map_or(0, String::len);
            let bytes = payload + event.event_type.len() + NODE_BYTES;
            left = left.checked_sub(bytes).ok_or_else(|| {
                let message = format!(
                    "the tree has more than {bytes_max} bytes: read it from an event further down, or list events by their parent_id, page by page"
                );
                Error::invalid(message)
            })?;
            // The line may have been edited since it was indexed.
            if event.id == place.at {
                events.push(event);
            }
            Ok(())
        })?;
        let mut nodes = drawn(events, id);
        let Some(root) = nodes.first_mut() else {
            return Ok(None);
        };
        root.parent_is_gone = match root.event.parent_id {
            Some(parent) => self.get_event(parent)?.is_none(),
            None => false,
        };
        close_spans(&mut nodes);
        close_from_above(self, &mut nodes)?;
        Ok(Some(EventTree { nodes }))
    }
}

/// The rows of a tree and their sequence numbers, as far as they were found in the index. Rows of
/// other events may be among them, because the index has only hashes.
#[derive(Default)]
struct OfTree {
    watermark: Option<Watermark>,
    rows: Vec<(RowId, u64)>,
    seen: HashSet<RowId>,
    /// The children of the rows before this index were listed.
    next: usize,
    /// The position to continue from among the children of that row.
    from: Option<Position>,
}

impl OfTree {
    /// Lists children for a while. Returns whether all are listed.
    fn grow(&mut self, view: &Snapshot<'_>, root: i64) -> bool {
        let table = view.table(KIND);
        let mut text = itoa::Buffer::new();
        let Some((root, row)) = view.find(KIND, [text.format(root), ""]) else {
            *self = OfTree::default();
            return true;
        };
        let now = view.watermark();
        // Row ids change when rows are removed.
        if !self.watermark.is_some_and(|then| then.has_same_rows(now)) {
            *self = OfTree {
                rows: vec![(root, row.seq)],
                seen: HashSet::from([root]),
                ..OfTree::default()
            };
        }
        self.watermark = Some(now);
        let mut end = PartEnd::new();
        while let Some((row, _)) = self.rows.get(self.next) {
            let id = table.place(Select::All, *row).map_or(0, |place| place.at);
            let select = Select::Lookup(0, view.hasher().lookup(text.format(id)));
            let from = self.from.take().unwrap_or(Position::FIRST);
            for child in table.walk(select, from, Position::END) {
                // Only a forged log has a cycle of parents.
                if let Some(of_child) = table.row(child)
                    && self.seen.insert(child)
                {
                    self.rows.push((child, of_child.seq));
                }
                if end.has_come(false) {
                    let place = table.place(select, child);
                    self.from = place.map(|place| Position::after(place.at, place.seq));
                    return false;
                }
            }
            self.next += 1;
            if end.has_come(false) {
                return false;
            }
        }
        true
    }
}

/// The sequence numbers of the events of a tree, in ascending order, from the index.
fn seqs_of_tree(inner: &Inner, root: i64) -> Result<Vec<u64>> {
    let found = RefCell::new(OfTree::default());
    while !inner.with_snapshot(|view| Ok(found.borrow_mut().grow(view, root)))? {}
    let rows = found.into_inner().rows.into_iter();
    let mut seqs: Vec<u64> = rows.map(|(_, seq)| seq).collect();
    seqs.sort_unstable();
    Ok(seqs)
}

/// The events below a root in depth-first order. Not recursive, because trees may be of any depth.
fn drawn(events: Vec<Event>, root: i64) -> Vec<EventNode> {
    let places = events.iter().enumerate();
    let under = places.filter_map(|(place, event)| Some((event.parent_id?, event.id, place)));
    let mut under: Vec<(i64, i64, usize)> = under.collect();
    // Usually they are sorted already.
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

/// Ends the spans that no event in the tree ends: the root by its siblings, the others by the end
/// of a span above them.
fn close_from_above(store: &Store, nodes: &mut [EventNode]) -> Result<()> {
    if !nodes.iter().any(is_running) {
        return Ok(());
    }
    // An event without a parent has no siblings.
    if is_running(&nodes[0]) && nodes[0].event.parent_id.is_some() {
        let found = closed(store, nodes[0].event.clone())?;
        (nodes[0].status, nodes[0].duration_ms) = (found.status, found.duration_ms);
    }
    let mut above = None;
    let mut seen = HashSet::from([nodes[0].event.id]);
    let mut parent = match end_of(&nodes[0]) {
        Some(_) => None,
        None => nodes[0].event.parent_id,
    };
    // Only a forged log has a cycle of parents.
    while let Some(id) = parent.filter(|id| seen.insert(*id)) {
        let Some(event) = store.get_event(id)? else {
            break;
        };
        parent = event.parent_id;
        if event.event_type.ends_with(".started") {
            above = end_of(&closed(store, event)?);
            parent = parent.filter(|_| above.is_none());
        }
    }
    close_below(nodes, above);
    Ok(())
}

fn is_running(node: &EventNode) -> bool {
    node.status == Some(SpanStatus::Running)
}

/// An event that begins a span, with its end taken from its children and its siblings.
fn closed(store: &Store, of: Event) -> Result<EventNode> {
    let (above, mut beside) = match of.parent_id {
        Some(parent) => (store.get_event(parent)?, under(store, parent)?),
        None => (None, vec![of.clone()]),
    };
    beside.retain(|event| what(event) == what(&of));
    let has_ends = beside.iter().any(|event| end_status(event).is_some());
    // The parent takes the first end among its children, so it takes part in the pairing.
    let mut around = Vec::from_iter(above.map(|event| node(0, event)));
    for event in beside {
        // If no sibling is an end, the siblings' children do not matter.
        let below = if has_ends || event.id == of.id {
            under(store, event.id)?
        } else {
            Vec::new()
        };
        around.push(node(1, event));
        let below = below.into_iter().filter(|event| what(event) == what(&of));
        around.extend(below.map(|event| node(2, event)));
    }
    close_spans(&mut around);
    let found = around.into_iter().find(|node| node.event.id == of.id);
    Ok(found.unwrap_or_else(|| node(0, of)))
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
