//! Hostile JSON at every entry point: it is stored byte for byte, also after reopening, and jq can
//! read the files, or it is refused with an error that says what is wrong, and the log is
//! unchanged. Nothing panics, even with a small stack, and memory use is bounded.
//!
//! `DECKLOG_HOSTILE_MB` sets the size of the long texts and tries every text in every field. By
//! default, each field gets every fourth text. With `DECKLOG_HOSTILE_JQ` set, jq is required;
//! otherwise, without jq, only `serde_json` reads the files. `cli/hostile.rs` has the same tests
//! for the program.

#![allow(clippy::cast_possible_wrap)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use decklog::capture::WhenFull;
use decklog::lines::LINE_BYTES_MAX;
use decklog::query::RollupQuery;
use decklog::record::{
    ContentType, ConversationStatus, IdHashes, InboxStep, JSON_DEPTH_MAX, MessageSums,
    NAME_BYTES_MAX, Rollup, Sketch, Source, TaskStatus, ThoughtType, payload_json,
};
use decklog::storage::Disk;
use decklog::thoughts::NewThought;
use decklog::{
    Client, CodeEditProposal, Conversation, ConversationMessage, ErrorKind, Event, HistoryEntry,
    InboxTask, ProposalStatus, ProposalStep, Record, Role, Store, ThoughtRecord, Timestamp,
    ToolCallReq, Validity, args_sha256, verify,
};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::support::{DAY_1, DAY_1_NAME, all_lines, count, done, failed, request, still, turn};

/// A stack so small that recursion for every level of nesting would overflow it. Frames are larger
/// without optimization.
const STACK_BYTES: usize = if cfg!(debug_assertions) {
    512 << 10
} else {
    128 << 10
};
const DEPTH: usize = 10_000;

/// The length of long texts.
pub fn long_bytes() -> usize {
    match count("DECKLOG_HOSTILE_MB", 0) {
        0 => 32 << 10,
        mb => (mb as usize) << 20,
    }
}

/// All texts if requested, else every fourth, starting at an offset that depends on `number`.
pub fn some_of<T>(all: Vec<T>, number: usize) -> impl Iterator<Item = T> {
    let parts = match count("DECKLOG_HOSTILE_MB", 0) {
        0 => 4,
        _ => 1,
    };
    all.into_iter().skip(number % parts).step_by(parts)
}

