//! `data-layout.md` is exact: this version writes the document's example store byte for byte, and
//! opens it; its programs run. Stores of all released versions open.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use decklog::query::RollupQuery;
use decklog::record::{ConversationStatus, InboxStep, TaskStatus, ThoughtType};
use decklog::retention::{Keep, RetainOptions};
use decklog::seal::Proof;
use decklog::storage::Disk;
use decklog::{
    Client, CodeEditProposal, Conversation, ConversationMessage, ConversationTurn, Event,
    HistoryEntry, InboxTask, InferenceMetadata, Key, Kind, ObservabilityStore, ProposalStatus,
    ProposalStep, Record, Role, Store, ThoughtRecord, Timestamp, ToolCallDone, ToolCallReq,
    ToolStatus, TurnKind, Validity, args_sha256, event_type, verify,
};
use uuid::Uuid;

const LAYOUT: &str = include_str!("../../data-layout.md");

/// The files that the document shows, by name: blocks that start with ```` ```jsonl FILE ````.
fn examples() -> Vec<(&'static str, &'static str)> {
    LAYOUT
        .split("```jsonl ")
        .skip(1)
        .filter_map(|block| block.split_once("```")?.0.split_once('\n'))
        .collect()
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e000 + n)
}

pub fn write_example(store: &Store) {
    let turn = ConversationTurn {
        id: id(1),
        parent_id: None,
        message_id: id(2),
        kind: TurnKind::User,
        content: "Say \"hi\".\n".into(),
        created_at: Validity::at(1_766_832_000_000),
        thread_id: Some(id(3)),
    };
    let arguments = r#"{"path": "src/main.rs", "line": 12}"#;
    let request = |call_id: &str, arguments: &str| ToolCallReq {
        request_id: id(4),
        call_id: call_id.into(),
        parent_id: id(1),
        vendor: "anthropic".into(),
        tool_name: "edit".into(),
        args_sha256: args_sha256(arguments),
        arguments_json: Some(arguments.into()),
        started_at: Validity::at(1_766_832_000_123),
    };
    let outcome =
        |call_id: &str, status, outcome: Option<&str>, error: Option<&str>| ToolCallDone {
            request_id: id(4),
            call_id: call_id.into(),
            ended_at: Validity::at(1_766_832_000_160),
            latency_ms: 37,
            outcome_json: outcome.map(Into::into),
            error_kind: error.map(|_| "timeout".into()),
            error_msg: error.map(Into::into),
            status,
        };
    let done = ToolStatus::Completed;
    store.upsert_conversation_turn(turn.clone()).unwrap();
    store
        .record_tool_call_requested(request("call_9f", arguments))
        .unwrap();
    store
        .record_tool_call_done(outcome("call_9f", done, Some("[1,2]"), None))
        .unwrap();
    store
        .record_tool_call_requested(request("call_a0", "not JSON"))
        .unwrap();
    let failed = outcome(
        "call_a0",
        ToolStatus::Failed,
        None,
        Some("gave up after 30 s"),
    );
    store.record_tool_call_done(failed).unwrap();
    let retracted = ConversationTurn {
        created_at: Validity::retracted(1_766_918_400_000),
        ..turn
    };
    store.upsert_conversation_turn(retracted).unwrap();
    for record in other_kinds() {
        store.record(record).unwrap();
    }
    store.roll_up("2025-12-27".parse().unwrap()).unwrap();
}

