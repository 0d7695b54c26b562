//! Concurrent writers: threads on one handle, handles on one directory, processes on one directory.
//! Each acknowledged record is there once and visible to all as soon as it was acknowledged, and
//! the sequence numbers have no gaps or repeats.
//!
//! `DECKLOG_RACE_CALLS` sets the calls per process, `DECKLOG_RACE_THOUGHTS` the thoughts,
//! `DECKLOG_RACE_KILLS` the rounds of killing processes that record thoughts, `DECKLOG_RACE_TASKS`
//! the tasks of an inbox with concurrent claims, `DECKLOG_RACE_HELD` the tasks of an inbox whose
//! workers are killed.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use decklog::query::{CallQuery, TaskQuery};
use decklog::record::{TaskStatus, ThoughtType};
use decklog::storage::{Disk, Memory};
use decklog::thoughts::NewThought;
use decklog::{AckStatus, Durability, ErrorKind, Record, Store, ToolCallReq, verify};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng, Spy, all_lines, count, done, request, turn};

/// Call `number` of a writer. Writers share the odd ones.
fn call(writer: u64, number: u64) -> ToolCallReq {
    let owner = if number.is_multiple_of(2) {
        writer + 1
    } else {
        0
    };
    let at = DAY_1 + (number % 3) as i64 * DAY_MS + number as i64;
    request(u128::from(owner), &format!("call {number}"), at)
}

#[derive(Debug, Default)]
struct Tally {
    /// Sequence number of each acknowledged record, and the number of acknowledgements as added.
    acks: BTreeMap<String, (u64, u32)>,
}

impl Tally {
    fn hear(&mut self, key: String, seq: u64, is_added: bool) {
        let (known, added) = self.acks.entry(key.clone()).or_insert((seq, 0));
        assert_eq!(
            *known, seq,
            "{key} was acknowledged under two sequence numbers"
        );
        *added += u32::from(is_added);
    }

    fn merge(&mut self, other: Tally) {
        for (key, (seq, added)) in other.acks {
            self.hear(key.clone(), seq, false);
            self.acks.get_mut(&key).unwrap().1 += added;
        }
    }
}

/// Records the calls of one writer through `store`, each with its outcome.
fn write_calls(store: &Store, writer: u64, calls: u64, mut heard: impl FnMut(&str, u64, bool)) {
    for number in 0..calls {
        let req = call(writer, number);
        let key = format!("{} {}", req.request_id, req.call_id);
        for (op, ack) in [
            ("requested", store.record(req.clone())),
            ("completed", store.record(done(&req))),
        ] {
            let ack = ack.unwrap_or_else(|e| panic!("{key} {op}: {e}"));
            heard(
                &format!("{key} {op}"),
                ack.seq,
                ack.status == AckStatus::Added,
            );
        }
    }
}

/// Nothing is lost or duplicated, no number is skipped, and two new handles agree.
fn check(path: &Path, tally: &Tally) {
    let lines: u64 = tally.acks.len() as u64;
    for (key, (_, added)) in &tally.acks {
        assert_eq!(*added, 1, "{key} was added {added} times");
    }
    let found = verify(&Disk::new(path)).unwrap();
    assert!(found.is_clean(), "{found:?}");
    assert_eq!(found.good_lines, lines);
    let handles = [Store::open(path).unwrap(), Store::open(path).unwrap()];
    let [one, two] = handles.each_ref().map(all_lines);
    assert_eq!(one, two);
    let seqs: Vec<u64> = one.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, (1..=lines).collect::<Vec<_>>());
    for (seq, record) in &one {
        let op = match record {
            decklog::Record::CallDone(_) => "completed",
            _ => "requested",
        };
        let key = format!("{} {op}", record.key());
        assert_eq!(
            tally.acks.get(&key).map(|(seq, _)| *seq),
            Some(*seq),
            "{key}"
        );
    }
}