/// Texts that are difficult to parse as JSON, or that look like JSON.
pub fn texts() -> Vec<String> {
    let plain = [
        "",
        " ",
        "\t\r\n ",
        "null",
        "true",
        "-0",
        "-0.0",
        "1e-400",
        "1E+9999",
        "NaN",
        "Infinity",
        "-Infinity",
        "[NaN]",
        "[Infinity]",
        "{\"a\":-Infinity}",
        "9007199254740993",
        "[9007199254740993,-9007199254740993,9223372036854775807,-9223372036854775808]",
        "[9223372036854775808,18446744073709551615,18446744073709551616]",
        "{\"n\":1e400,\"m\":-1E+9999,\"k\":1e-400,\"z\":-0,\"y\":-0.0}",
        "[0.1000000000000000055511151231257827,1.0,1e3,1.50]",
        "[01]",
        "[+1]",
        "[.5]",
        "[1.]",
        "[0x10]",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2,\"a\":3}",
        "{\"\":1,\"\":2}",
        "{\"a\":{\"b\":1,\"b\":{}},\"a\":[]}",
        "{\"seq\":1,\"at\":2,\"op\":\"x\",\"crc\":\"00000000\",\"kind\":\"y\"}",
        "{\"crc\":\"00000000\"}",
        "\",\"crc\":\"00000000\"}",
        "{\"seq\":1,\"at\":0,\"op\":\"asserted\"",
        "\u{0}",
        "a\u{0}b",
        "[\"\\u0000\"]",
        "[\"\u{0}\"]",
        "{\"\\u0000\":\"\\u0000\"}",
        "\u{1}\u{2}\u{8}\u{b}\u{c}\u{e}\u{1f}\u{7f}\u{80}\u{9f}",
        "\u{2028}\u{2029}",
        "[\"\u{2028}\u{2029}\"]",
        "{\"\u{2028}\":\"\u{85}\"}",
        "\u{feff}",
        "\u{feff}{}",
        "[\"\u{feff}\"]",
        "\u{fffd}\u{fffe}\u{ffff}\u{10ffff}",
        "\\ud800",
        "\"\\ud800\"",
        "[\"\\ud83d\\ude00\"]",
        "{\"\\ud83d\\ude00\":1}",
        "[\"\\ud800\"]",
        "[\"\\udc00\\ud800\"]",
        "{\"\\ud800\":1}",
        "{\"a\":[{\"b\":\"\\udfff\"}]}",
        "[\"\\ud800\",",
        "[\"\\uZZZZ\"]",
        "[\"\\x\"]",
        "\r",
        "\n",
        "\r\n",
        "a\rb\nc\r\nd",
        "{\n}",
        "{\"a\":\r1}",
        "[1,\n2]",
        "[\"\r\"]",
        "[\"\n\"]",
        "[\"\t\"]",
        " {} ",
        "{} ",
        "{}{}",
        "{}\n{}",
        "{a}",
        "{'a':1}",
        "{\"a\":}",
        "{\"a\"}",
        "[1,]",
        "[,]",
        "{,}",
        "[1 2]",
        "{]",
        "[}",
        "[[]",
        "[\"]",
        "{\"a\":1",
        "[tru]",
        "[nul]",
        "[\"\\u00e9\\/\\b\\f\"]",
        "/* a */ {}",
        "../..",
        "..\\..\\x",
        "/etc/passwd",
        "C:\\x",
        "'; drop table x; --",
        "$(reboot)`x`",
        "\u{1b}[2J\u{1b}]0;x\u{7}",
        "\u{202e}abc",
        "e\u{301}\u{200d}\u{200b}",
    ];
    let control: Vec<String> = (0..0x20).map(|code| format!("\\u{code:04x}")).collect();
    let control = control.concat();
    let mut texts: Vec<String> = plain.iter().map(|text| (*text).to_owned()).collect();
    texts.push(format!("[\"{control}\"]"));
    texts.push(format!("[{}]", "1".repeat(400)));
    texts.push(format!("[1e{}]", "9".repeat(400)));
    texts.push(format!("[0.{}1]", "0".repeat(400)));
    texts.push(format!("1{}", "0".repeat(400)));
    let nest = |open: &str, close: &str, depth: usize| open.repeat(depth) + &close.repeat(depth);
    for depth in [JSON_DEPTH_MAX - 1, JSON_DEPTH_MAX, 129, DEPTH] {
        texts.push(nest("[", "]", depth));
        texts.push(nest("{\"a\":", "}", depth - 1).replace(":}", ":{}}"));
        texts.push(nest("[{\"a\":", "}]", depth / 2).replace(":}", ":0}"));
        texts.push("[".repeat(depth));
        texts.push("{\"a\":".repeat(depth));
        texts.push("[{\"a\":".repeat(depth / 2) + "]");
        texts.push("[".repeat(depth) + &"}".repeat(depth) + "]");
    }
    texts
}

/// Texts that are difficult because of their size.
pub fn long_texts() -> Vec<String> {
    let long = long_bytes();
    let keys: Vec<String> = (0..long / 16)
        .map(|n| format!("\"key {n:06}\":0"))
        .collect();
    vec![
        "x".repeat(long),
        "\u{0}".repeat(long),
        "\"".repeat(long),
        "\\".repeat(long),
        "[".repeat(long),
        "{\"".repeat(long / 2),
        "[".repeat(long / 2) + &"]".repeat(long / 2),
        format!("{{\"a\":\"{}\"}}", "y".repeat(long)),
        format!("{{\"{}\":1}}", "k".repeat(long)),
        format!("[\"{}", "\\ud800".repeat(long / 6)),
        format!("[{}1]", "1,".repeat(long / 2)),
        format!("[1{}]", "0".repeat(long)),
        format!("{{{}}}", keys.join(",")),
        format!("{{{}}}", vec!["\"a\":0"; long / 6].join(",")),
    ]
}

/// A text field, and a function that creates records with it. The last record is the one tested.
pub struct Field {
    pub name: &'static str,
    /// Whether it is a payload: JSON, or any text.
    pub is_payload: bool,
    make: fn(u128, &str) -> Vec<Record>,
}

fn uuid(id: u128) -> Uuid {
    Uuid::from_u128(id)
}

fn time() -> Timestamp {
    Timestamp::from_ms(DAY_1).unwrap()
}

pub fn conversation(id: u128) -> Conversation {
    with!(Conversation::new(uuid(id), Client::Cli),
        status: ConversationStatus::Active,
        created_at: time(),
        updated_at: time(),
    )
}

