//! decklog beside its peers, on the same records in the same run: rusqlite (WAL, synchronous
//! NORMAL, a table and indexes as a careful user would make them) and bare `write(2)` of the
//! finished lines. Sides take turns; figures are medians over rounds.
//!
//! `cargo bench --bench side_by_side`; with `-- --json`, one JSON object a line. Sizes:
//! `DECKLOG_BENCH_CALLS` (tool calls, default 20000), `DECKLOG_BENCH_ROUNDS` (default 5).

// Counts become figures, and a bench that cannot run should stop.
#![allow(clippy::cast_precision_loss, clippy::expect_used, clippy::unwrap_used)]
#![allow(missing_docs)]

use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use decklog::{
    ObservabilityStore, Record, Store, ToolCallDone, ToolCallReq, ToolStatus, Validity, args_sha256,
};
use rusqlite::{Connection, params};
use uuid::Uuid;

const START_MS: i64 = 1_766_832_000_000;
const BATCH: usize = 1_000;

fn main() {
    let json = std::env::args().any(|arg| arg == "--json");
    let calls = setting("DECKLOG_BENCH_CALLS", 20_000);
    let rounds = setting("DECKLOG_BENCH_ROUNDS", 5);
    let work = Work::new(calls);
    let mut table = Table {
        json,
        rows: Vec::new(),
    };

    // The first round warms up.
    let figures: Vec<Figures> = (0..=rounds).map(|_| work.round()).skip(1).collect();
    let median = |pick: &dyn Fn(&Figures) -> f64| {
        let mut values: Vec<f64> = figures.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let lines = (calls * 2) as f64;
    let gets = work.gets() as f64;
    let parents = work.parents.len() as f64;
    let mut row = |name,
                   unit,
                   count: f64,
                   ours: &dyn Fn(&Figures) -> f64,
                   peer,
                   theirs: &dyn Fn(&Figures) -> f64| {
        table.row(
            name,
            unit,
            count / median(ours),
            peer,
            count / median(theirs),
        );
    };
    row(
        "append, one a call",
        "records/s",
        lines,
        &|f| f.ours.append,
        "sqlite",
        &|f| f.sqlite.append,
    );
    row(
        "append, one a call",
        "records/s",
        lines,
        &|f| f.ours.append,
        "write(2)",
        &|f| f.bare,
    );
    row(
        "append, 1000 a batch",
        "records/s",
        lines,
        &|f| f.ours.batch,
        "sqlite",
        &|f| f.sqlite.batch,
    );
    row(
        "get by key",
        "calls/s",
        gets,
        &|f| f.ours.get,
        "sqlite",
        &|f| f.sqlite.get,
    );
    row(
        "list a parent's calls",
        "lists/s",
        parents,
        &|f| f.ours.list,
        "sqlite",
        &|f| f.sqlite.list,
    );
    row(
        "open, no sidecar",
        "records/s",
        lines,
        &|f| f.ours.open,
        "serde_json scan",
        &|f| f.scan,
    );
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
        .max(1)
}

/// Seconds that each side took.
#[derive(Default)]
struct Side {
    append: f64,
    batch: f64,
    get: f64,
    list: f64,
    open: f64,
}

#[derive(Default)]
struct Figures {
    ours: Side,
    sqlite: Side,
    bare: f64,
    scan: f64,
}

fn seconds(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

/// The same tool calls for every side: five to a parent, each requested, then completed.
struct Work {
    calls: Vec<(ToolCallReq, ToolCallDone)>,
    parents: Vec<Uuid>,
    /// Places in `calls`, in random order.
    order: Vec<usize>,
}

impl Work {
    fn new(count: usize) -> Work {
        let mut random = Random(42);
        let parents: Vec<Uuid> = (0..count.div_ceil(5)).map(|_| random.uuid()).collect();
        let calls: Vec<_> = (0..count)
            .map(|i| call(&mut random, i, parents[i / 5]))
            .collect();
        let mut order: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            order.swap(i, random.below(i + 1));
        }
        Work {
            calls,
            parents,
            order,
        }
    }

    fn gets(&self) -> usize {
        self.order.len()
    }

    fn records(&self) -> impl Iterator<Item = Record> {
        self.calls
            .iter()
            .flat_map(|(req, done)| [req.clone().into(), done.clone().into()])
    }

    fn round(&self) -> Figures {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| dir.path().join(name);
        let mut figures = Figures::default();

        let store = Store::open(path("single")).expect("open");
        figures.ours.append = seconds(|| {
            for (req, done) in &self.calls {
                store
                    .record_tool_call_requested(req.clone())
                    .expect("request");
                store.record_tool_call_done(done.clone()).expect("done");
            }
        });
        let db = sqlite(&path("single.db"));
        figures.sqlite.append = seconds(|| {
            for (req, done) in &self.calls {
                insert(&db, req);
                update(&db, done);
            }
        });
        figures.bare = bare_write(&lines(&path("single")), &path("bare"));

        let batched = Store::open(path("batch")).expect("open");
        let records: Vec<Record> = self.records().collect();
        figures.ours.batch = seconds(|| {
            for batch in records.chunks(BATCH) {
                for ack in batched.record_batch(batch.iter().cloned()).expect("batch") {
                    ack.expect("taken");
                }
            }
        });
        let batched_db = sqlite(&path("batch.db"));
        figures.sqlite.batch = seconds(|| {
            for batch in self.calls.chunks(BATCH / 2) {
                batched_db.execute_batch("BEGIN").expect("begin");
                for (req, done) in batch {
                    insert(&batched_db, req);
                    update(&batched_db, done);
                }
                batched_db.execute_batch("COMMIT").expect("commit");
            }
        });

        figures.ours.get = seconds(|| {
            for i in &self.order {
                let (req, _) = &self.calls[*i];
                let found = store
                    .get_tool_call(req.request_id, &req.call_id)
                    .expect("get");
                assert!(black_box(found).is_some());
            }
        });
        figures.sqlite.get = seconds(|| {
            for i in &self.order {
                let (req, _) = &self.calls[*i];
                black_box(select(&db, req));
            }
        });
        figures.ours.list = seconds(|| {
            for parent in &self.parents {
                black_box(store.list_tool_calls_by_parent(*parent, 20).expect("list"));
            }
        });
        figures.sqlite.list = seconds(|| {
            for parent in &self.parents {
                black_box(select_parent(&db, parent));
            }
        });
        figures.ours.open = seconds(|| drop(black_box(Store::open(path("single")).expect("open"))));
        figures.scan = scan_all(&path("single"));
        figures
    }
}

fn call(random: &mut Random, i: usize, parent_id: Uuid) -> (ToolCallReq, ToolCallDone) {
    let request_id = random.uuid();
    let started = START_MS + i64::try_from(i).expect("few") * 7;
    // About 1 KB on average with a long tail, as agents' tools have it.
    let outcome_len = match random.below(1_000) {
        0..=1 => 100_000,
        2..=49 => 6_000,
        _ => 300 + random.below(700),
    };
    let arguments = format!(
        "{{\"path\":\"src/module_{i}.rs\",\"note\":\"{}\"}}",
        random.text(200)
    );
    let req = ToolCallReq {
        request_id,
        call_id: format!("toolu_{:016x}", random.next()),
        parent_id,
        vendor: "anthropic".into(),
        tool_name: ["Bash", "Read", "Write", "Edit", "Grep"][random.below(5)].into(),
        args_sha256: args_sha256(&arguments),
        arguments_json: Some(arguments),
        started_at: Validity::at(started),
    };
    let done = ToolCallDone {
        request_id,
        call_id: req.call_id.clone(),
        ended_at: Validity::at(started + 5),
        latency_ms: 5,
        outcome_json: Some(format!("{{\"stdout\":\"{}\"}}", random.text(outcome_len))),
        error_kind: None,
        error_msg: None,
        status: ToolStatus::Completed,
    };
    (req, done)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 27)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.next(), self.next())
    }

    fn text(&mut self, len: usize) -> String {
        const WORDS: &[u8] = b"the quick brown fox jumps over a lazy dog and then some more of it ";
        let start = self.below(WORDS.len());
        WORDS
            .iter()
            .cycle()
            .skip(start)
            .take(len)
            .map(|b| char::from(*b))
            .collect()
    }
}

