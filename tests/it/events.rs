//! Events: each under its parent, the trees built from them, and the ids assigned by the log, in
//! order and once, for all writers.
//!
//! `DECKLOG_EVENTS` sets the number of events in the large trees.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use decklog::query::{EventQuery, Order};
use decklog::record::GIVEN_NUMBER_MAX;
use decklog::storage::{Disk, Memory};
use decklog::tree::{EventTree, SpanStatus};
use decklog::{AckStatus, Durability, ErrorKind, Event, Store, event_type, verify};

use super::support::{DAY_1, Rng, count, in_memory};

fn event(id: i64, parent_id: Option<i64>, event_type: &str, at: i64) -> Event {
    with!(Event::new(parent_id, event_type), id, created_at: DAY_1 + at)
}

fn with_call(event: Event, call_id: &str) -> Event {
    with!(event, payload: Some(format!(r#"{{"call_id":"{call_id}"}}"#)))
}

fn memory_store() -> Store {
    in_memory(&Memory::new(), Durability::Process)
}

type Drawn = (i64, usize, Option<(SpanStatus, Option<i64>)>);

fn drawn(tree: &EventTree) -> Vec<Drawn> {
    let nodes = tree.nodes.iter();
    nodes
        .map(|node| {
            (
                node.event.id,
                node.depth,
                node.status.map(|status| (status, node.duration_ms)),
            )
        })
        .collect()
}

fn tree(store: &Store, id: i64) -> Vec<Drawn> {
    drawn(&store.event_tree(id).unwrap().unwrap())
}

#[test]
fn a_supervisor_and_a_run_are_rebuilt_as_they_were() {
    let store = memory_store();
    let log: [(Option<i64>, &str); 16] = [
        (None, "process.started"),
        (Some(1), "process.started"),
        (Some(1), "worker.spawned"),
        (Some(2), "revision.promoted"),
        (None, "agent.started"),
        (Some(5), "turn.started"),
        (Some(6), "llm_call.completed"),
        (Some(6), "tool_call.started"),
        (Some(6), "tool_call.completed"),
        (Some(6), "turn.completed"),
        (Some(5), "turn.started"),
        (Some(11), "llm_call.completed"),
        (Some(5), "turn.completed"),
        (Some(5), "reply.sent"),
        (Some(5), "agent.completed"),
        (Some(1), "worker.exited"),
    ];
    for (nth, (parent, event_type)) in log.into_iter().enumerate() {
        let ack = store
            .record(event(0, parent, event_type, 10 * nth as i64))
            .unwrap();
        assert_eq!(ack.assigned, Some(nth as i64 + 1));
    }
    let done = |ms| Some((SpanStatus::Completed, Some(ms)));
    let running = Some((SpanStatus::Running, None));
    assert_eq!(
        tree(&store, 1),
        [
            (1, 0, running),
            (2, 1, done(140)),
            (4, 2, None),
            (3, 1, None),
            (16, 1, None)
        ]
    );
    let run = [
        (5, 0, done(100)),
        (6, 1, done(40)),
        (7, 2, None),
        (8, 2, done(10)),
        (9, 2, None),
        (10, 2, None),
        (11, 1, done(20)),
        (12, 2, None),
        (13, 1, None),
        (14, 1, None),
        (15, 1, None),
    ];
    assert_eq!(tree(&store, 5), run);
    assert_eq!(
        tree(&store, 6),
        run[1..6]
            .iter()
            .map(|(id, depth, span)| (*id, depth - 1, *span))
            .collect::<Vec<_>>()
    );
    assert_eq!(store.event_tree(17).unwrap(), None);
    assert_eq!(store.event_tree(0).unwrap(), None);
    let roots = |event_type: Option<&str>, since, until| {
        let query = EventQuery {
            roots: true,
            event_type: event_type.map(str::to_owned),
            since,
            until,
            ..EventQuery::default()
        };
        store
            .events(&query)
            .unwrap()
            .items
            .iter()
            .map(|event| event.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(roots(None, None, None), [1, 5]);
    assert_eq!(roots(Some(event_type::AGENT_STARTED), None, None), [5]);
    assert_eq!(roots(None, Some(DAY_1), Some(DAY_1 + 40)), [1]);
    assert_eq!(roots(None, Some(DAY_1 + 40), Some(DAY_1 + 41)), [5]);
    let query = EventQuery {
        parent_id: Some(1),
        order: Order::NewestFirst,
        ..EventQuery::default()
    };
    let children: Vec<_> = store
        .events(&query)
        .unwrap()
        .items
        .iter()
        .map(|event| event.id)
        .collect();
    assert_eq!(children, [16, 3, 2]);
    assert_eq!(store.worker_sequence(1).unwrap(), 1);
    assert_eq!(store.worker_sequence(2).unwrap(), 0);
    assert_eq!(store.current_revision().unwrap().unwrap().id, 4);
}

/// Bug: the tree of a call showed it as running, because the event that ended it is its sibling.
#[test]
fn a_call_asked_for_alone_has_ended_too() {
    let store = memory_store();
    store.record(event(0, None, "turn.started", 0)).unwrap();
    for call in ["a", "b"] {
        store
            .record(with_call(event(0, Some(1), "tool_call.started", 1), call))
            .unwrap();
    }
    store
        .record(with_call(event(0, Some(1), "tool_call.failed", 5), "b"))
        .unwrap();
    assert_eq!(tree(&store, 2), [(2, 0, Some((SpanStatus::Running, None)))]);
    assert_eq!(
        tree(&store, 3),
        [(3, 0, Some((SpanStatus::Failed, Some(4))))]
    );
}

#[test]
fn calls_beside_each_other_end_by_their_own_ids() {
    let store = memory_store();
    store.record(event(0, None, "turn.started", 0)).unwrap();
    let under = |word: &str, at| event(0, Some(1), &format!("tool_call.{word}"), at);
    // 2 a, 3 b, 4 without a name, 5 c.
    store.record(with_call(under("started", 1), "a")).unwrap();
    store.record(with_call(under("started", 2), "b")).unwrap();
    store.record(under("started", 3)).unwrap();
    store.record(with_call(under("started", 4), "c")).unwrap();
    store
        .record(with_call(under("completed", 10), "b"))
        .unwrap();
    store.record(with_call(under("failed", 20), "a")).unwrap();
    // An end without a start is not paired with a call of another name.
    store.record(with_call(under("failed", 30), "x")).unwrap();
    store.record(with_call(under("failed", 40), "x")).unwrap();
    // A negative duration is shown as the clocks recorded it.
    store.record(with_call(under("completed", 0), "c")).unwrap();
    let span = |status, ms| Some((status, Some(ms)));
    let drawn = tree(&store, 1);
    assert_eq!(
        drawn[..5],
        [
            (1, 0, Some((SpanStatus::Running, None))),
            (2, 1, span(SpanStatus::Failed, 19)),
            (3, 1, span(SpanStatus::Completed, 8)),
            (4, 1, span(SpanStatus::Failed, 27)),
            (5, 1, span(SpanStatus::Completed, -4)),
        ]
    );
    assert!(drawn[5..].iter().all(|(_, _, span)| span.is_none()));
}

/// Pairs starts and ends by brute force: for each end, in tree order, search everything before it.
fn spans_by_hand(events: &[Event]) -> BTreeMap<i64, (SpanStatus, Option<i64>)> {
    let mut ends = BTreeMap::new();
    let call = |event: &Event| {
        let payload: serde_json::Value = serde_json::from_str(event.payload.as_deref()?).ok()?;
        payload.get("call_id").map(ToString::to_string)
    };
    let mut spans = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        let (what, word) = event.event_type.rsplit_once('.').unwrap();
        let status = match word {
            "started" => {
                spans.insert(event.id, (SpanStatus::Running, None));
                continue;
            }
            "completed" => SpanStatus::Completed,
            "failed" => SpanStatus::Failed,
            _ => continue,
        };
        let began = format!("{what}.started");
        let open: Vec<&Event> = events[..place]
            .iter()
            .filter(|other| other.event_type == began)
            .filter(|other| spans[&other.id].0 == SpanStatus::Running)
            .collect();
        let names_another = |other: &Event| {
            let (own, other) = (call(event), call(other));
            own.is_some() && other.is_some() && own != other
        };
        let open = open.iter().filter(|other| !names_another(other));
        let above = open.clone().find(|other| Some(other.id) == event.parent_id);
        let mut beside = open.filter(|other| other.parent_id == event.parent_id);
        let found = above.or_else(|| {
            let named = beside.clone().find(|other| call(other) == call(event));
            named
                .filter(|_| call(event).is_some())
                .or_else(|| beside.next())
        });
        if let Some(found) = found {
            spans.insert(
                found.id,
                (status, Some(event.created_at - found.created_at)),
            );
            ends.insert(found.id, (status, event.created_at));
        }
    }
    // A start without an end of its own ends with its parent.
    for event in events.iter().filter(|event| !ends.contains_key(&event.id)) {
        let parent = |id: i64| events.iter().find(|event| event.id == id)?.parent_id;
        let mut above = std::iter::successors(event.parent_id, |id| parent(*id));
        let end = above.find_map(|id| ends.get(&id));
        if let (Some(span), Some((status, at))) = (spans.get_mut(&event.id), end) {
            *span = (*status, Some((at - event.created_at).max(0)));
        }
    }
    spans
}

#[test]
fn random_trees_are_drawn_as_by_hand() {
    let mut rng = Rng::seeded("random trees");
    for _ in 0..40 {
        let store = memory_store();
        store.record(event(0, None, "a.started", 0)).unwrap();
        let mut events = vec![store.get_event(1).unwrap().unwrap()];
        for id in 2..40 {
            let parent = 1 + rng.below(6).min(events.len() - 1) as i64;
            let word = *rng.pick(&["started", "completed", "failed", "sent"]);
            let mut new = event(
                id,
                Some(parent),
                &format!("{}.{word}", rng.pick(&["a", "b"])),
                rng.below(99) as i64,
            );
            if rng.one_in(2) {
                new = with_call(new, ["x", "y"][rng.below(2)]);
            }
            store.record(new.clone()).unwrap();
            events.push(new);
        }
        // The children of each event in the order of their ids.
        let (mut expected, mut waiting) = (Vec::new(), vec![(1, 0)]);
        while let Some((id, depth)) = waiting.pop() {
            expected.push((id, depth));
            let below = events
                .iter()
                .rev()
                .filter(|event| event.parent_id == Some(id));
            waiting.extend(below.map(|event| (event.id, depth + 1)));
        }
        let found = tree(&store, 1);
        assert_eq!(
            found
                .iter()
                .map(|(id, depth, _)| (*id, *depth))
                .collect::<Vec<_>>(),
            expected
        );
        let drawn: Vec<Event> = expected
            .iter()
            .filter_map(|(id, _)| events.iter().find(|event| event.id == *id).cloned())
            .collect();
        let spans = spans_by_hand(&drawn);
        for (id, _, span) in &found {
            assert_eq!(span.as_ref(), spans.get(id), "event {id}");
        }
        for event in &events {
            let whole = found.iter().find(|(id, ..)| *id == event.id).unwrap();
            let alone = tree(&store, event.id);
            assert_eq!(alone[0].0, event.id);
            if event.event_type.ends_with("started") {
                assert_eq!(alone[0].2, whole.2, "event {} alone", event.id);
            }
        }
    }
}

#[test]
fn what_is_no_event_is_refused_and_nothing_is_written() {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    let refused = |event: Event, kind: ErrorKind, words: &[&str]| {
        let err = store.record(event).unwrap_err();
        assert_eq!(err.kind(), kind, "{err}");
        for word in words {
            assert!(err.to_string().contains(word), "{word}: {err}");
        }
    };
    for name in [
        "started", "", ".", "a.", ".a", "a..b", "a b.c", "ä.b", "a.b\n", "a.b/c",
    ] {
        let shown = format!("{name:?}");
        let shown = if name.is_empty() {
            "event_type"
        } else {
            &shown
        };
        refused(
            event(0, None, name, 0),
            ErrorKind::InvalidInput,
            &["event_type", shown],
        );
    }
    refused(
        event(0, Some(7), "a.b", 0),
        ErrorKind::Lifecycle,
        &["no event 7"],
    );
    refused(
        event(3, Some(3), "a.b", 0),
        ErrorKind::Lifecycle,
        &["no event 3"],
    );
    refused(
        event(0, Some(-1), "a.b", 0),
        ErrorKind::Lifecycle,
        &["no event -1"],
    );
    refused(
        event(-1, None, "a.b", 0),
        ErrorKind::InvalidInput,
        &["id is -1"],
    );
    refused(
        event(i64::MAX, None, "a.b", 0),
        ErrorKind::InvalidInput,
        &["9223372036854775807"],
    );
    refused(
        event(0, None, "a.b", -1 - DAY_1),
        ErrorKind::InvalidInput,
        &["-1"],
    );
    let mut deep = event(0, None, "a.b", 0);
    deep.payload = Some("[".repeat(64) + &"]".repeat(64));
    refused(deep, ErrorKind::InvalidInput, &["payload is nested 64"]);
    assert_eq!(verify(&memory).unwrap().good_lines, 0);

    let ack = store.record(event(7, None, "a.b", 0)).unwrap();
    assert_eq!(ack.assigned, Some(7));
    let again = store.record(event(7, None, "a.b", 0)).unwrap();
    assert_eq!((again.seq, again.assigned), (ack.seq, Some(7)));
    refused(event(7, None, "a.c", 0), ErrorKind::Conflict, &["event 7"]);
    assert_eq!(store.log_event(Some(7), "a.b", None).unwrap(), 8);
    assert_eq!(
        store.record(event(2, Some(8), "a.b", 0)).unwrap().assigned,
        Some(2)
    );
    assert_eq!(store.log_event(None, "a.b", None).unwrap(), 9);
    let last = store.record(event(GIVEN_NUMBER_MAX, None, "a.b", 0));
    assert_eq!(last.unwrap().assigned, Some(GIVEN_NUMBER_MAX));
    for id in [GIVEN_NUMBER_MAX + 2, i64::MAX - 1] {
        let refused_id = event(id, None, "a.b", 0);
        refused(refused_id, ErrorKind::InvalidInput, &["4503599627370496"]);
    }
    let next = store.log_event(None, "a.b", None).unwrap();
    assert_eq!(next, GIVEN_NUMBER_MAX + 1);
    assert_eq!(
        store.record(event(1, None, "a.b", 0)).unwrap().assigned,
        Some(1)
    );
}

#[test]
fn the_good_revision_and_the_worker_count_follow_from_the_events() {
    let memory = Memory::new();
    let (one, two) = (
        in_memory(&memory, Durability::Process),
        in_memory(&memory, Durability::Process),
    );
    assert_eq!(one.current_revision().unwrap(), None);
    let supervisor = one
        .log_event(None, event_type::PROCESS_STARTED, None)
        .unwrap();
    for nth in 0..5u64 {
        let worker = two
            .log_event(Some(supervisor), event_type::WORKER_SPAWNED, None)
            .unwrap();
        // Not a direct child of the supervisor.
        two.log_event(Some(worker), event_type::WORKER_SPAWNED, None)
            .unwrap();
        let revision = one
            .log_event(Some(worker), event_type::REVISION_PROMOTED, Some("{}"))
            .unwrap();
        assert_eq!(one.worker_sequence(supervisor).unwrap(), nth + 1);
        assert_eq!(two.current_revision().unwrap().unwrap().id, revision);
    }
}

#[test]
fn every_page_is_what_the_list_says() {
    let store = memory_store();
    let mut rng = Rng::seeded("event pages");
    let mut events: Vec<Event> = Vec::new();
    for _ in 0..150 {
        let parent = rng
            .one_in(3)
            .then(|| 1 + rng.below(events.len().clamp(1, 4)) as i64);
        let parent = parent.filter(|_| events.len() > 4);
        let mut new = event(
            0,
            parent,
            ["a.b", "c.d"][rng.below(2)],
            rng.below(20) as i64,
        );
        new.id = store.record(new.clone()).unwrap().assigned.unwrap();
        events.push(new);
    }
    for _ in 0..300 {
        let mut query = EventQuery {
            parent_id: rng.one_in(3).then(|| 1 + rng.below(5) as i64),
            roots: rng.one_in(4),
            event_type: rng
                .one_in(2)
                .then(|| (*rng.pick(&["a.b", "c.d", "e.f"])).to_owned()),
            since: rng.one_in(2).then(|| DAY_1 + rng.below(20) as i64),
            until: rng.one_in(2).then(|| DAY_1 + rng.below(20) as i64),
            order: *rng.pick(&[Order::OldestFirst, Order::NewestFirst]),
            limit: 1 + rng.below(9),
            after: None,
        };
        let mut expected: Vec<Event> = events.clone();
        expected.retain(|event| {
            query.parent_id.is_none_or(|id| event.parent_id == Some(id))
                && (!query.roots || event.parent_id.is_none())
                && query
                    .event_type
                    .as_ref()
                    .is_none_or(|wanted| *wanted == event.event_type)
                && query.since.is_none_or(|since| event.created_at >= since)
                && query.until.is_none_or(|until| event.created_at < until)
        });
        if query.order == Order::NewestFirst {
            expected.reverse();
        }
        let mut found = Vec::new();
        loop {
            let page = store.events(&query).unwrap();
            assert!(page.items.len() <= query.limit);
            found.extend(page.items);
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{query:?}");
    }
}

fn large(
    name: &str,
    parent: impl Fn(i64) -> Option<i64>,
    event_type: impl Fn(i64) -> &'static str,
) {
    let events = count("DECKLOG_EVENTS", 20_000) as i64;
    let store = memory_store();
    let batch = (1..=events).map(|id| {
        let mut new = event(id, parent(id), event_type(id), id);
        new.payload = Some(format!(
            r#"{{"call_id":{}}}"#,
            (id - 2).rem_euclid(events / 2)
        ));
        new.into()
    });
    store
        .record_batch(batch)
        .unwrap()
        .into_iter()
        .for_each(|ack| assert_eq!(ack.unwrap().status, AckStatus::Added));
    let started = Instant::now();
    let tree = store.event_tree(1).unwrap().unwrap();
    let took = started.elapsed();
    println!("{name}: {events} events in {took:?}");
    assert_eq!(tree.nodes.len() as i64, events);
    assert!(tree.nodes.iter().map(|node| node.event.id).eq(1..=events));
    let open = tree
        .nodes
        .iter()
        .filter(|node| node.status == Some(SpanStatus::Running))
        .count();
    let ends = tree
        .nodes
        .iter()
        .filter(|node| node.event.event_type.ends_with("completed"))
        .count();
    let begins = tree
        .nodes
        .iter()
        .filter(|node| node.status.is_some())
        .count();
    assert_eq!(open, begins - ends.min(begins));
    // Linear time, with a wide margin for slow machines. A quadratic algorithm would take minutes.
    assert!(
        took < Duration::from_millis(2 * events.unsigned_abs()),
        "{took:?}"
    );
}

#[test]
fn a_tree_may_be_as_deep_as_the_log_is_long() {
    large("deep", |id| (id > 1).then_some(id - 1), |_| "a.started");
}

#[test]
fn an_event_may_have_as_many_children_as_the_log_has_events() {
    let half = count("DECKLOG_EVENTS", 20_000) as i64 / 2;
    let under = |id| (id > 1).then_some(1);
    large("wide", under, |_| "a.sent");
    // First all start, then all end.
    large("all at once", under, move |id| {
        if id == 1 {
            "x.sent"
        } else if id <= half + 1 {
            "a.started"
        } else {
            "a.completed"
        }
    });
}

// Processes: this test binary, started again with one test to run.

const ENV_DIR: &str = "DECKLOG_EVENTS_DIR";
const ENV_COUNT: &str = "DECKLOG_EVENTS_COUNT";

/// Does nothing unless the test below started it as a process.
#[test]
fn process_of_events() {
    let Ok(dir) = std::env::var(ENV_DIR) else {
        return;
    };
    let store = Store::options()
        .lock_timeout(Duration::from_secs(60))
        .open(dir)
        .unwrap();
    let mut last = 0;
    for _ in 0..count(ENV_COUNT, 0) {
        let id = store
            .log_event((last > 0).then_some(last), "a.b", None)
            .unwrap();
        assert!(id > last, "{id} after {last}");
        last = id;
    }
}

#[test]
fn four_processes_get_every_id_once() {
    let each = count("DECKLOG_RACE_CALLS", 60);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let start = |path: &Path| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "events::process_of_events", "--test-threads=1"])
            .env(ENV_DIR, path)
            .env(ENV_COUNT, each.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start(&path)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let disk: Arc<Disk> = Arc::new(Disk::new(&path));
    assert!(verify(&*disk).unwrap().is_clean());
    let store = Store::open(&path).unwrap();
    let all = EventQuery {
        limit: usize::MAX,
        ..EventQuery::default()
    };
    let ids: Vec<i64> = store
        .events(&all)
        .unwrap()
        .items
        .iter()
        .map(|event| event.id)
        .collect();
    assert_eq!(ids, (1..=4 * each as i64).collect::<Vec<_>>());
    let roots = EventQuery { roots: true, ..all };
    assert_eq!(store.events(&roots).unwrap().items.len(), 4);
}