pub fn message(id: u128) -> ConversationMessage {
    let mut message = ConversationMessage::new(uuid(id), Role::User, "said");
    (message.id, message.timestamp) = (uuid(id), time());
    message.sequence = Some(1);
    (message.source, message.content_type) = (Source::User, ContentType::Text);
    message
}

fn messages(id: u128, change: impl FnOnce(&mut ConversationMessage)) -> Vec<Record> {
    let mut message = message(id);
    change(&mut message);
    vec![conversation(id).into(), message.into()]
}

fn conversations(id: u128, change: impl FnOnce(&mut Conversation)) -> Vec<Record> {
    let mut conversation = conversation(id);
    change(&mut conversation);
    vec![conversation.into()]
}

fn calls(id: u128, change: impl FnOnce(&mut ToolCallReq)) -> Vec<Record> {
    let mut req = request(id, "call", DAY_1);
    change(&mut req);
    vec![req.into()]
}

fn thoughts(id: u128, change: impl FnOnce(&mut ThoughtRecord)) -> Vec<Record> {
    let mut thought = ThoughtRecord {
        id: format!("thought {id}"),
        task_id: format!("task {id}"),
        prev_hash: String::new(),
        hash: String::new(),
        thought_type: ThoughtType::Plan,
        agent_id: "agent".into(),
        timestamp: time(),
        content: String::new(),
    };
    change(&mut thought);
    vec![thought.into()]
}

/// With a higher sequence number than the log has, so that no message of the day adds to it.
fn rollups(id: u128, change: impl FnOnce(&mut Rollup)) -> Vec<Record> {
    let mut rollup = Rollup {
        day: decklog::record::Day::of(DAY_1).unwrap(),
        model_used: None,
        config_used: Some(format!("config {id}")),
        orchestration_mode: None,
        task_type: None,
        part: 0,
        through_seq: 1 << 40,
        messages: 1,
        requests: 1,
        tokens_in: 0,
        tokens_out: 0,
        tokens_cache_write: 0,
        tokens_cache_write_1h: 0,
        tokens_cache_read: 0,
        tokens_reasoning: 0,
        cost_nano_usd: 0,
        cost_count: 0,
        latency_ms_sum: 0,
        latency_count: 0,
        latency_sketch: Sketch::default(),
        context_utilization_sum: 0.0,
        context_utilization_count: 0,
        compressed: 0,
        errors: 1,
        errors_by_type: BTreeMap::new(),
        conversations: 1,
        active_conversations: 1,
        others: MessageSums::default(),
        message_hashes: IdHashes::default(),
        conversation_hashes: IdHashes::default(),
    };
    change(&mut rollup);
    vec![rollup.into()]
}

fn event(id: u128) -> Event {
    with!(Event::new(None, "a.b"),
        id: id as i64,
        created_at: DAY_1,
    )
}

fn task(id: u128, payload: Option<String>) -> Record {
    Record::InboxTask(with!(InboxTask::new(id as i64, payload),
        id: id as i64,
        created_at: DAY_1,
        updated_at: DAY_1,
    ))
}

fn proposal(id: u128, diffs_json: &str) -> Record {
    Record::Proposal(CodeEditProposal {
        request_id: uuid(id),
        created_at: Validity::at(DAY_1),
        confidence: None,
        status: ProposalStatus::Pending,
        decided_at: None,
        applied_at: None,
        commit_hash: None,
        diffs_json: diffs_json.into(),
    })
}