fn race_threads(handles: usize, threads: usize, durability: Durability, calls: u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = || {
        let options = Store::options().durability(durability);
        options.segment_bytes_max(20_000).open(&path).unwrap()
    };
    let stores: Vec<Store> = (0..handles).map(|_| open()).collect();
    let start = Barrier::new(threads + 1);
    let is_over = AtomicBool::new(false);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|writer| {
                let (stores, start) = (&stores, &start);
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    let mine = &stores[writer % stores.len()];
                    let other = &stores[(writer + 1) % stores.len()];
                    start.wait();
                    write_calls(mine, writer as u64, calls, |key, seq, is_added| {
                        tally.hear(key.to_owned(), seq, is_added);
                        // An acknowledged record is visible to every handle.
                        let mut words = key.splitn(2, ' ');
                        let request_id: Uuid = words.next().unwrap().parse().unwrap();
                        let (call_id, op) = words.next().unwrap().rsplit_once(' ').unwrap();
                        let (_, outcome) =
                            decklog::ObservabilityStore::get_tool_call(other, request_id, call_id)
                                .unwrap()
                                .unwrap_or_else(|| panic!("{key} is not seen"));
                        assert!(op == "requested" || outcome.is_some(), "{key} is not seen");
                    });
                    tally
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let store = open();
            let mut last = 0;
            start.wait();
            while !is_over.load(Ordering::Relaxed) {
                let lines = all_lines(&store);
                let seqs: Vec<u64> = lines.iter().map(|(seq, _)| *seq).collect();
                assert_eq!(seqs, (1..=lines.len() as u64).collect::<Vec<_>>());
                assert!(lines.len() >= last);
                last = lines.len();
            }
        });
        for writer in writers {
            tally.merge(writer.join().unwrap());
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    let views: Vec<_> = stores.iter().map(all_lines).collect();
    assert!(views.iter().all(|view| *view == views[0]));
    drop(stores);
    check(&path, &tally);
}

#[test]
fn sixteen_threads_on_one_handle() {
    race_threads(1, 16, Durability::Process, 10);
    race_threads(1, 16, Durability::Disk, 4);
}

#[test]
fn sixteen_threads_on_four_handles() {
    race_threads(4, 16, Durability::Process, 10);
    race_threads(4, 16, Durability::Disk, 4);
}

/// Bug: the store's lock was released after the threads' own mutex. The next thread took both,
/// through the same file handle, and the late unlock then left it writing without the lock.
#[test]
fn a_thread_gives_the_lock_back_before_the_next_one_takes_it() {
    let spy = Spy::new(Memory::new());
    let store = Store::options()
        .storage(Arc::new(spy.clone()))
        .open("memory")
        .unwrap();
    let before = spy.events().len();
    spy.hook(|operation, _| {
        if operation == "unlock" {
            // Long enough for another thread to enter, if it can.
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for id in 0..10 {
                    store.record(turn(writer * 100 + id, "", DAY_1)).unwrap();
                }
            });
        }
    });
    let events = spy.events();
    let turns: Vec<&str> = events[before..]
        .iter()
        .filter(|event| {
            event.path == "LOCK" && event.operation != "open" && event.operation != "stat"
        })
        .map(|event| event.operation)
        .collect();
    assert_eq!(turns, ["try_lock", "unlock"].repeat(80));
}

#[test]
fn of_many_outcomes_one_stands() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let stores: Vec<Store> = (0..4).map(|_| Store::open(&path).unwrap()).collect();
    for number in 0..10u64 {
        let req = request(1, &format!("call {number}"), DAY_1);
        let (start, req) = (&Barrier::new(8), &req);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|thread| {
                    let store = &stores[thread % 4];
                    scope.spawn(move || {
                        let mut outcome = done(req);
                        outcome.latency_ms = thread as i64;
                        start.wait();
                        store.record(req.clone()).unwrap();
                        (thread as i64, store.record(outcome))
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|(_, answer)| answer.is_ok());
        assert_eq!(won.len(), 1);
        for (_, answer) in lost {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict);
        }
        for store in &stores {
            let query = CallQuery {
                since: Some(DAY_1),
                ..CallQuery::default()
            };
            let calls = store.tool_calls(&query).unwrap().items;
            let (_, outcome) = calls.iter().find(|(known, _)| known == req).unwrap();
            assert_eq!(outcome.as_ref().unwrap().latency_ms, won[0].0);
        }
    }
    drop(stores);
    let found = verify(&Disk::new(&path)).unwrap();
    assert_eq!((found.is_clean(), found.good_lines), (true, 20));
}

