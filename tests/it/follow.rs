//! A follower of a log gets every line, once and in order: also if the system's change
//! notifications are lost or unavailable, and if files are moved manually.
//!
//! `DECKLOG_FOLLOW_EVENTS` sets the number of records written while a follower is stopped; by
//! default slightly more than the system's queue of notifications holds.

#![allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use decklog::lines::Follow;
use decklog::storage::Disk;
use decklog::{Event, Record, Store};
use serde_json::Value;

use super::support::{DAY_1, DAY_1_NAME, DAY_MS, Kid, Spy, count, renumbered, still, turn};

/// Enough for the slowest machine. It only elapses if a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
const TURNS: &str = "2025-12-27/conversation_turns.0001.jsonl";

fn open(path: &Path) -> Store {
    Store::open(path).unwrap()
}

fn record(store: &Store, id: u128) -> u64 {
    store
        .record(turn(id, "said", DAY_1 + id as i64))
        .unwrap()
        .seq
}

/// `decklog tail -f`, and its output line by line.
struct Tail {
    kid: Kid,
    lines: Receiver<String>,
}

impl Tail {
    fn start(mut command: Command, path: &Path) -> Tail {
        command.args(["tail", "-f", "-n", "1", "--json", "--store"]);
        command.arg(path).stdout(Stdio::piped());
        let mut kid = Kid(command.spawn().unwrap());
        let stdout = BufReader::new(kid.0.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut read = stdout.lines().map_while(Result::ok);
            read.all(|line| sender.send(line).is_ok())
        });
        Tail { kid, lines }
    }

    fn decklog(path: &Path) -> Tail {
        Tail::start(Command::new(env!("CARGO_BIN_EXE_decklog")), path)
    }

    fn next_seq(&self) -> u64 {
        let line = self
            .lines
            .recv_timeout(PATIENCE)
            .expect("a line is missing");
        let line: Value = serde_json::from_str(&line).unwrap();
        line["seq"].as_u64().unwrap()
    }
}

/// The next lines of a follower up to this number, all in order.
fn upto(follow: &mut Follow, last: u64) -> Vec<u64> {
    let started = Instant::now();
    let mut seqs = Vec::new();
    while seqs.last() != Some(&last) {
        assert!(
            started.elapsed() < PATIENCE,
            "{last} does not come: {seqs:?}"
        );
        let lines = follow.next_lines(Duration::from_secs(5)).unwrap();
        seqs.extend(lines.iter().map(|line| line.seq));
    }
    seqs
}

/// No further lines arrive.
fn assert_quiet(follow: &mut Follow) {
    let lines = follow.next_lines(Duration::from_millis(20)).unwrap();
    assert!(lines.is_empty(), "{lines:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_follower_that_was_stopped_while_the_queue_of_notices_overflowed_misses_nothing() {
    let kept = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let kept: u64 = kept.trim().parse().unwrap();
    let events = count("DECKLOG_FOLLOW_EVENTS", kept + 600);
    assert!(events > kept, "so many are kept: {kept}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    // A whole day to be copied in manually, which HEAD does not know.
    let other = open(&dir.path().join("other"));
    record(&other, 1);
    let line = fs::read_to_string(other.path().join(TURNS)).unwrap();
    drop(other);

    let store = open(&path);
    let other_day = DAY_1 + DAY_MS;
    store.record(turn(1, "one", other_day)).unwrap();
    store.record(Event::new(None, "a.b")).unwrap();
    let tail = Tail::decklog(&path);
    assert_eq!(tail.next_seq(), 2);
    tail.kid.signal("STOP");
    let mut last = 2;
    for id in 2..2 + events / 2 {
        // Consecutive notifications for the same file would be merged.
        for record in [
            Record::from(turn(id.into(), "", other_day)),
            Record::from(Event::new(None, "a.b")),
        ] {
            last = store.record(record).unwrap().seq;
        }
    }
    drop(store);
    let day = dir.path().join("day");
    fs::create_dir(&day).unwrap();
    last += 1;
    fs::write(
        day.join("conversation_turns.0001.jsonl"),
        renumbered(&line, last),
    )
    .unwrap();
    fs::rename(day, path.join(DAY_1_NAME)).unwrap();
    tail.kid.signal("CONT");
    for expected in 3..=last {
        assert_eq!(tail.next_seq(), expected);
    }
    // It continues with new lines.
    assert_eq!(record(&open(&path), 1 << 40), last + 1);
    assert_eq!(tail.next_seq(), last + 1);
    assert!(tail.lines.try_recv().is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_follower_for_which_the_system_has_no_notices_looks_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = open(&path);
    record(&store, 1);
    // In a separate user namespace, so that the limit affects no other process.
    let none = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"";
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["-U", "-r", "sh", "-c", none, "sh"]);
        command
    };
    let can = unshare().arg("true").stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        println!("not run: no user namespace with a limit of its own (unshare -Ur)");
        return;
    }
    let mut command = unshare();
    command.arg(env!("CARGO_BIN_EXE_decklog"));
    let tail = Tail::start(command, &path);
    assert_eq!(tail.next_seq(), 1);
    let watches = watches_of(tail.kid.0.id());
    assert_eq!(watches, 0, "it was to have none");
    for id in 2..5 {
        record(&store, id);
        assert_eq!(tail.next_seq(), id as u64);
    }
    let next_day = turn(5, "", DAY_1 + DAY_MS);
    store.record(next_day).unwrap();
    assert_eq!(tail.next_seq(), 5);
    // A line added manually, which HEAD does not know.
    let text = fs::read_to_string(path.join(TURNS)).unwrap();
    let line = text.lines().next().unwrap();
    let name = path.join("2025-12-27/conversation_turns.0002.jsonl");
    fs::write(name, renumbered(line, 6)).unwrap();
    assert_eq!(tail.next_seq(), 6);
}