/// Every text field of every kind.
pub fn fields() -> Vec<Field> {
    let name = |name, make| Field {
        name,
        is_payload: false,
        make,
    };
    let payload = |name, make| Field {
        name,
        is_payload: true,
        make,
    };
    vec![
        name("content", |id, text| vec![turn(id, text, DAY_1).into()]),
        name("call_id", |id, text| {
            calls(id, |req| req.call_id = text.into())
        }),
        name("vendor", |id, text| {
            calls(id, |req| req.vendor = text.into())
        }),
        name("tool_name", |id, text| {
            calls(id, |req| req.tool_name = text.into())
        }),
        name("args_sha256", |id, text| {
            calls(id, |req| {
                req.args_sha256 = text.into();
                req.arguments_json = None;
            })
        }),
        payload("arguments_json", |id, text| {
            calls(id, |req| {
                req.args_sha256 = args_sha256(text);
                req.arguments_json = Some(text.into());
            })
        }),
        payload("outcome_json", |id, text| {
            let req = request(id, "call", DAY_1);
            let mut done = done(&req);
            done.outcome_json = Some(text.into());
            vec![req.into(), done.into()]
        }),
        name("error_kind", |id, text| {
            let req = request(id, "call", DAY_1);
            let mut failed = failed(&req);
            failed.error_kind = Some(text.into());
            vec![req.into(), failed.into()]
        }),
        name("error_msg", |id, text| {
            let req = request(id, "call", DAY_1);
            let mut failed = failed(&req);
            failed.error_msg = Some(text.into());
            vec![req.into(), failed.into()]
        }),
        payload("diffs_json", |id, text| vec![proposal(id, text)]),
        name("commit_hash", |id, text| {
            let step = |status, commit_hash| {
                Record::ProposalStep(ProposalStep {
                    request_id: uuid(id),
                    status,
                    at: DAY_1,
                    decided_at: None,
                    applied_at: None,
                    commit_hash,
                })
            };
            vec![
                proposal(id, "[]"),
                step(ProposalStatus::Approved, None),
                step(ProposalStatus::Applied, Some(text.into())),
            ]
        }),
        name("workspace", |id, text| {
            conversations(id, |one| one.workspace = Some(text.into()))
        }),
        name("project", |id, text| {
            conversations(id, |one| one.project = Some(text.into()))
        }),
        name("user_id", |id, text| {
            conversations(id, |one| one.user_id = Some(text.into()))
        }),
        name("session_id", |id, text| {
            conversations(id, |one| one.session_id = Some(text.into()))
        }),
        name("last_error", |id, text| {
            conversations(id, |one| one.last_error = Some(text.into()))
        }),
        name("content", |id, text| {
            messages(id, |one| one.content = text.into())
        }),
        name("model_used", |id, text| {
            messages(id, |one| one.model_used = Some(text.into()))
        }),
        name("config_used", |id, text| {
            messages(id, |one| one.config_used = Some(text.into()))
        }),
        name("orchestration_mode", |id, text| {
            messages(id, |one| one.orchestration_mode = Some(text.into()))
        }),
        name("task_type", |id, text| {
            messages(id, |one| one.task_type = Some(text.into()))
        }),
        name("error_type", |id, text| {
            messages(id, |one| one.error_type = Some(text.into()))
        }),
        name("error", |id, text| {
            messages(id, |one| one.error = Some(text.into()))
        }),
        name("tool_name", |id, text| {
            messages(id, |one| one.tool_name = Some(text.into()))
        }),
        name("models_in_chain", |id, text| {
            messages(id, |one| {
                one.models_in_chain = Some(vec![text.into(), text.into()]);
            })
        }),
        payload("tool_args", |id, text| {
            messages(id, |one| one.tool_args = Some(text.into()))
        }),
        name("tool_result", |id, text| {
            messages(id, |one| one.tool_result = Some(text.into()))
        }),
        payload("inference_metadata", |id, text| {
            messages(id, |one| one.inference_metadata = Some(text.into()))
        }),
        name("event_type", |id, text| {
            vec![with!(event(id), event_type: text.into()).into()]
        }),
        payload("payload", |id, text| {
            vec![with!(event(id), payload: Some(text.into())).into()]
        }),
        payload("payload", |id, text| vec![task(id, Some(text.into()))]),
        name("error", |id, text| {
            let step = |status, error| {
                Record::InboxStep(InboxStep {
                    id: id as i64,
                    status,
                    at: DAY_1,
                    attempt: 1,
                    error,
                })
            };
            vec![
                task(id, None),
                step(TaskStatus::InProgress, None),
                step(TaskStatus::Failed, Some(text.into())),
            ]
        }),
        name("text", |id, text| {
            vec![Record::History(
                with!(HistoryEntry::new(7, Role::User, text),
                    id: id as i64,
                    created_at: DAY_1,
                ),
            )]
        }),
        name("id", |id, text| thoughts(id, |one| one.id = text.into())),
        name("task_id", |id, text| {
            thoughts(id, |one| one.task_id = text.into())
        }),
        name("agent_id", |id, text| {
            thoughts(id, |one| one.agent_id = text.into())
        }),
        name("content", |id, text| {
            thoughts(id, |one| one.content = text.into())
        }),
        name("model_used", |id, text| {
            rollups(id, |one| one.model_used = Some(text.into()))
        }),
        name("orchestration_mode", |id, text| {
            rollups(id, |one| one.orchestration_mode = Some(text.into()))
        }),
        name("errors_by_type", |id, text| {
            rollups(id, |one| one.errors_by_type = [(text.into(), 1)].into())
        }),
        name("errors_by_type", |id, text| {
            rollups(id, |one| {
                one.others.errors_by_type = [(text.into(), 1)].into();
            })
        }),
    ]
}

