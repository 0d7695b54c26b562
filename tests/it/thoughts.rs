//! Thoughts: each record of a task's chain is linked to the one before it by a hash that anyone can
//! recompute, and every later change is detected.
//!
//! `DECKLOG_FLIP_STEP` sets the distance in bits between flipped bits; 1 flips every bit.

#![allow(clippy::cast_possible_wrap)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use decklog::record::{GENESIS_HASH, ThoughtType};
use decklog::storage::{Memory, Storage};
use decklog::thoughts::{ChainCheck, NewThought};
use decklog::{
    AckStatus, Durability, ErrorKind, Kind, Record, Store, ThoughtRecord, Timestamp, verify,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng, Spy, count, in_memory, still};

const NOON: &str = "2026-04-17T12:00:00Z";

fn new(thought_type: ThoughtType, task_id: &str, content: &str) -> NewThought {
    NewThought {
        thought_type,
        task_id: task_id.into(),
        agent_id: "agent".into(),
        content: content.into(),
    }
}

fn plan(task_id: &str, content: &str) -> NewThought {
    new(ThoughtType::Plan, task_id, content)
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// The hash computed independently of the library: from the canonical form of a JSON value.
fn hash_of(record: &ThoughtRecord) -> String {
    let hashed = json!({
        "type": record.thought_type.as_str(),
        "timestamp": record.timestamp.as_str(),
        "task_id": record.task_id,
        "prev_hash": record.prev_hash,
        "id": record.id,
        "content": record.content,
    });
    hex(&Sha256::digest(
        serde_json_canonicalizer::to_vec(&hashed).unwrap(),
    ))
}

/// The canonical JSON built by hand, following RFC 8785, section 3.2.2.2.
fn canonical_by_hand(record: &ThoughtRecord) -> String {
    fn quoted(text: &str) -> String {
        let mut out = String::from('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\u{8}' => out.push_str("\\b"),
                '\u{9}' => out.push_str("\\t"),
                '\u{a}' => out.push_str("\\n"),
                '\u{c}' => out.push_str("\\f"),
                '\u{d}' => out.push_str("\\r"),
                c if u32::from(c) < 0x20 => write!(out, "\\u{:04x}", u32::from(c)).unwrap(),
                c => out.push(c),
            }
        }
        out + "\""
    }
    format!(
        r#"{{"content":{},"id":{},"prev_hash":{},"task_id":{},"timestamp":{},"type":{}}}"#,
        quoted(&record.content),
        quoted(&record.id),
        quoted(&record.prev_hash),
        quoted(&record.task_id),
        quoted(record.timestamp.as_str()),
        quoted(record.thought_type.as_str()),
    )
}

fn memory_store() -> (Memory, Store) {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    (memory, store)
}

fn thought(json: Value) -> decklog::Result<Record> {
    let mut json = json;
    json["kind"] = json!("thought_records");
    Record::from_json(&json.to_string())
}

fn lines(store: &Store) -> usize {
    store.last_lines(usize::MAX).unwrap().len()
}

/// Records, and expects an error and no write.
fn refused(store: &Store, record: Record) -> ErrorKind {
    let before = lines(store);
    let err = store.record(record).unwrap_err();
    assert_eq!(lines(store), before, "{err}");
    err.kind()
}

/// Each record is linked to the previous one of its task.
fn assert_linked(records: &[ThoughtRecord]) {
    let mut heads: BTreeMap<&str, &str> = BTreeMap::new();
    for record in records {
        let head = heads.entry(&record.task_id).or_insert(GENESIS_HASH);
        assert_eq!(record.prev_hash, *head, "{record:?}");
        assert_eq!(record.hash, hash_of(record));
        assert_eq!(
            record.hash,
            hex(&Sha256::digest(canonical_by_hand(record))),
            "{record:?}"
        );
        *head = &record.hash;
    }
}

#[test]
fn a_chain_begins_with_zeros_and_links_from_there() {
    let (_, store) = memory_store();
    let thoughts = store.thoughts();
    let one = thoughts.create(plan("t1", "one")).unwrap();
    assert_eq!(one.prev_hash, "0".repeat(64));
    let two = thoughts.create(plan("t1", "two")).unwrap();
    let three = thoughts.create(plan("t1", "three")).unwrap();
    assert_eq!([&two.prev_hash, &three.prev_hash], [&one.hash, &two.hash]);
    assert_linked(&[one, two, three]);
}

#[test]
fn chains_of_different_tasks_are_independent() {
    let (_, store) = memory_store();
    let thoughts = store.thoughts();
    let mut all = Vec::new();
    for number in 0..30 {
        let task = ["a", "b", "A", "a ", "\u{0}"][number % 5];
        all.push(thoughts.create(plan(task, &number.to_string())).unwrap());
    }
    assert_linked(&all);
    assert!(
        all[..5]
            .iter()
            .all(|record| record.prev_hash == GENESIS_HASH)
    );
    // The same text in two tasks has two hashes.
    let checks = thoughts.verify_chains().unwrap();
    assert_eq!(checks.len(), 5);
    for check in checks {
        assert!(check.is_intact(), "{check:?}");
        assert_eq!(check.records, 6);
        let last = all.iter().rev().find(|last| last.task_id == check.task_id);
        assert_eq!(check.head, last.map(|last| last.hash.clone()));
    }
}

