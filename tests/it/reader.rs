//! Readers during heavy writing, while segments fill up and new ones start: complete lines only,
//! each once, in order. Through `decklog tail -f`, by following in this process, by paged queries,
//! and like `tail -F` and grep, which see only bytes.
//!
//! `DECKLOG_READER_LINES` sets the number of lines, `DECKLOG_READER_WRITERS` the number of writing
//! processes.

#![allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use decklog::query::{Cursor, TurnQuery};
use decklog::storage::Disk;
use decklog::{ConversationTurn, Event, HistoryEntry, Record, Role, Store, verify};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Kid, Rng, count, seq_of, turn};

const ENV_DIR: &str = "DECKLOG_READER_DIR";
const ENV_WRITER: &str = "DECKLOG_READER_WRITER";
const KINDS: u64 = 4;
const DAYS: i64 = 3;

fn lines_wanted() -> (u64, u64) {
    let writers = count("DECKLOG_READER_WRITERS", 3);
    let each = count("DECKLOG_READER_LINES", 20_000) / writers;
    (writers, each)
}

/// Number of turns per writer.
fn turns_of(each: u64) -> u64 {
    each.div_ceil(KINDS)
}

/// Record `number` of a writer. Times increase over several days.
fn nth_record(writer: u64, number: u64, each: u64) -> Record {
    let at = DAY_1 + (number as i64 * DAYS * (DAY_MS / 1000) / each as i64) * 1000 + 7;
    match number % KINDS {
        0 => ConversationTurn {
            thread_id: Some(Uuid::from_u128(writer.into())),
            ..turn(u128::from(writer) << 64 | u128::from(number), "said", at)
        }
        .into(),
        1 => with!(HistoryEntry::new(writer as i64, Role::User, "said"), created_at: at).into(),
        _ => with!(Event::new(None, "a.b"), created_at: at).into(),
    }
}

/// Does nothing unless the test below started it as a process: records its part, alone, in small
/// batches and in large ones.
#[test]
fn process_that_writes() {
    let (Ok(dir), Ok(writer)) = (std::env::var(ENV_DIR), std::env::var(ENV_WRITER)) else {
        return;
    };
    let writer: u64 = writer.parse().unwrap();
    let (_, each) = lines_wanted();
    let mut rng = Rng(writer);
    let segment_bytes = (each * 500 / 1_000).clamp(20_000, 4 << 20);
    let options = Store::options().segment_bytes_max(segment_bytes);
    let store = options.sidecar_bytes_min(u64::MAX).open(dir).unwrap();
    let mut next = 0;
    while next < each {
        let batch = *rng.pick(&[1, 1, 10, 100, 1_000]);
        let upto = (next + batch).min(each);
        let records: Vec<Record> = (next..upto)
            .map(|number| nth_record(writer, number, each))
            .collect();
        for answer in store.record_batch(records).unwrap() {
            answer.unwrap();
        }
        next = upto;
    }
}

/// `decklog tail -f` prints every line once and in order; returns the number of lines.
fn read_tail(kid: &mut Kid, lines: u64) {
    let stdout = BufReader::new(kid.0.stdout.take().unwrap());
    let mut expected = 1;
    for line in stdout.split(b'\n') {
        let line = line.unwrap();
        // The file is the first member, followed by the unchanged line.
        let text = std::str::from_utf8(&line).unwrap();
        let (_, rest) = text.split_once(',').unwrap();
        let seq = seq_of(format!("{{{rest}").as_bytes());
        assert_eq!(seq, Some(expected), "{text}");
        expected += 1;
        if expected > lines {
            return;
        }
    }
    panic!("tail ended before line {expected}");
}

/// A handle that follows.
fn read_by_following(store: &Store, lines: u64) {
    let mut follow = store.follow(0).unwrap();
    let mut expected = 1;
    while expected <= lines {
        let found = follow.next_lines(Duration::from_secs(600)).unwrap();
        assert!(!found.is_empty(), "line {expected} does not come");
        for line in found {
            assert_eq!(line.seq, expected);
            assert_eq!(
                seq_of(line.text.as_bytes()),
                Some(expected),
                "{}",
                line.text
            );
            expected += 1;
        }
    }
}

