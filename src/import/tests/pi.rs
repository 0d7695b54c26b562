//! Session files of pi.

use serde_json::{Value, json};

use super::agents::{bytes, folder, lines_that_grow, sizes, tokens};
use super::log::MemoryLog;
use super::{broken, counts};
use crate::import::foreign_id;
use crate::record::TurnKind;

const PARENT: &str = "d97339c6-6c10-4827-846b-9ff1d9c3dc37";
const FORK: &str = "ffae836b-9420-4060-ac13-7745215f90ff";

#[test]
fn a_session_of_the_first_version_has_no_ids() {
    let (log, report) = lines_that_grow("2025-11-20_x.jsonl", &bytes("pi/v1.ndjson"));
    assert_eq!(report.broken, []);
    assert_eq!(sizes(&report), [21, 12, 11, 1, 21, 7]);
    assert_eq!(tokens(&report), [90_745, 5399, 41_136, 49_578, 0]);
    assert_eq!(counts(&report), []);
    let [talk] = &log.conversations()[..] else {
        panic!("one conversation");
    };
    assert_eq!(
        talk.session_id.as_deref(),
        Some("d703a1a9-1b7b-4fb1-b512-c9738b1fe617")
    );
    assert_eq!(
        talk.workspace.as_deref(),
        Some("/Users/badlogic/workspaces/pi-mono")
    );
    assert_eq!(talk.title.as_deref(), Some("/mode"));
    let cost: f64 = log.messages().iter().filter_map(|it| it.cost_usd).sum();
    assert!((cost - 0.250_211_4).abs() < 1e-9, "{cost}");
    let failed = log.messages();
    let failed = failed.iter().find(|it| it.error.is_some()).unwrap();
    assert_eq!(failed.error.as_deref(), Some("Request was aborted"));
    assert_eq!(failed.model_used.as_deref(), Some("gpt-5.1-codex"));
}

#[test]
fn an_old_file_that_is_opened_again_adds_nothing() {
    let log = MemoryLog::default();
    let before = bytes("pi/compaction.ndjson");
    let report = folder(&log, &[("x.jsonl", &before)]);
    assert_eq!(report.broken, []);
    // Then the client gives each entry an id and the one before it.
    let lines = String::from_utf8(before).unwrap();
    let mut parent = Value::Null;
    let opened = lines.lines().enumerate().map(|(n, line)| {
        let id = format!("{n:08x}");
        let own = match n {
            0 => json!({"version": 3}),
            _ => json!({"id": id, "parentId": parent}),
        };
        if n > 0 {
            parent = json!(id);
        }
        let own = own.to_string();
        format!("{},{}\n", &line[..line.len() - 1], &own[1..])
    });
    let opened: String = opened.collect();
    let again = folder(&log, &[("x.jsonl", opened.as_bytes())]);
    assert_eq!(again.broken, []);
    assert_eq!(sizes(&again), sizes(&report));
    assert_eq!(again.added, 0);
}

#[test]
fn entries_that_are_not_messages_are_counted_or_known() {
    let name = "2025-01-01_pi-test-session-uuid.jsonl";
    let (log, report) = lines_that_grow(name, &bytes("pi/session.ndjson"));
    let [(10, reason)] = &broken(&report)[..] else {
        panic!("{:?}", report.broken);
    };
    assert!(reason.contains("not readable as JSON"), "{reason}");
    assert_eq!(sizes(&report), [6, 1, 1, 1, 6, 2]);
    assert_eq!(tokens(&report), [300, 60, 0, 0, 0]);
    assert_eq!(counts(&report), [("unknown_future_entry_type", 1)]);
    let [talk] = &log.conversations()[..] else {
        panic!("one conversation");
    };
    assert_eq!(
        talk.parent_id,
        Some(foreign_id("pi:session", "parent-uuid"))
    );
    let turns = log.turns();
    let summary = turns
        .iter()
        .find(|turn| turn.content.starts_with("# Context"))
        .unwrap();
    assert_eq!(summary.kind, TurnKind::SysInfo);
    // The change of the model between the two is no turn.
    assert_eq!(summary.parent_id, Some(turns[2].id));
    let reasons: Vec<_> = log
        .messages()
        .into_iter()
        .filter_map(|it| it.reasoning)
        .collect();
    assert_eq!(reasons, ["Let me analyze this carefully."]);
}

fn entry(id: &str, parent: Option<&str>, second: u32, own: Value) -> String {
    let mut entry = json!({"id": id, "parentId": parent, "timestamp": format!("2026-01-02T10:00:{second:02}.000Z")});
    let members = entry.as_object_mut().unwrap();
    members.extend(own.as_object().unwrap().clone());
    format!("{entry}\n")
}

fn said(id: &str, parent: Option<&str>, second: u32, text: &str) -> String {
    let message = json!({"role": "user", "content": text});
    entry(
        id,
        parent,
        second,
        json!({"type": "message", "message": message}),
    )
}

