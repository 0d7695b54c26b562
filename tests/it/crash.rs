//! Shared by the tests of kills and power cuts: writing processes, facts that can be recognized in
//! the log, and the list of acknowledgements.
//!
//! A process is this test binary, started again with one test to run. It reports each
//! acknowledgement through a pipe before it continues, so that the parent knows it even if the
//! process dies a moment later.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use decklog::{
    CodeEditProposal, Durability, Event, HistoryEntry, ProposalStatus, Record, Role, Store,
    Validity,
};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng, count, done, request, turn};

/// Facts come in rounds of this many, each of a different sort.
const SORTS: u64 = 8;
/// Maximum number of writers, which are threads, in a process.
pub const WRITERS: u64 = 8;

fn id(writer: u64, number: u64) -> u128 {
    (u128::from(writer) << 64) | u128::from(number)
}

/// Fact `number` of a writer, the same in every process.
pub fn fact(writer: u64, number: u64) -> Record {
    let mut rng = Rng((writer << 32) ^ (number / 2));
    let at = DAY_1 + rng.below(3) as i64 * DAY_MS + number as i64;
    // Mostly short; some need several writes, and some processes write long ones all the time.
    let is_long = (writer / WRITERS).is_multiple_of(8);
    let len = match rng.below(64) {
        0 => rng.below(150_000),
        1..=4 => rng.below(9_000),
        _ => rng.below(300),
    } * if is_long { 10 } else { 1 };
    let text = "x".repeat(len);
    let first = id(writer, number - number % 2);
    match number % SORTS {
        0 => turn(first, &text, at).into(),
        1 => {
            let mut retracted = turn(first, &text, at);
            retracted.created_at = Validity::retracted(at);
            retracted.into()
        }
        2 => call(first, at, text).into(),
        3 => {
            let mut outcome = done(&call(first, at - 1, text));
            // In the same segment as the request, or in another one.
            outcome.ended_at = Validity::at(at + (number / SORTS % 2) as i64 * DAY_MS);
            outcome.into()
        }
        4 => Record::Event(with!(Event::new(None, "agent.worked"),
            created_at: at,
            payload: Some(format!("[{writer},{number},\"{text}\"]")),
        )),
        5 => Record::History(
            with!(HistoryEntry::new(writer as i64, Role::User, format!("{number} {text}")),
                created_at: at,
            ),
        ),
        6 => Record::Proposal(CodeEditProposal {
            request_id: Uuid::from_u128(id(writer, number)),
            created_at: Validity::at(at),
            status: ProposalStatus::Pending,
            confidence: None,
            diffs_json: format!("[\"{text}\"]"),
            decided_at: None,
            applied_at: None,
            commit_hash: None,
        }),
        _ => turn(id(writer, number), &text, at).into(),
    }
}

fn call(id: u128, at: i64, text: String) -> decklog::ToolCallReq {
    decklog::ToolCallReq {
        args_sha256: decklog::args_sha256(&text),
        arguments_json: Some(text),
        ..request(id, "call", at)
    }
}

/// Whether the log recognizes a repeated fact as the same one.
pub fn may_be_told_again(number: u64) -> bool {
    matches!(number % SORTS, 2 | 3 | 6 | 7)
}

/// The fact that a record belongs to. Asserts that the record is complete.
fn fact_of(record: &Record) -> (u64, u64) {
    let split = |id: Uuid| ((id.as_u128() >> 64) as u64, id.as_u128() as u64);
    let mut found = record.clone();
    let (writer, number) = match &mut found {
        Record::Turn(turn) => {
            let (writer, number) = split(turn.id);
            (writer, number + u64::from(!turn.created_at.is_valid))
        }
        Record::CallRequested(req) => split(req.request_id),
        Record::CallDone(done) => {
            let (writer, number) = split(done.request_id);
            (writer, number + 1)
        }
        Record::Proposal(proposal) => split(proposal.request_id),
        Record::Event(event) => {
            event.id = 0;
            let payload: (u64, u64, String) =
                serde_json::from_str(event.payload.as_ref().unwrap()).unwrap();
            (payload.0, payload.1)
        }
        Record::History(entry) => {
            entry.id = 0;
            let (number, _) = entry.text.split_once(' ').unwrap();
            (entry.chat_id.cast_unsigned(), number.parse().unwrap())
        }
        other => panic!("{other:?} was never handed over"),
    };
    assert_eq!(found, fact(writer, number), "this is not what was written");
    (writer, number)
}

