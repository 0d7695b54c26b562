//! Zed's threads.

use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::log::MemoryLog;
use super::{counts, held, import_path};
use crate::Store;
use crate::import::{Expired, Importer, Report, foreign_id};

/// As Zed packs a thread: a frame of zstd, here of one raw block after another.
fn packed(json: &str) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    let mut blocks = json.as_bytes().chunks(60_000).peekable();
    while let Some(block) = blocks.next() {
        let last = u32::from(blocks.peek().is_none());
        let header = (u32::try_from(block.len()).unwrap() << 3) | last;
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}

fn database(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    let schema = "CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT NOT NULL,
        updated_at TEXT NOT NULL, data_type TEXT NOT NULL, data BLOB NOT NULL, parent_id TEXT,
        folder_paths TEXT, created_at TEXT)";
    database.execute_batch(schema).unwrap();
    database
}

fn put(database: &Connection, id: &str, updated: &str, thread: &Value) {
    let insert = "INSERT OR REPLACE INTO threads VALUES (?1, ?2, ?3, 'zstd', ?4, ?5,
        '/home/dev/shop', '2026-02-10T09:00:00+00:00')";
    let parent = (id == "child").then_some("thread");
    let data = packed(&thread.to_string());
    let title = thread["title"].as_str();
    database
        .execute(insert, (id, title, updated, data, parent))
        .unwrap();
}

fn thread() -> Value {
    json!({
        "version": "0.3.0",
        "title": "Rounding",
        "updated_at": "2026-02-10T10:00:00Z",
        "model": {"provider": "zed.dev", "model": "claude-sonnet-4-5"},
        "cumulative_token_usage": {"input_tokens": 200, "output_tokens": 90,
            "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 500},
        "request_token_usage": {
            "u1": {"input_tokens": 100, "output_tokens": 40, "cache_read_input_tokens": 5000},
            "u2": {"input_tokens": 50, "output_tokens": 20, "cache_read_input_tokens": 4000}},
        "messages": [
            {"User": {"id": "u1", "content": [{"Text": "Why twice?"},
                {"Mention": {"uri": {"File": {"abs_path": "/cart.ts"}}, "content": "round()"}}]}},
            {"Agent": {"content": [
                {"Thinking": {"text": "I look.", "signature": "s"}},
                {"Text": "I look at it."},
                {"ToolUse": {"id": "toolu_01ZedRead00000000001", "name": "read_file",
                    "raw_input": "{\"path\":\"cart.ts\"}", "input": {"path": "cart.ts"},
                    "is_input_complete": true}}],
              "tool_results": {"toolu_01ZedRead00000000001": {
                  "tool_use_id": "toolu_01ZedRead00000000001", "tool_name": "read_file",
                  "is_error": true, "content": {"Text": "no such file"}, "output": null}}}},
            "Resume",
            {"Agent": {"content": [{"Text": "It is gone."}], "tool_results": {}}},
            {"User": {"id": "u2", "content": [{"Text": "Thanks"}]}},
            {"Agent": {"content": [{"Text": "Welcome."}, {"RedactedThinking": "x"}],
                "tool_results": {}}},
            {"Compaction": {"summary": "s"}}
        ]
    })
}

#[test]
fn a_thread_becomes_a_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let database = database(&path);
    put(&database, "thread", "2026-02-10T10:00:00+00:00", &thread());
    let child = json!({"title": "Sub", "messages": [
        {"User": {"id": "c1", "content": [{"Text": "Find it"}]}}]});
    put(&database, "child", "2026-02-10T10:00:01+00:00", &child);
    let log = MemoryLog::default();
    let report = import_path(&log, dir.path());
    assert_eq!((report.broken.as_slice(), report.unfinished), (&[][..], 0));
    assert_eq!((report.files, report.conversations), (1, 2));
    assert_eq!((report.tool_calls, report.tool_results), (1, 1));
    // What Zed counted for the thread.
    assert_eq!(
        (report.tokens_in, report.tokens_out),
        (200 + 9000 + 500, 90)
    );
    assert_eq!(
        (report.tokens_cache_read, report.tokens_cache_write),
        (9000, 500)
    );
    assert_eq!(
        counts(&report),
        [("assistant.RedactedThinking", 1), ("message.Compaction", 1)]
    );
    assert_eq!(log.failed_calls(), ["toolu_01ZedRead00000000001"]);
    let messages = log.messages();
    assert_eq!(messages[0].content, "Why twice?\n\nround()");
    assert_eq!(messages[1].reasoning.as_deref(), Some("I look."));
    assert_eq!(messages[1].model_used.as_deref(), Some("claude-sonnet-4-5"));
    assert_eq!(
        messages[0].timestamp.to_string(),
        "2026-02-10T09:00:00.000Z"
    );
    let conversations = log.conversations();
    let child = conversations
        .iter()
        .find(|it| it.parent_id.is_some())
        .unwrap();
    assert_eq!(child.parent_id, Some(foreign_id("zed:session", "thread")));
    assert_eq!(child.title.as_deref(), Some("Sub"));
    assert_eq!(child.workspace.as_deref(), Some("/home/dev/shop"));
    let second = import_path(&log, &path);
    assert_eq!((second.added, held(&second)), (0, held(&report)));
}

