//! Compaction, retention and erasure are interrupted at any operation, by a failing disk or a power
//! cut. Rewritten data is there in its old or its new state, complete and once, and all else is
//! unchanged. Running the operation again completes it as if nothing had happened. Data whose
//! erasure was acknowledged is in no file afterwards.
//!
//! `DECKLOG_REWRITE_FAULT_STEP` sets the number of operations from one fault to the next.

#![allow(clippy::case_sensitive_file_extension_comparisons)]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use decklog::health::DamageClass;
use decklog::query::RollupQuery;
use decklog::record::Rollup;
use decklog::retention::{CompactOptions, EraseOptions, Erasure, RetainOptions};
use decklog::storage::{Fault, Memory, Storage};
use decklog::{
    ConversationTurn, Durability, ErrorKind, Kind, Record, Store, ToolCallReq, Validity, verify,
};
use uuid::Uuid;

use super::erase::conversation;
use super::support::{DAY_1, DAY_MS, Rng, all_lines, count, request, still, turn};
use super::upkeep::{Life, record, said};

const DAYS: i64 = 4;
/// By then, half of the days have expired.
const NOW: i64 = DAY_1 + (DAYS / 2 + 90) * DAY_MS + 5;
/// The conversation to erase, and the word in all of its texts.
const TALK: u128 = 1_000_000;
const WORD: &str = "a pear that is to be forgotten";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upkeep {
    Compact,
    Retain,
    Erase,
    EraseUser,
}

use Upkeep::{Compact, Erase, EraseUser, Retain};

impl Upkeep {
    fn run(self, store: &Store) -> decklog::Result<()> {
        match self {
            Compact => {
                let options = CompactOptions {
                    now: NOW,
                    ..CompactOptions::default()
                };
                store
                    .compact(options)
                    .map(|done| assert!(!done.is_interrupted))
            }
            Retain => {
                let options = RetainOptions {
                    now: NOW,
                    ..RetainOptions::default()
                };
                store
                    .retain(options)
                    .map(|done| assert!(!done.is_interrupted))
            }
            Erase | EraseUser => {
                let what = if self == Erase {
                    Erasure::Conversation(Uuid::from_u128(TALK))
                } else {
                    Erasure::User("ann".into())
                };
                let done = store.erase(&what, EraseOptions::default());
                done.map(|done| assert!(!done.is_interrupted))
            }
        }
    }
}

fn open(memory: &Memory) -> decklog::Result<Store> {
    still()
        .durability(Durability::Process)
        .segment_bytes_max(2_500)
        .storage(Arc::new(memory.clone()))
        .open("memory")
}

/// A copy of all files, all of it durable.
fn copy(memory: &Memory) -> Memory {
    memory.after_power_cut(|all| all)
}

/// Records corrected and retracted as of the day before, whose segments expire first.
fn backdated() -> Vec<Record> {
    let (then, before) = (DAY_1 + DAY_MS + 5, DAY_1 + 5);
    let taken_back = |id| ConversationTurn {
        created_at: Validity::retracted(before),
        ..turn(id, "taken back", then)
    };
    let call = request(0xB4, "call", then);
    let no_call = ToolCallReq {
        started_at: Validity::retracted(before),
        ..call.clone()
    };
    vec![
        turn(0xB1, "as it was", then).into(),
        turn(0xB2, "taken back", then).into(),
        turn(0xB3, "to be given again", then).into(),
        call.into(),
        turn(0xB1, "as it is", before).into(),
        taken_back(0xB2).into(),
        taken_back(0xB3).into(),
        no_call.into(),
        turn(0xB3, "given again", then).into(),
    ]
}

