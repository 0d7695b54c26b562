//! Tasks of Cline and of Roo Code.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::log::MemoryLog;
use super::{counts, held, import_path, sample};
use crate::import::agent::Home;
use crate::import::{Format, Report, foreign_id};

/// A folder of a task, as the agent keeps it.
fn task(root: &Path, agent: &str) -> PathBuf {
    let (folder, id) = match agent {
        "cline" => ("saoudrizwan.claude-dev", "1772100000000"),
        _ => (
            "rooveterinaryinc.roo-cline",
            "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001",
        ),
    };
    let task = root.join(folder).join("tasks").join(id);
    fs::create_dir_all(&task).unwrap();
    for file in fs::read_dir(sample(agent)).unwrap() {
        let file = file.unwrap().path();
        if !file.ends_with("messages.json") {
            fs::copy(&file, task.join(file.file_name().unwrap())).unwrap();
        }
    }
    task
}

/// Writes the messages, as they were some seconds ago.
fn write(task: &Path, messages: &[Value], ago: u64) {
    let path = task.join("ui_messages.json");
    fs::write(&path, json!(messages).to_string()).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(ago))
        .unwrap();
}

fn messages(agent: &str) -> Vec<Value> {
    let bytes = fs::read(sample(agent).join("messages.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn import(log: &MemoryLog, agent: &str, messages: &[Value], ago: u64) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let task = task(dir.path(), agent);
    write(&task, messages, ago);
    import_path(log, dir.path())
}

#[test]
fn a_task_of_cline_becomes_a_conversation() {
    let log = MemoryLog::default();
    let report = import(&log, "cline", &messages("cline"), 100);
    assert_eq!((report.broken.as_slice(), report.unfinished), (&[][..], 0));
    assert_eq!(
        (report.files, report.conversations, report.lines),
        (1, 1, 19)
    );
    assert_eq!((report.tool_calls, report.tool_results), (3, 3));
    assert_eq!(report.api_responses, 5);
    let input = [20 + 1200 + 8000, 30 + 300 + 9200, 40 + 9500, 50 + 9600, 60];
    assert_eq!(report.tokens_in, input.iter().sum::<u64>());
    assert_eq!(report.tokens_out, 150 + 90 + 60 + 30);
    assert_eq!(
        (report.tokens_cache_read, report.tokens_cache_write),
        (36300, 1500)
    );
    assert_eq!(counts(&report), [("say.hologram", 1), ("user.image", 1)]);
    let conversation = &log.conversations()[0];
    assert_eq!(
        conversation.title.as_deref(),
        Some("Why is the total rounded twice?")
    );
    assert_eq!(conversation.workspace.as_deref(), Some("/home/dev/shop"));
    assert_eq!(conversation.session_id.as_deref(), Some("1772100000000"));
    let messages = log.messages();
    let cost: f64 = messages.iter().filter_map(|m| m.cost_usd).sum();
    assert!((cost - 0.0258).abs() < 1e-9);
    let errors: Vec<&str> = messages.iter().filter_map(|m| m.error.as_deref()).collect();
    assert_eq!(errors, ["user_cancelled"]);
    assert!(
        messages
            .iter()
            .any(|m| m.content == "Which of the two?\n- The first\n- The second")
    );
    let (read, done) = log.call("1772100003000:tool").unwrap();
    assert_eq!(read.tool_name, "readFile");
    assert_eq!(
        done.unwrap().outcome_json.as_deref(),
        Some("[read_file for 'cart.ts'] Result:\n\nexport const total = round(round(sum));")
    );
    let (command, done) = log.call("1772100006000:command").unwrap();
    assert_eq!(
        command.arguments_json.as_deref(),
        Some(r#"{"command":"npm test"}"#)
    );
    assert_eq!(
        done.unwrap().outcome_json.as_deref(),
        Some("1 failing\nexit code 1")
    );
    assert_eq!(log.failed_calls(), ["1772100008000:tool"]);
    let models: Vec<_> = messages.iter().filter(|m| m.tokens_in.is_some()).collect();
    assert!(
        models
            .iter()
            .all(|m| m.model_used.as_deref() == Some("claude-sonnet-4-5"))
    );

    let second = import(&log, "cline", &self::messages("cline"), 100);
    assert_eq!(second.added, 0);
    assert_eq!(held(&second), held(&report));
}

#[test]
fn a_task_of_roo_code_has_the_tokens_of_the_cache_in_its_input() {
    let log = MemoryLog::default();
    let report = import(&log, "roo-code", &messages("roo-code"), 100);
    assert_eq!((report.broken.as_slice(), report.unfinished), (&[][..], 0));
    assert_eq!((report.tokens_in, report.tokens_out), (9320 + 9500, 100));
    assert_eq!(
        (report.tokens_cache_read, report.tokens_cache_write),
        (17600, 1000)
    );
    assert_eq!((report.tool_calls, report.tool_results), (2, 1));
    let conversation = &log.conversations()[0];
    assert_eq!(conversation.workspace.as_deref(), Some("/home/dev/shop"));
    let parent = foreign_id("roo-code:session", "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000");
    assert_eq!(conversation.parent_id, Some(parent));
    let messages = log.messages();
    assert_eq!(messages[1].model_used.as_deref(), Some("claude-opus-4-5"));
    // No message to the model names the model of the second request.
    assert_eq!(
        messages.iter().filter(|m| m.model_used.is_some()).count(),
        3
    );
}

#[test]
fn a_task_that_grows_is_in_the_end_what_it_is_at_once() {
    for agent in ["cline", "roo-code"] {
        let all = messages(agent);
        let whole = MemoryLog::default();
        import(&whole, agent, &all, 100);
        let grown = MemoryLog::default();
        for end in 0..=all.len() {
            let mut now = all[..end].to_vec();
            if let Some(last) = now.last_mut() {
                // What was just begun.
                let mut begun = last.clone();
                begun["partial"] = json!(true);
                if begun["say"] == "api_req_started" {
                    begun["text"] = json!("{\"request\":\"Loading...\"}");
                }
                let done = std::mem::replace(last, begun);
                assert_eq!(import(&grown, agent, &now, 0).broken, []);
                now[end - 1] = done;
            }
            assert_eq!(import(&grown, agent, &now, 0).broken, []);
            // Quiet for a while.
            import(&grown, agent, &now, 100);
            assert_eq!(import(&grown, agent, &now, 0).added, 0);
        }
        assert_eq!(grown.content(), whole.content(), "{agent}");
    }
}

#[test]
fn the_last_request_waits_for_its_tokens() {
    let log = MemoryLog::default();
    let all = messages("cline");
    let report = import(&log, "cline", &all[..6], 0);
    assert_eq!((report.unfinished, report.messages), (1, 1));
    // The program ended before they came.
    let mut left = all[..6].to_vec();
    left[2]["text"] = json!("{\"request\":\"<task>\"}");
    let report = import(&log, "cline", &left, 100);
    assert_eq!((report.unfinished, report.added), (1, 0));
    let report = import(&log, "cline", &left, 100_000);
    assert_eq!((report.unfinished, report.tokens_in), (0, 0));
}

#[test]
fn damaged_messages_are_reasons_and_no_panic() {
    let text = json!(messages("cline")).to_string();
    let dir = tempfile::tempdir().unwrap();
    let task = task(dir.path(), "cline");
    let log = MemoryLog::default();
    for at in (0..text.len()).step_by(61) {
        fs::write(task.join("ui_messages.json"), &text.as_bytes()[..at]).unwrap();
        assert_eq!(import_path(&log, dir.path()).unfinished, 1);
        let mut other = text.clone().into_bytes();
        other[at] = b"0\"{[,x"[at % 6];
        fs::write(task.join("ui_messages.json"), other).unwrap();
        import_path(&log, dir.path());
    }
}

#[test]
fn values_of_other_types_are_reasons_and_no_panic() {
    for agent in ["cline", "roo-code"] {
        for other in super::altered(&json!(messages(agent))) {
            let Value::Array(messages) = other else {
                continue;
            };
            let log = MemoryLog::default();
            import(&log, agent, &messages, 100);
            assert_eq!(import(&log, agent, &messages, 100).added, 0);
        }
    }
}

#[test]
fn the_places_of_agents_are_known() {
    let home = tempfile::tempdir().unwrap();
    let places = |format: Format| format.agent().places(&Home::at(home.path()));
    let has = |format, path: &str| places(format).contains(&home.path().join(path));
    let code = ".config/Code/User/globalStorage";
    let mac = "Library/Application Support/VSCodium/User/globalStorage";
    for (format, path) in [
        (
            Format::Cline,
            format!("{code}/saoudrizwan.claude-dev/tasks"),
        ),
        (Format::Cline, format!("{mac}/saoudrizwan.claude-dev/tasks")),
        (Format::Cline, ".cline/data/tasks".to_owned()),
        (
            Format::RooCode,
            format!("{code}/rooveterinaryinc.roo-cline/tasks"),
        ),
        (
            Format::Goose,
            "AppData/Roaming/Block/goose/data/sessions/sessions.db".to_owned(),
        ),
        (
            Format::Zed,
            "Library/Application Support/Zed/threads/threads.db".to_owned(),
        ),
    ] {
        assert!(has(format, &path), "{path}");
    }
    let data = places(Format::OpenCode)[0].parent().unwrap().to_owned();
    assert!(data.ends_with("opencode"));
    assert!(places(Format::Aider).is_empty());
}