#[test]
fn a_thread_of_an_older_version_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let database = Connection::open(&path).unwrap();
    // The table of versions before 0.3.0.
    let schema = "CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT NOT NULL,
        updated_at TEXT NOT NULL, data_type TEXT NOT NULL, data BLOB NOT NULL)";
    database.execute_batch(schema).unwrap();
    let thread = json!({
        "version": "0.2.0", "summary": "Old", "updated_at": "2025-07-10T10:00:00Z",
        "initial_project_snapshot": {"timestamp": "2025-07-10T09:00:00Z", "worktree_snapshots":
            [{"worktree_path": "/home/dev/old", "git_state": null}]},
        "cumulative_token_usage": {"input_tokens": 70, "output_tokens": 7},
        "request_token_usage": [{"input_tokens": 70, "output_tokens": 7}],
        "model": {"provider": "anthropic", "model": "claude-3-7-sonnet"},
        "messages": [
            {"id": 0, "role": "user", "segments": [{"type": "text", "text": "List files"}],
             "tool_uses": [], "tool_results": [], "context": "", "creases": []},
            {"id": 1, "role": "assistant", "segments": [{"type": "thinking", "text": "Hm",
                "signature": null}, {"type": "text", "text": "I list."}],
             "tool_uses": [{"id": "toolu_01ZedList00000000001", "name": "list_directory",
                "input": {"path": "."}}],
             "tool_results": [{"tool_use_id": "toolu_01ZedList00000000001", "is_error": false,
                "content": {"Text": "a.rs"}, "output": null}]}
        ]
    });
    let insert = "INSERT INTO threads VALUES ('t', 'Old', '2025-07-10T10:00:00Z', 'json', ?1)";
    database.execute(insert, [thread.to_string()]).unwrap();
    let log = MemoryLog::default();
    let report = import_path(&log, &path);
    assert_eq!((report.broken.as_slice(), report.unfinished), (&[][..], 0));
    assert_eq!((report.tool_calls, report.tool_results), (1, 1));
    assert_eq!((report.tokens_in, report.tokens_out), (70, 7));
    assert_eq!((report.messages, counts(&report).len()), (4, 0));
    assert_eq!(
        log.conversations()[0].workspace.as_deref(),
        Some("/home/dev/old")
    );
    assert_eq!(
        log.messages()[0].timestamp.to_string(),
        "2025-07-10T09:00:00.000Z"
    );
    assert_eq!(import_path(&log, &path).added, 0);
}