/// Several days of an agent's records in small segments, including those to be erased.
fn before() -> Memory {
    let memory = Memory::new();
    let mut life = Life::new(Rng(7));
    let mut pear = conversation(TALK, "ann", WORD).into_iter();
    for day in 0..DAYS {
        let segment_bytes = if day % 2 == 0 { 900 } else { 2_500 };
        let options = still().segment_bytes_max(segment_bytes);
        let storage = Arc::new(memory.clone());
        let store = options.storage(storage).open("memory").unwrap();
        for _ in 0..2 {
            let mut records = life.live(10);
            life.now -= DAY_MS;
            records.extend(pear.by_ref().take(13));
            record(&store, records);
        }
        if day == 1 {
            record(&store, backdated());
        }
        life.now += DAY_MS;
    }
    assert_eq!(pear.next(), None);
    assert!(verify(&memory).unwrap().is_clean());
    memory
}

/// All files, by their paths.
pub fn files(memory: &Memory) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in memory.read_dir(&dir).unwrap() {
            let path = format!(
                "{dir}{}{}",
                if dir.is_empty() { "" } else { "/" },
                entry.name
            );
            if entry.is_dir {
                dirs.push(path);
            } else {
                let bytes = memory.bytes(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

fn is_segment(path: &str) -> bool {
    let is_lines = path.strip_suffix(".jsonl").is_some();
    path.starts_with("20") && is_lines && !path.ends_with("seals.jsonl")
}

/// The lines by day and kind, independent of segments, without lines that contain the time of their
/// writing.
fn lines(memory: &Memory) -> BTreeMap<String, String> {
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    for (path, bytes) in files(memory) {
        if is_segment(&path) && !path.contains("rollups") {
            let (name, _) = path.split_once('.').unwrap();
            let of_kind = lines.entry(name.to_owned()).or_default();
            of_kind.push_str(&String::from_utf8(bytes).unwrap());
        }
    }
    lines
}

/// Asserts that both are equal; prints only the differences.
fn assert_same<K: Ord + std::fmt::Debug>(
    found: &BTreeMap<K, String>,
    expected: &BTreeMap<K, String>,
    case: &str,
) {
    for key in found.keys().chain(expected.keys()) {
        assert_eq!(found.get(key), expected.get(key), "{case}: {key:?}");
    }
}

fn assert_forgotten(memory: &Memory, case: &str) {
    for (path, bytes) in files(memory) {
        let holds = |text: &str| bytes.windows(text.len()).any(|at| at == text.as_bytes());
        assert!(!holds(WORD), "{case}: {path} holds what was erased");
    }
}

type Said = BTreeMap<(Kind, String), String>;

/// The current records of a store, and the totals of its messages, including removed ones.
struct State {
    said: Said,
    sums: BTreeMap<String, String>,
}

impl State {
    fn assert_is(&self, expected: &State, case: &str) {
        assert_same(&self.said, &expected.said, case);
        assert_same(&self.sums, &expected.sums, case);
    }
}

fn sums(store: &Store) -> BTreeMap<String, String> {
    let rollups = store.rollups(&RollupQuery::default()).unwrap();
    let of = |rollup: Rollup| {
        let [model, config, mode, task] = [
            &rollup.model_used,
            &rollup.config_used,
            &rollup.orchestration_mode,
            &rollup.task_type,
        ];
        let group = format!("{} {model:?} {config:?} {mode:?} {task:?}", rollup.day);
        // Ignore the sequence number up to which the rollup counts.
        let sums = Rollup {
            through_seq: 0,
            ..rollup.clone()
        };
        (group, format!("{sums:?}"))
    };
    rollups.into_iter().map(of).collect()
}

fn state(store: &Store) -> State {
    State {
        said: said(store),
        sums: sums(store),
    }
}

/// A run of upkeep without faults: the states before and after it.
struct Run {
    upkeep: Upkeep,
    /// The operations that follow.
    then: &'static [Upkeep],
    base: Memory,
    old: State,
    new: State,
    operations: (u64, u64),
    end: State,
    lines: BTreeMap<String, String>,
}

impl Run {
    /// The same operation is run again to complete it.
    fn again(base: &Memory, upkeep: Upkeep) -> Run {
        let then: &[Upkeep] = match upkeep {
            Compact => &[Compact],
            Retain => &[Retain],
            Erase => &[Erase],
            EraseUser => &[EraseUser],
        };
        Run::new(base, upkeep, then)
    }

    fn name(&self) -> (Upkeep, &[Upkeep]) {
        (self.upkeep, self.then)
    }

    fn erases(&self) -> bool {
        matches!(self.upkeep, Erase | EraseUser)
    }

    fn new(base: &Memory, upkeep: Upkeep, then: &'static [Upkeep]) -> Run {
        let base = copy(base);
        let memory = copy(&base);
        let store = open(&memory).unwrap();
        let old = state(&store);
        let first = memory.operations();
        upkeep.run(&store).unwrap();
        let operations = (first, memory.operations());
        let new = state(&store);
        for (id, said) in &new.said {
            assert_eq!(Some(said), old.said.get(id), "{upkeep:?}: {id:?}");
        }
        let is_all = new.said.len() == old.said.len();
        assert_eq!(is_all, upkeep == Compact, "{upkeep:?}");
        drop(store);
        for upkeep in then {
            upkeep.run(&open(&memory).unwrap()).unwrap();
        }
        let found = verify(&memory).unwrap();
        assert!(
            found.is_clean() && found.interrupted.is_empty(),
            "{found:#?}"
        );
        Run {
            upkeep,
            then,
            base,
            old,
            new,
            operations,
            end: state(&open(&memory).unwrap()),
            lines: lines(&memory),
        }
    }

    /// Runs until an operation fails.
    fn fail_at(&self, at: u64, fault: Fault) -> (Memory, decklog::Result<()>) {
        let memory = copy(&self.base);
        let store = open(&memory).unwrap();
        assert_eq!(store.get_turn(Uuid::nil()).unwrap(), None);
        state(&store);
        memory.fail_at(at, fault);
        let ran = self.upkeep.run(&store);
        if let Err(e) = &ran {
            let expected = [ErrorKind::Io, ErrorKind::Poisoned, ErrorKind::Damaged];
            assert!(expected.contains(&e.kind()), "{e}");
        }
        (memory, ran)
    }

    /// Checks the state after an interruption, and that the following operations complete.
    fn check(&self, memory: &Memory, case: &str) {
        let store = open(memory).unwrap_or_else(|e| panic!("{case}: {e}"));
        self.check_whole(&store, case);
        assert_sound(memory, case, false);
        // The same handle continues, or another one.
        for upkeep in self.then {
            let ran = upkeep.run(&store);
            ran.unwrap_or_else(|e| panic!("{case}, then {upkeep:?}: {e}"));
        }
        state(&store).assert_is(&self.end, case);
        drop(store);
        let store = open(memory).unwrap();
        state(&store).assert_is(&self.end, case);
        assert_once(&store, case);
        drop(store);
        assert_same(&lines(memory), &self.lines, case);
        assert_sound(memory, case, true);
        let left = files(memory)
            .into_keys()
            .find(|path| path.strip_suffix(".tmp").is_some());
        assert_eq!(left, None, "{case}");
        if self.then.iter().any(|one| matches!(one, Erase | EraseUser)) {
            assert_forgotten(memory, case);
        }
    }

    /// Everything is in its old or its new state, and whatever must be kept is there.
    fn check_whole(&self, store: &Store, case: &str) {
        let found = state(store);
        let ids: BTreeSet<_> = self.old.said.keys().chain(found.said.keys()).collect();
        for id in ids {
            let (old, new) = (self.old.said.get(id), self.new.said.get(id));
            let found = found.said.get(id);
            // Parts of what is to be erased may be gone.
            let is_going = self.erases() && new.is_none();
            assert!(
                is_going || found == old || found == new,
                "{case}: {id:?} is {found:?}, it was {old:?}, it is to be {new:?}"
            );
        }
        if !self.erases() {
            assert_same(&found.sums, &self.old.sums, case);
        }
        assert_once(store, case);
    }
}

fn assert_once(store: &Store, case: &str) {
    let mut seqs = BTreeSet::new();
    for (seq, record) in all_lines(store) {
        assert!(seqs.insert(seq), "{case}: {record:?} is there twice");
    }
}

/// The only damage is torn lines of seals, removals and rollups, the only files that are appended
/// to.
fn assert_sound(memory: &Memory, case: &str, is_over: bool) {
    let found = verify(memory).unwrap();
    let is_torn = |damage: &decklog::health::Damage| {
        let is_appended = ["seals.jsonl", "removals.jsonl"].contains(&&*damage.file)
            || damage.file.ends_with("/seals.jsonl")
            || damage.file.contains("/rollups.");
        let classes = [DamageClass::Torn, DamageClass::Damaged];
        is_appended && classes.contains(&damage.class)
    };
    assert!(
        found.damage.iter().all(is_torn) && found.repeats.is_empty(),
        "{case}: {found:#?}"
    );
    assert!(
        !is_over || found.interrupted.is_empty(),
        "{case}: {found:#?}"
    );
}

/// The interrupted operations, each completed by the same operation.
fn runs() -> Vec<Run> {
    let base = before();
    let compacted = copy(&base);
    Compact.run(&open(&compacted).unwrap()).unwrap();
    vec![
        Run::again(&base, Compact),
        Run::again(&base, Retain),
        Run::again(&base, Erase),
        Run::again(&base, EraseUser),
        Run::again(&compacted, Retain),
        Run::again(&compacted, EraseUser),
    ]
}

/// Another operation runs before the interrupted one is completed. The leftovers of the interrupted
/// one do not disturb it.
fn mixed_runs() -> Vec<Run> {
    let base = before();
    vec![
        Run::new(&base, Compact, &[Erase, Compact]),
        Run::new(&base, Compact, &[Retain, Compact]),
        Run::new(&base, Retain, &[Compact, Retain]),
        Run::new(&base, Erase, &[Compact, Erase]),
    ]
}

const FAULTS: [Fault; 5] = [
    Fault::Error(io::ErrorKind::Other),
    Fault::Gone,
    Fault::Short(1),
    Fault::Error(io::ErrorKind::StorageFull),
    Fault::Error(io::ErrorKind::Interrupted),
];

fn fail_everywhere(runs: &[Run], step: u64) {
    let mut cases = 0;
    for run in runs {
        let (first, end) = run.operations;
        for (number, fault) in (0..).zip(FAULTS) {
            for at in (first + number * step / FAULTS.len() as u64..end).step_by(step as usize) {
                let case = format!("{:?}, {fault:?} at {at} of {first}..{end}", run.name());
                let (memory, ran) = run.fail_at(at, fault);
                memory.heal();
                if ran.is_ok() && run.erases() {
                    assert_forgotten(&memory, &case);
                }
                run.check(&memory, &case);
                cases += 1;
            }
        }
    }
    println!("{cases} faults");
}

#[test]
fn whatever_fails_it_is_as_it_was_or_as_it_is_to_be() {
    let step = count("DECKLOG_REWRITE_FAULT_STEP", 9_001);
    fail_everywhere(&runs(), step);
}

#[test]
fn whoever_goes_on_finds_no_halves() {
    let step = count("DECKLOG_REWRITE_FAULT_STEP", 9_001);
    fail_everywhere(&mixed_runs(), step);
}

#[test]
fn whenever_the_power_goes_it_is_as_it_was_or_as_it_is_to_be() {
    let step = count("DECKLOG_REWRITE_FAULT_STEP", 9_001);
    let mut rng = Rng::seeded("rewrites");
    let mut cuts = 0;
    for run in runs().iter().chain(&mixed_runs()) {
        let (first, end) = run.operations;
        // At the end, everything is done.
        let ats = (first..end).step_by(step as usize).chain([end; 3]);
        for at in ats {
            let case = format!("{:?}, power cut at {at} of {first}..{end}", run.name());
            let (memory, ran) = run.fail_at(at, Fault::Gone);
            let choices = rng.below(3);
            let cut = memory.after_power_cut(|all| match choices {
                0 => 0,
                1 => all,
                _ => rng.below(all + 1),
            });
            if ran.is_ok() && run.erases() {
                assert_forgotten(&cut, &case);
            }
            run.check(&cut, &case);
            cuts += 1;
        }
    }
    println!("{cuts} power cuts");
}
