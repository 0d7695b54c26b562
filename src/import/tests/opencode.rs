//! Sessions of opencode, in all forms in which it keeps them.

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

#[cfg(feature = "databases")]
mod databases {
    use rusqlite::Connection;

    use super::*;
    use crate::Store;

    const SCHEMA: &str = "
        CREATE TABLE project (id TEXT PRIMARY KEY, worktree TEXT NOT NULL);
        CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text,
            slug text NOT NULL, directory text NOT NULL, title text NOT NULL, version text NOT NULL,
            time_created integer NOT NULL, time_updated integer NOT NULL);
        CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL,
            time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
        CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
            time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
        CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
        CREATE INDEX part_session_idx ON part (session_id);
        CREATE INDEX part_message_id_id_idx ON part (message_id, id);";

    pub(super) fn open(path: &Path) -> Connection {
        let database = Connection::open(path).unwrap();
        if !database.prepare("SELECT 1 FROM session").is_ok() {
            database.execute_batch("PRAGMA journal_mode = WAL").unwrap();
            database.execute_batch(SCHEMA).unwrap();
        }
        database
    }

    /// Writes the rows of an export as opencode does: those that exist are changed in place.
    pub(super) fn put(database: &Connection, export: &Value, now: i64) {
        let info = &export["info"];
        let session = info["id"].as_str().unwrap();
        database
            .execute(
                "INSERT INTO session VALUES (?1, 'p', NULL, 's', ?2, ?3, '1', ?4, ?5)
                 ON CONFLICT (id) DO UPDATE SET title = excluded.title",
                (
                    session,
                    info["directory"].as_str(),
                    info["title"].as_str(),
                    info["time"]["created"].as_i64(),
                    now,
                ),
            )
            .unwrap();
        let data = |value: &Value| {
            let mut value = value.clone();
            for key in ["id", "sessionID", "messageID"] {
                value.as_object_mut().unwrap().remove(key);
            }
            value.to_string()
        };
        for message in export["messages"].as_array().unwrap() {
            let id = message["info"]["id"].as_str();
            let created = message["info"]["time"]["created"].as_i64();
            database
                .execute(
                    "INSERT INTO message VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (id) DO UPDATE
                     SET data = excluded.data, time_updated = excluded.time_updated",
                    (id, session, created, now, data(&message["info"])),
                )
                .unwrap();
            for part in message["parts"].as_array().unwrap() {
                database
                    .execute(
                        "INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?4, ?5) ON CONFLICT (id) DO UPDATE
                         SET data = excluded.data, time_updated = excluded.time_updated",
                        (part["id"].as_str(), id, session, now, data(part)),
                    )
                    .unwrap();
            }
        }
    }

    pub(super) fn fill(path: &Path, export: &Value, now: i64) {
        put(&open(path), export, now);
    }

    /// Another session, with other ids.
    fn other(n: usize) -> Value {
        let text = export()
            .to_string()
            .replace("AbCdEfGh", &format!("Session{n}"));
        let text = text.replace("toolu_01Opencode", &format!("toolu_{n:02}Opencode"));
        let mut other: Value =
            serde_json::from_str(&text.replace("Q1w2E3r4", &format!("Another{n}"))).unwrap();
        for message in other["messages"].as_array_mut().unwrap() {
            message["info"]["time"]["created"] =
                json!(message["info"]["time"]["created"].as_i64().unwrap() + n as i64);
        }
        other
    }

    fn import_store(store: &Store, path: &Path) -> Report {
        let mut importer = Importer::new(store).expired(crate::import::Expired::Expire);
        importer.path(path).unwrap();
        importer.finish().unwrap()
    }

    #[test]
    fn only_what_changed_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        let store = Store::open(dir.path().join("log")).unwrap();
        let now = crate::record::now();
        let database = open(&path);
        for n in 1..=3 {
            put(&database, &other(n), now + n as i64);
        }
        let first = import_store(&store, &path);
        assert_eq!((first.broken.as_slice(), first.unfinished), (&[][..], 0));
        assert_eq!(first.conversations, 3);
        // Only the title of the latest session is looked at.
        let second = import_store(&store, &path);
        assert_eq!((second.added, second.lines), (0, 1));

        // Two sessions run at once, and the older rows are finished later.
        let (one, two) = (other(4), other(5));
        let (one_states, two_states) = (states(&one), states(&two));
        let half = one_states.len() / 2;
        put(&database, &one_states[half], now + 10);
        for state in &two_states {
            put(&database, state, now + 20);
            import_store(&store, &path);
        }
        for state in &one_states[half..] {
            put(&database, state, now + 11);
            import_store(&store, &path);
        }
        let last = import_store(&store, &path);
        assert_eq!((last.added, last.unfinished), (0, 0));
        assert!(last.lines <= 2, "{}", last.lines);

        let again = Store::open(dir.path().join("again")).unwrap();
        let whole = import_store(&again, &path);
        assert_eq!((whole.conversations, whole.unfinished), (5, 0));
        for n in 1..=5 {
            let id = other(n)["info"]["id"].as_str().unwrap().to_owned();
            let id = crate::import::foreign_id("opencode:session", &id);
            assert_eq!(
                store.get_conversation(id).unwrap().unwrap().1.message_count,
                again.get_conversation(id).unwrap().unwrap().1.message_count
            );
        }
        // Removed rows, whose numbers are given again.
        for (table, key) in [
            ("part", "session_id"),
            ("message", "session_id"),
            ("session", "id"),
        ] {
            let delete = format!("DELETE FROM {table} WHERE {key} LIKE '%Another5%'");
            database.execute(&delete, ()).unwrap();
        }
        let (removed, six) = (import_store(&store, &path), other(6));
        assert_eq!((removed.added, removed.broken.len()), (0, 0));
        put(&database, &six, now + 30);
        assert_eq!(import_store(&store, &path).broken, []);
        let id = six["info"]["id"].as_str().unwrap();
        let id = crate::import::foreign_id("opencode:session", id);
        assert_eq!(
            store.get_conversation(id).unwrap().unwrap().1.message_count,
            11
        );
        database.execute_batch("VACUUM").unwrap();
        assert_eq!(import_store(&store, &path).added, 0);
    }

    #[test]
    fn reading_leaves_the_folder_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        fill(&path, &export(), 1);
        let names = || {
            let files = fs::read_dir(dir.path()).unwrap();
            let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["opencode.db"]);
        let before = fs::read(&path).unwrap();
        let log = MemoryLog::default();
        assert_eq!(import_path(&log, &path).turns, 11);
        assert_eq!(
            (names(), fs::read(&path).unwrap()),
            (vec!["opencode.db".into()], before)
        );
    }

    #[test]
    fn what_is_in_the_write_ahead_log_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode-beta.db");
        let writer = open(&path);
        put(&writer, &export(), 1);
        let log = MemoryLog::default();
        assert_eq!(import_path(&log, dir.path()).turns, 11);
        // Somebody writes at this moment.
        writer
            .execute_batch("BEGIN IMMEDIATE; DELETE FROM part")
            .unwrap();
        assert_eq!(import_path(&log, dir.path()).added, 0);
        writer.execute_batch("ROLLBACK").unwrap();
    }

    #[test]
    fn a_damaged_database_is_a_reason_and_no_panic() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        fill(&path, &export(), 1);
        let bytes = fs::read(&path).unwrap();
        let log = MemoryLog::default();
        for at in (100..bytes.len()).step_by(1013) {
            let mut damaged = bytes.clone();
            for byte in &mut damaged[at..(at + 40).min(bytes.len())] {
                *byte ^= 0x5a;
            }
            fs::write(&path, &damaged).unwrap();
            import_path(&log, &path);
            fs::write(&path, &bytes[..at]).unwrap();
            import_path(&log, &path);
        }
        fs::write(&path, "SQLite format 3\0").unwrap();
        let report = import_path(&log, &path);
        assert_eq!(report.broken.len(), 1);
        assert!(
            report.broken[0].reason.contains("database"),
            "{:?}",
            report.broken
        );
        assert_eq!(report.broken[0].file, path);
    }
}
