//! Three months of an agent's work, in a log and in a database, and session files to import.

use std::fs;
use std::path::{Path, PathBuf};

use decklog::record::TaskStatus;
use decklog::retention::RetentionSettings;
use decklog::{
    Client, Conversation, ConversationMessage, ConversationTurn, Event, InboxTask, Record, Role,
    Settings, Store, Timestamp, TurnKind, Validity,
};
use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::sessions::write_sessions;
use crate::sqlite::{self, Synchronous};
use crate::work::{START_MS, call_under, key, text};

/// To change with what is generated.
pub const VERSION: u32 = 1;
/// A text that about 20 lines of the log have.
pub const RARE: &str = "Plugh-8472";

const DAYS: i64 = 90;
const DAY_MS: i64 = 86_400_000;
/// Lines of a step of the agent: a turn, calls with their outcomes, messages and an event.
const STEP_LINES: usize = 1 + 2 * STEP_CALLS + STEP_MESSAGES + 1;
const STEP_CALLS: usize = 4;
const STEP_MESSAGES: usize = 10;
/// Steps of a conversation, and of a task of the inbox.
const CONVERSATION_STEPS: usize = 8;
const TASK_STEPS: usize = 50;
/// Steps that are written at once.
const FILL_STEPS: usize = 100;
const RARE_LINES: usize = 20;

const SCHEMA: &str = "
    create table turns (id blob primary key, parent_id blob, kind text, at integer, content text);
    create table messages (id blob primary key, conversation_id blob not null, sequence integer,
        role text, at integer not null, day integer not null, model text, config text,
        tokens_in integer, tokens_out integer, latency_ms integer, content text);
    create index messages_by_day on messages (day, model, config, tokens_in, tokens_out);
    create table events (id integer primary key, parent_id integer, event_type text,
        at integer, payload text);
    create index events_by_type on events (event_type);
    create table inbox (id integer primary key, update_id integer, status text, at integer);
    create index inbox_by_status on inbox (status);";

/// What the rows are measured on.
pub struct Corpus {
    dir: PathBuf,
    lines: usize,
}

impl Corpus {
    /// Uses what an earlier run has made, if it is of this size.
    pub fn make(lines: usize, sessions_mb: usize) -> Corpus {
        let name = format!("one_shot-{VERSION}-{lines}-{sessions_mb}");
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let corpus = Corpus { dir, lines };
        let done = corpus.dir.join("done");
        if !done.exists() {
            let _ = fs::remove_dir_all(&corpus.dir);
            let sessions = corpus.sessions();
            fs::create_dir_all(&sessions).expect("a directory");
            write_sessions(&sessions, sessions_mb);
            corpus.fill();
            fs::write(done, "").expect("written");
        }
        corpus
    }

    pub fn described(&self) -> String {
        let bytes: u64 = self.segments().iter().map(|path| len_of(path)).sum();
        let megabytes = bytes / 1_000_000;
        format!("{} lines, {megabytes} MB, {DAYS} days", self.lines)
    }

    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub fn database(&self) -> PathBuf {
        self.dir.join("sqlite.db")
    }

    /// The home of Claude Code.
    pub fn claude(&self) -> PathBuf {
        self.dir.join("claude")
    }

    pub fn sessions(&self) -> PathBuf {
        self.claude().join("projects/bench")
    }

    /// The log that the sessions are imported to.
    pub fn imported(&self) -> PathBuf {
        self.dir.join("imported")
    }

    /// A log with nothing in it, to record to.
    pub fn empty(&self) -> PathBuf {
        self.dir.join("empty")
    }

    /// All segments, in the order of their names.
    pub fn segments(&self) -> Vec<PathBuf> {
        let files = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let days = files(&self.log()).into_iter();
        let days = days.filter(|day| day.is_dir() && name_of(day).starts_with("20"));
        let mut segments: Vec<PathBuf> = days.flat_map(|day| files(&day)).collect();
        segments.retain(|path| {
            let is_lines = path
                .extension()
                .is_some_and(|extension| extension == "jsonl");
            is_lines && name_of(path) != "seals.jsonl"
        });
        segments.sort();
        segments
    }

