//! Goose's database.

use std::path::Path;

use rusqlite::Connection;
use uuid::Uuid;

use super::log::MemoryLog;
use super::{counts, held, import_path};
use crate::Store;
use crate::import::{Expired, Importer, Report, foreign_id};

const SCHEMA: &str = "
    CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '',
        description TEXT NOT NULL DEFAULT '', session_type TEXT NOT NULL DEFAULT 'user',
        working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP,
        accumulated_total_tokens INTEGER, accumulated_input_tokens INTEGER,
        accumulated_output_tokens INTEGER, accumulated_cost REAL, provider_name TEXT,
        model_config_json TEXT, parent_session_id TEXT);
    CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT,
        session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL,
        created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP, tokens INTEGER,
        metadata_json TEXT);
    CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
        created_timestamp INTEGER NOT NULL, model TEXT, input_tokens INTEGER,
        output_tokens INTEGER, total_tokens INTEGER, cache_read_tokens INTEGER,
        cache_write_tokens INTEGER, cost REAL, cost_source TEXT, is_compaction INTEGER DEFAULT 0);";

const CALL: &str = r#"[{"type":"thinking","thinking":"I look.","signature":"s"},
    {"type":"text","text":"I run the tests."},
    {"type":"toolRequest","id":"call_GooseShell0000000001","toolCall":{"status":"success",
     "value":{"name":"developer__shell","arguments":{"command":"make test"}}}}]"#;
const RESULT: &str = r#"[{"type":"toolResponse","id":"call_GooseShell0000000001","toolResult":
    {"status":"success","value":{"content":[{"type":"text","text":"1 failed"}],"isError":true}}}]"#;

fn database(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.execute_batch(SCHEMA).unwrap();
    database
}

fn session(database: &Connection, id: &str, parent: Option<&str>, sums: Option<(i64, i64)>) {
    let insert = "INSERT INTO sessions VALUES (?1, 'Tests of ' || ?1, '', 'user', '/home/dev/shop',
        '2026-02-10 09:00:00', '2026-02-10 10:00:00', ?3 + ?4, ?3, ?4, NULL, 'anthropic',
        '{\"model_name\":\"claude-sonnet-4-5\"}', ?2)";
    let (input, output) = sums.unzip();
    database
        .execute(insert, (id, parent, input, output))
        .unwrap();
}

fn say(database: &Connection, session: &str, n: i64, role: &str, json: &str) {
    let insert = "INSERT INTO messages (message_id, session_id, role, content_json,
        created_timestamp, metadata_json) VALUES (?1, ?2, ?3, ?4, ?5, '{\"userVisible\":true}')";
    let id = format!("msg_{session}_{n}");
    database
        .execute(insert, (id, session, role, json, 1_770_714_000 + n))
        .unwrap();
}

fn used(database: &Connection, session: &str, n: i64, counts: [i64; 5]) {
    let insert = "INSERT INTO usage_ledger (session_id, created_timestamp, model, input_tokens,
        output_tokens, total_tokens, cache_read_tokens, cache_write_tokens, cost)
        VALUES (?1, ?2, 'claude-sonnet-4-5', ?3, ?4, ?5, ?6, ?7, 0.02)";
    let [input, output, total, read, write] = counts;
    let at = 1_770_714_000 + n;
    database
        .execute(insert, (session, at, input, output, total, read, write))
        .unwrap();
}

fn fill(database: &Connection) {
    session(database, "20260210_1", None, Some((999, 9)));
    say(
        database,
        "20260210_1",
        1,
        "user",
        r#"[{"type":"text","text":"Run the tests"}]"#,
    );
    say(database, "20260210_1", 3, "assistant", CALL);
    used(database, "20260210_1", 4, [9000, 50, 9050, 8000, 500]);
    say(database, "20260210_1", 5, "user", RESULT);
    say(
        database,
        "20260210_1",
        7,
        "assistant",
        r#"[{"type":"text","text":"One fails."},{"type":"hologram"}]"#,
    );
    used(database, "20260210_1", 7, [100, 20, 9120, 9000, 0]);
}

