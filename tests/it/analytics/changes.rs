//! A handle that saw all changes gives the same answers as one that reads the current log.

use std::collections::BTreeMap;

use decklog::analytics::{Analytics, AnalyticsQuery, Bucket};
use decklog::record::{Day, event_type};
use decklog::retention::{CompactOptions, EraseOptions, Erasure, RetainOptions};
use decklog::storage::{Memory, Storage};
use decklog::{ConversationMessage, Durability, Event, Store};
use uuid::Uuid;

use super::{conversation, message, plain, queries};
use crate::support::{DAY_1, DAY_MS, Rng, all_lines, count, in_memory};

const DAYS: usize = 6;

/// A log changed in all possible ways by two handles, and the messages that its totals must
/// include.
struct Log {
    memory: Memory,
    writer: Store,
    other: Store,
    /// All counted messages, with the numbers of their lines.
    counted: Vec<(u64, ConversationMessage)>,
    conversations: Vec<Uuid>,
}

impl Log {
    fn new() -> Log {
        Log::of(Memory::new())
    }

    fn of(memory: Memory) -> Log {
        Log {
            writer: in_memory(&memory, Durability::Process),
            other: in_memory(&memory, Durability::Process),
            memory,
            counted: Vec::new(),
            conversations: Vec::new(),
        }
    }

    /// Messages on any of the days, including days that were rolled up, removed or sealed.
    fn say(&mut self, rng: &mut Rng, count: usize) {
        let store = if rng.one_in(2) {
            &self.writer
        } else {
            &self.other
        };
        for _ in 0..count {
            let at = DAY_1 + rng.below(DAYS * DAY_MS as usize) as i64;
            if self.conversations.len() < 3 || rng.one_in(15) {
                let id = Uuid::from_u64_pair(rng.next(), rng.next());
                let begun = DAY_1 + rng.below(DAYS) as i64 * DAY_MS;
                store.record(conversation(id, begun)).unwrap();
                self.conversations.push(id);
            }
            let id = *rng.pick(&self.conversations);
            let said = message(rng, id, at);
            let ack = store.record(said.clone()).unwrap();
            // An answer has the task type of its request.
            let stored = store.get_message(said.id).unwrap();
            self.counted.push((ack.seq, stored.unwrap()));
            if rng.one_in(4) {
                store.record(turn_completed(rng, at)).unwrap();
            }
        }
    }

    /// The sequence number up to which the messages of each day are rolled up.
    fn rolled(&self) -> BTreeMap<Day, u64> {
        let mut rolled = BTreeMap::new();
        for (_, record) in all_lines(&self.writer) {
            if let decklog::Record::Rollup(rollup) = record {
                let through: &mut u64 = rolled.entry(rollup.day).or_default();
                *through = rollup.through_seq.max(*through);
            }
        }
        rolled
    }

    fn erase(&mut self, rng: &mut Rng) {
        if self.conversations.is_empty() {
            return;
        }
        let id = self
            .conversations
            .swap_remove(rng.below(self.conversations.len()));
        let what = Erasure::Conversation(id);
        let options = EraseOptions::default();
        self.writer.erase(&what, options).unwrap();
        // Messages rolled up earlier still count.
        let rolled = self.rolled();
        self.counted.retain(|(seq, message)| {
            let day = Day::of(message.timestamp.at()).unwrap();
            message.conversation_id != id || rolled.get(&day).is_some_and(|through| seq <= through)
        });
    }

    fn retain(&mut self, rng: &mut Rng) {
        // Messages are kept for 90 days, so those of the first days are removed.
        let now = DAY_1 + (90 + rng.below(DAYS) as i64) * DAY_MS;
        let options = RetainOptions {
            now,
            ..RetainOptions::default()
        };
        self.writer.retain(options).unwrap();
        let left = |id: &Uuid| self.writer.get_conversation(*id).unwrap().is_some();
        self.conversations.retain(left);
    }

    fn compact(&mut self) {
        let options = CompactOptions {
            now: DAY_1 + 90 * DAY_MS,
            ..CompactOptions::default()
        };
        self.other.compact(options).unwrap();
    }

    /// Appends invalid bytes to a segment, and repairs it.
    fn repair(&mut self, rng: &mut Rng) {
        let day = Day::of(DAY_1 + rng.below(DAYS) as i64 * DAY_MS).unwrap();
        let path = format!("{day}/messages.0001.jsonl");
        let Some(mut bytes) = self.memory.bytes(&path) else {
            return;
        };
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0) + 1;
        bytes.splice(end..end, *b"not a line\n");
        self.memory.put_bytes(&path, bytes);
        self.other.refresh().unwrap();
        self.other.repair_and_accept_edits().unwrap();
    }

    fn check(&self, handles: &[Analytics]) {
        let counted = self.counted.iter().map(|(_, message)| message.clone());
        let counted: Vec<ConversationMessage> = counted.collect();
        let queries = &queries(DAY_1, DAYS as i64)[1..];
        let newcomer = in_memory(&self.memory, Durability::Process).analytics();
        let found = plain::all_of(&newcomer, queries);
        // Without the sums that others saved.
        let _ = self.memory.remove_file("cache/sums");
        let fresh = self.other.analytics();
        let is_gone = |id: &Uuid| self.other.get_message(*id).unwrap().is_none();
        let gone = counted.iter().map(|message| message.id).filter(is_gone);
        let all = plain::Plain::without(&counted, gone.collect());
        for query in &queries[1..6] {
            println!("{query:?}");
            plain::check(&fresh, &all, query);
        }
        let expected = plain::all_of(&fresh, queries);
        assert_eq!(found, expected);
        for handle in handles {
            assert_eq!(plain::all_of(handle, queries), expected);
        }
    }
}