/// The record as read by its key.
fn get(store: &Store, record: &Record) -> Option<Record> {
    match record {
        Record::Turn(turn) => store.get_turn(turn.id).unwrap().map(Record::from),
        Record::CallRequested(req) => {
            let found = store.get_tool_call(req.request_id, &req.call_id).unwrap();
            found.map(|(req, _)| req.into())
        }
        Record::CallDone(done) => {
            let found = store.get_tool_call(done.request_id, &done.call_id).unwrap();
            found?.1.map(Record::from)
        }
        Record::Proposal(proposal) => {
            let found = store.get_proposal(proposal.request_id).unwrap();
            found.map(Record::from)
        }
        Record::ProposalStep(step) => {
            let found = store.get_proposal(step.request_id).unwrap()?;
            let is_last = step.status == ProposalStatus::Applied;
            assert!(!is_last || found.commit_hash == step.commit_hash);
            Some(record.clone())
        }
        Record::Conversation(conversation) => {
            let (found, _) = store.get_conversation(conversation.id).unwrap()?;
            Some(found.into())
        }
        Record::Message(message) => store.get_message(message.id).unwrap().map(Record::from),
        Record::Event(event) => store.get_event(event.id).unwrap().map(Record::from),
        Record::InboxTask(task) => store.inbox().get(task.id).unwrap().map(Record::from),
        Record::InboxStep(step) => {
            let found = store.inbox().get(step.id).unwrap()?;
            let is_last = step.status == TaskStatus::Failed;
            assert!(!is_last || found.error == step.error);
            Some(record.clone())
        }
        Record::History(entry) => {
            let entries = store.history(entry.chat_id, usize::MAX).unwrap();
            let found = entries.into_iter().find(|found| found.id == entry.id);
            found.map(Record::from)
        }
        Record::Thought(thought) => {
            let mut found = store.thoughts().get(&thought.id).unwrap()?;
            (found.hash, found.prev_hash) = (String::new(), String::new());
            Some(found.into())
        }
        Record::Rollup(rollup) => {
            let query = RollupQuery {
                since: Some(rollup.day),
                until: Some(decklog::record::Day::of(rollup.day.bounds_ms().1).unwrap()),
            };
            let found = store.rollups(&query).unwrap();
            let same = |found: &Rollup| found.config_used == rollup.config_used;
            found.into_iter().find(same).map(Record::from)
        }
        _ => panic!("{record:?} is none of these"),
    }
}

/// Every line is valid JSON for other programs, and every byte is as it was written.
pub fn check_files(path: &Path) {
    let found = verify(&Disk::new(path)).unwrap();
    assert!(found.is_clean(), "{:?} {:?}", found.damage, found.gaps);
    let has_jq = Command::new("jq").arg("--version").output().is_ok();
    assert!(
        has_jq || std::env::var_os("DECKLOG_HOSTILE_JQ").is_none(),
        "jq is not there"
    );
    if !has_jq {
        println!("jq is not there: the files were not read by it");
    }
    let mut lines = 0;
    for day in fs::read_dir(path).unwrap().map(Result::unwrap) {
        if day
            .file_name()
            .to_str()
            .unwrap()
            .parse::<decklog::record::Day>()
            .is_err()
        {
            continue;
        }
        for file in fs::read_dir(day.path()).unwrap().map(Result::unwrap) {
            let bytes = fs::read(file.path()).unwrap();
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let (lf, line) = line.split_last().unwrap();
                assert_eq!(*lf, b'\n');
                let text = std::str::from_utf8(line).unwrap();
                assert!(
                    text.starts_with('{') && memchr::memchr3(b'\0', b'\n', b'\r', line).is_none()
                );
                serde_json::from_str::<&RawValue>(text).unwrap();
                lines += 1;
            }
            if has_jq {
                let mut jq = Command::new("jq");
                let output = jq.args(["-c", "."]).arg(file.path()).output().unwrap();
                let told = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{}: {told}", file.path().display());
                let read = memchr::memchr_iter(b'\n', &output.stdout).count();
                let written = memchr::memchr_iter(b'\n', &bytes).count();
                assert_eq!(read, written);
            }
        }
    }
    assert_eq!(lines, found.good_lines);
}

/// Without the fields that the log sets.
fn as_handed_over(record: Record) -> Record {
    match record {
        Record::Thought(mut thought) => {
            (thought.hash, thought.prev_hash) = (String::new(), String::new());
            thought.into()
        }
        Record::ProposalStep(step) if step.status == ProposalStatus::Applied => {
            Record::ProposalStep(ProposalStep {
                decided_at: None,
                ..step
            })
        }
        other => other,
    }
}

