//! Sessions of opencode, in all forms in which it keeps them.

#[cfg(feature = "databases")]
mod databases;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::log::MemoryLog;
use super::{counts, held, import_path, sample};
use crate::import::{Format, Importer, Report};

/// The sample, an export.
fn export() -> Value {
    serde_json::from_slice(&fs::read(sample("opencode/export.json")).unwrap()).unwrap()
}

fn write(path: &Path, document: &Value) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, document.to_string()).unwrap();
}

/// The export as the files of versions before the database.
fn store(root: &Path, export: &Value) {
    let of = |value: &Value| value["id"].as_str().unwrap().to_owned();
    let session = of(&export["info"]);
    let storage = root.join("storage");
    write(
        &storage.join(format!("session/p/{session}.json")),
        &export["info"],
    );
    for message in export["messages"].as_array().unwrap() {
        let id = of(&message["info"]);
        write(
            &storage.join(format!("message/{session}/{id}.json")),
            &message["info"],
        );
        for part in message["parts"].as_array().unwrap() {
            write(&storage.join(format!("part/{id}/{}.json", of(part))), part);
        }
    }
}

fn import_export(log: &MemoryLog, export: &Value) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("export.json");
    write(&path, export);
    import_as(log, &path)
}

/// Without a look at what the file is.
fn import_as(log: &MemoryLog, path: &Path) -> Report {
    let mut importer = Importer::over(log).format(Some(Format::OpenCode));
    importer.path(path).unwrap();
    importer.finish().unwrap()
}

#[test]
fn a_session_becomes_a_conversation() {
    let log = MemoryLog::default();
    let report = import_path(&log, &sample("opencode/export.json"));
    assert_eq!(report.broken, []);
    assert_eq!((report.conversations, report.unfinished), (1, 0));
    assert_eq!((report.turns, report.messages), (11, 11));
    assert_eq!((report.tool_calls, report.tool_results), (3, 3));
    // Two requests, one retry that failed, one answer that was aborted.
    assert_eq!(report.api_responses, 4);
    assert_eq!(report.tokens_in, (12 + 9000 + 1200) + (20 + 10200 + 300));
    // `total` shows that the first request's reasoning is beside its output.
    assert_eq!(
        (report.tokens_out, report.tokens_reasoning),
        (180 + 40 + 60, 40)
    );
    assert_eq!(
        (report.tokens_cache_read, report.tokens_cache_write),
        (19200, 1500)
    );
    assert_eq!(counts(&report), [("assistant.hologram", 1)]);
    let mut failed = log.failed_calls();
    failed.sort();
    assert_eq!(
        failed,
        [
            "toolu_01OpencodeBash000000001",
            "toolu_01OpencodeEdit000000003"
        ]
    );
    let conversation = &log.conversations()[0];
    assert_eq!(
        conversation.title.as_deref(),
        Some("Rounding of the cart total")
    );
    assert_eq!(conversation.workspace.as_deref(), Some("/home/dev/shop"));
    assert_eq!(
        conversation.session_id.as_deref(),
        Some("ses_4f1e2d3c4b5affeQ1w2E3r4T5y")
    );
    let messages = log.messages();
    let costs: Vec<f64> = messages.iter().filter_map(|m| m.cost_usd).collect();
    assert_eq!(costs, [0.0123, 0.005]);
    let errors: Vec<&str> = messages.iter().filter_map(|m| m.error.as_deref()).collect();
    assert_eq!(
        errors,
        [
            "APIError: Overloaded",
            "MessageAbortedError: The operation was aborted."
        ]
    );
    let (request, done) = log.call("toolu_01OpencodeBash000000001").unwrap();
    assert_eq!(request.vendor, "anthropic");
    assert_eq!(
        request.arguments_json.as_deref(),
        Some(r#"{"command":"npm test","description":"Run the tests"}"#)
    );
    let done = done.unwrap();
    assert_eq!(done.error_msg.as_deref(), Some("exit code 1"));
    assert_eq!(
        (done.latency_ms, done.outcome_json.as_deref()),
        (4000, Some("1 failing\n"))
    );
    let answer = messages
        .iter()
        .find(|m| m.tokens_reasoning == Some(40))
        .unwrap();
    assert_eq!(answer.model_used.as_deref(), Some("claude-sonnet-4-5"));
    assert_eq!(
        answer.content,
        "I look at the tests.\n\n[tool_use task toolu_01OpencodeTask000000002]"
    );
    assert_eq!(
        answer.reasoning.as_deref(),
        Some("The total may be rounded twice.")
    );

    let second = import_path(&log, &sample("opencode/export.json"));
    assert_eq!(second.added, 0);
    assert_eq!(held(&second), held(&report));
}

#[test]
fn all_forms_of_a_session_are_the_same_records() {
    let log = MemoryLog::default();
    import_path(&log, &sample("opencode/export.json"));
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), &export());
    let report = import_path(&log, dir.path());
    assert_eq!((report.files, report.added), (1, 0));
    assert_eq!(report.broken, []);
    #[cfg(feature = "databases")]
    {
        databases::fill(&dir.path().join("opencode.db"), &export(), 1);
        let report = import_path(&log, &dir.path().join("opencode.db"));
        assert_eq!((report.files, report.added), (1, 0));
        assert_eq!(report.broken, []);
    }
}

