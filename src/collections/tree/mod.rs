//! Event trees: what happened below an event, how it ended and how long it took.

mod names;
mod spans;

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::ControlFlow;

use serde::Serialize;

use self::spans::{End, close_below, close_spans, end_status, what};
use super::events::{find, under};
use super::page::{PartEnd, ROWS_AT_A_TIME};
use super::standing_as;
use crate::error::{Error, Result};
use crate::index::{Position, RowId, Select};
use crate::record::{Event, Kind};
use crate::store::{Inner, ReadAhead, Reads, Store, Watermark};

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
        let inner = self.inner();
        let mut allowed = Allowance {
            bytes_max,
            left: bytes_max,
        };
        let mut nodes = match gather(inner, id, &mut allowed)? {
            Some(events) => drawn(events, id),
            None => nodes_one_by_one(inner, id, &mut allowed)?,
        };
        let Some(root) = nodes.first_mut() else {
            return Ok(None);
        };
        root.parent_is_gone = match root.event.parent_id {
            Some(parent) => event(inner, parent)?.is_none(),
            None => false,
        };
        close_spans(&mut nodes);
        close_from_above(inner, &mut nodes)?;
        Ok(Some(EventTree { nodes }))
    }
}

/// Memory limit for a tree.
struct Allowance {
    bytes_max: usize,
    left: usize,
}

impl Allowance {
    fn take(&mut self, event: &Event) -> Result<()> {
        let payload = event.payload.as_ref().map_or(0, String::len);
        let bytes = payload + event.event_type.len() + NODE_BYTES;
        let left = self.left.checked_sub(bytes).ok_or_else(|| {
            let message = format!(
                "the tree has more than {} bytes: read it from an event further down, or list events by their parent_id, page by page",
                self.bytes_max
            );
            Error::invalid(message)
        })?;
        self.left = left;
        Ok(())
    }
}

fn event(inner: &Inner, id: i64) -> Result<Option<Event>> {
    inner.with_snapshot(|view| find(view, id))
}

/// The rows of a tree and their sequence numbers, as far as they were found.
#[derive(Default)]
struct OfTree {
    watermark: Option<Watermark>,
    rows: Vec<(RowId, u64)>,
    /// The children of the rows before this index were listed.
    next: usize,
    /// The position to continue from among the children of that row.
    from: Option<Position>,
}

/// Reads the events of a tree in the order in which they were logged; other events may be among
/// them. `None` if the index alone cannot determine the tree: two ids with the same hash, an event
/// logged before its parent, or lines that do not match the index.
fn gather(inner: &Inner, root: i64, allowed: &mut Allowance) -> Result<Option<Vec<Event>>> {
    let Some(seqs) = seqs_of_tree(inner, root)? else {
        return Ok(None);
    };
    let (mut events, mut ahead) = (Vec::new(), ReadAhead::new());
    let mut left = seqs.as_slice();
    while !left.is_empty() {
        let read = inner.with_snapshot_ahead(&mut ahead, |view| {
            let table = view.table(KIND);
            let row = |seq: &u64| {
                let id = table.row_from_seq(*seq);
                table.row(id).filter(|row| row.seq == *seq).map(|_| id)
            };
            let ahead = left.iter().take(ROWS_AT_A_TIME);
            let rows: Vec<RowId> = ahead.filter_map(row).collect();
            let mut end = PartEnd::new();
            let mut some = Vec::new();
            let mut count = left.len().min(ROWS_AT_A_TIME);
            for (place, id) in view.reading(KIND, &rows, |row| row).enumerate() {
                if let Some(event) = standing_as::<Event>(view, id)? {
                    let place = table.place(Select::All, id);
                    if place.map(|place| place.at) != Some(event.id) {
                        return Ok(None);
                    }
                    some.push(event);
                }
                // If no row was filtered out, indexes into `rows` are also indexes into `left`.
                if rows.len() == count && end.has_come(true) {
                    count = place + 1;
                    break;
                }
            }
            Ok(Some((some, count)))
        })?;
        let Some((some, count)) = read else {
            return Ok(None);
        };
        for event in some {
            allowed.take(&event)?;
            events.push(event);
        }
        left = left.get(count..).unwrap_or_default();
    }
    Ok(Some(events))
}