/// Number of files and directories that a process watches.
#[cfg(target_os = "linux")]
fn watches_of(pid: u32) -> usize {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let texts = infos.filter_map(|info| fs::read_to_string(info.ok()?.path()).ok());
    let count = |text: String| {
        let lines = text.lines();
        lines.filter(|line| line.starts_with("inotify ")).count()
    };
    texts.map(count).sum()
}

/// Bug: everything behind a link in the store's directory was watched, even a whole disk.
#[cfg(target_os = "linux")]
#[test]
fn only_the_store_s_own_directories_are_watched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    for nth in 0..300 {
        fs::create_dir_all(dir.path().join(format!("elsewhere/{nth}"))).unwrap();
    }
    let store = open(&path);
    record(&store, 1);
    std::os::unix::fs::symlink(dir.path().join("elsewhere"), path.join("link")).unwrap();
    std::os::unix::fs::symlink(&path, path.join("loop")).unwrap();
    let tail = Tail::decklog(&path);
    assert_eq!(tail.next_seq(), 1);
    record(&store, 2);
    assert_eq!(tail.next_seq(), 2);
    assert!(watches_of(tail.kid.0.id()) <= 4);
}

#[test]
fn the_store_is_moved_away_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("log"), dir.path().join("away"));
    let store = open(&path);
    record(&store, 1);
    let reader = open(&path);
    let mut follow = reader.follow(0).unwrap();
    assert_eq!(upto(&mut follow, 1), [1]);
    record(&store, 2);
    fs::rename(&path, &away).unwrap();
    let started = Instant::now();
    let err = loop {
        // Lines read before may still be returned.
        match follow.next_lines(Duration::from_millis(100)) {
            Ok(lines) => assert!(lines.is_empty() || lines[0].seq == 2),
            Err(e) => break e,
        }
        assert!(started.elapsed() < PATIENCE);
    };
    assert!(err.to_string().contains("log"), "{err}");
    // A handle looks at the path when it takes the lock, which it keeps for some milliseconds.
    std::thread::sleep(Duration::from_millis(50));
    assert!(store.record(turn(9, "", DAY_1)).is_err());
    assert!(!path.exists());
    fs::rename(&away, &path).unwrap();
    let store = open(&path);
    record(&store, 3);
    let seqs = upto(&mut follow, 3);
    assert!(seqs == [2, 3] || seqs == [3], "{seqs:?}");
    assert_quiet(&mut follow);
    // A new directory under the same name is followed too.
    fs::rename(&path, &away).unwrap();
    let store = open(&path);
    record(&store, 1);
    let _ = follow.next_lines(Duration::from_millis(100));
    for id in 4..9 {
        record(&store, id);
    }
    let seqs = upto(&mut follow, 6);
    assert!(seqs.is_sorted(), "{seqs:?}");
}

