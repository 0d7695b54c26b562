//! Messages that were counted and removed are not counted again when they return: each message ever
//! recorded counts once, together with late ones, after any number of retention passes, for handles
//! that were open all along and for new ones.

use decklog::analytics::{Analytics, AnalyticsQuery};
use decklog::retention::{CompactOptions, EraseOptions, Erasure, Keep, RetainOptions, Retained};

use super::*;
use crate::support::{still, turn};

/// A log, a handle of another process that makes reports throughout, and every message ever
/// recorded.
struct Kept {
    dir: tempfile::TempDir,
    store: Store,
    reports: Analytics,
    all: Vec<ConversationMessage>,
}

fn open(dir: &tempfile::TempDir) -> Store {
    still().open(dir.path().join("log")).unwrap()
}

/// Records messages with their conversations, as an import does.
fn hand_over(store: &Store, messages: &[ConversationMessage]) {
    let ids: BTreeSet<Uuid> = messages.iter().map(|one| one.conversation_id).collect();
    let begun = Timestamp::from_ms(DAY_1).unwrap();
    let conversations = ids.into_iter().map(|id| {
        Record::from(with!(Conversation::new(id, Client::Api),
            created_at: begun.clone(),
            updated_at: begun.clone(),
        ))
    });
    let messages = messages.iter().cloned().map(Record::from);
    let records: Vec<Record> = conversations.chain(messages).collect();
    for answer in store.record_batch(records).unwrap() {
        answer.unwrap();
    }
}

impl Kept {
    fn new() -> Kept {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        Kept {
            reports: open(&dir).analytics(),
            store,
            dir,
            all: Vec::new(),
        }
    }

    fn add(&mut self, rng: &mut Rng, count: usize) {
        // A few conversations span several days, others one.
        let messages: Vec<_> = (0..count)
            .map(|_| {
                let of = rng.below(6) as u64;
                let message = message(rng, conversation(of));
                // Multiples of 1/8, whose sum is exact in any order.
                let part = message.context_utilization;
                with!(message,
                    context_utilization: part.map(|part| (part * 8.0).floor() / 8.0),
                )
            })
            .collect();
        hand_over(&self.store, &messages);
        self.all.extend(messages);
    }

    fn add_again(&mut self, rng: &mut Rng) {
        let part = 1 + rng.below(4);
        let some: Vec<_> = self
            .all
            .iter()
            .filter(|_| rng.one_in(part))
            .cloned()
            .collect();
        hand_over(&self.store, &some);
    }

    fn retain(&self, days: i64) {
        self.retained(days, false);
    }

    fn retained(&self, days: i64, dry_run: bool) -> Retained {
        let options = RetainOptions {
            now: DAY_1 + days * DAY_MS,
            dry_run,
            ..RetainOptions::default()
        };
        self.store.retain(options).unwrap()
    }

    /// Applies a size limit that removes all records except the current day's.
    fn shrink(&self) {
        let max_bytes = |bytes| {
            let change = self
                .store
                .change_settings(|settings| settings.retention.max_bytes = bytes);
            change.unwrap();
        };
        max_bytes(Some(65_536));
        self.retain(5);
        max_bytes(None);
    }

    fn compact(&self) {
        let options = CompactOptions {
            now: DAY_1 + 90 * DAY_MS,
            ..CompactOptions::default()
        };
        self.store.compact(options).unwrap();
    }

    fn left(&self) -> usize {
        let ids = self.all.iter().map(|message| message.id);
        ids.filter(|id| self.store.get_message(*id).unwrap().is_some())
            .count()
    }

    fn check(&self, case: &str) {
        check(&self.store, &self.all, case);
        for analytics in [&self.reports, &self.store.analytics()] {
            let usage = analytics.usage(&AnalyticsQuery::default()).unwrap().total;
            assert_eq!(usage.messages, self.all.len() as u64, "{case}");
            let tokens = sums(&self.all.iter().collect::<Vec<_>>());
            let found = (usage.tokens_in, usage.tokens_out);
            assert_eq!(found, (tokens.tokens_in, tokens.tokens_out), "{case}");
            let active = analytics.active(&AnalyticsQuery::default()).unwrap().rows;
            let active: Vec<_> = active.iter().map(|row| row.conversations).collect();
            let expected = (0..3).filter_map(|n| {
                let rollups = expected(day(n), &self.all);
                rollups.first().map(|one| one.active_conversations)
            });
            assert_eq!(active, expected.collect::<Vec<_>>(), "{case}");
        }
    }
}