/// Bug: a check of all segments during a batch could see a later line but not an earlier one, in a
/// segment checked before. A follower then received the later line and never the earlier one.
#[test]
fn who_follows_the_log_while_a_batch_is_written_misses_no_line() {
    let memory = Memory::new();
    let open = |spy: &Spy| {
        let options = Store::options().storage(Arc::new(spy.clone()));
        options.open("memory").unwrap()
    };
    let (writing, reading) = (Spy::new(memory.clone()), Spy::new(memory.clone()));
    let writer = open(&writing);
    let request = request(1, "call", DAY_1);
    writer.record(turn(1, "", DAY_1)).unwrap();
    writer.record(request.clone()).unwrap();

    // The batch starts. A reader that has checked the first segment waits until everything is
    // written but not yet published in HEAD.
    let (begin, has_begun) = channel();
    let (go_on, may_go_on) = channel();
    let (wrote, is_written) = channel();
    let (told, may_tell) = channel::<()>();
    let (begin, may_go_on) = (Mutex::new(begin), Mutex::new(may_go_on));
    let (wrote, may_tell) = (Mutex::new(wrote), Mutex::new(may_tell));
    let appends = AtomicU64::new(0);
    writing.hook(move |operation, path| {
        if operation == "append" && appends.fetch_add(1, Ordering::Relaxed) == 0 {
            begin.lock().unwrap().send(()).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
        }
        if (operation, path) == ("write_at", "HEAD") && appends.load(Ordering::Relaxed) == 2 {
            appends.fetch_add(1, Ordering::Relaxed);
            wrote.lock().unwrap().send(()).unwrap();
            may_tell.lock().unwrap().recv().unwrap();
        }
        Ok(())
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let batch = [turn(2, "", DAY_1).into(), done(&request).into()];
            for answer in writer.record_batch(batch).unwrap() {
                answer.unwrap();
            }
        });
        has_begun.recv().unwrap();
        let is_written = Mutex::new(Some(is_written));
        reading.hook(move |operation, path| {
            if operation == "stat"
                && path.contains("tool_calls")
                && let Some(is_written) = is_written.lock().unwrap().take()
            {
                go_on.send(()).unwrap();
                is_written.recv().unwrap();
            }
            Ok(())
        });
        let reader = open(&reading);
        let mut follow = reader.follow(0).unwrap();
        let mut seqs = Vec::new();
        let mut read = |seqs: &mut Vec<u64>| {
            let lines = follow.next_lines(Duration::from_millis(10)).unwrap();
            seqs.extend(lines.iter().map(|line| line.seq));
        };
        read(&mut seqs);
        told.send(()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while seqs.len() < 4 && Instant::now() < deadline {
            read(&mut seqs);
        }
        assert_eq!(seqs, [1, 2, 3, 4]);
    });
}

// Processes: this test binary, started again with one test to run.

const ENV_DIR: &str = "DECKLOG_RACE_DIR";
const ENV_WRITER: &str = "DECKLOG_RACE_WRITER";
const ENV_COUNT: &str = "DECKLOG_RACE_COUNT";

