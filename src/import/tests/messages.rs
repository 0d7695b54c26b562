//! Messages made of lines, and the attribution of their tokens.

use serde_json::{Value, json};
use uuid::Uuid;

use super::log::MemoryLog;
use super::{broken, counts, import};
use crate::import::Report;
use crate::import::ids::{foreign_id, named};
use crate::record::{Client, ConversationMessage, ConversationStatus, Role, Source};

fn base(kind: &str, uuid: &str, message: Value) -> Value {
    json!({
        "type": kind, "uuid": uuid, "parentUuid": null, "sessionId": "s1", "cwd": "/home/me/ship",
        "timestamp": "2025-12-09T19:47:01.000Z", "message": message,
    })
}

pub(super) fn user(uuid: &str, text: &str) -> Value {
    base("user", uuid, json!({"role": "user", "content": text}))
}

pub(super) fn answer(uuid: &str, response: &str, block: Value, input: u64, output: u64) -> Value {
    let usage = json!({"input_tokens": input, "output_tokens": output});
    let message = json!({"id": response, "model": "m1", "content": [block], "usage": usage});
    base("assistant", uuid, message)
}

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub(super) fn call(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {"a": 1}})
}

pub(super) fn result(uuid: &str, call: &str) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": call, "content": "out"});
    base("user", uuid, json!({"content": [block]}))
}

pub(super) fn run(log: &MemoryLog, lines: &[Value]) -> Report {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    import(log, &lines)
}

pub(super) fn session() -> Uuid {
    foreign_id("claude-code:session", "s1")
}

fn response(id: &str) -> Uuid {
    named("claude-code:message", &format!("{id}@1765309621000"))
}

/// Role, content, tool and tokens.
type Row = (Role, String, Option<String>, Option<i64>, Option<i64>);

fn said(log: &MemoryLog) -> Vec<Row> {
    let row = |m: ConversationMessage| (m.role, m.content, m.tool_name, m.tokens_in, m.tokens_out);
    log.messages().into_iter().map(row).collect()
}

/// The arguments of every call of a line are payloads.
#[test]
fn arguments_stand_in_no_content() {
    let log = MemoryLog::default();
    let mut line = answer("a1", "r1", call("c1", "Read"), 9, 1);
    let blocks = line["message"]["content"].as_array_mut().unwrap();
    let mut grep = call("c2", "Grep");
    grep["input"] = json!({"pattern": "quince"});
    blocks.push(text("and"));
    blocks.push(grep);
    run(&log, &[line]);
    let [message] = &log.messages()[..] else {
        panic!("one line is one message")
    };
    assert_eq!(message.content, "and\n\n[tool_use Grep c2]");
    assert_eq!(message.tool_name.as_deref(), Some("Read"));
    assert_eq!(message.tool_call_id.as_deref(), Some("c1"));
    let arguments = log.call("c2").unwrap().0.arguments_json;
    assert!(arguments.unwrap().contains("quince"));
}

