//! The tools' descriptions are accurate, and each tool works as described.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use decklog::mcp::Tools;
use decklog::{Client as Held, Conversation, ConversationMessage, Event, Role, Store, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::Client;
use crate::support::still;

const UUID_1: &str = "00000000-0000-0000-0000-000000000001";
const UUID_2: &str = "00000000-0000-0000-0000-000000000002";

fn ok(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let mut answer = client.call(tool, arguments);
    assert_eq!(answer["ok"], true, "{tool}: {answer}");
    answer["data"].take()
}

fn fault(client: &mut Client, tool: &str, arguments: Value) -> String {
    let answer = client.call(tool, arguments);
    assert_eq!(answer["ok"], false, "{tool}: {answer}");
    answer["error"]["code"].as_str().unwrap().to_owned()
}

fn lines(path: &Path) -> usize {
    let store = Store::options().read_only(true).open(path).unwrap();
    store.last_lines(usize::MAX).unwrap().len()
}

fn definitions(client: &mut Client) -> BTreeMap<String, Value> {
    let mut listed = client.ask("tools/list", json!({}));
    let Value::Array(tools) = listed["tools"].take() else {
        panic!("{listed}");
    };
    let named = |tool: Value| (tool["name"].as_str().unwrap().to_owned(), tool);
    tools.into_iter().map(named).collect()
}

/// Valid arguments for each tool, in an order in which each finds the records that it needs.
fn fitting() -> Vec<(&'static str, Value)> {
    let call = json!({ "request_id": UUID_1, "call_id": "c1" });
    vec![
        (
            "thought_record",
            json!({ "type": "plan", "task_id": "t", "agent_id": "a", "content": "c" }),
        ),
        ("thought_record_list", json!({})),
        ("audit_verify_chain", json!({ "task_id": "t" })),
        (
            "turn_record",
            json!({ "id": UUID_2, "kind": "user", "content": "hello" }),
        ),
        ("turns_since", json!({ "since": "2020-01-01" })),
        (
            "tool_call_requested",
            json!({ "request_id": UUID_1, "call_id": "c1", "parent_id": UUID_2, "vendor": "v", "tool_name": "bash", "arguments_json": { "cmd": "ls" } }),
        ),
        (
            "tool_call_done",
            json!({ "request_id": UUID_1, "call_id": "c1", "status": "completed", "outcome_json": ["a", 1] }),
        ),
        ("tool_call_get", call),
        ("tool_calls_list", json!({ "parent_id": UUID_2 })),
        (
            "proposal_record",
            json!({ "request_id": UUID_1, "diffs_json": "--- a\n+++ b\n", "confidence": 0.5 }),
        ),
        (
            "proposal_decide",
            json!({ "request_id": UUID_1, "status": "approved" }),
        ),
        ("proposals_list", json!({})),
        (
            "event_log",
            json!({ "event_type": "agent.started", "payload": { "task": "x" } }),
        ),
        ("event_tree", json!({ "id": 1 })),
        ("conversation_search", json!({})),
        ("log_search", json!({ "text": "hello" })),
        ("usage_report", json!({})),
        (
            "history_append",
            json!({ "chat_id": -1, "role": "user", "text": "hello" }),
        ),
        ("history_list", json!({ "chat_id": -1 })),
        ("inbox_enqueue", json!({ "update_id": 7, "payload": "x" })),
        ("inbox_claim", json!({})),
        ("supervisor_state", json!({})),
    ]
}

#[test]
fn what_is_told_of_each_tool_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    let tools = definitions(&mut client);
    assert_eq!(tools.len(), 27, "{:?}", tools.keys());
    let reads = [
        "audit_verify_chain",
        "conversation_get",
        "conversation_search",
        "event_tree",
        "history_list",
        "log_search",
        "proposals_list",
        "supervisor_state",
        "thought_record_get",
        "thought_record_list",
        "tool_call_get",
        "tool_calls_list",
        "turns_since",
        "usage_report",
    ];
    for (name, tool) in &tools {
        let input = &tool["inputSchema"];
        assert_eq!(input["type"], "object", "{name}");
        assert_eq!(input["additionalProperties"], false, "{name}");
        let properties = input["properties"].as_object().unwrap();
        for (argument, schema) in properties {
            let is_told = schema["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty());
            assert!(is_told, "{name}: {argument}");
            assert!(!schema.to_string().contains("$ref"), "{name}: {argument}");
        }
        let output = &tool["outputSchema"];
        assert_eq!(output["type"], "object", "{name}");
        assert!(!output.to_string().contains("$ref"), "{name}");
        assert!(tool["description"].as_str().unwrap().len() > 40, "{name}");
        let hints = &tool["annotations"];
        assert_eq!(hints["readOnlyHint"], reads.contains(&&**name), "{name}");
        assert_eq!(hints["destructiveHint"], false, "{name}");
        assert_eq!(hints["openWorldHint"], false, "{name}");
    }
    client.end();
}

/// The list of tools takes part of every model's context, so it must be short.
#[test]
fn the_default_tools_take_little_of_a_context() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    command.arg("mcp").arg("--store").arg(&path);
    let mut client = Client::of(command);
    client.greet();
    let listed = client.ask("tools/list", json!({}));
    let length = listed.to_string().len();
    assert!(length <= 20_000, "{length} bytes");
    let names = definitions(&mut client);
    let names: Vec<&str> = names.keys().map(String::as_str).collect();
    assert!(names.iter().copied().eq(Tools::default().names()));
    assert!(!names.contains(&"inbox_claim"));
    client.refused(
        "tools/call",
        json!({ "name": "inbox_claim", "arguments": {} }),
    );
    client.end();
    // Others are added to the default ones by name.
    let mut client = Client::start(&path, &["--tools", "default,inbox_claim"]);
    client.greet();
    let more = definitions(&mut client);
    assert_eq!(more.len(), names.len() + 1);
    ok(&mut client, "inbox_claim", json!({}));
    client.end();
}