fn turn_completed(rng: &mut Rng, at: i64) -> Event {
    let mut event = Event::new(None, event_type::TURN_COMPLETED);
    event.created_at = at;
    let model = rng.pick(&["a", "b"]);
    let tokens = rng.below(1_000);
    event.payload = Some(format!(
        r#"{{"model_name":"{model}","input_tokens":{tokens},"output_tokens":1}}"#
    ));
    event
}

/// The totals that a process finds which starts now, and those without the saved sums.
fn totals_after_restart(memory: &Memory) -> [Vec<serde_json::Value>; 2] {
    let queries = queries(DAY_1, DAYS as i64);
    let totals = || {
        let store = in_memory(memory, Durability::Process);
        plain::all_of(&store.analytics(), &queries[1..])
    };
    let found = totals();
    let _ = memory.remove_file("cache/sums");
    [found, totals()]
}

/// A log with messages and events on each day, and saved sums.
fn saved(rng: &mut Rng) -> Memory {
    let mut log = Log::new();
    log.say(rng, 120);
    for nth in 0..DAYS {
        let event = turn_completed(rng, DAY_1 + nth as i64 * DAY_MS);
        log.writer.record(event).unwrap();
    }
    let memory = log.memory.clone();
    drop(log);
    let [found, expected] = totals_after_restart(&memory);
    assert_eq!(found, expected);
    assert!(memory.bytes("cache/sums").is_some());
    memory
}

fn day(nth: usize) -> Day {
    Day::of(DAY_1 + nth as i64 * DAY_MS).unwrap()
}

