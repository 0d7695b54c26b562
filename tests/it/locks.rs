//! The write lock and holders that do not release it: a stopped process that holds the lock is
//! named to the waiting ones, which can still read. A killed process releases it at once, and its
//! child processes do not inherit it. Waiting ends at the timeout. A process that writes
//! continuously, or stops writing, lets others write.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use decklog::query::TurnQuery;
use decklog::storage::Disk;
use decklog::{ErrorKind, Store, Validity, verify};
use rustix::process::{Pid, Signal, kill_process};

use super::crash::{Heard, Levels, Tally, Task, Worker, assert_seen, compare, fact};
use super::support::{DAY_1, Rng, Spy, all_lines, turn};

/// The lock of a store, taken without decklog.
fn locked(store: &Path) -> std::fs::File {
    let lock = std::fs::File::options()
        .append(true)
        .open(store.join("LOCK"))
        .unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn a_lock_that_is_held_is_given_up_on_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    Store::open(&path)
        .unwrap()
        .record(turn(1, "one", DAY_1))
        .unwrap();
    // HEAD in the state that a process leaves while it writes.
    let mut head = std::fs::read(path.join("HEAD")).unwrap();
    head[24..32].copy_from_slice(&4242u64.to_le_bytes());
    std::fs::write(path.join("HEAD"), head).unwrap();

    let lock = locked(&path);
    let timeout = Duration::from_millis(100);
    let store = Store::options().lock_timeout(timeout).open(&path).unwrap();
    let started = Instant::now();
    let err = store.record(turn(2, "two", DAY_1)).unwrap_err();
    let took = started.elapsed();
    assert_eq!(err.kind(), ErrorKind::Locked);
    assert!(err.to_string().contains("process 4242"), "{err}");
    assert!(err.path().unwrap().ends_with("LOCK"));
    assert!(
        took >= timeout && took < timeout + Duration::from_secs(5),
        "{took:?}"
    );
    // Reads need no lock, and a batch is refused as a whole.
    assert_eq!(store.turns(&TurnQuery::default()).unwrap().items.len(), 1);
    assert_eq!(store.repair().unwrap_err().kind(), ErrorKind::Locked);

    lock.unlock().unwrap();
    let mut taken_back = turn(1, "one", DAY_1);
    taken_back.created_at = Validity::retracted(DAY_1 + 1);
    assert_eq!(store.record(taken_back).unwrap().seq, 2);
}

/// The holder and the process that had waited longest were killed. `HEAD` still names both.
#[test]
fn those_that_died_while_they_held_or_wanted_the_lock_delay_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    store.record(turn(1, "one", DAY_1)).unwrap();
    drop(store);
    let word = |nth: usize| nth * 8..nth * 8 + 8;
    let mut head = std::fs::read(path.join("HEAD")).unwrap();
    head[word(3)].copy_from_slice(&4242u64.to_le_bytes());
    head[word(5)].copy_from_slice(&1u64.to_le_bytes());
    std::fs::write(path.join("HEAD"), head).unwrap();

    let lock = locked(&path);
    let timeout = Duration::from_secs(60);
    let store = Store::options().lock_timeout(timeout).open(&path).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.record(turn(2, "two", DAY_1)).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        let freed = Instant::now();
        lock.unlock().unwrap();
        assert_eq!(waiting.join().unwrap().seq, 2);
        let took = freed.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
    let head = std::fs::read(path.join("HEAD")).unwrap();
    assert_eq!(head[word(5)], [0; 8], "nobody waits");
}

