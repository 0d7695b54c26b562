//! The inbox: every update is queued once, a task is held by one worker at a time, and a worker
//! that lost a task cannot end it.
//!
//! `DECKLOG_INBOX_STEPS` sets the steps of the model test.

#![allow(clippy::cast_possible_wrap)]

use std::collections::BTreeMap;
use std::time::Duration;

use decklog::inbox::{Inbox, TaskCounts};
use decklog::query::{Order, TaskQuery};
use decklog::record::{GIVEN_NUMBER_MAX, InboxStep, TaskStatus};
use decklog::storage::{Memory, Storage};
use decklog::{
    Ack, AckStatus, Durability, Error, ErrorKind, HistoryEntry, InboxTask, Record, Role, Store,
};

use super::support::{DAY_1, DAY_MS, Rng, Spy, count, in_memory, still};

const NOW: Duration = Duration::ZERO;
const HOUR: Duration = Duration::from_secs(3600);

fn memory_store() -> (Memory, Store) {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    (memory, store)
}

fn lines(store: &Store) -> usize {
    store.last_lines(usize::MAX).unwrap().len()
}

fn record(store: &Store, json: &str) -> Result<Ack, Error> {
    store.record(Record::from_json(json)?)
}

/// Records JSON, and expects an error and no write.
fn refused(store: &Store, json: &str) -> ErrorKind {
    let before = lines(store);
    let err = record(store, json).unwrap_err();
    assert_eq!(lines(store), before, "{json}");
    err.kind()
}

fn kind<T: std::fmt::Debug>(answer: Result<T, Error>) -> ErrorKind {
    answer.unwrap_err().kind()
}

fn get(store: &Store, id: i64) -> InboxTask {
    store.inbox().get(id).unwrap().unwrap()
}

fn task_at(update_id: i64, created_at: i64) -> InboxTask {
    with!(InboxTask::new(update_id, None), created_at, updated_at: created_at)
}

fn ids(tasks: &[InboxTask]) -> Vec<i64> {
    tasks.iter().map(|task| task.id).collect()
}

