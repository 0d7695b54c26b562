//! The handle for an agent's loop: its records follow the rules of turns and calls, no call stays
//! open by accident, and a turn is recorded with all its calls or not at all.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use decklog::query::{MessageQuery, TurnQuery};
use decklog::run::Run;
use decklog::storage::Disk;
use decklog::{
    Capture, Client, Conversation, Durability, ErrorKind, Options, Record, Role, Store,
    ToolCallDone, ToolStatus, TurnKind, verify,
};
use serde_json::json;
use uuid::Uuid;

use super::support::turn;

fn opened() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    (dir, store)
}

fn lines(store: &Store) -> u64 {
    verify(&Disk::new(store.path())).unwrap().good_lines
}

fn outcome(store: &Store, turn: Uuid, call_id: &str) -> Option<ToolCallDone> {
    store.get_tool_call(turn, call_id).unwrap().unwrap().1
}

/// Runs the test for both destinations, with a function that flushes each.
fn both_ways(story: impl Fn(&Store, Run, &dyn Fn())) {
    let (_dir, store) = opened();
    story(&store, store.run("anthropic"), &|| ());
    let (_dir, store) = opened();
    let capture: Capture = store.capture().unwrap();
    let run = store.run("anthropic").through(&capture);
    story(&store, run, &|| capture.flush().unwrap());
}

