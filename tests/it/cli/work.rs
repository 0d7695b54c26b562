//! `decklog today`, `day`, `files`, `commands` and `resume`.

use std::collections::BTreeMap;

use decklog::Timestamp;
use serde_json::json;

use super::*;

/// A log with a session of two projects and one of a sub-agent, on 2025-12-27.
fn log() -> Log {
    let log = Log::keeping_all();
    let mut lines = Vec::new();
    for (n, project, parent) in [(1, "app", None), (2, "app", Some(1)), (3, "web", None)] {
        let mut line = json!({
            "kind": "conversations", "id": id(n), "client": "cli", "agent": "claude-code",
            "project": project, "workspace": format!("/w/{project}"), "session_id": format!("s{n}"),
            "title": format!("Task {n}"), "created_at": "2025-12-27T08:00:00Z",
        });
        if let Some(parent) = parent {
            line["parent_id"] = json!(id(parent));
        }
        lines.push(line.to_string());
    }
    for (n, conversation, at, role, content) in [
        (11, 1, "2025-12-26T23:59:59Z", "user", "The day before"),
        (12, 1, "2025-12-27T08:00:00Z", "user", "Fix the build"),
        (13, 1, "2025-12-27T08:01:00Z", "assistant", "I will."),
        (14, 2, "2025-12-27T08:02:00Z", "assistant", "Looking."),
        (15, 3, "2025-12-27T09:00:00Z", "assistant", "Done."),
    ] {
        let mut line = json!({
            "kind": "messages", "id": id(n), "conversation_id": id(conversation), "timestamp": at,
            "role": role, "content": content,
        });
        if role == "assistant" {
            line["tokens_in"] = json!(1000);
            line["tokens_cache_read"] = json!(600);
            line["tokens_out"] = json!(50);
            line["cost_usd"] = json!(0.25);
        }
        lines.push(line.to_string());
    }
    for (n, parent, minute, tool, arguments, outcome) in [
        (
            21,
            13,
            1,
            "Edit",
            json!({"file_path": "/w/app/src/a.rs", "old_string": "x\n", "new_string": "x\ny\n"}),
            Ok("ok"),
        ),
        (
            22,
            13,
            2,
            "Bash",
            json!({"command": "cd /w/app && timeout 60 cargo test --lib"}),
            Err("Exit code 101\nerror: it failed\nmore"),
        ),
        (
            23,
            14,
            3,
            "Write",
            json!({"file_path": "/w/app/src/b.rs", "content": "1\n2\n"}),
            Ok("ok"),
        ),
        (
            24,
            14,
            4,
            "Edit",
            json!({"file_path": "/w/app/src/a.rs", "old_string": "x", "new_string": "z"}),
            Err("The user doesn't want to proceed with this tool use."),
        ),
        (
            25,
            15,
            5,
            "bash",
            json!({"command": "cargo test"}),
            Ok("{\"exit_code\":1}"),
        ),
        (
            26,
            15,
            6,
            "bash",
            json!({"command": "cargo test"}),
            Ok("{\"exit_code\":0}"),
        ),
        (27, 15, 7, "edit", json!({"lines": 3}), Ok("ok")),
        (28, 15, 8, "bash", json!({"command": "ls"}), Ok("a\nb")),
    ] {
        lines.extend(call(n, parent, minute, tool, &arguments, outcome));
    }
    log.record(&lines);
    log
}

/// A call of a turn, with its outcome.
fn call(
    n: u32,
    parent: u32,
    minute: i64,
    tool: &str,
    arguments: &Value,
    outcome: Result<&str, &str>,
) -> [String; 2] {
    let at = 1_766_822_400_000 + minute * 60_000;
    let request = json!({
        "kind": "tool_calls", "op": "requested", "request_id": id(n), "call_id": format!("c{n}"),
        "parent_id": id(parent), "vendor": "test", "tool_name": tool, "started_at": at,
        "arguments_json": arguments.to_string(),
    });
    let mut done = json!({
        "kind": "tool_calls", "op": "completed", "request_id": id(n), "call_id": format!("c{n}"),
        "ended_at": at + 2000, "latency_ms": 2000,
    });
    match outcome {
        Ok(outcome) => done["outcome_json"] = json!(outcome),
        Err(error) => {
            done["op"] = json!("failed");
            done["error_kind"] = json!("tool_error");
            done["error_msg"] = json!(error);
        }
    }
    [request.to_string(), done.to_string()]
}

