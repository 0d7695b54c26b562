//! Very many segments: years of days, each with several. Opening such a store takes seconds at
//! most, with and without the sidecar, and uses few file descriptors. Once it is open, an append, a
//! get or a list takes no longer than in a store of ten segments.
//!
//! `DECKLOG_SEGMENTS` sets the number of segments. Each store is used by a separate process with a
//! limit of 256 open files, which is lower than any system's default.

#![allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use decklog::query::{CallQuery, Order, TurnQuery};
use decklog::storage::{Access, Disk, Entry, FileStat, Storage, StorageFile};
use decklog::{Event, HistoryEntry, Options, Record, Role, Store, verify};
use uuid::Uuid;

use super::support::{DAY_MS, Rng, count, done, request, turn};

/// 2023-01-01T00:00:00Z.
const FIRST_DAY: i64 = 1_672_531_200_000;
/// Three years.
const DAYS: u64 = 1_096;
/// Maximum time for opening a store.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// Limit on the process's open files.
const FILES_MAX: usize = 256;
/// The directory of the small store.
const SMALL: &str = "small";
const SMALL_SEGMENTS: u64 = 10;
const ENV_DIR: &str = "DECKLOG_MANY_DIR";
const ENV_COUNT: &str = "DECKLOG_MANY_COUNT";

/// The time of record `number` of `all`, spread over this many days.
fn at(number: u64, all: u64, days: u64) -> i64 {
    let day = number * days / all;
    FIRST_DAY + day as i64 * DAY_MS + number as i64
}

/// Records of several kinds, in turn; an outcome follows its request.
fn record(number: u64, at: i64) -> Record {
    let id = u128::from(number);
    match number % 5 {
        0 => turn(id, "a turn", at).into(),
        1 => request(id, "call", at).into(),
        2 => done(&request(id - 1, "call", at - 1)).into(),
        3 => Record::Event(with!(Event::new(None, "agent.started"),
            created_at: at,
        )),
        _ => Record::History(with!(HistoryEntry::new(7, Role::User, "an entry"),
            created_at: at,
        )),
    }
}

/// Writes a store with one segment per line, its records spread over this many days.
fn write_store(path: &Path, segments: u64, days: u64) {
    let options = super::support::still().segment_bytes_max(1);
    let storage = Arc::new(Unsynced(Disk::new(path)));
    let store = options.storage(storage).open(path).unwrap();
    let numbers: Vec<u64> = (0..segments).collect();
    for part in numbers.chunks(1_000) {
        let records = part.iter().map(|n| record(*n, at(*n, segments, days)));
        for ack in store.record_batch(records.collect::<Vec<_>>()).unwrap() {
            ack.unwrap();
        }
    }
}

/// The disk without syncs. With them, a test of many files would take minutes.
#[derive(Debug)]
struct Unsynced(Disk);

impl Storage for Unsynced {
    fn root(&self) -> &Path {
        self.0.root()
    }
    fn is_in_place(&self) -> io::Result<bool> {
        self.0.is_in_place()
    }
    fn check_writable(&self) -> io::Result<()> {
        self.0.check_writable()
    }
    fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>> {
        self.0.read_dir(dir)
    }
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.0.open(path, access)?;
        Ok(Arc::new(UnsyncedFile(file)))
    }
    fn stat(&self, path: &str) -> io::Result<FileStat> {
        self.0.stat(path)
    }
    fn create_dir(&self, dir: &str) -> io::Result<bool> {
        self.0.create_dir(dir)
    }
    fn sync_dir(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.0.remove_dir(path)
    }
    fn set_read_only(&self, path: &str) -> io::Result<()> {
        self.0.set_read_only(path)
    }
    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.0.remove_file(path)
    }
}

#[derive(Debug)]
struct UnsyncedFile(Arc<dyn StorageFile>);

impl StorageFile for UnsyncedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn stat(&self) -> io::Result<FileStat> {
        self.0.stat()
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }
    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

