//! Special cases in session files of Claude Code.

use serde_json::{Value, json};
use uuid::Uuid;

use super::log::MemoryLog;
use super::{broken, counts, import, import_path, sample};
use crate::import::Importer;
use crate::import::ids::{foreign_id, named};
use crate::record::{Role, ToolStatus, TurnKind};

fn line(kind: &str, uuid: &str, second: u32, message: &Value) -> Value {
    json!({
        "type": kind, "uuid": uuid, "parentUuid": null, "sessionId": "s1",
        "timestamp": format!("2025-12-09T19:47:{second:02}.000Z"), "message": message,
    })
}

fn user(uuid: &str, content: Value) -> String {
    line(
        "user",
        uuid,
        1,
        &json!({"role": "user", "content": content}),
    )
    .to_string()
}

fn assistant(uuid: &str, message: &str, content: Value, usage: Value) -> String {
    let message = json!({"id": message, "model": "m", "content": content, "usage": usage});
    line("assistant", uuid, 2, &message).to_string()
}

fn call(uuid: &str, call_id: &str) -> String {
    let block = json!({"type": "tool_use", "id": call_id, "name": "Bash", "input": {"a": 1}});
    assistant(uuid, uuid, json!([block]), json!({"output_tokens": 1}))
}

fn result(uuid: &str, call_id: &str, second: u32, content: &str) -> String {
    let block = json!({"type": "tool_result", "tool_use_id": call_id, "content": content});
    line("user", uuid, second, &json!({"content": [block]})).to_string()
}

fn id(uuid: &str) -> Uuid {
    foreign_id("claude-code:line", uuid)
}