#[test]
fn an_update_is_queued_once_and_its_first_payload_stands() {
    let (memory, store) = memory_store();
    let first = store
        .inbox()
        .enqueue(77, Some(r#"{"text": "one"}"#))
        .unwrap();
    assert_eq!(
        (first.id, first.update_id, first.status, first.attempts),
        (1, 77, TaskStatus::Queued, 0)
    );
    let other = in_memory(&memory, Durability::Disk);
    for store in [&store, &other] {
        for payload in [Some(r#"{"text": "two"}"#), Some("no JSON"), None] {
            assert_eq!(store.inbox().enqueue(77, payload).unwrap(), first);
        }
    }
    assert_eq!(lines(&store), 1);
    let second = other.inbox().enqueue(78, None).unwrap();
    assert_eq!((second.id, second.payload), (2, None));
    // While the task is claimed, and after it is done, the existing row is returned.
    let held = store.inbox().claim().unwrap().unwrap();
    assert_eq!(other.inbox().enqueue(77, None).unwrap(), held);
    store.inbox().done(&held).unwrap();
    let done = other.inbox().enqueue(77, Some("again")).unwrap();
    assert_eq!(
        (done.status, done.payload),
        (TaskStatus::Done, first.payload)
    );
    let ack = store.record(InboxTask::new(77, None)).unwrap();
    assert_eq!(
        (ack.status, ack.seq, ack.assigned),
        (AckStatus::Unchanged, 1, Some(1))
    );
}

#[test]
fn payloads_come_back_to_the_byte() {
    let (memory, store) = memory_store();
    let payloads = [
        "",
        "{}",
        "[ 1,2 ]",
        "{\"a\" : \"\\u0041\"}",
        "{\n}",
        "no JSON",
        "\u{0}\u{2028}👩",
        "null",
        "\"x\"",
        "{\"a\":1,\"a\":2}",
    ];
    for (update_id, payload) in (1..).zip(payloads) {
        assert_eq!(
            store
                .inbox()
                .enqueue(update_id, Some(payload))
                .unwrap()
                .payload
                .as_deref(),
            Some(payload)
        );
    }
    let store = in_memory(&memory, Durability::Process);
    for (id, payload) in (1..).zip(payloads) {
        let task = store.inbox().claim().unwrap().unwrap();
        assert_eq!((task.id, task.payload.as_deref()), (id, Some(payload)));
    }
}

#[test]
fn the_oldest_that_waits_is_claimed_first() {
    let (_, store) = memory_store();
    let inbox = store.inbox();
    assert_eq!(inbox.claim().unwrap(), None);
    for update_id in [30, 10, 20] {
        inbox.enqueue(update_id, None).unwrap();
    }
    let before = chrono::Utc::now().timestamp_millis();
    let one = inbox.claim().unwrap().unwrap();
    let after = chrono::Utc::now().timestamp_millis();
    assert_eq!((one.id, one.update_id, one.attempts), (1, 30, 1));
    assert_eq!(one.status, TaskStatus::InProgress);
    assert!((before..=after).contains(&one.locked_at.unwrap()));
    assert_eq!(get(&store, 1), one);
    let two = inbox.claim().unwrap().unwrap();
    // After its release it is the oldest again.
    assert_eq!(inbox.retry(&one, "later").unwrap(), TaskStatus::Queued);
    let waiting = get(&store, 1);
    assert_eq!(
        (waiting.status, waiting.attempts, waiting.locked_at),
        (TaskStatus::Queued, 1, None)
    );
    assert_eq!(waiting.error.as_deref(), Some("later"));
    let again = inbox.claim().unwrap().unwrap();
    assert_eq!((again.id, again.attempts), (1, 2));
    let three = inbox.claim().unwrap().unwrap();
    assert_eq!([two.id, three.id], [2, 3]);
    assert_eq!(inbox.claim().unwrap(), None);

    inbox.done(&again).unwrap();
    inbox.fail(&two, "no such file").unwrap();
    inbox.retry(&three, "").unwrap();
    let done = get(&store, 1);
    assert_eq!(
        (done.status, done.attempts, done.locked_at),
        (TaskStatus::Done, 2, None)
    );
    let failed = get(&store, 2);
    assert_eq!(
        (failed.status, failed.attempts, failed.error.as_deref()),
        (TaskStatus::Failed, 1, Some("no such file"))
    );
    assert_eq!(
        inbox.counts().unwrap(),
        TaskCounts {
            queued: 1,
            in_progress: 0,
            done: 1,
            failed: 1
        }
    );
    assert_eq!(inbox.claim().unwrap().unwrap().id, 3);
}

/// Bug: `claim` returned the reason of the last release, but a read did not.
#[test]
fn what_a_claim_returns_is_what_is_read() {
    let (memory, store) = memory_store();
    let inbox = store.inbox();
    inbox.enqueue(1, Some("{}")).unwrap();
    for reason in ["one", "two"] {
        let task = inbox.claim().unwrap().unwrap();
        assert_eq!(get(&store, 1), task);
        assert_eq!(get(&in_memory(&memory, Durability::Process), 1), task);
        inbox.retry(&task, reason).unwrap();
    }
    // The next worker sees why the task was released.
    assert_eq!(
        inbox.claim().unwrap().unwrap().error.as_deref(),
        Some("two")
    );
    assert_eq!(get(&store, 1).error.as_deref(), Some("two"));
    let released = inbox.release_stale(NOW).unwrap();
    assert_eq!(released, [get(&store, 1)]);
    let task = inbox.claim().unwrap().unwrap();
    inbox.done(&task).unwrap();
    // The error of the latest failure is kept.
    let error = Some("the claim of attempt 3 timed out");
    assert_eq!(get(&store, 1).error.as_deref(), error);
    inbox.done(&task).unwrap();
    assert_eq!(get(&store, 1).error.as_deref(), error);
    assert_eq!(
        get(&in_memory(&memory, Durability::Process), 1),
        get(&store, 1)
    );
}

/// Bug: a worker that had lost its claim could still fail the task while it was queued.
#[test]
fn whoever_lost_a_claim_can_not_end_the_task() {
    let (memory, store) = memory_store();
    let other = in_memory(&memory, Durability::Process);
    let (inbox, once) = (store.inbox(), store.inbox().attempts_max(1));
    inbox.enqueue(1, None).unwrap();
    let lost = inbox.claim().unwrap().unwrap();
    assert_eq!(ids(&other.inbox().release_stale(NOW).unwrap()), [1]);
    let ends = |expected: ErrorKind| {
        let before = (lines(&store), get(&store, 1));
        assert_eq!(kind(inbox.done(&lost)), expected);
        assert_eq!(kind(inbox.fail(&lost, "x")), expected);
        assert_eq!(kind(inbox.retry(&lost, "x")), expected);
        assert_eq!(kind(once.retry(&lost, "x")), expected);
        assert_eq!((lines(&store), get(&store, 1)), before);
    };
    // No worker holds it.
    ends(ErrorKind::Lifecycle);
    let held = other.inbox().claim().unwrap().unwrap();
    assert_eq!(held.attempts, 2);
    // Another worker holds it.
    ends(ErrorKind::Conflict);
    other.inbox().done(&held).unwrap();
    ends(ErrorKind::Lifecycle);
    // The worker that ended it may repeat that.
    let before = lines(&store);
    other.inbox().done(&held).unwrap();
    inbox.done(&held).unwrap();
    assert_eq!(lines(&store), before);
    assert_eq!(kind(inbox.fail(&held, "x")), ErrorKind::Lifecycle);
}

/// Bug: the task returned by `enqueue` was accepted as a claim, so its caller could end the task of
/// the worker that held it.
#[test]
fn only_a_claim_lets_a_task_be_ended() {
    let (_, store) = memory_store();
    let queued = store.inbox().enqueue(1, None).unwrap();
    let held = store.inbox().claim().unwrap().unwrap();
    let before = lines(&store);
    assert_eq!(kind(store.inbox().done(&queued)), ErrorKind::Lifecycle);
    assert_eq!(kind(store.inbox().fail(&queued, "x")), ErrorKind::Lifecycle);
    assert_eq!(
        kind(store.inbox().retry(&queued, "x")),
        ErrorKind::Lifecycle
    );
    assert_eq!((lines(&store), get(&store, 1)), (before, held.clone()));
    store.inbox().done(&held).unwrap();
}

#[test]
fn the_last_attempt_fails_the_task() {
    let (_, store) = memory_store();
    let inbox = store.inbox().attempts_max(2);
    for update_id in 1..=2 {
        inbox.enqueue(update_id, None).unwrap();
    }
    let claim = || inbox.claim().unwrap().unwrap();
    assert_eq!(inbox.retry(&claim(), "first").unwrap(), TaskStatus::Queued);
    let task = claim();
    assert_eq!((task.id, task.attempts), (1, 2));
    assert_eq!(inbox.retry(&task, "second").unwrap(), TaskStatus::Failed);
    let failed = get(&store, 1);
    assert_eq!(
        (failed.status, failed.attempts, failed.error.as_deref()),
        (TaskStatus::Failed, 2, Some("second"))
    );
    // Also by a release.
    claim();
    assert_eq!(
        inbox.release_stale(NOW).unwrap()[0].status,
        TaskStatus::Queued
    );
    claim();
    let released = inbox.release_stale(NOW).unwrap();
    assert_eq!(released, [get(&store, 2)]);
    assert_eq!(
        (released[0].status, released[0].attempts),
        (TaskStatus::Failed, 2)
    );
    assert!(
        released[0]
            .error
            .as_deref()
            .unwrap()
            .contains("attempt 2 timed out")
    );
    assert_eq!(inbox.claim().unwrap(), None);

    // A limit of 0 means 1. Lowering the limit fails queued tasks above it.
    let strict = store.inbox().attempts_max(0);
    strict.enqueue(3, None).unwrap();
    strict.enqueue(4, None).unwrap();
    let task = store.inbox().claim().unwrap().unwrap();
    store.inbox().retry(&task, "once").unwrap();
    assert_eq!(strict.claim().unwrap().unwrap().id, 4);
    let given_up = get(&store, 3);
    assert_eq!(
        (given_up.status, given_up.attempts),
        (TaskStatus::Failed, 1)
    );
    assert!(given_up.error.unwrap().contains("tried 1 times"));
    assert_eq!(strict.claim().unwrap(), None);
}

#[test]
fn only_stale_claims_are_released() {
    let (_, store) = memory_store();
    let inbox = store.inbox();
    for update_id in 1..=4 {
        inbox.enqueue(update_id, None).unwrap();
    }
    inbox.claim().unwrap();
    std::thread::sleep(Duration::from_millis(40));
    inbox.claim().unwrap();
    inbox.done(&inbox.claim().unwrap().unwrap()).unwrap();
    let before = lines(&store);
    assert_eq!(inbox.release_stale(HOUR).unwrap(), []);
    assert_eq!(inbox.release_stale(Duration::MAX).unwrap(), []);
    assert_eq!(lines(&store), before);
    assert_eq!(
        ids(&inbox.release_stale(Duration::from_millis(30)).unwrap()),
        [1]
    );
    assert_eq!(ids(&inbox.release_stale(NOW).unwrap()), [2]);
    assert_eq!(inbox.release_stale(NOW).unwrap(), []);
    assert_eq!(
        inbox.counts().unwrap(),
        TaskCounts {
            queued: 3,
            in_progress: 0,
            done: 1,
            failed: 0
        }
    );
}

#[test]
fn lists_are_by_state_and_page_by_page() {
    let (memory, store) = memory_store();
    let inbox = store.inbox();
    for update_id in 1..=20 {
        inbox.enqueue(update_id, None).unwrap();
    }
    for id in 1..=12 {
        let task = inbox.claim().unwrap().unwrap();
        match id % 3 {
            0 => inbox.done(&task).unwrap(),
            1 => inbox.fail(&task, "x").unwrap(),
            _ => {}
        }
    }
    let expected = |status: Option<TaskStatus>| -> Vec<i64> {
        let at = |id: &i64| match (*id, id % 3) {
            (13.., _) => TaskStatus::Queued,
            (_, 0) => TaskStatus::Done,
            (_, 1) => TaskStatus::Failed,
            _ => TaskStatus::InProgress,
        };
        (1..=20)
            .filter(|id| status.is_none_or(|status| at(id) == status))
            .collect()
    };
    for store in [&store, &in_memory(&memory, Durability::Process)] {
        let statuses = TaskStatus::ALL.iter().copied().map(Some);
        for status in statuses.chain([None]) {
            for (order, limit) in [
                (Order::OldestFirst, 3),
                (Order::NewestFirst, 1),
                (Order::NewestFirst, 100),
            ] {
                let mut query = TaskQuery {
                    status,
                    order,
                    limit,
                    ..TaskQuery::default()
                };
                let mut seen = Vec::new();
                loop {
                    let page = store.inbox().list(&query).unwrap();
                    assert!(page.items.len() <= limit);
                    for task in &page.items {
                        assert!(status.is_none_or(|status| task.status == status));
                        assert_eq!(&get(store, task.id), task);
                    }
                    seen.extend(ids(&page.items));
                    query.after = page.next;
                    if query.after.is_none() {
                        break;
                    }
                }
                if order == Order::NewestFirst {
                    seen.reverse();
                }
                assert_eq!(seen, expected(status), "{status:?} {order:?} {limit}");
            }
        }
        let none = TaskQuery {
            limit: 0,
            ..TaskQuery::default()
        };
        assert_eq!(store.inbox().list(&none).unwrap().items, []);
        let counted = |status| expected(Some(status)).len();
        assert_eq!(
            store.inbox().counts().unwrap(),
            TaskCounts {
                queued: counted(TaskStatus::Queued),
                in_progress: counted(TaskStatus::InProgress),
                done: counted(TaskStatus::Done),
                failed: counted(TaskStatus::Failed),
            }
        );
    }
}

#[test]
fn the_telegram_offset_follows_the_greatest_update() {
    let memory = Memory::new();
    let open = || in_memory(&memory, Durability::Process);
    let store = open();
    assert_eq!(store.telegram_offset().unwrap(), 0);
    assert_eq!(open().telegram_offset().unwrap(), 0);
    for (update_id, expected) in [
        (-5, -4),
        (-9, -4),
        (0, 1),
        (700_000_001, 700_000_002),
        (7, 700_000_002),
        (i64::MIN, 700_000_002),
        (GIVEN_NUMBER_MAX, GIVEN_NUMBER_MAX + 1),
    ] {
        store.inbox().enqueue(update_id, None).unwrap();
        assert_eq!(store.telegram_offset().unwrap(), expected);
        assert_eq!(open().telegram_offset().unwrap(), expected);
    }
    while let Some(task) = store.inbox().claim().unwrap() {
        store.inbox().done(&task).unwrap();
    }
    for update_id in [GIVEN_NUMBER_MAX + 2, i64::MAX] {
        let refused = store.inbox().enqueue(update_id, None).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.field()),
            (ErrorKind::InvalidInput, Some("update_id"))
        );
    }
    assert_eq!(open().telegram_offset().unwrap(), GIVEN_NUMBER_MAX + 1);
    // Each was a separate task.
    assert_eq!(store.inbox().counts().unwrap().done, 7);
}

#[test]
fn tasks_and_steps_come_as_json_too() {
    let (memory, store) = memory_store();
    let ack = record(
        &store,
        r#"{"kind":"inbox","update_id":5,"payload":{"a":1}}"#,
    )
    .unwrap();
    assert_eq!((ack.status, ack.assigned), (AckStatus::Added, Some(1)));
    let ack = record(&store, r#"{"kind":"inbox","op":"queued","update_id":5}"#).unwrap();
    assert_eq!((ack.status, ack.assigned), (AckStatus::Unchanged, Some(1)));
    let claim = r#"{"kind":"inbox","op":"in_progress","id":1}"#;
    assert_eq!(record(&store, claim).unwrap().status, AckStatus::Added);
    assert_eq!(get(&store, 1).attempts, 1);
    // Two workers do not hold it at the same time.
    assert_eq!(refused(&store, claim), ErrorKind::Lifecycle);
    let steps = [
        (
            r#"{"kind":"inbox","op":"queued","id":1,"error":"busy"}"#,
            TaskStatus::Queued,
            1,
            Some("busy"),
        ),
        (
            r#"{"kind":"inbox","op":"in_progress","id":1,"attempts":2}"#,
            TaskStatus::InProgress,
            2,
            Some("busy"),
        ),
        (
            r#"{"kind":"inbox","op":"done","id":1,"attempts":2}"#,
            TaskStatus::Done,
            2,
            Some("busy"),
        ),
    ];
    for (json, status, attempts, error) in steps {
        assert_eq!(
            record(&store, json).unwrap().status,
            AckStatus::Added,
            "{json}"
        );
        let task = get(&store, 1);
        assert_eq!(
            (task.status, task.attempts, task.error.as_deref()),
            (status, attempts, error),
            "{json}"
        );
        assert_eq!(get(&in_memory(&memory, Durability::Process), 1), task);
        if status != TaskStatus::InProgress {
            assert_eq!(
                record(&store, json).unwrap().status,
                AckStatus::Unchanged,
                "{json}"
            );
        }
    }
    // A claim is recognized as the same by its exact time.
    record(&store, r#"{"kind":"inbox","update_id":6}"#).unwrap();
    let claim =
        format!(r#"{{"kind":"inbox","op":"in_progress","id":2,"attempts":1,"locked_at":{DAY_1}}}"#);
    assert_eq!(record(&store, &claim).unwrap().status, AckStatus::Added);
    assert_eq!(record(&store, &claim).unwrap().status, AckStatus::Unchanged);
    assert_eq!(get(&store, 2).locked_at, Some(DAY_1));
    assert_eq!(ids(&store.inbox().release_stale(HOUR).unwrap()), [2]);
}

#[test]
fn steps_that_can_not_be_are_refused_and_nothing_written() {
    let (_, store) = memory_store();
    let step = |op: &str, id: i64, attempts: i64| {
        let attempts = if attempts == 0 {
            String::new()
        } else {
            format!(r#","attempts":{attempts}"#)
        };
        format!(r#"{{"kind":"inbox","op":"{op}","id":{id}{attempts}}}"#)
    };
    for op in ["queued", "in_progress", "done", "failed"] {
        assert_eq!(
            refused(&store, &step(op, 1, 0)),
            ErrorKind::NotFound,
            "{op} of none"
        );
        assert_eq!(refused(&store, &step(op, -1, 0)), ErrorKind::InvalidInput);
    }
    record(&store, r#"{"kind":"inbox","update_id":1}"#).unwrap();
    for (op, attempts) in [
        ("done", 0),
        ("done", 1),
        ("failed", 0),
        ("failed", 1),
        ("queued", 0),
        ("queued", 1),
    ] {
        assert_eq!(
            refused(&store, &step(op, 1, attempts)),
            ErrorKind::Lifecycle,
            "{op} of one that waits"
        );
    }
    assert_eq!(
        refused(&store, &step("in_progress", 1, 2)),
        ErrorKind::Conflict
    );
    let held = store.inbox().claim().unwrap().unwrap();
    for op in ["done", "failed", "queued"] {
        assert_eq!(
            refused(&store, &step(op, 1, 2)),
            ErrorKind::Conflict,
            "{op}"
        );
    }
    assert_eq!(
        refused(&store, &step("in_progress", 1, 0)),
        ErrorKind::Lifecycle
    );
    assert_eq!(
        refused(&store, &step("in_progress", 1, 2)),
        ErrorKind::Lifecycle
    );
    store.inbox().done(&held).unwrap();
    for op in ["failed", "queued", "in_progress"] {
        for attempts in 0..3 {
            assert_eq!(
                refused(&store, &step(op, 1, attempts)),
                ErrorKind::Lifecycle,
                "{op} of one that is done"
            );
        }
    }
    assert_eq!(refused(&store, &step("done", 1, 2)), ErrorKind::Lifecycle);

    for json in [
        r#"{"kind":"inbox"}"#,
        r#"{"kind":"inbox","op":"queued"}"#,
        r#"{"kind":"inbox","op":"done"}"#,
        r#"{"kind":"inbox","op":"paused","id":1}"#,
        r#"{"kind":"inbox","op":"done","id":1,"update_id":1}"#,
        r#"{"kind":"inbox","op":"done","id":1,"attempts":-1}"#,
        r#"{"kind":"inbox","op":"done","id":"1"}"#,
        r#"{"kind":"inbox","update_id":1.5}"#,
        r#"{"kind":"inbox","update_id":9223372036854775808}"#,
        r#"{"kind":"inbox","update_id":9,"attempts":1}"#,
        r#"{"kind":"inbox","update_id":9,"error":"x"}"#,
        r#"{"kind":"inbox","update_id":9,"locked_at":1}"#,
        r#"{"kind":"inbox","update_id":9,"id":-1}"#,
        r#"{"kind":"inbox","update_id":9,"id":9223372036854775807}"#,
        r#"{"kind":"inbox","update_id":9,"created_at":-1}"#,
        r#"{"kind":"inbox","op":"in_progress","id":1,"at":1,"locked_at":2}"#,
    ] {
        assert_eq!(refused(&store, json), ErrorKind::InvalidInput, "{json}");
    }
    let unknown = with!(held.clone(), id: 99);
    assert_eq!(kind(store.inbox().done(&unknown)), ErrorKind::NotFound);
    assert_eq!(
        kind(store.inbox().retry(&unknown, "x")),
        ErrorKind::NotFound
    );
    let none = with!(held.clone(), id: 0);
    assert_eq!(kind(store.inbox().done(&none)), ErrorKind::InvalidInput);
    assert_eq!(
        kind(store.inbox().retry(&none, "x")),
        ErrorKind::InvalidInput
    );
    // A task that was never claimed has no holder, whatever its `attempts` value.
    let waiting = store.inbox().enqueue(2, None).unwrap();
    for attempts in 0..2 {
        let waiting = with!(waiting.clone(), attempts);
        assert_eq!(kind(store.inbox().done(&waiting)), ErrorKind::Lifecycle);
        assert_eq!(
            kind(store.inbox().fail(&waiting, "x")),
            ErrorKind::Lifecycle
        );
        assert_eq!(
            kind(store.inbox().retry(&waiting, "x")),
            ErrorKind::Lifecycle
        );
    }
    let step = InboxStep {
        id: 2,
        status: TaskStatus::InProgress,
        at: -1,
        attempt: 0,
        error: None,
    };
    assert_eq!(kind(store.record(step)), ErrorKind::InvalidInput);
}

#[test]
fn given_ids_are_kept_and_taken_once() {
    let (memory, store) = memory_store();
    let task = |id: i64, update_id: i64| {
        InboxTask::new(update_id, None)
            .id(id)
            .created_at(DAY_1 + id % 100 * DAY_MS)
    };
    for (id, update_id) in [(7, 70), (3, 30)] {
        let ack = store.record(task(id, update_id)).unwrap();
        assert_eq!((ack.status, ack.assigned), (AckStatus::Added, Some(id)));
        let ack = store.record(task(id, update_id)).unwrap();
        assert_eq!((ack.status, ack.assigned), (AckStatus::Unchanged, Some(id)));
    }
    for (id, update_id) in [(7, 71), (7, 30), (8, 70), (3, 70)] {
        assert_eq!(kind(store.record(task(id, update_id))), ErrorKind::Conflict);
    }
    assert_eq!(store.inbox().enqueue(80, None).unwrap().id, 8);
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(store.inbox().enqueue(90, None).unwrap().id, 9);
    let order: Vec<i64> = std::iter::from_fn(|| store.inbox().claim().unwrap())
        .map(|task| task.id)
        .collect();
    assert_eq!(order, [3, 7, 8, 9]);
    // The highest number that a client can set is not the last one.
    store.record(task(GIVEN_NUMBER_MAX, 100)).unwrap();
    let next = store.inbox().enqueue(101, None).unwrap().id;
    assert_eq!(next, GIVEN_NUMBER_MAX + 1);
    let refused = store.record(task(GIVEN_NUMBER_MAX + 3, 102));
    assert_eq!(kind(refused), ErrorKind::InvalidInput);
}

/// Every line of an inbox is valid input for another store, with the same meaning.
#[test]
fn the_lines_of_an_inbox_make_the_same_inbox_elsewhere() {
    let (_, store) = memory_store();
    let mut rng = Rng::seeded("inbox, told again");
    let mut held = Vec::new();
    for number in 0..200 {
        let max = [1, 2, 99][rng.below(3)];
        let inbox = store.inbox().attempts_max(max);
        match rng.below(5) {
            0 => drop(inbox.enqueue(number, Some("{}")).unwrap()),
            1 | 2 => held.extend(inbox.claim().unwrap()),
            3 if !held.is_empty() => {
                drop(inbox.retry(&held.swap_remove(rng.below(held.len())), "x"));
            }
            4 if rng.one_in(4) => drop(inbox.release_stale(NOW).unwrap()),
            _ => {}
        }
    }
    let (_, other) = memory_store();
    for line in store.last_lines(usize::MAX).unwrap() {
        let members = line.text.strip_prefix('{').unwrap();
        let json = format!("{{\"kind\":\"inbox\",{members}");
        for expected in [AckStatus::Added, AckStatus::Unchanged] {
            let ack = record(&other, &json).unwrap_or_else(|e| panic!("{e}: {json}"));
            assert_eq!(ack.status, expected, "{json}");
        }
    }
    let all = TaskQuery {
        limit: 1000,
        ..TaskQuery::default()
    };
    assert_eq!(
        other.inbox().list(&all).unwrap(),
        store.inbox().list(&all).unwrap()
    );
}

/// Bug: a refused `retry` left `HEAD` as after a crash, so that every handle checked every segment.
#[test]
fn a_refusal_does_not_look_like_a_crash() {
    let spy = Spy::new(Memory::new());
    let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(spy.clone());
    let store = still().storage(storage).open("memory").unwrap();
    let inbox = store.inbox();
    inbox.enqueue(1, None).unwrap();
    let task = inbox.claim().unwrap().unwrap();
    inbox.done(&task).unwrap();
    let before = spy.events().len();
    inbox.retry(&task, "x").unwrap_err();
    inbox.fail(&task, "x").unwrap_err();
    assert_eq!(inbox.claim().unwrap(), None);
    inbox.enqueue(2, None).unwrap();
    let looked = spy.events()[before..]
        .iter()
        .filter(|event| event.operation == "read_dir")
        .count();
    assert_eq!(looked, 0);
}

/// Bug: a task whose line was damaged under an open handle blocked all other tasks.
#[test]
fn a_damaged_task_does_not_stop_the_queue() {
    let (memory, store) = memory_store();
    for update_id in 1..=3 {
        store.inbox().enqueue(update_id, None).unwrap();
    }
    let file = store.last_lines(1).unwrap()[0].file.clone();
    let mut bytes = memory.bytes(&file).unwrap();
    bytes[0] = b'x';
    memory.put_bytes(&file, bytes);
    let claimed = store.inbox().claim().unwrap().unwrap();
    assert_eq!(claimed.id, 2);
    assert_eq!(store.damage().unwrap().len(), 1);
    store.inbox().done(&claimed).unwrap();
    assert_eq!(store.inbox().claim().unwrap().unwrap().id, 3);
    assert_eq!(store.inbox().claim().unwrap(), None);
}

/// Bug: files of another log, copied into this one, requeued a task that was done if that log had
/// queued one with the same id.
#[test]
fn a_task_of_another_log_does_not_bring_back_what_is_done() {
    let (memory, store) = memory_store();
    store.record(task_at(100, DAY_1)).unwrap();
    let inbox = store.inbox();
    inbox.done(&inbox.claim().unwrap().unwrap()).unwrap();

    let (other_memory, other) = memory_store();
    for content in ["a", "b", "c", "d"] {
        let entry = HistoryEntry::new(1, Role::User, content);
        other.record(entry).unwrap();
    }
    other.record(task_at(300, DAY_1 + DAY_MS)).unwrap();
    let line = other.last_lines(1).unwrap().remove(0);
    let (day, _) = line.file.split_once('/').unwrap();
    memory.create_dir(day).unwrap();
    memory.put_bytes(&line.file, other_memory.bytes(&line.file).unwrap());

    for store in [&store, &in_memory(&memory, Durability::Process)] {
        store.refresh().unwrap();
        assert_eq!(lines(store), 4);
        let task = get(store, 1);
        assert_eq!((task.update_id, task.status), (100, TaskStatus::Done));
        assert_eq!(store.inbox().counts().unwrap().done, 1);
        assert_eq!(store.inbox().claim().unwrap(), None);
    }
    let new = store.inbox().enqueue(300, None).unwrap();
    assert_eq!((new.id, new.status), (2, TaskStatus::Queued));
}

// The model: the expected state of the inbox, implemented plainly.

#[derive(Debug, Clone)]
struct Task {
    update_id: i64,
    payload: Option<String>,
    status: TaskStatus,
    attempts: i64,
    error: Option<String>,
    /// The last step: its status, attempt and error.
    last: Option<(TaskStatus, i64, Option<String>)>,
}

#[derive(Debug, Default)]
struct Model {
    tasks: BTreeMap<i64, Task>,
    written: usize,
}

impl Model {
    fn put(&mut self, id: i64, status: TaskStatus, attempt: i64, error: Option<String>) {
        let task = self.tasks.get_mut(&id).unwrap();
        task.status = status;
        task.attempts = attempt;
        task.error = error.or(task.error.take());
        task.last = Some((status, attempt, task.error.clone()));
        self.written += 1;
    }

    fn enqueue(&mut self, update_id: i64, payload: Option<&str>) -> i64 {
        let known = self
            .tasks
            .iter()
            .find(|(_, task)| task.update_id == update_id);
        if let Some((id, _)) = known {
            return *id;
        }
        let id = self.tasks.len() as i64 + 1;
        self.written += 1;
        self.tasks.insert(
            id,
            Task {
                update_id,
                payload: payload.map(str::to_owned),
                status: TaskStatus::Queued,
                attempts: 0,
                error: None,
                last: None,
            },
        );
        id
    }

    fn claim(&mut self, max: i64) -> Option<i64> {
        loop {
            let waiting = self
                .tasks
                .iter()
                .find(|(_, task)| task.status == TaskStatus::Queued);
            let (id, task) = waiting.map(|(id, task)| (*id, task.clone()))?;
            if task.attempts < max {
                self.put(id, TaskStatus::InProgress, task.attempts + 1, task.error);
                return Some(id);
            }
            let reason = format!("the task was tried {} times", task.attempts);
            self.put(id, TaskStatus::Failed, task.attempts, Some(reason));
        }
    }

    /// Ends a task as the holder of `attempt`.
    fn end(
        &mut self,
        id: i64,
        status: TaskStatus,
        attempt: i64,
        error: Option<&str>,
    ) -> Result<(), ErrorKind> {
        let task = &self.tasks[&id];
        let error = error.map(str::to_owned);
        let said = error.clone().or_else(|| task.error.clone());
        if task.last == Some((status, attempt, said)) {
            return Ok(());
        }
        if task.status != TaskStatus::InProgress {
            return Err(ErrorKind::Lifecycle);
        }
        if task.attempts != attempt {
            return Err(ErrorKind::Conflict);
        }
        self.put(id, status, attempt, error);
        Ok(())
    }

    fn release(&mut self, max: i64) -> Vec<i64> {
        let held: Vec<i64> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.status == TaskStatus::InProgress)
            .map(|(id, _)| *id)
            .collect();
        for id in &held {
            let attempt = self.tasks[id].attempts;
            let status = if attempt >= max {
                TaskStatus::Failed
            } else {
                TaskStatus::Queued
            };
            self.put(
                *id,
                status,
                attempt,
                Some(format!("the claim of attempt {attempt} timed out")),
            );
        }
        held
    }

    /// A step given as a record, for the latest attempt or a specific one.
    fn step(
        &mut self,
        id: i64,
        status: TaskStatus,
        attempt: i64,
        error: Option<&str>,
    ) -> Result<(), ErrorKind> {
        let Some(task) = self.tasks.get(&id).cloned() else {
            return Err(ErrorKind::NotFound);
        };
        let error = error.map(str::to_owned);
        if status == TaskStatus::InProgress {
            if task.status != TaskStatus::Queued {
                return Err(ErrorKind::Lifecycle);
            }
            if attempt != 0 && attempt != task.attempts + 1 {
                return Err(ErrorKind::Conflict);
            }
            self.put(id, status, task.attempts + 1, error);
            return Ok(());
        }
        if let Some((last_status, last_attempt, last_error)) = &task.last
            && *last_status == status
            && (error.is_none() || *last_error == error)
            && (attempt == 0 || attempt == *last_attempt)
        {
            return Ok(());
        }
        let is_given_up = task.status == TaskStatus::Queued
            && status == TaskStatus::Failed
            && attempt == task.attempts
            && attempt > 0;
        if task.status != TaskStatus::InProgress && !is_given_up {
            return Err(ErrorKind::Lifecycle);
        }
        if attempt != 0 && attempt != task.attempts {
            return Err(ErrorKind::Conflict);
        }
        self.put(id, status, task.attempts, error);
        Ok(())
    }

    fn check(&self, store: &Store) {
        let all = TaskQuery {
            limit: usize::MAX,
            ..TaskQuery::default()
        };
        let found = store.inbox().list(&all).unwrap().items;
        assert_eq!(ids(&found), self.tasks.keys().copied().collect::<Vec<_>>());
        for found in found {
            let task = &self.tasks[&found.id];
            assert_eq!(
                (
                    found.update_id,
                    &found.payload,
                    found.status,
                    found.attempts,
                    &found.error
                ),
                (
                    task.update_id,
                    &task.payload,
                    task.status,
                    task.attempts,
                    &task.error
                ),
                "task {}",
                found.id
            );
            assert_eq!(
                found.locked_at.is_some(),
                found.status == TaskStatus::InProgress
            );
        }
        let counted = |status| {
            self.tasks
                .values()
                .filter(|task| task.status == status)
                .count()
        };
        assert_eq!(
            store.inbox().counts().unwrap(),
            TaskCounts {
                queued: counted(TaskStatus::Queued),
                in_progress: counted(TaskStatus::InProgress),
                done: counted(TaskStatus::Done),
                failed: counted(TaskStatus::Failed),
            }
        );
        let latest = self.tasks.values().map(|task| task.update_id).max();
        assert_eq!(
            store.telegram_offset().unwrap(),
            latest.map_or(0, |latest| latest + 1)
        );
        assert_eq!(lines(store), self.written);
    }
}

#[test]
fn whatever_happens_every_task_is_where_the_model_has_it() {
    let mut rng = Rng::seeded("inbox model");
    let memory = Memory::new();
    let open = |durability| {
        let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(memory.clone());
        still()
            .segment_bytes_max(2000)
            .durability(durability)
            .storage(storage)
            .open("memory")
            .unwrap()
    };
    let mut stores = [open(Durability::Process), open(Durability::Disk)];
    let mut model = Model::default();
    // Every claim so far, current or lost.
    let mut seen: Vec<InboxTask> = Vec::new();
    let steps = count("DECKLOG_INBOX_STEPS", 1500);
    for step in 0..steps {
        let store = &stores[rng.below(2)];
        let max = *rng.pick(&[u32::MAX, 1, 2, 3]);
        let limit = if max == u32::MAX {
            i64::MAX
        } else {
            i64::from(max)
        };
        let inbox: Inbox<'_> = if max == u32::MAX {
            store.inbox()
        } else {
            store.inbox().attempts_max(max)
        };
        let error = *rng.pick(&["a", "b"]);
        match rng.below(12) {
            0..=2 => {
                let update_id = rng.below(1 + step as usize / 4) as i64;
                let payload = rng.pick(&[None, Some("{}"), Some("x")]);
                let task = inbox.enqueue(update_id, *payload).unwrap();
                assert_eq!(task.id, model.enqueue(update_id, *payload));
            }
            3..=5 => {
                let claimed = inbox.claim().unwrap();
                assert_eq!(claimed.as_ref().map(|task| task.id), model.claim(limit));
                if let Some(task) = claimed {
                    assert_eq!(get(store, task.id), task);
                    seen.push(task);
                }
            }
            6..=9 if !seen.is_empty() => {
                // Mostly recent claims, sometimes any.
                let late = seen.len() - 1 - rng.below(seen.len().min(4));
                let any = rng.below(seen.len());
                let task = &seen[if rng.one_in(3) { any } else { late }];
                let (id, attempt) = (task.id, task.attempts);
                let (found, expected) = match rng.below(4) {
                    0 | 1 => (
                        inbox.done(task),
                        model.end(id, TaskStatus::Done, attempt, None),
                    ),
                    2 => (
                        inbox.fail(task, error),
                        model.end(id, TaskStatus::Failed, attempt, Some(error)),
                    ),
                    _ => {
                        let to = if attempt >= limit {
                            TaskStatus::Failed
                        } else {
                            TaskStatus::Queued
                        };
                        let found = inbox
                            .retry(task, error)
                            .map(|status| assert_eq!(status, to));
                        (found, model.end(id, to, attempt, Some(error)))
                    }
                };
                assert_eq!(found.map_err(|e| e.kind()), expected, "{task:?}");
            }
            10 => {
                let id = 1 + rng.below(model.tasks.len() + 2) as i64;
                let (status, attempt) = (*rng.pick(TaskStatus::ALL), rng.below(4) as i64);
                let error = rng.one_in(2).then_some(error);
                let given = error.map_or(String::new(), |error| format!(r#","error":"{error}""#));
                let json = format!(
                    r#"{{"kind":"inbox","op":"{status}","id":{id},"attempts":{attempt}{given},"at":{}}}"#,
                    DAY_1 + step as i64
                );
                let found = record(store, &json).map(drop).map_err(|e| e.kind());
                assert_eq!(found, model.step(id, status, attempt, error), "{json}");
            }
            _ if rng.one_in(4) => {
                assert_eq!(inbox.release_stale(HOUR * 24 * 365 * 40).unwrap(), []);
                let released = inbox.release_stale(NOW).unwrap();
                assert_eq!(ids(&released), model.release(limit));
                for task in released {
                    assert_eq!(get(store, task.id), task);
                }
            }
            _ => {}
        }
        if rng.one_in(20) {
            model.check(&stores[rng.below(2)]);
        }
        if rng.one_in(100) {
            stores[rng.below(2)] = open(Durability::Process);
        }
    }
    for store in stores.iter().chain([&open(Durability::Process)]) {
        model.check(store);
    }
    println!(
        "{steps} steps: {} tasks, {} lines, {} claims",
        model.tasks.len(),
        model.written,
        seen.len()
    );
}
