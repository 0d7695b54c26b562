//! SQL in the library: what the index finds is what a scan finds.

#![allow(clippy::cast_possible_wrap)]

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use decklog::retention::{EraseOptions, Erasure};
use decklog::sql::Database;
use decklog::{Client, Conversation, ConversationMessage, Role, Store, Timestamp};
use uuid::Uuid;

use crate::support::{DAY_1, DAY_MS, Rng, done, request, still, turn};
use crate::upkeep::compact;

fn id(n: usize) -> Uuid {
    Uuid::from_u128(n as u128 + 1)
}

/// The rows of a result.
fn select(database: &Database, sql: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut query = database
        .prepare(sql)
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let ended = query.for_each(|row| {
        rows.push(format!("{row:?}"));
        Ok::<_, decklog::Error>(ControlFlow::Continue(()))
    });
    ended.unwrap_or_else(|e| panic!("{sql}: {e}"));
    rows
}

/// A log with messages of ten conversations, many in the same millisecond, and other records.
fn varied(rng: &mut Rng, path: &Path) -> Store {
    let store = still().open(path).unwrap();
    let ids: Vec<_> = (0..10).map(id).collect();
    for id in &ids {
        let at = Timestamp::from_ms(DAY_1 + rng.below(5) as i64 * DAY_MS).unwrap();
        store
            .record(
                Conversation::new(*id, Client::Api)
                    .created_at(at.clone())
                    .updated_at(at),
            )
            .unwrap();
    }
    for _ in 0..800 {
        let at = DAY_1 + rng.below(4) as i64 * DAY_MS + rng.below(3) as i64;
        let text = Timestamp::from_ms(at).unwrap().as_str().to_owned();
        let text = match rng.below(3) {
            0 => text,
            1 => text.replace('Z', "500Z"),
            _ => text.replace('Z', &format!("{:03}Z", rng.below(1000))),
        };
        let conversation = ids[rng.below(10)];
        let message = ConversationMessage::new(conversation, Role::User, "x")
            .timestamp(text.parse().unwrap());
        store.record(message).unwrap();
    }
    for n in 0..300 {
        let parent = (n > 0).then(|| rng.below(n) as i64 + 1);
        store.log_event(parent, "turn.started", None).unwrap();
    }
    store
}

/// Conditions that the index finds give the rows that those give which it cannot find.
#[test]
fn conditions_are_found_exactly() {
    let mut rng = Rng::seeded("conditions_are_found_exactly");
    let dir = tempfile::tempdir().unwrap();
    let store = varied(&mut rng, &dir.path().join("log"));
    let database = Database::of(&store).unwrap();
    let times = select(&database, "SELECT timestamp FROM messages");
    let quoted = |row: &str| {
        let text = row.split('"').nth(1).unwrap();
        format!("'{text}'")
    };
    let mut found = 0;
    for _ in 0..200 {
        let time = |rng: &mut Rng| {
            let known = quoted(&times[rng.below(times.len())]);
            match rng.below(6) {
                0 => "'2025-12-28'".to_owned(),
                1 => "'2025-12-29T00:00:00Z'".to_owned(),
                2 => "'2025-12-28 00:00:00'".to_owned(),
                3 => ["NULL", "5", "''", "'x'", "x'00'", "1.5"][rng.below(6)].to_owned(),
                _ => known,
            }
        };
        let op = |rng: &mut Rng| ["<", "<=", ">", ">=", "="][rng.below(5)];
        let number = |rng: &mut Rng| match rng.below(8) {
            0 => "'7'".to_owned(),
            1 => "'07'".to_owned(),
            2 => "7.0".to_owned(),
            3 => "7.5".to_owned(),
            4 => "NULL".to_owned(),
            _ => rng.below(320).to_string(),
        };
        let day = ["'2025-12-27'", "'2025-12-28'", "'2025-13'", "'2025'"][rng.below(4)];
        let conversation = format!("'{}'", id(rng.below(12)));
        let (table, column, op, value) = match rng.below(8) {
            0 => ("messages", "conversation_id", "=", conversation),
            1 => ("messages", "day", op(&mut rng), day.to_owned()),
            2 => ("events", "id", op(&mut rng), number(&mut rng)),
            3 => ("events", "parent_id", "=", number(&mut rng)),
            4 => ("conversations", "id", "=", conversation),
            _ => ("messages", "timestamp", op(&mut rng), time(&mut rng)),
        };
        let more = match (table, rng.below(3)) {
            ("messages", 0) => format!(" AND timestamp < {}", time(&mut rng)),
            ("messages", 1) => format!(" AND conversation_id = '{}'", id(rng.below(10))),
            _ => String::new(),
        };
        let condition = format!("{column} {op} {value}{more}");
        // SQLite offers no index the truth of a condition.
        let sql = |is_true| {
            format!("SELECT seq FROM {table} WHERE ({condition}) {is_true} ORDER BY +seq")
        };
        let rows = select(&database, &sql(""));
        assert_eq!(rows, select(&database, &sql("IS TRUE")), "{}", sql(""));
        found += rows.len();
    }
    assert!(found > 700, "{found}");
    // The log's order is used, and is right.
    for (table, column) in [
        ("messages", "timestamp"),
        ("events", "id"),
        ("conversations", "created_at"),
    ] {
        for direction in ["", "DESC"] {
            for end in ["", "LIMIT 3", "LIMIT 40 OFFSET 5"] {
                let seq = if table == "events" { "" } else { ", seq" };
                let sql = |plus: &str| {
                    let seq = if seq.is_empty() {
                        String::new()
                    } else {
                        format!("{seq} {direction}")
                    };
                    format!(
                        "SELECT {column}, seq FROM {table} WHERE day > '2025' ORDER BY {plus}{column} {direction}{seq} {end}"
                    )
                };
                assert_eq!(
                    select(&database, &sql("")),
                    select(&database, &sql("+")),
                    "{}",
                    sql("")
                );
            }
        }
    }
}