/// Read-only tools write nothing, idempotent tools add nothing when repeated, and no tool accepts
/// an unknown argument.
#[test]
fn hints_and_schemas_hold() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::legacy(&path);
    let tools = definitions(&mut client);
    for (name, given) in fitting() {
        let hints = &tools[name]["annotations"];
        let before = lines(&path);
        let first = ok(&mut client, name, given.clone());
        let between = lines(&path);
        // Time passes, as before a retry.
        std::thread::sleep(Duration::from_millis(3));
        ok(&mut client, name, given.clone());
        let after = lines(&path);
        if hints["readOnlyHint"] == true {
            assert_eq!((before, between), (between, after), "{name}");
        } else if name != "inbox_claim" {
            assert_eq!(between, before + 1, "{name}: {first}");
            let is_idempotent = hints["idempotentHint"] == true || given.get("id").is_some();
            assert_eq!(after, between + usize::from(!is_idempotent), "{name}");
        }
        let mut other = given;
        other["no_such_argument"] = json!(1);
        let answer = client.call(name, other);
        assert_eq!(
            answer["error"]["code"], "INVALID_PARAMS",
            "{name}: {answer}"
        );
        assert_eq!(
            answer["error"]["details"]["field"], "no_such_argument",
            "{name}"
        );
    }
    client.end();
}

#[test]
fn tools_are_narrowed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::start(&path, &["--tools", "thought_record,log_search"]);
    client.greet();
    let names: Vec<String> = definitions(&mut client).into_keys().collect();
    assert_eq!(names, ["log_search", "thought_record"]);
    let error = client.refused(
        "tools/call",
        json!({ "name": "event_log", "arguments": {} }),
    );
    assert_eq!(error["code"], -32602);
    assert!(error["message"].as_str().unwrap().contains("event_log"));
    client.end();
    let mut client = Client::start(&path, &["--read-only"]);
    client.greet();
    for (name, tool) in definitions(&mut client) {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{name}");
    }
    client.refused(
        "tools/call",
        json!({ "name": "thought_record", "arguments": {} }),
    );
    ok(&mut client, "thought_record_list", json!({}));
    client.end();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
        let output = command
            .arg("mcp")
            .arg("--store")
            .arg(&path)
            .args(args)
            .output()
            .unwrap();
        assert!(output.stdout.is_empty());
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = run(&["--tools", "thought_recrod"]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("thought_recrod") && said.contains("thought_record_list"),
        "{said}"
    );
    // The groups are listed too.
    assert!(said.contains("default, all"), "{said}");
    // With --read-only, tools that write are not available.
    let (code, said) = run(&["--read-only", "--tools", "thought_record"]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_store_that_cannot_be_opened_is_told_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    let output = command
        .arg("mcp")
        .arg("--store")
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(file.to_str().unwrap()), "{said}");
}

