//! How long a call waits for the work of others: beside another process that writes, beside long
//! reads and large batches, among many handles and threads, and at the pace of an agent. SQLite in
//! the same run, where it has the same work.
//!
//! `cargo bench --bench waiting`; `DECKLOG_BENCH_SECONDS` sets how long each row takes, and
//! `DECKLOG_BENCH_TURNS` how many turns there are to read.

// A bench says what went wrong by stopping there.
#![allow(clippy::expect_used)]

#[path = "side_by_side/child.rs"]
mod child;
mod scratch;
#[path = "side_by_side/peers/sqlite.rs"]
#[allow(dead_code)] // Other benches use the rest.
mod sqlite;
mod tiny;
#[path = "side_by_side/work.rs"]
#[allow(dead_code)]
mod work;

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use decklog::query::TurnQuery;
use decklog::{ConversationTurn, Record, Store, TurnKind, Validity};
use uuid::Uuid;

use child::{Child, Work};
use scratch::{count, in_scratch_dir};
use sqlite::Synchronous;

/// Roles of a child.
const WRITE: &str = "write";
const WRITE_SQLITE: &str = "write-sqlite";
const READ_ALL: &str = "read-all";

/// The number of a child's first call.
const CHILD: usize = 1 << 30;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == child::FLAG) {
        return child::run(&args[at + 1..], begin);
    }
    in_scratch_dir("waiting", measure);
}

fn seconds() -> Duration {
    Duration::from_millis(count("DECKLOG_BENCH_SECONDS", 3) as u64 * tiny::size(1_000, 10))
}

/// What a child does until its time is over.
fn begin(role: &str, args: &[&str]) -> Work {
    let path = Path::new(args[0]);
    let rate = args[1].parse().expect("a rate");
    if role == WRITE_SQLITE {
        let db = sqlite::connect(path, Synchronous::Normal);
        return Box::new(move || {
            paced(rate, seconds() * 2, CHILD, |i| insert(&db, i));
            0.0
        });
    }
    let store = Store::open(path).expect("a store");
    let reads = role == READ_ALL;
    let first = if reads { CHILD << 1 } else { CHILD };
    Box::new(move || {
        paced(rate, seconds() * 2, first, |i| {
            if reads {
                all_turns(&store);
            }
            record(&store, i);
        });
        0.0
    })
}

fn measure(dir: &Path) {
    let (log, database) = (dir.join("log"), dir.join("sqlite.db"));
    let store = Store::open(&log).expect("a store");
    let db = sqlite::calls(&database, Synchronous::Normal);
    fill(
        &store,
        count("DECKLOG_BENCH_TURNS", tiny::size(300_000, 500)),
    );
    println!(
        "{:<62} {:>9} {:>9} {:>9}",
        "µs a call", "median", "p99", "max"
    );
    let file = std::fs::File::create(dir.join("bare")).expect("a file");
    for rate in [20, 100, 500] {
        row(
            &format!("write(2) of a line, {rate} a second"),
            paced(rate, seconds(), 0, |i| write_line(&file, i)),
        );
        row(
            &format!("record, {rate} a second"),
            paced(rate, seconds(), 0, |i| record(&store, i)),
        );
        row(
            &format!("SQLite insert, {rate} a second"),
            paced(rate, seconds(), 0, |i| insert(&db, i)),
        );
    }
    let next = AtomicUsize::new(1 << 26);
    let beside = |what: &str, role, path: &Path, rate, of: &dyn Fn(usize)| {
        let path = path.to_str().expect("a path in UTF-8");
        let mut child = Child::start(role, &[path, rate]);
        child.go();
        std::thread::sleep(seconds() / 4);
        let first = next.fetch_add(1 << 20, Ordering::Relaxed);
        // The first call also reads all that others have written since this process's last one.
        let began = Instant::now();
        of(first);
        row(&format!("{what}: first call"), vec![began.elapsed()]);
        row(what, paced(100, seconds(), first + 1, of));
        child.figure();
        child.end();
    };
    let write = |i| record(&store, i);
    beside(
        "record, 100 a second, beside a process with 2,000",
        WRITE,
        &log,
        "2000",
        &write,
    );
    beside(
        "SQLite insert, the same",
        WRITE_SQLITE,
        &database,
        "2000",
        &|i| insert(&db, i),
    );
    beside(
        "record, 100 a second, beside a process flat out",
        WRITE,
        &log,
        "0",
        &write,
    );
    beside(
        "record, beside a process that reads all turns",
        READ_ALL,
        &log,
        "0",
        &write,
    );
    while_running(
        || _ = all_turns(&store),
        || {
            row(
                "record, beside a thread that reads all turns",
                paced(100, seconds(), 1 << 21, write),
            );
        },
    );
    batches(&store);
    gets(&store, &db);
    crowds(&log);
}

/// Gets beside batches.
fn batches(store: &Store) {
    let size = tiny::size(100_000, 100);
    let first = 1 << 22;
    let wanted = AtomicU64::new(first as u64);
    record(store, first);
    let batch = |nth: usize| {
        let first = (1 << 23) + nth * size;
        (first..first + size / 2)
            .flat_map(|i| work::records(i..i + 1))
            .collect::<Vec<Record>>()
    };
    let nth = AtomicU64::new(0);
    let write = || {
        let nth = nth.fetch_add(1, Ordering::Relaxed) as usize;
        for ack in store.record_batch(batch(nth)).expect("a batch") {
            ack.expect("taken");
        }
    };
    while_running(write, || {
        let get = |_| {
            let (request_id, call_id) = work::key(wanted.load(Ordering::Relaxed) as usize);
            store
                .get_tool_call(request_id, &call_id)
                .expect("read")
                .expect("there");
        };
        row(
            &format!("get, beside batches of {size}"),
            paced(2_000, seconds(), 0, get),
        );
    });
}

