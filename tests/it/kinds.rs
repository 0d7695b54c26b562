//! All kinds of records in one store: every valid record is written, read back equal, and replayed
//! into another store line by line. The store also survives rewritten, flipped and truncated files
//! as far as plain lines can.
//!
//! `DECKLOG_KINDS_CASES` sets the number of stores, `DECKLOG_KINDS_STEP` the distance between the
//! bytes that are flipped and the lengths at which files are cut; 1 is every byte.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

use std::sync::Arc;

use decklog::lines::LogLine;
use decklog::storage::{Memory, Storage};
use decklog::{AckStatus, ErrorKind, Kind, Record, Store, verify};
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

/// Fills a store. Each record is of a kind, generated from a seed.
fn fill(store: &Store, mirror: &mut Mirror, seeds: &[(usize, u64)]) {
    for (kind, seed) in seeds {
        let mut rng = Rng(*seed);
        let record = mirror.any(&mut rng, Kind::ALL[*kind]);
        let ack = store
            .record(record.clone())
            .unwrap_or_else(|e| panic!("{e}: {record:?}"));
        // A new version with equal content, or the retraction of a retracted record, is unchanged.
        if ack.status == AckStatus::Added {
            mirror.take(record, ack);
        }
    }
}

/// The first fields of a kind's lines after the envelope, in order.
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
            "parent_id",
        ],
        Kind::Messages => &["id", "conversation_id", "sequence"],
        Kind::Events => &["id", "parent_id", "event_type"],
        Kind::Inbox => &["id", "update_id"],
        Kind::History => &["id", "chat_id"],
        Kind::ThoughtRecords => &["id", "task_id", "prev_hash", "hash"],
        Kind::Rollups => &[
            "day",
            "model_used",
            "config_used",
            "orchestration_mode",
            "task_type",
        ],
        _ => panic!("{kind} is new"),
    }
}

/// The names of an object's members, in order.
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

    // Every line is valid input, and a store recorded from the lines has the same contents.
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

    // Recording again changes nothing. A task's step is applied to the task's current state.
    for line in &lines {
        let record = read_line(line);
        let is_step = matches!(record, Record::InboxStep(_));
        // The last step of a proposal repeats the data of earlier steps.
        let may_be_later = matches!(record, Record::ProposalStep(_));
        match copy.record(record) {
            Ok(ack) => {
                assert_eq!(ack.status, AckStatus::Unchanged);
                assert!(ack.seq == line.seq || (may_be_later && ack.seq > line.seq));
            }
            Err(e) => {
                assert!(is_step, "{e}: {}", line.text);
                assert!(
                    matches!(
                        e.kind(),
                        ErrorKind::Lifecycle | ErrorKind::NotFound | ErrorKind::Conflict
                    ),
                    "{e}"
                );
            }
        }
    }
    assert_eq!(texts(copy.last_lines(usize::MAX).unwrap()), original);
}