#[test]
fn a_call_is_told_with_its_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    let key = json!({ "request_id": UUID_1, "call_id": "c1" });
    assert_eq!(
        fault(&mut client, "tool_call_get", key.clone()),
        "NOT_FOUND"
    );
    let mut done = key.clone();
    done["status"] = json!("completed");
    assert_eq!(
        fault(&mut client, "tool_call_done", done.clone()),
        "NOT_FOUND"
    );
    let mut asked = key.clone();
    asked["parent_id"] = json!(UUID_2);
    asked["vendor"] = json!("anthropic");
    asked["tool_name"] = json!("bash");
    asked["arguments_json"] = json!({ "z": 1, "a": [true, null, 1.5] });
    asked["started_at"] = json!("2026-07-28T12:00:00Z");
    let put = ok(&mut client, "tool_call_requested", asked.clone());
    assert_eq!(put["status"], "added");
    assert_eq!(
        ok(&mut client, "tool_call_requested", asked)["status"],
        "unchanged"
    );
    let call = ok(&mut client, "tool_call_get", key.clone());
    assert_eq!(call["status"], "requested");
    assert_eq!(call["started_at"], 1_785_240_000_000_i64);
    assert_eq!(
        call["arguments_json"],
        json!({ "z": 1, "a": [true, null, 1.5] })
    );
    done["ended_at"] = json!(1_785_240_000_250_i64);
    done["outcome_json"] = json!("not {json}");
    assert_eq!(
        ok(&mut client, "tool_call_done", done.clone())["status"],
        "added"
    );
    let call = ok(&mut client, "tool_call_get", key);
    assert_eq!(
        (&call["status"], &call["latency_ms"]),
        (&json!("completed"), &json!(250))
    );
    assert_eq!(call["outcome_json"], "not {json}");
    done["status"] = json!("failed");
    assert_eq!(fault(&mut client, "tool_call_done", done), "CONFLICT");
    let listed = ok(
        &mut client,
        "tool_calls_list",
        json!({ "parent_id": UUID_2 }),
    );
    assert_eq!(listed["calls"], json!([call]));
    let given = json!({ "parent_id": UUID_2, "status": "failed" });
    assert_eq!(
        ok(&mut client, "tool_calls_list", given)["calls"],
        json!([])
    );
    client.end();
}

#[test]
fn proposals_take_one_step_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    let step = |status: &str| json!({ "request_id": UUID_1, "status": status });
    assert_eq!(
        fault(&mut client, "proposal_decide", step("approved")),
        "NOT_FOUND"
    );
    let given = json!({ "request_id": UUID_1, "diffs_json": [{ "file": "a" }] });
    ok(&mut client, "proposal_record", given);
    assert_eq!(
        fault(&mut client, "proposal_decide", step("applied")),
        "LIFECYCLE"
    );
    assert_eq!(
        fault(&mut client, "proposal_decide", step("pending")),
        "INVALID_PARAMS"
    );
    assert_eq!(
        ok(&mut client, "proposal_decide", step("approved"))["status"],
        "approved"
    );
    let mut applied = step("applied");
    applied["commit_hash"] = json!("abc123");
    let proposal = ok(&mut client, "proposal_decide", applied);
    assert_eq!(
        (&proposal["status"], &proposal["commit_hash"]),
        (&json!("applied"), &json!("abc123"))
    );
    let listed = ok(
        &mut client,
        "proposals_list",
        json!({ "status": "applied" }),
    );
    assert_eq!(listed["proposals"], json!([proposal]));
    client.end();
}