#[test]
fn saved_sums_are_those_of_the_log_whatever_happened_to_its_files() {
    let mut rng = Rng::seeded("saved_sums_are_those_of_the_log_whatever_happened_to_its_files");
    for _ in 0..count("DECKLOG_ANALYTICS_CASES", 6) {
        for stem in ["messages", "events"] {
            let path = format!("{}/{stem}.0001.jsonl", day(rng.below(DAYS)));
            // The sums are saved while the segment is not there, and it comes back.
            let memory = saved(&mut rng);
            let bytes = memory.bytes(&path).unwrap();
            memory.remove_file(&path).unwrap();
            let [found, expected] = totals_after_restart(&memory);
            assert_eq!(found, expected, "{path} is gone");
            memory.put_bytes(&path, bytes.clone());
            let [found, expected] = totals_after_restart(&memory);
            assert_eq!(found, expected, "{path} is back");

            // A power cut takes the end, and the numbers of its lines are assigned again.
            let ends = bytes.iter().enumerate();
            let ends = ends.filter(|(_, byte)| **byte == b'\n');
            let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
            memory.put_bytes(&path, bytes[..*rng.pick(&ends)].to_vec());
            memory.remove_file("HEAD").unwrap();
            let mut log = Log::of(memory.clone());
            log.say(&mut rng, 40);
            drop(log);
            let [found, expected] = totals_after_restart(&memory);
            assert_eq!(found, expected, "{path} was cut");

            // A line lost only its LF. The sums are saved without it, and then the next writer ends
            // it, so that it counts.
            let path = format!("{}/{stem}.0001.jsonl", day(0));
            let bytes = memory.bytes(&path).unwrap();
            memory.put_bytes(&path, bytes[..bytes.len() - 1].to_vec());
            memory.remove_file("HEAD").unwrap();
            let [found, expected] = totals_after_restart(&memory);
            assert_eq!(found, expected, "{path} lacks its last LF");
            let mut log = Log::of(memory.clone());
            log.say(&mut rng, 1);
            drop(log);
            assert!(memory.bytes(&path).unwrap().starts_with(&bytes));
            let [found, expected] = totals_after_restart(&memory);
            assert_eq!(found, expected, "{path} has its last LF again");

            // Any damage to the file costs time only.
            let mut bytes = memory.bytes("cache/sums").unwrap();
            let at = rng.below(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
            memory.put_bytes("cache/sums", bytes);
            let [found, expected] = totals_after_restart(&memory);
            assert_eq!(found, expected, "byte {at} was changed");
        }
    }
}

/// An erasure removes the sums, which have names from the messages.
#[test]
fn saved_sums_do_not_outlive_what_is_erased() {
    let mut rng = Rng(11);
    let mut log = Log::new();
    log.say(&mut rng, 50);
    let memory = log.memory.clone();
    plain::all_of(&log.other.analytics(), &queries(DAY_1, DAYS as i64)[1..]);
    assert!(memory.bytes("cache/sums").is_some());
    log.erase(&mut rng);
    assert!(memory.bytes("cache/sums").is_none());
}

#[test]
fn a_handle_says_what_a_new_one_says_whatever_happened() {
    let mut rng = Rng::seeded("a_handle_says_what_a_new_one_says_whatever_happened");
    for case in 0..count("DECKLOG_ANALYTICS_CASES", 6) {
        let mut log = Log::new();
        let handles = [&log.writer, &log.other].map(Store::analytics);
        for step in 0..14 {
            let what = rng.below(9);
            println!("case {case}, step {step}: {what}");
            match what {
                0 => log.erase(&mut rng),
                1 => log.retain(&mut rng),
                2 => log.compact(),
                3 => log.repair(&mut rng),
                4 => {
                    let day = DAY_1 + rng.below(DAYS) as i64 * DAY_MS;
                    log.other.roll_up(Day::of(day).unwrap()).unwrap();
                }
                5 => _ = log.writer.seal_at(DAY_1 + 30 * DAY_MS).unwrap(),
                _ => {
                    let some = rng.below(60);
                    log.say(&mut rng, some);
                }
            }
            // A handle that is not queried each time has more to catch up with.
            if rng.one_in(3) {
                log.check(&handles);
            } else {
                log.check(&handles[..1]);
            }
        }
        log.check(&handles);
    }
}

/// The conversations of removed messages are known, unless a rollup does not list them.
#[test]
fn conversations_of_several_days_are_counted_only_where_they_are_known() {
    let mut rng = Rng(5);
    let mut log = Log::new();
    let analytics = log.other.analytics();
    log.say(&mut rng, 200);
    let by_week = AnalyticsQuery {
        bucket: Some(Bucket::Week),
        ..AnalyticsQuery::default()
    };
    assert!(!analytics.active(&by_week).unwrap().rows.is_empty());
    let all_days = AnalyticsQuery {
        since: Some(Day::of(0).unwrap()),
        ..AnalyticsQuery::default()
    };
    let weeks = analytics.active(&by_week).unwrap();
    let known = analytics.dashboard(&all_days).unwrap();
    assert!(known.conversations_today.is_some());
    let options = RetainOptions {
        now: DAY_1 + 100 * DAY_MS,
        ..RetainOptions::default()
    };
    assert!(!log.writer.retain(options).unwrap().parts.is_empty());
    assert_eq!(analytics.active(&by_week).unwrap().rows, weeks.rows);
    assert_eq!(analytics.dashboard(&all_days).unwrap(), known);
    let sum = decklog::record::Rollup {
        config_used: Some("another tool".into()),
        part: 0,
        through_seq: 0,
        messages: 0,
        conversations: 1,
        active_conversations: 1,
        message_hashes: decklog::record::IdHashes::default(),
        conversation_hashes: decklog::record::IdHashes::default(),
        ..log
            .writer
            .rollups(&decklog::query::RollupQuery::default())
            .unwrap()
            .remove(0)
    };
    log.writer.record(sum).unwrap();
    let error = analytics.active(&by_week).unwrap_err();
    assert!(error.to_string().contains("use bucket day"), "{error}");
    assert_eq!(
        analytics
            .active(&AnalyticsQuery::default())
            .unwrap()
            .row_count,
        DAYS
    );
    let after = analytics.dashboard(&all_days).unwrap();
    assert_eq!(after.conversations_today, None);
    assert_eq!(after.messages_today, known.messages_today);
    assert_eq!(after.by_model, known.by_model);
}

/// Threads query while others record: an acknowledged message counts in every later query, once.
#[test]
fn many_ask_while_messages_come() {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    let analytics = in_memory(&memory, Durability::Process).analytics();
    let total = |analytics: &Analytics| {
        let usage = analytics.usage(&AnalyticsQuery::default()).unwrap();
        usage.total.messages
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let analytics = analytics.clone();
            let is_over = &is_over;
            scope.spawn(move || {
                let mut last = 0;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let now = total(&analytics);
                    assert!(now >= last, "{now} after {last}");
                    last = now;
                }
            });
        }
        let mut rng = Rng::seeded("many_ask_while_messages_come");
        let id = Uuid::from_u128(1);
        store.record(conversation(id, DAY_1)).unwrap();
        for nth in 1..=300 {
            let at = DAY_1 + rng.below(DAYS * DAY_MS as usize) as i64;
            store.record(message(&mut rng, id, at)).unwrap();
            if nth % 10 == 0 {
                assert_eq!(total(&analytics), nth);
            }
            if nth % 40 == 0 {
                store.roll_up(Day::of(at).unwrap()).unwrap();
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(total(&analytics), 300);
}