fn import_store(store: &Store, path: &Path) -> Report {
    let mut importer = Importer::new(store).expired(Expired::Expire);
    importer.path(path).unwrap();
    importer.finish().unwrap()
}

#[test]
fn a_thread_that_grows_is_in_the_end_what_it_is_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let database = database(&path);
    let whole = MemoryLog::default();
    let old = "2026-02-10T10:00:00+00:00";
    put(&database, "thread", old, &thread());
    import_path(&whole, &path);

    let grown = MemoryLog::default();
    let store = Store::open(dir.path().join("log")).unwrap();
    let all = thread()["messages"].as_array().unwrap().clone();
    for end in 0..=all.len() {
        let mut now = thread();
        now["messages"] = json!(all[..end]);
        if end > 0 && all[end - 1].get("Agent").is_some() {
            let mut begun = now.clone();
            begun["messages"][end - 1]["Agent"]["content"] = json!([{"Text": "I"}]);
            begun["messages"][end - 1]["Agent"]["tool_results"] = json!({});
            let at = chrono::Utc::now().to_rfc3339();
            put(&database, "thread", &at, &begun);
            assert_eq!(import_path(&grown, &path).unfinished, 1);
            import_store(&store, &path);
        }
        put(&database, "thread", &chrono::Utc::now().to_rfc3339(), &now);
        import_path(&grown, &path);
        import_store(&store, &path);
        // Other threads, some of which were updated before and are written later.
        let other = format!("other {end}");
        put(
            &database,
            &other,
            &format!("2026-02-10T09:0{end}:00+00:00"),
            &json!({
            "title": other, "messages": [all[0]]}),
        );
        assert_eq!(import_store(&store, &path).broken, []);
        let other = foreign_id("zed:session", &other);
        assert!(store.get_conversation(other).unwrap().is_some());
        database
            .execute("DELETE FROM threads WHERE id LIKE 'other%'", ())
            .unwrap();
    }
    put(&database, "thread", old, &thread());
    import_path(&grown, &path);
    assert_eq!(grown.content(), whole.content());
    assert_eq!(import_store(&store, &path).unfinished, 0);
    let last = import_store(&store, &path);
    assert_eq!((last.added, last.lines), (0, 0));
    let id = foreign_id("zed:session", "thread");
    let stats = store.get_conversation(id).unwrap().unwrap().1;
    assert_eq!(stats.message_count as usize, whole.messages().len());
}

#[test]
fn data_that_cannot_be_unpacked_is_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let database = database(&path);
    put(&database, "a", "2026-02-10T10:00:00+00:00", &thread());
    put(&database, "b", "2026-02-10T10:00:01+00:00", &thread());
    let good = packed(&thread().to_string());
    let log = MemoryLog::default();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        database
            .execute("UPDATE threads SET data = ?1 WHERE id = 'a'", [&bad])
            .unwrap();
        import_path(&log, &path);
    }
    database
        .execute("UPDATE threads SET data = x'28b52ffd' WHERE id = 'a'", ())
        .unwrap();
    let report = import_path(&log, &path);
    assert_eq!((report.broken.len(), report.conversations), (1, 1));
    assert!(
        report.broken[0]
            .reason
            .contains("thread a: cannot decompress")
    );
}

#[test]
fn values_of_other_types_are_reasons_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let database = database(&path);
    let log = MemoryLog::default();
    for (n, thread) in super::altered(&thread()).iter().enumerate() {
        let id = format!("thread {n}");
        put(
            &database,
            &id,
            "2026-02-10T10:00:00+00:00",
            &json!({"title": "t"}),
        );
        let data = packed(&thread.to_string());
        database
            .execute("UPDATE threads SET data = ?1 WHERE id = ?2", (data, id))
            .unwrap();
    }
    let report = import_path(&log, &path);
    assert!(report.conversations > 50 && !report.broken.is_empty());
    assert_eq!(import_path(&log, &path).added, 0);
}