/// Bug: after a process had yielded the lock, it did not clear the waiters' request flag, took it
/// for a new request, and did not yield: the others waited until their timeout.
#[test]
fn who_writes_without_a_pause_lets_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let hot = Store::open(dir.path()).unwrap();
    let timeout = Duration::from_secs(3);
    let other = Store::options()
        .lock_timeout(timeout)
        .open(dir.path())
        .unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut id = 1 << 64;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                id += 1;
                hot.record(turn(id, "hot", DAY_1)).unwrap();
            }
        });
        let recorded: Vec<_> = (1..=20)
            .map(|id| {
                std::thread::sleep(Duration::from_millis(5));
                other.record(turn(id, "now and then", DAY_1))
            })
            .collect();
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        for answer in recorded {
            answer.unwrap();
        }
    });
}

/// Bug: a process whose transactions took longer than a millisecond each, for instance on a busy
/// CPU, released the lock after each and took it again at once, before a waiting process could wake
/// up.
#[test]
fn who_writes_slowly_without_a_pause_lets_others_write() {
    const RECORDS: u128 = 20;
    let dir = tempfile::tempdir().unwrap();
    let spy = Spy::new(Disk::new(dir.path()));
    let hot = Store::options()
        .storage(Arc::new(spy.clone()))
        .open(dir.path())
        .unwrap();
    spy.hook(|operation, _| {
        if operation == "append" {
            std::thread::sleep(Duration::from_micros(1_500));
        }
        Ok(())
    });
    let other = Store::open(dir.path()).unwrap();
    let (is_done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let waits: Vec<u64> = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut id = 1 << 64;
            while !is_done.load(Ordering::Relaxed) {
                id += 1;
                hot.record(turn(id, "hot", DAY_1)).unwrap();
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        let waits = (1..=RECORDS).map(|id| {
            std::thread::sleep(Duration::from_millis(5));
            let before = written.load(Ordering::Relaxed);
            let answer = other.record(turn(id, "now and then", DAY_1));
            (answer, written.load(Ordering::Relaxed) - before)
        });
        let waits: Vec<_> = waits.collect();
        is_done.store(true, Ordering::Relaxed);
        waits
            .into_iter()
            .map(|(answer, wait)| answer.map(|_| wait).unwrap())
            .collect()
    });
    let sum: u64 = waits.iter().sum();
    // Both processes need time slices, which bounds the count. Without yielding there is no bound.
    assert!(
        sum < 100 * waits.len() as u64,
        "the other one wrote so often meanwhile: {waits:?}"
    );
}

