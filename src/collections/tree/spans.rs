//! Pairs the starts of spans with their ends.

use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::names::{Name, Names, Wanted, wanted};
use super::{EventNode, SpanStatus};
use crate::record::{Event, event_type};

/// Fills in the status and duration of every event that begins a span. The nodes are in depth-first
/// order.
pub(super) fn close_spans(nodes: &mut [EventNode]) {
    let spans = spans(nodes);
    for (node, span) in nodes.iter_mut().zip(spans) {
        if let Some((status, duration_ms)) = span {
            (node.status, node.duration_ms) = (Some(status), duration_ms);
        }
    }
}

/// The status and time of the end of a span.
pub(super) type End = (SpanStatus, i64);

/// The end of the span that an event began; `None` if it is running or if the event begins no span.
pub(super) fn end_of(node: &EventNode) -> Option<End> {
    let at = node.event.created_at.saturating_add(node.duration_ms?);
    Some((node.status?, at))
}

/// Ends the running spans below an ended span, with that span's status. `above` is the end of the
/// nearest ended span above the root.
pub(super) fn close_below(nodes: &mut [EventNode], above: Option<End>) {
    // At each depth, the end that applies to what is below the event there.
    let mut ends: Vec<Option<End>> = Vec::new();
    for node in nodes {
        ends.truncate(node.depth);
        let above = ends.last().copied().unwrap_or(above);
        let own = end_of(node);
        if let (Some(SpanStatus::Running), Some((status, at))) = (node.status, above) {
            // The event may have been logged after that end.
            let took = at.saturating_sub(node.event.created_at).max(0);
            (node.status, node.duration_ms) = (Some(status), Some(took));
        }
        ends.push(own.or(above));
    }
}

/// The span that an event begins or ends: its type without the last word, or the process of a
/// worker.
pub(super) fn what(event: &Event) -> Option<&str> {
    if event.event_type == event_type::WORKER_EXITED {
        return Some(PROCESS);
    }
    event.event_type.rsplit_once('.').map(|(what, _)| what)
}

/// The span that `process.started` begins and `worker.exited` ends.
pub(super) const PROCESS: &str = "process";

/// The status of the span that an event ends.
pub(super) fn end_status(event: &Event) -> Option<SpanStatus> {
    match event.event_type.rsplit_once('.')?.1 {
        "completed" => Some(SpanStatus::Completed),
        "failed" => Some(SpanStatus::Failed),
        _ if event.event_type == event_type::WORKER_EXITED => Some(exit_status(event)),
        _ => None,
    }
}

/// The status of a span, and its duration in milliseconds once it has ended.
type Span = (SpanStatus, Option<i64>);

fn spans(nodes: &[EventNode]) -> Vec<Option<Span>> {
    let mut spans: Vec<Option<Span>> = vec![None; nodes.len()];
    // At each depth, the event that the next node may be below, and the open spans directly below
    // it.
    let mut above: Vec<Option<Begun<'_>>> = Vec::new();
    let mut beside: Vec<Siblings<'_>> = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        let (event, depth) = (&node.event, node.depth);
        above.resize_with(depth, || None);
        if beside.len() < depth + 2 {
            beside.resize_with(depth + 2, Siblings::default);
        }
        beside[depth + 1].clear();
        let Some(what) = what(event) else {
            above.push(None);
            continue;
        };
        above.push(Some(Begun::new(place, what, event)));
        let siblings = &mut beside[depth];
        let is_open = |place: usize| matches!(spans[place], Some((SpanStatus::Running, _)));
        if event.event_type.ends_with(".started") {
            siblings.begin(Begun::new(place, what, event), is_open);
            spans[place] = Some((SpanStatus::Running, None));
            continue;
        }
        let Some(status) = end_status(event) else {
            continue;
        };
        let is_exit = event.event_type == event_type::WORKER_EXITED;
        let over = depth.checked_sub(1).and_then(|depth| above[depth].as_ref());
        let over = over.filter(|over| {
            // A supervisor reports worker exits under its own event; such an exit does not end the
            // supervisor.
            let may_end = !is_exit || over.event.parent_id.is_some();
            over.what == what && may_end && is_open(over.place)
        });
        if over.is_none() && !siblings.may_have(what, is_open) {
            continue;
        }
        let wanted = wanted(Names::of(event));
        let over = over.filter(|over| wanted.iter().flatten().any(|wanted| over.is(wanted)));
        let over = over.map(|over| over.place);
        let mut wanted = wanted.into_iter().flatten();
        let mut beside = || wanted.find_map(|wanted| siblings.find(what, wanted, is_open));
        let begun = if is_exit {
            beside().or(over)
        } else {
            over.or_else(beside)
        };
        if let Some(begun) = begun {
            let began_at = nodes[begun].event.created_at;
            spans[begun] = Some((status, Some(event.created_at.saturating_sub(began_at))));
        }
    }
    spans
}

