//! The first history of a new user: imported sessions of Claude Code and Codex.

use std::path::{Path, PathBuf};
use std::process::Command;

use decklog::{Conversation, Store};
use serde_json::{Value, json};

/// The sessions in `tests/data`.
fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The output of a decklog command, which must succeed.
fn run(store: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_decklog"))
        .env("DECKLOG_STORE", store)
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A store with the imported sessions of a file or folder.
fn imported(from: &Path) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("log");
    run(&store, &["import", from.to_str().unwrap()]);
    (dir, store)
}

#[test]
fn the_tokens_of_both_tools_are_told_apart() {
    let (_dir, store) = imported(&samples());
    let usage: Value = serde_json::from_str(&run(
        &store,
        &["stats", "usage", "--bucket", "all", "--json"],
    ))
    .unwrap();
    let total = |field: &str| usage["total"][field].as_u64().unwrap();
    assert_eq!(total("tokens_in"), 98785 + 487 + 26740);
    assert_eq!(total("tokens_input"), 74 + 487 + (26740 - 22912));
    assert_eq!(total("tokens_cache_write"), 5158);
    assert_eq!(total("tokens_cache_read"), 93553 + 22912);
    assert_eq!(total("tokens_out"), 844 + 130 + 408);
    assert_eq!(total("tokens_reasoning"), 128);
    let table = run(&store, &["stats", "usage", "--bucket", "all"]);
    let heading = table.lines().next().unwrap();
    for column in ["INPUT", "CACHE WRITE", "CACHE READ", "REASONING"] {
        assert!(heading.contains(column), "{heading}");
    }
    assert!(table.contains("116,465"), "{table}");
}

/// A line of a Claude Code session.
fn claude(kind: &str, uuid: &str, parent: Option<&str>, message: Value) -> Value {
    json!({"type": kind, "uuid": uuid, "parentUuid": parent, "isSidechain": false,
        "sessionId": SESSION, "cwd": "/home/me/app", "timestamp": "2026-09-20T10:00:00Z",
        "message": message})
}

const SESSION: &str = "00000000-0000-4000-8000-000000000001";

fn user(uuid: &str, parent: Option<&str>, content: Value) -> Value {
    claude(
        "user",
        uuid,
        parent,
        json!({"role": "user", "content": content}),
    )
}

/// An answer. Blocks with the same `id` belong to one API response.
fn answer(uuid: &str, parent: &str, id: &str, block: Value) -> Value {
    let content = if block.is_array() {
        block
    } else {
        json!([block])
    };
    let usage = json!({"input_tokens": 1, "output_tokens": 2});
    let message =
        json!({"id": id, "role": "assistant", "model": "m1", "content": content, "usage": usage});
    claude("assistant", uuid, Some(parent), message)
}

fn bash(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "make"}})
}

/// A store with the imported sessions of these files.
fn imported_files(files: &[(&str, &[Value])]) -> (tempfile::TempDir, PathBuf) {
    let sessions = tempfile::tempdir().unwrap();
    for (name, lines) in files {
        let path = sessions.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    }
    let (dir, store) = imported(sessions.path());
    // A second import of the same files adds nothing.
    let again = run(
        &store,
        &["import", sessions.path().to_str().unwrap(), "--json"],
    );
    let sum: Value = serde_json::from_str(again.lines().last().unwrap()).unwrap();
    assert_eq!(sum["added"], 0, "{sum}");
    (dir, store)
}

