//! `decklog hook`: it logs what an agent says, and never stops the agent.

#![cfg(unix)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use decklog::query::EventQuery;
use decklog::{Event, Store};
use serde_json::Value;

fn run(log: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_decklog"))
        .arg("--store")
        .arg(log)
        .arg("hook")
        .args(arguments)
        .env("HOME", log.parent().unwrap())
        .env_remove("CLAUDE_CONFIG_DIR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    // It may end before it read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Runs a hook; returns what it said on standard error.
fn hook(log: &Path, arguments: &[&str], input: &[u8]) -> String {
    let output = run(log, arguments, input);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.lines().count() <= 1, "{said}");
    said
}

fn events(log: &Path) -> Vec<Event> {
    let store = Store::options().read_only(true).open(log).unwrap();
    store.events(&EventQuery::default()).unwrap().items
}

#[test]
fn a_hook_is_an_event_with_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let input =
        r#"{"session_id":"s1",  "hook_event_name":"PreToolUse","tool_input":{"b":1.50,"a":[]}}"#;
    assert_eq!(hook(&log, &[], format!("{input}\n").as_bytes()), "");
    let codex = r#"{"type":"agent-turn-complete","turn-id":"1"}"#;
    assert_eq!(hook(&log, &[codex], b""), "");
    let mut found = events(&log);
    found.sort_by_key(|event| event.id);
    let found: Vec<_> = found
        .iter()
        .map(|it| (&*it.event_type, it.payload.as_deref()))
        .collect();
    let expected = [
        ("hook.pre_tool_use", Some(input)),
        ("hook.agent_turn_complete", Some(codex)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_cannot_be_logged_stops_no_agent() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    for bad in [&b"nonsense"[..], b"", b"[1]", b"{\"a\":", b"\xff{}"] {
        assert!(hook(&log, &[], bad).starts_with("decklog: not logged: "));
    }
    assert!(hook(&log, &["--unknown"], b"{}").contains("--unknown") || log.exists());
    let huge = vec![b' '; (16 << 20) + 2];
    assert!(hook(&log, &[], &huge).contains("longer than 16 MiB"));
    // A response that no line can hold.
    let escaped = "\\u0001".repeat(2_700_000);
    let long = format!("{{\"hook_event_name\":\"PostToolUse\",\"tool_response\":\"{escaped}\"}}");
    let said = hook(&log, &[], long.as_bytes());
    let [event] = &events(&log)[..] else {
        panic!("{said}")
    };
    assert_eq!(event.event_type, "hook.post_tool_use");
    // A file in place of the directory.
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(hook(&file, &[], b"{}").starts_with("decklog: not logged: "));
}

#[test]
fn a_locked_store_is_waited_for_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    hook(&log, &[], b"{}");
    let lock = fs::File::options().write(true).open(log.join("LOCK"));
    let Ok(lock) = lock else {
        panic!("{:?}", fs::read_dir(&log).unwrap().collect::<Vec<_>>())
    };
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let began = Instant::now();
    let said = hook(&log, &[], b"{}");
    assert!(said.starts_with("decklog: not logged: "), "{said}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_hooks_are_added_to_the_settings_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let folder = dir.path().join(".claude");
    fs::create_dir(&folder).unwrap();
    let (file, copy) = (
        folder.join("settings.json"),
        folder.join("settings.json.bak"),
    );
    let before = "{\n  \"z\": 1,\n  \"a\": {\"x\":   2}\n}\n";
    fs::write(&file, before).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&log, &["--install"], b"").status.code(), Some(0));
    }
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("{\n  \"z\": 1,\n  \"a\": {\"x\":   2},\n"),
        "{text}"
    );
    let settings: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(settings["hooks"]["Stop"].as_array().unwrap().len(), 1);
    assert_eq!(fs::read_to_string(&copy).unwrap(), before);
    assert_eq!(run(&log, &["--uninstall"], b"").status.code(), Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    fs::write(&file, "{").unwrap();
    assert_eq!(run(&log, &["--install"], b"").status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), "{");
}
