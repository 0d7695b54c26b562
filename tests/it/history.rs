//! Chat history: the last entries, in the order of their ids, in time that depends only on their
//! number.
//!
//! `DECKLOG_HISTORY_ENTRIES` sets the length of the chat in the timing test.

#![allow(clippy::cast_possible_wrap)]

use std::collections::BTreeMap;
use std::time::Instant;

use decklog::record::GIVEN_NUMBER_MAX;
use decklog::storage::Memory;
use decklog::{AckStatus, Durability, ErrorKind, HistoryEntry, Record, Role, Store};

use super::support::{DAY_1, DAY_MS, Rng, Spy, count, in_memory, still};

fn entry(chat_id: i64, content: &str, created_at: i64) -> HistoryEntry {
    with!(HistoryEntry::new(chat_id, Role::User, content), created_at)
}

fn texts(store: &Store, chat_id: i64, limit: usize) -> Vec<String> {
    let entries = store.history(chat_id, limit).unwrap();
    entries.into_iter().map(|entry| entry.text).collect()
}

fn memory_store() -> (Memory, Store) {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    (memory, store)
}

fn lines(store: &Store) -> usize {
    store.last_lines(usize::MAX).unwrap().len()
}

#[test]
fn the_last_entries_come_in_order_however_many_are_asked_for() {
    let (memory, store) = memory_store();
    assert_eq!(store.history(1, 10).unwrap(), []);
    let all: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    for text in &all {
        store.record(entry(1, text, DAY_1)).unwrap();
    }
    for store in [&store, &in_memory(&memory, Durability::Process)] {
        for limit in 0..=12 {
            assert_eq!(
                texts(store, 1, limit),
                all[all.len().saturating_sub(limit)..]
            );
        }
        assert_eq!(texts(store, 1, usize::MAX), all);
        assert_eq!(store.history(2, 10).unwrap(), []);
        let ids: Vec<i64> = store
            .history(1, 3)
            .unwrap()
            .iter()
            .map(|entry| entry.id)
            .collect();
        assert_eq!(ids, [8, 9, 10]);
    }
}

#[test]
fn chats_do_not_mix_whatever_their_ids() {
    let (memory, store) = memory_store();
    let mut rng = Rng::seeded("history of chats");
    let chats = [1, -1, 0, 10, -100_123_456_789, i64::MIN, i64::MAX];
    let mut said: BTreeMap<i64, Vec<HistoryEntry>> = BTreeMap::new();
    for number in 0..300 {
        let chat_id = *rng.pick(&chats);
        // Over several days, and not in order of time.
        let at = DAY_1 + rng.below(5) as i64 * DAY_MS;
        let mut entry = entry(chat_id, &number.to_string(), at);
        entry.role = *rng.pick(Role::ALL);
        let ack = store.record(entry.clone()).unwrap();
        assert_eq!(
            (ack.status, ack.assigned),
            (AckStatus::Added, Some(number + 1))
        );
        entry.id = number + 1;
        said.entry(chat_id).or_default().push(entry);
        if rng.one_in(10) {
            let limit = rng.below(40);
            let of_chat = said.get(&chat_id).unwrap();
            let last = &of_chat[of_chat.len().saturating_sub(limit)..];
            assert_eq!(store.history(chat_id, limit).unwrap(), last);
        }
    }
    for store in [&store, &in_memory(&memory, Durability::Process)] {
        for chat_id in chats {
            assert_eq!(&store.history(chat_id, 1000).unwrap(), &said[&chat_id]);
        }
    }
}

#[test]
fn what_was_said_comes_back_to_the_byte() {
    let (memory, store) = memory_store();
    let texts = [
        "",
        "\u{0}\n\r\u{2028}",
        "\"\\\"",
        "👩‍👩‍👧‍👦",
        "{\"seq\":1}\n",
        &"x".repeat(100_000),
    ];
    for text in texts {
        store.record(entry(1, text, DAY_1)).unwrap();
    }
    for store in [&store, &in_memory(&memory, Durability::Process)] {
        assert_eq!(super::history::texts(store, 1, 100), texts);
    }
}