/// Gets a second, alone and beside a writer.
fn gets(store: &Store, db: &rusqlite::Connection) {
    let keys: Vec<usize> = (0..1_000).collect();
    for i in &keys {
        record(store, (1 << 24) + i);
        insert(db, (1 << 24) + i);
    }
    let get = |i: usize| {
        let (request_id, call_id) = work::key((1 << 24) + i % keys.len());
        store
            .get_tool_call(request_id, &call_id)
            .expect("read")
            .expect("there");
    };
    let get_sqlite = |i: usize| {
        let (request_id, call_id) = work::key((1 << 24) + i % keys.len());
        sqlite::get(db, request_id, &call_id);
    };
    rate("gets a second", get);
    let next = AtomicU64::new(1 << 25);
    let write = || record(store, next.fetch_add(1, Ordering::Relaxed) as usize);
    while_running(write, || {
        rate("gets a second, beside a writer flat out", get);
    });
    let path = db.path().expect("a file").to_owned();
    let is_over = AtomicBool::new(false);
    rate("SQLite gets a second", get_sqlite);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let db = sqlite::connect(Path::new(&path), Synchronous::Normal);
            let mut i = 1 << 25;
            while !is_over.load(Ordering::Relaxed) {
                insert(&db, i);
                i += 1;
            }
        });
        rate("SQLite gets a second, beside a writer flat out", get_sqlite);
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Many that all write as fast as they can.
fn crowds(log: &Path) {
    let next = AtomicU64::new(1 << 27);
    let run = |what: &str, stores: Vec<Store>| {
        let flat_out = |store: &Store| {
            paced(0, seconds(), 0, |_| {
                record(store, next.fetch_add(1, Ordering::Relaxed) as usize);
            })
        };
        let waits = std::thread::scope(|scope| {
            let threads: Vec<_> = stores
                .iter()
                .map(|store| scope.spawn(|| flat_out(store)))
                .collect();
            let waits = threads
                .into_iter()
                .map(|thread| thread.join().expect("it ends"));
            waits.flatten().collect()
        });
        row(what, waits);
    };
    let handles = tiny::size(20, 2);
    let open = |_| Store::open(log).expect("a store");
    run(
        &format!("record, {handles} handles flat out"),
        (0..handles).map(open).collect(),
    );
    let threads = tiny::size(100, 2);
    let store = Store::open(log).expect("a store");
    run(
        &format!("record, {threads} threads flat out"),
        vec![store; threads],
    );
}

fn while_running(work: impl Fn() + Sync, measured: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                work();
            }
        });
        std::thread::sleep(Duration::from_millis(tiny::size(200, 1)));
        measured();
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Makes calls at this rate, or without a pause at 0. Returns how long each took.
fn paced(rate: u32, time: Duration, first: usize, call: impl Fn(usize)) -> Vec<Duration> {
    let began = Instant::now();
    let (mut times, mut nth) = (Vec::new(), 0);
    while began.elapsed() < time {
        if rate > 0 {
            let due = Duration::from_secs(1) / rate * nth;
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        let start = Instant::now();
        call(first + nth as usize + rate as usize * 100_000);
        times.push(start.elapsed());
        nth += 1;
    }
    times
}

fn row(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let us = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e6);
    let [median, p99] = [times.len() / 2, times.len() * 99 / 100].map(|place| us(times.get(place)));
    println!(
        "{what:<62} {median:>9.1} {p99:>9.1} {:>9.1}",
        us(times.last())
    );
}

fn rate(what: &str, call: impl Fn(usize)) {
    let times = paced(0, seconds(), 0, call);
    let total: Duration = times.iter().sum();
    println!(
        "{what:<62} {:>9.0}",
        1.0 / (total / u32::try_from(times.len()).expect("few")).as_secs_f64()
    );
}

fn record(store: &Store, i: usize) {
    let (request, _) = work::call(i);
    store.record(request).expect("recorded");
}

fn write_line(mut file: &std::fs::File, i: usize) {
    let mut line = serde_json::to_vec(&work::call(i).0.arguments_json).expect("JSON");
    line.push(b'\n');
    file.write_all(&line).expect("written");
}

fn insert(db: &rusqlite::Connection, i: usize) {
    sqlite::insert(db, &work::call(i).0);
}

fn all_turns(store: &Store) -> usize {
    let query = TurnQuery {
        limit: usize::MAX,
        ..TurnQuery::default()
    };
    store.turns(&query).expect("read").items.len()
}

fn fill(store: &Store, turns: usize) {
    let turn = |i: usize| -> Record {
        let id = Uuid::from_u128(i as u128 + 1);
        ConversationTurn {
            id,
            parent_id: None,
            message_id: id,
            kind: TurnKind::User,
            content: work::text(i, 80),
            created_at: Validity::at(work::START_MS + i64::try_from(i).expect("few")),
            thread_id: None,
        }
        .into()
    };
    for first in (0..turns).step_by(1_000) {
        let batch = (first..turns.min(first + 1_000))
            .map(turn)
            .collect::<Vec<_>>();
        for ack in store.record_batch(batch).expect("a batch") {
            ack.expect("taken");
        }
    }
}