/// The states of a session while it runs: each part is first begun, then over; a message is
/// completed after its parts.
fn states(whole: &Value) -> Vec<Value> {
    let mut now = whole.clone();
    now["messages"] = json!([]);
    let mut states = vec![now.clone()];
    for message in whole["messages"].as_array().unwrap() {
        let mut begun = json!({ "info": message["info"], "parts": [] });
        if let Some(time) = begun["info"]["time"].as_object_mut() {
            time.remove("completed");
        }
        if let Some(info) = begun["info"].as_object_mut() {
            info.remove("error");
        }
        begun["info"]["cost"] = json!(0);
        let n = now["messages"].as_array().unwrap().len();
        now["messages"].as_array_mut().unwrap().push(begun);
        states.push(now.clone());
        for part in message["parts"].as_array().unwrap() {
            let parts = now["messages"][n]["parts"].as_array_mut().unwrap();
            parts.push(part.clone());
            let at = parts.len() - 1;
            if part["type"] == "tool" {
                let input = &part["state"]["input"];
                parts[at]["state"] =
                    json!({"status": "running", "input": input, "time": {"start": 1}});
                states.push(now.clone());
            } else if part["time"]["end"].is_number() {
                parts[at]["text"] = json!("");
                parts[at]["time"] = json!({"start": part["time"]["start"]});
                states.push(now.clone());
            }
            now["messages"][n]["parts"][at] = part.clone();
            states.push(now.clone());
        }
        now["messages"][n] = message.clone();
        states.push(now.clone());
    }
    states
}

#[test]
fn a_session_that_grows_is_in_the_end_what_it_is_at_once() {
    let whole = MemoryLog::default();
    import_export(&whole, &export());
    let states = states(&export());
    assert!(states.len() > 30);
    let grown = MemoryLog::default();
    for state in &states {
        assert_eq!(import_export(&grown, state).broken, []);
        assert_eq!(import_export(&grown, state).added, 0);
        // And from any state at once to the end.
        let jumped = MemoryLog::default();
        import_export(&jumped, state);
        import_export(&jumped, &export());
        assert_eq!(jumped.content(), whole.content());
    }
    assert_eq!(grown.content(), whole.content());
}

#[test]
fn what_is_unfinished_waits_until_the_session_goes_on() {
    let mut export = export();
    let messages = export["messages"].as_array_mut().unwrap();
    messages.truncate(2);
    let message = &mut messages[1];
    message["info"]["time"]
        .as_object_mut()
        .unwrap()
        .remove("completed");
    // Ended before its step did.
    message["parts"].as_array_mut().unwrap().truncate(3);
    let log = MemoryLog::default();
    let report = import_export(&log, &export);
    assert_eq!((report.unfinished, report.turns), (1, 3));
    // The next prompt is asked in vain, until there is another answer.
    let all = self::export();
    export["messages"]
        .as_array_mut()
        .unwrap()
        .push(all["messages"][3].clone());
    assert_eq!(import_export(&log, &export).turns, 3);
    export["messages"]
        .as_array_mut()
        .unwrap()
        .push(all["messages"][4].clone());
    let report = import_export(&log, &export);
    assert_eq!((report.unfinished, report.turns), (0, 6));
    assert_eq!(import_export(&log, &export).added, 0);
}

#[test]
fn a_fork_counts_no_response_twice() {
    let mut fork: Value = export();
    let text = fork.to_string().replace("AbCdEfGhIjKl", "ZyXwVuTsRqPo");
    fork = serde_json::from_str(&text.replace("Q1w2E3r4T5y", "ForkForkFor")).unwrap();
    let log = MemoryLog::default();
    let first = import_export(&log, &export());
    let copy = import_export(&log, &fork);
    assert_eq!(copy.broken, []);
    assert_eq!((copy.conversations, copy.messages), (1, 11));
    assert_eq!((copy.tokens_in, copy.tokens_out), (0, 0));
    assert_eq!(log.usage().0, first.tokens_in);
    assert_eq!(import_export(&log, &fork).added, 0);
    assert_eq!(import_export(&log, &export()).added, 0);
}

#[test]
fn a_document_cut_anywhere_is_unfinished_or_a_reason() {
    let text = fs::read_to_string(sample("opencode/export.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("export.json");
    let log = MemoryLog::default();
    for len in (0..text.len()).step_by(97) {
        fs::write(&path, &text.as_bytes()[..len]).unwrap();
        let report = import_as(&log, &path);
        assert_eq!((report.unfinished, report.added), (1, 0), "{len}");
    }
}

#[test]
fn values_of_other_types_are_reasons_and_no_panic() {
    for other in super::altered(&export()) {
        let log = MemoryLog::default();
        import_export(&log, &other);
        assert_eq!(import_export(&log, &other).added, 0);
    }
}
