//! Numbers set by clients and assigned by the log: the log never runs out of numbers, and they stay
//! within the range that every JSON reader represents exactly.

#![allow(clippy::cast_sign_loss)]

use std::fs;
use std::path::Path;

use decklog::record::GIVEN_NUMBER_MAX;
use decklog::storage::Disk;
use decklog::{
    AckStatus, Client, Conversation, ConversationMessage, ErrorKind, Event, HistoryEntry,
    InboxTask, Record, Role, Store, verify,
};
use uuid::Uuid;

use super::support::{DAY_1, restamped, still};

/// The largest integer that JavaScript represents exactly.
const EXACT_MAX: i64 = (1 << 53) - 1;

fn talk() -> Conversation {
    Conversation::new(Uuid::from_u128(1), Client::Api)
}

/// A record of each numbered kind, with or without a number, all on one day.
fn numbered(nth: u128, number: Option<i64>) -> [Record; 4] {
    let id = number.unwrap_or(0);
    let message = with!(ConversationMessage::new(talk().id, Role::User, "said"),
        id: Uuid::from_u128(nth),
        sequence: number,
        timestamp: "2025-12-27T10:40:00Z".parse().unwrap(),
    );
    let event = with!(Event::new(None, "a.b"), id, created_at: DAY_1);
    let entry = with!(HistoryEntry::new(1, Role::User, format!("entry {nth}")),
        id,
        created_at: DAY_1,
    );
    let task = with!(InboxTask::new(nth as i64, None), id, created_at: DAY_1, updated_at: DAY_1);
    [message.into(), event.into(), entry.into(), task.into()]
}

fn assigned(store: &Store, record: Record) -> i64 {
    let kind = record.kind();
    let ack = store.record(record);
    let ack = ack.unwrap_or_else(|e| panic!("{kind}: {e}"));
    assert_eq!(ack.status, AckStatus::Added, "{kind}");
    ack.assigned.unwrap()
}

#[test]
fn no_number_that_is_given_ends_those_that_the_log_gives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    store.record(talk()).unwrap();
    for number in [GIVEN_NUMBER_MAX + 1, EXACT_MAX, i64::MAX - 1] {
        for record in numbered(10, Some(number)) {
            let kind = record.kind();
            let e = store.record(record).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidInput, "{kind}: {e}");
            assert!(matches!(e.field(), Some("id" | "sequence")), "{kind}: {e}");
        }
    }
    assert_eq!(verify(&Disk::new(store.path())).unwrap().good_lines, 1);
    for record in numbered(11, Some(GIVEN_NUMBER_MAX)) {
        assert_eq!(assigned(&store, record), GIVEN_NUMBER_MAX);
    }
    for next in 1..=3 {
        // Also with a handle that reads the log again.
        let store = still().open(&path).unwrap();
        for record in numbered(20 + next as u128, None) {
            assert_eq!(assigned(&store, record), GIVEN_NUMBER_MAX + next);
        }
    }
    // The next number may be set by a client, for instance to record another store's lines here.
    let store = still().open(dir.path().join("other")).unwrap();
    store.record(talk()).unwrap();
    for nth in 0..3 {
        for record in numbered(30 + nth as u128, Some(GIVEN_NUMBER_MAX + nth)) {
            assert_eq!(assigned(&store, record), GIVEN_NUMBER_MAX + nth);
        }
    }
}

/// Writes another number into the only line of each numbered kind, as an earlier version would have
/// accepted.
fn renumber(path: &Path, from: i64, to: i64) {
    for kind in ["messages", "events", "history", "inbox"] {
        let file = path.join(format!("2025-12-27/{kind}.0001.jsonl"));
        let text = fs::read_to_string(&file).unwrap();
        let field = if kind == "messages" { "sequence" } else { "id" };
        let (old, new) = (format!("\"{field}\":{from},"), format!("\"{field}\":{to},"));
        let is_of = |line: &&str| line.contains(&old);
        assert_eq!(text.lines().filter(is_of).count(), 1, "{text}");
        let lines = text.lines().map(|line| {
            if line.contains(&old) {
                restamped(&line.replace(&old, &new))
            } else {
                format!("{line}\n")
            }
        });
        let text: String = lines.collect();
        fs::write(&file, text).unwrap();
    }
}

#[test]
fn a_store_with_a_number_past_the_bound_goes_on() {
    for great in [EXACT_MAX, i64::MAX - 1] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let store = still().open(&path).unwrap();
        store.record(talk()).unwrap();
        for number in [5, 777] {
            for record in numbered(number as u128, Some(number)) {
                store.record(record).unwrap();
            }
        }
        drop(store);
        renumber(&path, 777, great);
        for next in 6..9 {
            let store = still().open(&path).unwrap();
            for record in numbered(100 + next as u128, None) {
                assert_eq!(assigned(&store, record), next);
            }
        }
        // Existing numbers are found, and recording them again is unchanged.
        let store = still().open(&path).unwrap();
        let event = store.get_event(great).unwrap();
        assert_eq!(event.unwrap().id, great);
        for record in numbered(777, Some(great)) {
            let kind = record.kind();
            let ack = store.record(record).unwrap();
            assert_eq!(ack.status, AckStatus::Unchanged, "{kind}");
        }
        assert!(verify(&Disk::new(store.path())).unwrap().is_clean());
    }
}
