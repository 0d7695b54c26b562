//! The history that a new user has: sessions of Claude Code and Codex, as they come in.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The sessions in `tests/data`.
fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// What a command of decklog prints; it succeeds.
fn run(store: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_decklog"))
        .env("DECKLOG_STORE", store)
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A store with the sessions of a file or folder.
fn imported(from: &Path) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("log");
    run(&store, &["import", from.to_str().unwrap()]);
    (dir, store)
}

#[test]
fn the_tokens_of_both_tools_are_told_apart() {
    let (_dir, store) = imported(&samples());
    let usage: Value = serde_json::from_str(&run(
        &store,
        &["stats", "usage", "--bucket", "all", "--json"],
    ))
    .unwrap();
    let total = |field: &str| usage["total"][field].as_u64().unwrap();
    assert_eq!(total("tokens_in"), 98785 + 487 + 26740);
    assert_eq!(total("tokens_input"), 74 + 487 + (26740 - 22912));
    assert_eq!(total("tokens_cache_write"), 5158);
    assert_eq!(total("tokens_cache_read"), 93553 + 22912);
    assert_eq!(total("tokens_out"), 844 + 130 + 408);
    assert_eq!(total("tokens_reasoning"), 128);
    let table = run(&store, &["stats", "usage", "--bucket", "all"]);
    let heading = table.lines().next().unwrap();
    for column in ["INPUT", "CACHE WRITE", "CACHE READ", "REASONING"] {
        assert!(heading.contains(column), "{heading}");
    }
    assert!(table.contains("116,465"), "{table}");
}