#[test]
fn ids_and_times_are_filled_in() {
    let (_, store) = memory_store();
    let before = chrono::Utc::now().timestamp_millis();
    let record = store.thoughts().create(plan("t1", "")).unwrap();
    let after = chrono::Utc::now().timestamp_millis();
    let id: Uuid = record.id.parse().unwrap();
    assert_eq!(id.get_version_num(), 4);
    assert_eq!(id.to_string(), record.id);
    let time = chrono::DateTime::parse_from_rfc3339(record.timestamp.as_str()).unwrap();
    assert_eq!(time.timestamp_millis(), record.timestamp.at());
    assert!((before..=after).contains(&record.timestamp.at()));
    let other = store.thoughts().create(plan("t1", "")).unwrap();
    assert_ne!(other.id, record.id);
}

#[test]
fn every_type_is_taken_and_read_back() {
    let (memory, store) = memory_store();
    for (word, thought_type) in [
        ("plan", ThoughtType::Plan),
        ("analysis", ThoughtType::Analysis),
        ("decision", ThoughtType::Decision),
        ("reflection", ThoughtType::Reflection),
    ] {
        let record = store
            .thoughts()
            .create(new(thought_type, "t", word))
            .unwrap();
        assert_eq!(
            (record.thought_type, record.thought_type.as_str()),
            (thought_type, word)
        );
        assert_eq!(record.hash, hash_of(&record));
        let by_json = json!({"task_id": "u", "agent_id": "a", "type": word, "content": ""});
        store.record(thought(by_json).unwrap()).unwrap();
    }
    assert_eq!(ThoughtType::ALL.len(), 4);
    drop(store);
    let store = in_memory(&memory, Durability::Process);
    for task in ["t", "u"] {
        let types: Vec<_> = store.thoughts().list(Some(task), None).unwrap();
        let types: Vec<_> = types.iter().map(|record| record.thought_type).collect();
        assert_eq!(types, ThoughtType::ALL);
    }
}

#[test]
fn the_agent_is_kept_and_not_hashed() {
    let hashes: Vec<String> = ["one", "two"]
        .iter()
        .map(|agent| {
            let (_, store) = memory_store();
            let thoughts = store
                .thoughts()
                .with_ids(|| "r".into())
                .with_clock(|| at(NOON));
            let agent_id = (*agent).to_owned();
            let record = thoughts
                .create(NewThought {
                    agent_id,
                    ..plan("t", "x")
                })
                .unwrap();
            let read = store.thoughts().get("r").unwrap().unwrap();
            assert_eq!((&read, &*read.agent_id), (&record, *agent));
            record.hash
        })
        .collect();
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn everything_else_is_hashed() {
    let base = ThoughtRecord {
        id: "r".into(),
        task_id: "t".into(),
        prev_hash: GENESIS_HASH.into(),
        hash: String::new(),
        thought_type: ThoughtType::Plan,
        agent_id: "a".into(),
        timestamp: at(NOON),
        content: "c".into(),
    };
    let changed = [
        ThoughtRecord {
            id: "s".into(),
            ..base.clone()
        },
        ThoughtRecord {
            task_id: "u".into(),
            ..base.clone()
        },
        ThoughtRecord {
            prev_hash: "1".repeat(64),
            ..base.clone()
        },
        ThoughtRecord {
            thought_type: ThoughtType::Decision,
            ..base.clone()
        },
        // The same instant in another notation.
        ThoughtRecord {
            timestamp: at("2026-04-17T12:00:00+00:00"),
            ..base.clone()
        },
        ThoughtRecord {
            content: String::new(),
            ..base.clone()
        },
    ];
    for other in changed {
        assert_ne!(other.computed_hash(), base.computed_hash());
        assert_eq!(other.computed_hash(), hash_of(&other));
    }
}

#[test]
fn the_published_vector_holds() {
    let (_, store) = memory_store();
    let thoughts = store
        .thoughts()
        .with_ids(|| "r1".into())
        .with_clock(|| at("2026-04-17T00:00:00Z"));
    let record = thoughts.create(plan("t1", "hello")).unwrap();
    let expected = "6a2f9597f563d5515cfa69891a51806d0f93bfbe222997d3ba37c365ceee3f1a";
    assert_eq!(record.hash, expected);
    let zeros = "0".repeat(64);
    let text = format!(
        r#"{{"content":"hello","id":"r1","prev_hash":"{zeros}","task_id":"t1","timestamp":"2026-04-17T00:00:00Z","type":"plan"}}"#
    );
    assert_eq!(hex(&Sha256::digest(text)), expected);
    assert_eq!(store.thoughts().get("r1").unwrap().unwrap().hash, expected);
}

#[test]
fn whatever_the_content_it_is_kept_and_hashed_right() {
    let every_control: String = (0..0x20_u8).map(char::from).collect();
    let nasty = [
        String::new(),
        every_control,
        "\u{7f}\u{80}\u{9f}\u{a0}".into(),
        "\u{2028}\u{2029}\u{feff}\u{200b}\u{202e}".into(),
        "\u{fffe}\u{ffff}\u{d7ff}\u{e000}\u{10ffff}".into(),
        "👩‍👩‍👧‍👦 🏴‍☠️ 𝄞 é e\u{301}".into(),
        r#"","crc":"00000000"}"#.into(),
        r"\ \\ \u0041 \ud800 \n / \/".into(),
        "{\"seq\":1,\"at\":1,\"op\":\"recorded\"}\n{\"seq\":2}\r\n".into(),
        "</script><!--".into(),
        "x".repeat(70_000),
    ];
    let (memory, store) = memory_store();
    let mut made = Vec::new();
    for text in &nasty {
        made.push(store.thoughts().create(plan("t", text)).unwrap());
        // Also as names, where the text is a valid name.
        if !text.is_empty() && text.len() < 1000 {
            let thoughts = store.thoughts().with_ids(|| text.clone());
            let agent_id = text.clone();
            made.push(
                thoughts
                    .create(NewThought {
                        agent_id,
                        ..plan(text, text)
                    })
                    .unwrap(),
            );
        }
    }
    assert_linked(&made);
    for store in [store, in_memory(&memory, Durability::Process)] {
        assert_eq!(store.thoughts().list(None, None).unwrap(), made);
        for record in &made {
            assert_eq!(
                store.thoughts().get(&record.id).unwrap().as_ref(),
                Some(record)
            );
            assert!(
                store
                    .thoughts()
                    .verify_chain(&record.task_id)
                    .unwrap()
                    .is_intact()
            );
        }
    }
    let surrogate = r#"{"kind":"thought_records","task_id":"t","agent_id":"a","type":"plan","content":"\ud800"}"#;
    let err = Record::from_json(surrogate).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::InvalidInput);
}

