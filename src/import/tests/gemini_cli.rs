//! Chat files of Gemini CLI.

use serde_json::{Value, json};

use super::agents::{bytes, folder, lines_that_grow, sizes, tokens, versions_that_grow};
use super::counts;
use super::log::MemoryLog;
use crate::import::foreign_id;
use crate::record::TurnKind;

const SESSION: &str = "6a1b8e02-3c5d-4f7e-9a0b-1c2d3e4f5a6b";

/// Versions of a document as it grew: without the tokens and calls of its last message, with calls
/// that have no result, and whole.
fn versions(document: &Value) -> Vec<Vec<u8>> {
    let messages = document["messages"].as_array().unwrap();
    let mut versions = Vec::new();
    for count in 0..=messages.len() {
        let mut cut = document.clone();
        cut["messages"] = json!(&messages[..count]);
        let whole = cut.to_string().into_bytes();
        if let Some(last) = cut["messages"].as_array_mut().unwrap().last_mut() {
            for call in last["toolCalls"].as_array_mut().into_iter().flatten() {
                call["status"] = json!("executing");
                call["result"] = Value::Null;
            }
            let open = cut.to_string().into_bytes();
            let last = cut["messages"].as_array_mut().unwrap().last_mut().unwrap();
            let last = last.as_object_mut().unwrap();
            last.remove("toolCalls");
            last.remove("tokens");
            versions.extend([cut.to_string().into_bytes(), open]);
        }
        versions.extend([whole[..whole.len() / 2].to_vec(), whole]);
    }
    versions
}

#[test]
fn a_document_that_grows_comes_to_what_it_is_whole() {
    let sample = bytes("gemini-cli/session.json");
    let sample: Value = serde_json::from_slice(&sample).unwrap();
    let versions = versions(&sample);
    let sample = sample.to_string().into_bytes();
    let versions: Vec<&[u8]> = versions.iter().map(Vec::as_slice).collect();
    let name = "ab12/chats/session-2025-12-09T19-51-f0a689a6.json";
    let (log, report) = versions_that_grow(name, &versions, &sample);
    assert_eq!(report.broken, []);
    assert_eq!((report.lines, report.unfinished), (9, 0));
    assert_eq!(sizes(&report), [19, 5, 5, 1, 26, 7]);
    assert_eq!(tokens(&report), [67273, 677, 0, 43377, 377]);
    assert_eq!(counts(&report), []);
    let [talk] = &log.conversations()[..] else {
        panic!("one conversation");
    };
    assert_eq!(
        talk.session_id.as_deref(),
        Some("f0a689a6-b0ac-407f-afcc-4fafa9e14e8a")
    );
    let first = "add myapp directory and create myapp/hoge.py which shows result of print(1+1).";
    assert_eq!(talk.title.as_deref(), Some(first));
}

#[test]
fn a_document_that_is_being_written_is_unfinished() {
    let sample = bytes("gemini-cli/session.json");
    let log = MemoryLog::default();
    let name = "chats/session-1.json";
    let report = folder(&log, &[(name, &sample[..9000])]);
    assert_eq!(
        (report.broken.len(), report.unfinished, report.added),
        (0, 1, 0)
    );
    let mut open: Value = serde_json::from_slice(&sample).unwrap();
    open["messages"][1]["toolCalls"][0]["status"] = json!("executing");
    let report = folder(&log, &[(name, open.to_string().as_bytes())]);
    assert_eq!((report.broken.len(), report.unfinished), (0, 1));
    assert_eq!((report.tool_calls, report.tool_results), (5, 4));
    let report = folder(
        &log,
        &[("chats/session-2.json", b"{\"sessionId\":1,\"messages\":7}x")],
    );
    assert_eq!((report.broken.len(), report.unfinished), (1, 0));
}

#[test]
fn the_lines_of_a_message_that_changes_are_one_message() {
    let (log, report) =
        lines_that_grow("ab/chats/session-1.jsonl", &bytes("gemini-cli/chat.ndjson"));
    assert_eq!(report.broken, []);
    assert_eq!(sizes(&report), [12, 2, 2, 1, 14, 3]);
    assert_eq!(tokens(&report), [18_305, 105, 0, 15_000, 35]);
    assert_eq!(counts(&report), [("hint", 1), ("user.inlineData", 1)]);
    assert_eq!(log.failed_calls(), ["run_shell_command-1777881844000-bbbb"]);
    let [talk] = &log.conversations()[..] else {
        panic!("one conversation");
    };
    assert_eq!(talk.title.as_deref(), Some("Find the port of the server"));
    // The step back makes the error follow the message before the prompt that was taken back.
    let turns = log.turns();
    let of = |content: &str| turns.iter().find(|turn| turn.content == content).unwrap();
    assert_eq!(
        of("Quota exceeded").parent_id,
        Some(of("In config.toml.").id)
    );
    assert_eq!(of("Quota exceeded").kind, TurnKind::SysInfo);
    let reasons: Vec<_> = log
        .messages()
        .into_iter()
        .filter_map(|it| it.reasoning)
        .collect();
    assert_eq!(
        reasons,
        ["Search: The port is in a file.", "Answer: Say it."]
    );
}

#[test]
fn a_sub_agent_names_its_session_by_its_folder() {
    let log = MemoryLog::default();
    let agent = "codebase_investigator-x1y2z3";
    let files = [
        (
            "ab/chats/session-1.jsonl".to_owned(),
            bytes("gemini-cli/chat.ndjson"),
        ),
        (
            format!("ab/chats/{SESSION}/{agent}.jsonl"),
            bytes("gemini-cli/subagent.ndjson"),
        ),
        (
            "ab/.project_root".to_owned(),
            b"/home/dev/server\n".to_vec(),
        ),
        ("ab/logs.json".to_owned(), b"[]".to_vec()),
    ];
    let files: Vec<_> = files
        .iter()
        .map(|(name, bytes)| (&**name, &**bytes))
        .collect();
    let report = folder(&log, &files);
    assert_eq!((report.files, report.conversations), (2, 2));
    let main = foreign_id("gemini-cli:session", SESSION);
    let talks = log.conversations();
    let of = talks.iter().find(|it| it.parent_id.is_some()).unwrap();
    assert_eq!(of.id, foreign_id("gemini-cli:session", agent));
    assert_eq!(of.parent_id, Some(main));
    let call = "codebase_investigator-1777881844000-aaaa";
    assert_eq!(of.parent_call_id.as_deref(), Some(call));
    assert_eq!(of.session_id.as_deref(), Some(SESSION));
    assert_eq!(of.title.as_deref(), Some("Find the port"));
    for talk in &talks {
        assert_eq!(talk.workspace.as_deref(), Some("/home/dev/server"));
    }
    assert_eq!(log.sums(of.id), (500, 6, 3));
}

#[test]
fn a_cached_prompt_may_be_beside_the_input() {
    let line = |total: u64| {
        json!({"id": format!("g{total}"), "timestamp": "2024-01-01T10:00:00Z", "type": "gemini",
            "tokens": {"input": 1500, "output": 200, "cached": 100, "thoughts": 50, "total": total}})
    };
    let start = json!({"sessionId": "s", "projectHash": "h"});
    let text = format!("{start}\n{}\n{}\n", line(1750), line(1850));
    let report = folder(&MemoryLog::default(), &[("x.jsonl", text.as_bytes())]);
    assert_eq!(tokens(&report), [1500 + 1600, 500, 0, 200, 100]);
}