/// One entity of each kind except turns and calls, with all its steps, in order.
fn other_kinds() -> Vec<Record> {
    let at = 1_766_832_000_000;
    let created_at: Timestamp = "2025-12-27T10:40:00Z".parse().unwrap();
    let conversation = with!(Conversation::new(id(5), Client::Cli),
        workspace: Some("/home/me/app".into()),
        project: Some("app".into()),
        user_id: Some("me".into()),
        session_id: Some("s-1".into()),
        created_at: created_at.clone(),
        updated_at: created_at.clone(),
    );
    let question = with!(ConversationMessage::new(id(5), Role::User, "What is 1 + 1?"),
        id: id(6),
        timestamp: created_at.clone(),
    );
    let metadata: InferenceMetadata = serde_json::from_str(
        r#"{"config":"fast","models_used":["small-1"],"total_latency_ms":850,"context_utilization":0.25,
            "tokens_by_model":{"small-1":{"in":12,"out":1}}}"#,
    )
    .unwrap();
    let answer = with!(ConversationMessage::new(id(5), Role::Assistant, "2"),
        id: id(7),
        timestamp: "2025-12-27T10:40:00.850Z".parse().unwrap(),
    );
    let completed = with!(conversation.clone(),
        status: ConversationStatus::Completed,
        updated_at: "2025-12-27T12:41:00+02:00".parse().unwrap(),
    );
    let event = |parent_id, event_type: &str, created_at, payload: Option<&str>| {
        with!(Event::new(parent_id, event_type),
            created_at,
            payload: payload.map(Into::into),
        )
    };
    let task = with!(InboxTask::of_message(7001, -42, "deploy", 1_766_831_999), created_at: at);
    let step = |status, at| InboxStep {
        id: 1,
        status,
        at,
        attempt: 0,
        error: None,
    };
    let entry = with!(HistoryEntry::new(-42, Role::User, "deploy"), created_at: at);
    let thought = ThoughtRecord {
        id: "r1".into(),
        task_id: "t1".into(),
        prev_hash: String::new(),
        hash: String::new(),
        thought_type: ThoughtType::Plan,
        agent_id: "a1".into(),
        timestamp: "2026-04-17T00:00:00Z".parse().unwrap(),
        content: "hello".into(),
    };
    let applied = ProposalStep {
        commit_hash: Some("4b825dc".into()),
        ..ProposalStep::new(id(8), ProposalStatus::Applied, at + 2_000)
    };
    vec![
        CodeEditProposal {
            confidence: Some(0.9),
            ..CodeEditProposal::new(id(8), r#"[{"file":"a.rs","add":["x"]}]"#, at)
        }
        .into(),
        ProposalStep::new(id(8), ProposalStatus::Approved, at + 1_000).into(),
        applied.into(),
        conversation.into(),
        question.into(),
        answer.with_metadata(&metadata).into(),
        completed.into(),
        event(None, event_type::AGENT_STARTED, at, None).into(),
        event(
            Some(1),
            event_type::AGENT_COMPLETED,
            at + 900,
            Some(r#"{"turns":1}"#),
        )
        .into(),
        task.into(),
        step(TaskStatus::InProgress, at + 10).into(),
        step(TaskStatus::Done, at + 20).into(),
        entry.into(),
        thought.into(),
    ]
}

#[test]
fn the_document_shows_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let options = Store::options().settings(super::support::plain_users());
    let store = options.open(dir.path()).unwrap();
    write_example(&store);
    let examples = examples();
    assert_eq!(examples.len(), 11, "the document shows eleven files");
    for (file, shown) in examples {
        let written = fs::read_to_string(dir.path().join(file)).unwrap();
        assert_eq!(shown, written, "{file}");
    }
}

#[test]
fn the_document_opens_as_a_store() {
    let dir = tempfile::tempdir().unwrap();
    example_in(dir.path(), None);
    check_example(dir.path());
}

/// The manifest in the document.
fn manifest_example() -> String {
    let line = LAYOUT.lines().find(|line| line.starts_with("{\"format\":"));
    format!("{}\n", line.unwrap())
}

