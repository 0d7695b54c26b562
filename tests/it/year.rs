//! A store that an agent writes to for a year, with retention: nothing that expired is left,
//! everything else is, and the totals are still reported.

mod agent;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use decklog::health::{VerifyOptions, verify_with};
use decklog::query::{MessageQuery, RollupQuery, TaskQuery};
use decklog::retention::{CompactOptions, RetainOptions, Retained};
use decklog::storage::Disk;
use decklog::{AckStatus, Kind, Options, Record, Settings, Store};

use self::agent::{Agent, FIRST_DAY, Keep};
use super::support::{DAY_MS, Rng, count, plain_users};
use super::upkeep::record;

/// Records are removed only when the test says so, because the year is not that of the machine's
/// clock.
fn settings() -> Settings {
    let mut settings = plain_users();
    settings.privacy.auto_delete = false;
    settings.retention.events = Some(decklog::retention::Keep::Days(90));
    settings
}

/// Opens a handle.
type Opening = Box<dyn Fn() -> Options>;

/// Several handles on one store, used in turn.
struct Year {
    dir: tempfile::TempDir,
    opening: Opening,
    handles: Vec<Store>,
    agent: Agent,
    keep: Keep,
    last_seq: u64,
    last_ids: HashMap<Kind, i64>,
    records: u64,
    longest: [Duration; 3],
}

impl Year {
    fn new(rng: Rng, keep: Keep, opening: Opening) -> Year {
        let dir = tempfile::tempdir().unwrap();
        let handles = (0..3).map(|_| opening().open(dir.path().join("log")));
        Year {
            handles: handles.collect::<Result<_, _>>().unwrap(),
            dir,
            opening,
            agent: Agent::new(rng),
            keep,
            last_seq: 0,
            last_ids: HashMap::new(),
            records: 0,
            longest: [Duration::ZERO; 3],
        }
    }

    fn nth_day(&self) -> i64 {
        self.agent.today - FIRST_DAY
    }

    /// The handle of today, another one than yesterday.
    fn store(&self) -> &Store {
        &self.handles[self.nth_day().unsigned_abs() as usize % self.handles.len()]
    }

    /// Appends the day's records. Each has a higher sequence number than all before it.
    fn append(&mut self, records: usize) {
        let records = self.agent.work(records);
        self.records += records.len() as u64;
        for records in records.chunks(500) {
            let kinds: Vec<Kind> = records.iter().map(Record::kind).collect();
            let is_step = |record: &Record| matches!(record, Record::InboxStep(_));
            let steps: Vec<bool> = records.iter().map(is_step).collect();
            let answers = self.store().record_batch(records.iter().cloned()).unwrap();
            for ((answer, kind), is_step) in answers.into_iter().zip(kinds).zip(steps) {
                let ack = answer.unwrap();
                assert_eq!(ack.status, AckStatus::Added);
                assert!(ack.seq > self.last_seq, "{ack:?} after {}", self.last_seq);
                self.last_seq = ack.seq;
                let is_numbered = [Kind::Events, Kind::Inbox, Kind::History].contains(&kind);
                if is_numbered && !is_step {
                    let last = self.last_ids.entry(kind).or_default();
                    *last += 1;
                    assert_eq!(ack.assigned, Some(*last), "{kind}");
                }
            }
        }
    }

    fn retain(&mut self) -> Retained {
        let now = self.agent.evening();
        let began = Instant::now();
        self.store().seal_at(now).unwrap();
        self.took(0, began);
        let options = RetainOptions {
            now,
            ..RetainOptions::default()
        };
        let began = Instant::now();
        let retained = self.store().retain(options).unwrap();
        self.took(1, began);
        self.agent.known.forget(self.agent.today, self.keep);
        retained
    }

    fn compact(&mut self) {
        let options = CompactOptions {
            now: self.agent.evening(),
            ..CompactOptions::default()
        };
        let began = Instant::now();
        self.store().compact(options).unwrap();
        self.took(2, began);
    }

    fn took(&mut self, what: usize, began: Instant) {
        self.longest[what] = self.longest[what].max(began.elapsed());
    }