#[test]
fn a_run_is_read_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    let root = ok(
        &mut client,
        "event_log",
        json!({ "event_type": "agent.started" }),
    );
    assert_eq!(root["id"], 1);
    for n in 0..7 {
        let given = json!({ "event_type": "turn.started", "parent_id": 1, "payload": { "n": n } });
        assert_eq!(ok(&mut client, "event_log", given)["id"], n + 2);
    }
    let no_parent = json!({ "event_type": "turn.started", "parent_id": 99 });
    assert!(["CONFLICT", "LIFECYCLE"].contains(&&*fault(&mut client, "event_log", no_parent)));
    let whole = ok(&mut client, "event_tree", json!({ "id": 1 }));
    assert_eq!(
        (whole["nodes"].as_array().unwrap().len(), &whole["total"]),
        (8, &json!(8))
    );
    let first = ok(&mut client, "event_tree", json!({ "id": 1, "limit": 5 }));
    let given = json!({ "id": 1, "cursor": first["next_cursor"] });
    let second = ok(&mut client, "event_tree", given);
    let mut nodes = first["nodes"].as_array().unwrap().clone();
    nodes.extend(second["nodes"].as_array().unwrap().clone());
    assert_eq!(Value::from(nodes), whole["nodes"]);
    assert!(second.get("next_cursor").is_none());
    assert_eq!(
        fault(&mut client, "event_tree", json!({ "id": 99 })),
        "NOT_FOUND"
    );
    assert_eq!(
        fault(
            &mut client,
            "event_tree",
            json!({ "id": 1, "cursor": "-1" })
        ),
        "INVALID_PARAMS"
    );
    client.end();
}

#[test]
fn a_task_is_claimed_and_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    for update_id in 1..=2 {
        store
            .inbox()
            .enqueue(update_id, Some("{\"text\":\"go\"}"))
            .unwrap();
    }
    let mut client = Client::legacy(&path);
    let task = ok(&mut client, "inbox_claim", json!({}))["task"].take();
    assert_eq!(
        (&task["attempts"], &task["payload"]),
        (&json!(1), &json!({ "text": "go" }))
    );
    let mut end = json!({ "id": task["id"], "attempt": 2 });
    assert!(["CONFLICT", "LIFECYCLE"].contains(&&*fault(&mut client, "inbox_done", end.clone())));
    end["attempt"] = json!(1);
    assert_eq!(ok(&mut client, "inbox_done", end)["status"], "done");
    let task = ok(&mut client, "inbox_claim", json!({}))["task"].take();
    let given = json!({ "id": task["id"], "attempt": 1, "error": "no such file" });
    assert_eq!(
        ok(&mut client, "inbox_fail", given)["error"],
        "no such file"
    );
    assert_eq!(
        ok(&mut client, "inbox_claim", json!({})),
        json!({ "task": null })
    );
    let given = json!({ "id": 99, "attempt": 1 });
    assert_eq!(fault(&mut client, "inbox_done", given), "NOT_FOUND");
    client.end();
    assert_eq!(store.inbox().counts().unwrap().failed, 1);
}

fn talk(store: &Store, id: u128, project: &str, contents: &[&str]) {
    let conversation = Uuid::from_u128(id);
    let at: Timestamp = format!("2026-04-17T00:00:0{id}Z").parse().unwrap();
    let begun = with!(Conversation::new(conversation, Held::Cli),
        project: Some(project.to_owned()),
        created_at: at.clone(),
        updated_at: at,
    );
    store.record(begun).unwrap();
    for content in contents {
        let message = with!(ConversationMessage::new(conversation, Role::Assistant, *content),
            model_used: Some("m1".to_owned()),
            tokens_in: Some(10),
            tokens_out: Some(5),
        );
        store.record(message).unwrap();
    }
}

