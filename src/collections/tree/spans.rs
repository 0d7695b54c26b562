//! Pairs what began with what ended.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};

use serde_json::value::RawValue;

use super::{EventNode, SpanStatus};
use crate::record::{Event, event_type};

/// Says of every event that began something how that ended. The nodes are in the order in which
/// a tree is drawn.
pub(super) fn close_spans(nodes: &mut [EventNode]) {
    let spans = spans(nodes);
    for (node, span) in nodes.iter_mut().zip(spans) {
        if let Some(span) = span {
            (node.status, node.duration_ms) = (Some(span.status), span.duration_ms);
        }
    }
}

/// What `process.started` begins and `worker.exited` ends.
const PROCESS: &str = "process";

#[derive(Debug, Clone, Copy)]
struct Span {
    status: SpanStatus,
    duration_ms: Option<i64>,
}

impl Span {
    const RUNNING: Span = Span {
        status: SpanStatus::Running,
        duration_ms: None,
    };
}

fn spans(nodes: &[EventNode]) -> Vec<Option<Span>> {
    let mut spans: Vec<Option<Span>> = vec![None; nodes.len()];
    // The event at each depth that the next node may be under, and what is open right under it.
    let mut above: Vec<Option<usize>> = Vec::new();
    let mut beside: Vec<Siblings<'_>> = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        let (event, depth) = (&node.event, node.depth);
        above.resize(depth, None);
        above.push(Some(place));
        if beside.len() < depth + 2 {
            beside.resize_with(depth + 2, Siblings::default);
        }
        beside[depth + 1].clear();
        let Some((what, word)) = event.event_type.rsplit_once('.') else {
            continue;
        };
        let siblings = &mut beside[depth];
        let is_open =
            |place: usize| matches!(spans[place], Some(span) if span.status == SpanStatus::Running);
        let status = match word {
            "started" => {
                siblings.begin(Begun::new(place, what, event), is_open);
                spans[place] = Some(Span::RUNNING);
                continue;
            }
            "completed" => SpanStatus::Completed,
            "failed" => SpanStatus::Failed,
            _ if event.event_type == event_type::WORKER_EXITED => exit_status(event),
            _ => continue,
        };
        let is_exit = event.event_type == event_type::WORKER_EXITED;
        let what = if is_exit { PROCESS } else { what };
        let over = depth.checked_sub(1).and_then(|depth| above[depth]);
        let over = over.filter(|over| {
            let over = &nodes[*over].event;
            let over_type = over.event_type.rsplit_once('.');
            // What a supervisor tells of a worker under its own event does not end the supervisor.
            let may_end = !is_exit || over.parent_id.is_some();
            over_type.is_some_and(|(over_what, _)| over_what == what) && may_end
        });
        let over = over.filter(|over| is_open(*over));
        let begun = if is_exit {
            siblings.find(what, event, is_open).or(over)
        } else {
            over.or_else(|| siblings.find(what, event, is_open))
        };
        if let Some(begun) = begun {
            let began_at = nodes[begun].event.created_at;
            spans[begun] = Some(Span {
                status,
                duration_ms: Some(event.created_at.saturating_sub(began_at)),
            });
        }
    }
    spans
}

/// What began, by its place in the list of nodes.
struct Begun<'a> {
    place: usize,
    what: &'a str,
    event: &'a Event,
    /// The call that it names, once that was asked for.
    call_id: OnceCell<Option<Cow<'a, str>>>,
}

impl<'a> Begun<'a> {
    fn new(place: usize, what: &'a str, event: &'a Event) -> Begun<'a> {
        Begun {
            place,
            what,
            event,
            call_id: OnceCell::new(),
        }
    }

    fn call_id(&self) -> Option<&str> {
        self.call_id.get_or_init(|| call_id(self.event)).as_deref()
    }
}

/// What began under one event and may be open, the first begun first.
#[derive(Default)]
struct Siblings<'a> {
    /// Up to [`FEW`], which are looked through.
    few: Vec<Begun<'a>>,
    /// Once there were more, all of them.
    many: HashMap<&'a str, Queues<'a>>,
}

const FEW: usize = 32;

impl<'a> Siblings<'a> {
    fn clear(&mut self) {
        self.few.clear();
        self.many.clear();
    }

    fn begin(&mut self, begun: Begun<'a>, is_open: impl Fn(usize) -> bool) {
        if self.few.len() == FEW {
            self.few.retain(|begun| is_open(begun.place));
            if self.few.len() > FEW / 2 {
                for begun in std::mem::take(&mut self.few) {
                    self.queue(&begun);
                }
            }
        }
        if self.many.is_empty() {
            self.few.push(begun);
        } else {
            self.queue(&begun);
        }
    }

    fn queue(&mut self, begun: &Begun<'a>) {
        let queues = self.many.entry(begun.what).or_default();
        queues.all.push_back(begun.place);
        let own = match call_id(begun.event) {
            Some(call_id) => queues.calls.entry(call_id).or_default(),
            None => &mut queues.others,
        };
        own.push_back(begun.place);
    }

