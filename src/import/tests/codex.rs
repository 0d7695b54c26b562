//! Special cases in rollout files of Codex.

use serde_json::{Value, json};
use uuid::Uuid;

use super::log::MemoryLog;
use super::{broken, counts, import, import_path, sample};
use crate::import::Importer;
use crate::import::ids::named;
use crate::record::{ToolStatus, TurnKind};

pub(super) const A: &str = "019b04ae-b1c6-7c72-a134-a4c2de66058c";
pub(super) const B: &str = "019b04ae-b1c6-7c72-a134-a4c2de66058d";

pub(super) fn line(kind: &str, payload: &Value) -> String {
    json!({"timestamp": "2025-12-09T19:55:16.336Z", "type": kind, "payload": payload}).to_string()
}

pub(super) fn session(id: &str) -> String {
    line(
        "session_meta",
        &json!({"id": id, "model_provider": "azure"}),
    )
}

pub(super) fn message(role: &str, text: &str) -> String {
    let content = json!([{"type": "input_text", "text": text}]);
    line(
        "response_item",
        &json!({"type": "message", "role": role, "content": content}),
    )
}

pub(super) fn tokens(input: u64, output: u64) -> String {
    let total = json!({"input_tokens": input, "cached_input_tokens": 5, "output_tokens": output});
    let info = json!({"total_token_usage": total, "last_token_usage": total});
    line("event_msg", &json!({"type": "token_count", "info": info}))
}

pub(super) fn output(call_id: &str, output: Value) -> String {
    let payload = json!({"type": "function_call_output", "call_id": call_id, "output": output});
    line("response_item", &payload)
}

pub(super) fn call(call_id: &str, name: &str) -> String {
    let payload =
        json!({"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"});
    line("response_item", &payload)
}

pub(super) fn run(log: &MemoryLog, lines: &[String]) -> crate::import::Report {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    import(log, &lines)
}