/// Stored records are returned by every read path.
fn check_kept(store: &Store, kept: &[(u64, Record)]) {
    let lines = all_lines(store);
    assert_eq!(lines.len(), kept.len());
    for ((seq, found), (kept_seq, kept)) in lines.into_iter().zip(kept) {
        let found = as_handed_over(found);
        assert_eq!((seq, &found), (*kept_seq, kept));
    }
}

/// Records a text in every way that a field supports; collects the accepted records.
fn hand_over(store: &Store, field: &Field, id: u128, text: &str, kept: &mut Vec<(u64, Record)>) {
    let mut records = (field.make)(id, text);
    let last = records.pop().unwrap();
    for before in records {
        let ack = store.record(before.clone()).unwrap();
        kept.push((ack.seq, before));
    }
    let shown: String = text.chars().take(60).collect();
    let what = format!("{} of a {} as {shown:?}", field.name, last.kind());
    // A record alone and in a batch gives the same result.
    let answer = if id.is_multiple_of(2) {
        store.record(last.clone())
    } else {
        store.record_batch([last.clone()]).unwrap().pop().unwrap()
    };
    match answer {
        Ok(ack) => {
            assert_eq!(get(store, &last).as_ref(), Some(&last), "{what}");
            kept.push((ack.seq, last));
        }
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::InvalidInput, "{what}: {e}");
            let told = e.to_string();
            assert!(told.contains(field.name), "{what}: {told}");
            assert!(told.len() < 3_000, "{what}: {} bytes", told.len());
            let may_be_long =
                field.is_payload || matches!(field.name, "content" | "text" | "tool_result");
            let is_too_deep = told.contains("levels deep");
            let is_no_text = told.contains("lone surrogate");
            let is_long = text.len() > NAME_BYTES_MAX;
            let is_empty = told.contains("empty") && text.is_empty();
            assert!(
                is_too_deep || is_no_text || is_empty || is_long || !may_be_long,
                "{what}: {told}"
            );
        }
    }
}

/// Every text in every field: recorded by the library, read with and without the sidecar, replayed.
#[test]
fn a_text_in_any_field_comes_back_or_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let mut kept = Vec::new();
    let mut id = 0;
    for (number, field) in fields().into_iter().enumerate() {
        for text in some_of(texts(), number) {
            id += 1;
            hand_over(&store, &field, id, &text, &mut kept);
        }
    }
    check_reopened(&path, store, &kept);
}

#[test]
fn a_long_text_comes_back_or_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let mut kept = Vec::new();
    let mut id = 0;
    // One of each sort: a name, a text and payloads.
    let is_taken = |number: &usize| [0, 1, 5, 9, 11, 26, 29, 35].contains(number);
    let fields: Vec<Field> = fields()
        .into_iter()
        .enumerate()
        .filter(|(number, _)| is_taken(number))
        .map(|(_, field)| field)
        .collect();
    for text in long_texts() {
        for field in &fields {
            id += 1;
            hand_over(&store, field, id, &text, &mut kept);
        }
    }
    check_reopened(&path, store, &kept);
}

fn check_reopened(path: &Path, store: Store, kept: &[(u64, Record)]) {
    check_kept(&store, kept);
    drop(store);
    check_files(path);
    let sidecar = path.join("cache/index");
    let _ = fs::remove_file(&sidecar);
    for with_sidecar in [false, true] {
        assert_eq!(sidecar.exists(), with_sidecar);
        let options = Store::options().sidecar_bytes_min(0);
        let store = options.open(path).unwrap();
        assert_eq!(store.damage().unwrap(), []);
        for (_, record) in kept {
            // Later records are unaffected.
            let found = get(&store, record);
            let is_changed = matches!(
                record,
                Record::Proposal(_) | Record::InboxTask(_) | Record::Conversation(_)
            );
            assert!(found.as_ref() == Some(record) || is_changed && found.is_some());
        }
        check_kept(&store, kept);
        drop(store);
    }
    let replayed = decklog::replay::dir(&path.join(DAY_1_NAME)).unwrap();
    assert_eq!((replayed.lines.len(), replayed.unreadable), (kept.len(), 0));
    let other = path.with_extension("replayed");
    let store = still().open(&other).unwrap();
    for line in replayed.lines {
        store.record(line.record).unwrap();
    }
    check_kept(&store, kept);
}