#[test]
fn given_ids_decide_the_order_and_are_taken_once() {
    let (memory, store) = memory_store();
    let given = |id: i64, chat_id: i64, text: &str| with!(entry(chat_id, text, DAY_1 - id), id);
    for (id, text) in [(20, "twenty"), (5, "five"), (12, "twelve")] {
        let ack = store.record(given(id, 1, text)).unwrap();
        assert_eq!((ack.status, ack.assigned), (AckStatus::Added, Some(id)));
    }
    // A replay changes nothing.
    let before = lines(&store);
    for (seq, (id, text)) in (1..).zip([(20, "twenty"), (5, "five"), (12, "twelve")]) {
        let ack = store.record(given(id, 1, text)).unwrap();
        assert_eq!(
            (ack.status, ack.seq, ack.assigned),
            (AckStatus::Unchanged, seq, Some(id))
        );
    }
    let other_role = with!(given(5, 1, "five"), role: Role::Assistant);
    let other_time = with!(given(5, 1, "five"), created_at: DAY_1);
    for other in [
        given(5, 2, "five"),
        given(5, 1, "six"),
        other_role,
        other_time,
    ] {
        assert_eq!(store.record(other).unwrap_err().kind(), ErrorKind::Conflict);
    }
    for id in [-1, i64::MIN, i64::MAX, i64::MAX - 1, GIVEN_NUMBER_MAX + 1] {
        let bad = with!(entry(1, "", DAY_1), id);
        assert_eq!(
            store.record(bad).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    assert_eq!(lines(&store), before);
    let ack = store.record(entry(1, "next", DAY_1)).unwrap();
    assert_eq!(ack.assigned, Some(21));
    for store in [&store, &in_memory(&memory, Durability::Process)] {
        assert_eq!(texts(store, 1, 10), ["five", "twelve", "twenty", "next"]);
        assert_eq!(texts(store, 1, 2), ["twenty", "next"]);
        assert_eq!(texts(store, 2, 10), [""; 0]);
    }
}

#[test]
fn entries_come_as_json_too() {
    let (_, store) = memory_store();
    let before = chrono::Utc::now().timestamp_millis();
    let ack = store
        .record(
            Record::from_json(r#"{"kind":"history","chat_id":-7,"role":"user","text":"hi"}"#)
                .unwrap(),
        )
        .unwrap();
    assert_eq!(ack.assigned, Some(1));
    let read = store.history(-7, 1).unwrap().remove(0);
    assert!((before..=chrono::Utc::now().timestamp_millis()).contains(&read.created_at));
    assert_eq!(
        (read.chat_id, read.role, &*read.text),
        (-7, Role::User, "hi")
    );
    // A line of a file is valid input, and changes nothing.
    let line = store.last_lines(1).unwrap()[0]
        .text
        .replacen('{', r#"{"kind":"history","#, 1);
    let ack = store.record(Record::from_json(&line).unwrap()).unwrap();
    assert_eq!(ack.status, AckStatus::Unchanged);
    for json in [
        r#"{"kind":"history","role":"user","content":"hi"}"#,
        r#"{"kind":"history","chat_id":1,"text":"hi"}"#,
        r#"{"kind":"history","chat_id":1,"role":"user"}"#,
        r#"{"kind":"history","chat_id":"1","role":"user","text":"hi"}"#,
        r#"{"kind":"history","chat_id":1,"role":"bot","text":"hi"}"#,
        r#"{"kind":"history","chat_id":1,"role":"user","text":"hi","op":"retracted"}"#,
        r#"{"kind":"history","chat_id":1,"role":"user","text":"hi","id":1.5}"#,
    ] {
        assert_eq!(
            Record::from_json(json).unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{json}"
        );
    }
}

#[test]
fn a_second_line_of_an_entry_does_not_change_what_was_said() {
    let (memory, store) = memory_store();
    store.record(entry(1, "first", DAY_1)).unwrap();
    let file = store.last_lines(1).unwrap()[0].file.clone();
    drop(store);
    let covered = format!(
        r#"{{"seq":2,"at":{DAY_1},"op":"added","id":1,"chat_id":2,"role":"user","created_at":{DAY_1},"text":"forged""#
    );
    let line = format!(
        "{covered},\"crc\":\"{:08x}\"}}\n",
        super::support::crc32(covered.as_bytes())
    );
    let bytes = [memory.bytes(&file).unwrap(), line.into_bytes()].concat();
    memory.put_bytes(&file, bytes);
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(texts(&store, 1, 10), ["first"]);
    assert_eq!(texts(&store, 2, 10), [""; 0]);
}

#[test]
fn reading_the_end_of_a_chat_costs_what_is_read() {
    let spy = Spy::new(Memory::new());
    let storage: std::sync::Arc<dyn decklog::storage::Storage> = std::sync::Arc::new(spy.clone());
    let store = still().storage(storage).open("memory").unwrap();
    let fill = |from: usize, to: usize| {
        let entries = (from..to).flat_map(|number| {
            [1, 2].map(|chat| Record::from(entry(chat, &number.to_string(), DAY_1)))
        });
        for answer in store.record_batch(entries).unwrap() {
            answer.unwrap();
        }
    };
    let reads = |limit: usize| {
        let before = spy.events().len();
        assert_eq!(store.history(1, limit).unwrap().len(), limit);
        let events = spy.events();
        events[before..]
            .iter()
            .filter(|event| event.operation == "read_at" && event.path.contains("history"))
            .count()
    };
    fill(0, 100);
    reads(1);
    let short = [reads(0), reads(1), reads(20), reads(50)];
    fill(100, 5000);
    reads(1);
    let long = [reads(0), reads(1), reads(20), reads(50)];
    assert_eq!((short[0], long[0]), (0, 0));
    // A long read lets writers run in between, and reads a little again.
    for (long, short) in long.into_iter().zip(short) {
        assert!(long <= 2 * short + 2, "{long} for {short}");
    }
}

/// Prints the time to read the last 20 entries of a short and of a long chat.
#[test]
fn the_time_of_a_long_chat() {
    let long = count("DECKLOG_HISTORY_ENTRIES", 20_000) as usize;
    for entries in [1000, long] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let started = Instant::now();
        for batch in 0..entries / 1000 {
            let batch = (0..1000).map(|nth| {
                let number = batch * 1000 + nth;
                Record::from(entry(
                    7,
                    &format!("what was said in message {number}"),
                    DAY_1 + number as i64,
                ))
            });
            assert!(store.record_batch(batch).unwrap().iter().all(Result::is_ok));
        }
        let filled = started.elapsed();
        let mut times: Vec<_> = (0..1001)
            .map(|_| {
                let started = Instant::now();
                let last = store.history(7, 20).unwrap();
                let took = started.elapsed();
                assert_eq!(last.len(), 20);
                assert_eq!(
                    last[19].text,
                    format!("what was said in message {}", entries - 1)
                );
                took
            })
            .collect();
        times.sort_unstable();
        println!(
            "history(chat, 20) of {entries} entries: median {:.1} us, 99th percentile {:.1} us; filled in {filled:?}",
            times[500].as_secs_f64() * 1e6,
            times[990].as_secs_f64() * 1e6
        );
    }
}