#[test]
fn timestamps_are_kept_to_the_byte() {
    let (memory, store) = memory_store();
    let texts = [
        "2026-04-17T00:00:00Z",
        "2026-04-17T00:00:00.123456789Z",
        "2026-04-17T00:00:00.000000000+00:00",
        "2026-04-17T00:00:00-00:00",
        "2026-04-16T18:30:00.5-05:30",
        "2026-04-17T23:59:59.999999999+14:00",
        "1970-01-01T00:00:00Z",
        "1969-12-31T23:00:00-01:00",
        "9999-12-31T23:59:59.999999999Z",
        "2016-12-31T23:59:60Z",
    ];
    let mut made = Vec::new();
    for text in texts {
        let thoughts = store.thoughts().with_clock(|| at(text));
        made.push(thoughts.create(plan("t", text)).unwrap());
        let by_json = json!({"task_id": "t", "agent_id": "a", "type": "plan", "content": text, "timestamp": text});
        store.record(thought(by_json).unwrap()).unwrap();
    }
    drop(store);
    let store = in_memory(&memory, Durability::Process);
    let read = store.thoughts().list(Some("t"), None).unwrap();
    assert_linked(&read);
    for (pair, text) in read.chunks(2).zip(texts) {
        assert_eq!(
            [pair[0].timestamp.as_str(), pair[1].timestamp.as_str()],
            [text; 2]
        );
    }
    assert!(store.thoughts().verify_chain("t").unwrap().is_intact());
    for text in ["1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00"] {
        let thoughts = store.thoughts().with_clock(|| at(text));
        let err = thoughts.create(plan("t", text)).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput, "{text}");
    }
    for text in [
        "",
        "now",
        "2026-04-17",
        "2026-04-17T00:00:00",
        "1776384000000",
    ] {
        assert!(text.parse::<Timestamp>().is_err(), "{text}");
    }
}

#[test]
fn what_may_not_be_is_rejected_and_nothing_written() {
    let (_, store) = memory_store();
    let thoughts = store.thoughts();
    let first = thoughts.create(plan("t", "first")).unwrap();
    let before = lines(&store);
    let no_agent = NewThought {
        agent_id: String::new(),
        ..plan("t", "")
    };
    for bad in [plan("", ""), no_agent, plan(&"x".repeat(1025), "")] {
        let err = thoughts.create(bad).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
    }
    let no_id = store.thoughts().with_ids(String::new);
    assert_eq!(
        no_id.create(plan("t", "")).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(lines(&store), before);

    let good = json!({"task_id": "t", "agent_id": "a", "type": "plan", "content": ""});
    for (name, value) in [("task_id", ""), ("agent_id", "")] {
        let mut bad = good.clone();
        bad[name] = json!(value);
        assert_eq!(
            refused(&store, thought(bad).unwrap()),
            ErrorKind::InvalidInput
        );
    }
    for (name, value) in [
        ("type", json!("dream")),
        ("type", json!("Plan")),
        ("type", json!(null)),
        ("type", json!(1)),
        ("task_id", json!(null)),
        ("agent_id", json!(null)),
        ("content", json!(null)),
        ("timestamp", json!("soon")),
        ("timestamp", json!(1_776_384_000_000_i64)),
        ("mood", json!("good")),
        ("op", json!("updated")),
        ("op", json!("retracted")),
        ("hash", json!(5)),
    ] {
        let mut bad = good.clone();
        bad[name] = value.clone();
        let err = thought(bad).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput, "{name} {value}");
    }
    // Invalid hashes, and hashes of another record.
    for name in ["hash", "prev_hash"] {
        for (hash, kind) in [
            ("a".repeat(63), ErrorKind::InvalidInput),
            ("g".repeat(64), ErrorKind::InvalidInput),
            ("A".repeat(64), ErrorKind::InvalidInput),
            ("a".repeat(64), ErrorKind::Conflict),
            (GENESIS_HASH.to_owned(), ErrorKind::Conflict),
        ] {
            let mut bad = good.clone();
            bad[name] = json!(hash);
            assert_eq!(
                refused(&store, thought(bad).unwrap()),
                kind,
                "{name} {hash}"
            );
        }
    }
    assert_eq!(store.thoughts().list(None, None).unwrap(), [first]);
}

