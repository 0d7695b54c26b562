//! Totals of messages by day and group are the same from the messages alone, from rollups plus
//! later messages, from rollups that were partly written before a crash, and with concurrent
//! writers. The expected totals are computed from every message ever recorded.
//!
//! `DECKLOG_ROLLUPS_CASES` sets the number of random logs.

#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss
)]

mod again;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use decklog::query::RollupQuery;
use decklog::record::{Day, IdHashes, MessageSums, Rollup, Sketch};
use decklog::storage::{Memory, Storage};
use decklog::{
    AckStatus, Client, Conversation, ConversationMessage, Durability, ErrorKind, Record, Role,
    Store, Timestamp, verify,
};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng, count, in_memory, still};

type Group = [Option<String>; 4];

fn day(n: u64) -> Day {
    Day::of(DAY_1 + n as i64 * DAY_MS).unwrap()
}

fn conversation(n: u64) -> Uuid {
    Uuid::from_u128(0xC0_0000 + u128::from(n))
}

fn group_of(message: &ConversationMessage) -> Group {
    [
        message.model_used.clone(),
        message.config_used.clone(),
        message.orchestration_mode.clone(),
        message.task_type.clone(),
    ]
}

/// A message of one of three days, in few groups.
fn message(rng: &mut Rng, conversation_id: Uuid) -> ConversationMessage {
    let at = DAY_1 + rng.below(3) as i64 * DAY_MS + rng.below(DAY_MS as usize) as i64;
    let some = |rng: &mut Rng, names: &[&str]| rng.one_in(2).then(|| (*rng.pick(names)).to_owned());
    let role = *rng.pick(Role::ALL);
    let error = rng.one_in(5).then(|| "no".to_owned());
    let message = with!(ConversationMessage::new(conversation_id, role, "words"),
        id: Uuid::from_u64_pair(rng.next(), rng.next()),
        timestamp: Timestamp::from_ms(at).unwrap(),
        model_used: some(rng, &["small-1", "big \"2\""]),
        config_used: some(rng, &["fast"]),
        orchestration_mode: some(rng, &["small-1"]),
        // Answers would inherit that of their request.
        task_type: (rng.one_in(8) && role != Role::User).then(|| "code".to_owned()),
        tokens_in: rng.one_in(2).then(|| rng.below(10_000) as i64),
        tokens_out: rng.one_in(2).then(|| *rng.pick(&[0, 7, i64::MAX])),
        latency_ms: rng
            .one_in(2)
            .then(|| (rng.next() >> rng.below(60).max(1)) as i64),
        context_utilization: rng
            .one_in(2)
            .then(|| (rng.next() >> 11) as f64 / (1u64 << 53) as f64),
        compression_applied: rng.one_in(3).then(|| rng.one_in(2)),
        error_type: some(rng, &["timeout", "refused"]),
        error,
    );
    let half = |of: Option<i64>| of.filter(|n| n % 3 > 0).map(|n| n / 2);
    with!(message.clone(),
        cost_usd: message.tokens_out.map(|tokens| match tokens {
            0 => 0.0,
            7 => 0.012_345_678_9,
            _ => 1e300,
        }),
        tokens_cache_write: half(message.tokens_in),
        tokens_cache_write_1h: half(half(message.tokens_in)),
        tokens_cache_read: half(message.tokens_in),
        tokens_reasoning: half(message.tokens_out),
    )
}

