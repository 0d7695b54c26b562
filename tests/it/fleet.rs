//! Copies of a log in object storage and in PostgreSQL: the real binary is killed while it ships,
//! ships twice at once, and ships a log that is written, sealed, compacted and erased from.
//!
//! `DECKLOG_SHIPS` sets the number of runs that are killed, for each destination. PostgreSQL is
//! started on a temporary directory and a loopback port; its programs must be installed.

mod document;
mod postgres;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use decklog::record::ThoughtType;
use decklog::retention::{CompactOptions, EraseOptions, Erasure};
use decklog::ship::{Destination, ShipOptions, Shipper};
use decklog::thoughts::NewThought;
use decklog::{
    Client, CodeEditProposal, Conversation, ConversationMessage, ProposalStatus, ProposalStep,
    Record, Role, Store, Timestamp, ToolCallDone, ToolCallReq, ToolStatus, Validity, event_type,
};
use serde_json::Value;
use uuid::Uuid;

use self::postgres::Postgres;
use super::support::{DAY_1, DAY_MS, Rng, count, turn};

const BIN: &str = env!("CARGO_BIN_EXE_decklog");

/// A log that grows and changes at random.
struct Log {
    store: Store,
    rng: Rng,
    now: i64,
    conversations: Vec<Uuid>,
    erased: Vec<Uuid>,
    turns: u128,
}

fn word(id: Uuid) -> String {
    format!("word-{}", id.simple())
}

impl Log {
    fn new(dir: &Path, rng: Rng) -> Log {
        let options = Store::options().segment_bytes_max(16 << 10).upkeep(false);
        Log {
            store: options.open(dir).unwrap(),
            rng,
            now: DAY_1,
            conversations: Vec::new(),
            erased: Vec::new(),
            turns: 0,
        }
    }

    fn record(&self, records: Vec<Record>) {
        for ack in self.store.record_batch(records).unwrap() {
            ack.unwrap();
        }
    }

    fn converse(&mut self) {
        let id = Uuid::from_u128(u128::from(self.rng.next()));
        let at = |ms| Timestamp::from_ms(ms).unwrap();
        let begun = with!(Conversation::new(id, Client::Cli),
            created_at: at(self.now),
            updated_at: at(self.now),
        );
        let mut records: Vec<Record> = vec![begun.into()];
        for nth in 0..i64::try_from(self.rng.below(8)).unwrap() {
            // U+0000 is no text in PostgreSQL.
            let text = format!("{} {nth} ü\0\n", word(id));
            let message = ConversationMessage::new(id, Role::Assistant, text)
                .timestamp(at(self.now + nth))
                .model_used("small-1")
                .tokens_in(10 + nth)
                .tokens_out(nth)
                .tool_args(format!("{{\"of\":\"{}\\u0000\",\"n\":[1e3]}}", word(id)));
            records.push(message.into());
        }
        let request = ToolCallReq {
            started_at: Validity::at(self.now),
            arguments_json: Some(format!("not JSON: {}", word(id))),
            ..ToolCallReq::new(id, "call", "vendor", "tool")
        };
        records.push(request.into());
        if self.rng.one_in(2) {
            let done = ToolCallDone::new(id, "call", ToolStatus::Completed);
            let ended_at = Validity::at(self.now + DAY_MS / 2);
            records.push(ToolCallDone { ended_at, ..done }.into());
        }
        let diffs = format!("[\"{}\"]", word(id));
        records.push(CodeEditProposal::new(id, diffs, self.now).into());
        if self.rng.one_in(2) {
            let approved = ProposalStep::new(id, ProposalStatus::Approved, self.now + DAY_MS / 3);
            records.push(approved.into());
        }
        self.record(records);
        self.conversations.push(id);
    }

    fn change(&mut self) {
        match self.rng.below(16) {
            0..7 => self.converse(),
            7 => self.now += DAY_MS / 4,
            8 => {
                // Late facts, for a day that may be sealed.
                let now = std::mem::replace(&mut self.now, DAY_1);
                self.converse();
                self.now = now;
            }
            9 => drop(self.store.seal_at(self.now).unwrap()),
            10 if !self.conversations.is_empty() => {
                let place = self.rng.below(self.conversations.len());
                let id = self.conversations.swap_remove(place);
                for what in [Erasure::Conversation(id), Erasure::Request(id)] {
                    self.store.erase(&what, EraseOptions::default()).unwrap();
                }
                self.erased.push(id);
            }
            11 => drop(self.store.compact(CompactOptions::default()).unwrap()),
            12 => {
                // A turn that moves to another day, or is retracted.
                let id = self.rng.below(5) as u128;
                self.turns += 1;
                let at = self.now + (self.turns % 3) as i64 * DAY_MS;
                let mut moved = turn(id, &format!("version {}", self.turns), at);
                moved.created_at.is_valid = !self.rng.one_in(3);
                let _ = self.store.record(moved);
            }
            13 => {
                let task = self
                    .store
                    .inbox()
                    .enqueue(self.turns as i64 + self.now, Some("{}"));
                drop(task.unwrap());
                self.turns += 1;
                if let Some(task) = self.store.inbox().claim().unwrap() {
                    self.store.inbox().done(&task).unwrap();
                }
            }
            14 => {
                let thought = NewThought {
                    thought_type: ThoughtType::Plan,
                    task_id: "task".into(),
                    agent_id: "agent".into(),
                    content: "a plan".into(),
                };
                drop(self.store.thoughts().create(thought).unwrap());
            }
            _ => drop(
                self.store
                    .log_event(None, event_type::AGENT_STARTED, Some("[1]"))
                    .unwrap(),
            ),
        }
    }
}