#[test]
fn a_session_becomes_a_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.db");
    let database = database(&path);
    fill(&database);
    session(
        &database,
        "20260210_2",
        Some("20260210_1"),
        Some((4000, 300)),
    );
    say(
        &database,
        "20260210_2",
        9,
        "user",
        r#"[{"type":"text","text":"Mend it"}]"#,
    );
    let log = MemoryLog::default();
    let report = import_path(&log, dir.path());
    assert_eq!((report.broken.as_slice(), report.unfinished), (&[][..], 0));
    assert_eq!((report.files, report.conversations), (1, 2));
    assert_eq!((report.tool_calls, report.tool_results), (1, 1));
    // The first request has the tokens of the cache in its input, as its total shows.
    assert_eq!(report.tokens_in, 9000 + (100 + 9000) + 4000);
    assert_eq!(report.tokens_out, 50 + 20 + 300);
    assert_eq!(
        (report.tokens_cache_read, report.tokens_cache_write),
        (17000, 500)
    );
    // Two answers, and the sums of a session without a ledger.
    assert_eq!(report.api_responses, 3);
    assert_eq!(counts(&report), [("assistant.hologram", 1)]);
    assert_eq!(log.failed_calls(), ["call_GooseShell0000000001"]);
    let (request, _) = log.call("call_GooseShell0000000001").unwrap();
    assert_eq!(
        request.arguments_json.as_deref(),
        Some(r#"{"command":"make test"}"#)
    );
    let conversations = log.conversations();
    let child = conversations
        .iter()
        .find(|it| it.parent_id.is_some())
        .unwrap();
    assert_eq!(
        child.parent_id,
        Some(foreign_id("goose:session", "20260210_1"))
    );
    assert_eq!(child.title.as_deref(), Some("Tests of 20260210_2"));
    assert_eq!(child.workspace.as_deref(), Some("/home/dev/shop"));
    let costs: Vec<f64> = log.messages().iter().filter_map(|m| m.cost_usd).collect();
    assert_eq!(costs, [0.02, 0.02]);
    let second = import_path(&log, &path);
    assert_eq!((second.added, held(&second)), (0, held(&report)));
}

fn import_store(store: &Store, path: &Path) -> Report {
    let mut importer = Importer::new(store).expired(Expired::Expire);
    importer.path(path).unwrap();
    importer.finish().unwrap()
}

#[test]
fn only_what_is_new_is_read_and_rows_written_anew_add_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.db");
    let database = database(&path);
    fill(&database);
    let store = Store::open(dir.path().join("log")).unwrap();
    assert_eq!(import_store(&store, &path).messages, 6);
    let again = import_store(&store, &path);
    assert_eq!((again.lines, again.added), (0, 0));
    say(
        &database,
        "20260210_1",
        20,
        "user",
        r#"[{"type":"text","text":"Thanks"}]"#,
    );
    assert_eq!(import_store(&store, &path).added, 2);
    // Goose writes all messages of a session anew when it shortens it.
    let anew = "INSERT INTO messages (message_id, session_id, role, content_json,
        created_timestamp) SELECT message_id, session_id, role, content_json, created_timestamp
        FROM messages ORDER BY id; DELETE FROM messages WHERE id <= 5";
    database.execute_batch(anew).unwrap();
    let report = import_store(&store, &path);
    assert_eq!((report.added, report.broken.len()), (0, 0));
    assert!(report.lines > 5);
    let id: Uuid = foreign_id("goose:session", "20260210_1");
    assert_eq!(
        store.get_conversation(id).unwrap().unwrap().1.message_count,
        7
    );
}

#[test]
fn tokens_that_just_came_and_sums_that_still_change_wait() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.db");
    let database = database(&path);
    let now = crate::record::now() / 1000;
    session(&database, "a", None, None);
    say(
        &database,
        "a",
        1,
        "user",
        r#"[{"type":"text","text":"Hi"}]"#,
    );
    used(&database, "a", now - 1_770_714_000, [10, 1, 11, 0, 0]);
    session(&database, "b", None, Some((5, 6)));
    database
        .execute("UPDATE sessions SET updated_at = datetime('now')", ())
        .unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let report = import_store(&store, &path);
    assert_eq!((report.unfinished, report.tokens_in), (1, 0));
    database
        .execute_batch(
            "UPDATE sessions SET updated_at = '2026-02-10 10:00:00';
             UPDATE usage_ledger SET created_timestamp = 1770714005",
        )
        .unwrap();
    let report = import_store(&store, &path);
    assert_eq!(
        (report.unfinished, report.tokens_in, report.tokens_out),
        (0, 15, 7)
    );
    assert_eq!(import_store(&store, &path).added, 0);
}

#[test]
fn values_of_other_types_are_reasons_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.db");
    let database = database(&path);
    session(&database, "a", None, Some((1, 1)));
    for json in [CALL, RESULT] {
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        for other in super::altered(&json) {
            say(&database, "a", 1, "assistant", &other.to_string());
        }
    }
    say(&database, "a", 1, "robot", "[]");
    let log = MemoryLog::default();
    let report = import_path(&log, &path);
    assert!(report.messages > 0 && !report.broken.is_empty());
    assert_eq!(import_path(&log, &path).added, 0);
}