/// An open span, by its index in the list of nodes.
struct Begun<'a> {
    place: usize,
    what: &'a str,
    event: &'a Event,
    /// Its names, once they are needed.
    names: OnceCell<Names<'a>>,
}

impl<'a> Begun<'a> {
    fn new(place: usize, what: &'a str, event: &'a Event) -> Begun<'a> {
        Begun {
            place,
            what,
            event,
            names: OnceCell::new(),
        }
    }

    fn is(&self, [call, tool]: &Wanted<'_>) -> bool {
        let names = || self.names.get_or_init(|| Names::of(self.event));
        (*call == Name::Any || *call == names().call)
            && (*tool == Name::Any || *tool == names().tool)
    }
}

/// The spans that began below one event and may be open, in the order in which they began.
#[derive(Default)]
struct Siblings<'a> {
    /// Up to [`FEW`] spans, searched linearly.
    few: Vec<Begun<'a>>,
    /// With more than that, all of them: indexes into the list of nodes, keyed by everything that
    /// an end may look for.
    many: HashMap<(&'a str, Wanted<'a>), VecDeque<usize>>,
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
        let Names { call, tool } = Names::of(begun.event);
        let mut put = |wanted| {
            let queue = self.many.entry((begun.what, wanted)).or_default();
            queue.push_back(begun.place);
        };
        put([Name::Any, Name::Any]);
        put([Name::Any, tool.clone()]);
        put([call.clone(), Name::Any]);
        if call == Name::Missing {
            put([call, tool]);
        }
    }

    /// Whether any span of this type may be open.
    fn may_have(&self, what: &str, is_open: impl Fn(usize) -> bool) -> bool {
        let mut few = self.few.iter();
        !self.many.is_empty() || few.any(|begun| begun.what == what && is_open(begun.place))
    }

    /// The first open span with these names.
    fn find(
        &mut self,
        what: &'a str,
        wanted: Wanted<'a>,
        is_open: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if self.many.is_empty() {
            let mut open = self.few.iter().filter(|begun| is_open(begun.place));
            let found = open.find(|begun| begun.what == what && begun.is(&wanted));
            return found.map(|begun| begun.place);
        }
        let queue = self.many.get_mut(&(what, wanted))?;
        // A span that has ended never opens again.
        while queue.front().is_some_and(|place| !is_open(*place)) {
            queue.pop_front();
        }
        queue.front().copied()
    }
}

