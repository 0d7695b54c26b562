//! The engine against a plain list. Two handles, like two processes, record and query at random
//! over one storage that fails, disappears and loses power. The model is the list of all lines,
//! with simple rules: the last line of a key is its state. Every answer of the engine must follow
//! from that list, and every acknowledged line must stay in it.
//!
//! `DECKLOG_MODEL_OPS` sets the number of operations, `DECKLOG_SEED` repeats a run.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use decklog::health::DamageClass;
use decklog::query::{CallQuery, Order, TurnQuery};
use decklog::record::ToolCall;
use decklog::storage::{Fault, Memory};
use decklog::{
    Ack, AckStatus, CallStatus, ConversationTurn, Durability, ErrorKind, Record, Store,
    ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256, verify,
};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Rng, all_lines, count, still};

/// Number of operations per store. Then a new store is created, so that scans of all lines stay
/// cheap.
const OPERATIONS_PER_STORE: u64 = 1_500;
const SEGMENT_BYTES_MAX: u64 = 3_000;

/// Payloads, each with a number. Equal numbers mean equal payloads.
const PAYLOADS: [(&str, u8); 6] = [
    (r#"{"a":1,"b":[2]}"#, 0),
    (r#"{ "b" : [2.0], "a" : 1 }"#, 0),
    (r#"{"a":2}"#, 1),
    ("not json", 2),
    ("{\"a\":\n1,\"b\":[2]}", 0),
    (r#"{"a":1,"a":1}"#, 3),
];

fn meaning(payload: Option<&String>) -> Option<u8> {
    let payload = payload?;
    PAYLOADS
        .iter()
        .find(|(text, _)| text == payload)
        .map(|(_, meaning)| *meaning)
}

#[derive(Debug, Clone, PartialEq)]
struct Line {
    seq: u64,
    record: Record,
    /// The handle that acknowledged it, if any.
    by: Option<usize>,
    is_durable: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Expected {
    Added,
    Unchanged(u64),
    Refused(ErrorKind),
}

type CallKey = (Uuid, String);

/// The list, and the state derived from it.
#[derive(Debug, Default)]
struct Model {
    lines: Vec<Line>,
}

impl Model {
    fn last_seq(&self) -> u64 {
        self.lines.last().map_or(0, |line| line.seq)
    }

    fn turn_lines(&self, id: Uuid) -> impl DoubleEndedIterator<Item = (u64, &ConversationTurn)> {
        self.lines
            .iter()
            .filter_map(move |line| match &line.record {
                Record::Turn(turn) if turn.id == id => Some((line.seq, turn)),
                _ => None,
            })
    }

    fn request_lines<'a>(
        &'a self,
        key: &'a CallKey,
    ) -> impl DoubleEndedIterator<Item = (u64, &'a ToolCallReq)> {
        self.lines
            .iter()
            .filter_map(move |line| match &line.record {
                Record::CallRequested(req) if (req.request_id, &req.call_id) == (key.0, &key.1) => {
                    Some((line.seq, req))
                }
                _ => None,
            })
    }

    fn outcome(&self, key: &CallKey) -> Option<(u64, &ToolCallDone)> {
        self.lines.iter().find_map(|line| match &line.record {
            Record::CallDone(done) if (done.request_id, &done.call_id) == (key.0, &key.1) => {
                Some((line.seq, done))
            }
            _ => None,
        })
    }

    /// The expected result of recording a record.
    fn expect(&self, record: &Record) -> Expected {
        match record {
            Record::Turn(turn) => {
                let is_valid = |turn: &ConversationTurn| turn.created_at.is_valid;
                let mut lines = self.turn_lines(turn.id);
                let was_asserted = self.turn_lines(turn.id).any(|(_, known)| is_valid(known));
                match lines.next_back() {
                    Some((seq, last)) if last == turn && was_asserted => Expected::Unchanged(seq),
                    _ if !is_valid(turn) && !was_asserted => {
                        Expected::Refused(ErrorKind::Lifecycle)
                    }
                    _ => Expected::Added,
                }
            }
            Record::CallRequested(req) => {
                let key = (req.request_id, req.call_id.clone());
                let is_valid = |req: &ToolCallReq| req.started_at.is_valid;
                let was_asserted = self.request_lines(&key).any(|(_, known)| is_valid(known));
                match self.request_lines(&key).next_back() {
                    Some((seq, last)) if was_asserted && same_request(last, req) => {
                        Expected::Unchanged(seq)
                    }
                    _ if !is_valid(req) && !was_asserted => Expected::Refused(ErrorKind::Lifecycle),
                    _ => Expected::Added,
                }
            }
            Record::CallDone(done) => {
                let key = (done.request_id, done.call_id.clone());
                let last = self.request_lines(&key).next_back();
                match (last, self.outcome(&key)) {
                    (Some(_), Some((seq, first))) if same_outcome(first, done) => {
                        Expected::Unchanged(seq)
                    }
                    (Some((_, last)), _) if !last.started_at.is_valid => {
                        Expected::Refused(ErrorKind::NotFound)
                    }
                    (None, _) => Expected::Refused(ErrorKind::NotFound),
                    (_, None) => Expected::Added,
                    _ => Expected::Refused(ErrorKind::Conflict),
                }
            }
            _ => unreachable!(),
        }
    }

    fn turn(&self, id: Uuid, as_of: Option<i64>) -> Option<&ConversationTurn> {
        let had_come = |at: i64| as_of.is_none_or(|as_of| at <= as_of);
        self.turn_lines(id)
            .rfind(|(_, turn)| had_come(turn.created_at.at))
            .map(|(_, turn)| turn)
            .filter(|turn| turn.created_at.is_valid)
    }

    fn call(&self, key: &CallKey, as_of: Option<i64>) -> Option<ToolCall> {
        let had_come = |at: i64| as_of.is_none_or(|as_of| at <= as_of);
        let req = self
            .request_lines(key)
            .rfind(|(_, req)| had_come(req.started_at.at))
            .map(|(_, req)| req.clone())
            .filter(|req| req.started_at.is_valid)?;
        let outcome = self
            .outcome(key)
            .filter(|(_, done)| had_come(done.ended_at.at));
        Some((req, outcome.map(|(_, done)| done.clone())))
    }

    /// All current turns, by time and then by the order in which their current versions were
    /// recorded.
    fn turns(&self, query: &TurnQuery, as_of: Option<i64>) -> Vec<ConversationTurn> {
        let mut ids: Vec<Uuid> = Vec::new();
        for line in &self.lines {
            if let Record::Turn(turn) = &line.record
                && !ids.contains(&turn.id)
            {
                ids.push(turn.id);
            }
        }
        let had_come = |at: i64| as_of.is_none_or(|as_of| at <= as_of);
        ids.sort_by_key(|id| {
            let mut lines = self.turn_lines(*id);
            let stands = lines.rfind(|(_, turn)| had_come(turn.created_at.at));
            stands.map(|(seq, _)| seq)
        });
        let mut found: Vec<_> = ids
            .iter()
            .filter_map(|id| self.turn(*id, as_of).cloned())
            .filter(|turn| {
                query.message_id.is_none_or(|id| turn.message_id == id)
                    && query.parent_id.is_none_or(|id| turn.parent_id == Some(id))
                    && query.thread_id.is_none_or(|id| turn.thread_id == Some(id))
                    && query.kind.is_none_or(|kind| turn.kind == kind)
                    && query.since.is_none_or(|since| turn.created_at.at >= since)
                    && query.until.is_none_or(|until| turn.created_at.at < until)
            })
            .collect();
        in_order(&mut found, query.order, |turn| turn.created_at.at);
        found
    }

    fn calls(&self, query: &CallQuery, as_of: Option<i64>) -> Vec<ToolCall> {
        let mut keys: Vec<CallKey> = Vec::new();
        for line in &self.lines {
            let key = match &line.record {
                Record::CallRequested(req) => (req.request_id, req.call_id.clone()),
                Record::CallDone(done) => (done.request_id, done.call_id.clone()),
                _ => continue,
            };
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let had_come = |at: i64| as_of.is_none_or(|as_of| at <= as_of);
        keys.sort_by_key(|key| {
            let mut lines = self.request_lines(key);
            let stands = lines.rfind(|(_, req)| had_come(req.started_at.at));
            stands.map(|(seq, _)| seq)
        });
        let mut found: Vec<_> = keys
            .iter()
            .filter_map(|key| self.call(key, as_of))
            .filter(|(req, done)| {
                query.parent_id.is_none_or(|id| req.parent_id == id)
                    && query.request_id.is_none_or(|id| req.request_id == id)
                    && query.call_id.as_ref().is_none_or(|id| req.call_id == *id)
                    && query
                        .vendor
                        .as_ref()
                        .is_none_or(|vendor| req.vendor == *vendor)
                    && query
                        .tool_name
                        .as_ref()
                        .is_none_or(|name| req.tool_name == *name)
                    && query.since.is_none_or(|since| req.started_at.at >= since)
                    && query.until.is_none_or(|until| req.started_at.at < until)
                    && query
                        .status
                        .is_none_or(|status| CallStatus::of(done.as_ref()) == status)
            })
            .collect();
        in_order(&mut found, query.order, |(req, _)| req.started_at.at);
        found
    }
}

fn in_order<T>(items: &mut [T], order: Order, at: impl Fn(&T) -> i64) {
    match order {
        Order::OldestFirst => items.sort_by_key(|item| at(item)),
        Order::NewestFirst => items.sort_by_key(|item| std::cmp::Reverse(at(item))),
    }
}

fn same_request(a: &ToolCallReq, b: &ToolCallReq) -> bool {
    let rest = |req: &ToolCallReq| ToolCallReq {
        arguments_json: None,
        ..req.clone()
    };
    same(a.arguments_json.as_ref(), b.arguments_json.as_ref()) && rest(a) == rest(b)
}

fn same_outcome(a: &ToolCallDone, b: &ToolCallDone) -> bool {
    let rest = |done: &ToolCallDone| ToolCallDone {
        outcome_json: None,
        ..done.clone()
    };
    same(a.outcome_json.as_ref(), b.outcome_json.as_ref()) && rest(a) == rest(b)
}

fn same(a: Option<&String>, b: Option<&String>) -> bool {
    a == b || (a.is_some() && meaning(a) == meaning(b))
}

// Records and queries.

fn any_at(rng: &mut Rng) -> i64 {
    DAY_1 + rng.below(3) as i64 * DAY_MS + rng.below(4) as i64 * 1_000
}

fn any_uuid(rng: &mut Rng, space: u128, n: usize) -> Uuid {
    Uuid::from_u128((space << 64) + rng.below(n) as u128)
}

fn any_payload(rng: &mut Rng) -> Option<String> {
    let choice = rng.below(PAYLOADS.len() + 1);
    PAYLOADS.get(choice).map(|(text, _)| (*text).to_owned())
}

fn any_call_key(rng: &mut Rng) -> CallKey {
    let call_ids = [
        "call_1",
        "call \"2\"",
        "../../etc/passwd",
        "\u{0}\n\r\u{2028}",
    ];
    (any_uuid(rng, 1, 4), (*rng.pick(&call_ids)).to_owned())
}

fn validity(rng: &mut Rng) -> Validity {
    let at = any_at(rng);
    Validity {
        at,
        is_valid: !rng.one_in(4),
    }
}

fn any_record(rng: &mut Rng) -> Record {
    match rng.below(5) {
        0 | 1 => Record::Turn(ConversationTurn {
            id: any_uuid(rng, 2, 12),
            parent_id: rng.one_in(2).then(|| any_uuid(rng, 3, 2)),
            message_id: any_uuid(rng, 4, 2),
            kind: *rng.pick(&TurnKind::ALL[..2]),
            content: (*rng.pick(&["", "one\n\"two\"", "drei"])).to_owned(),
            created_at: validity(rng),
            thread_id: rng.one_in(2).then(|| any_uuid(rng, 5, 2)),
        }),
        2 | 3 => {
            let (request_id, call_id) = any_call_key(rng);
            let arguments = any_payload(rng);
            Record::CallRequested(ToolCallReq {
                request_id,
                call_id,
                parent_id: any_uuid(rng, 6, 2),
                vendor: (*rng.pick(&["anthropic", "openai"])).to_owned(),
                tool_name: (*rng.pick(&["read", "write"])).to_owned(),
                args_sha256: args_sha256(arguments.as_deref().unwrap_or("{}")),
                arguments_json: arguments,
                started_at: validity(rng),
            })
        }
        _ => {
            let (request_id, call_id) = any_call_key(rng);
            let is_failed = rng.one_in(3);
            Record::CallDone(ToolCallDone {
                request_id,
                call_id,
                ended_at: Validity::at(any_at(rng)),
                latency_ms: rng.below(2) as i64,
                outcome_json: any_payload(rng),
                error_kind: is_failed.then(|| "timeout".to_owned()),
                error_msg: None,
                status: if is_failed {
                    ToolStatus::Failed
                } else {
                    ToolStatus::Completed
                },
            })
        }
    }
}

fn any_turn_query(rng: &mut Rng) -> TurnQuery {
    TurnQuery {
        message_id: rng.one_in(4).then(|| any_uuid(rng, 4, 2)),
        parent_id: rng.one_in(4).then(|| any_uuid(rng, 3, 2)),
        thread_id: rng.one_in(4).then(|| any_uuid(rng, 5, 2)),
        kind: rng.one_in(4).then(|| *rng.pick(&TurnKind::ALL[..2])),
        since: rng.one_in(3).then(|| any_at(rng)),
        until: rng.one_in(3).then(|| any_at(rng)),
        order: *rng.pick(&[Order::OldestFirst, Order::NewestFirst]),
        limit: *rng.pick(&[0, 1, 2, 3, 7, 1_000]),
        after: None,
    }
}

fn any_call_query(rng: &mut Rng) -> CallQuery {
    let statuses = [
        CallStatus::Requested,
        CallStatus::Completed,
        CallStatus::Failed,
    ];
    let (request_id, call_id) = any_call_key(rng);
    CallQuery {
        request_id: rng.one_in(5).then_some(request_id),
        call_id: rng.one_in(5).then_some(call_id),
        parent_id: rng.one_in(4).then(|| any_uuid(rng, 6, 2)),
        status: rng.one_in(2).then(|| *rng.pick(&statuses)),
        vendor: rng
            .one_in(4)
            .then(|| (*rng.pick(&["anthropic", "openai"])).to_owned()),
        tool_name: rng
            .one_in(4)
            .then(|| (*rng.pick(&["read", "write"])).to_owned()),
        since: rng.one_in(3).then(|| any_at(rng)),
        until: rng.one_in(3).then(|| any_at(rng)),
        order: *rng.pick(&[Order::OldestFirst, Order::NewestFirst]),
        limit: *rng.pick(&[0, 1, 2, 3, 7, 1_000]),
        after: None,
    }
}

/// Reads all pages of a list.
fn walk<T: PartialEq + std::fmt::Debug>(
    limit: usize,
    expected: &[T],
    mut page: impl FnMut(Option<decklog::query::Cursor>) -> decklog::Result<decklog::query::Page<T>>,
) -> decklog::Result<()> {
    let mut after = None;
    let mut rest = expected;
    loop {
        let found = page(after)?;
        let here = rest.len().min(limit);
        assert_eq!(found.items, rest[..here]);
        rest = &rest[here..];
        after = found.next;
        if after.is_none() {
            assert!(
                rest.is_empty() || limit == 0,
                "the list ended early: {rest:?}"
            );
            return Ok(());
        }
        assert!(!rest.is_empty(), "a cursor, and nothing after it");
    }
}

#[derive(Debug, Default)]
struct Counts {
    operations: u64,
    lines: u64,
    faults: u64,
    power_cuts: u64,
    recovered_unacknowledged: u64,
}

struct Run {
    memory: Memory,
    stores: [Option<Store>; 2],
    levels: [Durability; 2],
    model: Model,
    /// Whether a fault or power cut occurred. Then there may be torn lines.
    was_hurt: bool,
    lost_power: bool,
    counts: Counts,
}

impl Run {
    fn new(rng: &mut Rng) -> Run {
        let mut run = Run {
            memory: Memory::new(),
            stores: [None, None],
            levels: [Durability::Disk; 2],
            model: Model::default(),
            was_hurt: false,
            lost_power: false,
            counts: Counts::default(),
        };
        for which in 0..2 {
            run.levels[which] = *rng.pick(&[Durability::Disk, Durability::Process]);
            run.reopen(which);
        }
        run
    }

    fn try_open(&self, which: usize) -> decklog::Result<Store> {
        still()
            .durability(self.levels[which])
            .segment_bytes_max(SEGMENT_BYTES_MAX)
            .storage(Arc::new(self.memory.clone()))
            .open("memory")
    }

    fn reopen(&mut self, which: usize) {
        self.stores[which] = None;
        self.stores[which] = Some(self.try_open(which).unwrap());
    }

    fn store(&self, which: usize) -> Store {
        self.stores[which].clone().unwrap()
    }

    fn record(&mut self, rng: &mut Rng, which: usize, may_fail: bool) {
        let size = if rng.one_in(4) { 1 + rng.below(6) } else { 1 };
        let batch: Vec<Record> = (0..size).map(|_| any_record(rng)).collect();
        let answers = self.store(which).record_batch(batch.clone());
        let is_io = |answer: &decklog::Result<Ack>| {
            answer.as_ref().is_err_and(|e| e.kind() == ErrorKind::Io)
        };
        match answers {
            Ok(answers) if !answers.iter().any(is_io) => {
                for (record, answer) in batch.into_iter().zip(answers) {
                    self.take(which, record, answer);
                }
            }
            Ok(answers) => {
                assert!(may_fail);
                let acked = batch.iter().zip(answers);
                let acked: Vec<_> = acked
                    .filter_map(|(record, answer)| Some((record.clone(), answer.ok()?)))
                    .collect();
                self.settle(&batch, &acked, which);
            }
            Err(e) => {
                assert!(may_fail, "{e}");
                assert!(
                    matches!(e.kind(), ErrorKind::Io | ErrorKind::Poisoned),
                    "{e}"
                );
                self.settle(&batch, &[], which);
            }
        }
    }

    /// Applies one answer, which must match the rules.
    fn take(&mut self, which: usize, record: Record, answer: decklog::Result<Ack>) {
        let expected = self.model.expect(&record);
        let is_durable = self.levels[which] == Durability::Disk;
        match answer {
            Ok(ack) if ack.status == AckStatus::Added => {
                assert_eq!(expected, Expected::Added, "{record:?}");
                assert_eq!(ack.seq, self.model.last_seq() + 1);
                self.counts.lines += 1;
                self.model.lines.push(Line {
                    seq: ack.seq,
                    record,
                    by: Some(which),
                    is_durable,
                });
            }
            Ok(ack) => {
                assert_eq!(expected, Expected::Unchanged(ack.seq), "{record:?}");
                let known = self.model.lines.iter_mut().find(|line| line.seq == ack.seq);
                known.unwrap().is_durable |= is_durable;
            }
            Err(e) => assert_eq!(expected, Expected::Refused(e.kind()), "{e}: {record:?}"),
        }
    }

    /// After a failure: reads the current lines with a new handle.
    fn settle(&mut self, batch: &[Record], acked: &[(Record, Ack)], which: usize) {
        self.memory.heal();
        self.was_hurt = true;
        let store = self.try_open(which).unwrap();
        store.record_batch([]).unwrap();
        let lines = all_lines(&store);
        let known = self.model.lines.len();
        assert!(lines.len() >= known, "acknowledged lines are gone");
        for (line, (seq, record)) in self.model.lines.iter().zip(&lines) {
            assert_eq!((line.seq, &line.record), (*seq, record));
        }
        let mut submitted = batch.iter();
        for (seq, record) in &lines[known..] {
            assert!(
                submitted.any(|known| known == record),
                "{record:?} was never handed over, or not in this order"
            );
            assert_eq!(*seq, self.model.last_seq() + 1);
            assert_eq!(self.model.expect(record), Expected::Added);
            self.counts.recovered_unacknowledged += 1;
            self.model.lines.push(Line {
                seq: *seq,
                record: record.clone(),
                by: None,
                is_durable: false,
            });
        }
        let is_durable = self.levels[which] == Durability::Disk;
        for (record, ack) in acked {
            let line = self.model.lines.iter_mut().find(|line| line.seq == ack.seq);
            let line = line.unwrap_or_else(|| panic!("{record:?} was acknowledged and is gone"));
            if ack.status == AckStatus::Added {
                assert_eq!(line.record, *record);
            }
            line.is_durable |= is_durable;
        }
    }

    fn ask(&self, rng: &mut Rng, which: usize) -> decklog::Result<()> {
        let store = self.store(which);
        let as_of = rng.one_in(3).then(|| any_at(rng) + rng.below(2) as i64);
        let at = as_of.map(|at| store.as_of(at));
        match rng.below(4) {
            0 => {
                let id = any_uuid(rng, 2, 12);
                let found = at.map_or_else(|| store.get_turn(id), |at| at.get_turn(id))?;
                assert_eq!(found.as_ref(), self.model.turn(id, as_of));
            }
            1 => {
                let key = any_call_key(rng);
                let found = at.map_or_else(
                    || decklog::ObservabilityStore::get_tool_call(&store, key.0, &key.1),
                    |at| at.get_tool_call(key.0, &key.1),
                )?;
                assert_eq!(found, self.model.call(&key, as_of));
            }
            2 => {
                let query = any_turn_query(rng);
                let expected = self.model.turns(&query, as_of);
                walk(query.limit, &expected, |after| {
                    let query = TurnQuery {
                        after,
                        ..query.clone()
                    };
                    at.map_or_else(|| store.turns(&query), |at| at.turns(&query))
                })?;
            }
            _ => {
                let query = any_call_query(rng);
                let expected = self.model.calls(&query, as_of);
                walk(query.limit, &expected, |after| {
                    let query = CallQuery {
                        after,
                        ..query.clone()
                    };
                    at.map_or_else(|| store.tool_calls(&query), |at| at.tool_calls(&query))
                })?;
            }
        }
        Ok(())
    }

    /// Makes one of the next operations fail.
    fn fail(&mut self, rng: &mut Rng, which: usize) {
        let faults = [
            Fault::Error(io::ErrorKind::Other),
            Fault::Error(io::ErrorKind::StorageFull),
            Fault::Error(io::ErrorKind::Interrupted),
            Fault::Short(rng.below(300)),
            Fault::Gone,
        ];
        self.counts.faults += 1;
        self.was_hurt = true;
        self.memory.fail_at(
            self.memory.operations() + rng.below(40) as u64,
            *rng.pick(&faults),
        );
        for _ in 0..=rng.below(4) {
            if rng.one_in(2) {
                self.record(rng, which, true);
            } else if let Err(e) = self.ask(rng, which) {
                assert!(
                    matches!(e.kind(), ErrorKind::Io | ErrorKind::Damaged),
                    "{e}"
                );
            }
        }
        self.memory.heal();
        // The other handle must not be affected. This one may be poisoned, and is then reopened.
        while let Err(e) = self.store(which).record_batch([]) {
            assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}");
            self.reopen(which);
        }
    }

    /// A power cut: durable data is kept, the rest may be lost.
    fn cut_power(&mut self, rng: &mut Rng) {
        self.counts.power_cuts += 1;
        (self.was_hurt, self.lost_power) = (true, true);
        let cut = self.memory.after_power_cut(|n| match rng.below(3) {
            0 => 0,
            1 => n,
            _ => rng.below(n + 1),
        });
        self.stores = [None, None];
        self.memory = cut;
        for which in 0..2 {
            self.levels[which] = *rng.pick(&[Durability::Disk, Durability::Process]);
            self.reopen(which);
        }
        let store = self.store(0);
        store.record_batch([]).unwrap();
        let lines = all_lines(&store);
        for (seq, record) in &lines {
            let known = self
                .model
                .lines
                .iter()
                .any(|line| (line.seq, &line.record) == (*seq, record));
            assert!(known, "{record:?} comes from nowhere");
        }
        self.model.lines.retain(|line| {
            let is_there = lines.iter().any(|(seq, _)| *seq == line.seq);
            assert!(
                is_there || !line.is_durable,
                "lost with the power: {line:?}"
            );
            is_there
        });
        // The current lines are those that the disk kept.
        for line in &mut self.model.lines {
            (line.is_durable, line.by) = (true, None);
        }
    }

    fn check_all(&self) {
        for which in 0..2 {
            let lines = all_lines(&self.store(which));
            let known: Vec<_> = self
                .model
                .lines
                .iter()
                .map(|line| (line.seq, line.record.clone()))
                .collect();
            assert_eq!(lines, known);
        }
        let found = verify(&self.memory).unwrap();
        assert_eq!(found.good_lines, self.model.lines.len() as u64);
        assert_eq!(found.repeats, []);
        if !self.lost_power {
            assert_eq!(found.gaps, []);
        }
        let torn = |class| matches!(class, DamageClass::Torn | DamageClass::Damaged);
        assert!(
            found
                .damage
                .iter()
                .all(|damage| self.was_hurt && torn(damage.class)),
            "{found:?}"
        );
    }

    fn step(&mut self, rng: &mut Rng, with_faults: bool) {
        self.counts.operations += 1;
        let which = rng.below(2);
        match rng.below(200) {
            0..120 => self.record(rng, which, false),
            120..185 => self.ask(rng, which).unwrap(),
            185..187 => self.reopen(which),
            187..189 => self.store(which).refresh().unwrap(),
            189..191 => {
                self.store(which).sync().unwrap();
                for line in &mut self.model.lines {
                    line.is_durable |= line.by == Some(which);
                }
            }
            191..199 if with_faults => self.fail(rng, which),
            199 if with_faults && rng.one_in(3) => self.cut_power(rng),
            _ => {}
        }
        if rng.one_in(300) {
            self.check_all();
        }
    }
}

fn run(name: &str, operations: u64, with_faults: bool) {
    let mut rng = Rng::seeded(name);
    let mut total = BTreeMap::<&str, u64>::new();
    let mut left = operations;
    while left > 0 {
        // Each store has its own seed, so that a failure can be reproduced without the stores
        // before it.
        let seed = rng.clone().0;
        let guard = Told(seed);
        let mut own = Rng(rng.next());
        let mut run = Run::new(&mut own);
        for _ in 0..left.min(OPERATIONS_PER_STORE) {
            run.step(&mut own, with_faults);
        }
        run.check_all();
        left -= run.counts.operations;
        std::mem::forget(guard);
        for (what, n) in [
            ("operations", run.counts.operations),
            ("lines", run.counts.lines),
            ("faults", run.counts.faults),
            ("power cuts", run.counts.power_cuts),
            (
                "unacknowledged, but there",
                run.counts.recovered_unacknowledged,
            ),
        ] {
            *total.entry(what).or_default() += n;
        }
    }
    println!("{name}: {total:?}");
}

/// Prints the seed of the store if a run panics.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        println!("this store alone: DECKLOG_SEED={}", self.0);
    }
}

#[test]
fn a_quiet_store_does_what_the_list_says() {
    run("quiet", count("DECKLOG_MODEL_OPS", 3_000), false);
}

#[test]
fn a_store_that_fails_and_loses_power_keeps_what_it_acknowledged() {
    run("faults", count("DECKLOG_MODEL_OPS", 3_000), true);
}
