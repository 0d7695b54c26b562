//! Shared by the tests of upkeep with many processes: facts for which it is known whether they have
//! expired, and processes that append them, read them, or rewrite the log.
//!
//! A process is this test binary, started again with one test to run.

#![allow(clippy::cast_possible_wrap)]

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use decklog::lines::Follow;
use decklog::query::{MessageQuery, TurnQuery};
use decklog::retention::Erasure;
use decklog::{
    Client, Conversation, ConversationMessage, Durability, Record, Role, Store, Timestamp,
};
use uuid::Uuid;

use super::erase::{conversation, erase};
use super::support::{DAY_1, DAY_MS, Kid, Rng, count, done, plain_users, request, turn};
use super::upkeep::{compact, retain};

/// Number of days that facts belong to. The first half has expired.
const DAYS: u64 = 8;
pub const NOW: i64 = DAY_1 + (DAYS as i64 / 2 + 90) * DAY_MS + 5;
/// The writer of the facts that exist before the test.
pub const FIRST: u64 = 1;
pub const FIRST_FACTS: u64 = 160;
/// The start of each text to be erased, which ends with a dot.
pub const SECRET: &[u8] = b"the secret";

pub fn is_due(number: u64) -> bool {
    number % DAYS < DAYS / 2
}

fn id(writer: u64, number: u64) -> Uuid {
    Uuid::from_u64_pair(writer, number)
}

fn at(number: u64) -> i64 {
    DAY_1 + (number % DAYS) as i64 * DAY_MS + number as i64
}

/// The records of a fact, written together.
pub fn records(writer: u64, number: u64) -> Vec<Record> {
    let (id, time) = (id(writer, number), at(number));
    let thread = Some(Uuid::from_u64_pair(writer, u64::MAX));
    let said = |text: &str| decklog::ConversationTurn {
        thread_id: thread,
        ..turn(id.as_u128(), &format!("{text} {number}"), time)
    };
    match number / DAYS % 4 {
        0 => vec![said("second").into()],
        1 => {
            let req = request(id.as_u128(), "call", time);
            let outcome = done(&req);
            vec![req.into(), outcome.into()]
        }
        2 => {
            let stamp = |number| Timestamp::from_ms(at(number)).unwrap();
            let talk = with!(Conversation::new(id, Client::Cli),
                created_at: stamp(number & !1),
                updated_at: stamp(number | 1),
            );
            // On two days, both expired or both not.
            let messages = [number & !1, number | 1].map(|on| {
                with!(ConversationMessage::new(id, Role::User, format!("message {on}")),
                    id: Uuid::from_u64_pair(writer, 1 << 40 | number << 1 | on & 1),
                    timestamp: stamp(on),
                    sequence: Some((on & 1).cast_signed() + 1),
                )
            });
            let [first, second] = messages;
            vec![talk.into(), first.into(), second.into()]
        }
        _ => vec![said("first").into(), said("second").into()],
    }
}

/// Whether a fact is there. If it is, checks that it is complete.
pub fn look(store: &Store, writer: u64, number: u64) -> bool {
    let (id, expected) = (id(writer, number), records(writer, number));
    match number / DAYS % 4 {
        1 => {
            let Some((req, outcome)) = store.get_tool_call(id, "call").unwrap() else {
                return false;
            };
            assert_eq!(Record::from(req), expected[0]);
            if let Some(outcome) = outcome {
                assert_eq!(Record::from(outcome), expected[1]);
            } else {
                // Its lines are in two segments, of which one may have been removed.
                assert!(
                    is_due(number),
                    "the outcome of {number} of {writer} is gone"
                );
            }
        }
        2 => {
            let Some((talk, stats)) = store.get_conversation(id).unwrap() else {
                return false;
            };
            assert_eq!(Record::from(talk), expected[0]);
            if !is_due(number) {
                assert_eq!(stats.message_count, 2);
                let found = store.messages(id, &MessageQuery::default()).unwrap().items;
                let mut found: Vec<Record> = found.into_iter().map(Record::from).collect();
                found.sort_by_key(|message| message != &expected[1]);
                assert_eq!(found, expected[1..]);
            }
        }
        _ => {
            let Some(turn) = store.get_turn(id).unwrap() else {
                return false;
            };
            assert_eq!(Record::from(turn), *expected.last().unwrap());
        }
    }
    true
}

/// The last acknowledged fact of each writer.
pub type Tally = BTreeMap<u64, u64>;

/// All acknowledged facts are there, unless expired.
pub fn assert_there(store: &Store, tally: &Tally) {
    for (writer, last) in tally {
        for number in 0..=*last {
            let is_there = look(store, *writer, number);
            assert!(
                is_there || is_due(number),
                "fact {number} of {writer} was acknowledged and is gone"
            );
        }
    }
}