/// Stores written by released versions, each in a directory named for its version.
#[test]
fn every_frozen_store_still_opens() {
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen");
    let mut versions = 0;
    for version in fs::read_dir(&frozen).unwrap() {
        let from = version.unwrap().path();
        let dir = tempfile::tempdir().unwrap();
        copy_dir(&from, dir.path());
        check_example(dir.path());
        versions += 1;
    }
    assert!(versions >= 1, "{}", frozen.display());
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn check_example(path: &Path) {
    let found = verify(&Disk::new(path)).unwrap();
    assert!(found.is_clean(), "{found:?}");
    assert_eq!(found.good_lines, 22);
    let store = Store::open(path).unwrap();
    assert_eq!(store.list_conversation_since(0, 10).unwrap(), []);
    let then = store
        .as_of(1_766_900_000_000)
        .get_turn(id(1))
        .unwrap()
        .unwrap();
    assert_eq!(then.content, "Say \"hi\".\n");
    let (req, done) = store.get_tool_call(id(4), "call_9f").unwrap().unwrap();
    assert_eq!(
        req.arguments_json.as_deref(),
        Some(r#"{"path": "src/main.rs", "line": 12}"#)
    );
    assert_eq!(done.unwrap().outcome_json.as_deref(), Some("[1,2]"));
    let (req, done) = store.get_tool_call(id(4), "call_a0").unwrap().unwrap();
    assert_eq!(req.arguments_json.as_deref(), Some("not JSON"));
    assert_eq!(done.unwrap().error_kind.as_deref(), Some("timeout"));
    let proposal = store.get_proposal(id(8)).unwrap().unwrap();
    assert_eq!(proposal.status, ProposalStatus::Applied);
    assert_eq!(proposal.commit_hash.as_deref(), Some("4b825dc"));
    let (conversation, stats) = store.get_conversation(id(5)).unwrap().unwrap();
    assert_eq!(conversation.status, ConversationStatus::Completed);
    assert_eq!((stats.message_count, stats.total_tokens_in), (2, 12));
    let answer = store.get_message(id(7)).unwrap().unwrap();
    assert_eq!((answer.sequence, &*answer.content), (Some(2), "2"));
    let tree = store.event_tree(1).unwrap().unwrap();
    assert_eq!(tree.nodes[0].duration_ms, Some(900));
    assert_eq!(store.inbox().counts().unwrap().done, 1);
    assert_eq!(store.telegram_offset().unwrap(), 7002);
    assert_eq!(store.history(-42, 5).unwrap()[0].text, "deploy");
    let check = store.thoughts().verify_chain("t1").unwrap();
    assert!(check.is_intact(), "{check:?}");
    let pinned = "6a2f9597f563d5515cfa69891a51806d0f93bfbe222997d3ba37c365ceee3f1a";
    assert_eq!(check.head.as_deref(), Some(pinned));
    let rollups = store.rollups(&RollupQuery::default()).unwrap();
    assert_eq!(rollups.len(), 2);
    assert_eq!((rollups[1].requests, rollups[1].tokens_in), (1, 12));
    // It accepts new records.
    store
        .log_event(Some(1), event_type::REPLY_SENT, None)
        .unwrap();
    assert!(verify(&Disk::new(path)).unwrap().is_clean());
}

/// A block of the document, found by its first line.
fn block(start: &str) -> &'static str {
    let (_, rest) = LAYOUT.split_once(&format!("```{start}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Writes the example store, or one file of it.
fn example_in(dir: &Path, only: Option<&str>) {
    for (file, shown) in examples() {
        if only.is_none_or(|only| only == file) {
            let path = dir.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, shown).unwrap();
        }
    }
    fs::write(dir.join("decklog.json"), manifest_example()).unwrap();
}

/// Runs a program of the document on a store; `None` if Python is not installed.
fn python(nth: usize, more: &str, store: &Path) -> Option<Output> {
    let program = LAYOUT.split("```python\n").nth(nth).unwrap();
    let program = format!("{}{more}", program.split_once("```").unwrap().0);
    let mut command = Command::new("python3");
    match command.args(["-c", &program]).arg(store).output() {
        Ok(output) => Some(output),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no python3");
            println!("not run: there is no python3 here");
            None
        }
        Err(e) => panic!("python3: {e}"),
    }
}

#[test]
fn the_reader_of_the_document_reads_the_example() {
    let dir = tempfile::tempdir().unwrap();
    example_in(dir.path(), None);
    let Some(output) = python(1, "", dir.path()) else {
        return;
    };
    assert_eq!(output.stderr, b"");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "call_9f edit completed\ncall_a0 edit failed\n"
    );

    let calls = dir.path().join("2025-12-27/tool_calls.0001.jsonl");
    let changed = fs::read_to_string(&calls).unwrap();
    fs::write(&calls, changed.replace("gave up", "gave in")).unwrap();
    let output = python(1, "", dir.path()).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("not intact: b'{\"seq\":5,"), "{told}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "call_9f edit completed\ncall_a0 edit requested\n"
    );
}