fn rounds(with_versions: bool) {
    let config = ProptestConfig {
        cases: count("DECKLOG_KINDS_CASES", 16) as u32,
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

/// A few lines of every kind, and their contents.
fn sample(seed: u64) -> (Memory, Mirror) {
    let memory = Memory::new();
    let store = small(&memory);
    let mut rng = Rng(seed);
    let mut mirror = Mirror::new(true);
    let seeds: Vec<_> = (0..6 * Kind::ALL.len())
        .map(|nth| (nth % Kind::ALL.len(), rng.next()))
        .collect();
    fill(&store, &mut mirror, &seeds);
    (memory, mirror)
}

fn segments(memory: &Memory) -> Vec<String> {
    let days = memory.read_dir("").unwrap().into_iter();
    let days = days.filter(|entry| entry.name.starts_with(|c: char| c.is_ascii_digit()));
    let files = |day: String| {
        let files = memory.read_dir(&day).unwrap();
        files
            .into_iter()
            .map(move |file| format!("{day}/{}", file.name))
    };
    days.flat_map(|day| files(day.name)).collect()
}

/// A copy of the files in new memory.
fn copy(memory: &Memory) -> Memory {
    let other = Memory::new();
    other.create_dir("").unwrap();
    for path in segments(memory) {
        other.create_dir(path.split('/').next().unwrap()).unwrap();
        other.put_bytes(&path, memory.bytes(&path).unwrap());
    }
    for path in ["decklog.json", "HEAD", "LOCK"] {
        if let Some(bytes) = memory.bytes(path) {
            other.put_bytes(path, bytes);
        }
    }
    other
}

/// The store opens, answers all queries, and accepts records.
fn check_lives(memory: &Memory, mirror: &Mirror, case: &str) {
    let store = small(memory);
    mirror.ask(&store).unwrap_or_else(|e| panic!("{case}: {e}"));
    verify(memory).unwrap_or_else(|e| panic!("{case}: {e}"));
    let id = store.log_event(None, "after.harm", None);
    let id = id.unwrap_or_else(|e| panic!("{case}: {e}"));
    assert!(store.event_tree(id).unwrap().is_some(), "{case}");
}

#[test]
fn every_flip_is_told_and_nothing_panics() {
    let step = count("DECKLOG_KINDS_STEP", 3_001) as usize;
    let (memory, mirror) = sample(count("DECKLOG_SEED", 7));
    let mut nth = 0;
    for path in segments(&memory) {
        let bytes = memory.bytes(&path).unwrap();
        for place in (nth..bytes.len()).step_by(step) {
            let bit = nth % 8;
            nth += 1;
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << bit;
            let harmed = copy(&memory);
            harmed.put_bytes(&path, flipped);
            let case = format!("{path}, byte {place}, bit {bit}");
            assert!(!verify(&harmed).unwrap().damage.is_empty(), "{case}");
            check_lives(&harmed, &mirror, &case);
        }
    }
}

#[test]
fn a_cut_takes_only_what_stood_after_it() {
    let step = count("DECKLOG_KINDS_STEP", 3_001) as usize;
    let (memory, mirror) = sample(count("DECKLOG_SEED", 8));
    let lines = small(&memory).last_lines(usize::MAX).unwrap();
    let mut nth = 0;
    for path in segments(&memory) {
        let bytes = memory.bytes(&path).unwrap();
        for cut in (nth % step..bytes.len()).step_by(step) {
            nth += 1;
            let harmed = copy(&memory);
            harmed.put_bytes(&path, bytes[..cut].to_vec());
            let case = format!("{path}, cut at byte {cut}");
            let is_kept =
                |line: &&LogLine| line.file != path || line.offset as usize + line.text.len() < cut;
            let kept: Vec<_> = lines.iter().filter(is_kept).collect();
            let store = small(&harmed);
            let left = store.last_lines(usize::MAX).unwrap();
            assert_eq!(left.iter().collect::<Vec<_>>(), kept, "{case}");
            check_lives(&harmed, &mirror, &case);
        }
    }
}

/// A line's members in reverse order, including the checksum.
fn reversed(line: &[u8]) -> Vec<u8> {
    let names = member_names(std::str::from_utf8(line).unwrap());
    let values: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
        serde_json::from_slice(line).unwrap();
    let members = names.iter().rev().map(|name| {
        let name_json = serde_json::to_string(name).unwrap();
        format!("{name_json} : {}", values[name])
    });
    format!("{{ {} }}\n", members.collect::<Vec<_>>().join(" , ")).into_bytes()
}

#[test]
fn lines_that_someone_put_in_another_order_say_the_same() {
    for seed in 0..count("DECKLOG_KINDS_CASES", 5) {
        let (memory, mirror) = sample(seed);
        let lines = small(&memory).last_lines(usize::MAX).unwrap();
        for path in segments(&memory) {
            let bytes = memory.bytes(&path).unwrap();
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            memory.put_bytes(&path, lines.flat_map(reversed).collect());
        }
        let altered = verify(&memory).unwrap();
        assert_eq!((altered.good_lines, altered.damage.len()), (0, lines.len()));
        let store = small(&memory);
        mirror.check_records(&store);
        assert!(
            store
                .thoughts()
                .verify_chains()
                .unwrap()
                .iter()
                .all(|chain| !chain.is_intact())
        );

        let mended = store.repair_and_accept_edits().unwrap();
        let restamped: u64 = mended.iter().map(|one| one.restamped_lines).sum();
        assert_eq!(restamped, lines.len() as u64, "seed {seed}: {mended:?}");
        let clean = verify(&memory).unwrap();
        assert!(clean.is_clean(), "seed {seed}: {clean:?}");
        for store in [&store, &small(&memory)] {
            mirror.check(store);
            let texts = store
                .last_lines(usize::MAX)
                .unwrap()
                .into_iter()
                .map(|line| line.text);
            assert!(
                texts.eq(lines.iter().map(|line| line.text.clone())),
                "seed {seed}"
            );
        }
    }
}

/// Bug: a rewritten line without its id was read as record 0, and accepted.
#[test]
fn a_line_without_what_the_log_gives_holds_no_record() {
    let records = [
        r#"{"kind":"conversations","id":"67e55044-10b1-426f-9247-bb680e5fe001","client":"cli"}"#,
        r#"{"kind":"messages","conversation_id":"67e55044-10b1-426f-9247-bb680e5fe001","role":"user","content":""}"#,
        r#"{"kind":"events","event_type":"agent.started"}"#,
        r#"{"kind":"inbox","update_id":7}"#,
        r#"{"kind":"inbox","op":"in_progress","id":1}"#,
        r#"{"kind":"history","chat_id":7,"role":"user","text":""}"#,
        r#"{"kind":"thought_records","task_id":"t","agent_id":"a","type":"plan","content":""}"#,
    ];
    let memory = Memory::new();
    let store = small(&memory);
    for record in records {
        store.record(Record::from_json(record).unwrap()).unwrap();
    }
    let given = ["sequence", "id", "attempts", "prev_hash", "hash"];
    let mut nth = 0;
    for line in store.last_lines(usize::MAX).unwrap() {
        for name in given {
            let mut members: serde_json::Map<String, Value> =
                serde_json::from_str(&line.text).unwrap();
            let is_given = !members.get("id").is_some_and(Value::is_string) || name != "id";
            if !is_given || members.remove(name).is_none() {
                continue;
            }
            nth += 1;
            let harmed = copy(&memory);
            let bytes = memory.bytes(&line.file).unwrap();
            let (start, len) = (line.offset as usize, line.text.len());
            let text = serde_json::to_vec(&members).unwrap();
            let bytes = [&bytes[..start], &text[..], &bytes[start + len..]].concat();
            harmed.put_bytes(&line.file, bytes.clone());

            let case = format!("{} without {name}", line.text);
            let harmed_store = small(&harmed);
            let damage = harmed_store.damage().unwrap();
            assert_eq!(damage.len(), 1, "{case}");
            // A thought without its hashes counts, so that verification reports where its chain
            // breaks.
            let counts = usize::from(line.kind == Kind::ThoughtRecords);
            let reason = format!("missing field `{name}`");
            assert_eq!(damage[0].reason.contains(&reason), counts == 0, "{case}");
            let left = harmed_store.last_lines(usize::MAX).unwrap();
            assert_eq!(left.len(), records.len() - 1 + counts, "{case}");
            harmed_store.repair_and_accept_edits().unwrap();
            assert_eq!(harmed.bytes(&line.file).unwrap(), bytes, "{case}");
        }
    }
    assert_eq!(nth, 8);
}