/// The turns of a writer, each listed once. Of a fact that was not acknowledged, its writer may have
/// died after the first of its lines.
pub fn assert_listed(store: &Store, writer: u64, last: u64) {
    let is_turn = |number: u64| matches!(number / DAYS % 4, 0 | 3);
    let query = TurnQuery {
        thread_id: Some(Uuid::from_u64_pair(writer, u64::MAX)),
        limit: usize::MAX,
        ..TurnQuery::default()
    };
    let mut seen = HashSet::new();
    for turn in store.turns(&query).unwrap().items {
        let number = turn.id.as_u64_pair().1;
        assert!(seen.insert(number), "{number} of {writer} is listed twice");
        let (turn, mut lines) = (Record::from(turn), records(writer, number));
        if number <= last || !lines.contains(&turn) {
            assert_eq!(Some(turn), lines.pop());
        }
    }
    let must = (0..=last).filter(|number| is_turn(*number) && !is_due(*number));
    for number in must {
        assert!(seen.contains(&number), "{number} of {writer} is not listed");
    }
}

/// A follower that must get the last line of each unexpired fact, in order, and no line twice.
struct Follower {
    store: Store,
    follow: Follow,
    seen: HashSet<u64>,
    next: Tally,
}

impl Follower {
    fn new(store: &Store) -> Follower {
        Follower {
            store: store.clone(),
            follow: store.follow(0).unwrap(),
            seen: HashSet::new(),
            next: Tally::new(),
        }
    }

    fn go_on(&mut self, timeout: Duration) {
        for line in self.follow.next_lines(timeout).unwrap() {
            assert!(self.seen.insert(line.seq), "twice: {line:?}");
            let record = Record::from_json(&line.text).unwrap();
            let (writer, number) = match &record {
                Record::Turn(turn) => turn.id.as_u64_pair(),
                Record::CallDone(done) => done.request_id.as_u64_pair(),
                Record::Message(message) => message.conversation_id.as_u64_pair(),
                _ => continue,
            };
            // Erased and expired facts may arrive in part.
            if writer > u64::from(u32::MAX) || is_due(number) {
                continue;
            }
            if records(writer, number).last() == Some(&record) {
                let next = self.next.entry(writer).or_insert(DAYS / 2);
                assert_eq!(
                    number, *next,
                    "what {writer} wrote is not followed: {line:?}"
                );
                *next += 1;
                if is_due(*next) {
                    *next += DAYS / 2;
                }
            }
        }
    }

    fn has_all(&self, tally: &Tally) -> bool {
        tally.iter().all(|(writer, last)| {
            let next = self.next.get(writer).copied().unwrap_or(DAYS / 2);
            (next..=*last).all(is_due)
        })
    }
}

pub fn open(path: &Path, segment_bytes_max: u64, durability: Durability) -> Store {
    Store::options()
        .settings(plain_users())
        .durability(durability)
        .lock_timeout(Duration::from_secs(60))
        // The test decides when to rewrite.
        .upkeep(false)
        .segment_bytes_max(segment_bytes_max)
        .open(path)
        .unwrap()
}

// The processes.

const ENV_ROLE: &str = "DECKLOG_REWRITERS_ROLE";
const ENV_DIR: &str = "DECKLOG_REWRITERS_DIR";
const ENV_SEED: &str = "DECKLOG_REWRITERS_SEED";
const ENV_LEVEL: &str = "DECKLOG_REWRITERS_DISK";

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{text}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The file that tells the readers to end, and which facts they must have followed by then.
pub fn end_of(dir: &Path) -> PathBuf {
    dir.with_extension("end")
}

/// The file with the number of a writer's acknowledged facts.
fn acked_of(dir: &Path, writer: u64) -> PathBuf {
    dir.with_extension(format!("acked.{writer}"))
}

fn acked(dir: &Path, writer: u64) -> u64 {
    let noted = std::fs::read(acked_of(dir, writer)).unwrap_or_default();
    noted.try_into().map_or(0, u64::from_le_bytes)
}