/// Reads a list page by page, for each writer's thread.
fn read_pages(store: &Store, writers: u64, each: u64) {
    let mut read: Vec<(u64, Option<Cursor>)> = vec![(0, None); writers as usize];
    while read.iter().any(|(known, _)| *known < turns_of(each)) {
        for (writer, (known, after)) in read.iter_mut().enumerate() {
            if *known == turns_of(each) {
                continue;
            }
            let query = TurnQuery {
                thread_id: Some(Uuid::from_u128(writer as u128)),
                after: *after,
                ..TurnQuery::default()
            };
            let page = store.turns(&query).unwrap();
            let is_last = *known + page.items.len() as u64 == turns_of(each);
            for (turn, number) in page.items.iter().zip(*known..) {
                let expected = (writer as u128) << 64 | u128::from(number * KINDS);
                assert_eq!(turn.id.as_u128(), expected);
            }
            // A partial page is requested again.
            if page.next.is_some() || is_last {
                *known += page.items.len() as u64;
                *after = page.next.or(*after);
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// The bytes of the files, as `tail -F` reads them: bytes up to an LF are a complete line.
struct Bytes {
    path: PathBuf,
    files: BTreeMap<PathBuf, (u64, Vec<u8>, u64)>,
    is_seen: Vec<bool>,
    seen: u64,
}

impl Bytes {
    fn new(path: &Path, lines: u64) -> Bytes {
        Bytes {
            path: path.to_owned(),
            files: BTreeMap::new(),
            is_seen: vec![false; lines as usize + 1],
            seen: 0,
        }
    }

    fn read_on(&mut self) {
        for day in fs::read_dir(&self.path).unwrap() {
            let day = day.unwrap().path();
            if !day
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("2025-")
            {
                continue;
            }
            for file in fs::read_dir(day).unwrap() {
                let path = file.unwrap().path();
                // Full segments are sealed meanwhile.
                if !path.ends_with("seals.jsonl") {
                    self.read_file(path);
                }
            }
        }
    }

    fn read_file(&mut self, name: PathBuf) {
        let (offset, rest, last) = self.files.entry(name.clone()).or_default();
        let mut file = File::open(&name).unwrap();
        file.seek(SeekFrom::Start(*offset)).unwrap();
        *offset += file.read_to_end(rest).unwrap() as u64;
        let mut start = 0;
        while let Some(len) = rest[start..].iter().position(|byte| *byte == b'\n') {
            let line = &rest[start..start + len];
            let text = || format!("{}: {}", name.display(), String::from_utf8_lossy(line));
            let seq = seq_of(line).unwrap_or_else(|| panic!("{}", text()));
            assert!(seq > *last, "{}", text());
            *last = seq;
            assert!(!self.is_seen[seq as usize], "twice: {}", text());
            self.is_seen[seq as usize] = true;
            self.seen += 1;
            start += len + 1;
        }
        rest.drain(..start);
    }
}

#[test]
fn readers_get_whole_lines_once_and_in_order_while_others_write() {
    let (writers, each) = lines_wanted();
    let lines = writers * each;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::options()
        .sidecar_bytes_min(u64::MAX)
        .open(&path)
        .unwrap();
    let tail = Command::new(env!("CARGO_BIN_EXE_decklog"))
        .args(["tail", "-f", "--json", "-n", &lines.to_string(), "--store"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn();
    let mut tail = Kid(tail.unwrap());
    let started = Instant::now();
    let start = |writer: u64| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "reader::process_that_writes", "--test-threads=1"]);
        command
            .env(ENV_DIR, &path)
            .env(ENV_WRITER, writer.to_string());
        Kid(command.stdout(Stdio::null()).spawn().unwrap())
    };
    let kids: Vec<Kid> = (0..writers).map(start).collect();
    let has_failed = AtomicBool::new(false);
    let (written, bytes) = std::thread::scope(|scope| {
        let wait = scope.spawn(|| {
            for mut kid in kids {
                let is_well = kid.0.wait().unwrap().success();
                has_failed.fetch_or(!is_well, Ordering::Relaxed);
            }
            assert!(!has_failed.load(Ordering::Relaxed), "a writer failed");
            started.elapsed()
        });
        let readers = [
            scope.spawn(|| read_tail(&mut tail, lines)),
            scope.spawn(|| read_by_following(&store, lines)),
            scope.spawn(|| read_pages(&store, writers, each)),
        ];
        let mut bytes = Bytes::new(&path, lines);
        while bytes.seen < lines
            && !readers.iter().any(|reader| {
                // A reader that ended early reports why.
                reader.is_finished() && has_failed.load(Ordering::Relaxed)
            })
        {
            bytes.read_on();
            std::thread::sleep(Duration::from_millis(1));
        }
        for reader in readers {
            reader.join().unwrap();
        }
        (wait.join().unwrap(), bytes)
    });
    let took = started.elapsed();
    assert_eq!(bytes.seen, lines);
    assert!(bytes.files.values().all(|(_, rest, _)| rest.is_empty()));
    let found = verify(&Disk::new(&path)).unwrap();
    assert!(found.is_clean() && found.good_lines == lines, "{found:?}");
    let rate = |took: Duration| lines as f64 / took.as_secs_f64();
    println!(
        "{writers} processes wrote {lines} lines ({} bytes, {} segments) in {written:.1?} ({:.0} lines/s); all readers had them after {took:.1?} ({:.0} lines/s)",
        found.bytes,
        found.segments,
        rate(written),
        rate(took),
    );
}