/// Facts that can be queried by their keys must be as written.
pub fn assert_seen(store: &Store, writer: u64, number: u64) {
    let first = Uuid::from_u128(id(writer, number - number % 2));
    let own = Uuid::from_u128(id(writer, number));
    let is_seen = match number % SORTS {
        2 => store.get_tool_call(first, "call").unwrap().is_some(),
        3 => {
            let call = store.get_tool_call(first, "call").unwrap();
            call.is_some_and(|call| call.1.is_some())
        }
        6 => store.get_proposal(own).unwrap().is_some(),
        7 => store.get_turn(own).unwrap().is_some(),
        // A turn may be retracted by now, and the others are found by ids that the log assigned.
        _ => true,
    };
    assert!(
        is_seen,
        "fact {number} of {writer} was acknowledged and is not seen"
    );
}

/// An acknowledged fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    pub writer: u64,
    pub number: u64,
    pub seq: u64,
    pub level: Durability,
}

/// All acknowledged facts, and those known to be in the log.
#[derive(Debug, Default)]
pub struct Tally {
    pub heard: BTreeMap<(u64, u64), (u64, Durability)>,
}

impl Tally {
    pub fn hear(&mut self, heard: Heard) {
        let key = (heard.writer, heard.number);
        let (seq, level) = self.heard.entry(key).or_insert((heard.seq, heard.level));
        assert_eq!(
            *seq, heard.seq,
            "{heard:?} was acknowledged as {seq} before"
        );
        if heard.level == Durability::Disk {
            *level = Durability::Disk;
        }
    }
}

/// The difference between the log and the acknowledgements.
#[derive(Debug, Default)]
pub struct Findings {
    pub lost: Vec<Heard>,
    /// Facts that are in the log more than once.
    pub doubled: Vec<(u64, u64)>,
    /// The sequence number of every fact.
    pub found: BTreeMap<(u64, u64), u64>,
}

pub fn compare(lines: &[(u64, Record)], tally: &Tally) -> Findings {
    let mut findings = Findings::default();
    let mut seqs = BTreeSet::new();
    for (seq, record) in lines {
        let key = fact_of(record);
        if findings.found.insert(key, *seq).is_some() || !seqs.insert(*seq) {
            findings.doubled.push(key);
        }
    }
    for ((writer, number), (seq, level)) in &tally.heard {
        if findings.found.get(&(*writer, *number)) != Some(seq) {
            findings.lost.push(Heard {
                writer: *writer,
                number: *number,
                seq: *seq,
                level: *level,
            });
        }
    }
    findings
}

// The processes.

const ENV_DIR: &str = "DECKLOG_CRASH_DIR";
const ENV_WRITER: &str = "DECKLOG_CRASH_WRITER";
const ENV_SEED: &str = "DECKLOG_CRASH_SEED";
const ENV_LEVEL: &str = "DECKLOG_CRASH_LEVEL";
const ENV_ENDLESS: &str = "DECKLOG_CRASH_ENDLESS";
const ENV_AGAIN: &str = "DECKLOG_CRASH_AGAIN";

/// The durability levels of a process's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Levels {
    Process,
    Disk,
    /// Some threads at each level.
    Both,
}

/// The task of a process.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// The first of the process's [`WRITERS`] writers. Facts are numbered per writer.
    pub writer: u64,
    pub levels: Levels,
    pub seed: u64,
    /// Whether the process may end by itself.
    pub may_end: bool,
    /// A killed writer and its last fact number. Some of its facts are recorded again.
    pub again: Option<(u64, u64)>,
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Worker(Child);