/// Payloads that differ only in their bytes, and their hashes: with a small stack, at any depth.
#[test]
fn no_text_is_too_much_for_what_reads_json() {
    on_a_small_stack(|| {
        for text in texts().into_iter().chain(long_texts()) {
            let hash = args_sha256(&text);
            assert_eq!(hash.len(), 64);
            assert_eq!(args_sha256(&text), hash);
            let json = payload_json(&text);
            if json.starts_with('"') {
                assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            } else {
                assert_eq!(json, text);
            }
            assert!(memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_none());
            let _ = Record::from_json(&text);
            let _ = serde_json::from_str::<Event>(&text);
            let _ = serde_json::from_str::<ConversationMessage>(&text);
            let _ = serde_json::from_str::<Timestamp>(&text);
            let _ = text.parse::<Timestamp>();
            let _ = text.parse::<decklog::record::Day>();
            let _ = text.parse::<decklog::query::Cursor>();
        }
    });
}

fn on_a_small_stack(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, work).unwrap();
        thread.join().unwrap();
    });
}

/// Numbers with the same nearest double are different payloads. So are a text and one that repeats
/// a member.
#[test]
fn payloads_that_differ_are_not_taken_for_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let different = [
        ["[9007199254740993]", "[9007199254740992]"],
        ["[1e400]", "[1e401]"],
        ["[1e-400]", "[0]"],
        ["[0.1000000000000000055511151231257827]", "[0.1]"],
        ["{\"a\":1,\"a\":2}", "{\"a\":2}"],
        ["{\"a\":1,\"\\u0061\":2}", "{\"a\":2}"],
        ["[18446744073709551616]", "[18446744073709551615]"],
        ["[100000000000000000000000]", "[100000000000000000000001]"],
    ];
    for (id, [first, second]) in different.into_iter().enumerate() {
        let event = |payload: &str| with!(event(id as u128 + 1), payload: Some(payload.into()));
        store.record(event(first)).unwrap();
        let again = store.record(event(first)).unwrap();
        assert_eq!(again.status, decklog::AckStatus::Unchanged, "{first}");
        let error = store.record(event(second)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{first} and {second}");
    }
}

/// The `serde` form of a record: a record written as JSON reads back equal.
#[test]
fn a_record_as_json_reads_as_the_same() {
    on_a_small_stack(|| {
        for (number, field) in fields().into_iter().enumerate() {
            for text in some_of(texts(), number) {
                let Some(record) = (field.make)(1, &text).pop() else {
                    continue;
                };
                let (json, back) = match &record {
                    Record::Proposal(one) => through_serde(one),
                    Record::Conversation(one) => through_serde(one),
                    Record::Message(one) => through_serde(&**one),
                    Record::Event(one) => through_serde(one),
                    Record::InboxTask(one) => through_serde(one),
                    Record::History(one) => through_serde(one),
                    Record::Thought(one) => through_serde(one),
                    Record::Rollup(one) => through_serde(&**one),
                    _ => continue,
                };
                let Some(json) = json else {
                    // Only texts that a line cannot hold.
                    assert!(field.is_payload, "{} {text:.60?}", field.name);
                    continue;
                };
                assert_eq!(back.as_ref(), Some(&record), "{json:.300}");
            }
        }
    });
}

fn through_serde<T>(one: &T) -> (Option<String>, Option<Record>)
where
    T: serde::Serialize + serde::de::DeserializeOwned + Into<Record>,
{
    let Ok(json) = serde_json::to_string(one) else {
        return (None, None);
    };
    let back = serde_json::from_str::<T>(&json).map(Into::into);
    (
        Some(json.clone()),
        Some(back.unwrap_or_else(|e| panic!("{e}: {json:.300}"))),
    )
}

/// `thoughts().create` hashes its input, and a chain of such thoughts verifies.
#[test]
fn a_thought_of_any_text_is_chained() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    let mut contents = Vec::new();
    for text in texts() {
        let thought = |task_id: &str, content: &str| NewThought {
            thought_type: ThoughtType::Plan,
            task_id: task_id.into(),
            agent_id: "agent".into(),
            content: content.into(),
        };
        let made = store.thoughts().create(thought("task", &text)).unwrap();
        assert_eq!((&made.content, made.computed_hash()), (&text, made.hash));
        contents.push(text.clone());
        match store.thoughts().create(thought(&text, "of a task")) {
            Ok(made) => assert_eq!(made.task_id, text),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::InvalidInput);
                assert!(text.is_empty() || text.len() > NAME_BYTES_MAX, "{e}");
            }
        }
    }
    drop(store);
    check_files(&path);
    let store = Store::open(&path).unwrap();
    for chain in store.thoughts().verify_chains().unwrap() {
        assert!(chain.is_intact(), "{chain:?}");
    }
    let kept = store.thoughts().list(Some("task"), None).unwrap();
    let kept: Vec<String> = kept.into_iter().map(|kept| kept.content).collect();
    assert_eq!(kept, contents);
}