#[test]
fn a_day_tells_what_was_done() {
    let log = log();
    let found = log.json(&["day", "2025-12-27", "--utc"]);
    assert_eq!(found.len(), 1);
    let report = &found[0];
    assert_eq!(report["since"], "2025-12-27T00:00:00.000Z");
    assert_eq!(report["until"], "2025-12-28T00:00:00.000Z");
    let [app, web] = &report["projects"].as_array().unwrap()[..] else {
        panic!("{report}");
    };
    // The message of the day before does not count, and the sub-agent is a part of its session.
    let sessions = app["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1);
    let numbers = |it: &Value| {
        let names = [
            "messages",
            "calls",
            "failed_calls",
            "files",
            "edits",
            "added",
            "removed",
            "tokens_in",
            "tokens_out",
        ];
        names.map(|name| it[name].as_u64().unwrap())
    };
    assert_eq!(numbers(&sessions[0]), [3, 4, 2, 2, 2, 3, 0, 2000, 100]);
    assert_eq!(numbers(app), numbers(&sessions[0]));
    assert_eq!(numbers(&report["total"]), [4, 8, 3, 2, 2, 3, 0, 3000, 150]);
    assert_eq!(sessions[0]["title"], "Task 1");
    assert_eq!(sessions[0]["agent"], "claude-code");
    assert_eq!(sessions[0]["sub_agents"], 1);
    assert_eq!(sessions[0]["began_at"], "2025-12-27T08:00:00.000Z");
    assert_eq!(sessions[0]["ended_at"], "2025-12-27T08:04:00.000Z");
    assert_eq!(app["cost_usd"], 0.5);
    let failures = json!([
        {"tool_name": "Bash", "command": "cargo test", "failures": 1, "error": "error: it failed"},
        {"tool_name": "Edit", "failures": 1, "error": "The user doesn't want to proceed with this tool use."},
    ]);
    assert_eq!(app["failures"], failures);
    let files = json!([
        {"path": "src/a.rs", "changes": 1, "added": 1, "removed": 0},
        {"path": "src/b.rs", "changes": 1, "added": 2, "removed": 0},
    ]);
    assert_eq!(app["changed_files"], files);
    assert_eq!(web["project"], "web");
    assert_eq!(web["failed_calls"], 1);
    let only = log.json(&["day", "2025-12-27", "--utc", "--project", "web"]);
    assert_eq!(only[0]["projects"].as_array().unwrap().len(), 1);
    assert_eq!(numbers(&only[0]["total"]), numbers(web));
    let none = log.run(&["day", "2025-12-29", "--utc"]);
    assert_eq!((code(&none), out(&none)), (OK, String::new()));
    assert!(err(&none).contains("nothing was recorded on Monday, 2025-12-29 (UTC)"));
    assert_eq!(code(&log.run(&["day", "someday"])), USAGE);
}

#[test]
fn a_day_is_one_of_the_local_time() {
    let log = log();
    let messages = |zone: &str, day: &str| {
        let mut command = log.command(&["day", day, "--json"]);
        let output = command.env("TZ", zone).output().unwrap();
        objects(&out(&output))[0]["total"]["messages"].clone()
    };
    assert_eq!(messages("UTC", "2025-12-27"), 4);
    // There it is one hour later.
    assert_eq!(messages("Europe/Berlin", "2025-12-27"), 5);
    assert_eq!(messages("America/New_York", "2025-12-26"), 1);
}

#[test]
fn today_is_the_day_of_now() {
    let log = Log::keeping_all();
    let now = Timestamp::now();
    log.record(&[
        conversation(1),
        message(2, 1, "hello").replace("2025-12-27T08:00:01Z", &now.to_string()),
    ]);
    let today = log.json(&["today", "--utc"]);
    assert_eq!(today[0]["total"]["messages"], 1);
    assert_eq!(today, log.json(&["day", "today", "--utc"]));
    assert_eq!(
        log.json(&["day", "yesterday", "--utc"])[0]["total"]["messages"],
        0
    );
}

#[test]
fn files_are_those_of_edit_tools() {
    let log = log();
    let output = log.run(&["files", "--utc"]);
    let expected = "\
CHANGED           CHANGES  FAILED  ADDED  REMOVED  SESSIONS  AGENTS       PROJECT  FILE
2025-12-27 08:04        1       1      1        0         1  claude-code  app      src/a.rs
2025-12-27 08:03        1       0      2        0         1  claude-code  app      src/b.rs
";
    assert_eq!(out(&output), expected);
    assert_eq!(
        err(&output),
        "decklog: 1 call of edit with arguments that are not understood\n"
    );
    let paths = |args: &[&str]| -> Vec<String> {
        let output = log.run(&[&["files", "--json"], args].concat());
        let rows = objects(&out(&output))[0]["rows"].clone();
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["path"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(paths(&["/w/app"]), ["src/a.rs", "src/b.rs"]);
    assert_eq!(paths(&["**/b.*"]), ["src/b.rs"]);
    assert_eq!(paths(&["--until", "2025-12-27T08:02:00Z"]), ["src/a.rs"]);
    assert_eq!(paths(&["--project", "web"]), [""; 0]);
    assert_eq!(paths(&["lib"]), [""; 0]);
    let mut below = log.command(&["files", "./", "--json"]);
    let below = below.current_dir(log.dir.path()).output().unwrap();
    assert_eq!(objects(&out(&below))[0]["row_count"], 0);
}

#[test]
fn each_change_of_a_file_is_listed() {
    let log = log();
    let found = log.json(&["files", "src/a.rs"]);
    let changes = found[0]["changes"].as_array().unwrap();
    let of = |name: &str| -> Vec<&Value> { changes.iter().map(|it| &it[name]).collect() };
    assert_eq!(of("status"), ["denied", "completed"]);
    assert_eq!(of("edit"), ["edit", "edit"]);
    assert_eq!(of("tool_name"), ["Edit", "Edit"]);
    assert_eq!(of("conversation_id"), [&id(2), &id(1)]);
    // That of the sub-agent is told under the title of its session.
    assert_eq!(of("title"), ["Task 1", "Task 1"]);
    assert_eq!(changes[1]["prompt"], "Fix the build");
    assert_eq!(found[0]["rows"][0]["failed"], 1);
    let limited = log.run(&["files", "/w/app/src/a.rs", "--limit", "1"]);
    assert_eq!(out(&limited).lines().count(), 2);
    assert!(
        err(&limited).contains("1 of 2 shown: set --limit"),
        "{}",
        err(&limited)
    );
}

#[test]
fn commands_that_fail_most_come_first() {
    let log = log();
    let expected = "\
COMMAND     RUNS  FAILED    RATE    AVG    P95  LATEST ERROR
cargo test     3       2  66.7 %  2.0 s  2.0 s  {\"exit_code\":1}
ls             1       0   0.0 %  2.0 s  2.0 s
total          4       2  50.0 %  2.0 s  2.0 s
";
    assert_eq!(log.ok(&["commands"]), expected);
    let app = log.json(&["commands", "--project", "app"]);
    assert_eq!(app[0]["rows"][0]["runs"], 1);
    let failure = &app[0]["rows"][0]["latest_failure"];
    assert_eq!(
        failure["command"],
        "cd /w/app && timeout 60 cargo test --lib"
    );
    assert_eq!(failure["error"], "error: it failed");
    assert_eq!(failure["conversation_id"], id(1));
    let none = log.run(&["commands", "--since", "2025-12-28"]);
    assert_eq!((code(&none), &*out(&none)), (OK, ""));
    assert!(err(&none).contains("no commands found"));
    let limited = log.run(&["commands", "--limit", "1"]);
    assert!(
        err(&limited).contains("1 of 2 commands shown"),
        "{}",
        err(&limited)
    );
}

#[test]
fn a_session_is_resumed_by_its_own_agent() {
    let log = log();
    let of = |args: &[&str]| {
        let output = log.run(&[&["resume"], args].concat());
        (code(&output), out(&output), err(&output))
    };
    let (exit, command, told) = of(&[&id(1)]);
    assert_eq!((exit, &*command), (OK, "cd /w/app && claude --resume s1\n"));
    let expected = "\
decklog: Task 1
decklog: last prompt  Fix the build
decklog: last answer  I will.
";
    assert_eq!(told, expected);
    // A sub-agent is a part of the session that started it.
    let quiet = of(&[&id(2), "--quiet"]);
    assert_eq!(quiet, (OK, command, String::new()));
    let codex = of(&[&id(1), "--quiet", "--agent", "codex"]);
    assert_eq!(codex.1, "cd /w/app && codex resume s1\n");
    let (exit, command, told) = of(&[&id(1), "--agent", "zed"]);
    assert_eq!((exit, &*command), (FINDINGS, ""));
    assert!(
        told.contains("zed has no command that continues a session"),
        "{told}"
    );
    let found = log.json(&["resume", &id(1)]);
    assert_eq!(found[0]["command"], json!(["claude", "--resume", "s1"]));
    assert_eq!(found[0]["directory"], "/w/app");
    assert_eq!(of(&[&id(99)]).0, FINDINGS);
}

/// A session id must not become an option or a command of its own, and a directory no command.
#[cfg(unix)]
#[test]
fn what_a_shell_runs_is_quoted() {
    let log = Log::keeping_all();
    let workspace = log.dir.path().join("it's $(touch x); `y`\n!");
    std::fs::create_dir(&workspace).unwrap();
    let workspace = workspace.to_str().unwrap();
    let conversation = |n: u32, session: &str| {
        json!({
            "kind": "conversations", "id": id(n), "client": "cli", "agent": "claude-code",
            "workspace": workspace, "session_id": session, "created_at": format!("2025-12-2{n}T08:00:00Z"),
        })
        .to_string()
    };
    log.record(&[
        conversation(1, "--dangerously-skip-permissions"),
        conversation(2, "s2"),
    ]);
    let refused = log.run(&["resume", &id(1)]);
    assert_eq!((code(&refused), &*out(&refused)), (FINDINGS, ""));
    let command = log.ok(&["resume", "latest", "--quiet"]);
    let script = format!("claude() {{ pwd; printf '%s|' \"$@\"; }}\n{command}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(out(&output), format!("{workspace}\n--resume|s2|"));
}

/// The sessions of real agents.
#[test]
fn imported_sessions_are_understood() {
    let log = Log::imported();
    let day = &log.json(&["day", "2025-12-09", "--utc"])[0];
    assert_eq!(day["projects"].as_array().unwrap().len(), 1);
    let project = &day["projects"][0];
    let numbers = [
        "calls",
        "failed_calls",
        "files",
        "edits",
        "added",
        "removed",
        "tokens_in",
        "tokens_out",
    ];
    let numbers: BTreeMap<&str, u64> = numbers
        .into_iter()
        .map(|name| (name, project[name].as_u64().unwrap()))
        .collect();
    // As in tests/data/README.md.
    let expected = [
        ("calls", 9),
        ("failed_calls", 3),
        ("files", 1),
        ("edits", 2),
        ("added", 2),
        ("removed", 0),
        ("tokens_in", 98_785 + 487 + 26_740),
        ("tokens_out", 844 + 130 + 408),
    ];
    assert_eq!(numbers, BTreeMap::from(expected));
    let sessions = project["sessions"].as_array().unwrap();
    let sub_agents: Vec<&Value> = sessions.iter().map(|it| &it["sub_agents"]).collect();
    assert_eq!(sub_agents, [1, 0]);
    let files = &log.json(&["files", "myapp/hoge.py"])[0];
    let tools: Vec<&Value> = files["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["tool_name"])
        .collect();
    assert_eq!(tools, ["apply_patch", "Write"]);
    let expected = "\
COMMAND  RUNS  FAILED     RATE    AVG    P95  LATEST ERROR
python      3       3  100.0 %  2.9 s  4.6 s  error: target shim binary not found
mkdir       2       0    0.0 %  2.2 s  4.2 s
python3     2       0    0.0 %  1.4 s  2.7 s
total       7       3   42.9 %  2.3 s  4.6 s
";
    assert_eq!(log.ok(&["commands"]), expected);
    snapshots::check(&log, "day", &["day", "2025-12-09"]);
    snapshots::check(&log, "files", &["files"]);
    snapshots::check(&log, "files-changes", &["files", "myapp/hoge.py"]);
    snapshots::check(&log, "commands", &["commands"]);
}

/// Content that would change a terminal, its text's direction or the columns of a table.
#[test]
fn hostile_content_stays_in_its_place() {
    let log = Log::keeping_all();
    let evil = "\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}\u{200b}\r\u{8}日本語の長い文章です 👩‍👩‍👧 é ﷽\n|x";
    let long = "日本".repeat(60);
    let both = format!("{evil}{long}");
    let mut lines = vec![
        json!({
            "kind": "conversations", "id": id(1), "client": "cli", "agent": evil, "project": evil,
            "workspace": format!("/{evil}"), "title": both, "created_at": "2025-12-27T08:00:00Z",
        })
        .to_string(),
        json!({
            "kind": "messages", "id": id(2), "conversation_id": id(1), "role": "user", "content": both,
            "timestamp": "2025-12-27T08:00:00Z",
        })
        .to_string(),
    ];
    let path = format!("a/{both}");
    for (n, tool, arguments, outcome) in [
        (
            3,
            "Write",
            json!({"file_path": path, "content": both}),
            Ok("ok"),
        ),
        (4, "Bash", json!({"command": both}), Err(&*both)),
        (5, evil, json!({"command": both}), Err(&*both)),
        (
            6,
            "Edit",
            json!({"file_path": "f", "old_string": both, "new_string": ""}),
            Err(&*both),
        ),
    ] {
        lines.extend(call(n, 2, i64::from(n), tool, &arguments, outcome));
    }
    log.record(&lines);
    snapshots::check(&log, "hostile-day", &["day", "2025-12-27"]);
    snapshots::check(&log, "hostile-files", &["files"]);
    snapshots::check(&log, "hostile-files-changes", &["files", "f"]);
    snapshots::check(&log, "hostile-commands", &["commands"]);
}