#[test]
fn a_transcript_reads_as_it_was_held() {
    let log = MemoryLog::default();
    let meta = {
        let mut line = user("u2", "caveat");
        line["isMeta"] = json!(true);
        line
    };
    let report = run(
        &log,
        &[
            user("u1", "please"),
            meta,
            answer(
                "a1",
                "r1",
                json!({"type": "thinking", "thinking": "hm"}),
                9,
                1,
            ),
            answer("a2", "r1", text("so"), 9, 1),
            answer("a3", "r1", call("c1", "Read"), 9, 20),
            // Not a message, so the response continues after it.
            json!({"type": "progress", "uuid": "p1"}),
            answer("a4", "r1", call("c2", "Grep"), 9, 30),
            result("u3", "c1"),
            answer("a5", "r2", call("c3", "Read"), 7, 5),
        ],
    );
    assert_eq!((report.conversations, report.messages), (1, 8));
    assert_eq!((report.api_responses, report.tokens_out), (2, 35));
    let thought = log.messages().into_iter().map(|it| it.reasoning);
    let thought: Vec<String> = thought.flatten().collect();
    assert_eq!(thought, ["hm"]);
    let words = |text: &str| text.to_owned();
    assert_eq!(
        said(&log),
        [
            (Role::User, words("please"), None, None, None),
            (Role::System, words("caveat"), None, None, None),
            (Role::Assistant, words(""), None, Some(9), Some(1)),
            (Role::Assistant, words("so"), None, None, None),
            (
                Role::Assistant,
                words(""),
                Some(words("Read")),
                Some(0),
                Some(19)
            ),
            (
                Role::Assistant,
                words(""),
                Some(words("Grep")),
                Some(0),
                Some(10)
            ),
            (Role::Tool, words(""), Some(words("Read")), None, None),
            (
                Role::Assistant,
                words(""),
                Some(words("Read")),
                Some(7),
                Some(5)
            ),
        ]
    );
    let messages = log.messages();
    assert_eq!(messages[2].id, response("r1"));
    assert_eq!(messages[2].part_of, None);
    assert_eq!(messages[2].model_used.as_deref(), Some("m1"));
    assert_eq!(messages[2].source, Source::Model);
    for part in &messages[3..6] {
        assert_eq!(part.part_of, Some(response("r1")));
    }
    assert_eq!(messages[5].tool_args.as_deref(), Some("{\"a\":1}"));
    assert_eq!(messages[6].tool_result.as_deref(), Some("out"));
    assert_eq!(messages[6].source, Source::Tool);
    let [conversation] = log.conversations().try_into().unwrap();
    assert_eq!(conversation.id, session());
    assert_eq!(conversation.client, Client::Cli);
    assert_eq!(conversation.status, ConversationStatus::Completed);
    assert_eq!(conversation.session_id.as_deref(), Some("s1"));
    assert_eq!(conversation.workspace.as_deref(), Some("/home/me/ship"));
    assert_eq!(conversation.project.as_deref(), Some("ship"));
    assert_eq!(conversation.created_at.as_str(), "2025-12-09T19:47:01.000Z");
    assert_eq!(conversation.created_at, conversation.updated_at);
}

#[test]
fn a_response_that_goes_on_later_adds_only_its_growth() {
    let log = MemoryLog::default();
    let lines = [
        answer("a1", "r1", call("c1", "Read"), 9, 20),
        result("u1", "c1"),
        answer("a2", "r1", call("c2", "Grep"), 9, 50),
        result("u2", "c2"),
        // Less than before: the growth is 0.
        answer("a3", "r1", text("end"), 4, 60),
    ];
    run(&log, &lines);
    let tokens: Vec<_> = said(&log).into_iter().map(|(.., i, o)| (i, o)).collect();
    assert_eq!(
        tokens,
        [
            (Some(9), Some(20)),
            (None, None),
            (Some(0), Some(30)),
            (None, None),
            (Some(0), Some(10)),
        ]
    );
    assert_eq!(log.messages()[2].id, foreign_id("claude-code:line", "a2"));
    assert_eq!(log.sums(session()), (9, 60, 5));
    assert_eq!(run(&log, &lines).added, 0);
    // A resumed session repeats lines. They add nothing, even at their new position. The first
    // prompt becomes the title.
    let again = [lines.as_slice(), &lines, &[user("u9", "go on")]].concat();
    let report = run(&log, &again);
    assert_eq!((report.added, report.messages), (3, 6));
    assert_eq!(log.conversations()[0].title.as_deref(), Some("go on"));
    assert_eq!(log.sums(session()), (9, 60, 6));
}

#[test]
fn a_sub_agent_has_a_conversation_of_its_own() {
    let agent = |mut line: Value, agent: Option<&str>| {
        line["isSidechain"] = json!(true);
        line["agentId"] = json!(agent);
        line
    };
    let log = MemoryLog::default();
    // Without a name, each chain of lines is one agent.
    let mut found = answer("a2", "r2", text("found"), 100, 10);
    found["parentUuid"] = json!("u2");
    let lines = [
        answer("a1", "r1", text("one"), 10, 1),
        agent(user("u2", "search"), None),
        agent(found, None),
        agent(answer("a3", "r3", text("found"), 200, 20), Some("x7")),
        answer("a4", "r4", text("two"), 20, 2),
    ];
    let report = run(&log, &lines);
    assert_eq!((report.conversations, report.messages), (3, 5));
    let of = |name: &str| foreign_id("claude-code:agent", name);
    assert_eq!(log.sums(session()), (30, 3, 2));
    let chain = format!("s1:{}", foreign_id("claude-code:line", "u2"));
    assert_eq!(log.sums(of(&chain)), (100, 10, 2));
    assert_eq!(log.sums(of("s1:x7")), (200, 20, 1));
    let sessions: Vec<_> = log
        .conversations()
        .into_iter()
        .map(|c| c.session_id)
        .collect();
    assert_eq!(sessions, vec![Some("s1".to_owned()); 3]);
    assert!(
        log.turns()
            .iter()
            .all(|turn| turn.thread_id == Some(session()))
    );
}