#[test]
fn conversations_are_found_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    talk(
        &store,
        1,
        "red",
        &["the needle is here", "and a NEEDLE there", "hay"],
    );
    talk(&store, 2, "blue", &["hay", "more hay"]);
    talk(
        &store,
        3,
        "blue",
        &["needles, needles", "needle", "needle", "needle"],
    );
    let mut client = Client::legacy(&path);
    let found = |answer: Value| -> Vec<(Value, usize)> {
        let found = answer["conversations"].as_array().unwrap().iter();
        found
            .map(|it| {
                (
                    it["conversation"]["id"].clone(),
                    it["matches"].as_array().unwrap().len(),
                )
            })
            .collect()
    };
    let id = |n: u128| json!(Uuid::from_u128(n));
    let all = ok(&mut client, "conversation_search", json!({}));
    assert_eq!(found(all), [(id(3), 0), (id(2), 0), (id(1), 0)]);
    let some = ok(
        &mut client,
        "conversation_search",
        json!({ "text": "Needle" }),
    );
    assert_eq!(found(some), [(id(3), 3), (id(1), 2)]);
    let blue = ok(
        &mut client,
        "conversation_search",
        json!({ "text": "needle", "project": "blue" }),
    );
    assert_eq!(found(blue), [(id(3), 3)]);
    // All conversations are found page by page.
    let first = ok(
        &mut client,
        "conversation_search",
        json!({ "text": "needle", "limit": 1 }),
    );
    let given = json!({ "text": "needle", "limit": 1, "cursor": first["next_cursor"] });
    assert_eq!(found(first), [(id(3), 3)]);
    assert_eq!(
        found(ok(&mut client, "conversation_search", given)),
        [(id(1), 2)]
    );
    let first = ok(&mut client, "conversation_search", json!({ "limit": 2 }));
    let given = json!({ "limit": 2, "cursor": first["next_cursor"] });
    assert_eq!(
        found(ok(&mut client, "conversation_search", given)),
        [(id(1), 0)]
    );

    let read = ok(
        &mut client,
        "conversation_get",
        json!({ "id": id(1), "limit": 2 }),
    );
    assert_eq!(read["conversation"]["message_count"], 3);
    assert_eq!(read["messages"][1]["content"], "and a NEEDLE there");
    let given = json!({ "id": id(1), "cursor": read["next_cursor"] });
    let rest = ok(&mut client, "conversation_get", given);
    assert_eq!(rest["messages"].as_array().unwrap().len(), 1);
    assert_eq!(
        fault(&mut client, "conversation_get", json!({ "id": id(9) })),
        "NOT_FOUND"
    );

    let usage = ok(&mut client, "usage_report", json!({}));
    assert_eq!(usage["rows"][0]["model_used"], "m1", "{usage}");
    let given = json!({ "since": "2000-01-01", "until": "2000-01-02" });
    assert_eq!(ok(&mut client, "usage_report", given)["rows"], json!([]));
    client.end();
}

#[test]
fn the_log_is_searched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    talk(&store, 1, "red", &["the needle is here"]);
    let mut old = Event::new(None, "test.said");
    old.created_at = 1_700_000_000_000;
    old.payload = Some("{\"of\":\"an old needle\"}".to_owned());
    store.record(old).unwrap();
    let mut client = Client::legacy(&path);
    let mut matches = |given: Value| ok(&mut client, "log_search", given)["matches"].take();
    let all = matches(json!({ "text": "needle" }));
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!(
        (&all[0]["kind"], &all[0]["field"]),
        (&json!("messages"), &json!("/content"))
    );
    assert_eq!(all[1]["snippet"], "an old needle");
    assert_eq!(
        matches(json!({ "text": "needle", "kind": "events" })),
        json!([all[1]])
    );
    assert_eq!(
        matches(json!({ "text": "needle", "since": "2024-01-01" })),
        json!([all[0]])
    );
    assert_eq!(matches(json!({ "text": "nothing" })), json!([]));
    assert_eq!(
        fault(&mut client, "log_search", json!({ "text": "" })),
        "INVALID_PARAMS"
    );
    let given = json!({ "text": "x", "kind": "thoughts" });
    assert_eq!(fault(&mut client, "log_search", given), "INVALID_PARAMS");
    client.end();
}

/// Answers are limited in size, and the rest of a cut text can be read.
#[test]
fn answers_are_bounded() {
    const BYTES_MAX: usize = 64 << 10;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let long: String = ('a'..='z').cycle().take(300_000).collect();
    let texts: Vec<&str> = vec![&long; 20];
    talk(&store, 1, "red", &texts);
    let mut client = Client::legacy(&path);
    let (mut given, mut count) = (json!({ "id": Uuid::from_u128(1), "limit": 200 }), 0);
    loop {
        let answer = client.call("conversation_get", given.clone());
        assert!(answer.to_string().len() < BYTES_MAX);
        assert!(!answer["truncated"].as_array().unwrap().is_empty());
        count += answer["data"]["messages"].as_array().unwrap().len();
        given["cursor"] = answer["data"]["next_cursor"].clone();
        if given["cursor"].is_null() {
            break;
        }
    }
    assert_eq!(count, 20);
    let thought = json!({ "type": "plan", "task_id": "t", "agent_id": "a", "content": long });
    let id = ok(&mut client, "thought_record", thought)["id"].clone();
    let (mut read, mut from) = (String::new(), json!(0));
    while read.len() < long.len() {
        let given = json!({ "id": id, "from_char": from });
        let answer = client.call("thought_record_get", given);
        assert!(answer.to_string().len() < BYTES_MAX);
        let cut = &answer["truncated"][0];
        assert_eq!(
            (&cut["path"], &cut["length"]),
            (&json!("/data/content"), &json!(300_000))
        );
        read.push_str(answer["data"]["content"].as_str().unwrap());
        from = cut["shown"][1].clone();
    }
    assert_eq!(read, long);
    client.end();
}