/// Uses a store in a separate process; prints and returns its figures.
fn use_in_process(dir: &Path, segments: u64, what: &str) {
    // The limit is set by a shell, so that no test changes the limit of this process.
    let script = format!("ulimit -S -n {FILES_MAX} && exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "many::process_that_opens"])
        .args(["--test-threads=1", "--nocapture"])
        .env(ENV_DIR, dir)
        .env(ENV_COUNT, segments.to_string())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {told}\n{failed}");
    let figures: Vec<&str> = told.lines().filter(|line| line.contains(": ")).collect();
    let figures = figures.join("\n");
    println!("{what}\n{figures}");
}

fn use_store(segments: u64, days: u64, what: &str) {
    let dir = tempfile::tempdir().unwrap();
    write_store(&dir.path().join("log"), segments, days);
    write_store(&dir.path().join(SMALL), SMALL_SEGMENTS, 2);
    use_in_process(
        dir.path(),
        segments,
        &format!("{what}: {segments} segments"),
    );
}

#[test]
fn three_years_of_days() {
    let segments = count("DECKLOG_SEGMENTS", 2_000);
    use_store(segments, DAYS, "three years");
}

#[test]
fn a_line_a_day_for_a_lifetime() {
    let days = (count("DECKLOG_SEGMENTS", 2_000) / 4).min(29_000);
    use_store(days, days, "one segment a day");
}

#[test]
fn a_day_with_very_many_segments() {
    let segments = count("DECKLOG_SEGMENTS", 2_000).min(4 * 9_999);
    use_store(segments, 1, "one day");
}

/// Samples the number of open descriptors until the test stops it.
struct Descriptors {
    most: AtomicUsize,
    is_over: AtomicBool,
}

impl Descriptors {
    fn watch(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            if let Ok(open) = fs::read_dir("/proc/self/fd") {
                self.most.fetch_max(open.count(), Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// The process's private memory, in KiB.
fn memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    words.map_or(0, |kib| kib.parse().unwrap())
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let done = work();
    (done, started.elapsed())
}

/// Durations of single calls: the median, and the first decile, which other load on the machine
/// changes little.
#[derive(Clone, Copy)]
struct Took {
    median: Duration,
    quick: Duration,
}

fn each(calls: u64, mut call: impl FnMut(u64)) -> Took {
    let mut times: Vec<Duration> = (0..calls).map(|n| timed(|| call(n)).1).collect();
    times.sort_unstable();
    Took {
        median: times[times.len() / 2],
        quick: times[times.len() / 10],
    }
}

fn options() -> Options {
    Store::options()
        .flush_interval(Duration::from_secs(3600))
        .sidecar_bytes_min(u64::MAX)
}

/// Durations of single operations in an open store, by name.
fn operations(path: &Path, segments: u64, figures: &mut String) -> Vec<(&'static str, Took)> {
    const CALLS: u64 = 300;
    let store = options().open(path).unwrap();
    let other = options().open(path).unwrap();
    let last_at = store.turns(&TurnQuery {
        limit: 1,
        order: Order::NewestFirst,
        ..TurnQuery::default()
    });
    let last_at = last_at.unwrap().items[0].created_at.at;
    let (first, first_took) = timed(|| store.record(turn(0x1_0000_0000, "the first", last_at + 1)));
    first.unwrap();
    writeln!(figures, "  first append: {first_took:?}").unwrap();
    let mut next = 0u128;
    let mut id = || {
        next += 1;
        0x2_0000_0000 + next
    };
    let mut rng = Rng(7);
    let mut times = Vec::new();
    let mut note = |name, took| times.push((name, took));
    note(
        "append to the last day",
        each(CALLS, |n| {
            let at = last_at + 2 + n as i64;
            store.record(turn(id(), "more", at)).unwrap();
        }),
    );
    note(
        "append to a new day",
        each(30, |n| {
            let at = last_at + (n as i64 + 1) * DAY_MS;
            store.record(turn(id(), "new", at)).unwrap();
        }),
    );
    note(
        "append to the first day",
        each(CALLS, |n| {
            let at = FIRST_DAY + n as i64;
            store.record(turn(id(), "old", at)).unwrap();
        }),
    );
    note(
        "append, and read through another handle",
        each(CALLS, |n| {
            let turn = turn(id(), "seen", last_at + n as i64);
            store.record(turn.clone()).unwrap();
            let read = other.get_turn(turn.id).unwrap();
            assert_eq!(read, Some(turn));
        }),
    );
    // Every fifth record is a request.
    note(
        "get",
        each(CALLS, |_| {
            let number = rng.below((segments / 5) as usize) as u128 * 5 + 1;
            let found = store
                .get_tool_call(Uuid::from_u128(number), "call")
                .unwrap();
            assert!(found.unwrap().1.is_some(), "{number}");
        }),
    );
    note(
        "list the last 2 turns",
        each(CALLS, |_| {
            let query = TurnQuery {
                limit: 2,
                order: Order::NewestFirst,
                ..TurnQuery::default()
            };
            assert!(!store.turns(&query).unwrap().items.is_empty());
        }),
    );
    note(
        "list the calls of a time",
        each(CALLS, |_| {
            let number = rng.below((segments / 5) as usize) as u128 * 5 + 1;
            let (call, _) = store
                .get_tool_call(Uuid::from_u128(number), "call")
                .unwrap()
                .unwrap();
            let query = CallQuery {
                since: Some(call.started_at.at),
                limit: 1,
                order: Order::OldestFirst,
                ..CallQuery::default()
            };
            assert_eq!(store.tool_calls(&query).unwrap().items[0].0, call);
        }),
    );
    note(
        "the last 2 entries of a chat",
        each(CALLS, |_| {
            assert!(!store.history(7, 2).unwrap().is_empty());
        }),
    );
    note(
        "as of a time, a call",
        each(CALLS, |_| {
            let as_of = store.as_of(last_at);
            let found = as_of.get_tool_call(Uuid::from_u128(1), "call").unwrap();
            assert!(found.is_some());
        }),
    );
    note(
        "tail, the last 10 lines",
        each(30, |_| {
            assert_eq!(store.last_lines(10).unwrap().len(), 10);
        }),
    );
    let mut follow = store.follow(0).unwrap();
    follow.next_lines(Duration::ZERO).unwrap();
    note(
        "append and follow",
        each(CALLS, |n| {
            let at = last_at + 1_000 + n as i64;
            store.record(turn(id(), "followed", at)).unwrap();
            assert_eq!(follow.next_lines(Duration::ZERO).unwrap().len(), 1);
        }),
    );
    times
}

/// The child process of this file's tests; does nothing otherwise.
#[test]
fn process_that_opens() {
    let Some(dir) = std::env::var_os(ENV_DIR).map(PathBuf::from) else {
        return;
    };
    let descriptors = Descriptors {
        most: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| descriptors.watch());
        let used = std::panic::catch_unwind(|| use_one(&dir));
        descriptors.is_over.store(true, Ordering::Relaxed);
        match used {
            Ok(figures) => print!("{figures}"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    let most = descriptors.most.load(Ordering::Relaxed);
    println!("  descriptors at the most: {most}");
}

fn use_one(dir: &Path) -> String {
    let path = dir.join("log");
    let segments = count(ENV_COUNT, 0);
    // More than may be open.
    let wide: u64 = if segments > 10_000 { 1_000 } else { 300 };
    let mut figures = String::new();
    let mut note = |what: &str, took: Duration| {
        writeln!(figures, "  {what}: {took:?}").unwrap();
    };
    let within = |what: &str, took: Duration| {
        assert!(took <= OPEN_MAX, "{what} took {took:?}");
        took
    };
    let lines = |store: &Store| store.last_lines(1).unwrap()[0].seq;

    let before = memory_kib();
    let (store, took) = timed(|| options().open(&path).unwrap());
    note("open without a sidecar", within("open", took));
    let kib = memory_kib().saturating_sub(before);
    let known = lines(&store);
    let (second, took) = timed(|| options().open(&path).unwrap());
    note("open a second handle", within("open", took));
    assert_eq!(lines(&second), known);
    let ((), took) = timed(|| store.refresh().unwrap());
    note("look at all segments", within("refresh", took));
    drop(second);
    drop(store);
    let with_sidecar = options().sidecar_bytes_min(0).open(&path).unwrap();
    let ((), took) = timed(|| drop(with_sidecar));
    note("write the sidecar", within("the sidecar", took));
    assert!(path.join("cache/index").exists());
    let (store, took) = timed(|| options().open(&path).unwrap());
    note("open with the sidecar", within("open", took));
    assert_eq!(lines(&store), known);
    drop(store);

    // A process died while it held the lock: `HEAD` names it.
    let store = options().open(&path).unwrap();
    store.record(turn(0xdead, "before", FIRST_DAY)).unwrap();
    drop(store);
    let store = options().open(&path).unwrap();
    let mut head = fs::read(path.join("HEAD")).unwrap();
    head[3 * 8] = 1;
    let file = fs::File::options().write(true).open(path.join("HEAD"));
    std::os::unix::fs::FileExt::write_all_at(&file.unwrap(), &head, 0).unwrap();
    let (ack, took) = timed(|| store.record(turn(0xdeae, "after", FIRST_DAY)));
    assert_eq!(ack.unwrap().seq, known + 2);
    note("append after a writer died", within("the append", took));

    // One batch for more segments than may be open.
    let batch: Vec<Record> = (0..wide)
        .map(|n| {
            turn(
                0xb000_0000 + u128::from(n),
                "wide",
                FIRST_DAY + n as i64 * DAY_MS,
            )
            .into()
        })
        .collect();
    let (acks, took) = timed(|| store.record_batch(batch).unwrap());
    assert!(acks.iter().all(Result::is_ok));
    note(&format!("a batch over {wide} days"), took);
    drop(store);

    let (found, took) = timed(|| verify(&Disk::new(&path)).unwrap());
    assert!(
        found.is_clean(),
        "{:?} {:?}",
        found.damage.first(),
        found.gaps
    );
    assert_eq!(found.good_lines, known + 2 + wide);
    note("verify", took);
    writeln!(figures, "  memory of an open store: {kib} KiB").unwrap();

    let mut of_small = String::new();
    let small = operations(&dir.join(SMALL), SMALL_SEGMENTS, &mut of_small);
    let many = operations(&path, segments, &mut figures);
    for ((what, small), (_, many)) in small.into_iter().zip(many) {
        writeln!(
            figures,
            "  {what}: {:?}, with ten segments {:?}",
            many.median, small.median
        )
        .unwrap();
        // An operation that reads all segments takes far longer; one that opens a file does not.
        let most = small.quick * 5 + Duration::from_micros(100);
        assert!(many.quick <= most, "{figures}");
    }
    figures
}