/// What is not needed is not read.
#[test]
fn plans_use_the_index() {
    let mut rng = Rng(1);
    let dir = tempfile::tempdir().unwrap();
    let store = varied(&mut rng, &dir.path().join("log"));
    let database = Database::of(&store).unwrap();
    for (sql, plan) in [
        ("SELECT count(*) FROM messages", "0;-"),
        (
            "SELECT count(*) FROM messages WHERE day = '2025-12-27'",
            "4;-;d=",
        ),
        ("SELECT role FROM messages WHERE id = 'x'", "88;-;k0"),
        (
            "SELECT seq FROM messages WHERE conversation_id = 'x' AND timestamp > '2025'",
            "52;-;t>;l0",
        ),
        (
            "SELECT seq FROM messages WHERE timestamp BETWEEN 'x' AND 'y'",
            "42;-;t>;t<",
        ),
        (
            "SELECT seq FROM messages ORDER BY timestamp DESC LIMIT 1",
            "42;desc",
        ),
        ("SELECT seq FROM events ORDER BY id", "a;asc"),
        (
            "SELECT seq FROM tool_calls WHERE request_id = 'x' AND call_id = 'y'",
            "1a;-;k0;k1",
        ),
        (
            "SELECT seq FROM tool_calls WHERE request_id = 'x'",
            "a;-;l3",
        ),
        (
            "SELECT seq FROM messages WHERE id = 'x' COLLATE NOCASE",
            "a;-",
        ),
        ("SELECT seq FROM messages WHERE (id = 'x') IS TRUE", "a;-"),
    ] {
        let rows = select(&database, &format!("EXPLAIN QUERY PLAN {sql}"));
        let found = rows
            .iter()
            .find_map(|row| row.split("INDEX 0:").nth(1))
            .unwrap();
        assert_eq!(found, format!("{plan}\")]"), "{sql}");
    }
    // A join reads the records of each key.
    let joined = "SELECT count(*), sum(c.message_count) FROM messages m
        JOIN conversations c ON c.id = m.conversation_id WHERE m.sequence = 1";
    assert_eq!(
        select(&database, joined),
        select(
            &database,
            "SELECT count(*), sum(message_count)
        FROM conversations WHERE message_count > 0"
        )
    );
}

/// What a writer did so far.
#[derive(Default)]
struct Written {
    /// Number of messages and turns that stay.
    lasting: AtomicUsize,
    erased: Mutex<BTreeSet<String>>,
    has_ended: AtomicBool,
}

const LASTING: usize = 8;

/// Records things that stay and a conversation that does not, on several days.
fn write_round(store: &Store, round: usize, written: &Written) {
    let at = DAY_1 + (round % 5) as i64 * DAY_MS + round as i64;
    let time = Timestamp::from_ms(at).unwrap();
    let doomed = id(1_000_000 + round);
    let new = Conversation::new(doomed, Client::Api).created_at(time.clone());
    store.record(new.updated_at(time.clone())).unwrap();
    for n in 0..LASTING {
        let say = |conversation, role| {
            let message = ConversationMessage::new(conversation, role, "x".repeat(200));
            store.record(message.timestamp(time.clone())).unwrap();
        };
        say(id(n), Role::User);
        say(doomed, Role::System);
        let own = 10_000 + (round * LASTING + n) as u128;
        store.record(turn(own, "x", at)).unwrap();
        store.record(request(own, "call", at)).unwrap();
        written.lasting.fetch_add(1, Ordering::SeqCst);
    }
    // Change what was recorded a while ago.
    if let Some(round) = round.checked_sub(10) {
        let at = DAY_1 + (round % 5) as i64 * DAY_MS + round as i64;
        for n in 0..LASTING {
            let own = 10_000 + (round * LASTING + n) as u128;
            store.record(turn(own, "y", at)).unwrap();
            store.record(done(&request(own, "call", at))).unwrap();
        }
    }
}