#[test]
fn each_message_counts_once_whatever_comes_back() {
    let mut rng = Rng::seeded("each_message_counts_once_whatever_comes_back");
    let (mut removed, mut came_back) = (0, 0);
    for case in 0..count("DECKLOG_ROLLUPS_CASES", 8) {
        let mut log = Kept::new();
        log.add(&mut rng, 60);
        for step in 0..14 {
            let before = log.left();
            let what = rng.below(8);
            let case = format!("case {case}, step {step}: {what}");
            match what {
                0 => log.retain(90 + rng.below(5) as i64),
                1 => log.retain(200),
                2 => log.shrink(),
                3 => log.compact(),
                4 => log.store = open(&log.dir),
                5 | 6 => log.add_again(&mut rng),
                _ => {
                    let some = rng.below(40);
                    log.add(&mut rng, some);
                }
            }
            removed += before.saturating_sub(log.left());
            if matches!(what, 5 | 6) {
                came_back += log.left() - before;
            }
            log.check(&case);
        }
        assert!(
            verify(&decklog::storage::Disk::new(log.store.path()))
                .unwrap()
                .is_clean()
        );
    }
    assert!(removed > 100 && came_back > 100, "{removed}, {came_back}");
}

/// A daily import of a machine's whole history writes nothing for messages counted earlier.
#[test]
fn passes_that_find_nothing_new_write_no_rollups() {
    let mut rng = Rng(3);
    let mut log = Kept::new();
    log.add(&mut rng, 200);
    log.retain(200);
    assert_eq!(log.left(), 0);
    let rollups = |log: &Kept| {
        let lines = log.store.last_lines(usize::MAX).unwrap();
        let is_rollup = |line: &&decklog::lines::LogLine| line.kind == decklog::Kind::Rollups;
        lines.iter().filter(is_rollup).count()
    };
    let first = rollups(&log);
    for day in 0..5 {
        hand_over(&log.store, &log.all);
        assert_eq!(log.left(), 200);
        log.check("imported");
        log.retain(200 + day);
        assert_eq!((log.left(), rollups(&log)), (0, first));
        log.check("retained");
    }
}

/// Rollups neither count towards the store's size nor are removed for it: reports stay the same
/// after every pass of a daily import, and the preview matches what is removed.
#[test]
fn a_cap_removes_no_rollup() {
    const CAP: u64 = 65_536;
    let mut rng = Rng(6);
    let mut log = Kept::new();
    log.add(&mut rng, 120);
    let content = "long ".repeat(400);
    let turn = |n| Record::from(turn(n, &content, DAY_1 + 3 * DAY_MS));
    let cap = |bytes| {
        let change = |settings: &mut decklog::Settings| settings.retention.max_bytes = bytes;
        log.store.change_settings(change).unwrap();
    };
    for pass in 0..4 {
        hand_over(&log.store, &log.all);
        for answer in log.store.record_batch((1..=40).map(turn)).unwrap() {
            answer.unwrap();
        }
        cap(Some(CAP));
        // In the last pass, the kept records alone exceed the limit.
        let forever = |settings: &mut decklog::Settings| {
            settings.retention.conversation_turns = (pass == 3).then_some(Keep::Forever);
        };
        log.store.change_settings(forever).unwrap();
        log.store.seal_at(DAY_1 + 5 * DAY_MS).unwrap();
        let would_go = log.retained(5, true);
        let gone = log.retained(5, false);
        let parts = |retained: &Retained| -> Vec<_> {
            let parts = retained.parts.iter();
            parts.map(|it| (it.day, it.kind, it.lines)).collect()
        };
        assert_eq!(parts(&would_go), parts(&gone));
        assert_eq!(would_go.bytes_over, gone.bytes_over);
        assert_eq!(gone.bytes_over > 0, pass == 3);
        assert!(log.left() < 120, "pass {pass}: nothing went");
        log.check("shrunk");
        cap(None);
    }
}