/// Does nothing unless one of the tests below started it as a process.
#[test]
fn process_of_a_race() {
    let Ok(dir) = std::env::var(ENV_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let writer = count(ENV_WRITER, 0);
    let mut acks = std::fs::File::create(dir.join(format!("acks.{writer}"))).unwrap();
    let store = Store::options()
        .lock_timeout(Duration::from_secs(60))
        .segment_bytes_max(1 << 20)
        .open(dir.join("log"))
        .unwrap();
    let mut line = String::new();
    write_calls(&store, writer, count(ENV_COUNT, 0), |key, seq, is_added| {
        line.clear();
        writeln!(line, "{seq}\t{is_added}\t{key}").unwrap();
        acks.write_all(line.as_bytes()).unwrap();
    });
}

fn start(dir: &Path, writer: u64, calls: u64) -> Child {
    start_as("process_of_a_race", dir, writer, calls)
}

/// Starts a process that runs one of these child tests.
fn start_as(test: &str, dir: &Path, writer: u64, calls: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("races::{test}"), "--test-threads=1"])
        .env(ENV_DIR, dir)
        .env(ENV_WRITER, writer.to_string())
        .env(ENV_COUNT, calls.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn acks_path(dir: &Path, writer: u64) -> PathBuf {
    dir.join(format!("acks.{writer}"))
}

/// The acknowledgements noted by a process. A last line without LF comes from a killed process.
fn acks(dir: &Path, writer: u64, tally: &mut Tally) -> u64 {
    let text = std::fs::read_to_string(acks_path(dir, writer)).unwrap_or_default();
    let mut heard = 0;
    for line in text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
    {
        let mut fields = line.trim_end().splitn(3, '\t');
        let seq = fields.next().unwrap().parse().unwrap();
        let is_added = fields.next().unwrap() == "true";
        tally.hear(fields.next().unwrap().to_owned(), seq, is_added);
        heard += 1;
    }
    heard
}

#[test]
fn eight_processes_on_one_directory() {
    const PROCESSES: u64 = 8;
    let calls = count("DECKLOG_RACE_CALLS", 300);
    let dir = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let children: Vec<Child> = (0..PROCESSES)
        .map(|writer| start(dir.path(), writer, calls))
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let took = started.elapsed();
    let mut tally = Tally::default();
    for writer in 0..PROCESSES {
        assert_eq!(acks(dir.path(), writer, &mut tally), 2 * calls);
    }
    let shared = calls / 2;
    assert_eq!(
        tally.acks.len() as u64,
        2 * (PROCESSES * (calls - shared) + shared)
    );
    check(&dir.path().join("log"), &tally);
    println!(
        "{PROCESSES} processes, {calls} calls each: {} lines in {took:?}",
        tally.acks.len()
    );
}

/// In a child: reports that it is ready, and waits until all are.
fn await_go(dir: &Path, writer: u64) {
    std::fs::write(dir.join(format!("ready.{writer}")), "").unwrap();
    wait_for(&dir.join("go"));
}

/// Starts the children once these are ready. Later ones start at once.
fn go(dir: &Path, writers: std::ops::Range<u64>) {
    for writer in writers {
        wait_for(&dir.join(format!("ready.{writer}")));
    }
    std::fs::write(dir.join("go"), "").unwrap();
}

fn wait_for(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(
            Instant::now() < deadline,
            "{} does not come",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

// Thoughts.

fn open_for_race(dir: &Path) -> Store {
    let options = Store::options().lock_timeout(Duration::from_secs(60));
    options
        .segment_bytes_max(50_000)
        .open(dir.join("log"))
        .unwrap()
}

/// Does nothing unless one of the tests below started it as a process.
#[test]
fn process_that_thinks() {
    let Ok(dir) = std::env::var(ENV_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let writer = count(ENV_WRITER, 0);
    let mut acks = std::fs::File::create(acks_path(dir, writer)).unwrap();
    let store = open_for_race(dir);
    await_go(dir, writer);
    for number in 0..count(ENV_COUNT, 0) {
        let thought = NewThought {
            thought_type: ThoughtType::Plan,
            task_id: "shared".into(),
            agent_id: format!("agent {writer}"),
            content: number.to_string(),
        };
        let made = store.thoughts().create(thought).unwrap();
        let line = format!("{}\t{}\t{number}\n", made.prev_hash, made.hash);
        acks.write_all(line.as_bytes()).unwrap();
    }
}

/// Every acknowledged thought is recorded and linked as acknowledged, in one chain, in the order of
/// each process.
fn check_thoughts(dir: &Path, writers: impl Iterator<Item = u64>) -> (usize, usize) {
    let store = Store::open(dir.join("log")).unwrap();
    let check = store.thoughts().verify_chain("shared").unwrap();
    assert_eq!(check.broken, None);
    let chain = store.thoughts().list(Some("shared"), None).unwrap();
    assert_eq!(check.records, chain.len() as u64);
    assert_eq!(check.head.as_ref(), chain.last().map(|last| &last.hash));
    let mut head = decklog::record::GENESIS_HASH;
    let mut next_of: BTreeMap<&str, u64> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for (place, record) in chain.iter().enumerate() {
        assert_eq!(record.prev_hash, head, "the chain forks at {place}");
        assert_eq!(record.hash, record.computed_hash());
        head = &record.hash;
        let next = next_of.entry(&record.agent_id).or_default();
        assert_eq!(record.content, next.to_string(), "{}", record.agent_id);
        *next += 1;
        places.insert(&*record.hash, record);
    }
    let mut heard = 0;
    for writer in writers {
        let text = std::fs::read_to_string(acks_path(dir, writer)).unwrap_or_default();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        for line in whole {
            let fields: Vec<&str> = line.trim_end().split('\t').collect();
            let record = places.get(fields[1]);
            let record = record.unwrap_or_else(|| panic!("{line} was acknowledged and is lost"));
            assert_eq!(
                (&*record.prev_hash, &*record.content),
                (fields[0], fields[2])
            );
            heard += 1;
        }
    }
    (heard, chain.len())
}

#[test]
fn eight_processes_make_one_chain() {
    const PROCESSES: u64 = 8;
    let thoughts = count("DECKLOG_RACE_THOUGHTS", 50);
    let dir = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let children: Vec<Child> = (0..PROCESSES)
        .map(|writer| start_as("process_that_thinks", dir.path(), writer, thoughts))
        .collect();
    go(dir.path(), 0..PROCESSES);
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let took = started.elapsed();
    let all = (PROCESSES * thoughts) as usize;
    assert_eq!(check_thoughts(dir.path(), 0..PROCESSES), (all, all));
    assert!(
        verify(&Disk::new(dir.path().join("log")))
            .unwrap()
            .is_clean()
    );
    println!("{PROCESSES} processes, {thoughts} thoughts each: one chain of {all} in {took:?}");
}

#[test]
fn a_chain_whose_writers_are_killed_still_holds() {
    const PROCESSES: u64 = 4;
    let rounds = count("DECKLOG_RACE_KILLS", 4);
    let dir = tempfile::tempdir().unwrap();
    go(dir.path(), 0..0);
    let mut rng = Rng::seeded("killed thinkers");
    for round in 0..rounds {
        let writers = (0..PROCESSES).map(|nth| round * PROCESSES + nth);
        let children: Vec<(u64, Child)> = writers
            .map(|writer| {
                let test = "process_that_thinks";
                (writer, start_as(test, dir.path(), writer, u64::MAX))
            })
            .collect();
        for (writer, child) in children {
            kill_after_first_ack(&acks_path(dir.path(), writer), child, rng.below(20_000));
        }
    }
    let (heard, all) = check_thoughts(dir.path(), 0..rounds * PROCESSES);
    assert!(heard > 0 && heard <= all);
    // The next writer continues the same chain.
    let store = open_for_race(dir.path());
    let next = store.thoughts().create(NewThought {
        thought_type: ThoughtType::Reflection,
        task_id: "shared".into(),
        agent_id: "last".into(),
        content: "0".into(),
    });
    assert!(next.is_ok());
    drop(store);
    assert_eq!(check_thoughts(dir.path(), 0..0).1, all + 1);
    println!(
        "{} killed, {heard} acknowledged, a chain of {all}",
        rounds * PROCESSES
    );
}

/// Waits until the process has noted an acknowledgement, then a little longer, and kills it.
fn kill_after_first_ack(acks: &Path, mut child: Child, delay_us: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(acks).map_or(0, |file| file.len()) == 0 {
        assert!(
            Instant::now() < deadline,
            "the process does not get to write"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_micros(delay_us as u64));
    child.kill().unwrap();
    child.wait().unwrap();
}

// The inbox.

const ENV_SLOW: &str = "DECKLOG_RACE_SLOW";
/// Claim timeout in tests that kill workers.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(150);

/// Appends an event to a file shared by all processes, in the order of events.
fn note(log: &mut std::fs::File, what: &str, task: &decklog::InboxTask, writer: u64) {
    let line = format!("{what}\t{}\t{}\t{writer}\n", task.id, task.attempts);
    log.write_all(line.as_bytes()).unwrap();
}

/// Does nothing unless one of the tests below started it as a process. Works until no task is left;
/// with `ENV_SLOW`, sometimes for longer than the claim timeout.
#[test]
fn process_that_works() {
    let Ok(dir) = std::env::var(ENV_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let writer = count(ENV_WRITER, 0);
    let tasks = count(ENV_COUNT, 0);
    let is_slow = std::env::var(ENV_SLOW).is_ok();
    let mut rng = Rng(writer);
    let open = |name: String| {
        let mut options = std::fs::File::options();
        options
            .append(true)
            .create(true)
            .open(dir.join(name))
            .unwrap()
    };
    let (mut log, mut own) = (open("moments".into()), open(format!("acks.{writer}")));
    let store = open_for_race(dir);
    // All processes queue all tasks, each starting at another one. Every update is queued once.
    for nth in 0..tasks {
        let update_id = (nth + writer * tasks / 8) % tasks;
        let payload = format!("{{\"writer\":{writer}}}");
        let task = store
            .inbox()
            .enqueue(update_id as i64, Some(&payload))
            .unwrap();
        assert_eq!(task.update_id, update_id as i64);
    }
    own.write_all(b"queued\n").unwrap();
    await_go(dir, writer);
    loop {
        if is_slow {
            store.inbox().release_stale(CLAIM_TIMEOUT).unwrap();
        }
        let Some(task) = store.inbox().claim().unwrap() else {
            let counts = store.inbox().counts().unwrap();
            if counts.done == tasks as usize {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        note(&mut log, "claimed", &task, writer);
        if is_slow {
            let is_late = rng.one_in(10);
            std::thread::sleep(if is_late {
                CLAIM_TIMEOUT * 2
            } else {
                Duration::from_micros(200)
            });
        } else if rng.one_in(10) {
            // Released so that another worker may claim it.
            note(&mut log, "gives back", &task, writer);
            store.inbox().retry(&task, "not now").unwrap();
            continue;
        }
        note(&mut log, "ends", &task, writer);
        match store.inbox().done(&task) {
            Ok(()) => note(&mut log, "done", &task, writer),
            Err(e) => {
                assert!(is_slow, "{e}");
                let kinds = [ErrorKind::Conflict, ErrorKind::Lifecycle];
                assert!(kinds.contains(&e.kind()), "{e}");
                note(&mut log, "refused", &task, writer);
            }
        }
    }
}

/// An event that a worker noted: action, task, attempt and worker.
type Moment = (String, i64, i64, u64);

fn moments(dir: &Path) -> Vec<Moment> {
    let text = std::fs::read_to_string(dir.join("moments")).unwrap();
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let number = |at: usize| fields[at].parse::<i64>().unwrap();
            (
                fields[0].to_owned(),
                number(1),
                number(2),
                fields[3].parse().unwrap(),
            )
        })
        .collect()
}

/// Checks the log: every task was queued once, its attempts do not overlap, and it is done. Returns
/// the attempt that finished each task.
fn check_inbox(dir: &Path, tasks: u64) -> BTreeMap<i64, i64> {
    let store = Store::open(dir.join("log")).unwrap();
    let mut at: BTreeMap<i64, (TaskStatus, i64)> = BTreeMap::new();
    let mut updates = BTreeSet::new();
    for line in store.last_lines(usize::MAX).unwrap() {
        let json = line.text.replacen('{', "{\"kind\":\"inbox\",", 1);
        match Record::from_json(&json).unwrap() {
            Record::InboxTask(task) => {
                assert!(updates.insert(task.update_id), "{json}");
                assert_eq!(at.insert(task.id, (TaskStatus::Queued, 0)), None, "{json}");
            }
            Record::InboxStep(step) => {
                let (status, attempt) = at.get_mut(&step.id).unwrap();
                let from = if step.status == TaskStatus::InProgress {
                    *attempt += 1;
                    TaskStatus::Queued
                } else {
                    TaskStatus::InProgress
                };
                assert_eq!((*status, *attempt), (from, step.attempt), "{json}");
                *status = step.status;
            }
            _ => panic!("{json}"),
        }
    }
    assert_eq!(updates, (0..tasks as i64).collect());
    assert!(at.values().all(|(status, _)| *status == TaskStatus::Done));
    let query = TaskQuery {
        limit: usize::MAX,
        ..TaskQuery::default()
    };
    let found = store.inbox().list(&query).unwrap().items;
    assert_eq!(found.len() as u64, tasks);
    assert!(
        found
            .iter()
            .all(|task| at[&task.id] == (task.status, task.attempts))
    );
    at.into_iter()
        .map(|(id, (_, attempt))| (id, attempt))
        .collect()
}

#[test]
fn eight_processes_do_every_task_once() {
    const PROCESSES: u64 = 8;
    let tasks = count("DECKLOG_RACE_TASKS", 400);
    let dir = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let children: Vec<Child> = (0..PROCESSES)
        .map(|writer| start_as("process_that_works", dir.path(), writer, tasks))
        .collect();
    go(dir.path(), 0..PROCESSES);
    let queued = started.elapsed();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let took = started.elapsed().saturating_sub(queued);
    let attempts = check_inbox(dir.path(), tasks);
    assert!(
        verify(&Disk::new(dir.path().join("log")))
            .unwrap()
            .is_clean()
    );
    let mut held: BTreeMap<i64, (i64, u64)> = BTreeMap::new();
    let (mut done, mut claims) = (BTreeMap::new(), [0; PROCESSES as usize]);
    for (what, task, attempt, writer) in moments(dir.path()) {
        match &*what {
            "claimed" => {
                claims[writer as usize] += 1;
                let other = held.insert(task, (attempt, writer));
                assert_eq!(other, None, "task {task} is held by {writer} and another");
            }
            "gives back" | "ends" => assert_eq!(held.remove(&task), Some((attempt, writer))),
            "done" => assert_eq!(
                done.insert(task, attempt),
                None,
                "task {task} was done twice"
            ),
            _ => panic!("{what}"),
        }
    }
    assert_eq!((held.len(), done), (0, attempts));
    println!(
        "{PROCESSES} processes, {tasks} tasks, claims by process {claims:?}; queued in {queued:?}, done in {took:?}"
    );
}

#[test]
fn tasks_of_killed_workers_are_done_by_others() {
    const PROCESSES: u64 = 8;
    let tasks = count("DECKLOG_RACE_HELD", 150);
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::seeded("killed workers");
    let start = |writer| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "races::process_that_works", "--test-threads=1"])
            .env(ENV_DIR, dir.path())
            .env(ENV_WRITER, u64::to_string(&writer))
            .env(ENV_COUNT, tasks.to_string())
            .env(ENV_SLOW, "")
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let started = Instant::now();
    let mut workers: Vec<(u64, Child)> = (0..PROCESSES)
        .map(|writer| (writer, start(writer)))
        .collect();
    go(dir.path(), 0..PROCESSES);
    let (mut killed, mut next) = (BTreeSet::new(), PROCESSES);
    while !workers.is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(540),
            "the tasks do not come to an end"
        );
        std::thread::sleep(Duration::from_millis(20 + rng.below(60) as u64));
        workers.retain_mut(|(writer, child)| {
            let status = child.try_wait().unwrap();
            assert!(
                status.is_none_or(|status| status.success()),
                "worker {writer}"
            );
            status.is_none()
        });
        let is_at_work = |writer: u64| acks_path(dir.path(), writer).exists();
        if workers.is_empty() || killed.len() as u64 >= PROCESSES * 4 {
            continue;
        }
        let nth = rng.below(workers.len());
        if is_at_work(workers[nth].0) {
            let (writer, mut child) = workers.swap_remove(nth);
            child.kill().unwrap();
            // It may have ended shortly before.
            if !child.wait().unwrap().success() {
                killed.insert(writer);
            }
            workers.push((next, start(next)));
            next += 1;
        }
    }
    let took = started.elapsed();
    let attempts = check_inbox(dir.path(), tasks);

    // Each attempt had one holder. The last one finished the task, and no other was told so.
    let (mut holders, mut done, mut refused) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (what, task, attempt, writer) in moments(dir.path()) {
        match &*what {
            "claimed" => {
                let other = holders.insert((task, attempt), writer);
                assert_eq!(
                    other, None,
                    "attempt {attempt} of task {task} has two holders"
                );
            }
            "done" => assert_eq!(done.insert(task, (attempt, writer)), None),
            "refused" => {
                refused += 1;
                assert!(
                    attempt < attempts[&task],
                    "the last attempt of task {task} was refused"
                );
            }
            "ends" => assert_eq!(holders.get(&(task, attempt)), Some(&writer)),
            _ => panic!("{what}"),
        }
    }
    for (task, last) in &attempts {
        if let Some((attempt, _)) = done.get(task) {
            assert_eq!(attempt, last, "task {task}");
        } else {
            // It was killed between its last line and its note.
            let holder = holders.get(&(*task, *last));
            assert!(
                holder.is_none_or(|writer| killed.contains(writer)),
                "task {task}"
            );
        }
    }
    let again = attempts.values().filter(|attempt| **attempt > 1).count();
    println!(
        "{tasks} tasks, {} workers killed, {again} tasks tried again, {refused} late ends refused, in {took:?}",
        killed.len()
    );
}

/// Readers do not wait for the whole of a large batch: they see its first record before its last
/// one. Of records that are recorded all or none, they see none before they see all.
#[test]
fn readers_see_a_large_batch_as_it_grows() {
    const LEN: u128 = 8_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (store, other) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    let turn_of = |id: u128| turn(id, "part of a batch", DAY_1 + id as i64);
    let is_there = |store: &Store, id| store.get_turn(Uuid::from_u128(id)).unwrap().is_some();
    for (first, is_all) in [(10_000, false), (20_000, true)] {
        let last = first + LEN - 1;
        let records: Vec<Record> = (first..=last).map(|id| turn_of(id).into()).collect();
        let is_over = AtomicBool::new(false);
        // By a reader of the same handle, and by one that reads the files.
        let mut partly = [false; 2];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if is_all {
                    store.record_all(records).unwrap();
                } else {
                    let acks = store.record_batch(records).unwrap();
                    assert!(acks.iter().all(Result::is_ok));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                for (handle, partly) in [&store, &other].into_iter().zip(&mut partly) {
                    *partly |= is_there(handle, first) && !is_there(handle, last);
                }
            }
        });
        assert_eq!(partly, [!is_all; 2]);
        for handle in [&store, &other] {
            assert!((first..=last).all(|id| is_there(handle, id)));
        }
        let numbers = all_lines(&store).into_iter().map(|(seq, _)| seq);
        let numbers: Vec<u64> = numbers.collect();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64));
    }
}
