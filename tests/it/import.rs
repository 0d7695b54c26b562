//! Sessions of other agents come into a store, once, and are found there as they were.

use std::path::{Path, PathBuf};

use decklog::import::{Importer, Report, named};
use decklog::{Store, ToolStatus};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn import(store: &Store, path: &Path) -> Report {
    let mut importer = Importer::new(store);
    importer.path(path).unwrap();
    importer.finish().unwrap()
}

fn held(report: &Report) -> Report {
    Report {
        added: 0,
        per_file: Vec::new(),
        ..report.clone()
    }
}

#[test]
fn the_samples_come_in_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    the_samples_come_into_a_new_store(&path);
    let store = Store::open(&path).unwrap();
    for name in [
        "claude-code-session.jsonl",
        "claude-code-subagent.jsonl",
        "codex-rollout.jsonl",
    ] {
        assert_eq!(import(&store, &sample(name)).added, 0, "{name}");
    }
}

fn the_samples_come_into_a_new_store(path: &Path) {
    let store = Store::open(path).unwrap();
    let first = import(&store, &sample(""));
    assert_eq!(first.broken, []);
    assert_eq!((first.files, first.lines), (3, 83));
    assert_eq!(
        (first.turns, first.tool_calls, first.tool_results),
        (35, 9, 9)
    );
    assert_eq!(first.api_responses, 7);
    assert_eq!(first.tokens_in, 98785 + 487 + 26740);
    assert_eq!(first.tokens_out, 844 + 130 + 408);
    assert_eq!((first.conversations, first.messages), (3, 15 + 2 + 21));
    assert_eq!(first.added, 35 + 9 + 9 + 3 + 38);
    assert_eq!(first.not_understood["file-history-snapshot"], 4);
    assert_eq!(first.not_understood["response_item.ghost_snapshot"], 2);
    assert_eq!(first.not_understood.len(), 2);

    let second = import(&store, &sample(""));
    assert_eq!(second.added, 0);
    assert_eq!(held(&second), held(&first));
}

#[test]
fn imported_calls_are_found_by_what_the_other_tool_called_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    import(&store, &sample(""));

    let call_id = "call_pBXH93fl6ZXH2svDOFIlr8GA";
    let found = store.get_tool_call(named("codex:call", call_id), call_id);
    let (req, done) = found.unwrap().unwrap();
    assert_eq!(req.tool_name, "apply_patch");
    assert_eq!(
        req.arguments_json.as_deref(),
        Some("*** Begin Patch\n*** Add File: myapp/hoge.py\n+print(1 + 1)\n*** End Patch")
    );
    let done = done.unwrap();
    assert_eq!(done.status, ToolStatus::Completed);
    assert_eq!(done.latency_ms, 1057);
    assert_eq!(
        done.outcome_json.as_deref(),
        Some(
            "{\"output\":\"Success. Updated the following files:\\nA myapp/hoge.py\\n\",\
             \"metadata\":{\"exit_code\":0,\"duration_seconds\":1.0}}"
        )
    );

    let call_id = "toolu_01GLEN5BsyXUTQaQV2fdQ9ea";
    let found = store.get_tool_call(named("claude-code:tool_use", call_id), call_id);
    let (req, done) = found.unwrap().unwrap();
    assert_eq!(
        req.arguments_json.as_deref(),
        Some(
            "{\"command\":\"cd myapp && python hoge.py\",\
             \"description\":\"Change to myapp directory and run hoge.py\"}"
        )
    );
    let done = done.unwrap();
    assert_eq!(done.status, ToolStatus::Failed);
    let words = "error: target shim binary not found";
    assert_eq!(done.error_msg.as_deref(), Some(words));
    assert_eq!(done.outcome_json.as_deref(), Some(words));
}

#[test]
fn a_later_import_finds_the_call_of_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let whole = std::fs::read_to_string(sample("codex-rollout.jsonl")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.contains("custom_tool_call_output"))
        .unwrap();
    // The session was still running at the first import.
    let path = dir.path().join("rollout.jsonl");
    std::fs::write(&path, lines[..at].join("\n")).unwrap();
    let first = import(&store, &path);
    assert_eq!((first.tool_calls, first.tool_results), (2, 1));
    std::fs::write(&path, &whole).unwrap();
    let second = import(&store, &path);
    assert_eq!(second.broken, []);
    // The call at the end of the first import had no usage yet: that came as one message more.
    assert_eq!((first.messages, second.messages), (7, 21));
    assert_eq!(first.added + second.added, 11 + 5 + 5 + 1 + 21);
}

#[test]
fn what_a_person_took_back_stays_so_when_the_session_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let import = || {
        let mut importer = Importer::new(&store);
        importer.path(&samples).unwrap();
        importer.finish().unwrap()
    };
    import();
    let turns = store.turns(&decklog::TurnQuery::default()).unwrap().items;
    let mut wrong = turns[3].clone();
    wrong.created_at = decklog::Validity::retracted(wrong.created_at.at);
    store.record(wrong).unwrap();
    assert_eq!(import().added, 0);
    assert_eq!(
        store
            .turns(&decklog::TurnQuery::default())
            .unwrap()
            .items
            .len(),
        turns.len() - 1
    );
}
