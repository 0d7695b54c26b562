//! The files as read by programs that do not know this crate: every line is one JSON object in one
//! form, in the expected file, and jq reads them all.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use decklog::{Record, Store, ToolCallReq, Validity};

use super::support::{DAY_1, DAY_MS, done, failed, request, turn};

fn segments(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for day in fs::read_dir(path).unwrap() {
        let day = day.unwrap().path();
        if day.is_dir() {
            found.extend(
                fs::read_dir(day)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    found.sort();
    found
}

fn names(path: &Path) -> Vec<String> {
    let name = |file: &PathBuf| {
        file.strip_prefix(path)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    segments(path).iter().map(name).collect()
}

fn varied(path: &Path, segment_bytes_max: u64) {
    let store = Store::options()
        .upkeep(false)
        .segment_bytes_max(segment_bytes_max)
        .open(path)
        .unwrap();
    let texts = [
        "",
        "plain",
        "\"\\\u{0}\u{1f}\u{7f}\n\r\t",
        "\u{2028}\u{FEFF}\u{1F600}",
        "{\"crc\":\"x\"}",
        "{\"a\":[1,{\"b\":null}]}",
        "[1e400]",
        "{\n}",
    ];
    for (id, text) in (1..).zip(texts) {
        let at = DAY_1 + (id as i64 % 3) * DAY_MS;
        let req = ToolCallReq {
            args_sha256: decklog::args_sha256(text),
            arguments_json: Some(text.into()),
            ..request(id, &format!("c{text}"), at)
        };
        let mut end = failed(&req);
        end.outcome_json = Some(text.into());
        let gone = turn(id, text, at);
        let mut withdrawn = request(id + 100, "w", at);
        let mut records: Vec<Record> = vec![
            gone.clone().into(),
            req.into(),
            end.into(),
            withdrawn.clone().into(),
        ];
        withdrawn.started_at = Validity::retracted(at + 1);
        records.push(withdrawn.into());
        records.push(
            decklog::ConversationTurn {
                created_at: Validity::retracted(at + 1),
                ..gone
            }
            .into(),
        );
        for answer in store.record_batch(records).unwrap() {
            answer.unwrap();
        }
    }
}

#[test]
fn every_line_is_one_json_object_with_its_envelope_first_and_its_checksum_last() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    varied(&path, 2_000);
    let mut lines = 0;
    for file in segments(&path) {
        let bytes = fs::read(&file).unwrap();
        assert_eq!(bytes.last(), Some(&b'\n'));
        let mut last_seq = 0;
        for line in bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let text = std::str::from_utf8(line).unwrap();
            assert!(!text.contains(['\r', '\0']), "{text}");
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            let seq = value["seq"].as_u64().unwrap();
            let (at, op) = (&value["at"], value["op"].as_str().unwrap());
            assert!(
                text.starts_with(&format!("{{\"seq\":{seq},\"at\":{at},\"op\":\"{op}\",")),
                "{text}"
            );
            let (covered, tail) = text.split_at(text.len() - 18);
            assert_eq!(
                tail,
                format!(
                    ",\"crc\":\"{:08x}\"}}",
                    super::support::crc32(covered.as_bytes())
                ),
                "{text}"
            );
            assert!(seq > last_seq, "{text}");
            last_seq = seq;
            lines += 1;
        }
    }
    assert_eq!(lines, 8 * 6);
    let manifest = fs::read_to_string(path.join("decklog.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&manifest).unwrap();
    // HEAD: its magic, the commit count, the last line, no holder; 8 words and 64 slots of 3 words.
    let head = fs::read(path.join("HEAD")).unwrap();
    let word = |place: usize| u64::from_le_bytes(head[place * 8..][..8].try_into().unwrap());
    assert_eq!(&head[..8], b"DLHEAD01");
    assert_eq!((word(2), word(3)), (8 * 6, 0));
    let places = (0..64).map(|place| 8 + 3 * place);
    assert_eq!(places.map(|place| word(place + 2)).max(), Some(word(1)));
    assert_eq!(head.len(), 8 * (8 + 3 * 64));
}

#[test]
fn jq_reads_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    varied(&path, 2_000);
    let jq = |filter: &str, files: &[PathBuf]| {
        Command::new("jq")
            .arg("-c")
            .arg(filter)
            .args(files)
            .output()
    };
    let files = segments(&path);
    let Ok(read) = jq(".seq", &files) else {
        println!("skipped: jq is not installed");
        return;
    };
    assert!(
        read.status.success(),
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
    let mut seqs: Vec<u64> = String::from_utf8(read.stdout)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=48).collect::<Vec<_>>());
    // jq reads a payload object as an object too.
    let read = jq(
        "select(.op == \"requested\") | .arguments_json | objects | .a?",
        &files,
    )
    .unwrap();
    let text = String::from_utf8(read.stdout).unwrap();
    assert!(
        text.lines().any(|line| line == "[1,{\"b\":null}]"),
        "{text}"
    );
    let manifest = jq(".", &[path.join("decklog.json")]).unwrap();
    assert!(manifest.status.success());
}

#[test]
fn a_late_record_goes_to_its_own_day() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    let req = request(1, "c", DAY_1 - 1);
    let mut end = done(&req);
    end.ended_at = Validity::at(DAY_1 + DAY_MS);
    store.record(turn(1, "", DAY_1 + DAY_MS)).unwrap();
    store.record(turn(2, "late", DAY_1 + DAY_MS - 1)).unwrap();
    store.record(req).unwrap();
    store.record(end).unwrap();
    store.record(turn(3, "at the beginning", 0)).unwrap();
    store
        .record(turn(4, "at the end", 253_402_300_799_999))
        .unwrap();
    let expected = [
        "1970-01-01/conversation_turns.0001.jsonl",
        "2025-12-26/tool_calls.0001.jsonl",
        "2025-12-27/conversation_turns.0001.jsonl",
        "2025-12-28/conversation_turns.0001.jsonl",
        "2025-12-28/tool_calls.0001.jsonl",
        "9999-12-31/conversation_turns.0001.jsonl",
    ];
    assert_eq!(names(&path), expected);
}

#[test]
fn a_full_segment_is_followed_by_the_next() {
    const LIMIT: u64 = 1_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = || {
        Store::options()
            .upkeep(false)
            .segment_bytes_max(LIMIT)
            .open(&path)
            .unwrap()
    };
    let mut id = 0;
    for _ in 0..3 {
        let store = open();
        let batch: Vec<Record> = (0..10)
            .map(|_| {
                id += 1;
                turn(id, "a line of some length", DAY_1).into()
            })
            .collect();
        store.record_batch(batch).unwrap();
    }
    // A line above the size limit gets its own segment.
    open().record(turn(99, &"x".repeat(2_000), DAY_1)).unwrap();
    open().record(turn(100, "", DAY_1)).unwrap();
    let found = names(&path);
    for (number, name) in (1..).zip(&found) {
        assert_eq!(
            *name,
            format!("2025-12-27/conversation_turns.{number:04}.jsonl")
        );
    }
    let lens: Vec<u64> = segments(&path)
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .collect();
    assert!(lens.len() > 8);
    assert_eq!(
        lens.iter().filter(|len| **len > LIMIT).count(),
        1,
        "{lens:?}"
    );
    // Each segment was full before the next one started.
    for pair in lens.windows(2) {
        assert!(
            pair[0] + pair[1] > LIMIT || pair == &lens[lens.len() - 2..],
            "{lens:?}"
        );
    }
    assert_eq!(open().list(), 32);
}

trait ListAll {
    fn list(&self) -> usize;
}

impl ListAll for Store {
    fn list(&self) -> usize {
        decklog::ObservabilityStore::list_conversation_since(self, 0, 1_000)
            .unwrap()
            .len()
    }
}

/// The exact bytes, written by hand from the design. The checksums are from Python's `zlib.crc32`.
#[test]
fn one_line_of_each_op_as_it_stands_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    let mut said = turn(1, "say \"hi\"\n\u{e9}\u{1}", DAY_1);
    said.parent_id = Some(uuid::Uuid::from_u128(9));
    store.record(said.clone()).unwrap();
    said.created_at = Validity::retracted(DAY_1 + 5);
    said.parent_id = None;
    said.thread_id = None;
    store.record(said).unwrap();
    let mut req = request(2, "call_1", DAY_1);
    store.record(req.clone()).unwrap();
    store.record(done(&req)).unwrap();
    let other = request(3, "call_\"2\"", DAY_1);
    store
        .record(ToolCallReq {
            args_sha256: decklog::args_sha256("*** patch\n"),
            arguments_json: Some("*** patch\n".into()),
            ..other.clone()
        })
        .unwrap();
    store.record(failed(&other)).unwrap();
    req.started_at = Validity::retracted(DAY_1 + 6);
    req.arguments_json = None;
    store.record(req).unwrap();
    let turns = fs::read_to_string(path.join("2025-12-27/conversation_turns.0001.jsonl")).unwrap();
    let calls = fs::read_to_string(path.join("2025-12-27/tool_calls.0001.jsonl")).unwrap();
    assert_eq!(turns, GOLDEN_TURNS);
    assert_eq!(calls, GOLDEN_CALLS);
}