/// The status of a worker that exited: failed if its exit code, a number or a string, is not 0, or
/// if there is a signal instead.
fn exit_status(event: &Event) -> SpanStatus {
    #[derive(serde::Deserialize)]
    struct Payload {
        exit_code: Option<Value>,
        signal: Option<Value>,
    }
    let payload = event.payload.as_deref();
    let payload = payload.and_then(|text| serde_json::from_str::<Payload>(text).ok());
    let is_failed = payload.is_some_and(|payload| match payload.exit_code {
        Some(Value::String(text)) => text.trim().parse().is_ok_and(|code: i64| code != 0),
        Some(code) => code.as_i64().is_some_and(|code| code != 0),
        None => payload.signal.is_some(),
    });
    if is_failed {
        SpanStatus::Failed
    } else {
        SpanStatus::Completed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The names of a generated event: 0 is none.
    type Drawn = (usize, usize, usize, usize);

    const WHAT: [(&str, &str); 3] = [
        ("turn", "tool_name"),
        ("tool_call", "tool_name"),
        ("agent", "task_id"),
    ];

    fn child(id: usize, word: &str, (_, what, call, tool): Drawn) -> EventNode {
        let (what, name_of_tool) = WHAT[what];
        let mut payload = serde_json::Map::new();
        if call > 0 {
            payload.insert("call_id".to_owned(), format!("c{call}").into());
        }
        if tool > 0 {
            payload.insert(name_of_tool.to_owned(), tool.into());
        }
        let event = Event {
            id: i64::try_from(id).unwrap() + 2,
            parent_id: Some(1),
            event_type: format!("{what}.{word}"),
            created_at: i64::try_from(id).unwrap(),
            payload: (!payload.is_empty()).then(|| Value::from(payload).to_string()),
        };
        super::super::node(1, event)
    }

    /// How well an end fits a start, 0 being best; `None` if it names another.
    fn fit(start: Drawn, end: Drawn) -> Option<usize> {
        let (_, start_what, start_call, start_tool) = start;
        let (_, end_what, end_call, end_tool) = end;
        let are_both = |one, other| one > 0 && other > 0;
        if start_what != end_what {
            None
        } else if are_both(start_call, end_call) {
            (start_call == end_call).then_some(0)
        } else if are_both(start_tool, end_tool) {
            (start_tool == end_tool).then_some(1)
        } else {
            Some(2)
        }
    }

    /// For every event, the index of the start that it ends, found by a linear search of the open
    /// ones.
    fn by_looking(drawn: &[Drawn], begins: usize) -> Vec<Option<usize>> {
        let mut open: Vec<usize> = Vec::new();
        let mut ended = Vec::new();
        for (place, end) in drawn.iter().enumerate() {
            if end.0 < begins {
                open.push(place);
                ended.push(None);
                continue;
            }
            let fitting = open.iter().enumerate();
            let fitting = fitting.filter_map(|(at, start)| Some((fit(drawn[*start], *end)?, at)));
            ended.push(fitting.min().map(|(_, at)| open.remove(at)));
        }
        ended
    }

    proptest! {
        /// Few and many siblings are paired by the same rule.
        #[test]
        fn siblings_are_paired_as_by_looking_through_them(
            begins in 1..10usize,
            drawn in proptest::collection::vec((0..10usize, 0..3usize, 0..20usize, 0..6usize), 0..200),
            // The fewer names there are, the more starts fit in several ways.
            names in 1..20usize,
        ) {
            let few = |(word, what, call, tool)| (word, what, call % names, tool % names);
            let drawn: Vec<Drawn> = drawn.into_iter().map(few).collect();
            let mut nodes: Vec<EventNode> = drawn.iter().enumerate().map(|(id, drawn)| {
                let word = if drawn.0 < begins { "started" } else { "completed" };
                child(id, word, *drawn)
            }).collect();
            close_spans(&mut nodes);
            let mut expected = vec![None; nodes.len()];
            for (end, begun) in by_looking(&drawn, begins).into_iter().enumerate() {
                if let Some(begun) = begun {
                    expected[begun] = Some(i64::try_from(end - begun).unwrap());
                }
            }
            let found: Vec<_> = nodes.iter().map(|node| node.duration_ms).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_worker_failed_whose_code_is_not_0_or_which_a_signal_ended() {
        let status = |payload: &str| {
            let mut event = Event::new(None, event_type::WORKER_EXITED);
            event.payload = Some(payload.to_owned());
            exit_status(&event)
        };
        for failed in [
            r#"{"exit_code":1}"#,
            r#"{"exit_code":-1,"uptime_seconds":3}"#,
            r#"{"exit_code":"1"}"#,
            r#"{"exit_code":" 137 "}"#,
            r#"{"exit_code":null,"signal":"SIGKILL"}"#,
            r#"{"signal":9}"#,
        ] {
            assert_eq!(status(failed), SpanStatus::Failed, "{failed}");
        }
        for completed in [
            r#"{"exit_code":0}"#,
            r#"{"exit_code":"0"}"#,
            r#"{"exit_code":0,"signal":"SIGTERM"}"#,
            r#"{"exit_code":null,"signal":null}"#,
            r#"{"exit_code":null}"#,
            r#"{"exit_code":"unknown"}"#,
            "{}",
            "no JSON",
        ] {
            assert_eq!(status(completed), SpanStatus::Completed, "{completed}");
        }
    }

    #[test]
    fn what_runs_takes_the_end_of_the_nearest_span_above_that_ended() {
        let at = |depth, id: i64, event_type: &str| {
            let mut event = Event::new(None, event_type);
            (event.id, event.created_at) = (id, 10 * id);
            super::super::node(depth, event)
        };
        let mut nodes = [
            at(0, 1, "agent.started"),
            at(1, 2, "turn.started"),
            at(2, 3, "note.taken"),
            at(3, 4, "tool_call.started"),
            at(1, 5, "turn.completed"),
            at(1, 6, "turn.started"),
            at(2, 7, "tool_call.started"),
            at(1, 8, "agent.failed"),
            // Logged too late.
            at(1, 9, "turn.started"),
        ];
        close_spans(&mut nodes);
        close_below(&mut nodes, None);
        let found = nodes.each_ref().map(|node| (node.status, node.duration_ms));
        let failed = |ms| (Some(SpanStatus::Failed), Some(ms));
        let completed = |ms| (Some(SpanStatus::Completed), Some(ms));
        let none = (None, None);
        let expected = [
            failed(70),
            completed(30),
            none,
            completed(10),
            none,
            failed(20),
            failed(10),
            none,
            failed(0),
        ];
        assert_eq!(found, expected);
    }
}