fn json_lines(store: &Path, args: &[&str]) -> Vec<Value> {
    let text = run(store, &[args, &["--json"]].concat());
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_files_of_one_session_repeat_is_counted_once() {
    let id = "msg_01AbCdEfGhIjKlMnOpQrStUv";
    let of_request = |mut line: Value, request: &str| {
        line["requestId"] = json!(request);
        line
    };
    let said = json!({"type": "text", "text": "so"});
    let session = [
        user("u1", None, json!("please")),
        of_request(answer("a1", "u1", id, said.clone()), "req_1"),
        claude("attachment", "x1", Some("a1"), Value::Null),
        user("u2", Some("x1"), json!("and?")),
    ];
    // A side question: its file repeats the answer under another request.
    let mut aside = of_request(answer("b1", "u1", id, said), "req_2");
    aside["isSidechain"] = json!(true);
    aside["agentId"] = json!("aside");
    let agent = format!("{SESSION}/subagents/agent-aside.jsonl");
    let (_dir, store) =
        imported_files(&[(&format!("{SESSION}.jsonl"), &session), (&agent, &[aside])]);
    let usage = &json_lines(&store, &["stats", "usage", "--bucket", "all"])[0]["total"];
    assert_eq!(
        (&usage["tokens_in"], &usage["tokens_out"]),
        (&json!(1), &json!(2))
    );
    // The tokens belong to the session, though its file name sorts after that of the folder.
    let conversation = &json_lines(&store, &["messages", SESSION])[1];
    assert_eq!(conversation["tokens_out"], 2, "{conversation}");
    let turns = json_lines(&store, &["turns", "--thread", SESSION]);
    let turn = |content: &str| turns.iter().find(|it| it["content"] == content).unwrap();
    assert_eq!(turn("and?")["parent_id"], turn("so")["id"], "{turns:?}");
}

#[test]
fn what_the_model_thought_stands_apart_from_what_it_said() {
    let thought = json!({"type": "thinking", "thinking": "A quince, surely."});
    let lines = [
        user("u1", None, json!("Which fruit?")),
        answer("a1", "u1", "r1", thought),
        answer(
            "a2",
            "a1",
            "r1",
            json!({"type": "text", "text": "An apple."}),
        ),
    ];
    let (_dir, store) = imported_files(&[("s.jsonl", &lines)]);
    let messages = json_lines(&store, &["messages", SESSION]);
    assert_eq!(messages[1]["reasoning"], "A quince, surely.");
    assert_eq!(
        (&messages[1]["content"], &messages[2]["content"]),
        (&json!(""), &json!("An apple."))
    );
    assert_eq!(messages[2].get("reasoning"), None);
    let turns = json_lines(&store, &["turns"]);
    let said: Vec<&Value> = turns.iter().map(|turn| &turn["content"]).collect();
    assert_eq!(said, ["Which fruit?", "[thinking]", "An apple."]);
    assert_eq!(turns[2]["parent_id"], turns[1]["id"]);
    let shown = run(&store, &["show", SESSION]);
    assert!(
        shown.contains("\n  thinking  A quince, surely.\n"),
        "{shown}"
    );
    assert!(shown.contains("\n    An apple.\n"), "{shown}");
    let tree = run(&store, &["tree", SESSION]);
    assert!(tree.contains("(A quince, surely.)"), "{tree}");
    let listed = run(&store, &["messages", SESSION]);
    assert!(
        listed.contains("(reasoning)  A quince, surely."),
        "{listed}"
    );
    let found = json_lines(&store, &["search", "quince"]);
    assert_eq!(found[0]["field"], "/reasoning");
}

#[test]
fn a_failed_result_is_failed_wherever_it_is_shown() {
    let failed = json!([{"type": "tool_result", "tool_use_id": "c1", "content": "no rule",
        "is_error": true}]);
    let lines = [
        user("u1", None, json!("Build it.")),
        answer("a1", "u1", "r1", bash("c1")),
        user("u2", Some("a1"), failed),
    ];
    let (_dir, store) = imported_files(&[("s.jsonl", &lines)]);
    let messages = json_lines(&store, &["messages", SESSION]);
    assert_eq!(
        (&messages[2]["error_type"], &messages[2]["tool_call_id"]),
        (&json!("tool_error"), &json!("c1"))
    );
    let shown = run(&store, &["show", SESSION]);
    assert!(shown.contains("\n  ! error   tool_error\n"), "{shown}");
    let tree = run(&store, &["tree", SESSION]);
    assert!(tree.contains("Bash  failed"), "{tree}");
    // A tool's error is not an error of the conversation or of a request.
    let conversation = &json_lines(&store, &["conversations"])[0];
    assert_eq!(conversation["status"], "completed");
    assert_eq!(
        (&conversation["error_count"], &conversation["failure_count"]),
        (&json!(0), &json!(1))
    );
    let errors = json_lines(&store, &["stats", "errors"]);
    assert_eq!(errors[0]["total"]["errors"], 0);
}

#[test]
fn several_calls_of_a_line_keep_their_ids() {
    let results = json!([
        {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "two"}]);
    let lines = [
        user("u1", None, json!("Build it twice.")),
        answer("a1", "u1", "r1", json!([bash("c1"), bash("c2")])),
        user("u2", Some("a1"), results),
    ];
    let (_dir, store) = imported_files(&[("s.jsonl", &lines)]);
    let messages = json_lines(&store, &["messages", SESSION]);
    assert_eq!(messages[1]["tool_call_id"], "c1");
    assert_eq!(messages[1]["content"], "[tool_use Bash c2]");
    assert_eq!(
        messages[2]["tool_result"],
        "[tool_result c1]\n\none\n\n[tool_result c2]\n\ntwo"
    );
}

fn title(store: &Path) -> Value {
    json_lines(store, &["conversations"])[0]["title"].clone()
}

#[test]
fn a_session_has_the_title_that_it_was_given() {
    let long = "Bake  a\ncake ".to_owned() + &"ö".repeat(200);
    let command = user("u1", None, json!("<command-name>/clear</command-name>"));
    let prompt = user("u2", Some("u1"), json!(long));
    let summary = json!({"type": "summary", "summary": "Cakes", "leafUuid": "u2"});
    let by_model = json!({"type": "ai-title", "aiTitle": "A cake", "sessionId": SESSION});
    let by_user = json!({"type": "custom-title", "customTitle": "My cake", "sessionId": SESSION});
    let first = format!("Bake a cake {}…", "ö".repeat(88));
    let lines = [command, prompt, by_model, by_user];
    for (len, expected) in [
        (1, None),
        (2, Some(&*first)),
        (3, Some("A cake")),
        (4, Some("My cake")),
    ] {
        let (_dir, store) = imported_files(&[("s.jsonl", &lines[..len])]);
        assert_eq!(title(&store), json!(expected));
    }
    let summed_up = [summary, lines[0].clone(), lines[1].clone()];
    let (_dir, store) = imported_files(&[("s.jsonl", &summed_up)]);
    assert_eq!(title(&store), "Cakes");
    let shown = run(&store, &["show", SESSION]);
    assert!(shown.starts_with("Cakes\n"), "{shown}");
    let listed = run(&store, &["conversations"]);
    assert!(listed.ends_with("app               Cakes\n"), "{listed}");
}

#[test]
fn a_title_that_a_person_gave_stays() {
    let sessions = tempfile::tempdir().unwrap();
    let file = sessions.path().join("s.jsonl");
    let prompt = user("u1", None, json!("Bake a cake")).to_string();
    std::fs::write(&file, format!("{prompt}\n")).unwrap();
    let (_dir, path) = imported(&file);
    // A session continues, and gets another title.
    let titled = |title: &str| json!({"type": "ai-title", "aiTitle": title, "sessionId": SESSION});
    std::fs::write(&file, format!("{prompt}\n{}\n", titled("A cake"))).unwrap();
    run(&path, &["import", file.to_str().unwrap()]);
    assert_eq!(title(&path), "A cake");
    let store = Store::open(&path).unwrap();
    let id = SESSION.parse().unwrap();
    let mine = |it: &mut Conversation| it.title = Some("Mine".to_owned());
    store.update_conversation(id, mine).unwrap();
    store.sync().unwrap();
    std::fs::write(&file, format!("{prompt}\n{}\n", titled("Cakes"))).unwrap();
    run(&path, &["import", file.to_str().unwrap()]);
    assert_eq!(title(&path), "Mine");
}

#[test]
fn sub_agents_are_linked_to_the_call_that_started_them() {
    let task = |id: &str, what: &str, prompt: &str| {
        json!({"type": "tool_use", "id": id,
        "name": "Task", "input": {"description": what, "prompt": prompt}})
    };
    let of_agent = |mut line: Value, agent: Option<&str>| {
        line["isSidechain"] = json!(true);
        line["agentId"] = json!(agent);
        line["cwd"] = json!("/home/me/elsewhere");
        line
    };
    let found = json!([{"type": "tool_result", "tool_use_id": "c3", "content": "done"}]);
    let mut found = user("u9", Some("a1"), found);
    found["toolUseResult"] = json!({"agentId": "x3", "status": "completed"});
    let lines = [
        user("u1", None, json!("Look around.")),
        answer(
            "a1",
            "u1",
            "r1",
            json!([
                task("c1", "See the file", "beside"),
                task("c2", "See the chain", "Look here."),
                task("c3", "See the result", "far")
            ]),
        ),
        of_agent(user("u2", None, json!("Look here.")), None),
        of_agent(
            answer(
                "a2",
                "u2",
                "r2",
                json!({"type": "text", "text": "Nothing."}),
            ),
            None,
        ),
        of_agent(user("u3", None, json!("other words")), Some("x3")),
        found,
    ];
    let agent = [of_agent(user("u4", None, json!("Look there.")), Some("x1"))];
    let meta = [json!({"toolUseId": "c1", "description": "Count files"})];
    let (_dir, store) = imported_files(&[
        ("s.jsonl", &lines),
        ("s/subagents/agent-x1.jsonl", &agent),
        ("s/subagents/agent-x1.meta.json", &meta),
    ]);
    let agents = json_lines(&store, &["conversations", "--parent", SESSION]);
    let mut links: Vec<_> = agents
        .iter()
        .map(|it| {
            [
                &it["parent_call_id"],
                &it["title"],
                &it["project"],
                &it["workspace"],
            ]
        })
        .map(|fields| fields.map(|field| field.as_str().unwrap_or("none")))
        .collect();
    links.sort_unstable();
    let of = |call, title| [call, title, "app", "/home/me/app"];
    assert_eq!(
        links,
        [
            of("c1", "Count files"),
            of("c2", "See the chain"),
            of("c3", "See the result")
        ]
    );
    let shown = run(&store, &["show", SESSION]);
    assert!(shown.contains("call c1  Count files"), "{shown}");
    let tree = json_lines(&store, &["tree", SESSION]);
    let after: Vec<(&Value, &Value)> = tree
        .windows(2)
        .filter_map(|pair| {
            Some((
                pair[0]["call"].get("call_id")?,
                pair[1]["conversation"].get("parent_call_id")?,
            ))
        })
        .collect();
    assert_eq!(after.len(), 3);
    assert!(
        after.iter().all(|(call, started_by)| call == started_by),
        "{after:?}"
    );
    // Records that belong to a session are erased with it.
    run(&store, &["erase", "--conversation", SESSION]);
    assert_eq!(json_lines(&store, &["conversations"]), [] as [Value; 0]);
}

/// A line of a Codex rollout.
fn codex(kind: &str, payload: Value) -> Value {
    json!({"timestamp": "2026-09-20T10:00:00.000Z", "type": kind, "payload": payload})
}

const THREAD: &str = "01900000-0000-7000-8000-000000000001";
const AGENT: &str = "01900000-0000-7000-8000-000000000002";

fn said(role: &str, text: &str) -> Value {
    codex(
        "response_item",
        json!({"type": "message", "role": role,
        "content": [{"type": "input_text", "text": text}]}),
    )
}

#[test]
fn a_sub_agent_of_codex_is_a_part_of_the_session_that_started_it() {
    let session = [
        codex("session_meta", json!({"id": THREAD, "cwd": "/home/me/app"})),
        said("user", "# AGENTS.md instructions for /home/me/app"),
        said("user", "<environment_context>\n</environment_context>"),
        said("user", "Review it."),
        codex(
            "response_item",
            json!({"type": "function_call", "name": "spawn_agent",
            "arguments": "{}", "call_id": "c1"}),
        ),
        codex(
            "event_msg",
            json!({"type": "collab_agent_spawn_end", "call_id": "c1",
            "sender_thread_id": THREAD, "new_thread_id": AGENT}),
        ),
    ];
    let spawn = json!({"subagent": {"thread_spawn": {"parent_thread_id": THREAD, "depth": 1,
        "agent_nickname": "Judge"}}});
    let agent = [
        codex(
            "session_meta",
            json!({"id": AGENT, "session_id": THREAD, "source": spawn}),
        ),
        said("assistant", "Looks fine."),
    ];
    for names in [["a.jsonl", "b.jsonl"], ["b.jsonl", "a.jsonl"]] {
        let (_dir, store) = imported_files(&[(names[0], &session), (names[1], &agent)]);
        let all = json_lines(&store, &["conversations", "--order", "asc"]);
        let by_id = |id: &str| all.iter().find(|it| it["id"] == id).unwrap();
        assert_eq!(by_id(THREAD)["title"], "Review it.");
        let agent = by_id(AGENT);
        let links = [
            &agent["parent_id"],
            &agent["session_id"],
            &agent["parent_call_id"],
            &agent["title"],
            &agent["project"],
        ];
        assert_eq!(links, [THREAD, THREAD, "c1", "Judge", "app"]);
        run(&store, &["erase", "--conversation", THREAD]);
        assert_eq!(json_lines(&store, &["conversations"]), [] as [Value; 0]);
    }
}

#[test]
fn what_codex_says_of_complete_items_is_kept() {
    let completed =
        |item: Value| codex("event_msg", json!({"type": "item_completed", "item": item}));
    let command = |id: &str, status: &str, code: i64| {
        completed(json!({"type": "CommandExecution",
        "id": id, "command": ["make"], "cwd": "file:///home/me/app", "status": status,
        "exit_code": code, "aggregated_output": "no rule", "duration": {"secs": 2, "nanos": 5_000_000}}))
    };
    let called = |id: &str| {
        codex(
            "response_item",
            json!({"type": "function_call", "name": "shell",
        "arguments": "{}", "call_id": id}),
        )
    };
    let returned = |id: &str, output: &str| {
        codex(
            "response_item",
            json!({"type": "function_call_output", "call_id": id, "output": output}),
        )
    };
    let usage = |input: u64, cached: u64, output: u64| {
        json!({"input_tokens": input,
        "cached_input_tokens": cached, "cache_write_input_tokens": 10, "output_tokens": output,
        "reasoning_output_tokens": 3})
    };
    let record = |id: &str, usage: Value| {
        codex(
            "token_usage_record",
            json!({"response_id": id, "usage": usage}),
        )
    };
    let lines = [
        codex("session_meta", json!({"id": THREAD, "cwd": "/home/me/app"})),
        said("user", "Build it."),
        codex("world_state", json!({"full": true})),
        called("c1"),
        // For the model's own call, the item has the failure, but its output does not.
        command("c1", "failed", 2),
        returned("c1", "no rule"),
        record("r1", usage(100, 60, 7)),
        // The total repeats the same tokens.
        codex(
            "event_msg",
            json!({"type": "token_count",
            "info": {"total_token_usage": usage(100, 60, 7)}}),
        ),
        called("c2"),
        command("exec-1", "completed", 0),
        command("exec-2", "failed", 101),
        completed(
            json!({"type": "FileChange", "id": "exec-3", "status": "completed",
            "changes": {"/home/me/app/a": {"type": "add", "content": "b"}}}),
        ),
        completed(
            json!({"type": "SubAgentActivity", "id": "c2", "kind": "started",
            "agent_thread_id": AGENT}),
        ),
        returned("c2", "Exit code: 1\nWall time: 0.1 seconds\nOutput:\nno"),
        record("r2", usage(200, 150, 8)),
        completed(
            json!({"type": "McpToolCall", "id": "exec-4", "server": "docs", "tool": "find",
            "arguments": {"q": 1}, "status": "failed", "error": {"message": "no access"},
            "duration": {"secs": 1, "nanos": 0}}),
        ),
        completed(json!({"type": "Novelty", "id": "n"})),
    ];
    let agent = [
        codex(
            "session_meta",
            json!({"id": AGENT, "parent_thread_id": THREAD, "session_id": THREAD}),
        ),
        codex(
            "response_item",
            json!({"type": "agent_message", "author": "/root",
            "content": [{"type": "input_text", "text": "Judge it."}]}),
        ),
        said("assistant", "Fine."),
        // Without a total, only the last response's tokens are known.
        codex(
            "event_msg",
            json!({"type": "token_count", "info": {"last_token_usage": usage(50, 20, 5)}}),
        ),
    ];
    let (_dir, store) = imported_files(&[("a.jsonl", &lines), ("b.jsonl", &agent)]);
    let calls = json_lines(&store, &["calls"]);
    let mut rows: Vec<_> = calls
        .iter()
        .map(|it| {
            [
                &it["call_id"],
                &it["tool_name"],
                &it["status"],
                &it["error_kind"],
            ]
        })
        .map(|row| row.map(|field| field.as_str().unwrap_or("")))
        .collect();
    rows.sort_unstable();
    assert_eq!(
        rows,
        [
            ["c1", "shell", "failed", "exit_code"],
            ["c2", "shell", "failed", "exit_code"],
            ["exec-1", "exec_command", "completed", ""],
            ["exec-2", "exec_command", "failed", "exit_code"],
            ["exec-3", "apply_patch", "completed", ""],
            ["exec-4", "mcp__docs__find", "failed", "tool_error"],
        ]
    );
    let ran = calls.iter().find(|it| it["call_id"] == "exec-2").unwrap();
    assert_eq!(
        (&ran["latency_ms"], &ran["error_msg"]),
        (&json!(2005), &json!("no rule"))
    );
    let asked = calls.iter().find(|it| it["call_id"] == "c1").unwrap();
    let outcome = &asked["outcome_json"];
    assert_eq!(
        (&outcome["exit_code"], &asked["latency_ms"]),
        (&json!(2), &json!(2005))
    );
    let called = calls.iter().find(|it| it["call_id"] == "exec-4").unwrap();
    assert_eq!(
        (&called["latency_ms"], &called["error_msg"]),
        (&json!(1000), &json!("no access"))
    );
    let usage = &json_lines(&store, &["stats", "usage", "--bucket", "all"])[0]["total"];
    let parts = [
        "requests",
        "tokens_in",
        "tokens_input",
        "tokens_cache_write",
        "tokens_cache_read",
        "tokens_out",
        "tokens_reasoning",
    ]
    .map(|part| usage[part].as_u64().unwrap());
    assert_eq!(parts, [3, 350, 90, 30, 230, 20, 9]);
    let agents = json_lines(&store, &["conversations", "--parent", THREAD]);
    assert_eq!(
        (&agents[0]["id"], &agents[0]["parent_call_id"]),
        (&json!(AGENT), &json!("c2"))
    );
    // A call's nested commands are erased with its conversation, and stay erased.
    run(&store, &["erase", "--conversation", THREAD]);
    let sessions = tempfile::tempdir().unwrap();
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(sessions.path().join("a.jsonl"), lines.join("\n")).unwrap();
    run(&store, &["import", sessions.path().to_str().unwrap()]);
    assert_eq!(json_lines(&store, &["calls"]), [] as [Value; 0]);
}
