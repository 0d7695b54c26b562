//! Lines of newer versions of Codex, and small rollouts.

use super::agents::{bytes, folder, lines_that_grow, sizes, tokens};
use super::log::MemoryLog;
use super::{broken, counts};
use crate::record::{ToolStatus, TurnKind};

fn said(log: &MemoryLog) -> Vec<(TurnKind, String)> {
    let turns = log.turns().into_iter();
    turns.map(|turn| (turn.kind, turn.content)).collect()
}

fn turns(expected: &[(TurnKind, &str)]) -> Vec<(TurnKind, String)> {
    let owned = expected
        .iter()
        .map(|(kind, text)| (*kind, (*text).to_owned()));
    owned.collect()
}

#[test]
fn lines_of_the_newest_version_are_read() {
    let (log, report) = lines_that_grow("rollout-x.jsonl", &bytes("codex/newest.ndjson"));
    assert_eq!(broken(&report), []);
    assert_eq!(
        counts(&report),
        [
            ("realtime_item.gesture", 1),
            ("response_item.image_generation_call.image", 1)
        ]
    );
    let (user, info, assistant) = (TurnKind::User, TurnKind::SysInfo, TurnKind::Assistant);
    let review =
        "<user_action>\n<action>review</action>\n<results>No issues.</results>\n</user_action>";
    assert_eq!(
        said(&log),
        turns(&[
            (user, "Which version of zstd is the newest?"),
            (info, "[reasoning]"),
            (info, "[reasoning]"),
            (assistant, "1.5.7."),
            (user, "Nothing was found."),
            (info, "changes against 'main'"),
            (user, review),
            (user, "Is it out yet?"),
            (assistant, "Yes, since February."),
            (info, "[thread_rolled_back 1]"),
        ])
    );
    // What the model thought is told twice, and kept once.
    let thoughts = log.messages().into_iter().filter_map(|it| it.reasoning);
    assert_eq!(
        thoughts.collect::<Vec<_>>(),
        ["1.5.7 looks right.", "**Comparing versions**"]
    );
    assert_eq!(sizes(&report), [10, 5, 5, 1, 18, 1]);
    let conversation = log.conversations().remove(0);
    assert_eq!(conversation.title.as_deref(), Some("The newest zstd"));
    assert_eq!(tokens(&report), [900, 70, 0, 600, 20]);
    let row = |id: &str| {
        let (req, done) = log.call(id).unwrap();
        let done = done.unwrap();
        (req.tool_name, req.arguments_json.unwrap(), done.status)
    };
    let call =
        |tool: &str, arguments: &str, status| (tool.to_owned(), arguments.to_owned(), status);
    assert_eq!(
        row("call_ts"),
        call(
            "tool_search",
            r#"{"query":"release notes","limit":3}"#,
            ToolStatus::Completed
        )
    );
    let (_, done) = log.call("call_ts").unwrap();
    assert_eq!(
        done.unwrap().outcome_json.as_deref(),
        Some(r#"[{"type":"function","name":"notes"}]"#)
    );
    assert_eq!(
        row("ws_1"),
        call(
            "web_search",
            r#"{"type":"search","query":"zstd releases"}"#,
            ToolStatus::Completed
        )
    );
    assert_eq!(
        row("ig_1"),
        call(
            "image_generation",
            r#"{"prompt":"A quince on a shelf"}"#,
            ToolStatus::Completed
        )
    );
    // A search without an id.
    assert_eq!(log.failed_calls().len(), 1);
}

#[test]
fn a_review_begins_with_what_is_to_be_reviewed() {
    let log = MemoryLog::default();
    let (parent, agent) = (
        bytes("codex/review-parent.ndjson"),
        bytes("codex/review-agent.ndjson"),
    );
    let report = folder(&log, &[("a.jsonl", &parent), ("b.jsonl", &agent)]);
    assert_eq!((broken(&report), counts(&report)), (vec![], vec![]));
    assert_eq!(
        said(&log),
        turns(&[
            (TurnKind::SysInfo, "Review the current code changes..."),
            (TurnKind::SysInfo, "Review the other changes..."),
        ])
    );
}

#[test]
fn small_rollouts_of_other_versions_are_read() {
    let (log, report) = lines_that_grow("rollout-x.jsonl", &bytes("codex/message.ndjson"));
    assert_eq!((broken(&report), counts(&report)), (vec![], vec![]));
    let answer = "blabla1\n\n> blabla2\n\nblabla3\n\n> blabla4\n\nblabla5";
    assert_eq!(
        said(&log),
        turns(&[
            (TurnKind::User, "blablabla?"),
            (TurnKind::Assistant, answer)
        ])
    );
    assert_eq!(sizes(&report), [2, 0, 0, 1, 2, 0]);

    let (log, report) = lines_that_grow("rollout-x.jsonl", &bytes("codex/call.ndjson"));
    assert_eq!((broken(&report), counts(&report)), (vec![], vec![]));
    assert_eq!(said(&log), turns(&[(TurnKind::User, "send input")]));
    assert_eq!(sizes(&report), [1, 1, 0, 1, 2, 0]);
    let (req, done) = log.call("call_test").unwrap();
    assert_eq!(done, None);
    assert_eq!(
        req.arguments_json.as_deref(),
        Some(r#"{"chars":"yes\n","session_id":"sess-42"}"#)
    );
}

/// Codex compresses rollouts that were not used for a while.
#[cfg(feature = "databases")]
#[test]
fn a_compressed_rollout_adds_nothing_to_what_it_was_before() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::import_path;

    let plain = bytes("codex/newest.ndjson");
    let packed = compress_to_vec(&plain[..], CompressionLevel::Fastest);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollout-x.jsonl");
    std::fs::write(&path, &plain).unwrap();
    let log = MemoryLog::default();
    let first = import_path(&log, dir.path());
    std::fs::remove_file(&path).unwrap();
    let path = dir.path().join("rollout-x.jsonl.zst");
    std::fs::write(&path, &packed).unwrap();
    let second = import_path(&log, dir.path());
    assert_eq!(
        (second.files, second.lines, second.added),
        (1, first.lines, 0)
    );
    assert_eq!(
        (sizes(&second), tokens(&second)),
        (sizes(&first), tokens(&first))
    );
    assert_eq!(counts(&second), counts(&first));

    let alone = MemoryLog::default();
    import_path(&alone, dir.path());
    assert!(alone.content() == log.content());

    std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let damaged = import_path(&MemoryLog::default(), dir.path());
    assert!(broken(&damaged)[0].1.contains("decompress"), "{damaged:?}");
}