/// Bug: the list of cuts had no limit: an answer about a conversation with 3,000 models had 278,672
/// bytes.
#[test]
fn names_flood_no_answer() {
    const BYTES_MAX: usize = 48 << 10;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let id = Uuid::from_u128(1);
    store.record(Conversation::new(id, Held::Cli)).unwrap();
    let long: String = ('a'..='z').cycle().take(100_000).collect();
    let messages = (0..600).map(|n| {
        let text = if n == 0 { &*long } else { "hello" };
        let mut message = ConversationMessage::new(id, Role::Assistant, text);
        message.model_used = Some(format!("model-{n:04}-{}", "m".repeat(900)));
        decklog::Record::from(message)
    });
    for answer in store.record_batch(messages).unwrap() {
        answer.unwrap();
    }
    let mut client = Client::legacy(&path);
    for (tool, arguments) in [
        ("conversation_search", json!({})),
        ("conversation_search", json!({ "text": "hello" })),
        ("conversation_get", json!({ "id": id })),
        ("conversation_get", json!({ "id": id, "limit": 200 })),
        ("usage_report", json!({ "group": ["model"], "limit": 200 })),
    ] {
        let given = json!({ "name": tool, "arguments": arguments });
        let answer = client.ask("tools/call", given);
        let text = answer["content"][0]["text"].as_str().unwrap();
        let answer = &answer["structuredContent"];
        let bytes = answer.to_string().len();
        println!("{tool} {arguments}: {bytes} bytes");
        assert!(bytes <= BYTES_MAX, "{tool} {arguments}: {bytes}");
        assert!(text.len() <= BYTES_MAX, "{tool} {arguments}");
        assert!(!answer["truncated"].as_array().unwrap().is_empty());
        assert_eq!(answer.get("truncated_more"), None, "{tool}");
    }
    let (mut read, mut parts) = (String::new(), 0);
    while read.len() < long.len() {
        let given = json!({ "id": id, "limit": 1, "from_char": read.len() });
        let answer = client.call("conversation_get", given);
        assert!(answer.to_string().len() <= BYTES_MAX);
        let message = &answer["data"]["messages"][0];
        read.push_str(message["content"].as_str().unwrap());
        parts += 1;
    }
    assert_eq!(read, long);
    assert!(parts < 10, "{parts}");
    client.end();
}

/// Whatever the limit, a cursor continues after exactly the returned records.
#[test]
fn pages_lose_nothing_whatever_their_length() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    for n in 0..300_u128 {
        let new = decklog::thoughts::NewThought {
            thought_type: decklog::record::ThoughtType::Plan,
            task_id: "t".into(),
            agent_id: "a".into(),
            content: format!("needle {n} {}", "\u{1}".repeat(60)),
        };
        store.thoughts().create(new).unwrap();
        let long = "p".repeat(900);
        let conversation = Uuid::from_u128(n + 1);
        let begun = with!(Conversation::new(conversation, Held::Cli), project: Some(long));
        store.record(begun).unwrap();
        let message = ConversationMessage::new(conversation, Role::User, format!("a needle {n}"));
        store.record(message).unwrap();
    }
    let mut client = Client::legacy(&path);
    for (tool, arguments, list, count) in [
        ("thought_record_list", json!({}), "records", 300),
        ("log_search", json!({ "text": "needle" }), "matches", 600),
        ("conversation_search", json!({}), "conversations", 300),
        (
            "conversation_search",
            json!({ "text": "needle" }),
            "conversations",
            300,
        ),
    ] {
        for limit in [200, 77] {
            let mut seen = std::collections::BTreeSet::new();
            let mut given = arguments.clone();
            given["limit"] = json!(limit);
            loop {
                let answer = client.call(tool, given.clone());
                assert!(answer.to_string().len() < 50 << 10, "{tool} {limit}");
                assert!(answer.get("truncated").is_none(), "{tool} {limit}");
                for item in answer["data"][list].as_array().unwrap() {
                    assert!(seen.insert(item.to_string()), "{tool} {limit}: {item}");
                }
                given["cursor"] = answer["data"]["next_cursor"].clone();
                if given["cursor"].is_null() {
                    break;
                }
            }
            assert_eq!(seen.len(), count, "{tool} {limit}");
        }
    }
    client.end();
}