/// Starts `decklog ship`.
fn ship(store: &Path, destination: &str, options: &[&str]) -> Child {
    let mut command = Command::new(BIN);
    command
        .arg("--store")
        .arg(store)
        .args(["ship", destination]);
    command
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

fn run(arguments: &[&str]) -> String {
    let output = Command::new(BIN).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The files of a store that hold facts.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    super::erase::each_file(dir, &mut |path, bytes| {
        let path = path.strip_prefix(dir).unwrap().to_path_buf();
        let name = path.to_str().unwrap();
        if name.starts_with("20") || ["decklog.json", "removals.jsonl"].contains(&name) {
            found.insert(path.clone(), bytes.to_vec());
        }
    });
    found
}

/// Ships while the log changes and shippers are killed, then checks what is there.
fn kill_shippers(destination: &str, dir: &Path, check: &mut dyn FnMut(&Log)) {
    let path = dir.join("log");
    let mut log = Log::new(&path, Rng::seeded("fleet"));
    let runs = count("DECKLOG_SHIPS", 8);
    for nth in 0..runs {
        for _ in 0..log.rng.below(12) {
            log.change();
        }
        // One process ships alone, or several race.
        let mut shippers: Vec<Child> = (0..=log.rng.below(2))
            .map(|_| {
                let follows: &[&str] = if log.rng.one_in(2) {
                    &["--follow"]
                } else {
                    &[]
                };
                ship(&path, destination, follows)
            })
            .collect();
        let until = log.rng.below(400) as u64;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(until));
                stop.store(true, Ordering::Release);
            });
            while !stop.load(Ordering::Acquire) {
                log.change();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        for shipper in &mut shippers {
            shipper.kill().unwrap();
            shipper.wait().unwrap();
        }
        if nth % 4 == 3 || nth + 1 == runs {
            run(&["--store", path.to_str().unwrap(), "ship", destination]);
            check(&log);
        }
    }
}

#[test]
fn objects_are_whole_after_kills() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    let destination = bucket.to_str().unwrap().to_owned();
    kill_shippers(&destination, dir.path(), &mut |log| {
        run(&["verify", &destination]);
        let again = dir.path().join("again");
        let _ = fs::remove_dir_all(&again);
        run(&["pull", &destination, again.to_str().unwrap()]);
        let (here, there) = (files(log.store.path()), files(&again));
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&here), names(&there));
        assert!(here == there, "some file differs");
        run(&["--store", again.to_str().unwrap(), "verify", "--deep"]);

        // Nothing erased is there, and no object but those that are named.
        let mut objects = 0;
        super::erase::each_file(&bucket, &mut |path, bytes| {
            let name = path.to_str().unwrap();
            if path.extension().is_some_and(|it| it == "zst") {
                objects += 1;
                let lines = zstd::stream::decode_all(bytes).unwrap();
                let text = String::from_utf8_lossy(&lines);
                for id in &log.erased {
                    assert!(!text.contains(&word(*id)), "{id} is still in {name}");
                }
            }
        });
        let verified: Value =
            serde_json::from_str(&run(&["verify", &destination, "--json"])).unwrap();
        assert_eq!(verified["objects"], objects);
    });
}

#[test]
fn rows_follow_a_log_that_changes() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::new(&dir.path().join("log"), Rng::seeded("changes"));
    let destination = Destination::parse(postgres.url()).unwrap();
    let mut options = ShipOptions::default();
    options.follows = true;
    let mut shipper = Shipper::new(&log.store, &destination, options).unwrap();
    for _ in 0..count("DECKLOG_CHANGES", 20) {
        for _ in 0..=log.rng.below(4) {
            log.change();
        }
        shipper.ship().unwrap();
        compare(&postgres, &log);
    }
}

#[test]
fn rows_are_whole_after_kills() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    kill_shippers(postgres.url(), dir.path(), &mut |log| {
        compare(&postgres, log);
    });
}