    /// A day in the middle, and the day after it.
    pub fn a_day() -> [String; 2] {
        let day = |nth| {
            let start = Timestamp::from_ms(START_MS - nth * DAY_MS).expect("a time");
            start.to_string()[..10].to_owned()
        };
        [day(DAYS / 2), day(DAYS / 2 - 1)]
    }

    fn steps(&self) -> usize {
        (self.lines / STEP_LINES).max(1)
    }

    /// The key of a call, and the turn that it is of.
    pub fn call(&self, nth: usize) -> (Uuid, String, Uuid) {
        let call = nth * 7_919 % (self.steps() * STEP_CALLS);
        let (request_id, call_id) = key(call);
        (request_id, call_id, turn_id(call / STEP_CALLS))
    }

    /// Records calls that are not in the saved index yet.
    pub fn record_unsaved(&self, calls: usize) {
        let options = Store::options().sidecar_bytes_min(u64::MAX).upkeep(false);
        let store = options.open(self.log()).expect("a store");
        let now = Timestamp::now().at();
        let first = usize::try_from(now).expect("after 1970");
        let records = (first..first + calls).map(|nth| {
            let (mut request, _) = call_under(nth, key(nth + (1 << 44)).0);
            request.started_at = Validity::at(now);
            Record::from(request)
        });
        let records: Vec<Record> = records.collect();
        for ack in store.record_batch(records).expect("a batch") {
            ack.expect("taken");
        }
    }

    /// Saves the index of all of the log.
    pub fn save_index(&self) {
        let options = Store::options().sidecar_bytes_min(0).upkeep(false);
        drop(options.open(self.log()).expect("a store"));
    }

    fn fill(&self) {
        let settings = Settings {
            retention: RetentionSettings::forever(),
            ..Settings::default()
        };
        for log in [self.log(), self.empty()] {
            let options = Store::options().settings(settings.clone()).upkeep(false);
            let store = options.open(log).expect("a store");
            drop(store);
        }
        let store = Store::options().upkeep(false).open(self.log());
        let store = store.expect("a store");
        let db = sqlite::calls(&self.database(), Synchronous::Normal);
        db.execute_batch(SCHEMA).expect("a schema");
        for first in (0..self.steps()).step_by(FILL_STEPS) {
            let steps = first..(first + FILL_STEPS).min(self.steps());
            let records: Vec<Record> = steps.flat_map(|step| self.step(step)).collect();
            sqlite::transaction(&db, || {
                for record in &records {
                    insert(&db, record);
                }
            });
            for ack in store.record_batch(records).expect("a batch") {
                ack.expect("taken");
            }
        }
        db.execute_batch("analyze").expect("analyzed");
        sqlite::checkpoint(&db);
    }