#[test]
fn the_writer_of_the_document_appends_to_the_example() {
    const EVENT: &str = r#"
import sys
for number in (3, 4):
    append(sys.argv[1], "events", 1766832001000 + number, "logged", {"id": number, "parent_id": 1,
        "event_type": "reply.sent", "created_at": 1766832001000 + number, "payload": {"é": "\x7f\n"}})
"#;
    let dir = tempfile::tempdir().unwrap();
    example_in(dir.path(), None);
    let store = Store::open(dir.path()).unwrap();
    let Some(output) = python(2, EVENT, dir.path()) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    // An open handle sees them, and continues their numbering.
    store.refresh().unwrap();
    let ids: Vec<_> = store
        .events(&decklog::query::EventQuery::default())
        .unwrap()
        .items;
    assert_eq!(
        ids.iter().map(|event| event.id).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    assert_eq!(ids[3].payload.as_deref(), Some("{\"é\":\"\x7f\\n\"}"));
    let id = store
        .log_event(Some(1), event_type::REPLY_SENT, None)
        .unwrap();
    assert_eq!(id, 5);
    store.seal_at(1_767_225_600_000).unwrap();
    assert!(verify(&Disk::new(dir.path())).unwrap().is_clean());

    // The segment is sealed, so the next line goes to another one.
    let more = EVENT.replace("(3, 4)", "(6,)");
    let output = python(2, &more, dir.path()).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(dir.path().join("2025-12-27/events.0002.jsonl").exists());
    let found = verify(&Disk::new(dir.path())).unwrap();
    assert!(found.is_clean(), "{found:?}");
    assert_eq!(found.good_lines, 26);
}

#[test]
fn the_removal_that_the_document_shows_is_written_so() {
    let dir = tempfile::tempdir().unwrap();
    example_in(dir.path(), Some("2026-04-17/thought_records.0001.jsonl"));
    let store = Store::open(dir.path()).unwrap();
    store
        .change_settings(|settings| settings.retention.thought_records = Some(Keep::Days(1)))
        .unwrap();
    store.seal_at(1_776_470_400_000).unwrap();
    let options = RetainOptions {
        now: 1_776_902_400_000,
        ..RetainOptions::default()
    };
    store.retain(options).unwrap();
    let written = fs::read_to_string(dir.path().join("removals.jsonl")).unwrap();
    assert_eq!(written.lines().count(), 1, "{written}");
    // It contains the time of its creation, by the clock.
    let (start, rest) = written.split_once(",\"at\":").unwrap();
    let (_, rest) = rest.split_once(',').unwrap();
    let (rest, _) = rest.rsplit_once(",\"crc\"").unwrap();
    let covered = format!("{start},\"at\":1776902400000,{rest}");
    let crc = crc32fast::hash(covered.as_bytes());
    let written = format!("{covered},\"crc\":\"{crc:08x}\"}}\n");
    assert_eq!(block("json 2026-04-17/removals.jsonl"), written);
}

#[test]
fn the_proof_that_the_document_shows_is_made_so_and_holds() {
    let dir = tempfile::tempdir().unwrap();
    example_in(dir.path(), Some("2025-12-27/tool_calls.0001.jsonl"));
    let store = Store::open(dir.path()).unwrap();
    store.seal_at(1_766_966_400_000).unwrap();
    let key = Key::ToolCall {
        request_id: id(4),
        call_id: "call_a0".into(),
    };
    let proof = store.prove(&key).unwrap();
    let made = serde_json::to_string(&proof.unwrap()).unwrap();
    let shown = block("json proof");
    assert_eq!(shown, format!("{made}\n"));
    let shown: Proof = serde_json::from_str(shown).unwrap();
    shown.check(None).unwrap();
    assert_eq!((shown.index, shown.lines, shown.path.len()), (2, 4, 2));
}

/// The rows of a kind's table: field names, and whether they are key or lookup fields.
fn table(kind: Kind) -> Vec<(&'static str, &'static str)> {
    let (_, section) = LAYOUT.split_once(&format!("\n### {kind}\n")).unwrap();
    let section = section.split("\n##").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let fields = rows.flat_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let place = cells[3].split(' ').next().unwrap();
        let names = cells[1].split('`').skip(1).step_by(2);
        names.map(move |name| (name, place))
    });
    fields.collect()
}

#[test]
fn the_document_lists_every_field_of_each_kind_with_its_place() {
    for kind in Kind::ALL {
        let (shown, schema) = (table(kind), kind.schema());
        let schema = serde_json::to_value(schema).unwrap();
        let fields = schema["fields"].as_array().unwrap();
        let mut names: Vec<&str> = fields.iter().map(|f| f["name"].as_str().unwrap()).collect();
        let mut listed: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
        for place in ["key", "lookup"] {
            let in_place = fields.iter().filter(|field| field["place"] == place);
            let expected: Vec<&str> = in_place.map(|f| f["name"].as_str().unwrap()).collect();
            let marked = shown.iter().filter(|(_, its)| *its == place);
            let marked: Vec<&str> = marked.map(|(name, _)| *name).collect();
            // The group of a rollup belongs to its key too.
            let marked = if kind == Kind::Rollups {
                &marked[..expected.len()]
            } else {
                &marked
            };
            assert_eq!(marked, expected, "{place} fields of {kind}");
        }
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, names, "{kind}");
    }
}