/// The expected rollups of a day, computed from its messages.
fn expected(day: Day, all: &[ConversationMessage]) -> Vec<Rollup> {
    let of_day = |message: &&ConversationMessage| Day::of(message.timestamp.at()).unwrap() == day;
    let mut groups: BTreeMap<Group, Vec<&ConversationMessage>> = BTreeMap::new();
    for message in all.iter().filter(of_day) {
        groups.entry(group_of(message)).or_default().push(message);
    }
    let distinct = |messages: &mut dyn Iterator<Item = &ConversationMessage>| {
        let ids: BTreeSet<Uuid> = messages.map(|message| message.conversation_id).collect();
        ids.len() as u64
    };
    let active_conversations = distinct(&mut all.iter().filter(of_day));
    let rollup = |(group, messages): (Group, Vec<&ConversationMessage>)| {
        let is_request = |one: &&&ConversationMessage| one.role == Role::Assistant;
        let requests = messages.iter().filter(is_request).count() as u64;
        let all = sums(&messages);
        let mut others = messages.clone();
        others.retain(|one| one.role != Role::Assistant);
        let [model_used, config_used, orchestration_mode, task_type] = group;
        Rollup {
            day,
            model_used,
            config_used,
            orchestration_mode,
            task_type,
            part: 0,
            through_seq: 0,
            messages: messages.len() as u64,
            requests,
            tokens_in: all.tokens_in,
            tokens_out: all.tokens_out,
            tokens_cache_write: all.tokens_cache_write,
            tokens_cache_write_1h: all.tokens_cache_write_1h,
            tokens_cache_read: all.tokens_cache_read,
            tokens_reasoning: all.tokens_reasoning,
            cost_nano_usd: all.cost_nano_usd,
            cost_count: all.cost_count,
            latency_ms_sum: all.latency_ms_sum,
            latency_count: all.latency_count,
            latency_sketch: all.latency_sketch,
            context_utilization_sum: all.context_utilization_sum,
            context_utilization_count: all.context_utilization_count,
            compressed: all.compressed,
            errors: all.errors,
            errors_by_type: all.errors_by_type,
            conversations: distinct(&mut messages.iter().copied()),
            active_conversations,
            others: sums(&others),
            message_hashes: IdHashes::default(),
            conversation_hashes: IdHashes::default(),
        }
    };
    groups.into_iter().map(rollup).collect()
}

/// The totals of messages.
fn sums(messages: &[&ConversationMessage]) -> MessageSums {
    let sum = |of: fn(&ConversationMessage) -> Option<i64>| {
        let numbers = messages.iter().filter_map(|message| of(message));
        numbers.fold(0_u64, |sum, n| sum.saturating_add(n.unsigned_abs()))
    };
    let how_many = |is: fn(&ConversationMessage) -> bool| {
        messages.iter().filter(|message| is(message)).count() as u64
    };
    let mut errors_by_type = BTreeMap::new();
    for message in messages.iter().filter(|message| message.error.is_some()) {
        if let Some(error_type) = &message.error_type {
            *errors_by_type.entry(error_type.clone()).or_default() += 1;
        }
    }
    let mut latency_sketch = Sketch::default();
    for message in messages {
        if let Some(ms) = message.latency_ms {
            latency_sketch.add(ms.unsigned_abs());
        }
    }
    let parts = messages.iter().filter_map(|one| one.context_utilization);
    MessageSums {
        tokens_in: sum(|one| one.tokens_in),
        tokens_out: sum(|one| one.tokens_out),
        tokens_cache_write: sum(|one| one.tokens_cache_write),
        tokens_cache_write_1h: sum(|one| one.tokens_cache_write_1h),
        tokens_cache_read: sum(|one| one.tokens_cache_read),
        tokens_reasoning: sum(|one| one.tokens_reasoning),
        cost_nano_usd: messages
            .iter()
            .filter_map(|one| one.cost_usd)
            .fold(0, |sum, usd| sum.saturating_add((usd * 1e9).round() as u64)),
        cost_count: how_many(|one| one.cost_usd.is_some()),
        latency_ms_sum: sum(|one| one.latency_ms),
        latency_count: how_many(|one| one.latency_ms.is_some()),
        latency_sketch,
        context_utilization_sum: parts.fold(0.0, |sum, part| sum + part),
        context_utilization_count: how_many(|one| one.context_utilization.is_some()),
        compressed: how_many(|one| one.compression_applied == Some(true)),
        errors: how_many(|one| one.error.is_some()),
        errors_by_type,
    }
}