/// Bug: the thread that releases an idle lock also did the syncing. While that took long, on a slow
/// disk, no one else could write.
#[test]
fn a_slow_disk_does_not_keep_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let spy = Spy::new(Disk::new(dir.path()));
    let writer = Store::options()
        .flush_interval(Duration::from_millis(1))
        .storage(Arc::new(spy.clone()))
        .open(dir.path())
        .unwrap();
    let (syncs, is_syncing) = mpsc::channel();
    let is_slow = Arc::new(AtomicBool::new(true));
    let still_slow = Arc::clone(&is_slow);
    spy.hook(move |operation, _| {
        if operation == "sync" {
            let _ = syncs.send(());
        }
        while operation == "sync" && still_slow.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    writer.record(turn(1, "", DAY_1)).unwrap();
    is_syncing.recv().unwrap();
    // In quick succession, so that the lock is kept between them.
    for id in 2..200 {
        writer.record(turn(id, "", DAY_1)).unwrap();
    }
    let other = Store::options().lock_timeout(Duration::from_secs(3));
    let answer = other
        .open(dir.path())
        .unwrap()
        .record(turn(1000, "", DAY_1));
    is_slow.store(false, Ordering::Relaxed);
    assert_eq!(answer.unwrap().seq, 200);
}

// Stopped and killed processes.

/// Whether a process holds the lock, according to HEAD.
fn is_held_by(store: &Path, pid: u32) -> bool {
    let lock = std::fs::File::open(store.join("LOCK"));
    let is_free = lock.is_ok_and(|lock| lock.try_lock().is_ok());
    let head = std::fs::read(store.join("HEAD")).unwrap_or_default();
    let holder = head.get(24..32).map(|word| word.try_into().unwrap());
    !is_free && holder.map(u64::from_le_bytes) == Some(pid.into())
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Whether all threads of a process are in this state.
fn is_all(pid: u32, state: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")));
    stats.into_iter().all(|stat| {
        let stat = stat.unwrap_or_default();
        let rest = stat.rsplit_once(") ");
        rest.is_some_and(|(_, rest)| rest.starts_with(state))
    })
}

/// Stops a writing process while it holds the lock.
fn stop_while_it_holds(store: &Path, pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < deadline, "{pid} never has the lock");
        signal(pid, Signal::STOP);
        while !is_all(pid, "T") {
            assert!(Instant::now() < deadline, "{pid} does not stop");
            std::thread::yield_now();
        }
        if is_held_by(store, pid) {
            return;
        }
        signal(pid, Signal::CONT);
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Adds all acknowledgements reported so far.
fn hear(acks: &mpsc::Receiver<Heard>, tally: &mut Tally) {
    for heard in acks.try_iter() {
        tally.hear(heard);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_stopped_holder_is_named_and_a_killed_one_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut rng = Rng::seeded("stopped holder");
    let options = || Store::options().sidecar_bytes_min(u64::MAX);
    let store = options().open(&path).unwrap();
    let mut tally = Tally::default();
    let (mut own, mut waits) = (0, Vec::new());
    let mut write = |store: &Store, tally: &mut Tally| {
        let ack = store.record(fact(9, own)).unwrap();
        tally.hear(Heard {
            writer: 9,
            number: own,
            seq: ack.seq,
            level: decklog::Durability::Process,
        });
        own += 1;
    };
    for round in 1..=2 {
        let mut worker = Worker::start(
            &path,
            Task {
                writer: round * 16,
                levels: Levels::Process,
                seed: rng.next(),
                may_end: false,
                again: None,
            },
        );
        let pid = worker.id();
        let (sender, acks) = mpsc::channel();
        let heard = worker.acks();
        std::thread::scope(|scope| {
            scope.spawn(move || heard.for_each(|one| _ = sender.send(one)));
            // If a step below fails, the process and its listener must end.
            let mut worker = worker;
            // It has started to write.
            tally.hear(acks.recv_timeout(Duration::from_secs(60)).unwrap());
            for _ in 0..2 {
                stop_while_it_holds(&path, pid);
                let timeout = Duration::from_millis(100);
                let waiting = options().lock_timeout(timeout).open(&path).unwrap();
                let started = Instant::now();
                let err = waiting.record(turn(1, "", DAY_1)).unwrap_err();
                assert!(started.elapsed() >= timeout);
                assert_eq!(err.kind(), ErrorKind::Locked);
                assert!(
                    err.to_string().contains(&format!("process {pid},")),
                    "it is {pid}: {err}"
                );
                // Reading takes no lock.
                hear(&acks, &mut tally);
                for store in [&store, &waiting] {
                    for (writer, number) in tally.heard.keys() {
                        assert_seen(store, *writer, *number);
                    }
                }
                assert_eq!(compare(&all_lines(&waiting), &tally).lost, []);
                signal(pid, Signal::CONT);
                write(&store, &mut tally);
                write(&waiting, &mut tally);
            }
            stop_while_it_holds(&path, pid);
            // Opened earlier, so that only the wait is measured.
            store.refresh().unwrap();
            worker.kill();
            let started = Instant::now();
            write(&store, &mut tally);
            waits.push(started.elapsed());
            drop(worker);
        });
        for heard in acks {
            tally.hear(heard);
        }
    }
    // 25 ms of it is the check whether the process in HEAD is still alive.
    assert!(
        waits.iter().all(|wait| *wait < Duration::from_secs(2)),
        "{waits:?}"
    );
    println!("free after {waits:?}");
    let findings = compare(&all_lines(&store), &tally);
    assert_eq!((findings.lost, findings.doubled), (vec![], vec![]));
    let found = verify(&Disk::new(&path)).unwrap();
    assert!(
        found.gaps.is_empty() && found.repeats.is_empty(),
        "{found:?}"
    );
}

// A process that starts another one while it holds the lock.

const ENV_DIR: &str = "DECKLOG_LOCK_DIR";

/// Does nothing unless the test below started it as a process: writes continuously, and meanwhile
/// starts an idle process and prints its id.
#[test]
fn process_that_starts_another() {
    let Ok(dir) = std::env::var(ENV_DIR) else {
        return;
    };
    let store = Store::open(Path::new(&dir)).unwrap();
    let write = |id: u128| store.record(turn(id, "", DAY_1)).unwrap();
    write(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 2.. {
                write(id);
            }
        });
        while !is_held_by(Path::new(&dir), std::process::id()) {
            std::thread::yield_now();
        }
        let mut command = Command::new("sleep");
        command
            .arg("600")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        writeln!(std::io::stdout().lock(), "\nstarted {}", child.id()).unwrap();
        // It outlives this process.
        let _ = child.wait();
    });
}

