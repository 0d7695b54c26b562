//! Programs that use `tracing` have their spans recorded as events and tool calls, without waiting
//! for anything.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use decklog::query::{CallQuery, EventQuery};
use decklog::record::epoch_ms;
use decklog::spans::SpanGuard;
use decklog::storage::Disk;
use decklog::tree::SpanStatus;
use decklog::{ErrorKind, Store, ToolStatus};
use tracing::{error, info_span};
use tracing_subscriber::layer::SubscriberExt;
use uuid::Uuid;

use super::support::Spy;

fn traced(program: impl FnOnce()) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let (layer, guard) = store.span_layer().unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, program);
    guard.flush().unwrap();
    assert_eq!(guard.lost(), 0);
    (dir, store)
}

#[test]
fn spans_are_a_tree_of_events_with_their_fields() {
    let (_dir, store) = traced(|| {
        let agent = info_span!(
            "agent",
            task_id = "t1",
            tries = 2,
            answer = tracing::field::Empty
        );
        let _agent = agent.enter();
        info_span!("my step: 1..2").in_scope(|| std::thread::sleep(Duration::from_millis(20)));
        info_span!("step").in_scope(|| error!("it broke"));
        agent.record("answer", 42);
    });
    let events = store.events(&EventQuery::default()).unwrap().items;
    let types: Vec<_> = events.iter().map(|it| &*it.event_type).collect();
    let expected = [
        "agent.started",
        "my_step__1.2.started",
        "my_step__1.2.completed",
        "step.started",
        "step.failed",
        "agent.completed",
    ];
    assert_eq!(types, expected);
    let tree = store.event_tree(events[0].id).unwrap().unwrap();
    let spans: Vec<_> = tree.nodes.iter().map(|it| (it.depth, it.status)).collect();
    let begun = |depth, status| (depth, Some(status));
    let expected = [
        begun(0, SpanStatus::Completed),
        begun(1, SpanStatus::Completed),
        (2, None),
        begun(1, SpanStatus::Failed),
        (2, None),
        (1, None),
    ];
    assert_eq!(spans, expected);
    assert!(tree.nodes[1].duration_ms.unwrap() >= 15);
    let payload = |nth: usize| -> serde_json::Value {
        serde_json::from_str(events[nth].payload.as_deref().unwrap()).unwrap()
    };
    let began = payload(0);
    assert_eq!(began["fields"]["task_id"], "t1");
    assert_eq!(began["fields"]["tries"], 2);
    assert_eq!(began["level"], "INFO");
    let failed = payload(4);
    assert_eq!(failed["error"], "it broke");
    let ended = payload(5);
    assert_eq!(ended["fields"]["answer"], 42);
    assert!(
        events
            .iter()
            .all(|it| it.created_at > epoch_ms("2025-01-01").unwrap())
    );
}

#[test]
fn spans_of_tools_are_tool_calls() {
    let turn = Uuid::new_v4();
    let (_dir, store) = traced(|| {
        let _turn = info_span!("turn", decklog.turn_id = %turn).entered();
        let call = info_span!(
            "execute",
            gen_ai.tool.name = "ls",
            gen_ai.tool.call.id = "c1",
            gen_ai.tool.call.arguments = r#"{"path":"."}"#,
            gen_ai.provider.name = "anthropic",
            gen_ai.tool.call.result = tracing::field::Empty,
        );
        call.in_scope(|| std::thread::sleep(Duration::from_millis(20)));
        call.record("gen_ai.tool.call.result", "a.rs");
        drop(call);
        let call = info_span!(
            "execute",
            gen_ai.tool.name = "cat",
            gen_ai.tool.call.id = "c2",
            error.type = tracing::field::Empty,
        );
        call.in_scope(|| error!(error = %io::Error::other("no such file"), "failed"));
        call.record("error.type", "not_found");
    });
    let (request, done) = store.get_tool_call(turn, "c1").unwrap().unwrap();
    let done = done.unwrap();
    assert_eq!((&*request.tool_name, &*request.vendor), ("ls", "anthropic"));
    assert_eq!(request.parent_id, turn);
    assert_eq!(request.arguments_json.as_deref(), Some(r#"{"path":"."}"#));
    assert_eq!(done.status, ToolStatus::Completed);
    assert_eq!(done.outcome_json.as_deref(), Some(r#""a.rs""#));
    assert!(done.latency_ms >= 20);
    let (request, done) = store.get_tool_call(turn, "c2").unwrap().unwrap();
    let done = done.unwrap();
    assert_eq!(request.vendor, module_path!());
    assert_eq!(request.arguments_json.as_deref(), Some("null"));
    let error = (done.error_kind.as_deref(), done.error_msg.as_deref());
    assert_eq!(error, (Some("not_found"), Some("no such file")));
    let events = store.events(&EventQuery::default()).unwrap().items;
    let tree = store.event_tree(events[0].id).unwrap().unwrap();
    let calls = tree.nodes.iter().filter(|it| it.depth == 1);
    let ended: Vec<_> = calls.filter_map(|it| it.status).collect();
    assert_eq!(ended, [SpanStatus::Completed, SpanStatus::Failed]);
}

/// Calls without ids, and outside of any turn.
#[test]
fn what_is_left_out_of_a_call_gets_an_id() {
    let (_dir, store) = traced(|| {
        for _ in 0..2 {
            drop(info_span!("execute", gen_ai.tool.name = "ls"));
        }
    });
    let calls = store.tool_calls(&CallQuery::default()).unwrap().items;
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].0.call_id, calls[1].0.call_id);
    assert!(calls.iter().all(|(_, done)| done.is_some()));
}

#[test]
fn who_emits_a_span_does_not_wait_and_is_told_what_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let spy = Spy::new(Disk::new(&path));
    let store = Store::options().storage(Arc::new(spy.clone()));
    let store = store.upkeep(false).open(&path).unwrap();
    let (layer, guard): (_, SpanGuard) = store.span_layer().unwrap();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    // The disk blocks until the program has emitted everything.
    spy.hook(move |operation, _| {
        if operation == "append" {
            let _ = gate.lock().unwrap().recv();
        }
        Ok(())
    });
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..20_000 {
            drop(info_span!("step"));
        }
    });
    assert!(guard.lost() >= 20_000, "{}", guard.lost());
    drop(go);
    guard.flush().unwrap();
    let kept = store.counts().unwrap().last_seq;
    assert_eq!(kept + guard.lost(), 40_000);
}

#[test]
fn a_log_that_fails_is_told_of_by_the_guard() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    drop(Store::open(&path).unwrap());
    let read_only = Store::options().read_only(true).open(&path).unwrap();
    let error = read_only.span_layer().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);

    let spy = Spy::new(Disk::new(&path));
    let store = Store::options().storage(Arc::new(spy.clone()));
    let store = store.upkeep(false).open(&path).unwrap();
    let (layer, guard) = store.span_layer().unwrap();
    spy.hook(|operation, _| match operation {
        "append" => Err(io::Error::other("broken")),
        _ => Ok(()),
    });
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || drop(info_span!("step")));
    // The first write fails, and nothing is written after it.
    let kind = guard.flush().unwrap_err().kind();
    assert!(
        [ErrorKind::Io, ErrorKind::Poisoned].contains(&kind),
        "{kind:?}"
    );
    assert_eq!(guard.lost(), 2);
}