/// Invalid client input is not quoted at length.
#[test]
fn errors_are_short() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    let long = "x".repeat(1 << 20);
    let mut given = json!({});
    given[&long] = json!(1);
    let answer = client.call("usage_report", given);
    assert!(answer.to_string().len() < 8 << 10);
    assert_eq!(answer["error"]["code"], "INVALID_PARAMS");
    let answer = client.call("usage_report", json!({ "since": long }));
    assert!(answer.to_string().len() < 8 << 10);
    let error = client.refused("tools/call", json!({ "name": long }));
    assert!(error.to_string().len() < 8 << 10);
    client.end();
}

/// Long reads do not delay other calls.
#[test]
fn short_calls_pass_long_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let text = format!("\"{}\"", "x".repeat(1 << 20));
    for _ in 0..60 {
        store.log_event(None, "test.said", Some(&text)).unwrap();
    }
    let mut client = Client::legacy(&path);
    let search = json!({ "name": "log_search", "arguments": { "text": "not there" } });
    let searches: Vec<u64> = (0..100)
        .map(|_| client.begin("tools/call", search.clone()))
        .collect();
    let event = json!({ "name": "event_log", "arguments": { "event_type": "test.said" } });
    let short = client.begin("tools/call", event);
    client.answer(short);
    // Most of them are still running.
    let answered = searches
        .iter()
        .filter(|id| client.wait(Duration::ZERO, |it| it["id"] == **id).is_some());
    let answered = answered.count();
    assert!(answered < searches.len(), "{answered}");
    client.end();
}

#[test]
fn damage_is_told_at_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    for _ in 0..3 {
        store
            .log_event(None, "test.said", Some("\"hello\""))
            .unwrap();
    }
    let mut client = Client::start(&path, &[]);
    let said = client.greet()["instructions"].to_string();
    assert!(!said.contains("damaged"), "{said}");
    client.end();
    let file = path.join(&store.last_lines(1).unwrap()[0].file);
    drop(store);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("hello", "hallo", 1)).unwrap();
    let mut client = Client::start(&path, &[]);
    let said = client.greet()["instructions"].to_string();
    assert!(said.contains("decklog doctor"), "{said}");
    client.end();
}

#[test]
fn a_long_call_tells_how_far_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let text = format!("\"{}\"", "x".repeat(1 << 20));
    for _ in 0..150 {
        store.log_event(None, "test.said", Some(&text)).unwrap();
    }
    let mut client = Client::legacy(&path);
    let given = json!({
        "name": "log_search",
        "arguments": { "text": "not there" },
        "_meta": { "progressToken": "p1" },
    });
    let id = client.begin("tools/call", given);
    let said = client
        .notified("notifications/progress", Duration::from_secs(60))
        .unwrap();
    let progress = &said["params"];
    assert_eq!(progress["progressToken"], "p1");
    assert!(
        progress["progress"].as_f64() <= progress["total"].as_f64(),
        "{progress}"
    );
    assert_eq!(client.answer(id)["result"]["structuredContent"]["ok"], true);
    client.end();
}

/// A time in seconds reads as a time before 1980 in milliseconds. It is accepted with a warning.
#[test]
fn a_time_in_seconds_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    for (at, is_early) in [(1_766_832_000_i64, true), (1_766_832_000_000, false)] {
        for (tool, arguments) in [
            (
                "event_log",
                json!({ "event_type": "a.b", "created_at": at }),
            ),
            (
                "turn_record",
                json!({ "kind": "user", "content": "x", "created_at": at }),
            ),
        ] {
            let answer = client.call(tool, arguments);
            assert_eq!(answer["ok"], true, "{answer}");
            let warning = answer["data"]["warning"].as_str();
            assert_eq!(
                warning.is_some_and(|it| it.contains("in seconds")),
                is_early,
                "{answer}"
            );
        }
    }
    client.end();
}
