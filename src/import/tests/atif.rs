//! Documents of ATIF that other programs wrote, and damaged ones.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::log::MemoryLog;
use super::{broken, counts, held, import_path, sample};
use crate::import::{Format, Importer, Report};
use crate::record::{Role, ToolStatus, TurnKind};

fn fixture() -> std::path::PathBuf {
    sample("atif/made-by-hand.json")
}

/// Imports a document as a file of this name.
fn import_text(log: &MemoryLog, name: &str, text: &str) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    import_path(log, &path)
}

#[test]
fn a_document_becomes_conversations_messages_turns_and_calls() {
    let log = MemoryLog::default();
    let report = import_path(&log, &fixture());
    assert_eq!(broken(&report), []);
    assert_eq!((report.files, report.lines, report.repeated), (1, 7, 1));
    assert_eq!((report.conversations, report.messages), (2, 9));
    assert_eq!((report.turns, report.api_responses), (9, 3));
    assert_eq!((report.tool_calls, report.tool_results), (2, 2));
    assert_eq!((report.tokens_in, report.tokens_out), (1017, 53));
    let split = [
        report.tokens_cache_write,
        report.tokens_cache_read,
        report.tokens_reasoning,
    ];
    assert_eq!(split, [100, 600, 20]);
    assert_eq!(
        counts(&report),
        [
            ("assistant.reasoning_effort", 1),
            ("assistant.tool_call.extra", 1),
            ("system.agent.extra", 1),
            ("system.notes", 1),
            ("tool.result.extra", 1),
            ("user.image", 1),
        ]
    );
    let talks = log.conversations();
    assert_eq!(talks.len(), 2);
    assert_eq!(talks[0].session_id.as_deref(), Some("run-1"));
    assert_eq!(talks[1].parent_id, Some(talks[0].id));
    assert_eq!(talks[1].parent_call_id.as_deref(), Some("call_2"));
    let messages = log.messages();
    let said: Vec<(Role, &str, i64)> = messages
        .iter()
        .map(|it| {
            let text = it.tool_result.as_deref().unwrap_or(&it.content);
            (it.role, text, it.timestamp.at() - 1_772_359_200_000)
        })
        .collect();
    assert_eq!(
        said,
        [
            (Role::System, "You are an agent.", 0),
            (Role::User, "What is in this picture?", 1_000),
            (
                Role::Assistant,
                "I look.\n\n[tool_use ask_agent call_2]",
                5_250
            ),
            (Role::Tool, "ls: no such file", 5_250),
            (Role::Tool, "A cat.", 5_250),
            (Role::Tool, "terminal: $", 5_250),
            (Role::Assistant, "A cat.", 5_250),
            (Role::User, "Look at 1.png", 6_000),
            (Role::Assistant, "A cat.", 7_000),
        ]
    );
    let look = &messages[2];
    assert_eq!(look.reasoning.as_deref(), Some("Two steps."));
    assert_eq!(look.model_used.as_deref(), Some("gpt-5.1-mini"));
    assert_eq!(look.cost_usd, Some(0.25));
    assert!(look.inference_metadata.as_ref().unwrap().contains("[1,2]"));
    assert_eq!(messages[6].model_used.as_deref(), Some("gpt-5.1"));
    let (req, done) = log.call("call_1").unwrap();
    let arguments = r#"{"keystrokes": "ls\n", "n": 1.0}"#;
    assert_eq!(req.arguments_json.as_deref(), Some(arguments));
    let done = done.unwrap();
    assert_eq!(done.status, ToolStatus::Failed);
    assert_eq!(done.error_msg.as_deref(), Some("ls: no such file"));
    let kinds: Vec<TurnKind> = log.turns().iter().map(|turn| turn.kind).collect();
    assert_eq!(
        kinds[..3],
        [TurnKind::System, TurnKind::User, TurnKind::Assistant]
    );

    let again = import_path(&log, &fixture());
    assert_eq!(again.added, 0);
    assert_eq!(held(&again), held(&report));
}

#[test]
fn a_document_that_grew_adds_what_is_new_and_one_that_is_cut_is_read_later() {
    let whole = fs::read_to_string(fixture()).unwrap();
    let document: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let once = MemoryLog::default();
    // Arguments are kept byte for byte, so all versions are written in the same way.
    let whole = document.to_string();
    import_text(&once, "trajectory.json", &whole);
    let log = MemoryLog::default();
    for steps in 1..=5 {
        let mut part = document.clone();
        part["steps"].as_array_mut().unwrap().truncate(steps);
        part.as_object_mut()
            .unwrap()
            .remove("subagent_trajectories");
        let report = import_text(&log, "trajectory.json", &part.to_string());
        assert_eq!(broken(&report), [], "{steps}");
    }
    let cut = import_text(&log, "trajectory.json", &whole[..whole.len() - 40]);
    assert_eq!((cut.unfinished, cut.added), (1, 0));
    import_text(&log, "trajectory.json", &whole);
    assert_eq!(log.content(), once.content());
}

#[test]
fn a_document_is_found_by_what_it_says_and_in_folders_by_its_name() {
    let text = fs::read_to_string(fixture()).unwrap();
    let log = MemoryLog::default();
    assert_eq!(import_text(&log, "any.txt", &text).messages, 9);
    let agent = Format::Atif.agent();
    for (name, is_read) in [
        ("trajectory.json", true),
        ("trajectory.cont-1.json", true),
        ("one.atif.json", true),
        ("all.atif.jsonl", true),
        ("package.json", false),
        ("trajectory.txt", false),
    ] {
        assert_eq!(agent.is_source(Path::new(name)), is_read, "{name}");
    }
}

#[test]
fn a_document_without_any_time_is_reported() {
    let text = r#"{"schema_version":"ATIF-v1.4","session_id":"s","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"user","message":"x"}]}"#;
    let report = import_text(&MemoryLog::default(), "trajectory.json", text);
    assert_eq!(broken(&report), [(1, "no step has a timestamp")]);
}

proptest! {
    #[test]
    fn any_damage_is_reported_and_a_second_import_adds_nothing(
        harms in prop::collection::vec((any::<usize>(), any::<u8>(), any::<bool>()), 0..6),
    ) {
        let mut bytes = fs::read(fixture()).unwrap();
        for (place, byte, cuts) in harms {
            let place = place % bytes.len().max(1);
            if cuts {
                bytes.truncate(place.max(200));
            } else if let Some(old) = bytes.get_mut(place) {
                *old = byte;
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trajectory.json");
        fs::write(&path, &bytes).unwrap();
        let log = MemoryLog::default();
        let import = || {
            let mut importer = Importer::over(&log).format(Some(Format::Atif));
            importer.path(&path).unwrap();
            importer.finish().unwrap()
        };
        let first = import();
        let second = import();
        prop_assert_eq!(second.added, 0);
        prop_assert_eq!(held(&second), held(&first));
    }
}