#[test]
fn get_finds_what_is_there_in_any_task() {
    let (_, store) = memory_store();
    let thoughts = store.thoughts();
    assert_eq!(thoughts.get("r").unwrap(), None);
    assert_eq!(thoughts.get("").unwrap(), None);
    let made: Vec<_> = ["a", "b", "c"]
        .map(|task| thoughts.create(plan(task, task)).unwrap())
        .into();
    for record in &made {
        assert_eq!(thoughts.get(&record.id).unwrap().as_ref(), Some(record));
    }
    assert_eq!(thoughts.get(&made[0].id.to_uppercase()).unwrap(), None);
    assert_eq!(thoughts.get(&made[0].hash).unwrap(), None);
    assert_eq!(thoughts.get("a").unwrap(), None);
}

#[test]
fn list_is_in_the_order_of_recording() {
    let (memory, store) = memory_store();
    assert_eq!(store.thoughts().list(None, None).unwrap(), []);
    assert_eq!(store.thoughts().list(Some("a"), Some(3)).unwrap(), []);
    let thoughts = store.thoughts();
    let made: Vec<_> = (0..10)
        .map(|number| {
            thoughts
                .create(plan(["a", "b"][number % 2], &number.to_string()))
                .unwrap()
        })
        .collect();
    let of = |task: &str| -> Vec<_> {
        made.iter()
            .filter(|record| record.task_id == task)
            .cloned()
            .collect()
    };
    for store in [&store, &in_memory(&memory, Durability::Process)] {
        let thoughts = store.thoughts();
        let list = |task, limit| thoughts.list(task, limit).unwrap();
        assert_eq!(list(None, None), made);
        assert_eq!(list(Some("a"), None), of("a"));
        assert_eq!(list(Some("b"), None), of("b"));
        assert_eq!(list(Some("c"), None), []);
        for (task, limit) in [(Some(""), None), (None, Some(0)), (Some("b"), Some(0))] {
            let error = thoughts.list(task, limit).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(list(None, Some(3)), made[..3]);
        assert_eq!(list(None, Some(usize::MAX)), made);
        assert_eq!(list(Some("b"), Some(2)), of("b")[..2]);
        assert_eq!(list(Some("b"), Some(99)), of("b"));
        assert_linked(&list(None, None));
        assert_linked(&list(Some("b"), None));
    }
}

#[test]
fn an_id_and_a_hash_are_taken_once() {
    let (memory, store) = memory_store();
    let thoughts = store
        .thoughts()
        .with_ids(|| "r".into())
        .with_clock(|| at(NOON));
    let one = thoughts.create(plan("t", "one")).unwrap();
    let before = lines(&store);
    // Also with identical text: `create` never returns an older record.
    for again in [plan("t", "one"), plan("t", "two"), plan("u", "one")] {
        let err = thoughts.create(again).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Conflict);
        assert!(err.to_string().contains("thought_records r"), "{err}");
    }
    assert_eq!(lines(&store), before);
    let same_hash = ThoughtRecord {
        id: "s".into(),
        ..one.clone()
    };
    assert_eq!(refused(&store, same_hash.into()), ErrorKind::Conflict);
    let same_id = ThoughtRecord {
        content: "two".into(),
        ..one.clone()
    };
    assert_eq!(refused(&store, same_id.into()), ErrorKind::Conflict);
    for changed in [
        ThoughtRecord {
            agent_id: "other".into(),
            ..one.clone()
        },
        ThoughtRecord {
            task_id: "u".into(),
            ..one.clone()
        },
        ThoughtRecord {
            timestamp: at("2026-04-17T12:00:00+00:00"),
            ..one.clone()
        },
        ThoughtRecord {
            prev_hash: "1".repeat(64),
            ..one.clone()
        },
        ThoughtRecord {
            hash: "1".repeat(64),
            ..one.clone()
        },
    ] {
        assert_eq!(refused(&store, changed.into()), ErrorKind::Conflict);
    }
    for store in [&store, &in_memory(&memory, Durability::Disk)] {
        // The same record once more, with or without its hashes, is unchanged.
        for (prev_hash, hash) in [(true, true), (true, false), (false, true), (false, false)] {
            let pick = |is_given: bool, hash: &str| {
                if is_given {
                    hash.to_owned()
                } else {
                    String::new()
                }
            };
            let again = ThoughtRecord {
                prev_hash: pick(prev_hash, &one.prev_hash),
                hash: pick(hash, &one.hash),
                ..one.clone()
            };
            let ack = store.record(again).unwrap();
            assert_eq!((ack.status, ack.seq), (AckStatus::Unchanged, 1));
        }
    }
    assert_eq!(lines(&store), before);
}

/// Bug: a refusal left this process in `HEAD` as the current writer, as after a crash, so that the
/// next writer and every reader checked every segment.
#[test]
fn a_refusal_does_not_look_like_a_crash() {
    let spy = Spy::new(Memory::new());
    let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(spy.clone());
    let store = still().storage(storage).open("memory").unwrap();
    let thoughts = store.thoughts().with_ids(|| "r".into());
    thoughts.create(plan("t", "one")).unwrap();
    // The first check of a `HEAD` that did not exist before is not counted.
    store.thoughts().list(None, None).unwrap();
    let before = spy.events().len();
    thoughts.create(plan("t", "two")).unwrap_err();
    store.thoughts().create(plan("t", "three")).unwrap();
    store.thoughts().list(None, None).unwrap();
    let looked = spy.events()[before..]
        .iter()
        .filter(|event| event.operation == "read_dir")
        .count();
    assert_eq!(looked, 0);
}

