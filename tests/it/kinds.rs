//! All kinds of records in one store: whatever the types allow is written, read back equal,
//! replayed into another store line by line, and survives that someone rewrites, flips or cuts the
//! files as well as plain lines can.
//!
//! `DECKLOG_KINDS_CASES` sets how many stores are filled, `DECKLOG_KINDS_STEP` which bytes are
//! flipped and where files are cut: 1 is every byte.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

use std::sync::Arc;

use decklog::storage::Memory;
use decklog::{AckStatus, ErrorKind, Kind, LogLine, Record, Store, verify};
use proptest::prelude::*;
use serde_json::Value;

use super::anything::Mirror;
use super::support::{Rng, count, still};

fn small(memory: &Memory) -> Store {
    still()
        .segment_bytes_max(4_000)
        .storage(Arc::new(memory.clone()))
        .open("memory")
        .unwrap()
}

/// Fills a store; each record is of a kind, and made from a seed.
fn fill(store: &Store, mirror: &mut Mirror, seeds: &[(usize, u64)]) {
    for (kind, seed) in seeds {
        let mut rng = Rng(*seed);
        let record = mirror.any(&mut rng, Kind::ALL[*kind]);
        let ack = store
            .record(record.clone())
            .unwrap_or_else(|e| panic!("{e}: {record:?}"));
        // A new version that says the same, or a retraction of what is retracted: no news.
        if ack.status == AckStatus::Added {
            mirror.take(record, ack);
        }
    }
}

/// The fields of a kind's lines that stand first, in their order, after the envelope.
fn first_fields(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::ConversationTurns => &["id", "parent_id", "message_id", "thread_id"],
        Kind::ToolCalls => &["request_id", "call_id", "parent_id", "vendor", "tool_name"],
        Kind::CodeEditProposals => &["request_id"],
        Kind::Conversations => &[
            "id",
            "workspace",
            "project",
            "client",
            "user_id",
            "session_id",
        ],
        Kind::Messages => &["id", "conversation_id", "sequence"],
        Kind::Events => &["id", "parent_id", "event_type"],
        Kind::Inbox => &["id", "update_id"],
        Kind::History => &["id", "chat_id"],
        Kind::ThoughtRecords => &["id", "task_id", "prev_hash", "hash"],
        _ => panic!("{kind} is new"),
    }
}

/// The names of an object's members in the order in which they stand.
fn member_names(text: &str) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'de> serde::Deserialize<'de> for Names {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            struct Members;
            impl<'de> serde::de::Visitor<'de> for Members {
                type Value = Names;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<Names, A::Error> {
                    let mut names = Vec::new();
                    while let Some((name, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
                        names.push(name);
                    }
                    Ok(Names(names))
                }
            }
            from.deserialize_map(Members)
        }
    }
    serde_json::from_str::<Names>(text).unwrap().0
}

fn check_canonical(line: &LogLine) {
    let text = &line.text;
    assert!(!text.contains(['\n', '\r', '\0']), "{text:?}");
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(value["seq"], line.seq);
    let names = member_names(text);
    let first = first_fields(line.kind);
    let mut expected = vec!["seq", "at", "op"];
    expected.extend(
        first
            .iter()
            .filter(|name| names.iter().any(|known| known == *name)),
    );
    assert_eq!(names[..expected.len()], expected, "{text}");
    assert_eq!(names.last().unwrap(), "crc");
    let mut once = names.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), names.len(), "{text}");
}

fn read_line(line: &LogLine) -> Record {
    let members = line.text.strip_prefix('{').unwrap();
    let text = format!("{{\"kind\":\"{}\",{members}", line.kind);
    Record::from_json(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn round(seeds: &[(usize, u64)], with_versions: bool) {
    let memory = Memory::new();
    let mut mirror = Mirror::new(with_versions);
    let (store, other) = (small(&memory), small(&memory));
    fill(&store, &mut mirror, seeds);
    for store in [&store, &other, &small(&memory)] {
        mirror.check(store);
    }
    let found = verify(&memory).unwrap();
    assert!(found.is_clean(), "{found:?}");
    let lines = store.last_lines(usize::MAX).unwrap();
    assert_eq!(lines.len() as u64, found.good_lines);
    lines.iter().for_each(check_canonical);

    // Every line is good input, and what it says is what there is to say.
    let copied = Memory::new();
    let copy = small(&copied);
    for line in &lines {
        let ack = copy
            .record(read_line(line))
            .unwrap_or_else(|e| panic!("{e}: {}", line.text));
        assert_eq!(
            (ack.seq, ack.status),
            (line.seq, AckStatus::Added),
            "{}",
            line.text
        );
    }
    let texts = |lines: Vec<LogLine>| lines.into_iter().map(|line| line.text).collect::<Vec<_>>();
    let original = texts(lines.clone());
    assert_eq!(texts(copy.last_lines(usize::MAX).unwrap()), original);
    mirror.check(&copy);
    if with_versions {
        return;
    }

    // Once more says nothing new; what became of a task is said to the task as it is now.
    for line in &lines {
        let record = read_line(line);
        let is_step = matches!(record, Record::InboxStep(_));
        // The last step of a proposal tells of those before it.
        let may_be_later = matches!(record, Record::ProposalStep(_));
        match copy.record(record) {
            Ok(ack) => {
                assert_eq!(ack.status, AckStatus::Unchanged);
                assert!(ack.seq == line.seq || (may_be_later && ack.seq > line.seq));
            }
            Err(e) => {
                assert!(is_step, "{e}: {}", line.text);
                assert!(
                    matches!(e.kind(), ErrorKind::Lifecycle | ErrorKind::Conflict),
                    "{e}"
                );
            }
        }
    }
    assert_eq!(texts(copy.last_lines(usize::MAX).unwrap()), original);
}

fn rounds(with_versions: bool) {
    let config = ProptestConfig {
        cases: count("DECKLOG_KINDS_CASES", 24) as u32,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    };
    let seeds = prop::collection::vec((0..Kind::ALL.len(), any::<u64>()), 1..120);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let run = runner.run(&seeds, |seeds| {
        round(&seeds, with_versions);
        Ok(())
    });
    run.unwrap();
}

#[test]
fn whatever_is_recorded_once_is_read_back_and_replayed() {
    rounds(false);
}

#[test]
fn whatever_is_recorded_retracted_and_changed_is_read_back_and_replayed() {
    rounds(true);
}