/// Does nothing unless a test started it as a process.
#[test]
fn process_that_takes_part() {
    let Ok(role) = std::env::var(ENV_ROLE) else {
        return;
    };
    let dir = PathBuf::from(std::env::var_os(ENV_DIR).unwrap());
    let seed = count(ENV_SEED, 0);
    let durability = if std::env::var_os(ENV_LEVEL).is_some() {
        Durability::Disk
    } else {
        Durability::Process
    };
    // The test harness has printed the start of a line.
    say("");
    match &*role {
        "append" => {
            let store = open(&dir, 3_000, durability);
            let noted = File::create(acked_of(&dir, seed)).unwrap();
            for number in 0..u64::MAX {
                for answer in store.record_batch(records(seed, number)).unwrap() {
                    answer.unwrap();
                }
                noted.write_all_at(&(number + 1).to_le_bytes(), 0).unwrap();
                say(&format!("ack {seed} {number}"));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        "read" => read(&dir, seed),
        _ => {
            let mut rng = Rng(seed);
            let store = open(&dir, 20_000, durability);
            for nth in 0.. {
                if let Some(word) = keep_up(&store, &mut rng, (seed, nth)) {
                    say(&format!("erased {word}"));
                }
            }
        }
    }
}

/// Compacts, retains, or records something and erases it; returns the erased text.
pub fn keep_up(store: &Store, rng: &mut Rng, (seed, nth): (u64, u64)) -> Option<String> {
    match rng.below(4) {
        0 => _ = compact(store, NOW),
        1 => _ = retain(store, NOW),
        _ => {
            let talk = 0xE << 124 | u128::from(seed) << 32 | u128::from(nth) << 12;
            let word = format!("{} {seed:016x} {nth}.", str::from_utf8(SECRET).unwrap());
            super::erase::record(store, conversation(talk, "ann", &word));
            let what = if rng.one_in(2) {
                Erasure::User("ann".into())
            } else {
                Erasure::Conversation(Uuid::from_u128(talk))
            };
            erase(store, &what);
            return Some(word);
        }
    }
    None
}

/// The last facts of a writer before `next` are there.
fn assert_last(store: &Store, writer: u64, next: u64) {
    let stays = (0..next).rev().filter(|number| !is_due(*number));
    for number in stays.take(3) {
        assert!(look(store, writer, number), "{number} of {writer}");
    }
}

fn read(dir: &Path, seed: u64) {
    let mut rng = Rng(seed);
    let mut store = open(dir, 3_000, Durability::Process);
    let mut follower = Follower::new(&store);
    let mut looks = 0u64;
    let first = Tally::from([(FIRST, FIRST_FACTS - 1)]);
    loop {
        for _ in 0..20 {
            let number = rng.below(FIRST_FACTS as usize) as u64;
            assert!(look(&store, FIRST, number) || is_due(number), "{number}");
        }
        assert_listed(&store, FIRST, FIRST_FACTS - 1);
        follower.go_on(Duration::ZERO);
        // Facts that this reader has followed are visible to its own handle; others may see them a
        // moment later, as they need not be acknowledged yet. Acknowledged facts are visible to
        // both.
        for (writer, next) in &follower.next {
            assert_last(&follower.store, *writer, *next);
            assert_last(&store, *writer, acked(dir, *writer));
        }
        if rng.one_in(30) {
            store = open(dir, 3_000, Durability::Process);
            assert_there(&store, &first);
            // A new follower gets all of them.
            let mut late = Follower::new(&store);
            late.go_on(Duration::ZERO);
            assert!(late.has_all(&first));
        }
        looks += 1;
        if let Ok(end) = std::fs::read_to_string(end_of(dir)) {
            let pairs = end.split_whitespace().map(|word| word.parse().unwrap());
            let pairs: Vec<u64> = pairs.collect();
            let tally: Tally = pairs
                .chunks_exact(2)
                .map(|pair| (pair[0], pair[1]))
                .collect();
            let deadline = Instant::now() + Duration::from_secs(60);
            while !follower.has_all(&tally) {
                assert!(
                    Instant::now() < deadline,
                    "{:?} of {tally:?}",
                    follower.next
                );
                follower.go_on(Duration::from_millis(100));
            }
            say(&format!("looked {looks} {}", follower.seen.len()));
            return;
        }
    }
}

/// A process and its output.
pub struct Party {
    kid: Kid,
    said: Option<JoinHandle<Vec<String>>>,
}

impl Party {
    pub fn start(
        role: &str,
        dir: &Path,
        seed: u64,
        is_disk: bool,
        tally: &Arc<Mutex<Tally>>,
    ) -> Party {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "parties::process_that_takes_part"])
            .args(["--test-threads=1", "--nocapture"])
            .env(ENV_ROLE, role)
            .env(ENV_DIR, dir)
            .env(ENV_SEED, seed.to_string());
        if is_disk {
            command.env(ENV_LEVEL, "");
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut kid = Kid(command.spawn().unwrap());
        let mut lines = BufReader::new(kid.0.stdout.take().unwrap());
        let tally = Arc::clone(tally);
        let said = std::thread::spawn(move || {
            let (mut said, mut line) = (Vec::new(), String::new());
            // The last line may be torn.
            while lines.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
                let words: Vec<&str> = line.split_whitespace().collect();
                if let ["ack", writer, number] = words[..] {
                    let (writer, number) = (writer.parse().unwrap(), number.parse().unwrap());
                    tally.lock().unwrap().insert(writer, number);
                } else {
                    said.push(line.trim_end().to_owned());
                }
                line.clear();
            }
            said
        });
        let said = Some(said);
        Party { kid, said }
    }

    /// Asserts that it has not ended by itself.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.kid.0.try_wait().unwrap() {
            self.fail(status);
        }
    }

    fn fail(&mut self, status: ExitStatus) -> ! {
        let mut why = String::new();
        let mut stderr = self.kid.0.stderr.take().unwrap();
        stderr.read_to_string(&mut why).unwrap();
        panic!("a process failed: {status}: {why}");
    }

    /// Kills it; returns its output until then.
    pub fn kill(mut self) -> Vec<String> {
        self.assert_running();
        self.kid.0.kill().unwrap();
        self.kid.0.wait().unwrap();
        self.said.take().unwrap().join().unwrap()
    }

    /// Waits for a successful end.
    pub fn end(mut self) -> Vec<String> {
        let status = self.kid.0.wait().unwrap();
        if !status.success() {
            self.fail(status);
        }
        self.said.take().unwrap().join().unwrap()
    }
}