#[test]
fn two_sessions_in_a_file_are_two_conversations() {
    let other = |mut line: Value| {
        line["sessionId"] = json!("s2");
        line
    };
    let log = MemoryLog::default();
    let lines = [
        answer("a1", "r1", text("one"), 10, 1),
        // From a response that began elsewhere: only the growth belongs to this session.
        other(answer("a2", "r1", text("two"), 10, 5)),
        other(answer("a3", "r2", text("three"), 20, 2)),
        answer("a4", "r3", text("four"), 30, 3),
    ];
    let report = run(&log, &lines);
    assert_eq!(report.conversations, 2);
    assert_eq!(log.sums(session()), (40, 4, 2));
    let second = foreign_id("claude-code:session", "s2");
    assert_eq!(log.sums(second), (20, 6, 2));
    assert_eq!(run(&log, &lines).added, 0);
}

#[test]
fn an_error_in_the_place_of_an_answer_is_an_error_of_its_message() {
    let zeros = json!({"input_tokens": 0, "output_tokens": 0});
    let message = json!({"id": "e1", "model": "<synthetic>", "usage": zeros,
        "content": [text("API Error: 529")]});
    let mut error = base("assistant", "a1", message);
    error["isApiErrorMessage"] = json!(true);
    let log = MemoryLog::default();
    run(&log, &[error, answer("a2", "r1", text("well"), 1, 2)]);
    let [failed, fine] = log.messages().try_into().unwrap();
    assert_eq!(failed.error.as_deref(), Some("API Error: 529"));
    assert_eq!(failed.error_type.as_deref(), Some("api_error"));
    assert_eq!(
        (failed.role, failed.source),
        (Role::Assistant, Source::System)
    );
    assert_eq!((failed.model_used, failed.tokens_in), (None, None));
    assert_eq!((fine.error, fine.model_used.as_deref()), (None, Some("m1")));
}

#[test]
fn the_usage_object_is_kept_to_the_byte() {
    let usage = r#"{ "output_tokens":7,"input_tokens" : 1,"service_tier":"standard","x":[1.0,{"y":null}],"input_tokens_details":{"z":1e2} }"#;
    let line = answer("a1", "r1", text("hi"), 0, 0).to_string();
    let known = r#"{"input_tokens":0,"output_tokens":0}"#;
    assert!(line.contains(known));
    let log = MemoryLog::default();
    import(&log, &[&line.replace(known, usage)]);
    let [message] = log.messages().try_into().unwrap();
    assert_eq!(
        message.inference_metadata,
        Some(format!("{{\"usage\":{usage}}}"))
    );
    assert_eq!((message.tokens_in, message.tokens_out), (Some(1), Some(7)));
}

#[test]
fn a_response_in_two_files_is_told_once_and_grows_with_the_longer() {
    let dir = tempfile::tempdir().unwrap();
    let short = [
        answer("a1", "r1", text("one"), 9, 1),
        answer("a2", "r1", text("two"), 9, 5),
    ];
    let longer = [&short[..], &[answer("a3", "r1", text("three"), 9, 8)]].concat();
    for (file, lines) in [
        ("a", &short[..]),
        ("b", &longer),
        ("c", &short),
        ("d", &longer),
    ] {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        std::fs::write(dir.path().join(format!("{file}.jsonl")), lines.join("\n")).unwrap();
    }
    let log = MemoryLog::default();
    let report = super::import_path(&log, dir.path());
    assert_eq!((report.messages, report.tokens_out), (3, 8));
    let content: Vec<String> = log.messages().into_iter().map(|m| m.content).collect();
    assert_eq!(content, ["one", "two", "three"]);
    assert_eq!(log.sums(session()), (9, 8, 3));
    assert_eq!(super::import_path(&log, dir.path()).added, 0);
}

#[test]
fn a_name_too_long_for_any_costs_the_name_alone() {
    let mut line = answer("a1", "r1", text("hi"), 1, 2);
    line["cwd"] = json!("x".repeat(2000));
    line["message"]["model"] = json!("m".repeat(2000));
    let log = MemoryLog::default();
    let report = run(&log, &[line]);
    assert_eq!(broken(&report), []);
    assert_eq!(counts(&report), [("(name too long)", 2)]);
    assert_eq!(log.sums(session()), (1, 2, 1));
    assert_eq!(log.conversations()[0].workspace, None);
}
