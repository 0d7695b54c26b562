//! Chat files of Qwen Code.

use serde_json::{Value, json};
use uuid::Uuid;

use super::agents::{bytes, folder, lines_that_grow, sizes, tokens};
use super::counts;
use super::log::MemoryLog;
use crate::import::{foreign_id, named};
use crate::record::{ToolStatus, TurnKind};

const SESSION: &str = "69f0814a-8bfc-4c8e-93d3-05757f17b96f";
const FORK: &str = "69f0814a-8bfc-4c8e-93d3-05757f17b970";

#[test]
fn a_real_chat_has_its_calls_and_tokens() {
    let name = format!("{SESSION}.jsonl");
    let (log, report) = lines_that_grow(&name, &bytes("qwen-code/session.ndjson"));
    assert_eq!(report.broken, []);
    assert_eq!(sizes(&report), [4, 1, 1, 1, 4, 2]);
    assert_eq!(tokens(&report), [1100, 25, 0, 50, 0]);
    assert_eq!(counts(&report), []);
    let [talk] = &log.conversations()[..] else {
        panic!("one conversation");
    };
    assert_eq!(talk.session_id.as_deref(), Some(SESSION));
    assert_eq!(talk.workspace.as_deref(), Some("/tmp/qwentest"));
    assert_eq!(talk.title.as_deref(), Some("List the files here."));
    let (call, done) = log.call("call_1").unwrap();
    assert_eq!(call.tool_name, "list_directory");
    assert_eq!(call.arguments_json.as_deref(), Some(r#"{"path":"."}"#));
    let done = done.unwrap();
    assert_eq!(done.status, ToolStatus::Failed);
    assert_eq!(done.error_msg.as_deref(), Some("Path must be absolute: ."));
    // The events between the messages are no turns.
    let turns = log.turns();
    for pair in turns.windows(2) {
        assert_eq!(pair[1].parent_id, Some(pair[0].id));
    }
}

fn uuid(n: u32) -> String {
    Uuid::from_u128(u128::from(n) + 1).to_string()
}

/// A line that follows the one with the number before.
fn line(n: u32, before: Option<u32>, own: Value) -> Value {
    let mut line = json!({"uuid": uuid(n), "parentUuid": before.map(uuid), "sessionId": SESSION,
        "timestamp": format!("2026-06-15T14:40:{n:02}.000Z"), "cwd": "/p", "gitBranch": "main"});
    let members = line.as_object_mut().unwrap();
    members.extend(own.as_object().unwrap().clone());
    line
}

fn user(n: u32, before: Option<u32>, text: &str) -> Value {
    let message = json!({"role": "user", "parts": [{"text": text}]});
    line(
        n,
        before,
        json!({"type": "user", "message": message, "provenance": "real_user"}),
    )
}

fn answer(n: u32, before: Option<u32>, parts: Value) -> Value {
    let usage = json!({"promptTokenCount": 100, "candidatesTokenCount": 7, "thoughtsTokenCount": 3,
        "totalTokenCount": 110, "cachedContentTokenCount": 40});
    let message = json!({"role": "model", "parts": parts});
    line(
        n,
        before,
        json!({"type": "assistant", "model": "qwen3", "message": message,
        "usageMetadata": usage}),
    )
}

fn event(n: u32, before: Option<u32>, subtype: &str, payload: Value) -> Value {
    line(
        n,
        before,
        json!({"type": "system", "subtype": subtype, "systemPayload": payload}),
    )
}

fn text(lines: &[Value]) -> String {
    let lines = lines.iter().map(Value::to_string);
    lines.map(|line| line + "\n").collect()
}

/// A chat with two calls, a summary, a failed request and a title.
fn chat() -> Vec<Value> {
    let call = |id: &str| json!({"functionCall": {"id": id, "name": "task", "args": {"a": 1}}});
    let result = |id: &str, response: Value| json!({"functionResponse": {"id": id, "name": "task", "response": response}});
    let results = json!({"role": "user", "parts": [
        result("call_a", json!({"output": "fine"})), result("call_b", json!({"x": 1}))]});
    let history = json!([{"role": "user", "parts": [{"text": "So far."}]}, {"role": "model"}]);
    vec![
        user(0, None, "Do it"),
        answer(
            1,
            Some(0),
            json!([{"text": "Hm.", "thought": true}, call("call_a"), call("call_b")]),
        ),
        line(
            2,
            Some(1),
            json!({"type": "tool_result", "message": results,
            "toolCallResult": {"status": "success"}}),
        ),
        event(
            3,
            Some(2),
            "chat_compression",
            json!({"info": {}, "compressedHistory": history}),
        ),
        event(
            4,
            Some(3),
            "ui_telemetry",
            json!({"uiEvent":
            {"event.name": "qwen-code.api_error", "error": "429 Too many requests"}}),
        ),
        event(
            5,
            Some(4),
            "file_history_snapshot",
            json!({"snapshots": []}),
        ),
        event(
            6,
            Some(5),
            "custom_title",
            json!({"customTitle": "The work", "titleSource": "auto"}),
        ),
        line(
            7,
            Some(6),
            json!({"type": "user", "subtype": "notification", "provenance": "system",
            "message": {"role": "user", "parts": [{"text": "Done in the background"}]}}),
        ),
        answer(8, Some(7), json!([{"text": "Done."}, {"inlineData": {}}])),
        event(9, Some(8), "realtime_message", json!({})),
        event(
            10,
            Some(9),
            "slash_command",
            json!({"phase": "invocation", "rawCommand": "/about"}),
        ),
    ]
}

#[test]
fn lines_of_the_client_are_notes_or_its_state() {
    let (log, report) = lines_that_grow("x.jsonl", text(&chat()).as_bytes());
    assert_eq!(report.broken, []);
    assert_eq!(sizes(&report), [9, 2, 2, 1, 9, 3]);
    assert_eq!(tokens(&report), [200, 20, 0, 80, 6]);
    assert_eq!(
        counts(&report),
        [("assistant.inlineData", 1), ("system.realtime_message", 1)]
    );
    assert_eq!(log.conversations()[0].title.as_deref(), Some("The work"));
    let turns = log.turns();
    let of = |text: &str| turns.iter().find(|turn| turn.content == text).unwrap();
    let background = of("Done in the background");
    assert_eq!(background.kind, TurnKind::SysInfo);
    assert_eq!(background.parent_id, Some(of("429 Too many requests").id));
    assert_eq!(of("So far.").parent_id, Some(of(r#"{"x":1}"#).id));
    let failed = log.messages();
    let failed = failed.iter().filter_map(|it| it.error.as_deref());
    assert_eq!(failed.collect::<Vec<_>>(), ["429 Too many requests"]);
}

#[test]
fn what_a_fork_repeats_is_counted_once() {
    let chat = chat();
    let mut fork: Vec<Value> = chat[..4].to_vec();
    for line in &mut fork {
        line["forkedFrom"] = json!({"sessionId": SESSION, "messageUuid": line["uuid"]});
    }
    fork.extend([
        user(20, Some(3), "Otherwise"),
        answer(21, Some(20), json!([{"text": "Yes."}])),
    ]);
    for line in &mut fork {
        line["sessionId"] = json!(FORK);
    }
    let (chat, fork) = (text(&chat), text(&fork));
    let name = format!("{SESSION}.jsonl");
    for fork_name in ["0.jsonl", "z.jsonl"] {
        let log = MemoryLog::default();
        let files = [(&*name, chat.as_bytes()), (fork_name, fork.as_bytes())];
        let report = folder(&log, &files);
        assert_eq!((report.broken.len(), report.repeated), (0, 4));
        assert_eq!(sizes(&report), [11, 2, 2, 2, 11, 4]);
        let id = foreign_id("qwen-code:session", FORK);
        assert_eq!(log.sums(id), (100, 10, 2));
        let talks = log.conversations();
        let of = talks.iter().find(|it| it.id == id).unwrap();
        assert_eq!(of.parent_id, Some(foreign_id("qwen-code:session", SESSION)));
        assert_eq!(of.title.as_deref(), Some("Otherwise"));
    }
    let log = MemoryLog::default();
    assert_eq!(
        sizes(&folder(&log, &[("f.jsonl", fork.as_bytes())])),
        [7, 2, 2, 1, 7, 2]
    );
    let rest = folder(&log, &[("p.jsonl", chat.as_bytes())]);
    assert_eq!(rest.broken, []);
    assert_eq!(log.usage().2, 4);
    lines_that_grow("f.jsonl", fork.as_bytes());
}

#[test]
fn a_sub_agent_has_its_own_conversation() {
    let mut lines = vec![
        user(1, None, "Find it"),
        answer(2, Some(1), json!([{"text": "There."}])),
    ];
    for line in &mut lines {
        let own = json!({"isSidechain": true, "agentId": "explore-7f3c", "agentName": "Explore"});
        line.as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
    }
    let (log, report) = lines_that_grow("explore-7f3c.jsonl", text(&lines).as_bytes());
    assert_eq!(sizes(&report), [2, 0, 0, 1, 2, 1]);
    let main = foreign_id("qwen-code:session", SESSION);
    let talk = &log.conversations()[0];
    assert_eq!(
        talk.id,
        named("qwen-code:agent", &format!("{main}:explore-7f3c"))
    );
    assert_eq!(talk.parent_id, Some(main));
    assert_eq!(talk.session_id.as_deref(), Some(SESSION));
    assert_eq!(talk.title.as_deref(), Some("Explore"));
}

#[test]
fn early_versions_wrote_the_documents_of_another_agent() {
    let log = MemoryLog::default();
    let document = bytes("gemini-cli/session.json");
    let report = folder(&log, &[(".qwen/tmp/ab/chats/session-1.json", &document)]);
    assert_eq!(sizes(&report), [19, 5, 5, 1, 26, 7]);
    let (call, _) = log.call("write_file-1765309936615-3e48006f9d7538").unwrap();
    assert_eq!(call.vendor, "qwen-code");
}