    /// Every byte is as it was written, and only removed lines are missing.
    fn verify(&self, deep: bool) {
        let options = VerifyOptions {
            deep,
            ..VerifyOptions::default()
        };
        let found = verify_with(&Disk::new(self.path()), &options).unwrap();
        let day = self.nth_day();
        assert!(found.is_clean(), "day {day}: {found:?}");
        assert_eq!(found.interrupted, Vec::<String>::new(), "day {day}");
        assert_eq!(found.foreign, Vec::<String>::new(), "day {day}");
        assert_eq!(self.store().damage().unwrap(), [], "day {day}");
        for check in self.store().thoughts().verify_chains().unwrap() {
            assert!(check.is_intact(), "day {day}: {check:?}");
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("log")
    }

    /// Closes one handle, and opens another one instead.
    fn reopen(&mut self) {
        let place = (self.nth_day().unsigned_abs() as usize + 1) % self.handles.len();
        self.handles.remove(place);
        let store = (self.opening)().open(self.path()).unwrap();
        self.handles.insert(place, store);
    }
}

/// Number of records of each kind and day in a store.
fn counts(store: &Store) -> BTreeMap<(Kind, i64), u64> {
    let limit = usize::MAX;
    let mut counts = BTreeMap::new();
    let mut add = |kind, at: i64| *counts.entry((kind, at / DAY_MS)).or_default() += 1;
    let turns = decklog::query::TurnQuery {
        limit,
        ..Default::default()
    };
    for turn in store.turns(&turns).unwrap().items {
        add(Kind::ConversationTurns, turn.created_at.at);
    }
    let calls = decklog::query::CallQuery {
        limit,
        ..Default::default()
    };
    for (req, _) in store.tool_calls(&calls).unwrap().items {
        add(Kind::ToolCalls, req.started_at.at);
    }
    let proposals = decklog::query::ProposalQuery {
        limit,
        ..Default::default()
    };
    for proposal in store.proposals(&proposals).unwrap().items {
        add(Kind::CodeEditProposals, proposal.created_at.at);
    }
    let conversations = decklog::query::ConversationQuery {
        limit,
        ..Default::default()
    };
    for (conversation, stats) in store.conversations(&conversations).unwrap().items {
        add(Kind::Conversations, conversation.created_at.at());
        let all = MessageQuery {
            limit,
            ..MessageQuery::default()
        };
        let messages = store.messages(conversation.id, &all).unwrap().items;
        assert_eq!(messages.len() as u64, stats.message_count);
        for message in messages {
            add(Kind::Messages, message.timestamp.at());
        }
    }
    let events = decklog::query::EventQuery {
        limit,
        ..Default::default()
    };
    for event in store.events(&events).unwrap().items {
        add(Kind::Events, event.created_at);
    }
    let tasks = TaskQuery {
        limit,
        ..TaskQuery::default()
    };
    for task in store.inbox().list(&tasks).unwrap().items {
        add(Kind::Inbox, task.created_at);
    }
    for chat in 0..3 {
        for entry in store.history(chat, limit).unwrap() {
            add(Kind::History, entry.created_at);
        }
    }
    for thought in store.thoughts().list(None, None).unwrap() {
        add(Kind::ThoughtRecords, thought.timestamp.at());
    }
    counts
}

fn check_counts(store: &Store, year: &Year) {
    let (there, known) = (counts(store), year.agent.known.counts());
    if there != known {
        let keys: BTreeSet<_> = there.keys().chain(known.keys()).collect();
        let differ = keys.iter().filter(|key| there.get(key) != known.get(key));
        let differ: Vec<_> = differ
            .map(|key| (key, there.get(key), known.get(key)))
            .collect();
        panic!(
            "day {}: there and expected differ: {differ:?}",
            year.agent.today
        );
    }
}

/// Every segment, with its length.
fn segments(path: &Path) -> BTreeMap<String, u64> {
    let mut segments = BTreeMap::new();
    for day in std::fs::read_dir(path).unwrap() {
        let day = day.unwrap();
        let name = day.file_name().into_string().unwrap();
        if !name.starts_with("20") {
            continue;
        }
        for file in std::fs::read_dir(day.path()).unwrap() {
            let file = file.unwrap();
            let file_name = file.file_name().into_string().unwrap();
            if file_name != "seals.jsonl" {
                let len = file.metadata().unwrap().len();
                segments.insert(format!("{name}/{file_name}"), len);
            }
        }
    }
    segments
}

/// A line of `/proc/self/status`, in MiB; 0 where the system has none.
fn memory_mib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[test]
fn a_year_ends_with_what_should_be_left() {
    let rng = Rng::seeded("a_year_ends_with_what_should_be_left");
    let per_day = count("DECKLOG_YEAR_RECORDS", 8) as usize;
    // Long enough that all but the aggregates expire; a whole year takes a while.
    let days = count("DECKLOG_YEAR_DAYS", 110);
    let opening = || Store::options().settings(settings());
    let mut year = Year::new(rng, Keep::DEFAULT, Box::new(opening));
    let reader = Store::options().read_only(true).open(year.path()).unwrap();
    let began = Instant::now();
    for day in 0..days {
        year.append(per_day);
        year.retain();
        if day % 7 == 6 {
            year.compact();
            year.verify(false);
            let rollups = year.store().rollups(&RollupQuery::default()).unwrap();
            year.agent.known.check_rollups(&rollups);
        }
        if day % 30 == 29 {
            year.verify(true);
            check_counts(&reader, &year);
            println!(
                "day {day}: {} records, {} segments of {} bytes, {} MiB, {:.0?}; longest seal, retain, compact {:.2?}",
                year.records,
                segments(&year.path()).len(),
                segments(&year.path()).values().sum::<u64>(),
                memory_mib("VmRSS"),
                began.elapsed(),
                year.longest,
            );
        }
        if day % 50 == 49 {
            year.reopen();
        }
        year.agent.today += 1;
    }
    year.agent.today -= 1;
    let elapsed = began.elapsed();
    let fresh = Store::options().read_only(true).open(year.path()).unwrap();
    for store in year.handles.iter().chain([&reader, &fresh]) {
        check_counts(store, &year);
        let rollups = store.rollups(&RollupQuery::default()).unwrap();
        year.agent.known.check_rollups(&rollups);
        let told: u64 = rollups.iter().map(|rollup| rollup.messages).sum();
        assert_eq!(told, year.agent.known.messages_ever);
        assert!(told > year.agent.known.messages());
    }
    year.verify(true);
    let left = segments(&year.path());
    println!(
        "{} records; left {} days, {} segments of {} bytes; {:.1?}; longest seal, retain, compact {:.2?}; at most {} MiB",
        year.records,
        days_of(&left).len(),
        left.len(),
        left.values().sum::<u64>(),
        elapsed,
        year.longest,
        memory_mib("VmHWM"),
    );
    // The records that are kept for a limited time are there for the right days, and no others.
    let known = year.agent.known.counts();
    for kind in [
        Kind::ConversationTurns,
        Kind::ToolCalls,
        Kind::Messages,
        Kind::Events,
    ] {
        let first = *known
            .keys()
            .find(|(of, _)| *of == kind)
            .map(|(_, day)| day)
            .unwrap();
        // A turn that was recorded again belongs to two days.
        let first = first - i64::from(kind == Kind::ConversationTurns);
        let first = decklog::record::Day::of(first * DAY_MS)
            .unwrap()
            .to_string();
        let stem = format!("/{}.", kind.stem());
        let older = left
            .keys()
            .find(|name| name.contains(&stem) && **name < first);
        assert_eq!(older, None);
    }
    // No more records are added, and the aggregates expire when they are a year old.
    for days in [40, 100] {
        year.agent.today += days;
        year.retain();
        check_counts(&reader, &year);
        let rollups = reader.rollups(&RollupQuery::default()).unwrap();
        assert!(!rollups.is_empty());
        year.agent.known.check_rollups(&rollups);
        year.verify(true);
    }
    // The log still works.
    year.append(per_day);
    year.verify(true);
}

fn days_of(segments: &BTreeMap<String, u64>) -> BTreeSet<&str> {
    segments.keys().map(|name| &name[..10]).collect()
}

#[test]
fn a_store_with_a_cap_stays_below_it() {
    const CAP: u64 = 96 << 10;
    const SEGMENT: u64 = 8 << 10;
    let rng = Rng::seeded("a_store_with_a_cap_stays_below_it");
    let opening = || {
        let mut settings = settings();
        for (name, value) in [
            ("retention.max_bytes", "98304"),
            ("retention.code_edit_proposals", "90"),
            ("retention.inbox", "90"),
            ("retention.history", "90"),
            ("retention.thought_records", "90"),
        ] {
            settings.set(name, value).unwrap();
        }
        let options = Store::options().segment_bytes_max(SEGMENT);
        options.settings(settings)
    };
    let mut year = Year::new(rng, Keep::DEFAULT, Box::new(opening));
    let (mut fullest, mut was_over) = (0, 0);
    for day in 0..100 {
        if day == 60 {
            // From now on, more data must be kept every day.
            let forever = |settings: &mut Settings| {
                for name in ["history", "inbox", "messages", "thought_records"] {
                    let name = format!("retention.{name}");
                    settings.set(&name, "forever").unwrap();
                }
            };
            year.store().change_settings(forever).unwrap();
        }
        // Records that continue an entity removed because of the size limit are not accepted.
        let records = year.agent.work(40);
        record(year.store(), records);
        let retained = year.retain();
        let all = segments(&year.path());
        let capped = all.iter().filter(|(name, _)| !name.contains("/rollups."));
        let total = capped.map(|(_, bytes)| bytes).sum::<u64>();
        assert_eq!(retained.bytes_over, total.saturating_sub(CAP), "day {day}");
        if day < 60 {
            assert!(total <= CAP + SEGMENT, "day {day}: {total}");
            assert_eq!(retained.bytes_over, 0, "day {day}");
            fullest = fullest.max(total);
        }
        was_over += u32::from(retained.bytes_over > 0);
        if day % 7 == 6 {
            year.compact();
            year.verify(day % 28 == 27);
        }
        year.agent.today += 1;
    }
    assert!(fullest > CAP / 2, "{fullest}");
    assert!(was_over > 10, "{was_over}");
    year.agent.today -= 1;
    // All that is not kept forever is from the last day, or from a tree that grew on it.
    let events = decklog::query::EventQuery {
        limit: usize::MAX,
        ..Default::default()
    };
    let events = year.store().events(&events).unwrap().items;
    let by_id: HashMap<i64, _> = events.iter().map(|event| (event.id, event)).collect();
    let root_of = |event: &decklog::Event| {
        let mut root = event.id;
        while let Some(parent) = by_id[&root].parent_id.filter(|id| by_id.contains_key(id)) {
            root = parent;
        }
        root
    };
    let of_today = events
        .iter()
        .filter(|event| event.created_at / DAY_MS == year.agent.today);
    let grew: HashSet<i64> = of_today.map(root_of).collect();
    for event in &events {
        assert!(grew.contains(&root_of(event)), "{event:?} is left");
    }
    year.verify(true);
}

#[test]
fn a_chain_goes_on_where_its_start_is_gone() {
    let rng = Rng::seeded("a_chain_goes_on_where_its_start_is_gone");
    let opening = || {
        let mut settings = settings();
        settings.set("retention.thought_records", "60").unwrap();
        Store::options().settings(settings)
    };
    let keep = Keep {
        thought_days: 60,
        ..Keep::DEFAULT
    };
    let mut year = Year::new(rng, keep, Box::new(opening));
    let mut heads: HashMap<String, String> = HashMap::new();
    let mut went_on = 0;
    for day in 0..260 {
        let before = year.store().thoughts().list(None, None).unwrap();
        let there: BTreeSet<_> = before.into_iter().map(|thought| thought.task_id).collect();
        year.append(20);
        for thought in year.store().thoughts().list(None, None).unwrap() {
            if thought.timestamp.at() / DAY_MS < year.agent.today {
                continue;
            }
            let task = thought.task_id;
            let head = heads.insert(task.clone(), thought.hash);
            if let Some(head) = head {
                assert_eq!(thought.prev_hash, head, "day {day}");
                // None of its earlier thoughts are left.
                went_on += u32::from(!there.contains(&task));
            } else {
                assert_eq!(
                    thought.prev_hash,
                    decklog::record::GENESIS_HASH,
                    "day {day}"
                );
            }
        }
        year.retain();
        if day % 7 == 6 {
            year.compact();
            year.verify(day % 28 == 27);
            check_counts(year.store(), &year);
        }
        if day % 50 == 49 {
            year.reopen();
        }
        year.agent.today += 1;
    }
    assert!(went_on > 3, "{went_on}");
    year.agent.today -= 1;
    let fresh = Store::open(year.path()).unwrap();
    for store in year.handles.iter().chain([&fresh]) {
        check_counts(store, &year);
        let checks = store.thoughts().verify_chains().unwrap();
        assert!(checks.iter().all(decklog::thoughts::ChainCheck::is_intact));
    }
}