/// A captured record is in the log unchanged, or is reported and counted.
#[test]
fn what_is_captured_comes_back_or_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let (teller, told) = std::sync::mpsc::channel();
    let capture = store
        .capture_options()
        .when_full(WhenFull::Wait)
        .on_error(move |error, _| teller.send(error.kind()).unwrap())
        .start()
        .unwrap();
    let (mut given, mut refused_at_once) = (Vec::new(), 0);
    let mut id = 0;
    for (number, field) in fields().into_iter().enumerate() {
        for text in some_of(texts(), number) {
            id += 1;
            for record in (field.make)(id, &text) {
                match capture.record(record.clone()) {
                    Ok(()) => given.push(record),
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
                        refused_at_once += 1;
                    }
                }
            }
        }
    }
    // It reports rejected records.
    let flushed = capture.flush().unwrap_err();
    assert_eq!(flushed.kind(), ErrorKind::InvalidInput);
    let stats = capture.stats();
    drop(capture);
    let rejected: Vec<ErrorKind> = told.try_iter().collect();
    assert!(rejected.iter().all(|kind| *kind == ErrorKind::InvalidInput));
    assert_eq!(stats.accepted, given.len() as u64);
    assert_eq!(stats.rejected, rejected.len() as u64);
    assert_eq!(stats.written + stats.rejected, stats.accepted, "{stats:?}");
    assert!(stats.rejected + refused_at_once > 0);
    let lines = all_lines(&store);
    assert_eq!(lines.len() as u64, stats.written);
    // In the order in which they were submitted, without rejected ones.
    let mut given = given.into_iter();
    for (_, line) in lines {
        let line = as_handed_over(line);
        assert!(given.any(|given| given == line), "{line:?}");
    }
    drop(store);
    check_files(&path);
}

const ENV_LENGTH: &str = "DECKLOG_HOSTILE_LENGTH";

/// A text that no line can hold is refused without repeated copies of it.
#[test]
fn a_text_past_the_limit_is_refused_in_little_memory() {
    let length = long_bytes().max(LINE_BYTES_MAX + (4 << 20));
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::process_with_a_long_text"])
        .args(["--test-threads=1", "--nocapture"])
        .env(ENV_LENGTH, length.to_string())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{failed}");
    println!("{told}");
}

/// Current and peak memory of the process in bytes; resets the peak.
fn memory_and_peak() -> Option<(usize, usize)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib << 10)
    };
    let found = (bytes("VmRSS:")?, bytes("VmHWM:")?);
    fs::write("/proc/self/clear_refs", "5").ok()?;
    Some(found)
}

/// The child process of the test above; does nothing otherwise.
#[test]
fn process_with_a_long_text() {
    let length = count(ENV_LENGTH, 0) as usize;
    if length == 0 {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let capture = store.capture().unwrap();
    let texts = [
        "x".repeat(length),
        "[".repeat(length / 2) + &"]".repeat(length / 2),
        format!("{{\"a\":\"{}\"}}", "y".repeat(length)),
    ];
    let (mut id, mut most) = (0, 0);
    for field in fields() {
        for text in &texts {
            id += 1;
            let mut records = (field.make)(id, text);
            let last = records.pop().unwrap();
            for before in records {
                store.record(before).unwrap();
            }
            let again = (field.make)(id, text).pop().unwrap();
            let before = memory_and_peak();
            let error = store.record(last).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:.300}");
            assert!(error.to_string().contains(field.name), "{error:.300}");
            assert!(error.to_string().len() < 1_000);
            if capture.record(again).is_ok() {
                capture.flush().unwrap_err();
            }
            if let (Some((before, _)), Some((_, peak))) = (before, memory_and_peak()) {
                most = most.max(peak.saturating_sub(before));
            }
        }
    }
    // An error includes the key, which may itself be the text that is too long.
    println!("{length} bytes: {most} more at the most");
    assert!(most < length * 4, "{most} bytes for {length}");
    drop(capture);
    drop(store);
    check_files(&dir.path().join("log"));
}
