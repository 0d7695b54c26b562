//! Messages, events and proposals through two handles, like two processes, over a failing storage:
//! every acknowledged record is there, nothing is there twice, and the sums are right in every
//! handle and after reopening.
//!
//! `DECKLOG_MIXED_OPS` sets the number of operations, `DECKLOG_SEED` repeats a run.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

use std::io;
use std::sync::Arc;

use decklog::health::DamageClass;
use decklog::storage::{Fault, Memory};
use decklog::{
    Ack, AckStatus, Client, Conversation, ConversationMessage, Durability, ErrorKind, Kind, Record,
    Role, Store, verify,
};

use super::anything::Mirror;
use super::support::{Rng, all_lines, count, still};

const OPERATIONS_PER_STORE: u64 = 200;

const KINDS: [Kind; 4] = [
    Kind::Conversations,
    Kind::Messages,
    Kind::Events,
    Kind::CodeEditProposals,
];

/// A record as submitted, without the fields that the log sets.
fn plain(found: &Record, handed_over: &Record) -> Record {
    match (found.clone(), handed_over) {
        (Record::Message(mut found), Record::Message(given)) => {
            if given.sequence.is_none() {
                found.sequence = None;
            }
            // An answer has the task type of its request.
            let is_answer = found.role == Role::Assistant || found.error.is_some();
            if given.task_type.is_none() && is_answer && found.role != Role::User {
                found.task_type = None;
            }
            Record::Message(found)
        }
        (Record::Event(mut found), Record::Event(given)) if given.id == 0 => {
            found.id = 0;
            Record::Event(found)
        }
        (Record::ProposalStep(mut found), Record::ProposalStep(given)) => {
            (found.decided_at, found.applied_at) = (None, None);
            found.commit_hash.clone_from(&given.commit_hash);
            Record::ProposalStep(found)
        }
        (Record::ConversationUpdated(found), _) => Record::Conversation(found),
        (found, _) => found,
    }
}

fn assigned(record: &Record) -> Option<i64> {
    match record {
        Record::Message(message) => message.sequence,
        Record::Event(event) => Some(event.id),
        _ => None,
    }
}

struct Run {
    memory: Memory,
    stores: Vec<Store>,
    mirror: Mirror,
    /// All lines, in order.
    lines: Vec<(u64, Record)>,
    faults: u64,
    hurt: u64,
    was_hurt: bool,
}

impl Run {
    fn new() -> Run {
        let mut run = Run {
            memory: Memory::new(),
            stores: Vec::new(),
            mirror: Mirror::new(true),
            lines: Vec::new(),
            faults: 0,
            hurt: 0,
            was_hurt: false,
        };
        run.stores = (0..2).map(|which| run.open(which)).collect();
        run
    }

    fn open(&self, which: usize) -> Store {
        still()
            .durability([Durability::Process, Durability::Disk][which])
            .segment_bytes_max(5_000)
            .storage(Arc::new(self.memory.clone()))
            .open("memory")
            .unwrap()
    }

    /// The lines as read by a new handle. They must start with all known lines, followed by some of
    /// the submitted records, in order.
    fn settle(&mut self, batch: &[Record]) {
        let store = self.open(0);
        store.record_batch([]).unwrap();
        let found = all_lines(&store);
        let known = self.lines.len();
        assert!(found.len() >= known, "acknowledged lines are gone");
        assert_eq!(found[..known], self.lines);
        let mut submitted = batch.iter();
        for (seq, record) in found.into_iter().skip(known) {
            assert!(
                submitted.any(|given| plain(&record, given) == *given),
                "{record:?} was never handed over, or not in this order"
            );
            let ack = Ack {
                seq,
                status: AckStatus::Added,
                assigned: assigned(&record),
                warning: None,
            };
            self.mirror.take(record.clone(), ack);
            self.lines.push((seq, record));
        }
    }

    fn record(&mut self, rng: &mut Rng, which: usize) {
        let mut batch: Vec<Record> = Vec::new();
        for kind in KINDS {
            if rng.one_in(2) {
                batch.push(self.mirror.any(rng, kind));
            }
        }
        let answers = self.stores[which].record_batch(batch.clone());
        let is_whole = answers
            .as_ref()
            .is_ok_and(|answers| answers.iter().all(Result::is_ok));
        if !is_whole {
            self.hurt += 1;
        }
        self.memory.heal();
        self.settle(&batch);
        let acked = answers.into_iter().flatten().zip(&batch);
        for (answer, given) in acked {
            match answer {
                Ok(ack) => {
                    let line = self.lines.iter().find(|(seq, _)| *seq == ack.seq);
                    let (_, found) =
                        line.unwrap_or_else(|| panic!("acknowledged and gone: {given:?}"));
                    if ack.status == AckStatus::Added {
                        assert_eq!(plain(found, given), *given);
                        assert_eq!(ack.assigned, assigned(found));
                    }
                }
                Err(e) => assert_eq!(e.kind(), ErrorKind::Io, "{e}: {given:?}"),
            }
        }
    }