fn write(store: &Store, rounds: std::ops::Range<usize>, written: &Written) {
    for round in rounds {
        write_round(store, round, written);
        if round % 2 == 0 {
            let doomed = id(1_000_000 + round / 2);
            let erasure = Erasure::Conversation(doomed);
            store.erase(&erasure, EraseOptions::default()).unwrap();
            written.erased.lock().unwrap().insert(doomed.to_string());
        }
        match round % 20 {
            5 => drop(store.seal_at(DAY_1 + 3 * DAY_MS).unwrap()),
            // Joins segments. Versions of the last days, which queries need, are kept.
            15 => drop(compact(store, DAY_1 + 6 * DAY_MS)),
            _ => {}
        }
    }
}

/// The integers of the only row of a result.
fn integers(database: &Database, sql: &str) -> Vec<usize> {
    let rows = select(database, sql);
    assert_eq!(rows.len(), 1, "{sql}");
    let numbers = rows[0].split("Integer(").skip(1);
    let numbers = numbers.map(|it| it.split(')').next().unwrap().parse().unwrap());
    numbers.collect()
}

/// Checks the queries of a database while there are writers.
fn check_queries(database: &Database, written: &Written) {
    // Messages of the role user are of conversations that stay. A turn of which a new version is
    // written meanwhile may be found twice.
    for (rows, key, of_group, count) in [
        (
            "messages WHERE role = 'user'",
            "id",
            "conversation_id",
            "count(*)",
        ),
        ("tool_calls", "request_id", "status", "count(*)"),
        ("conversation_turns", "id", "day", "count(DISTINCT id)"),
    ] {
        let before = written.lasting.load(Ordering::SeqCst);
        let count_both = count.replace("id", "a.id");
        let sql = format!(
            "WITH rows AS MATERIALIZED (SELECT * FROM {rows})
             SELECT (SELECT {count} FROM {rows}),
                 (SELECT count(DISTINCT {key}) FROM {rows}),
                 (SELECT sum(n) FROM (SELECT {count} AS n FROM {rows} GROUP BY {of_group})),
                 (SELECT {count_both} FROM rows AS a JOIN (SELECT * FROM {rows}) AS b USING ({key})),
                 (SELECT {count} FROM (SELECT * FROM {rows} ORDER BY seq DESC))"
        );
        let counts = integers(database, &sql);
        assert!(
            counts.iter().all(|it| *it == counts[0]),
            "{rows}: {counts:?}"
        );
        assert!(counts[0] >= before, "{rows}: {counts:?}, {before} before");
    }
    let erased = written.erased.lock().unwrap().clone();
    let shown = select(
        database,
        "SELECT id FROM conversations UNION SELECT conversation_id FROM messages",
    );
    for row in shown {
        let id = row.split('"').nth(1).unwrap();
        assert!(!erased.contains(id), "{id} was erased before");
    }
}

/// Each query sees the records that there were when it began, however many tables it reads and how
/// often. Erased records are gone at once.
#[test]
fn results_are_consistent_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().segment_bytes_max(100_000).open(&path).unwrap();
    let at = Timestamp::from_ms(DAY_1).unwrap();
    for n in 0..LASTING {
        let new = Conversation::new(id(n), Client::Api).created_at(at.clone());
        store.record(new.updated_at(at.clone())).unwrap();
    }
    let written = Written::default();
    write(&store, 0..40, &written);
    let queries = std::thread::scope(|scope| {
        scope.spawn(|| {
            write(&store, 40..80, &written);
            written.has_ended.store(true, Ordering::SeqCst);
        });
        // A handle of another process, and that of the writer.
        let other = still().open(&path).unwrap();
        let databases = [&other, &store].map(|it| Database::of(it).unwrap());
        let mut queries = 0;
        while !written.has_ended.load(Ordering::SeqCst) {
            check_queries(&databases[queries % 2], &written);
            queries += 1;
        }
        queries
    });
    assert!(queries >= 4, "{queries}");
    let other = still().open(&path).unwrap();
    check_queries(&Database::of(&other).unwrap(), &written);
}

/// A query within another sees what that one sees.
#[test]
fn a_query_within_a_query_sees_the_same_records() {
    let dir = tempfile::tempdir().unwrap();
    let store = still().open(dir.path().join("log")).unwrap();
    for _ in 0..40 {
        store.log_event(None, "turn.started", None).unwrap();
    }
    let database = Database::of(&store).unwrap();
    let count = || integers(&database, "SELECT count(*) FROM events")[0];
    let mut query = database.prepare("SELECT id FROM events").unwrap();
    let mut rows = 0;
    let ended = query.for_each(|_| {
        store.log_event(None, "turn.completed", None).unwrap();
        assert_eq!(count(), 40);
        let new = select(&database, "SELECT * FROM events WHERE id = 41");
        assert_eq!(new, [""; 0]);
        rows += 1;
        Ok::<_, decklog::Error>(ControlFlow::Continue(()))
    });
    ended.unwrap();
    assert_eq!((rows, count()), (40, 80));
    // Also after a query that was left early.
    let ended = query.for_each(|_| Ok::<_, decklog::Error>(ControlFlow::Break(())));
    ended.unwrap();
    store.log_event(None, "turn.completed", None).unwrap();
    assert_eq!(count(), 81);
}