const GOLDEN_TURNS: &str = concat!(
    r#"{"seq":1,"at":1766793600000,"op":"asserted","id":"00000000-0000-0000-0000-000000000001","parent_id":"00000000-0000-0000-0000-000000000009","message_id":"00000000-0000-0000-0000-00000000a001","thread_id":"00000000-0000-0000-0000-00000000b000","kind":"user","created_at":1766793600000,"content":"say \"hi\"\né\u0001","crc":"5f9f4c32"}"#,
    "\n",
    r#"{"seq":2,"at":1766793600005,"op":"retracted","id":"00000000-0000-0000-0000-000000000001","message_id":"00000000-0000-0000-0000-00000000a001","kind":"user","created_at":1766793600005,"content":"say \"hi\"\né\u0001","crc":"5cb15f10"}"#,
    "\n",
);

const GOLDEN_CALLS: &str = concat!(
    r#"{"seq":3,"at":1766793600000,"op":"requested","request_id":"00000000-0000-0000-0000-000000000002","call_id":"call_1","parent_id":"00000000-0000-0000-0000-00000000c000","vendor":"anthropic","tool_name":"read_file","started_at":1766793600000,"args_sha256":"c3cf6dfe9545f06ae7ceae745695e8bf0db9c72288a96266f3f396ca54451d85","arguments_json":{"path":"src/main.rs"},"crc":"0689449d"}"#,
    "\n",
    r#"{"seq":4,"at":1766793600012,"op":"completed","request_id":"00000000-0000-0000-0000-000000000002","call_id":"call_1","parent_id":"00000000-0000-0000-0000-00000000c000","ended_at":1766793600012,"latency_ms":12,"outcome_json":{"lines":12},"crc":"7e98f9d1"}"#,
    "\n",
    r#"{"seq":5,"at":1766793600000,"op":"requested","request_id":"00000000-0000-0000-0000-000000000003","call_id":"call_\"2\"","parent_id":"00000000-0000-0000-0000-00000000c000","vendor":"anthropic","tool_name":"read_file","started_at":1766793600000,"args_sha256":"7cf4f6350ab6d53473307eaea132b57bd65f999d24505bcde0063ea2503c00a5","arguments_json":"*** patch\n","crc":"e6b16f1c"}"#,
    "\n",
    r#"{"seq":6,"at":1766793600012,"op":"failed","request_id":"00000000-0000-0000-0000-000000000003","call_id":"call_\"2\"","parent_id":"00000000-0000-0000-0000-00000000c000","ended_at":1766793600012,"latency_ms":12,"error_kind":"timeout","error_msg":"took too long","crc":"6e5b16f8"}"#,
    "\n",
    r#"{"seq":7,"at":1766793600006,"op":"retracted","request_id":"00000000-0000-0000-0000-000000000002","call_id":"call_1","parent_id":"00000000-0000-0000-0000-00000000c000","vendor":"anthropic","tool_name":"read_file","started_at":1766793600006,"args_sha256":"c3cf6dfe9545f06ae7ceae745695e8bf0db9c72288a96266f3f396ca54451d85","crc":"dfa5ac04"}"#,
    "\n",
);