#[test]
fn json_input_may_leave_out_what_the_log_fills_in() {
    let (_, store) = memory_store();
    let bare = json!({"task_id": "t", "agent_id": "a", "type": "plan", "content": "bare"});
    let ack = store.record(thought(bare.clone()).unwrap()).unwrap();
    assert_eq!(ack.status, AckStatus::Added);
    // Without an id, each is a new record.
    assert_eq!(
        store.record(thought(bare).unwrap()).unwrap().status,
        AckStatus::Added
    );
    let full = json!({"task_id": "t", "agent_id": "a", "type": "decision", "content": "full",
        "id": "r", "timestamp": NOON});
    store.record(thought(full.clone()).unwrap()).unwrap();
    let read = store.thoughts().list(None, None).unwrap();
    assert_linked(&read);
    assert_eq!(read[0].id.parse::<Uuid>().unwrap().get_version_num(), 4);
    assert_ne!(read[0].id, read[1].id);
    assert_eq!((&*read[2].id, read[2].timestamp.as_str()), ("r", NOON));
    assert_eq!(
        store.record(thought(full).unwrap()).unwrap().status,
        AckStatus::Unchanged
    );

    // Correct hashes are accepted; a wrong one is refused.
    let head = &read[2].hash;
    let mut next = ThoughtRecord {
        id: "s".into(),
        task_id: "t".into(),
        prev_hash: head.clone(),
        hash: String::new(),
        thought_type: ThoughtType::Reflection,
        agent_id: "a".into(),
        timestamp: at(NOON),
        content: "hashed by the caller".into(),
    };
    next.hash = hash_of(&next);
    let json = |next: &ThoughtRecord| thought(serde_json::to_value(next).unwrap()).unwrap();
    let stale = ThoughtRecord {
        prev_hash: read[1].hash.clone(),
        ..next.clone()
    };
    let stale = ThoughtRecord {
        hash: hash_of(&stale),
        ..stale
    };
    assert_eq!(refused(&store, json(&stale)), ErrorKind::Conflict);
    let wrong = ThoughtRecord {
        content: "other".into(),
        ..next.clone()
    };
    assert_eq!(refused(&store, json(&wrong)), ErrorKind::Conflict);
    assert_eq!(store.record(json(&next)).unwrap().status, AckStatus::Added);
    assert_eq!(
        store.record(json(&next)).unwrap().status,
        AckStatus::Unchanged
    );
    assert_eq!(store.thoughts().get("s").unwrap(), Some(next));
    assert!(store.thoughts().verify_chain("t").unwrap().is_intact());
}

#[test]
fn a_batch_of_thoughts_links_within_itself() {
    let (memory, store) = memory_store();
    let record = |number: usize| {
        let (id, task) = (format!("r{number}"), ["a", "b"][number % 2]);
        thought(
            json!({"id": id, "task_id": task, "agent_id": "a", "type": "plan",
            "content": id, "timestamp": NOON}),
        )
        .unwrap()
    };
    let batch = [0, 1, 2, 2, 3, 4]
        .map(record)
        .into_iter()
        .chain([thought(json!({"id": "r0",
        "task_id": "a", "agent_id": "a", "type": "plan", "content": "other"}))
        .unwrap()]);
    let answers = store.record_batch(batch).unwrap();
    let told: Vec<_> = answers
        .iter()
        .map(|answer| {
            answer
                .as_ref()
                .map(|ack| (ack.seq, ack.status))
                .map_err(decklog::Error::kind)
        })
        .collect();
    let added = |seq| Ok((seq, AckStatus::Added));
    assert_eq!(
        told,
        [
            added(1),
            added(2),
            added(3),
            Ok((3, AckStatus::Unchanged)),
            added(4),
            added(5),
            Err(ErrorKind::Conflict)
        ]
    );
    for store in [&store, &in_memory(&memory, Durability::Process)] {
        let read = store.thoughts().list(None, None).unwrap();
        assert_eq!(read.len(), 5);
        assert_linked(&read);
    }
}

#[test]
fn a_chain_follows_the_order_of_recording_whatever_the_clock_says() {
    let memory = Memory::new();
    let open = || {
        let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(memory.clone());
        still()
            .segment_bytes_max(700)
            .storage(storage)
            .open("memory")
            .unwrap()
    };
    let mut rng = Rng::seeded("thoughts over days");
    let store = open();
    let mut made = Vec::new();
    for number in 0..60 {
        // Other records in between, so that the thoughts' sequence numbers have gaps.
        if rng.one_in(3) {
            store
                .record(super::support::turn(number, "", DAY_1))
                .unwrap();
        }
        let day = rng.below(4) as i64 * DAY_MS;
        let time = Timestamp::from_ms(DAY_1 + day + rng.below(1000) as i64).unwrap();
        let thoughts = store.thoughts().with_clock(move || time.clone());
        let task = *rng.pick(&["a", "b"]);
        made.push(thoughts.create(plan(task, &number.to_string())).unwrap());
    }
    assert_linked(&made);
    let days: std::collections::BTreeSet<String> = store
        .last_lines(usize::MAX)
        .unwrap()
        .into_iter()
        .filter(|line| line.kind == Kind::ThoughtRecords)
        .map(|line| line.file)
        .collect();
    assert!(days.len() > 8, "{days:?}");
    for store in [store, open()] {
        assert_eq!(store.thoughts().list(None, None).unwrap(), made);
        for check in store.thoughts().verify_chains().unwrap() {
            assert!(check.is_intact(), "{check:?}");
        }
        let next = store.thoughts().create(plan("a", "next")).unwrap();
        let head = made
            .iter()
            .rev()
            .find(|record| record.task_id == "a")
            .unwrap();
        assert_eq!(next.prev_hash, head.hash);
        made.push(next);
    }
}