/// The sequence numbers of the events of a tree, in ascending order, from the index.
fn seqs_of_tree(inner: &Inner, root: i64) -> Result<Option<Vec<u64>>> {
    let known = RefCell::new(OfTree::default());
    loop {
        let found = inner.with_snapshot(|view| {
            let table = view.table(KIND);
            let found = view.find(KIND, [itoa::Buffer::new().format(root), ""]);
            let Some((root, row)) = found else {
                *known.borrow_mut() = OfTree::default();
                return Ok(ControlFlow::Break(true));
            };
            let mut known = known.borrow_mut();
            let now = view.watermark();
            // Row ids change when rows are removed.
            if !known.watermark.is_some_and(|then| then.has_same_rows(now)) {
                *known = OfTree {
                    rows: vec![(root, row.seq)],
                    ..OfTree::default()
                };
            }
            known.watermark = Some(now);
            let mut end = PartEnd::new();
            let mut text = itoa::Buffer::new();
            while let Some((row, _)) = known.rows.get(known.next).copied() {
                let Some(id) = table.place(Select::All, row).map(|place| place.at) else {
                    return Ok(ControlFlow::Break(false));
                };
                let select = Select::Lookup(0, view.hasher().lookup(text.format(id)));
                let from = known.from.take().unwrap_or(Position::FIRST);
                for child in table.walk(select, from, Position::END) {
                    let Some(of_child) = table.row(child) else {
                        continue;
                    };
                    known.rows.push((child, of_child.seq));
                    if child <= row || known.rows.len() > table.len() {
                        return Ok(ControlFlow::Break(false));
                    }
                    if end.has_come(false) {
                        let place = table.place(select, child);
                        known.from = place.map(|place| Position::after(place.at, place.seq));
                        return Ok(ControlFlow::Continue(()));
                    }
                }
                known.next += 1;
                if end.has_come(false) {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            Ok(ControlFlow::Break(true))
        })?;
        match found {
            ControlFlow::Continue(()) => {}
            ControlFlow::Break(false) => return Ok(None),
            ControlFlow::Break(true) => break,
        }
    }
    let mut rows = known.into_inner().rows;
    rows.sort_unstable();
    if rows.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Ok(None);
    }
    Ok(Some(rows.into_iter().map(|(_, seq)| seq).collect()))
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

/// As [`drawn`], for trees that [`gather`] cannot determine.
fn nodes_one_by_one(inner: &Inner, root: i64, allowed: &mut Allowance) -> Result<Vec<EventNode>> {
    let mut nodes: Vec<EventNode> = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut waiting = Vec::from_iter(event(inner, root)?.map(|root| (0, root)));
    while let Some((depth, event)) = waiting.pop() {
        allowed.take(&event)?;
        let below = under(inner, event.id)?;
        // Only a forged log has a cycle of parents.
        let below = below.into_iter().filter(|child| seen.insert(child.id));
        let first = waiting.len();
        waiting.extend(below.map(|child| (depth + 1, child)));
        waiting[first..].reverse();
        nodes.push(node(depth, event));
    }
    Ok(nodes)
}

/// Ends the spans that no event in the tree ends: the root by its siblings, the others by the end
/// of a span above them.
fn close_from_above(inner: &Inner, nodes: &mut [EventNode]) -> Result<()> {
    if !nodes.iter().any(is_running) {
        return Ok(());
    }
    // An event without a parent has no siblings.
    if is_running(&nodes[0]) && nodes[0].event.parent_id.is_some() {
        let found = closed(inner, nodes[0].event.clone())?;
        (nodes[0].status, nodes[0].duration_ms) = (found.status, found.duration_ms);
    }
    let mut above = None;
    let mut seen = HashSet::from([nodes[0].event.id]);
    let mut parent = match End::of(&nodes[0]) {
        Some(_) => None,
        None => nodes[0].event.parent_id,
    };
    // Only a forged log has a cycle of parents.
    while let Some(id) = parent.filter(|id| seen.insert(*id)) {
        let Some(event) = event(inner, id)? else {
            break;
        };
        parent = event.parent_id;
        if event.event_type.ends_with(".started") {
            above = End::of(&closed(inner, event)?);
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
fn closed(inner: &Inner, of: Event) -> Result<EventNode> {
    let above = match of.parent_id {
        Some(parent) => event(inner, parent)?,
        None => None,
    };
    let mut beside = match of.parent_id {
        Some(parent) => under(inner, parent)?,
        None => vec![of.clone()],
    };
    beside.retain(|event| what(event) == what(&of));
    let has_ends = beside.iter().any(|event| end_status(event).is_some());
    // The parent takes the first end among its children, so it takes part in the pairing.
    let mut around = Vec::from_iter(above.map(|event| node(0, event)));
    for event in beside {
        // If no sibling is an end, the siblings' children do not matter.
        let below = if has_ends || event.id == of.id {
            under(inner, event.id)?
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
