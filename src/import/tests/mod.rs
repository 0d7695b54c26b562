//! End-to-end import from files to a log: real files and special cases.

// A `json!` as an argument reads best without `&`.
#![allow(clippy::needless_pass_by_value)]

mod agents;
mod aider;
mod atif;
mod checkpoint_faults;
mod checkpoints;
mod claude_code;
mod claude_code_other;
mod cline;
mod codex;
mod codex_other;
mod copilot_cli;
mod cuts;
mod files;
mod forks;
mod gemini_cli;
#[cfg(feature = "databases")]
mod goose;
#[cfg(feature = "databases")]
mod inspect;
mod log;
mod messages;
mod mutilated;
mod opencode;
mod pi;
mod qwen_code;
mod rollouts;
mod sources;
#[cfg(feature = "databases")]
mod zed;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::batch::Log;
use super::{Importer, Report};
use log::MemoryLog;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// Imports one file with these lines.
fn import(log: &dyn Log, lines: &[&str]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session.jsonl");
    fs::write(&path, lines.join("\n")).unwrap();
    import_path(log, &path)
}

fn import_path(log: &dyn Log, path: &Path) -> Report {
    let mut importer = Importer::over(log);
    importer.path(path).unwrap();
    importer.finish().unwrap()
}

/// Line numbers and reasons of broken lines.
fn broken(report: &Report) -> Vec<(u64, &str)> {
    let broken = report.broken.iter();
    broken.map(|b| (b.line, b.reason.as_str())).collect()
}

fn counts(report: &Report) -> Vec<(&str, u64)> {
    let counts = report.not_understood.iter();
    counts.map(|(what, n)| (what.as_str(), *n)).collect()
}

/// Copies of a document, each with one value replaced by one of another type.
fn altered(document: &Value) -> Vec<Value> {
    fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Object(members) => {
                for (key, value) in members {
                    pointers(value, &format!("{at}/{key}"), found);
                }
            }
            Value::Array(items) => {
                for (n, value) in items.iter().enumerate() {
                    pointers(value, &format!("{at}/{n}"), found);
                }
            }
            _ => {}
        }
    }
    let others = [
        json!(null),
        json!(-7),
        json!("x"),
        json!([]),
        json!({}),
        json!(1e300),
        json!(true),
    ];
    let mut found = Vec::new();
    pointers(document, "", &mut found);
    let altered = found.iter().enumerate().filter_map(|(n, at)| {
        let mut other = document.clone();
        *other.pointer_mut(at)? = others[n % others.len()].clone();
        Some(other)
    });
    altered.collect()
}

/// A report without the fields that may differ between a first and a repeated import.
fn held(report: &Report) -> Report {
    Report {
        added: 0,
        per_file: Vec::new(),
        ..report.clone()
    }
}

#[test]
fn the_samples_hold_what_their_readme_says_and_a_second_import_adds_nothing() {
    let expected = [
        (
            "claude-code-session.jsonl",
            26,
            [22, 4, 4, 6, 22],
            98785,
            844,
        ),
        ("claude-code-subagent.jsonl", 2, [2, 0, 0, 1, 2], 487, 130),
        ("codex-rollout.jsonl", 55, [11, 5, 5, 7, 28], 26740, 408),
    ];
    let log = MemoryLog::default();
    for (name, lines, [turns, calls, results, responses, messages], tokens_in, tokens_out) in
        expected
    {
        let first = import_path(&log, &sample(name));
        assert_eq!(first.broken, [], "{name}");
        assert_eq!((first.files, first.lines), (1, lines), "{name}");
        assert_eq!(first.turns, turns, "{name}");
        assert_eq!(first.tool_calls, calls, "{name}");
        assert_eq!(first.tool_results, results, "{name}");
        assert_eq!(first.api_responses, responses, "{name}");
        assert_eq!(first.tokens_in, tokens_in, "{name}");
        assert_eq!(first.tokens_out, tokens_out, "{name}");
        assert_eq!(
            (first.conversations, first.messages),
            (1, messages),
            "{name}"
        );
        let added = turns + calls + results + 1 + messages;
        assert_eq!(first.added, added, "{name}");

        let second = import_path(&log, &sample(name));
        assert_eq!(second.added, 0, "{name}");
        assert_eq!(held(&second), held(&first), "{name}");
    }
    // Two commands of Codex report exit code 1 in their output.
    let failed = [
        "toolu_01GLEN5BsyXUTQaQV2fdQ9ea",
        "call_5j2yJgrbOClvto1R8nvfSoJS",
        "call_hm1XO5EQnKjpErxjNjpINQ2x",
    ];
    assert_eq!(log.failed_calls(), failed);
}

#[test]
fn a_folder_is_the_sum_of_its_files() {
    let log = MemoryLog::default();
    let report = import_path(&log, &sample(""));
    assert_eq!(report.files, 3);
    assert_eq!(report.tokens_in, 98785 + 487 + 26740);
    let split = [
        report.tokens_cache_write,
        report.tokens_cache_read,
        report.tokens_reasoning,
    ];
    assert_eq!(split, [5158, 93553 + 22912, 128]);
    assert_eq!(counts(&report), []);
    let lines: Vec<u64> = report.per_file.iter().map(|f| f.report.lines).collect();
    assert_eq!(lines, [26, 2, 55]);
    assert!(report.per_file[2].file.ends_with("codex-rollout.jsonl"));
}

#[test]
fn a_report_has_its_fields_and_no_others() {
    let log = MemoryLog::default();
    let report = import_path(&log, &sample("codex-rollout.jsonl"));
    let fields = "added api_responses broken conversations erased files left_out lines messages \
                  not_understood repeated tokens_cache_read tokens_cache_write tokens_in tokens_out \
                  tokens_reasoning tool_calls tool_results turns unchanged unfinished";
    let json = serde_json::to_value(&report).unwrap();
    let mut names: Vec<&String> = json.as_object().unwrap().keys().collect();
    names.sort();
    let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    assert_eq!(names.join(" "), fields);
    let json = serde_json::to_value(&report.per_file[0]).unwrap();
    assert!(json["file"].as_str().unwrap().ends_with("rollout.jsonl"));
    assert_eq!(json["lines"], 55);
}