#[test]
fn two_handles_make_one_chain() {
    let (memory, one) = memory_store();
    let two = in_memory(&memory, Durability::Disk);
    let made: Vec<_> = (0..20)
        .map(|number| {
            let store = [&one, &two][number % 2];
            let made = store
                .thoughts()
                .create(plan("t", &number.to_string()))
                .unwrap();
            let other = [&two, &one][number % 2];
            assert_eq!(
                other.thoughts().get(&made.id).unwrap().as_ref(),
                Some(&made)
            );
            made
        })
        .collect();
    assert_linked(&made);
    assert_eq!(one.thoughts().list(None, None).unwrap(), made);
}

// Changes after the write.

const FILE: &str = "2026-04-17/thought_records.0001.jsonl";

/// Three chains of three records each in one file, interleaved.
fn three_chains() -> (Memory, Vec<ThoughtRecord>) {
    let (memory, store) = memory_store();
    let ids = RefCell::new(0);
    let thoughts = store
        .thoughts()
        .with_ids(|| {
            *ids.borrow_mut() += 1;
            format!("record-{}-{}", ids.borrow(), "xyz".repeat(*ids.borrow()))
        })
        .with_clock(|| at(NOON));
    let made = (0..9)
        .map(|number| {
            let task = ["north", "east", "sw \"q\""][number % 3];
            thoughts
                .create(plan(task, &format!("thought {number} \u{e9}")))
                .unwrap()
        })
        .collect();
    drop(thoughts);
    drop(store);
    (memory, made)
}

fn checks(memory: &Memory) -> BTreeMap<String, ChainCheck> {
    let store = in_memory(memory, Durability::Process);
    let checks = store.thoughts().verify_chains().unwrap();
    for check in &checks {
        assert_eq!(
            &store.thoughts().verify_chain(&check.task_id).unwrap(),
            check
        );
    }
    checks
        .into_iter()
        .map(|check| (check.task_id.clone(), check))
        .collect()
}

/// The task of a line, if the line parses as a thought with a sequence number.
fn task_of(line: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(line).ok()?;
    value["seq"].as_u64().filter(|seq| *seq > 0)?;
    value
        .get("op")
        .is_none_or(|op| op == "recorded")
        .then_some(())?;
    let mut record = value.as_object()?.clone();
    for name in ["prev_hash", "hash"] {
        record.entry(name).or_insert(json!(""));
    }
    record.remove("op");
    let record: ThoughtRecord = serde_json::from_value(Value::Object(record)).ok()?;
    Some(record.task_id)
}

#[test]
fn every_flipped_bit_of_a_store_is_noticed_and_the_right_task_named() {
    let (memory, made) = three_chains();
    let good = memory.bytes(FILE).unwrap();
    assert!(checks(&memory).values().all(ChainCheck::is_intact));
    let step = count("DECKLOG_FLIP_STEP", 29).max(1) as usize;
    let (mut flips, mut named) = (0, 0);
    for bit in (0..good.len() * 8).step_by(step) {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        memory.put_bytes(FILE, flipped.clone());
        let found = checks(&memory);
        flips += 1;
        assert!(
            !found.is_empty() && found.values().any(|check| !check.is_intact()),
            "bit {bit} went unnoticed: {found:?}"
        );
        // A flip that leaves the line a valid record breaks the chain of that record.
        let line_start = good[..bit / 8]
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |lf| lf + 1);
        let is_lf = |b: &u8| *b == b'\n';
        if good[bit / 8] == b'\n' || flipped[bit / 8] == b'\n' {
            continue;
        }
        let len = flipped[line_start..].iter().position(is_lf).unwrap();
        if let Some(task) = task_of(&flipped[line_start..line_start + len]) {
            named += 1;
            let check = found.get(&task);
            let broken = check.and_then(|check| check.broken.as_ref());
            let broken = broken.unwrap_or_else(|| panic!("bit {bit}: {task:?} holds: {found:?}"));
            assert_eq!(
                (&*broken.file, broken.offset),
                (FILE, line_start as u64),
                "bit {bit}"
            );
            // Only that chain and the one that the record originally belonged to are affected.
            let original = &made[good[..line_start].iter().filter(|b| is_lf(b)).count()].task_id;
            let others = found
                .values()
                .filter(|check| ![&task, original].contains(&&check.task_id));
            for other in others {
                assert_eq!(other.broken, None, "bit {bit}");
            }
        }
    }
    assert!(named > 0);
    println!(
        "{flips} flips over {} bytes, all noticed; {named} still read as a record",
        good.len()
    );
}

/// A line with a valid checksum.
fn stamped(record: &ThoughtRecord, seq: u64) -> Vec<u8> {
    let members = serde_json::to_string(record).unwrap();
    let covered = format!(
        r#"{{"seq":{seq},"at":{},"op":"recorded",{}"#,
        record.timestamp.at(),
        members
            .strip_prefix('{')
            .unwrap()
            .strip_suffix('}')
            .unwrap()
    );
    format!(
        "{covered},\"crc\":\"{:08x}\"}}\n",
        super::support::crc32(covered.as_bytes())
    )
    .into_bytes()
}

fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes
        .split_inclusive(|b| *b == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

#[test]
fn the_tests_own_lines_are_those_of_the_log() {
    let (memory, made) = three_chains();
    let own: Vec<u8> = (1..)
        .zip(&made)
        .flat_map(|(seq, record)| stamped(record, seq))
        .collect();
    assert_eq!(
        String::from_utf8(own),
        String::from_utf8(memory.bytes(FILE).unwrap())
    );
}

#[test]
fn a_line_taken_out_is_noticed() {
    let (memory, made) = three_chains();
    let lines = split(&memory.bytes(FILE).unwrap());
    for out in 0..lines.len() {
        let mut left = lines.clone();
        left.remove(out);
        memory.put_bytes(FILE, left.concat());
        let found = checks(&memory);
        for (task_id, check) in &found {
            assert_eq!(*check.damage, []);
            if *task_id != made[out].task_id {
                assert!(check.is_intact(), "{check:?}");
            } else if out < 6 {
                let broken = check.broken.as_ref().unwrap();
                assert_eq!(broken.position, out as u64 / 3 + 1);
                assert_eq!(broken.id.as_ref(), Some(&made[out + 3].id));
            } else {
                // No later record refers to it. The gap in the sequence numbers and the separately
                // stored head reveal it.
                assert_eq!(
                    (check.records, &check.head),
                    (2, &Some(made[out - 3].hash.clone()))
                );
            }
        }
        if out < 8 {
            let gaps = verify(&memory).unwrap().gaps;
            assert_eq!(
                gaps,
                [decklog::lines::SeqRange {
                    first: out as u64 + 1,
                    last: out as u64 + 1
                }]
            );
        }
    }
}

#[test]
fn lines_that_change_places_keep_their_order_and_numbers_that_do_are_noticed() {
    let (memory, made) = three_chains();
    let lines = split(&memory.bytes(FILE).unwrap());
    for (one, two) in (0..9).flat_map(|one| (one + 1..9).map(move |two| (one, two))) {
        let mut swapped = lines.clone();
        swapped.swap(one, two);
        memory.put_bytes(FILE, swapped.concat());
        // The sequence numbers define the order, not the position: nothing is lost, and the chains
        // are valid.
        let store = in_memory(&memory, Durability::Process);
        assert_eq!(store.thoughts().list(None, None).unwrap(), made);
        assert!(checks(&memory).values().all(ChainCheck::is_intact));

        // With exchanged numbers too, and valid checksums.
        let mut records = made.clone();
        records.swap(one, two);
        let forged: Vec<_> = (1..)
            .zip(&records)
            .flat_map(|(seq, record)| stamped(record, seq))
            .collect();
        memory.put_bytes(FILE, forged);
        let found = checks(&memory);
        for task_id in [&made[one].task_id, &made[two].task_id] {
            let chain: Vec<_> = records
                .iter()
                .filter(|r| r.task_id == *task_id)
                .cloned()
                .collect();
            assert_eq!(
                found[task_id].is_intact(),
                in_order(&chain),
                "{one} and {two}"
            );
        }
    }
}

/// Whether the records of each task are in chain order.
fn in_order(records: &[ThoughtRecord]) -> bool {
    let mut heads: BTreeMap<&str, &str> = BTreeMap::new();
    records.iter().all(|record| {
        let head = heads.entry(&record.task_id).or_insert(GENESIS_HASH);
        let follows = record.prev_hash == *head;
        *head = &record.hash;
        follows
    })
}

#[test]
fn a_forged_record_is_noticed() {
    let (memory, made) = three_chains();
    for victim in 0..made.len() {
        let forge = |change: &dyn Fn(&mut ThoughtRecord)| {
            let mut records = made.clone();
            change(&mut records[victim]);
            let lines: Vec<u8> = (1..)
                .zip(&records)
                .flat_map(|(seq, record)| stamped(record, seq))
                .collect();
            memory.put_bytes(FILE, lines);
            let mut found = checks(&memory);
            assert!(
                found.values().all(|check| check.damage.is_empty()),
                "checksums are right"
            );
            let check = found.remove(&made[victim].task_id).unwrap();
            assert!(found.values().all(ChainCheck::is_intact));
            check.broken.map(|broken| broken.position)
        };
        let own = victim as u64 / 3 + 1;
        // Changed text with the old hash.
        let broken = forge(&|record| record.content.push('!'));
        assert_eq!(broken, Some(own));
        let broken = forge(&|record| record.timestamp = at("2026-04-17T12:00:00.000Z"));
        assert_eq!(broken, Some(own));
        let broken = forge(&|record| record.thought_type = ThoughtType::Reflection);
        assert_eq!(broken, Some(own));
        let broken = forge(&|record| record.hash = "1".repeat(64));
        assert_eq!(broken, Some(own));
        // Correct hash, wrong link.
        let broken = forge(&|record| {
            record.prev_hash = "1".repeat(64);
            record.hash = hash_of(record);
        });
        assert_eq!(broken, Some(own));
        // Changed text with its own hash: the next record reveals it. For the last record, only the
        // stored head does.
        let broken = forge(&|record| {
            record.content.push('!');
            record.hash = hash_of(record);
        });
        assert_eq!(broken, Some(own + 1).filter(|next| *next <= 3));
    }
}

/// Bug: if no thought could be read, `verify_chains` had no chain to report the damage for.
#[test]
fn damage_is_told_also_where_no_chain_is_left() {
    let (memory, store) = memory_store();
    store
        .thoughts()
        .with_clock(|| at(NOON))
        .create(plan("t", "only"))
        .unwrap();
    let mut line = memory.bytes(FILE).unwrap();
    let colon = line.iter().position(|b| *b == b':').unwrap();
    line[colon] = b';';
    memory.put_bytes(FILE, line);
    for store in [store, in_memory(&memory, Durability::Process)] {
        let found = store.thoughts().verify_chains().unwrap();
        assert!(
            !found.is_empty() && found.iter().all(|check| !check.is_intact()),
            "{found:?}"
        );
        assert!(!store.thoughts().verify_chain("t").unwrap().is_intact());
    }
}

#[test]
fn a_change_under_an_open_handle_is_noticed() {
    let (memory, made) = three_chains();
    let store = in_memory(&memory, Durability::Process);
    assert!(
        store
            .thoughts()
            .verify_chains()
            .unwrap()
            .iter()
            .all(ChainCheck::is_intact)
    );
    let good = memory.bytes(FILE).unwrap();
    let mut noticed = 0;
    for byte in (0..good.len())
        .step_by(3)
        .filter(|byte| good[*byte] != b'\n')
    {
        let mut changed = good.clone();
        changed[byte] ^= 1;
        memory.put_bytes(FILE, changed);
        let found = store.thoughts().verify_chains().unwrap();
        assert!(found.iter().any(|check| !check.is_intact()), "byte {byte}");
        noticed += 1;
    }
    assert!(noticed > 100);
    memory.put_bytes(FILE, good);
    assert!(
        store
            .thoughts()
            .verify_chains()
            .unwrap()
            .iter()
            .all(ChainCheck::is_intact)
    );
    assert_eq!(store.thoughts().list(None, None).unwrap(), made);
}

/// A second line with an existing id and a valid checksum. Thoughts never change, so the first line
/// counts, and verification reports the second.
#[test]
fn a_line_under_a_taken_id_does_not_pass_for_the_first() {
    let (memory, made) = three_chains();
    let good = memory.bytes(FILE).unwrap();
    // The last of its chain, so that no later record refers to it.
    let last = &made[8];
    let mut other = ThoughtRecord {
        content: "never said".into(),
        ..last.clone()
    };
    other.hash = hash_of(&other);
    memory.put_bytes(FILE, [good, stamped(&other, 10)].concat());
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(store.thoughts().get(&last.id).unwrap().as_ref(), Some(last));
    assert_eq!(store.thoughts().list(None, None).unwrap(), made);
    let check = store.thoughts().verify_chain(&last.task_id).unwrap();
    assert_eq!(check.head.as_ref(), Some(&last.hash));
    let broken = check.broken.unwrap();
    assert_eq!((broken.position, broken.id.as_ref()), (3, Some(&last.id)));
    assert!(broken.reason.contains("another line"), "{broken:?}");
}

/// Bug: a record that became unreadable was attributed to the chains before it in the files, not to
/// its own.
#[test]
fn a_record_lost_under_an_open_handle_is_told_to_its_own_chain() {
    let (memory, store) = memory_store();
    let thoughts = store.thoughts().with_clock(|| at(NOON));
    for task in ["before", "lone", "chain", "chain", "chain", "after"] {
        thoughts.create(plan(task, task)).unwrap();
    }
    let good = split(&memory.bytes(FILE).unwrap());
    let lose = |line: usize| {
        let mut lines = good.clone();
        lines[line][0] = b'x';
        memory.put_bytes(FILE, lines.concat());
        let found = store.thoughts().verify_chains().unwrap();
        let broken: Vec<_> = found
            .into_iter()
            .filter_map(|check| Some((check.task_id, check.broken?.position)))
            .collect();
        broken
    };
    let chain = |position| vec![("chain".to_owned(), position)];
    assert_eq!([lose(2), lose(3), lose(4)], [chain(1), chain(2), chain(3)]);
    // Its chain is unknown, but the damage is reported.
    assert_eq!(lose(1), [(String::new(), 1)]);
    let lone = store.thoughts().verify_chain("lone").unwrap();
    assert_eq!(lone.broken.unwrap().position, 1);
    assert!(store.thoughts().verify_chain("after").unwrap().is_intact());
}

/// Bug: the list of damage has a limit, and damage to other kinds could fill it.
#[test]
fn damage_elsewhere_does_not_hide_damage_here() {
    let (memory, store) = memory_store();
    let tasks = ["t", "u"];
    for task in tasks {
        store
            .thoughts()
            .with_clock(|| at(NOON))
            .create(plan(task, ""))
            .unwrap();
    }
    store.record(super::support::turn(1, "", DAY_1)).unwrap();
    drop(store);
    let noise = "2020-01-01/conversation_turns.0001.jsonl";
    memory.create_dir("2020-01-01").unwrap();
    memory.put_bytes(noise, b"x\n".repeat(10_001));
    let mut lines = memory.bytes(FILE).unwrap();
    let end = lines.len() - 3;
    lines[end] = b';';
    let start = lines[..end].iter().rposition(|b| *b == b'\n').unwrap();
    lines[start + 1] = b'x';
    memory.put_bytes(FILE, lines);
    let store = in_memory(&memory, Durability::Process);
    let found = store.thoughts().verify_chains().unwrap();
    assert!(
        !found.is_empty() && found.iter().all(|check| !check.is_intact()),
        "{found:?}"
    );
    assert!(!store.thoughts().verify_chain("u").unwrap().is_intact());
}