fn check(store: &Store, all: &[ConversationMessage], case: &str) {
    let mut found = store.rollups(&RollupQuery::default()).unwrap();
    for rollup in &mut found {
        rollup.through_seq = 0;
    }
    let sum: Vec<Rollup> = (0..3).flat_map(|n| expected(day(n), all)).collect();
    assert_eq!(found.len(), sum.len(), "{case}");
    for (found, sum) in found.iter().zip(&sum) {
        assert_eq!(found, sum, "{case}");
    }
}

fn is_of_messages(path: &str, day: Day) -> bool {
    path.starts_with(&format!("{day}/messages."))
}

/// A copy of the store, in which each segment keeps only a part.
fn elsewhere(memory: &Memory, left: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> Memory {
    let other = Memory::new();
    other.create_dir("").unwrap();
    other.put_bytes("decklog.json", memory.bytes("decklog.json").unwrap());
    for dir in memory.read_dir("").unwrap() {
        if dir.name.parse::<Day>().is_err() {
            continue;
        }
        other.create_dir(&dir.name).unwrap();
        for file in memory.read_dir(&dir.name).unwrap() {
            let path = format!("{}/{}", dir.name, file.name);
            let bytes = left(&path, memory.bytes(&path).unwrap());
            other.put_bytes(&path, bytes);
        }
    }
    other
}

/// A copy without a day's messages up to a sequence number.
fn without(memory: &Memory, day: Day, through: u64) -> Memory {
    elsewhere(memory, |path, bytes| {
        let is_left = |line: &&[u8]| {
            let line: serde_json::Value = serde_json::from_slice(line).unwrap();
            line["seq"].as_u64().unwrap() > through
        };
        if !is_of_messages(path, day) {
            return bytes;
        }
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        lines.filter(is_left).flatten().copied().collect()
    })
}

/// A log of random messages, with a list of all of them.
struct Log {
    memory: Memory,
    store: Store,
    all: Vec<ConversationMessage>,
}

impl Log {
    fn new() -> Log {
        let memory = Memory::new();
        Log {
            store: in_memory(&memory, Durability::Process),
            memory,
            all: Vec::new(),
        }
    }

    fn add(&mut self, rng: &mut Rng, count: usize) {
        for n in 0..4 {
            let given = with!(Conversation::new(conversation(n), Client::Api),
                created_at: Timestamp::from_ms(DAY_1).unwrap(),
                updated_at: Timestamp::from_ms(DAY_1).unwrap(),
            );
            self.store.record(given).unwrap();
        }
        let messages: Vec<_> = (0..count)
            .map(|_| message(rng, conversation(rng.clone().next() % 4)))
            .collect();
        for answer in self
            .store
            .record_batch(messages.iter().cloned().map(Record::from))
            .unwrap()
        {
            answer.unwrap();
        }
        self.all.extend(messages);
    }

    fn remove(&mut self, day: Day, through: u64) {
        self.memory = without(&self.memory, day, through);
        self.store = in_memory(&self.memory, Durability::Process);
    }

    fn check(&self, case: &str) {
        check(&self.store, &self.all, case);
    }
}

#[test]
fn what_was_removed_still_adds_up() {
    let mut rng = Rng::seeded("what_was_removed_still_adds_up");
    for case in 0..count("DECKLOG_ROLLUPS_CASES", 12) {
        let mut log = Log::new();
        for step in 0..12 {
            let case = format!("case {case}, step {step}");
            let some = rng.below(200);
            log.add(&mut rng, some);
            log.check(&case);
            let day = day(rng.below(3) as u64);
            let through = log.store.roll_up(day).unwrap();
            log.check(&case);
            if rng.one_in(2) {
                log.remove(day, through);
                log.check(&case);
            }
            if rng.one_in(3) {
                let again = log.store.roll_up(day).unwrap();
                assert!(again >= through);
                log.check(&case);
            }
        }
        assert!(verify(&log.memory).unwrap().damage.is_empty());
    }
}

/// A crash leaves any number of a day's lines, the last one torn.
#[test]
fn rollups_that_were_written_in_part_count_nothing_twice() {
    let mut rng = Rng::seeded("rollups_that_were_written_in_part_count_nothing_twice");
    let mut log = Log::new();
    log.add(&mut rng, 150);
    let through = log.store.roll_up(day(0)).unwrap();
    log.remove(day(0), through);
    log.add(&mut rng, 150);
    let path = format!("{}/rollups.0001.jsonl", day(0));
    let before = log.memory.bytes(&path).unwrap().len();
    log.store.roll_up(day(0)).unwrap();
    log.store.sync().unwrap();
    let whole = log.memory.bytes(&path).unwrap();
    let ends = (before..whole.len()).filter(|end| whole[*end - 1] == b'\n');
    let cuts: Vec<usize> = ends.flat_map(|end| [end, end + 40]).collect();
    assert!(cuts.len() > 20);
    for cut in cuts {
        let case = format!("cut at {cut} of {}", whole.len());
        let memory = elsewhere(&log.memory, |found, mut bytes| {
            if found == path {
                bytes.truncate(cut);
            }
            bytes
        });
        let store = in_memory(&memory, Durability::Process);
        check(&store, &log.all, &case);
        let through = store.roll_up(day(0)).unwrap();
        check(&store, &log.all, &case);
        drop(store);
        let memory = without(&memory, day(0), through);
        let store = in_memory(&memory, Durability::Process);
        check(&store, &log.all, &case);
        let messages: u64 = memory
            .read_dir(&day(0).to_string())
            .unwrap()
            .into_iter()
            .filter(|file| file.name.starts_with("messages."))
            .map(|file| {
                memory
                    .bytes(&format!("{}/{}", day(0), file.name))
                    .unwrap()
                    .len() as u64
            })
            .sum();
        assert_eq!(messages, 0, "{case}: a message is left that nothing counts");
    }
}

/// Data is on disk when the call returns.
#[test]
fn a_power_cut_after_a_roll_up_takes_nothing_of_it() {
    let mut rng = Rng::seeded("a_power_cut_after_a_roll_up_takes_nothing_of_it");
    let memory = Memory::new();
    let store = still()
        .storage(Arc::new(memory.clone()))
        .open("memory")
        .unwrap();
    let mut log = Log {
        memory: memory.clone(),
        store,
        all: Vec::new(),
    };
    log.add(&mut rng, 100);
    let path = format!("{}/rollups.0001.jsonl", day(1));
    log.store.roll_up(day(1)).unwrap();
    let written = memory.bytes(&path).unwrap();
    let after = memory.after_power_cut(|_| 0);
    assert_eq!(after.bytes(&path), Some(written));
}

#[test]
fn only_a_rollup_that_reaches_farther_takes_the_place_of_another() {
    let mut rng = Rng(7);
    let mut log = Log::new();
    log.add(&mut rng, 50);
    log.store.roll_up(day(0)).unwrap();
    let standing = log
        .store
        .rollups(&RollupQuery::default())
        .unwrap()
        .remove(0);
    let Some(known) = log
        .store
        .last_lines(100)
        .unwrap()
        .into_iter()
        .find_map(|line| {
            let record = Record::from_json(&line.text).unwrap();
            let Record::Rollup(rollup) = record else {
                return None;
            };
            (rollup.model_used == standing.model_used
                && rollup.config_used == standing.config_used
                && rollup.orchestration_mode == standing.orchestration_mode
                && rollup.task_type == standing.task_type)
                .then_some((line.seq, *rollup))
        })
    else {
        panic!("no line of {standing:?}");
    };
    let (seq, known) = known;
    let again = log.store.record(known.clone()).unwrap();
    assert_eq!((again.seq, again.status), (seq, AckStatus::Unchanged));
    for through_seq in [0, known.through_seq - 1, known.through_seq] {
        let other = Rollup {
            through_seq,
            messages: known.messages + 1,
            ..known.clone()
        };
        let error = log.store.record(other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("through seq"), "{error}");
    }
    log.check("refused ones");
    let farther = Rollup {
        through_seq: known.through_seq + 1,
        ..known.clone()
    };
    assert_eq!(log.store.record(farther).unwrap().status, AckStatus::Added);
    let other_group = Rollup {
        task_type: Some("another".into()),
        through_seq: 0,
        ..known
    };
    assert_eq!(
        log.store.record(other_group).unwrap().status,
        AckStatus::Added
    );
}

#[test]
fn days_are_asked_for_from_one_on_until_before_another() {
    let mut rng = Rng(8);
    let mut log = Log::new();
    log.add(&mut rng, 60);
    let through = log.store.roll_up(day(1)).unwrap();
    log.remove(day(1), through);
    let days = |since: Option<u64>, until: Option<u64>| {
        let query = RollupQuery {
            since: since.map(day),
            until: until.map(day),
        };
        let found = log.store.rollups(&query).unwrap();
        let days: BTreeSet<Day> = found.iter().map(|rollup| rollup.day).collect();
        days.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(days(None, None), [day(0), day(1), day(2)]);
    assert_eq!(days(Some(1), None), [day(1), day(2)]);
    assert_eq!(days(Some(1), Some(2)), [day(1)]);
    assert_eq!(days(None, Some(1)), [day(0)]);
    assert_eq!(days(Some(3), None), []);
    assert_eq!(days(Some(2), Some(1)), []);
    // A day without messages has nothing to roll up.
    let lines = log.store.last_lines(usize::MAX).unwrap().len();
    log.store.roll_up(day(9)).unwrap();
    assert_eq!(log.store.last_lines(usize::MAX).unwrap().len(), lines);
}

/// Also if none of its counted messages are left.
#[test]
fn a_conversation_whose_messages_were_removed_counts_once() {
    let mut log = Log::new();
    let mut rng = Rng(9);
    log.add(&mut rng, 0);
    let say = |log: &Log, n: u64| {
        let said = with!(ConversationMessage::new(conversation(n), Role::User, "hi"),
            timestamp: Timestamp::from_ms(DAY_1).unwrap(),
        );
        log.store.record(said).unwrap();
    };
    let counts = |log: &Log| {
        let found = log.store.rollups(&RollupQuery::default()).unwrap();
        let [one] = &found[..] else {
            panic!("{found:?}")
        };
        (one.messages, one.conversations, one.active_conversations)
    };
    say(&log, 0);
    let through = log.store.roll_up(day(0)).unwrap();
    say(&log, 0);
    assert_eq!(counts(&log), (2, 1, 1));
    log.remove(day(0), through);
    assert_eq!(counts(&log), (2, 1, 1));
    say(&log, 0);
    say(&log, 1);
    assert_eq!(counts(&log), (4, 2, 2));
}

#[test]
fn many_roll_the_same_day_up_while_messages_come() {
    let mut rng = Rng::seeded("many_roll_the_same_day_up_while_messages_come");
    let mut log = Log::new();
    log.add(&mut rng, 300);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let over = || is_over.load(std::sync::atomic::Ordering::Relaxed);
    let memory = log.memory.clone();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let store = in_memory(&memory, Durability::Process);
            let over = &over;
            scope.spawn(move || {
                let mut last = 0;
                while !over() {
                    match store.roll_up(day(0)) {
                        Ok(through) => {
                            assert!(through >= last);
                            last = through;
                        }
                        // The other one was faster each time.
                        Err(e) => assert_eq!(e.kind(), ErrorKind::Conflict, "{e}"),
                    }
                }
            });
        }
        let reader = in_memory(&memory, Durability::Process);
        scope.spawn(move || {
            let mut last = 0;
            while !over() {
                let query = RollupQuery {
                    since: None,
                    until: Some(day(1)),
                };
                let Ok(found) = reader.rollups(&query) else {
                    continue;
                };
                let messages: u64 = found.iter().map(|rollup| rollup.messages).sum();
                assert!(messages >= last, "{messages} after {last}");
                last = messages;
            }
        });
        for _ in 0..40 {
            log.add(&mut rng, 20);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    log.check("all of it");
    log.store.roll_up(day(0)).unwrap();
    log.check("rolled up");
}