#[test]
fn a_real_session_keeps_its_calls_to_the_byte() {
    let log = MemoryLog::default();
    import_path(&log, &sample("claude-code-session.jsonl"));
    let (req, done) = log.call("toolu_01AwnkWRXpcpsXYF2KnbdPDv").unwrap();
    assert_eq!(
        req.arguments_json.as_deref(),
        Some(r#"{"command":"mkdir -p myapp","description":"Create myapp directory"}"#)
    );
    assert_eq!(
        req.parent_id.to_string(),
        "9d52156c-aebe-4972-861b-5a8d19857ee6"
    );
    assert_eq!(
        (req.vendor.as_str(), req.tool_name.as_str()),
        ("anthropic", "Bash")
    );
    let done = done.unwrap();
    assert_eq!(done.latency_ms, 4192);
    assert_eq!(
        done.outcome_json.as_deref(),
        Some(r#"{"stdout":"","stderr":"","interrupted":false,"isImage":false}"#)
    );
    let (_, done) = log.call("toolu_01GLEN5BsyXUTQaQV2fdQ9ea").unwrap();
    let done = done.unwrap();
    let words = Some("error: target shim binary not found");
    assert_eq!(done.status, ToolStatus::Failed);
    assert_eq!(done.error_kind.as_deref(), Some("tool_error"));
    assert_eq!(
        (done.error_msg.as_deref(), done.outcome_json.as_deref()),
        (words, words)
    );

    let turns = log.turns();
    let of = |kind| turns.iter().filter(|turn| turn.kind == kind).count();
    assert_eq!(
        TurnKind::ALL.iter().copied().map(of).collect::<Vec<_>>(),
        [4, 7, 0, 7, 4]
    );
    let parents = turns.iter().filter_map(|turn| turn.parent_id);
    for parent in parents {
        assert!(turns.iter().any(|turn| turn.id == parent), "{parent}");
    }
}

#[test]
fn blocks_of_a_line_make_one_turn() {
    let block = |kind: &str, text: &str| json!({"type": kind, kind: text});
    let tool = json!({"type": "tool_use", "id": "c1", "name": "Read", "input": {}});
    let meta = line("user", "u5", 1, &json!({"content": "caveat"}));
    let mut meta = meta.as_object().unwrap().clone();
    meta.insert("isMeta".into(), json!(true));
    let system = json!({"type": "system", "subtype": "turn_duration", "uuid": "u6",
        "parentUuid": "u5", "sessionId": "s1", "timestamp": "2025-12-09T19:47:01Z"});
    let lines = [
        assistant(
            "u1",
            "m",
            json!([block("thinking", "hm"), block("text", "so")]),
            Value::Null,
        ),
        assistant("u2", "m", json!([block("thinking", "hm")]), Value::Null),
        assistant(
            "u3",
            "m",
            json!([block("thinking", ""), block("thinking", "hm"), tool]),
            Value::Null,
        ),
        assistant(
            "u4",
            "m",
            json!([{"type": "redacted_thinking", "data": "x"}]),
            Value::Null,
        ),
        Value::from(meta).to_string(),
        system.to_string(),
        user(
            "u7",
            json!([{"type": "image", "source": {}}, block("text", "look"), 5]),
        ),
        user(
            "u8",
            json!([{"type": "tool_result", "tool_use_id": "c1", "content": [
            block("text", "a"), {"type": "image", "source": {}}, block("text", "b")]}]),
        ),
        user("u9", json!(7)),
        r#"{"type":"user","uuid":"u10","sessionId":"s1","message":{"content":"no time"}}"#.into(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let log = MemoryLog::default();
    let report = import(&log, &lines);
    assert_eq!(broken(&report), []);
    let turns = log.turns();
    let said: Vec<(TurnKind, &str)> = turns.iter().map(|t| (t.kind, t.content.as_str())).collect();
    assert_eq!(
        said,
        [
            (TurnKind::Assistant, "so"),
            (TurnKind::SysInfo, "[thinking]"),
            (TurnKind::Assistant, "[tool_use Read c1]"),
            (TurnKind::Assistant, "[redacted_thinking]"),
            (TurnKind::SysInfo, "caveat"),
            (TurnKind::System, "turn_duration"),
            (TurnKind::User, "look"),
            (TurnKind::Tool, "a\n\nb"),
        ]
    );
    let thought = log.messages().into_iter().filter_map(|it| it.reasoning);
    assert_eq!(thought.collect::<Vec<_>>(), ["hm"; 3]);
    assert_eq!(turns[5].parent_id, Some(id("u5")));
    let response = named(
        "claude-code:message",
        &format!("m@{}", turns[0].created_at.at),
    );
    assert_eq!(turns[0].message_id, response);
    assert_eq!(turns[7].message_id, turns[7].id);
    assert_eq!(
        counts(&report),
        [
            ("assistant.redacted_thinking", 1),
            ("tool_result.image", 1),
            ("user", 2),
            ("user.(not an object)", 1),
            ("user.image", 1),
        ]
    );
    let outcome = log.call("c1").unwrap().1.unwrap().outcome_json.unwrap();
    assert!(outcome.starts_with("[{"), "{outcome}");
}

#[test]
fn usage_is_that_of_the_last_line_of_a_response() {
    let usage = |cached: u64, out: u64| {
        json!({"input_tokens": 1, "output_tokens": out,
        "cache_creation_input_tokens": 10, "cache_read_input_tokens": cached})
    };
    let first = assistant("u1", "m1", json!([]), usage(100, 1));
    let lines = [
        first.clone(),
        assistant("u2", "m2", json!([]), usage(0, 5)),
        assistant("u3", "m1", json!([]), usage(100, 70)),
        // A resumed session copies the line. It does not count as the last one.
        first,
        assistant("u4", "m3", json!([]), json!({"input_tokens": -1})),
        assistant("u5", "m4", json!([]), json!({"output_tokens": u64::MAX})),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let report = import(&MemoryLog::default(), &lines[..5]);
    assert_eq!((report.api_responses, report.turns), (3, 4));
    assert_eq!((report.tokens_in, report.tokens_out), (111 + 11, 75));
    assert_eq!(counts(&report), [("assistant.usage", 1)]);
    let report = import(&MemoryLog::default(), &lines);
    assert_eq!(report.tokens_out, 75 + i64::MAX.unsigned_abs());
}

#[test]
fn tokens_are_told_apart_by_what_they_were() {
    let usage = json!({"input_tokens": 3, "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100, "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 4}});
    let log = MemoryLog::default();
    let report = import(&log, &[&assistant("u1", "m1", json!([]), usage)]);
    let found = [
        report.tokens_in,
        report.tokens_cache_write,
        report.tokens_cache_read,
        report.tokens_out,
        report.tokens_reasoning,
    ];
    assert_eq!(found, [123, 20, 100, 9, 4]);
    let message = &log.messages()[0];
    let kept = [
        message.tokens_in,
        message.tokens_cache_write,
        message.tokens_cache_read,
        message.tokens_out,
        message.tokens_reasoning,
    ];
    assert_eq!(kept, [123, 20, 100, 9, 4].map(Some));
}

/// A model may ask another one for advice during a request. The tokens of the other one are not
/// included in the usage.
#[test]
fn advice_counts_for_the_model_that_gave_it() {
    let advice = json!({"type": "advisor_message", "model": "m2", "input_tokens": 800,
        "cache_read_input_tokens": 50, "output_tokens": 90});
    let usage = |iterations: Value| json!({"input_tokens": 3, "output_tokens": 9, "iterations": iterations});
    let own = json!({"type": "message", "input_tokens": 3, "output_tokens": 9});
    let lines = [
        assistant("u1", "m1", json!([]), usage(json!([own]))),
        assistant("u2", "m1", json!([]), usage(json!([own, advice]))),
        assistant("u3", "m1", json!([]), usage(json!([own, advice]))),
        assistant(
            "u4",
            "m2",
            json!([]),
            usage(json!(["odd", {"type": 7}, {"type": "advisor_message"}])),
        ),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let log = MemoryLog::default();
    let report = import(&log, &lines);
    assert_eq!(broken(&report), []);
    assert_eq!(
        (report.api_responses, report.tokens_in, report.tokens_out),
        (2, 856, 108)
    );
    let messages = log.messages();
    let given: Vec<_> = messages
        .iter()
        .filter(|it| it.model_used.as_deref() == Some("m2"))
        .collect();
    let [given] = given[..] else {
        panic!("{given:?}")
    };
    assert_eq!(
        (given.tokens_in, given.tokens_cache_read, given.tokens_out),
        (Some(850), Some(50), Some(90))
    );
    assert_eq!(given.part_of, Some(messages[0].id));
    assert_eq!(messages.len(), 5);
    assert_eq!(import(&log, &lines).added, 0);
}

#[test]
fn tokens_written_to_the_cache_are_told_by_how_long_it_keeps_them() {
    let parts = json!({"ephemeral_5m_input_tokens": 11, "ephemeral_1h_input_tokens": 5});
    let sum = |usage: Value| {
        let log = MemoryLog::default();
        let report = import(&log, &[&assistant("u1", "m1", json!([]), usage)]);
        (report.tokens_in, report.tokens_cache_write)
    };
    assert_eq!(
        sum(json!({"input_tokens": 3, "cache_creation": parts})),
        (19, 16)
    );
    let both =
        json!({"input_tokens": 3, "cache_creation_input_tokens": 16, "cache_creation": parts});
    assert_eq!(sum(both), (19, 16));
    assert_eq!(sum(json!({"input_tokens": 3, "cache_creation": 7})), (3, 0));
}

#[test]
fn what_the_client_says_in_the_models_place_is_no_response_but_an_error_is() {
    let zeros = json!({"input_tokens": 0, "output_tokens": 0});
    let message = json!({"id": "x", "model": "<synthetic>", "usage": zeros,
        "content": [{"type": "text", "text": "API Error: 529"}]});
    let mut synthetic = line("assistant", "u1", 1, &message);
    synthetic["isApiErrorMessage"] = json!(true);
    let report = import(&MemoryLog::default(), &[&synthetic.to_string()]);
    assert_eq!((report.turns, report.api_responses), (1, 1));
    synthetic["isApiErrorMessage"] = json!(false);
    let log = MemoryLog::default();
    let report = import(&log, &[&synthetic.to_string()]);
    assert_eq!((report.turns, report.api_responses), (1, 0));
    assert_eq!(log.messages()[0].role, Role::System);
}

#[test]
fn lines_in_any_order_and_repeated_add_once() {
    let lines = [
        result("u2", "c1", 9, "late"),
        call("u1", "c1"),
        call("u1", "c1"),
        result("u2", "c1", 9, "late"),
        // The same call on another line, as a fork writes it. The first one is used.
        call("u3", "c1"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let log = MemoryLog::default();
    let first = import(&log, &lines);
    assert_eq!(broken(&first), []);
    assert_eq!(
        (first.turns, first.tool_calls, first.tool_results),
        (3, 1, 1)
    );
    assert_eq!((first.conversations, first.messages), (1, 3));
    assert_eq!(first.added, 5 + 1 + 3);
    let (req, done) = log.call("c1").unwrap();
    assert_eq!(req.request_id, named("claude-code:tool_use", "c1"));
    assert_eq!(req.parent_id, id("u1"));
    assert_eq!(done.unwrap().latency_ms, 7000);
    let second = import(&log, &lines);
    assert_eq!(
        (second.added, second.tool_calls, second.tool_results),
        (0, 1, 1)
    );
}

/// Attachments and similar lines occur between messages. A fork may give its copies new ids.
#[test]
fn the_chain_of_parents_goes_past_lines_that_are_no_messages() {
    let link = |kind: &str, uuid: &str, parent: Option<&str>, second: u32| {
        let message = json!({"role": kind, "content": uuid, "usage": {"output_tokens": 1}});
        let mut line = line(kind, uuid, second, &message);
        line["parentUuid"] = json!(parent);
        line
    };
    let mut lines = vec![
        link("attachment", "x0", None, 0),
        link("user", "u1", Some("x0"), 1),
        link("attachment", "x1", Some("u1"), 1),
        link("progress", "x2", Some("x1"), 2),
        link("assistant", "u2", Some("x2"), 3),
        link("user", "x3", Some("u2"), 4),
        link("user", "u3", Some("x3"), 5),
        link("user", "u4", Some("unknown"), 6),
    ];
    // A content that is not understood.
    lines[5]["message"]["content"] = json!(7);
    let parents = |log: &MemoryLog| -> Vec<(String, Option<Uuid>)> {
        let turns = log.turns().into_iter();
        turns.map(|turn| (turn.content, turn.parent_id)).collect()
    };
    let own = |name: &str, parent: Option<&str>| (name.to_owned(), parent.map(id));
    let expected = [
        own("u1", None),
        own("u2", Some("u1")),
        own("u3", Some("u2")),
        own("u4", Some("unknown")),
    ];
    let mut fork: Vec<Value> = lines[..5].to_vec();
    for line in &mut fork {
        let uuid = line["uuid"].as_str().unwrap().to_owned();
        line["forkedFrom"] = json!({"sessionId": "s1", "messageUuid": uuid});
        line["uuid"] = json!(format!("f-{uuid}"));
        line["parentUuid"] = match &line["parentUuid"] {
            Value::String(parent) => json!(format!("f-{parent}")),
            none => none.clone(),
        };
        line["sessionId"] = json!("s2");
    }
    let mut last = link("user", "f1", Some("f-u2"), 9);
    last["sessionId"] = json!("s2");
    fork.push(last);
    let read = |log: &MemoryLog, lines: &[Value]| {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        import(log, &lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for order in [[&lines, &fork], [&fork, &lines]] {
        let log = MemoryLog::default();
        for lines in order {
            read(&log, lines);
        }
        let mut found = parents(&log);
        found.sort();
        let mut expected = [&expected[..], &[own("f1", Some("u2"))]].concat();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(
            log.turns()
                .iter()
                .filter(|turn| turn.thread_id.is_some())
                .count(),
            5
        );
    }
    assert_eq!(
        counts(&read(&MemoryLog::default(), &lines)),
        [("attachment", 2), ("progress", 1), ("user", 1)]
    );
}

#[test]
fn a_result_without_its_call_is_broken_unless_the_log_has_the_call() {
    let log = MemoryLog::default();
    let report = import(
        &log,
        &[&user("u0", json!("hi")), &result("u2", "c1", 9, "x")],
    );
    assert_eq!((report.turns, report.tool_results), (2, 1));
    let reason =
        "a result of the call \"c1\", which is neither in what was imported nor in the log";
    assert_eq!(broken(&report), [(2, reason)]);
    import(&log, &[&call("u1", "c1")]);
    let report = import(&log, &[&result("u2", "c1", 9, "x")]);
    assert_eq!((broken(&report).len(), report.added), (0, 1));
}

#[test]
fn what_contradicts_an_earlier_line_is_reported() {
    let mut other_call = call("u3", "c1");
    other_call = other_call.replace("\"a\":1", "\"a\":2");
    let lines = [
        call("u1", "c1"),
        result("u2", "c1", 9, "x"),
        other_call,
        result("u4", "c1", 9, "y"),
        user("u1", json!("something else")),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let report = import(&MemoryLog::default(), &lines);
    let broken = broken(&report);
    let numbers: Vec<u64> = broken.iter().map(|(line, _)| *line).collect();
    assert_eq!(numbers, [3, 4, 5]);
    assert_eq!(broken[1].1, "another outcome stands");
    assert_eq!(
        (report.turns, report.tool_calls, report.tool_results),
        (4, 1, 1)
    );
}

#[test]
fn results_that_wait_for_their_calls_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    let large = "x".repeat(2000);
    let lines = [
        result("u1", "c1", 9, &large),
        result("u2", "c2", 9, &large),
        call("u3", "c1"),
        call("u4", "c2"),
    ];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let log = MemoryLog::default();
    let mut importer = Importer::over(&log);
    importer.run.set_held_bytes_max(3000);
    importer.path(&path).unwrap();
    let report = importer.finish().unwrap();
    let broken = broken(&report);
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0].0, 2);
    assert!(broken[0].1.contains("3000 bytes"), "{}", broken[0].1);
    assert!(log.call("c1").unwrap().1.is_some());
    assert!(log.call("c2").unwrap().1.is_none());
}
