//! The database of opencode.

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
    if database.prepare("SELECT 1 FROM session").is_err() {
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
fn other(n: i64) -> Value {
    let text = export()
        .to_string()
        .replace("AbCdEfGh", &format!("Session{n}"));
    let text = text.replace("toolu_01Opencode", &format!("toolu_{n:02}Opencode"));
    let mut other: Value =
        serde_json::from_str(&text.replace("Q1w2E3r4", &format!("Another{n}"))).unwrap();
    for message in other["messages"].as_array_mut().unwrap() {
        message["info"]["time"]["created"] =
            json!(message["info"]["time"]["created"].as_i64().unwrap() + n);
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
        put(&database, &other(n), now + n);
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

/// A watcher reads each change of a database while its writer has it open: the changes are in the
/// write-ahead log, and the database file stays as it is.
#[test]
fn a_database_is_followed_while_it_is_written() {
    use std::time::{Duration, Instant};

    use crate::import::{Expired, Watcher};

    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("opencode");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("opencode.db");
    let now = crate::record::now();
    let writer = open(&path);
    put(&writer, &other(1), now);
    let store = Store::open(dir.path().join("log")).unwrap();
    let mut watcher = Watcher::new(store.clone(), [&folder]).expired(Expired::Expire);
    assert_eq!(watcher.catch_up().unwrap().conversations, 1);
    let messages = |store: &Store, session: &Value| {
        let id = session["info"]["id"].as_str().unwrap();
        let id = crate::import::foreign_id("opencode:session", id);
        let known = store.get_conversation(id).unwrap();
        known.map_or(0, |(_, totals)| totals.message_count)
    };
    for (n, state) in (0..).zip(states(&other(2))) {
        put(&writer, &state, now + n);
        // What one import of the present database has.
        let whole = Store::open(dir.path().join(format!("whole-{n}"))).unwrap();
        import_store(&whole, &path);
        let began = Instant::now();
        while messages(&store, &state) != messages(&whole, &state) {
            assert!(began.elapsed() < Duration::from_secs(10), "state {n}");
            watcher.next(Duration::from_millis(50)).unwrap();
        }
    }
    assert!(messages(&store, &other(2)) > 0);
    watcher.finish();
    assert_eq!(import_store(&store, &path).added, 0);
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

#[test]
fn a_locked_database_is_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("opencode.db");
    let writer = open(&path);
    put(&writer, &export(), 1);
    writer
        .execute_batch("PRAGMA journal_mode = DELETE")
        .unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let log = MemoryLog::default();
    let report = import_path(&log, &path);
    assert_eq!((report.added, report.broken.len()), (0, 1));
    assert!(
        report.broken[0].reason.contains("locked"),
        "{:?}",
        report.broken
    );
    writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(import_path(&log, &path).turns, 11);
}

#[cfg(unix)]
#[test]
fn a_database_in_a_folder_that_cannot_be_written_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("opencode.db");
    fill(&path, &export(), 1);
    let set = |mode| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    set(0o555);
    let report = import_path(&MemoryLog::default(), &path);
    set(0o755);
    assert_eq!((report.turns, report.broken.len()), (11, 0));
}