#[test]
fn a_real_rollout_keeps_its_calls_to_the_byte() {
    let log = MemoryLog::default();
    let report = import_path(&log, &sample("codex-rollout.jsonl"));
    assert_eq!(counts(&report), []);
    let (req, done) = log.call("call_pBXH93fl6ZXH2svDOFIlr8GA").unwrap();
    assert_eq!(
        req.request_id,
        named("codex:call", "call_pBXH93fl6ZXH2svDOFIlr8GA")
    );
    assert_eq!(
        (req.vendor.as_str(), req.tool_name.as_str()),
        ("openai", "apply_patch")
    );
    assert_eq!(
        req.arguments_json.as_deref(),
        Some("*** Begin Patch\n*** Add File: myapp/hoge.py\n+print(1 + 1)\n*** End Patch")
    );
    let done = done.unwrap();
    assert_eq!(
        (done.latency_ms, done.status),
        (1057, ToolStatus::Completed)
    );
    let outcome = done.outcome_json.unwrap();
    assert!(outcome.starts_with(r#"{"output":"Success."#), "{outcome}");

    let turns = log.turns();
    let of = |kind| turns.iter().filter(|turn| turn.kind == kind).count();
    assert_eq!(
        TurnKind::ALL.iter().copied().map(of).collect::<Vec<_>>(),
        [2, 2, 0, 7, 0]
    );
    for pair in turns.windows(2) {
        assert_eq!(pair[1].parent_id, Some(pair[0].id));
        assert_eq!(pair[1].thread_id, Some(A.parse().unwrap()));
    }
    assert!(turns.iter().any(|turn| turn.id == req.parent_id));
}

#[test]
fn tokens_are_the_growth_of_the_total_also_after_a_restart() {
    let log = MemoryLog::default();
    let null = line("event_msg", &json!({"type": "token_count", "info": null}));
    let odd = line(
        "event_msg",
        &json!({"type": "token_count", "info": {"x": 1}}),
    );
    let lines = [
        session(A),
        null,
        tokens(100, 10),
        tokens(100, 10),
        tokens(150, 11),
        odd,
        tokens(30, 3),
        tokens(30, 3),
        tokens(31, 3),
    ];
    let report = run(&log, &lines);
    assert_eq!((report.tokens_in, report.tokens_out), (181, 14));
    assert_eq!(counts(&report), [("event_msg.token_count", 1)]);
}

fn told(info: &Value) -> String {
    line("event_msg", &json!({"type": "token_count", "info": info}))
}

fn spent(input: u64, output: u64) -> Value {
    json!({"input_tokens": input, "output_tokens": output})
}

#[test]
fn a_total_that_began_before_the_file_counts_what_it_adds_here() {
    let log = MemoryLog::default();
    let lines = [
        session(A),
        message("assistant", "so"),
        told(&json!({"total_token_usage": spent(500, 50), "last_token_usage": spent(100, 10)})),
        // Only the total accounts for a response between these.
        told(&json!({"total_token_usage": spent(900, 80), "last_token_usage": spent(100, 10)})),
    ];
    let report = run(&log, &lines);
    assert_eq!((report.tokens_in, report.tokens_out), (500, 40));
    assert_eq!(run(&log, &lines).added, 0);
}

#[test]
fn tokens_without_a_total_count_unless_they_are_said_again() {
    let log = MemoryLog::default();
    let last = |input| told(&json!({"last_token_usage": spent(input, 1)}));
    let said = message("assistant", "so");
    let lines = [
        session(A),
        said.clone(),
        last(10),
        last(10),
        last(20),
        said,
        last(20),
    ];
    let report = run(&log, &lines);
    assert_eq!((report.tokens_in, report.tokens_out), (50, 3));
}

#[test]
fn tokens_may_name_their_model() {
    let log = MemoryLog::default();
    let context = line("turn_context", &json!({"model": "m1"}));
    let info = json!({"total_token_usage": spent(10, 1), "model": "m2"});
    let lines = [session(A), context, message("assistant", "so"), told(&info)];
    run(&log, &lines);
    let models = log.messages().into_iter().map(|it| it.model_used.unwrap());
    assert_eq!(models.collect::<Vec<_>>(), ["m1", "m2"]);
}

#[test]
fn two_sessions_in_a_file_stay_apart() {
    let log = MemoryLog::default();
    let lines = [
        session(A),
        message("user", "one"),
        call("c1", "f"),
        tokens(10, 1),
        session(B),
        call("c2", "f"),
        message("user", "two"),
        tokens(100, 1),
        session(A),
        message("user", "three"),
        tokens(15, 1),
    ];
    let report = run(&log, &lines);
    assert_eq!((report.tokens_in, report.tokens_out), (115, 2));
    let turns = log.turns();
    let threads: Vec<Uuid> = turns.iter().filter_map(|turn| turn.thread_id).collect();
    let (a, b): (Uuid, Uuid) = (A.parse().unwrap(), B.parse().unwrap());
    assert_eq!(threads, [a, b, a]);
    assert!(turns.iter().all(|turn| turn.parent_id.is_none()));
    assert_eq!(log.call("c1").unwrap().0.parent_id, turns[0].id);
    assert_eq!(log.call("c2").unwrap().0.parent_id, b);
    assert_eq!(log.call("c1").unwrap().0.vendor, "azure");
}

#[test]
fn a_copy_in_the_same_import_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let lines = [
        session(A),
        message("user", "one"),
        call("c1", "f"),
        tokens(10, 1),
    ];
    std::fs::write(dir.path().join("a.jsonl"), lines.join("\n")).unwrap();
    let longer = [lines.as_slice(), &[message("user", "two"), tokens(12, 2)]].concat();
    std::fs::write(dir.path().join("b.jsonl"), longer.join("\n")).unwrap();
    let log = MemoryLog::default();
    let mut importer = Importer::over(&log);
    importer.path(dir.path()).unwrap();
    let report = importer.finish().unwrap();
    assert_eq!((report.turns, report.tool_calls), (2, 1));
    assert_eq!((report.conversations, report.messages), (1, 5));
    assert_eq!(report.added, 3 + 1 + 5);
    assert_eq!(log.sums(A.parse().unwrap()), (12, 2, 5));
    assert_eq!((report.tokens_in, report.tokens_out), (12, 2));
}

#[test]
fn outputs_that_state_a_failure_are_failures() {
    let exit = |code: i64| json!({"output": "words", "metadata": {"exit_code": code}}).to_string();
    let lines = [
        // Before its call, as in an unsorted file.
        output("c1", exit(2).into()),
        session(A),
        call("c1", "f"),
        call("c2", "f"),
        call("c3", "f"),
        call("c4", "f"),
        output("c2", exit(0).into()),
        output("c3", json!({"content": "denied", "success": false})),
        output("c4", json!([{"text": "x", "type": "input_text"}])),
        output("c9", "nobody asked".into()),
    ];
    let log = MemoryLog::default();
    let report = run(&log, &lines);
    assert_eq!((report.tool_calls, report.tool_results), (4, 5));
    assert_eq!(broken(&report).len(), 1);
    assert_eq!(broken(&report)[0].0, 10);
    let done = |id| log.call(id).unwrap().1.unwrap();
    let failure = |id| (done(id).error_kind, done(id).error_msg);
    assert_eq!(
        failure("c1"),
        (Some("exit_code".into()), Some("words".into()))
    );
    assert_eq!(failure("c2"), (None, None));
    assert_eq!(
        failure("c3"),
        (Some("tool_error".into()), Some("denied".into()))
    );
    assert_eq!(done("c4").status, ToolStatus::Completed);
    let array = r#"[{"text":"x","type":"input_text"}]"#;
    assert_eq!(done("c4").outcome_json.as_deref(), Some(array));
    assert_eq!(run(&log, &lines).added, 0);
}

fn event(kind: &str, mut payload: Value) -> String {
    payload["type"] = kind.into();
    line("event_msg", &payload)
}

/// The client may report the result of a call on separate lines. The report becomes the call's
/// result, whether or not the model saw an output. After an output it adds nothing.
#[test]
fn what_the_client_says_of_a_call_is_its_result_once() {
    let took = json!({"secs": 2, "nanos": 5_000_000});
    let ended = |id: &str, code: i64| {
        event(
            "exec_command_end",
            json!({"call_id": id, "exit_code": code, "duration": took, "aggregated_output": "no rule"}),
        )
    };
    let mcp = |id: &str, result: Value| {
        event(
            "mcp_tool_call_end",
            json!({"call_id": id, "duration": took, "result": result,
                "invocation": {"server": "docs", "tool": "find", "arguments": {"q": 1}}}),
        )
    };
    let log = MemoryLog::default();
    let lines = [
        session(A),
        message("user", "please"),
        call("c1", "shell"),
        event(
            "exec_command_begin",
            json!({"call_id": "c1", "command": ["make"]}),
        ),
        ended("c1", 2),
        output("c1", "no rule".into()),
        // Without output: the session was cut off.
        call("c2", "shell"),
        ended("c2", 0),
        // It continued to run after the model saw an output.
        call("c3", "shell"),
        output("c3", "Process running with session ID 7".into()),
        ended("c3", 1),
        event(
            "patch_apply_begin",
            json!({"call_id": "p1", "changes": {"a": {}}}),
        ),
        event(
            "patch_apply_end",
            json!({"call_id": "p1", "success": false, "stderr": "no such file"}),
        ),
        mcp(
            "m1",
            json!({"Ok": {"content": [{"type": "text", "text": "none"}], "isError": true}}),
        ),
        mcp("m2", json!({"Err": "no server"})),
        mcp("m3", json!({"Ok": {"content": []}})),
        mcp("m3", json!({"Ok": {"content": []}})),
        event("thread_goal_updated", json!({"goal": {}})),
    ];
    let report = run(&log, &lines);
    assert_eq!(broken(&report), []);
    assert_eq!(counts(&report), []);
    assert_eq!((report.tool_calls, report.tool_results), (7, 7));
    let row = |id: &str| {
        let (req, done) = log.call(id).unwrap();
        let done = done.unwrap();
        let told = (done.error_kind, done.error_msg, done.latency_ms);
        (
            req.tool_name,
            told.0.unwrap_or_default(),
            told.1.unwrap_or_default(),
            told.2,
        )
    };
    let expected = |tool: &str, kind: &str, words: &str, ms| {
        (tool.to_owned(), kind.to_owned(), words.to_owned(), ms)
    };
    assert_eq!(row("c1"), expected("shell", "exit_code", "no rule", 2005));
    assert_eq!(row("c2"), expected("shell", "", "", 2005));
    assert_eq!(row("c3"), expected("shell", "", "", 0));
    assert_eq!(
        row("p1"),
        expected("apply_patch", "tool_error", "no such file", 0)
    );
    assert_eq!(
        row("m1"),
        expected("mcp__docs__find", "tool_error", "none", 2005)
    );
    assert_eq!(
        row("m2"),
        expected("mcp__docs__find", "tool_error", "no server", 2005)
    );
    assert_eq!(row("m3"), expected("mcp__docs__find", "", "", 2005));
    let outcome = log.call("c1").unwrap().1.unwrap().outcome_json.unwrap();
    assert!(outcome.contains("\"exit_code\":2"), "{outcome}");
    let answer = log
        .messages()
        .into_iter()
        .find(|it| it.tool_result.is_some());
    let answer = answer.unwrap();
    let told = (answer.tool_name.as_deref(), answer.error_type.as_deref());
    assert_eq!(told, (Some("shell"), Some("exit_code")));
    assert_eq!(run(&log, &lines).added, 0);
}

#[test]
fn kinds_of_items_are_told_apart_or_counted() {
    let item = |payload: Value| line("response_item", &payload);
    let lines = [
        message("developer", "rules"),
        message("user", " <ENVIRONMENT_CONTEXT>\n</ENVIRONMENT_CONTEXT>"),
        message("user", "<environment_contexts>"),
        message("robot", "beep"),
        item(json!({"type": "message", "role": "user", "content": [{"type": "input_image"}]})),
        item(json!({"type": "message", "role": "user", "content": 5})),
        item(json!({"type": "reasoning", "summary": [], "content": null})),
        item(json!({"type": "reasoning", "summary": "not a list"})),
        item(
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"},
            {"type": "summary_text", "text": "b"}], "content": null}),
        ),
        item(json!({"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec"}})),
        item(json!({"type": "function_call", "name": "f"})),
        item(json!({"type": "web_search_call"})),
        item(json!({})),
        line(
            "event_msg",
            &json!({"type": "agent_message", "message": "again"}),
        ),
        line("event_msg", &json!({"type": "xyz"})),
        line("compacted", &json!({"message": "so far"})),
        line("turn_context", &json!({"model": "gpt"})),
        line("world_state", &json!({})),
        r#"{"type":"event_msg","payload":{"type":"xyz"}}"#.to_owned(),
        r#"{"type":"event_msg","timestamp":"soon","payload":{}}"#.to_owned(),
    ];
    let log = MemoryLog::default();
    let report = run(&log, &lines);
    let thought = log.messages().into_iter().filter_map(|it| it.reasoning);
    assert_eq!(thought.collect::<Vec<_>>(), ["a\n\nb"]);
    let turns = log.turns();
    let said: Vec<(TurnKind, &str)> = turns.iter().map(|t| (t.kind, t.content.as_str())).collect();
    assert_eq!(
        said,
        [
            (TurnKind::System, "rules"),
            (
                TurnKind::SysInfo,
                " <ENVIRONMENT_CONTEXT>\n</ENVIRONMENT_CONTEXT>"
            ),
            (TurnKind::User, "<environment_contexts>"),
            (TurnKind::User, "[input_image]"),
            (TurnKind::SysInfo, "[reasoning]"),
            (TurnKind::SysInfo, "so far"),
        ]
    );
    assert_eq!(
        counts(&report),
        [
            ("event_msg", 1),
            ("event_msg.xyz", 1),
            ("response_item.(no type)", 1),
            ("response_item.function_call", 1),
            ("response_item.message", 1),
            ("response_item.message.input_image", 1),
            ("response_item.message.robot", 1),
            ("response_item.reasoning", 1),
        ]
    );
    assert_eq!(broken(&report).len(), 1);
    assert_eq!(broken(&report)[0].0, 20);
    let (req, _) = log.call("c1").unwrap();
    assert_eq!(req.tool_name, "local_shell");
    assert_eq!(req.arguments_json.as_deref(), Some(r#"{"type":"exec"}"#));
}

#[test]
fn files_that_lost_their_start_stay_apart() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("a.jsonl", "one"), ("b.jsonl", "two")] {
        std::fs::write(dir.path().join(name), message("user", text)).unwrap();
    }
    let log = MemoryLog::default();
    let report = import_path(&log, dir.path());
    assert_eq!((report.turns, broken(&report)), (2, vec![]));
    let turns = log.turns();
    assert_ne!(turns[0].thread_id, turns[1].thread_id);
}