    /// The records of a step.
    fn step(&self, step: usize) -> Vec<Record> {
        let nth = i64::try_from(step).expect("few");
        let steps = i64::try_from(self.steps()).expect("few");
        let at = START_MS - DAYS * DAY_MS + DAYS * DAY_MS / steps * nth;
        let conversation_id = key(step / CONVERSATION_STEPS + (1 << 40)).0;
        let mut records: Vec<Record> = Vec::with_capacity(STEP_LINES + 2);
        if step.is_multiple_of(CONVERSATION_STEPS) {
            let time = Timestamp::from_ms(at).expect("a time");
            let conversation = Conversation::new(conversation_id, Client::Api);
            records.push(
                conversation
                    .created_at(time.clone())
                    .updated_at(time)
                    .into(),
            );
        }
        if step.is_multiple_of(TASK_STEPS) {
            let mut task = InboxTask::new(nth + 1, None);
            task.created_at = at;
            task.updated_at = at;
            task.status = TaskStatus::Queued;
            records.push(task.into());
        }
        let turn = turn_id(step);
        records.push(
            ConversationTurn {
                id: turn,
                parent_id: step.checked_sub(1).map(turn_id),
                message_id: turn,
                kind: TurnKind::User,
                content: text(step, 80),
                created_at: Validity::at(at),
                thread_id: None,
            }
            .into(),
        );
        for i in 0..STEP_CALLS {
            let (mut request, mut outcome) = call_under(step * STEP_CALLS + i, turn);
            request.started_at = Validity::at(at + 2);
            outcome.ended_at = Validity::at(at + 7);
            records.extend([request.into(), Record::CallDone(outcome)]);
        }
        for i in 0..STEP_MESSAGES {
            records.push(message(step * STEP_MESSAGES + i, conversation_id, at).into());
        }
        let mut event = Event::new(
            None,
            if step.is_multiple_of(97) {
                "agent.failed"
            } else {
                "turn.started"
            },
        );
        event.created_at = at;
        let is_rare = step.is_multiple_of(self.steps() / RARE_LINES + 1);
        let note = if is_rare { RARE } else { "as usual" };
        event.payload = Some(format!(r#"{{"step":{step},"note":"{note}"}}"#));
        records.push(event.into());
        records
    }
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

pub fn len_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn turn_id(step: usize) -> Uuid {
    key(step + (1 << 41)).0
}

/// Every other message is an answer, with its usage.
fn message(nth: usize, conversation_id: Uuid, at: i64) -> ConversationMessage {
    let is_answer = !nth.is_multiple_of(2);
    let role = if is_answer {
        Role::Assistant
    } else {
        Role::User
    };
    let mut message = ConversationMessage::new(conversation_id, role, text(nth, 60 + nth % 200))
        .id(key(nth + (1 << 42)).0)
        .timestamp(Timestamp::from_ms(at + 10).expect("a time"));
    if is_answer {
        let number = i64::try_from(nth).expect("few");
        message.model_used = Some(["big-2", "small-1", "local"][nth / 2 % 3].into());
        message.config_used = Some(["default", "fast"][nth / 6 % 2].into());
        message.tokens_in = Some(number % 8_000);
        message.tokens_out = Some(number % 2_000);
        message.latency_ms = Some(200 + number % 9_000);
    }
    message
}

fn insert(db: &Connection, record: &Record) {
    let run = |sql, values: &[&dyn rusqlite::ToSql]| {
        let statement = db.prepare_cached(sql);
        statement
            .and_then(|mut statement| statement.execute(values))
            .expect("inserted");
    };
    match record {
        Record::CallRequested(request) => sqlite::insert(db, request),
        Record::CallDone(outcome) => sqlite::update(db, outcome),
        Record::Turn(turn) => run(
            "insert into turns values (?,?,?,?,?)",
            params![
                turn.id.as_bytes(),
                turn.parent_id.map(Uuid::into_bytes),
                turn.kind.as_str(),
                turn.created_at.at,
                turn.content
            ],
        ),
        Record::Message(message) => {
            let at = message.timestamp.at();
            run(
                "insert into messages values (?,?,?,?,?,?,?,?,?,?,?,?)",
                params![
                    message.id.as_bytes(),
                    message.conversation_id.as_bytes(),
                    message.sequence,
                    message.role.as_str(),
                    at,
                    at / DAY_MS,
                    message.model_used,
                    message.config_used,
                    message.tokens_in,
                    message.tokens_out,
                    message.latency_ms,
                    message.content
                ],
            );
        }
        Record::Event(event) => run(
            "insert into events (event_type, at, payload) values (?,?,?)",
            params![event.event_type, event.created_at, event.payload],
        ),
        Record::InboxTask(task) => run(
            "insert into inbox (update_id, status, at) values (?,?,?)",
            params![task.update_id, task.status.as_str(), task.created_at],
        ),
        _ => {}
    }
}