/// A process, or a child of it, that is killed when this is dropped.
struct Killed(u32, Option<Child>);

impl Drop for Killed {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.cast_signed()).unwrap();
        let _ = kill_process(pid, Signal::KILL);
        self.1.take().map(|mut child| child.wait());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_the_holder_started_does_not_hold_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "locks::process_that_starts_another"])
        .args(["--test-threads=1", "--nocapture"])
        .env(ENV_DIR, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let holder = Killed(child.id(), Some(child));
    let mut lines = said.lines().map(Result::unwrap);
    let started = lines.find_map(|line| Some(line.strip_prefix("started ")?.parse().unwrap()));
    let heir = Killed(started.unwrap(), None);

    stop_while_it_holds(&path, holder.0);
    drop(holder);
    let since = Instant::now();
    store.record(turn(1 << 64, "", DAY_1)).unwrap();
    let took = since.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(
        is_all(heir.0, "S"),
        "the process that was started is no more"
    );
    let files = std::fs::read_dir(format!("/proc/{}/fd", heir.0)).unwrap();
    let files: Vec<_> = files
        .map(|file| std::fs::read_link(file.unwrap().path()))
        .collect();
    let is_ours = |file: &std::io::Result<std::path::PathBuf>| {
        file.as_ref().is_ok_and(|file| file.starts_with(&path))
    };
    assert!(!files.iter().any(is_ours), "{files:?}");
}

/// A handle that is far behind reads what others wrote before it takes the lock for good, so that
/// they do not wait for that.
#[test]
fn most_of_a_long_way_is_caught_up_without_the_lock() {
    const TURNS: u128 = 4_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let other = Store::open(&path).unwrap();
    let spy = Spy::new(Disk::new(&path));
    let storage = Arc::new(spy.clone());
    let late = Store::options().storage(storage).open(&path).unwrap();
    late.record(turn(1, "the first", DAY_1)).unwrap();
    let text = "written by another ".repeat(100);
    for id in 2..2 + TURNS {
        other.record(turn(id, &text, DAY_1)).unwrap();
    }
    let seen = spy.events().len();
    late.record(turn(2 + TURNS, "the last", DAY_1)).unwrap();

    let (mut is_locked, mut reads) = (false, [0, 0]);
    for event in &spy.events()[seen..] {
        match event.operation {
            "try_lock" => is_locked = true,
            "unlock" => is_locked = false,
            "read_at" if event.path.contains(".jsonl") => reads[usize::from(is_locked)] += 1,
            _ => {}
        }
    }
    let [free, locked] = reads;
    assert!(free >= 7, "{free} reads without the lock");
    assert!(locked <= 2, "{locked} reads under the lock, {free} without");
    assert_eq!(all_lines(&late), all_lines(&other));
}