impl Worker {
    /// Starts a process that works until it is killed, or for a while.
    pub fn start(store: &Path, task: Task) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "crash::process_that_works", "--test-threads=1"])
            .arg("--nocapture")
            .env(ENV_DIR, store)
            .env(ENV_WRITER, task.writer.to_string())
            .env(ENV_SEED, task.seed.to_string())
            .env(ENV_LEVEL, (task.levels as u8).to_string());
        if !task.may_end {
            command.env(ENV_ENDLESS, "");
        }
        if let Some((writer, number)) = task.again {
            command.env(ENV_AGAIN, format!("{writer} {number}"));
        }
        Worker(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The acknowledgements of the process, as they arrive, until it ends.
    pub fn acks(&mut self) -> impl Iterator<Item = Heard> + use<> {
        acks(self.0.stdout.take().unwrap())
    }

    pub fn kill(&mut self) -> ExitStatus {
        // It may have ended shortly before.
        self.0.kill().unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a process was killed. One that ended by itself must have succeeded.
pub fn was_killed(status: ExitStatus) -> bool {
    assert!(
        status.success() || status.code().is_none(),
        "a process failed: {status}"
    );
    !status.success()
}

fn acks(stdout: ChildStdout) -> impl Iterator<Item = Heard> {
    let mut lines = BufReader::new(stdout);
    let mut line = String::new();
    std::iter::from_fn(move || {
        loop {
            line.clear();
            // The last line may be torn.
            if lines.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                return None;
            }
            // Skip the output of the test harness.
            let Some(ack) = line.strip_prefix("ack ") else {
                continue;
            };
            let fields: Vec<u64> = ack.split_whitespace().map(|f| f.parse().unwrap()).collect();
            return Some(Heard {
                writer: fields[0],
                number: fields[1],
                seq: fields[2],
                level: level(fields[3] == 1),
            });
        }
    })
}

fn level(is_disk: bool) -> Durability {
    if is_disk {
        Durability::Disk
    } else {
        Durability::Process
    }
}

/// A thread of a process, and its position.
struct Writer {
    id: u64,
    next: u64,
    rng: Rng,
    level: Durability,
}

impl Writer {
    /// Records facts and reports their acknowledgements.
    fn record(&self, store: &Store, facts: &[(u64, u64)]) {
        let records = facts.iter().map(|(writer, number)| fact(*writer, *number));
        let acks: Vec<_> = if let [(writer, number)] = facts {
            vec![store.record(fact(*writer, *number))]
        } else {
            store.record_batch(records).unwrap()
        };
        let mut said = String::new();
        for ((writer, number), ack) in facts.iter().zip(acks) {
            let ack = ack.unwrap_or_else(|e| panic!("fact {number} of {writer}: {e}"));
            let is_disk = u8::from(self.level == Durability::Disk);
            writeln!(said, "ack {writer} {number} {} {is_disk}", ack.seq).unwrap();
        }
        std::io::stdout().lock().write_all(said.as_bytes()).unwrap();
        std::io::stdout().lock().flush().unwrap();
    }

    fn work(&mut self, store: &Store, steps: usize) {
        for _ in 0..steps {
            let batch = if self.rng.one_in(6) {
                1 + self.rng.below(40) as u64
            } else {
                1
            };
            let facts: Vec<_> = (0..batch).map(|nth| (self.id, self.next + nth)).collect();
            self.record(store, &facts);
            self.next += batch;
            // Otherwise the lock stays with this process. Pauses let the background thread release
            // it.
            if self.rng.one_in(40) {
                std::thread::sleep(Duration::from_micros(self.rng.below(5_000) as u64));
            }
        }
    }
}

/// Does nothing unless a test started it as a process. Opens the store, writes, closes it, and
/// starts again.
#[test]
fn process_that_works() {
    let Ok(dir) = std::env::var(ENV_DIR) else {
        return;
    };
    // The test harness has printed the start of a line.
    std::io::stdout().lock().write_all(b"\n").unwrap();
    let first = count(ENV_WRITER, 0);
    let mut rng = Rng(count(ENV_SEED, 0));
    let levels = count(ENV_LEVEL, 0);
    let is_disk = |nth: u64| match levels {
        0 => false,
        1 => true,
        _ => nth.is_multiple_of(2),
    };
    let threads = *rng.pick(&[1, 1, 2, 4]);
    let mut writers: Vec<Writer> = (0..threads)
        .map(|nth| Writer {
            id: first + nth,
            next: 0,
            rng: Rng(rng.next()),
            level: level(is_disk(nth)),
        })
        .collect();
    let segment_bytes_max = *rng.pick(&[3_000, 30_000, 300_000]);
    let flush_interval = *rng.pick(&[1, 20, 1_000]);
    let ends = rng.one_in(4) && std::env::var_os(ENV_ENDLESS).is_none();
    let sessions_max = if ends { 1 } else { usize::MAX };
    let open = |level| {
        Store::options()
            .durability(level)
            .lock_timeout(Duration::from_secs(60))
            .segment_bytes_max(segment_bytes_max)
            .flush_interval(Duration::from_millis(flush_interval))
            .sidecar_bytes_min(0)
            .open(&dir)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let mut again = again();
    for _ in 0..sessions_max {
        let stores = [Durability::Process, Durability::Disk].map(|level| {
            let is_used = writers.iter().any(|writer| writer.level == level);
            is_used.then(|| open(level))
        });
        let store_of = |level| stores[usize::from(level == Durability::Disk)].as_ref();
        let steps = 1 + rng.below(150);
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let store = store_of(writer.level).unwrap();
                let again = std::mem::take(&mut again);
                scope.spawn(move || {
                    for facts in again.chunks(3) {
                        writer.record(store, facts);
                    }
                    writer.work(store, steps);
                });
            }
        });
    }
}

/// The last facts of a killed writer, and the facts that it may have been about to write.
fn again() -> Vec<(u64, u64)> {
    let Ok(text) = std::env::var(ENV_AGAIN) else {
        return Vec::new();
    };
    let (writer, number) = text.split_once(' ').unwrap();
    let (writer, number): (u64, u64) = (writer.parse().unwrap(), number.parse().unwrap());
    let first = number.saturating_sub(20) / SORTS * SORTS;
    (first..number + 50)
        .filter(|number| may_be_told_again(*number))
        .map(|number| (writer, number))
        .collect()
}