#[test]
fn postgres_restarts_while_rows_are_copied() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = Log::new(&path, Rng::seeded("restarts"));
    let mut shipper = ship(&path, postgres.url(), &["--follow"]);
    for _ in 0..count("DECKLOG_RESTARTS", 2) {
        for _ in 0..60 {
            log.change();
            std::thread::sleep(Duration::from_millis(10));
        }
        postgres.restart();
    }
    let last = log.store.last_lines(1).unwrap()[0].seq;
    let shipped = || postgres.query("SELECT last_seq FROM decklog_stores");
    let began = std::time::Instant::now();
    while shipped() != last.to_string() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{} of {last}",
            shipped()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    shipper.kill().unwrap();
    shipper.wait().unwrap();
    compare(&postgres, &log);
}

/// Compares the rows with the records of the log.
fn compare(postgres: &Postgres, log: &Log) {
    let store = log.store.path().to_str().unwrap();
    let listed = |list: &str| -> BTreeSet<String> {
        let lines = run(&["--store", store, "export", "jsonl", list]);
        let records = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        records.map(|record| in_short(list, &record)).collect()
    };
    for (list, table, columns) in [
        (
            "messages",
            "messages",
            "id, conversation_id, sequence, content, tokens_in, tool_args->>'of'",
        ),
        (
            "conversations",
            "conversations",
            "id, message_count, total_tokens_in, models_used::text, status",
        ),
        (
            "calls",
            "tool_calls",
            "request_id, call_id, status, latency_ms, arguments_json#>>'{}'",
        ),
        (
            "proposals",
            "code_edit_proposals",
            "request_id, status, diffs_json->>0",
        ),
        ("turns", "conversation_turns", "id, content"),
        ("inbox", "inbox", "id, status, attempts"),
        ("events", "events", "id, event_type, payload::text"),
        ("thoughts", "thought_records", "id, hash"),
    ] {
        let sql = format!("SELECT to_json(ARRAY[{}]) FROM {table}", texts(columns));
        let rows = postgres.query(&sql);
        let rows: Vec<&str> = rows.lines().collect();
        let distinct: BTreeSet<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        assert_eq!(rows.len(), distinct.len(), "{table} has a row twice");
        let expected = listed(list);
        let missing: Vec<&String> = expected.difference(&distinct).take(3).collect();
        let surplus: Vec<&String> = distinct.difference(&expected).take(3).collect();
        assert!(
            missing.is_empty() && surplus.is_empty(),
            "{table}: missing {missing:?}, surplus {surplus:?}"
        );
    }
    let messages = run(&["--store", store, "export", "jsonl", "messages"])
        .lines()
        .count();
    let sums = postgres.query("SELECT coalesce(sum(messages), 0) FROM daily_totals");
    // Erased messages are not in the sums of the log either.
    assert_eq!(sums, messages.to_string(), "daily_totals");
    let empty = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'messages'::regclass";
    let days = "SELECT count(DISTINCT timestamp::date) FROM messages";
    assert_eq!(
        postgres.query(empty),
        postgres.query(days),
        "partitions of messages"
    );
}

fn texts(columns: &str) -> String {
    let columns = columns
        .split(", ")
        .map(|column| format!("({column})::text"));
    columns.collect::<Vec<_>>().join(", ")
}

/// The compared fields of a record, as the query has them.
fn in_short(list: &str, record: &Value) -> String {
    let replaced = |text: &str| text.replace('\0', "\u{fffd}");
    let text = |value: &Value| match value {
        Value::Null => Value::Null,
        Value::String(text) => replaced(text).into(),
        other => other.to_string().into(),
    };
    let fields: Vec<Value> = match list {
        "messages" => {
            let of = record["tool_args"]["of"].clone();
            let names = ["id", "conversation_id", "sequence", "content", "tokens_in"];
            names
                .iter()
                .map(|name| record[*name].clone())
                .chain([of])
                .collect()
        }
        "conversations" => {
            let models = record["models_used"].to_string();
            vec![
                record["id"].clone(),
                record["message_count"].clone(),
                record["total_tokens_in"].clone(),
                models.into(),
                record["status"].clone(),
            ]
        }
        "calls" => [
            "request_id",
            "call_id",
            "status",
            "latency_ms",
            "arguments_json",
        ]
        .map(|name| record[name].clone())
        .to_vec(),
        "proposals" => vec![
            record["request_id"].clone(),
            record["status"].clone(),
            record["diffs_json"][0].clone(),
        ],
        "turns" => ["id", "content"].map(|name| record[name].clone()).to_vec(),
        "inbox" => ["id", "status", "attempts"]
            .map(|name| record[name].clone())
            .to_vec(),
        "events" => ["id", "event_type", "payload"]
            .map(|name| record[name].clone())
            .to_vec(),
        _ => ["id", "hash"].map(|name| record[name].clone()).to_vec(),
    };
    let fields: Vec<Value> = fields.iter().map(text).collect();
    serde_json::to_string(&fields).unwrap()
}