    /// The one that an end belongs to: that of its call or, if neither names another call, the
    /// first.
    fn find(&mut self, what: &str, end: &Event, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        if let Some(queues) = self.many.get_mut(what) {
            return queues.find(call_id(end).as_deref(), is_open);
        }
        let mut open = self
            .few
            .iter()
            .filter(|begun| begun.what == what && is_open(begun.place));
        let first = open.next()?;
        let Some(call_id) = call_id(end) else {
            return Some(first.place);
        };
        let mut other = None;
        for begun in std::iter::once(first).chain(open) {
            match begun.call_id() {
                Some(own) if own == call_id => return Some(begun.place),
                Some(_) => {}
                None => other = other.or(Some(begun.place)),
            }
        }
        other
    }
}

/// What is open under one event, of one sort: places in the list of nodes, the first begun first.
#[derive(Default)]
struct Queues<'a> {
    all: VecDeque<usize>,
    /// Those whose payload names a call, by its name.
    calls: HashMap<Cow<'a, str>, VecDeque<usize>>,
    /// Those whose payload names none.
    others: VecDeque<usize>,
}

impl Queues<'_> {
    fn find(&mut self, call_id: Option<&str>, is_open: impl Fn(usize) -> bool) -> Option<usize> {
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

/// How a worker ended that exited.
fn exit_status(event: &Event) -> SpanStatus {
    #[derive(serde::Deserialize)]
    struct Payload {
        exit_code: Option<i64>,
    }
    let payload = event
        .payload
        .as_deref()
        .map(serde_json::from_str::<Payload>);
    match payload {
        Some(Ok(Payload {
            exit_code: Some(code),
        })) if code != 0 => SpanStatus::Failed,
        _ => SpanStatus::Completed,
    }
}

/// The call, or of a process the `pid`, that an event's payload names, as JSON.
fn call_id(event: &Event) -> Option<Cow<'_, str>> {
    #[derive(serde::Deserialize)]
    struct Payload<'a> {
        #[serde(borrow)]
        call_id: Option<&'a RawValue>,
        #[serde(borrow)]
        pid: Option<&'a RawValue>,
    }
    let payload: Payload<'_> = serde_json::from_str(event.payload.as_deref()?).ok()?;
    let is_of_process = matches!(
        &*event.event_type,
        event_type::PROCESS_STARTED | event_type::WORKER_EXITED
    );
    let id = if is_of_process {
        payload.pid
    } else {
        payload.call_id
    };
    let id = id?.get();
    // Others may be spelled in several ways.
    if id.starts_with('"') && !id.contains('\\') {
        return Some(Cow::Borrowed(id));
    }
    let id: serde_json::Value = serde_json::from_str(id).ok()?;
    Some(Cow::Owned(id.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn child(id: usize, word: &str, what: usize, call: usize) -> EventNode {
        let event = Event {
            id: i64::try_from(id).unwrap() + 2,
            parent_id: Some(1),
            event_type: format!("{}.{word}", ["turn", "tool_call"][what]),
            created_at: i64::try_from(id).unwrap(),
            payload: (call > 0).then(|| format!(r#"{{"call_id":"c{call}"}}"#)),
        };
        super::super::node(1, event)
    }

    /// For every end the place of what it ends, found by looking through all that is open.
    fn by_looking(nodes: &[EventNode]) -> Vec<Option<usize>> {
        let mut open: Vec<usize> = Vec::new();
        let what = |place: usize| nodes[place].event.event_type.split('.').next();
        let call = |place: usize| nodes[place].event.payload.clone();
        let mut ended = Vec::new();
        for (place, node) in nodes.iter().enumerate() {
            if node.event.event_type.ends_with("started") {
                open.push(place);
                continue;
            }
            let mine = |at: &usize| what(open[*at]) == what(place);
            let of_call = |wanted: Option<String>| {
                (0..open.len())
                    .filter(mine)
                    .find(|at| call(open[*at]) == wanted)
            };
            let at = match call(place) {
                Some(own) => of_call(Some(own)).or_else(|| of_call(None)),
                None => (0..open.len()).find(mine),
            };
            ended.push(at.map(|at| open.remove(at)));
        }
        ended
    }

    proptest! {
        /// Few siblings and many are paired by the same rule.
        #[test]
        fn siblings_are_paired_as_by_looking_through_them(
            begins in 1..10usize,
            drawn in proptest::collection::vec((0..10usize, 0..2usize, 0..20usize), 0..200),
        ) {
            let drawn = drawn.into_iter().enumerate();
            let mut nodes: Vec<EventNode> = drawn.map(|(id, (word, what, call))| {
                let word = if word < begins { "started" } else { "completed" };
                child(id, word, what, call)
            }).collect();
            let ended = by_looking(&nodes);
            close_spans(&mut nodes);
            let is_end = |node: &&EventNode| node.event.event_type.ends_with("completed");
            let ends = nodes.iter().filter(is_end).zip(ended);
            let mut expected = vec![None; nodes.len()];
            for (end, begun) in ends {
                if let Some(begun) = begun {
                    expected[begun] = Some(end.event.created_at - nodes[begun].event.created_at);
                }
            }
            let found: Vec<_> = nodes.iter().map(|node| node.duration_ms).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
