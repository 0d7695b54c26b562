//! Copies of a log: to a directory beside plain zstd, to PostgreSQL beside `psql`, and what following
//! costs those who write.
//!
//! `cargo bench --features ship --bench ship`; `DECKLOG_SHIP_MB` says how large the log is.
//! `DECKLOG_POSTGRES=postgres://USER@HOST/DATABASE` names an empty database, on this machine.

// A bench fails by panicking. Its numbers are small.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::similar_names
)]

mod scratch;
mod tiny;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use decklog::ship::{Destination, Progress, ShipOptions, Shipper};
use decklog::{Client, Conversation, ConversationMessage, Record, Role, Store, Timestamp};
use uuid::Uuid;

const DAY_1: i64 = 1_766_793_600_000;
const DAY_MS: i64 = 86_400_000;
/// Real text, so that it compresses as the lines of agents do.
const TEXT: &str = include_str!("../tests/data/claude-code-session.jsonl");

fn main() {
    scratch::in_scratch_dir("ship", |dir| {
        let megabytes = scratch::count("DECKLOG_SHIP_MB", tiny::size(512, 1));
        let rounds = tiny::size(5, 1);
        let store = log(&dir.join("log"), megabytes);
        let lines = segments(store.path());
        let size: u64 = lines
            .iter()
            .map(|path| fs::metadata(path).unwrap().len())
            .sum();
        println!("{:.0} MB of lines in {} segments", mb(size), lines.len());
        to_directory(dir, &store, &lines, size, rounds);
        if let Ok(url) = std::env::var("DECKLOG_POSTGRES") {
            to_postgres(dir, &store, &url);
        }
        drop(store);
        follow(dir);
    });
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of this process, in seconds.
fn cpu() -> f64 {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
    #[cfg(not(unix))]
    0.0
}

fn message(talk: Uuid, nth: usize, at: i64) -> ConversationMessage {
    // Each about 1 KB, of another part of the text.
    let start = (nth * 337) % (TEXT.len() - 1_200);
    let start = TEXT.ceil_char_boundary(start);
    let end = TEXT.ceil_char_boundary(start + 700);
    ConversationMessage::new(talk, Role::Assistant, &TEXT[start..end])
        .timestamp(Timestamp::from_ms(at).unwrap())
        .model_used(["small-1", "large-2"][nth % 2])
        .tokens_in(100 + nth as i64 % 900)
        .tokens_out(nth as i64 % 300)
        .latency_ms(nth as i64 % 5_000)
}

/// A sealed log of about this size, over ten days.
fn log(dir: &Path, megabytes: usize) -> Store {
    let store = Store::options().upkeep(false).open(dir).unwrap();
    let messages = megabytes * 1_000;
    let mut batch: Vec<Record> = Vec::new();
    let mut talk = Uuid::nil();
    for nth in 0..messages {
        let at = DAY_1 + (nth * 10 / messages) as i64 * DAY_MS + (nth % 86_000_000) as i64;
        if nth % 50 == 0 {
            let begun = Conversation::new(Uuid::from_u128(nth as u128 + 1), Client::Cli);
            talk = begun.id;
            batch.push(begun.into());
        }
        batch.push(message(talk, nth, at).into());
        if batch.len() >= 1_000 || nth + 1 == messages {
            for ack in store.record_batch(std::mem::take(&mut batch)).unwrap() {
                ack.unwrap();
            }
        }
    }
    store.sync().unwrap();
    store.seal_at(DAY_1 + 400 * DAY_MS).unwrap();
    store
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let days = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let days = days.filter(|path| path.is_dir() && !path.ends_with("cache"));
    let files = days.flat_map(|day| fs::read_dir(day).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| !path.ends_with("seals.jsonl"))
        .collect();
    files.sort();
    files
}

fn to_directory(dir: &Path, store: &Store, lines: &[PathBuf], size: u64, rounds: usize) {
    let (mut shipped, mut cores, mut plain, mut pulled) = (vec![], vec![], vec![], vec![]);
    for round in 0..rounds {
        let bucket = dir.join(format!("bucket-{round}"));
        let destination = Destination::create(bucket.to_str().unwrap()).unwrap();
        let (began, before) = (Instant::now(), cpu());
        let mut shipper = Shipper::new(store, &destination, ShipOptions::default()).unwrap();
        shipper.ship().unwrap();
        shipped.push(mb(size) / began.elapsed().as_secs_f64());
        cores.push(mb(size) / (cpu() - before).max(1e-9));

        let again = dir.join("again");
        let began = Instant::now();
        destination
            .pull(None, &again, &Progress::default())
            .unwrap();
        pulled.push(mb(size) / began.elapsed().as_secs_f64());
        fs::remove_dir_all(&again).unwrap();
        fs::remove_dir_all(&bucket).unwrap();

        let began = Instant::now();
        let out = File::create(dir.join("plain.zst")).unwrap();
        let mut encoder = zstd::stream::write::Encoder::new(out, 3).unwrap();
        for path in lines {
            std::io::copy(&mut File::open(path).unwrap(), &mut encoder).unwrap();
        }
        let mut out = encoder.finish().unwrap();
        out.flush().unwrap();
        out.sync_all().unwrap();
        plain.push(mb(size) / began.elapsed().as_secs_f64());
    }
    let (shipped, plain) = (median(shipped), median(plain));
    println!("{:<44} {:>8.0} MB/s", "ship to a directory", shipped);
    println!(
        "{:<44} {:>8.0} MB/s",
        "the same, by CPU time of a core",
        median(cores)
    );
    println!("{:<44} {:>8.0} MB/s", "zstd -3 and fsync, one core", plain);
    println!("{:<44} {:>8.2}", "ratio of ship to zstd", shipped / plain);
    println!(
        "{:<44} {:>8.0} MB/s",
        "pull, with verification",
        median(pulled)
    );
}

fn psql(url: &str, sql: &str) {
    let output = Command::new("psql")
        .args(["-X", "-q", url, "-c", sql])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{sql}: {error}");
}

/// Ships to an empty database, and copies the same rows to an equal table with `psql`.
fn to_postgres(dir: &Path, store: &Store, url: &str) {
    let destination = Destination::parse(url).unwrap();
    let began = Instant::now();
    let mut shipper = Shipper::new(store, &destination, ShipOptions::default()).unwrap();
    let outcome = shipper.ship().unwrap();
    let ship = began.elapsed().as_secs_f64();
    let file = dir.join("messages.copy");
    let file = file.display();
    psql(
        url,
        &format!("\\copy (SELECT * FROM messages) TO '{file}' (FORMAT binary)"),
    );
    psql(
        url,
        "DROP TABLE IF EXISTS bench; CREATE TABLE bench (LIKE messages INCLUDING ALL)",
    );
    let began = Instant::now();
    psql(url, &format!("\\copy bench FROM '{file}' (FORMAT binary)"));
    let copy = began.elapsed().as_secs_f64();
    psql(url, "DROP TABLE bench");
    let rate = outcome.rows_written as f64 / ship;
    println!("{:<44} {rate:>8.0} rows/s", "ship to PostgreSQL");
    println!(
        "{:<44} {ship:>8.2} s, with sums of days",
        "ship to PostgreSQL"
    );
    println!(
        "{:<44} {copy:>8.2} s",
        "psql \\copy of the same messages, same keys"
    );
    println!("{:<44} {:>8.2}", "ratio of ship to \\copy", copy / ship);
}

/// A thread that ships as `decklog ship --follow` does, until it is stopped.
struct Follower {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Follower {
    /// Ships what is there, then starts the thread. `shipped` is called with the last sequence
    /// number after each pass.
    fn start(
        store: &Store,
        bucket: &Path,
        mut shipped: impl FnMut(u64) + Send + 'static,
    ) -> Follower {
        let destination = Destination::create(bucket.to_str().unwrap()).unwrap();
        let mut options = ShipOptions::default();
        options.follows = true;
        let mut shipper = Shipper::new(store, &destination, options).unwrap();
        shipper.ship().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !is_stopped.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_secs(1));
                shipped(shipper.ship().unwrap().last_seq);
            }
        });
        Follower { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap();
    }
}

