//! `data-layout.md` is exact: the example store that it shows is what this version writes, byte
//! for byte, and opens. So does every store that a released version left behind.

use std::fs;
use std::path::Path;

use decklog::storage::Disk;
use decklog::{
    ConversationTurn, ObservabilityStore, Store, ToolCallDone, ToolCallReq, ToolStatus, TurnKind,
    Validity, args_sha256, verify,
};
use uuid::Uuid;

const LAYOUT: &str = include_str!("../../data-layout.md");

/// The files that the document shows, by name: blocks that begin with ```` ```jsonl FILE ````.
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

fn write_example(store: &Store) {
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
}

#[test]
fn the_document_shows_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    write_example(&store);
    let examples = examples();
    assert_eq!(examples.len(), 3, "the document shows three files");
    for (file, shown) in examples {
        let written = fs::read_to_string(dir.path().join(file)).unwrap();
        assert_eq!(shown, written, "{file}");
    }
}

#[test]
fn the_document_opens_as_a_store() {
    let dir = tempfile::tempdir().unwrap();
    for (file, shown) in examples() {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, shown).unwrap();
    }
    check_example(dir.path());
}

/// Stores that released versions wrote, each in a directory named for its version.
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
    assert_eq!(found.good_lines, 6);
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
    // And it goes on from there.
    write_example(&store);
    assert!(verify(&Disk::new(path)).unwrap().is_clean());
}