fn answered(id: &str, parent: Option<&str>, second: u32, text: &str) -> String {
    let usage = json!({"input": 10, "output": 2, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 19,
        "cost": {"total": 0.5}});
    let message = json!({"role": "assistant", "provider": "anthropic", "model": "m", "usage": usage,
        "content": [{"type": "text", "text": text}], "stopReason": "stop"});
    entry(
        id,
        parent,
        second,
        json!({"type": "message", "message": message}),
    )
}

fn header(id: &str, second: u32, parent: Option<&str>) -> String {
    let own = json!({"type": "session", "version": 3, "id": id, "cwd": "/p", "parentSession": parent,
        "timestamp": format!("2026-01-02T10:00:{second:02}.000Z")});
    format!("{own}\n")
}

/// A session with two branches, and a fork of it.
fn forked() -> (String, String) {
    let copied = [
        said("a1", None, 1, "First"),
        answered("a2", Some("a1"), 2, "One"),
    ]
    .concat();
    let parent = [
        header(PARENT, 0, None),
        copied.clone(),
        said("a3", Some("a2"), 3, "Second"),
        entry("a4", Some("a2"), 4, json!({"type": "branch_summary", "fromId": "a3", "summary": "Tried."})),
        entry("a5", Some("a4"), 5, json!({"type": "label", "targetId": "a1", "label": "x"})),
        answered("a6", Some("a5"), 6, "Two"),
        entry("a7", Some("a6"), 7, json!({"type": "session_info", "name": "The work"})),
        entry("a8", Some("a7"), 8, json!({"type": "custom_message", "customType": "e", "content": "Context", "display": true})),
    ]
    .concat();
    let path = format!("/gone/2026-01-02T10-00-00-000Z_{PARENT}.jsonl");
    let fork = [
        header(FORK, 20, Some(&path)),
        copied,
        said("b1", Some("a2"), 21, "Otherwise"),
        answered("b2", Some("b1"), 22, "Three"),
    ]
    .concat();
    (parent, fork)
}

#[test]
fn a_tree_of_entries_is_a_tree_of_turns() {
    let (log, report) = lines_that_grow("x.jsonl", forked().0.as_bytes());
    assert_eq!(sizes(&report), [6, 0, 0, 1, 6, 2]);
    assert_eq!(tokens(&report), [34, 4, 8, 6, 0]);
    let turns = log.turns();
    let of = |text: &str| turns.iter().find(|turn| turn.content == text).unwrap();
    assert_eq!(of("Second").parent_id, Some(of("One").id));
    assert_eq!(of("Tried.").parent_id, Some(of("One").id));
    assert_eq!(of("Two").parent_id, Some(of("Tried.").id));
    assert_eq!(of("Context").kind, TurnKind::SysInfo);
    assert_eq!(log.conversations()[0].title.as_deref(), Some("The work"));
}

#[test]
fn what_a_fork_repeats_is_counted_once_in_any_order() {
    let (parent, fork) = forked();
    let parent_name = format!("2026-01-02T10-00-00-000Z_{PARENT}.jsonl");
    let own = |name: &str| [(name.to_owned(), fork.clone())];
    for name in ["1.jsonl", "3.jsonl"] {
        let log = MemoryLog::default();
        let mut files = own(name).to_vec();
        files.push((parent_name.clone(), parent.clone()));
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(name, text)| (&**name, text.as_bytes()))
            .collect();
        let report = folder(&log, &files);
        assert_eq!((report.broken.len(), report.repeated), (0, 2), "{name}");
        assert_eq!(sizes(&report), [8, 0, 0, 2, 8, 3], "{name}");
        assert_eq!(tokens(&report), [51, 6, 12, 9, 0], "{name}");
        let fork = foreign_id("pi:session", FORK);
        assert_eq!(log.sums(fork), (17, 2, 2), "{name}");
        let talks = log.conversations();
        let of = talks.iter().find(|it| it.id == fork).unwrap();
        assert_eq!(of.parent_id, Some(foreign_id("pi:session", PARENT)));
        assert_eq!(of.title.as_deref(), Some("Otherwise"));
        let turns = log.turns();
        let turn = |text: &str| turns.iter().find(|turn| turn.content == text).unwrap();
        assert_eq!(turn("Otherwise").parent_id, Some(turn("One").id));
    }
    // Without its parent, the fork has all of it. The parent then adds only the rest.
    let log = MemoryLog::default();
    assert_eq!(
        sizes(&folder(&log, &[("f.jsonl", fork.as_bytes())])),
        [4, 0, 0, 1, 4, 2]
    );
    let rest = folder(&log, &[("p.jsonl", parent.as_bytes())]);
    assert_eq!((rest.broken.len(), rest.added), (0, 9));
    assert_eq!(log.usage(), (51, 6, 3));
    lines_that_grow("f.jsonl", fork.as_bytes());
}
