//! How long an append is held up while another process compacts, retains or erases: each append
//! timed by itself, with records of 1 KB, while every segment of the store is rewritten.
//!
//! `cargo bench --bench upkeep_stalls`; `DECKLOG_STALL_MB` says how large the store is.

mod tiny;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use decklog::retention::{CompactOptions, RetainOptions};
use decklog::{ConversationTurn, Record, Store, TurnKind, Validity};
use uuid::Uuid;

const DAY_MS: i64 = 86_400_000;
const DAYS: u32 = 6;
const TODAY: i64 = 20_400;

fn main() -> decklog::Result<()> {
    let mut args = std::env::args().skip(1);
    if let (Some("rewrite"), Some(what), Some(dir)) =
        (args.next().as_deref(), args.next(), args.next())
    {
        return rewrite(Path::new(&dir), &what);
    }
    let dir = std::env::temp_dir().join(format!("decklog-stalls-{}", Uuid::new_v4()));
    let measured = measure(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    measured
}

fn turn(id: u128, day: i64) -> Record {
    ConversationTurn {
        id: Uuid::from_u128(id),
        parent_id: None,
        message_id: Uuid::from_u128(id ^ 1 << 100),
        kind: TurnKind::User,
        content: "x".repeat(800),
        created_at: Validity::at(day * DAY_MS),
        thread_id: Some(Uuid::from_u128(id % 100)),
    }
    .into()
}

fn measure(dir: &Path) -> decklog::Result<()> {
    let usual = tiny::size(512, 1);
    let megabytes: u128 =
        std::env::var("DECKLOG_STALL_MB").map_or(usual, |text| text.parse().unwrap_or(usual));
    let records = megabytes * 1_000 / u128::from(DAYS);
    let store = Store::open(dir)?;
    for day in 0..DAYS {
        let first = u128::from(day) * records;
        let day = TODAY - i64::from(DAYS - day);
        let mut batch = Vec::new();
        for id in first..first + records {
            batch.push(turn(id, day));
            // One in ten is said twice.
            if id % 10 == 0 {
                batch.push(turn(id, day));
                if let Some(Record::Turn(again)) = batch.last_mut() {
                    again.content.push('!');
                }
            }
            if batch.len() >= 1_000 {
                for answer in store.record_batch(std::mem::take(&mut batch))? {
                    answer?;
                }
            }
        }
        for answer in store.record_batch(batch)? {
            answer?;
        }
    }
    store.sync()?;
    let mut next = u128::from(u64::MAX);
    println!(
        "{:<24} {:>9} {:>9} {:>9} {:>9}",
        "ms an append", "median", "p99", "p99.9", "max"
    );
    let mut report = |name: &str, until: &mut dyn FnMut() -> bool| -> decklog::Result<()> {
        let mut times = Vec::new();
        while until() {
            next += 1;
            let record = turn(next, TODAY);
            let begun = Instant::now();
            store.record(record)?;
            times.push(begun.elapsed());
            std::thread::sleep(Duration::from_micros(200));
        }
        times.sort_unstable();
        let at =
            |thousandths: usize| times[(times.len() - 1) * thousandths / 1_000].as_secs_f64() * 1e3;
        println!(
            "{name:<24} {:>9.3} {:>9.3} {:>9.3} {:>9.3}   of {}",
            at(500),
            at(990),
            at(999),
            at(1_000),
            times.len()
        );
        Ok(())
    };
    let begun = Instant::now();
    let alone = Duration::from_millis(tiny::size(5_000, 100));
    report("alone", &mut || begun.elapsed() < alone)?;
    for what in ["compact", "retain"] {
        let mut child = Command::new(std::env::current_exe().unwrap_or_default())
            .args(["rewrite", what])
            .arg(dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start the process that rewrites: {e}"));
        report(what, &mut || {
            child.try_wait().is_ok_and(|ended| ended.is_none())
        })?;
        let output = child.wait_with_output().map(|output| output.stdout);
        print!("{}", String::from_utf8_lossy(&output.unwrap_or_default()));
    }
    Ok(())
}

/// What the other process does.
fn rewrite(dir: &Path, what: &str) -> decklog::Result<()> {
    let store = Store::open(dir)?;
    let begun = Instant::now();
    let lines: u64 = if what == "compact" {
        let options = CompactOptions {
            now: (TODAY + 30) * DAY_MS,
            ..CompactOptions::default()
        };
        store
            .compact(options)?
            .parts
            .iter()
            .map(|part| part.lines)
            .sum()
    } else {
        let options = RetainOptions {
            now: (TODAY + 88) * DAY_MS,
            ..RetainOptions::default()
        };
        store
            .retain(options)?
            .parts
            .iter()
            .map(|part| part.lines)
            .sum()
    };
    println!(
        "  {lines} lines went, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}