/// Rollups that are already expired when they are made are removed in the same run.
#[test]
fn one_run_removes_all_that_is_past_its_time() {
    let mut rng = Rng(7);
    let mut log = Kept::new();
    log.add(&mut rng, 50);
    log.retain(1_000);
    assert_eq!(log.left(), 0);
    let left = log.store.last_lines(usize::MAX).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// A message erased after its day was rolled up still counts, and counts once when it is recorded
/// again. A message erased before that does not count until it is recorded again.
#[test]
fn what_was_erased_counts_once_when_it_is_recorded_again() {
    let mut rng = Rng(4);
    for is_rolled in [true, false] {
        let mut log = Kept::new();
        log.add(&mut rng, 80);
        if is_rolled {
            (0..3).for_each(|n| _ = log.store.roll_up(day(n)).unwrap());
        }
        let id = conversation(1);
        let what = Erasure::Conversation(id);
        log.store.erase(&what, EraseOptions::default()).unwrap();
        let all = log.all.clone();
        if !is_rolled {
            log.all.retain(|message| message.conversation_id != id);
        }
        log.check("erased");
        log.all = all;
        hand_over(&log.store, &log.all);
        log.check("recorded again");
        log.retain(200);
        log.check("removed");
        hand_over(&log.store, &log.all);
        log.check("back");
    }
}

/// The records of a store are replayed into others and back, before and after retention: rollups
/// and messages arrive in any order, more than once.
#[test]
fn what_another_store_counted_counts_once() {
    let mut rng = Rng(5);
    let (mut one, mut other) = (Kept::new(), Kept::new());
    one.add(&mut rng, 100);
    other.add(&mut rng, 100);
    let replay = |from: &Store, to: &Store| {
        let lines = from.last_lines(usize::MAX).unwrap();
        let records = lines
            .iter()
            .map(|line| Record::from_json(&line.text).unwrap());
        for answer in to.record_batch(records).unwrap() {
            answer.unwrap();
        }
    };
    // Both logs have the same groups. Totals of another store are kept next to this store's.
    one.retain(200);
    other.retain(200);
    replay(&one.store, &other.store);
    other.all.extend(one.all.clone());
    other.check("rollups of another");
    replay(&one.store, &other.store);
    other.check("the same again");
    hand_over(&other.store, &one.all);
    other.check("their messages");
    // Late messages of the first store, with its earlier ones.
    let known = one.all.len();
    one.add(&mut rng, 30);
    one.retain(200);
    one.check("late ones");
    replay(&one.store, &other.store);
    other.all.extend(one.all[known..].iter().cloned());
    other.check("rollups that count more");
    other.retain(200);
    let messages = other.all.clone();
    hand_over(&other.store, &messages);
    other.check("all of it");
    // A rollup that counts some of the messages of other rollups cannot be added to them.
    let third = Kept::new();
    hand_over(&third.store, &one.all[..known / 2]);
    third.retain(200);
    let lines = third.store.last_lines(usize::MAX).unwrap();
    let mut refused = 0;
    for line in &lines {
        match other.store.record(Record::from_json(&line.text).unwrap()) {
            Ok(_) => {}
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
                refused += 1;
            }
        }
    }
    other.check("parts of it");
    assert_eq!(refused, 0, "less than is known is known");
    let mut fourth = Kept::new();
    hand_over(&fourth.store, &one.all[known / 2..]);
    fourth.add(&mut rng, 100);
    fourth.retain(200);
    let mut refused = 0;
    for line in &fourth.store.last_lines(usize::MAX).unwrap() {
        if let Err(e) = other.store.record(Record::from_json(&line.text).unwrap()) {
            assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
            refused += 1;
        }
    }
    assert!(refused > 0, "what counts some of the same is refused");
}