/// Bugs: after a segment was truncated, the next line appended to it was never returned. Lines read
/// before an error were lost with it.
#[test]
fn segments_are_cut_moved_replaced_and_copied_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = open(&path);
    let reader = open(&path);
    for id in 1..=3 {
        record(&store, id);
    }
    let mut follow = reader.follow(0).unwrap();
    assert_eq!(upto(&mut follow, 3), [1, 2, 3]);
    let segment = path.join(TURNS);
    let line = fs::read_to_string(&segment).unwrap();
    let line = line.lines().next().unwrap().to_owned();
    // As logrotate's copytruncate does. The new lines are as long as the old ones.
    for id in 4..=6 {
        fs::File::options()
            .write(true)
            .open(&segment)
            .unwrap()
            .set_len(0)
            .unwrap();
        assert_eq!(record(&store, id), id as u64, "no number is given twice");
        assert_eq!(upto(&mut follow, id as u64), [id as u64]);
        assert!(
            reader
                .get_turn(uuid::Uuid::from_u128(id))
                .unwrap()
                .is_some()
        );
    }
    // Replaced by another file with the same lines.
    let text = fs::read(&segment).unwrap();
    fs::write(path.join("new"), text).unwrap();
    fs::rename(path.join("new"), &segment).unwrap();
    record(&store, 7);
    assert_eq!(upto(&mut follow, 7), [7]);
    // Moved away, noticed, and moved back.
    fs::rename(path.join(DAY_1_NAME), path.join("away")).unwrap();
    reader.refresh().unwrap();
    assert_quiet(&mut follow);
    fs::rename(path.join("away"), path.join(DAY_1_NAME)).unwrap();
    reader.refresh().unwrap();
    assert_quiet(&mut follow);
    record(&store, 8);
    assert_eq!(upto(&mut follow, 8), [8]);
    // A day copied in from elsewhere, which only its files reveal.
    fs::create_dir(path.join("2025-12-20")).unwrap();
    let copied = path.join("2025-12-20/conversation_turns.0001.jsonl");
    fs::write(copied, renumbered(&line, 9)).unwrap();
    assert_eq!(upto(&mut follow, 9), [9]);
    // Everything is removed; the log starts again.
    drop(store);
    for day in [DAY_1_NAME, "2025-12-20"] {
        fs::remove_dir_all(path.join(day)).unwrap();
    }
    reader.refresh().unwrap();
    assert_quiet(&mut follow);
    let first = record(&open(&path), 10);
    assert_eq!(upto(&mut follow, first), [first]);
}

/// Bug: a check of the files during a batch that spans several of them saw a later line but not an
/// earlier one, which was then never returned.
#[test]
fn a_look_in_the_middle_of_a_batch_leaves_no_line_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let days = [0, 1, 2].map(|nth| DAY_1 + nth * DAY_MS);
    let first = open(&path);
    for (id, at) in (1..).zip(days) {
        first.record(turn(id, "", at)).unwrap();
    }
    drop(first);
    let spies = [(), ()].map(|()| Spy::new(Disk::new(&path)));
    let [store, reader] = spies.each_ref().map(|spy| {
        let options = still().storage(Arc::new(spy.clone()));
        options.open(&path).unwrap()
    });
    let mut follow = reader.follow(3).unwrap();
    // 1: the batch is about to be written. 2: a check has started, and has read the first file. 3:
    // two of the three lines are written. 4: the check is finished.
    let phase = Arc::new(AtomicUsize::new(0));
    let reach = |to: usize| {
        let phase = Arc::clone(&phase);
        move || _ = phase.fetch_max(to, Ordering::SeqCst)
    };
    let await_phase = |to: usize| {
        let phase = Arc::clone(&phase);
        move || {
            let started = Instant::now();
            while phase.load(Ordering::SeqCst) < to {
                assert!(started.elapsed() < PATIENCE, "phase {to} does not come");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let names = ["2025-12-27", "2025-12-28", "2025-12-29"];
    let (is_begun, is_looked_at, is_half) = (reach(1), await_phase(2), reach(3));
    let is_over = await_phase(4);
    spies[0].hook(move |operation, path| {
        if operation == "append" && path.starts_with(names[0]) {
            is_begun();
            is_looked_at();
        } else if operation == "append" && path.starts_with(names[2]) {
            is_half();
            is_over();
        }
        Ok(())
    });
    let (looks, is_half) = (reach(2), await_phase(3));
    spies[1].hook(move |operation, path| {
        if operation == "stat" && path.starts_with(names[1]) {
            looks();
            is_half();
        }
        Ok(())
    });
    std::thread::scope(|scope| {
        let batch = (4..).zip(days).map(|(id, at)| turn(id, "", at).into());
        let batch: Vec<Record> = batch.collect();
        let written = scope.spawn(|| store.record_batch(batch).unwrap());
        await_phase(1)();
        reader.refresh().unwrap();
        let mut seqs: Vec<u64> = Vec::new();
        let lines = follow.next_lines(Duration::ZERO).unwrap();
        seqs.extend(lines.iter().map(|line| line.seq));
        reach(4)();
        assert!(written.join().unwrap().iter().all(Result::is_ok));
        if seqs.last() != Some(&6) {
            seqs.extend(upto(&mut follow, 6));
        }
        assert_eq!(seqs, [4, 5, 6]);
    });
}

#[test]
fn batches_over_many_files_come_in_order() {
    let rounds = count("DECKLOG_FOLLOW_BATCHES", 60);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let reader = open(&path);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut looks = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                reader.refresh().unwrap();
                looks += 1;
            }
            looks
        });
        let follows = scope.spawn(|| {
            let mut follow = reader.follow(0).unwrap();
            let mut seqs = Vec::new();
            let started = Instant::now();
            while seqs.len() < 160 * rounds as usize && started.elapsed() < PATIENCE {
                let lines = follow.next_lines(Duration::from_millis(50)).unwrap();
                seqs.extend(lines.iter().map(|line| line.seq));
            }
            is_over.store(true, Ordering::Relaxed);
            seqs
        });
        for round in 0..rounds {
            let batch = (0..160).map(|nth| {
                let at = DAY_1 + (nth % 8) as i64 * DAY_MS;
                turn(u128::from(round * 160 + nth + 1), "", at).into()
            });
            for answer in store.record_batch(batch.collect::<Vec<Record>>()).unwrap() {
                answer.unwrap();
            }
        }
        let seqs = follows.join().unwrap();
        assert_eq!(seqs, (1..=160 * rounds).collect::<Vec<u64>>());
        println!(
            "{rounds} batches, {} looks meanwhile",
            looks.join().unwrap()
        );
    });
}