fn sqlite(path: &Path) -> Connection {
    let db = Connection::open(path).expect("open");
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         CREATE TABLE tool_calls (
            request_id BLOB NOT NULL, call_id TEXT NOT NULL, parent_id BLOB NOT NULL,
            vendor TEXT NOT NULL, tool_name TEXT NOT NULL, args_sha256 TEXT NOT NULL,
            arguments_json TEXT, started_at INTEGER NOT NULL, status TEXT NOT NULL,
            ended_at INTEGER, latency_ms INTEGER, outcome_json TEXT, error_kind TEXT, error_msg TEXT,
            PRIMARY KEY (request_id, call_id)) WITHOUT ROWID;
         CREATE INDEX by_parent ON tool_calls (parent_id, started_at);
         CREATE INDEX by_status ON tool_calls (status);",
    )
    .expect("schema");
    db
}

fn insert(db: &Connection, req: &ToolCallReq) {
    db.prepare_cached(
        "INSERT INTO tool_calls (request_id, call_id, parent_id, vendor, tool_name, args_sha256,
            arguments_json, started_at, status) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,'requested')
         ON CONFLICT DO NOTHING",
    )
    .and_then(|mut statement| {
        statement.execute(params![
            req.request_id.as_bytes(),
            req.call_id,
            req.parent_id.as_bytes(),
            req.vendor,
            req.tool_name,
            req.args_sha256,
            req.arguments_json,
            req.started_at.at
        ])
    })
    .expect("insert");
}