#[test]
fn a_run_is_turns_that_follow_each_other_and_their_calls() {
    both_ways(|store, run, settle| {
        let asked = run.user("How long is main.rs?").unwrap();
        let looked = run.assistant("I will look.").unwrap();
        let call = looked
            .call("c1", "count", &json!({ "path": "main.rs" }))
            .unwrap();
        settle();
        assert_eq!(outcome(store, looked.id(), "c1"), None);
        let lines = call.run(|| {
            thread::sleep(Duration::from_millis(20));
            Ok::<_, String>(json!({ "lines": 40 }))
        });
        assert_eq!(lines.unwrap().unwrap()["lines"], 40);
        let call = looked.call("c2", "count", &json!({})).unwrap();
        let failed = call.run(|| Err::<(), _>("no path")).unwrap();
        assert_eq!(failed, Err("no path"));
        let answered = run.assistant("40 lines.").unwrap();
        settle();

        let query = TurnQuery {
            thread_id: Some(run.thread_id()),
            ..TurnQuery::default()
        };
        let turns = store.turns(&query).unwrap().items;
        let said: Vec<_> = turns
            .iter()
            .map(|it| (it.id, it.parent_id, it.kind, it.message_id))
            .collect();
        let (one, two, three) = (asked.id(), looked.id(), answered.id());
        let expected = [
            (one, None, TurnKind::User, one),
            (two, Some(one), TurnKind::Assistant, two),
            (three, Some(two), TurnKind::Assistant, three),
        ];
        assert_eq!(said, expected);
        let (request, done) = store.get_tool_call(two, "c1").unwrap().unwrap();
        assert_eq!((request.parent_id, &*request.vendor), (two, "anthropic"));
        let arguments = r#"{"path":"main.rs"}"#;
        assert_eq!(request.arguments_json.as_deref(), Some(arguments));
        assert_eq!(request.args_sha256, decklog::args_sha256(arguments));
        let done = done.unwrap();
        assert_eq!(done.status, ToolStatus::Completed);
        assert_eq!(done.outcome_json.as_deref(), Some(r#"{"lines":40}"#));
        assert!(done.latency_ms >= 20, "{done:?}");
        assert!(done.ended_at.at >= request.started_at.at + 15, "{done:?}");
        let failed = outcome(store, two, "c2").unwrap();
        assert_eq!(failed.status, ToolStatus::Failed);
        let error = (failed.error_kind.as_deref(), failed.error_msg.as_deref());
        assert_eq!(error, (Some("tool_error"), Some("no path")));
        // Times never go back.
        assert!(turns.is_sorted_by_key(|it| it.created_at.at));
    });
}

#[test]
fn a_call_without_an_outcome_is_recorded_as_abandoned() {
    both_ways(|store, run, settle| {
        let turn = run.assistant("").unwrap();
        drop(turn.call("dropped", "t", &()).unwrap());
        let call = turn.call("panicked", "t", &()).unwrap();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            call.run(|| -> Result<(), String> { panic!("the tool panicked, as it is to") })
        }));
        assert!(ran.is_err());
        // JSON does not support this key type. The outcome cannot be written, and the call must not
        // stay open.
        let call = turn.call("rejected", "t", &()).unwrap();
        let error = call.done(&HashMap::from([(vec![1], 1)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.field(), Some("outcome_json"));
        settle();
        for call_id in ["dropped", "panicked", "rejected"] {
            let done = outcome(store, turn.id(), call_id).unwrap();
            assert_eq!(done.status, ToolStatus::Failed, "{call_id}");
            assert_eq!(done.error_kind.as_deref(), Some("abandoned"), "{call_id}");
        }
        // A call with an outcome is not changed when it is dropped.
        turn.call("done", "t", &()).unwrap().done("x").unwrap();
        settle();
        let done = outcome(store, turn.id(), "done").unwrap();
        assert_eq!(done.status, ToolStatus::Completed);
    });
}

#[test]
fn arguments_are_an_object_also_where_the_provider_gives_them_as_text() {
    both_ways(|store, run, settle| {
        let turn = run.assistant("").unwrap();
        let cases = [
            ("object", r#"{"a": 1}"#, r#"{"a": 1}"#),
            ("text", "ls -l", r#""ls -l""#),
            ("number in a text", "12", r#""12""#),
        ];
        for (call_id, given, _) in cases {
            turn.call(call_id, "t", given).unwrap().done(&()).unwrap();
        }
        settle();
        for (call_id, _, kept) in cases {
            let (request, _) = store.get_tool_call(turn.id(), call_id).unwrap().unwrap();
            assert_eq!(request.arguments_json.as_deref(), Some(kept));
        }
    });
}

#[test]
fn a_turn_comes_with_all_of_its_calls_or_not_at_all() {
    both_ways(|store, run, settle| {
        let draft = || run.draft(TurnKind::Assistant, "both");
        let no_json = HashMap::from([(vec![1], 1)]);
        let failed = draft().call("c1", "t", &()).call("c2", "t", &no_json);
        let error = failed.record().unwrap_err();
        assert_eq!(error.field(), Some("arguments_json"));
        let failed = draft().call("c1", "t", &()).call("", "t", &()).record();
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvalidInput);
        settle();
        assert_eq!(lines(store), 0);

        let both = draft().call("c1", "t", &1).call("c2", "t", &2);
        let (turn, calls) = both.record().unwrap();
        let ids: Vec<_> = calls.iter().map(|it| it.call_id().to_owned()).collect();
        assert_eq!(ids, ["c1", "c2"]);
        settle();
        assert_eq!(lines(store), 3);
        for call in calls {
            assert_eq!(call.turn_id(), turn.id());
            call.failed("timeout", "30 s").unwrap();
        }
        settle();
        let done = outcome(store, turn.id(), "c2").unwrap();
        assert_eq!(done.error_kind.as_deref(), Some("timeout"));
        // Turns that were not recorded are not the parent of any turn.
        let next = run.user("next").unwrap();
        settle();
        let next = store.get_turn(next.id()).unwrap().unwrap();
        assert_eq!(next.parent_id, Some(turn.id()));
    });
}

#[test]
fn of_records_that_belong_together_all_are_taken_or_none() {
    let (_dir, store) = opened();
    let path = store.path().to_path_buf();
    let other = Options::default().open(&path).unwrap();
    store.record(turn(1, "before", 1_766_832_000_000)).unwrap();
    let said = || Record::from(turn(2, "said", 1_766_832_000_001));
    let unknown = || ToolCallDone::new(Uuid::from_u128(9), "c", ToolStatus::Completed).into();
    for records in [[said(), unknown()], [unknown(), said()]] {
        let error = store.record_all(records).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        for store in [&store, &other] {
            assert_eq!(store.get_turn(Uuid::from_u128(2)).unwrap(), None);
        }
        assert_eq!(lines(&store), 1);
    }
    // Both handles continue, without a gap in the sequence numbers.
    let acks = store.record_all([said(), turn(3, "and", 1_766_832_000_002).into()]);
    let seqs: Vec<_> = acks.unwrap().iter().map(|ack| ack.seq).collect();
    assert_eq!(seqs, [2, 3]);
    assert_eq!(
        other
            .record(turn(4, "other", 1_766_832_000_003))
            .unwrap()
            .seq,
        4
    );
    assert!(verify(&Disk::new(&path)).unwrap().damage.is_empty());
}

#[test]
fn a_conversation_gets_what_is_said_as_messages_and_goes_on_later() {
    both_ways(|store, run, settle| {
        let conversation = Conversation::new(Uuid::new_v4(), Client::Cli);
        let id = conversation.id;
        let run = run.in_conversation(conversation.clone()).unwrap();
        run.user("hello").unwrap();
        run.turn(TurnKind::SysInfo, "a hint").unwrap();
        let last = run.assistant("hi").unwrap();
        settle();
        let said = |store: &Store| {
            let messages = store.messages(id, &MessageQuery::default()).unwrap().items;
            let said = messages.into_iter().map(|it| (it.role, it.content));
            said.collect::<Vec<_>>()
        };
        let hello = (Role::User, "hello".to_owned());
        let hi = (Role::Assistant, "hi".to_owned());
        assert_eq!(said(store), [hello.clone(), hi.clone()]);
        assert_eq!(store.get_message(last.id()).unwrap().unwrap().content, "hi");

        // Another run, perhaps in another process, does not change the conversation.
        let other = with!(conversation, title: Some("another".into()));
        let run = store.run("anthropic").in_conversation(other).unwrap();
        let next = run.user("again").unwrap();
        let next = store.get_turn(next.id()).unwrap().unwrap();
        assert_eq!(next.parent_id, Some(last.id()));
        assert_eq!(next.thread_id, Some(id));
        let (kept, stats) = store.get_conversation(id).unwrap().unwrap();
        assert_eq!((kept.title, stats.message_count), (None, 3));
        assert_eq!(store.session_tree(id).unwrap().unwrap().nodes.len(), 5);
    });
}

#[test]
fn calls_of_one_turn_run_on_many_threads() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().durability(Durability::Disk);
    let store = options.open(dir.path().join("log")).unwrap();
    let run = store.run("anthropic");
    let turn = Arc::new(run.assistant("all at once").unwrap());
    let workers: Vec<_> = (0..8)
        .map(|nth| {
            let call = turn.call(format!("c{nth}"), "t", &nth).unwrap();
            thread::spawn(move || call.run(|| Ok::<_, String>(nth)).unwrap().unwrap())
        })
        .collect();
    let sum: i32 = workers.into_iter().map(|it| it.join().unwrap()).sum();
    assert_eq!(sum, 28);
    for nth in 0..8 {
        let done = outcome(&store, turn.id(), &format!("c{nth}")).unwrap();
        assert_eq!(done.outcome_json, Some(nth.to_string()));
    }
}