/// Bug: lines read before a failed check of a new day's directory were never returned.
#[test]
fn a_failure_after_lines_were_read_loses_none_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    store.record(turn(1, "", DAY_1)).unwrap();
    let spy = Spy::new(Disk::new(&path));
    let reader = still().storage(Arc::new(spy.clone())).open(&path).unwrap();
    let mut follow = reader.follow(1).unwrap();
    store.record(turn(2, "", DAY_1 + DAY_MS)).unwrap();
    let has_read = AtomicBool::new(false);
    spy.hook(move |operation, path| {
        if operation == "read_at" && path.starts_with("2025-12-28") {
            has_read.store(true, Ordering::SeqCst);
            // Longer than the interval between checks of HEAD.
            std::thread::sleep(Duration::from_millis(2));
        }
        // The first check of HEAD's name is before its lines are read.
        let is_after = has_read.load(Ordering::SeqCst) && path == "HEAD";
        if is_after {
            Err(std::io::Error::from_raw_os_error(5))
        } else {
            Ok(())
        }
    });
    assert!(follow.next_lines(Duration::ZERO).is_err());
    spy.unhook();
    assert_eq!(upto(&mut follow, 2), [2]);
}

/// Bug: a segment to which invalid bytes were added was taken for the latest one, and the last
/// lines in other segments were not found.
#[test]
fn the_last_lines_are_found_whatever_was_added_to_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let days = [(0, 1..=5), (2, 6..=9), (1, 10..=19)];
    for (day, ids) in days {
        for id in ids {
            store.record(turn(id, "", DAY_1 + day * DAY_MS)).unwrap();
        }
    }
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(path.join(TURNS))
        .unwrap();
    std::io::Write::write_all(&mut file, b"no line\n").unwrap();
    store.refresh().unwrap();
    store.record(turn(20, "", DAY_1 + 2 * DAY_MS)).unwrap();
    let last = store.last_lines(5).unwrap();
    let seqs: Vec<u64> = last.iter().map(|line| line.seq).collect();
    assert_eq!(seqs, [16, 17, 18, 19, 20]);
}

/// Bug: while the segment with the last lines was unreadable, they seemed to be removed, and were
/// returned again afterwards.
#[test]
fn a_segment_that_cannot_be_read_for_a_while_is_not_handed_out_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    for id in 1..=4 {
        let at = DAY_1 + i64::from(id > 2) * DAY_MS;
        store.record(turn(id, "", at)).unwrap();
    }
    let spy = Spy::new(Disk::new(&path));
    let reader = still().storage(Arc::new(spy.clone())).open(&path).unwrap();
    let mut follow = reader.follow(0).unwrap();
    assert_eq!(upto(&mut follow, 4), [1, 2, 3, 4]);
    spy.hook(|operation, path| {
        let is_bad = operation == "open" && path.starts_with("2025-12-28");
        if is_bad {
            Err(std::io::Error::from_raw_os_error(5))
        } else {
            Ok(())
        }
    });
    let first = path.join(TURNS);
    let copy = path.join("copy");
    fs::copy(&first, &copy).unwrap();
    fs::rename(&copy, &first).unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.health().unwrap().damage.unreadable, 1);
    let lines = follow.next_lines(Duration::ZERO).unwrap();
    assert_eq!(lines, []);
    spy.unhook();
    reader.refresh().unwrap();
    store.record(turn(5, "", DAY_1 + DAY_MS)).unwrap();
    assert_eq!(upto(&mut follow, 5), [5]);
}