fn update(db: &Connection, done: &ToolCallDone) {
    db.prepare_cached(
        "UPDATE tool_calls SET status = ?3, ended_at = ?4, latency_ms = ?5, outcome_json = ?6,
            error_kind = ?7, error_msg = ?8
         WHERE request_id = ?1 AND call_id = ?2 AND status = 'requested'",
    )
    .and_then(|mut statement| {
        statement.execute(params![
            done.request_id.as_bytes(),
            done.call_id,
            done.status.as_str(),
            done.ended_at.at,
            done.latency_ms,
            done.outcome_json,
            done.error_kind,
            done.error_msg
        ])
    })
    .expect("update");
}

type Row = (
    Vec<u8>,
    String,
    String,
    Option<String>,
    i64,
    String,
    Option<String>,
);

const COLUMNS: &str =
    "request_id, call_id, tool_name, arguments_json, started_at, status, outcome_json";

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
    ))
}

fn select(db: &Connection, req: &ToolCallReq) -> Row {
    let sql = format!("SELECT {COLUMNS} FROM tool_calls WHERE request_id = ?1 AND call_id = ?2");
    let mut statement = db.prepare_cached(&sql).expect("prepare");
    statement
        .query_row(params![req.request_id.as_bytes(), req.call_id], read_row)
        .expect("get")
}

fn select_parent(db: &Connection, parent: &Uuid) -> Vec<Row> {
    let sql = format!(
        "SELECT {COLUMNS} FROM tool_calls WHERE parent_id = ?1 ORDER BY started_at DESC LIMIT 20"
    );
    let mut statement = db.prepare_cached(&sql).expect("prepare");
    let rows = statement
        .query_map(params![parent.as_bytes()], read_row)
        .expect("list");
    rows.collect::<Result<_, _>>().expect("rows")
}

/// A store's segments, in order.
fn segments(store: &Path) -> Vec<std::path::PathBuf> {
    let list = |dir: &Path| -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(dir).expect("directory").flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let days = list(store).into_iter().filter(|path| path.is_dir());
    days.flat_map(|day| list(&day)).collect()
}

/// Every line of a store.
fn lines(store: &Path) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for file in segments(store) {
        let bytes = std::fs::read(file).expect("segment");
        lines.extend(bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec));
    }
    lines
}

fn bare_write(lines: &[Vec<u8>], path: &Path) -> f64 {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("file");
    seconds(|| {
        for line in lines {
            file.write_all(line).expect("write");
        }
    })
}

/// What a reader without an index does: parse the key fields of every line.
fn scan_all(store: &Path) -> f64 {
    #[derive(serde::Deserialize)]
    #[allow(dead_code)]
    struct Keys {
        seq: u64,
        at: i64,
        request_id: Uuid,
        call_id: String,
        parent_id: Option<Uuid>,
    }
    let files = segments(store);
    seconds(|| {
        for file in &files {
            let bytes = std::fs::read(file).expect("segment");
            for line in bytes.split_inclusive(|b| *b == b'\n') {
                black_box(serde_json::from_slice::<Keys>(line).expect("a line"));
            }
        }
    })
}

struct Table {
    json: bool,
    rows: Vec<()>,
}

impl Table {
    fn row(&mut self, name: &str, unit: &str, ours: f64, peer: &str, theirs: f64) {
        let ratio = ours / theirs;
        if self.json {
            let row = serde_json::json!({
                "name": name, "unit": unit, "ours": ours, "peer": peer, "theirs": theirs, "ratio": ratio,
            });
            println!("{row}");
            return;
        }
        if self.rows.is_empty() {
            println!(
                "{:24} {:>12} {:>17} {:>12} {:>8}  unit",
                "work", "decklog", "peer", "", "ratio"
            );
        }
        self.rows.push(());
        println!("{name:24} {ours:>12.0} {peer:>17} {theirs:>12.0} {ratio:>8.2}  {unit}");
    }
}