    /// Records existing data again, which changes nothing.
    fn again(&self, rng: &mut Rng, which: usize) {
        let messages: Vec<_> = self
            .lines
            .iter()
            .filter(|(_, record)| matches!(record, Record::Message(_) | Record::Event(_)))
            .collect();
        if messages.is_empty() {
            return;
        }
        let (seq, record) = *rng.pick(&messages);
        let mut record = record.clone();
        let place = assigned(&record);
        if let Record::Message(message) = &mut record
            && rng.one_in(2)
        {
            message.sequence = None;
        }
        let ack = self.stores[which].record(record).unwrap();
        assert_eq!(
            (ack.seq, ack.status, ack.assigned),
            (*seq, AckStatus::Unchanged, place)
        );
    }

    fn fail(&mut self, rng: &mut Rng, which: usize) {
        let short = rng.below(400);
        let fault = *rng.pick(&[
            Fault::Error(io::ErrorKind::Other),
            Fault::Error(io::ErrorKind::StorageFull),
            Fault::Error(io::ErrorKind::Interrupted),
            Fault::Short(short),
            Fault::Gone,
        ]);
        (self.faults, self.was_hurt) = (self.faults + 1, true);
        let operation = self.memory.operations() + rng.below(12) as u64;
        self.memory.fail_at(operation, fault);
        self.record(rng, which);
        // The handle whose write failed is poisoned, but no other.
        if let Err(e) = self.stores[which].record_batch([]) {
            assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}");
            self.stores[which] = self.open(which);
        }
        self.stores[1 - which].record_batch([]).unwrap();
    }

    fn check(&self) {
        for store in &self.stores {
            self.mirror.check(store);
        }
        self.mirror.check(&self.open(0));
        let found = verify(&self.memory).unwrap();
        assert_eq!(found.good_lines, self.lines.len() as u64);
        assert_eq!((&found.gaps, &found.repeats), (&vec![], &vec![]));
        let torn = |class| matches!(class, DamageClass::Torn | DamageClass::Damaged);
        let may_be = |class| self.was_hurt && torn(class);
        assert!(
            found.damage.iter().all(|damage| may_be(damage.class)),
            "{found:?}"
        );
    }
}

#[test]
fn through_every_fault_what_was_acknowledged_is_there_once_and_adds_up() {
    let mut rng = Rng::seeded("mixed");
    let mut left = count("DECKLOG_MIXED_OPS", 400);
    let (mut faults, mut hurt, mut lines) = (0, 0, 0);
    while left > 0 {
        let mut run = Run::new();
        for _ in 0..left.min(OPERATIONS_PER_STORE) {
            left -= 1;
            let which = rng.below(2);
            match rng.below(20) {
                0..11 => run.record(&mut rng, which),
                11..14 => run.again(&mut rng, which),
                14..17 => run.fail(&mut rng, which),
                17 => run.stores[which] = run.open(which),
                _ => run.mirror.check(&run.stores[which]),
            }
        }
        run.check();
        (faults, hurt) = (faults + run.faults, hurt + run.hurt);
        lines += run.lines.len();
    }
    println!("{lines} lines, {faults} faults, {hurt} batches that were not acknowledged whole");
    assert!(hurt > 0);
}

/// A power cut before another process's conversation was synced, but after its message was.
#[test]
fn a_message_that_outlives_its_conversation_counts_once_that_is_back() {
    let memory = Memory::new();
    let open = |memory: &Memory, durability| {
        let storage = Arc::new(memory.clone());
        let options = still().durability(durability).storage(storage);
        options.open("memory").unwrap()
    };
    let disk = open(&memory, Durability::Disk);
    disk.log_event(None, "process.started", None).unwrap();
    let quick = open(&memory, Durability::Process);
    let talk = Conversation::new(uuid::Uuid::from_u128(1), Client::Api);
    quick.record(talk.clone()).unwrap();
    let parent = quick.log_event(None, "agent.started", None).unwrap();
    let message = with!(ConversationMessage::new(talk.id, Role::User, "hi"), tokens_in: Some(3));
    disk.record(message.clone()).unwrap();

    let memory = memory.after_power_cut(|_| 0);
    let store = open(&memory, Durability::Disk);
    assert_eq!(store.get_conversation(talk.id).unwrap(), None);
    assert_eq!(
        store.get_message(message.id).unwrap().unwrap().sequence,
        Some(1)
    );
    let next = ConversationMessage::new(talk.id, Role::User, "still there?");
    let err = store.record(next.clone()).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NotFound);
    store.record(talk.clone()).unwrap();
    assert_eq!(store.record(next).unwrap().assigned, Some(2));
    let (_, stats) = store.get_conversation(talk.id).unwrap().unwrap();
    assert_eq!((stats.message_count, stats.total_tokens_in), (2, 3));
    // At this level, the id of the lost event was never acknowledged, so it is assigned again.
    assert_eq!(
        store.log_event(None, "agent.started", None).unwrap(),
        parent
    );
}