/// Bugs: a check during a batch skipped lines that it had read if the last bytes it read of their
/// file were only the start of a line. Or everything was read again after it.
#[test]
fn a_look_that_is_bounded_leaves_nothing_out_and_nothing_is_read_again_after_it() {
    for has_more in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let first = still().open(&path).unwrap();
        first.record(turn(1, "", DAY_1)).unwrap();
        first
            .record(with!(Event::new(None, "a.b"), created_at: DAY_1))
            .unwrap();
        first.record(turn(2, "", DAY_1 + DAY_MS)).unwrap();
        drop(first);
        let spies = [(), ()].map(|()| Spy::new(Disk::new(&path)));
        let [store, reader] = spies.each_ref().map(|spy| {
            let options = still().storage(Arc::new(spy.clone()));
            options.open(&path).unwrap()
        });
        // Read at each check, after the file of the first day.
        let torn = path.join("2025-12-28/conversation_turns.0001.jsonl");
        let mut file = fs::OpenOptions::new().append(true).open(torn).unwrap();
        std::io::Write::write_all(&mut file, b"{").unwrap();
        store.record(turn(3, "", DAY_1)).unwrap();
        // Number of writes of the batch that are allowed, and that have started.
        let (allowed, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let wait = |what: &AtomicUsize, to: usize| {
            let started = Instant::now();
            while what.load(Ordering::SeqCst) < to {
                assert!(started.elapsed() < PATIENCE, "{to} does not come");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let (may, comes) = (Arc::clone(&allowed), Arc::clone(&begun));
        spies[0].hook(move |operation, path| {
            if operation == "append" && path == TURNS {
                let piece = comes.fetch_add(1, Ordering::SeqCst) + 1;
                wait(&may, piece);
            }
            Ok(())
        });
        let is_over = Arc::new(AtomicUsize::new(0));
        let (may, comes, over) = (
            Arc::clone(&allowed),
            Arc::clone(&begun),
            Arc::clone(&is_over),
        );
        let (looks, opened) = (AtomicUsize::new(0), AtomicUsize::new(0));
        spies[1].hook(move |operation, path| {
            if operation == "stat" && path == TURNS {
                let look = looks.fetch_add(1, Ordering::SeqCst) + 1;
                opened.store(0, Ordering::SeqCst);
                let pieces = if has_more { look } else { look.min(2) };
                may.fetch_max(pieces, Ordering::SeqCst);
                if look <= 3 {
                    wait(&comes, pieces + 1);
                }
            }
            if operation == "open" && path.starts_with("2025-12-28") {
                let nth = opened.fetch_add(1, Ordering::SeqCst) + 1;
                // The first file was read in this check.
                if looks.load(Ordering::SeqCst) == 3 && nth == 2 {
                    may.store(usize::MAX, Ordering::SeqCst);
                    wait(&over, 1);
                }
            }
            Ok(())
        });
        std::thread::scope(|scope| {
            let text = "x".repeat(5_000);
            let batch: Vec<Record> = (4..=104).map(|id| turn(id, &text, DAY_1).into()).collect();
            let written = scope.spawn(|| {
                let written = store.record_batch(batch).unwrap();
                is_over.store(1, Ordering::SeqCst);
                written
            });
            wait(&begun, 1);
            reader.refresh().unwrap();
            allowed.store(usize::MAX, Ordering::SeqCst);
            assert!(written.join().unwrap().iter().all(Result::is_ok));
        });
        spies[1].unhook();
        let before = spies[1].events().len();
        let query = decklog::query::TurnQuery {
            limit: 1_000,
            ..decklog::query::TurnQuery::default()
        };
        let ids: Vec<u128> = reader
            .turns(&query)
            .unwrap()
            .items
            .iter()
            .map(|turn| turn.id.as_u128())
            .collect();
        assert_eq!(ids.len(), 104, "{has_more}: {ids:?}");
        let events = spies[1].events();
        let mut again = events[before..]
            .iter()
            .filter(|event| event.path.contains("/events."));
        assert_eq!(again.next(), None, "{has_more}");
    }
}