/// How far a copy is behind a writer of a fixed rate, and what following costs a writer that is as
/// fast as it can be.
fn follow(dir: &Path) {
    let store = Store::options()
        .upkeep(false)
        .open(dir.join("followed"))
        .unwrap();
    let talk = Conversation::new(Uuid::from_u128(7), Client::Cli);
    let id = talk.id;
    store.record(talk).unwrap();
    let bucket = dir.join("followed-bucket");
    lag(&store, id, &bucket);

    let (mut with, mut without) = (vec![], vec![]);
    for _ in 0..tiny::size(5, 1) {
        let follower = Follower::start(&store, &bucket, |_| ());
        with.push(full_speed(&store, id));
        follower.stop();
        without.push(full_speed(&store, id));
    }
    let ratios = with
        .iter()
        .zip(&without)
        .map(|(with, without)| with / without);
    let ratio = median(ratios.collect());
    let rate = |name, rate| println!("{name:<44} {rate:>8.0} records/s");
    rate("one writer beside ship --follow", median(with));
    rate("one writer alone", median(without));
    println!("{:<44} {ratio:>8.2}", "ratio, median of rounds");
}

fn lag(store: &Store, talk: Uuid, bucket: &Path) {
    let (per_second, batch) = (10_000, 100);
    // When each batch was written, by its last sequence number.
    let written: Arc<Mutex<Vec<(u64, Instant)>>> = Arc::default();
    let lags: Arc<Mutex<Vec<f64>>> = Arc::default();
    let follower = {
        let (written, lags) = (Arc::clone(&written), Arc::clone(&lags));
        Follower::start(store, bucket, move |last_seq| {
            let now = Instant::now();
            let mut written = written.lock().unwrap();
            let shipped = written.partition_point(|(seq, _)| *seq <= last_seq);
            let shipped = written.drain(..shipped);
            let shipped = shipped.map(|(_, at)| now.duration_since(at).as_secs_f64());
            lags.lock().unwrap().extend(shipped);
        })
    };
    let began = Instant::now();
    for nth in 0..tiny::size(10, 1) * per_second / batch {
        let records = (0..batch).map(|of| {
            let place = nth * batch + of;
            message(talk, place, DAY_1 + place as i64).into()
        });
        let acks = store
            .record_batch(records.collect::<Vec<Record>>())
            .unwrap();
        let seq = acks.last().unwrap().as_ref().unwrap().seq;
        written.lock().unwrap().push((seq, Instant::now()));
        let due =
            began + Duration::from_secs_f64((nth + 1) as f64 * batch as f64 / per_second as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    follower.stop();
    assert!(written.lock().unwrap().is_empty(), "not all was shipped");
    let mut lags = std::mem::take(&mut *lags.lock().unwrap());
    lags.sort_by(f64::total_cmp);
    let longest = lags.last().copied().unwrap_or_default();
    println!(
        "lag at {per_second} records/s: median {:.2} s, max {longest:.2} s",
        median(lags)
    );
}

/// Records a second of one thread.
fn full_speed(store: &Store, talk: Uuid) -> f64 {
    let (began, mut count) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(tiny::size(4, 1)) {
        store
            .record(message(talk, count, DAY_1 + count as i64))
            .unwrap();
        count += 1;
    }
    count as f64 / began.elapsed().as_secs_f64()
}
