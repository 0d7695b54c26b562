//! Sealing: a finished segment becomes read-only, and its hash is added to a chain of seals. After
//! that, any change to the segment or the chain makes `verify` name the place, and a proof and the
//! seal are enough to prove that a line was in the log. A sealing that is killed is completed by
//! the next pass.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use decklog::health::{DamageClass, Verification, VerifyOptions, verify_with};
use decklog::retention::RemovalReason;
use decklog::seal::{Digest, Proof, Seal, SealHead, SealReason};
use decklog::storage::{Access, Disk, Fault, Memory, Storage};
use decklog::{Durability, ErrorKind, Event, Key, Record, Store, Timestamp, verify};
use serde::de::IgnoredAny;
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Spy, all_lines, count, done, in_memory, request, still, turn};
use super::upkeep::retain;

/// Two days after the records of [`sample`].
const LATER: i64 = DAY_1 + 3 * DAY_MS;
const TURNS_1: &str = "2025-12-27/conversation_turns.0001.jsonl";
const TURNS_2: &str = "2025-12-28/conversation_turns.0001.jsonl";
const SEALS_1: &str = "2025-12-27/seals.jsonl";
const SEALS_2: &str = "2025-12-28/seals.jsonl";

/// A few turns over two days, and a call.
fn records() -> Vec<Record> {
    let call = request(9, "a", DAY_1 + 5);
    vec![
        turn(1, "one", DAY_1).into(),
        turn(2, "two", DAY_1 + 1).into(),
        turn(3, "three", DAY_1 + DAY_MS).into(),
        call.clone().into(),
        turn(4, "four", DAY_1 + 2).into(),
        done(&call).into(),
        turn(5, "five", DAY_1 + DAY_MS + 1).into(),
    ]
}

fn filled(memory: &Memory) -> Store {
    let store = in_memory(memory, Durability::Process);
    for record in records() {
        store.record(record).unwrap();
    }
    store
}

/// A store with three sealed segments.
fn sealed() -> Memory {
    let memory = Memory::new();
    let store = filled(&memory);
    assert_eq!(store.seal_at(LATER).unwrap().len(), 3);
    drop(store);
    memory
}

/// A copy of all current files.
fn copy(memory: &Memory) -> Memory {
    memory.after_power_cut(|all| all)
}

fn deep(storage: &dyn Storage) -> Verification {
    let options = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    verify_with(storage, &options).unwrap()
}

fn with_head(storage: &dyn Storage, head: SealHead) -> Verification {
    let options = VerifyOptions {
        head: Some(head),
        ..VerifyOptions::default()
    };
    verify_with(storage, &options).unwrap()
}

fn has(found: &Verification, class: DamageClass, file: &str) -> bool {
    let mut damage = found.damage.iter();
    damage.any(|damage| damage.class == class && damage.file == file)
}

/// Both kinds of verification report this file.
fn assert_named(memory: &Memory, class: DamageClass, file: &str, case: &str) {
    for found in [verify(memory).unwrap(), deep(memory)] {
        assert!(has(&found, class, file), "{case}: {found:#?}");
    }
}

fn assert_clean(storage: &dyn Storage, case: &str) {
    for found in [verify(storage).unwrap(), deep(storage)] {
        assert!(found.is_clean(), "{case}: {found:#?}");
    }
}

fn lines(memory: &Memory, file: &str) -> Vec<Vec<u8>> {
    let bytes = memory.bytes(file).unwrap();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(<[u8]>::to_vec).collect()
}

fn seals_in(memory: &Memory, file: &str) -> Vec<Seal> {
    let lines = lines(memory, file).into_iter();
    let text = lines.map(|line| String::from_utf8(line).unwrap());
    text.map(|line| Seal::parse(line.trim_end()).unwrap())
        .collect()
}

#[test]
fn what_takes_no_more_lines_is_sealed_in_one_chain() {
    let memory = Memory::new();
    let store = filled(&memory);
    assert_eq!(store.seal_head().unwrap(), None);
    // On the same day, nothing is finished; on the next, one day is.
    assert_eq!(store.seal_at(DAY_1 + 5).unwrap(), []);
    let first = store.seal_at(DAY_1 + DAY_MS).unwrap();
    let files: Vec<&str> = first.iter().map(|seal| &*seal.file).collect();
    assert_eq!(files, [TURNS_1, "2025-12-27/tool_calls.0001.jsonl"]);
    let rest = store.seal_at(LATER).unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(store.seal_at(LATER).unwrap(), []);
    assert_eq!(
        in_memory(&memory, Durability::Process)
            .seal_at(LATER)
            .unwrap(),
        []
    );

    let written = [seals_in(&memory, SEALS_1), seals_in(&memory, SEALS_2)].concat();
    assert_eq!(written, [first, rest].concat());
    let mut prev = Digest::ZERO;
    for (number, seal) in (1..).zip(&written) {
        let bytes = memory.bytes(&seal.file).unwrap();
        assert_eq!((seal.seal, seal.prev), (number, prev));
        assert_eq!(seal.bytes, bytes.len() as u64);
        assert_eq!(seal.lines, lines(&memory, &seal.file).len() as u64);
        assert_eq!((seal.damaged, seal.reason), (0, SealReason::Sealed));
        assert!(memory.stat(&seal.file).unwrap().is_read_only);
        prev = seal.hash;
    }
    assert_eq!((written[0].first_seq, written[0].last_seq), (1, 5));
    let head = store.seal_head().unwrap().unwrap();
    assert_eq!((head.seal, head.hash, head.at), (3, prev, LATER));
    let found = verify(&memory).unwrap();
    assert_eq!((found.segments, found.sealed, found.seals), (3, 3, 3));
    assert_eq!((found.good_lines, found.head), (7, Some(head)));
    assert_clean(&memory, "sealed");
    assert!(with_head(&memory, head).is_clean());
    assert_eq!(deep(&memory), found);
}

#[test]
fn full_segments_are_sealed_on_their_day() {
    let memory = Memory::new();
    let options = still().segment_bytes_max(600);
    let store = options.storage(Arc::new(memory.clone()));
    let store = store.open("memory").unwrap();
    for id in 1..=5 {
        store.record(turn(id, "some words", DAY_1)).unwrap();
    }
    let seals = store.seal_at(DAY_1).unwrap();
    assert_eq!(seals.len(), 2, "{seals:?}");
    store.record(turn(6, "more", DAY_1)).unwrap();
    assert_clean(&memory, "the last one is open");
    assert_eq!(verify(&memory).unwrap().sealed, 2);
}

#[test]
fn a_late_fact_of_a_sealed_day_goes_to_a_new_segment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    // This handle has the segment open when another one seals it.
    store.record(turn(1, "one", DAY_1)).unwrap();
    let other = Store::open(&path).unwrap();
    assert_eq!(other.seal_at(LATER).unwrap().len(), 1);
    let before = std::fs::read(path.join(TURNS_1)).unwrap();
    let is_read_only = |file: &str| Disk::new(&path).stat(file).unwrap().is_read_only;
    assert!(is_read_only(TURNS_1));

    store.record(turn(2, "two", DAY_1)).unwrap();
    other.record(turn(3, "three", DAY_1)).unwrap();
    store.record(turn(1, "again", DAY_1)).unwrap();
    // Nothing new; it syncs a line in the sealed segment.
    let disk = Store::options().durability(Durability::Disk);
    let disk = disk.open(&path).unwrap();
    disk.record(turn(1, "again", DAY_1)).unwrap();
    assert_eq!(std::fs::read(path.join(TURNS_1)).unwrap(), before);
    let next = TURNS_1.replace("0001", "0002");
    assert!(!is_read_only(&next));
    assert_eq!(store.seal_at(LATER).unwrap()[0].file, next);
    store.record(turn(4, "four", DAY_1)).unwrap();
    assert!(path.join(TURNS_1.replace("0001", "0003")).exists());
    for store in [&store, &other] {
        assert_eq!(all_lines(store).len(), 5);
        assert_eq!(
            store.get_turn(Uuid::from_u128(1)).unwrap().unwrap().content,
            "again"
        );
    }
    drop((store, other, disk));
    assert_clean(&Disk::new(&path), "three segments");
    // Also with a handle that has no earlier state.
    let store = Store::open(&path).unwrap();
    assert_eq!(all_lines(&store).len(), 5);
    drop(store);
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_torn_line_is_ended_before_its_segment_is_sealed() {
    let memory = Memory::new();
    drop(filled(&memory));
    let mut bytes = memory.bytes(TURNS_1).unwrap();
    bytes.extend_from_slice(b"{\"seq\":8,\"at\":17");
    memory.put_bytes(TURNS_1, bytes.clone());
    let store = in_memory(&memory, Durability::Process);
    let seals = store.seal_at(LATER).unwrap();
    assert_eq!((seals[0].lines, seals[0].damaged), (4, 1));
    bytes.push(b'\n');
    assert_eq!(memory.bytes(TURNS_1).unwrap(), bytes);
    // A damaged segment is sealed as it is, and still reported.
    assert_named(&memory, DamageClass::Damaged, TURNS_1, "torn");
    assert!(!has(
        &verify(&memory).unwrap(),
        DamageClass::Changed,
        TURNS_1
    ));
}

#[test]
fn a_change_of_any_byte_is_named() {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    store.record(turn(1, "one", DAY_1)).unwrap();
    store.record(turn(2, "two", DAY_1 + DAY_MS)).unwrap();
    assert_eq!(store.seal_at(LATER).unwrap().len(), 2);
    drop(store);
    for file in [TURNS_1, TURNS_2, SEALS_1, SEALS_2] {
        let bytes = memory.bytes(file).unwrap();
        let is_seals = file.ends_with("seals.jsonl");
        for place in 0..bytes.len() {
            let flip = 1 << (place % 8);
            let mut changed = bytes.clone();
            changed[place] ^= flip;
            let line = changed.strip_suffix(b"\n");
            let class = match line.map(serde_json::from_slice::<IgnoredAny>) {
                None => DamageClass::Torn,
                Some(Ok(_)) => DamageClass::Chain,
                Some(Err(_)) => DamageClass::Damaged,
            };
            memory.put_bytes(file, changed);
            let case = format!("{file} at {place} by {flip}");
            let found = verify(&memory).unwrap();
            let is_named = if is_seals {
                has(&found, class, file)
            } else {
                has(&found, DamageClass::Changed, file)
            };
            assert!(is_named, "{case}: {found:#?}");
            // The full verification is slower, and must report the same.
            if place % 7 == 0 {
                let found = deep(&memory);
                assert!(!found.is_clean(), "{case}: {found:#?}");
            }
        }
        memory.put_bytes(file, bytes);
    }
    assert_clean(&memory, "as it was");
}

#[test]
fn lines_taken_out_or_put_elsewhere_are_named() {
    let memory = sealed();
    for file in [TURNS_1, TURNS_2] {
        let whole = memory.bytes(file).unwrap();
        let lines = lines(&memory, file);
        for place in 0..lines.len() {
            let mut fewer = lines.clone();
            fewer.remove(place);
            memory.put_bytes(file, fewer.concat());
            let case = format!("{file} without line {place}");
            assert_named(&memory, DamageClass::Changed, file, &case);
            let found = verify(&memory).unwrap();
            assert_eq!(found.gaps.len(), 1, "{case}: {found:#?}");
            assert!(found.damage[0].reason.contains("shorter"), "{found:#?}");
            for other in 0..place {
                let mut swapped = lines.clone();
                swapped.swap(place, other);
                memory.put_bytes(file, swapped.concat());
                let case = format!("{file} with lines {place} and {other} swapped");
                assert_named(&memory, DamageClass::Changed, file, &case);
                // The lines are reported too.
                assert_named(&memory, DamageClass::Altered, file, &case);
            }
        }
        for len in (0..whole.len()).step_by(17) {
            memory.put_bytes(file, whole[..len].to_vec());
            assert_named(
                &memory,
                DamageClass::Changed,
                file,
                &format!("{file} cut at {len}"),
            );
        }
        let mut longer = whole.clone();
        longer.extend_from_slice(&lines[0]);
        memory.put_bytes(file, longer);
        assert_named(&memory, DamageClass::Changed, file, "a line twice");
        memory.put_bytes(file, whole);
    }
    assert_clean(&memory, "as it was");
}

#[test]
fn a_segment_that_is_gone_or_another_one_is_named() {
    let memory = sealed();
    // Two valid segments were exchanged.
    let changed = copy(&memory);
    changed.put_bytes(TURNS_1, memory.bytes(TURNS_2).unwrap());
    changed.put_bytes(TURNS_2, memory.bytes(TURNS_1).unwrap());
    assert_named(&changed, DamageClass::Changed, TURNS_1, "exchanged");
    assert_named(&changed, DamageClass::Changed, TURNS_2, "exchanged");

    for file in [TURNS_1, TURNS_2] {
        let changed = copy(&memory);
        changed.remove_file(file).unwrap();
        assert_named(&changed, DamageClass::Missing, file, "deleted");
        assert!(!verify(&changed).unwrap().gaps.is_empty());
    }
    // The end of the log was removed with its seals. Only a stored head reveals it.
    let head = in_memory(&memory, Durability::Process)
        .seal_head()
        .unwrap()
        .unwrap();
    let changed = copy(&memory);
    changed.remove_file(TURNS_2).unwrap();
    changed.remove_file(SEALS_2).unwrap();
    assert!(!has(
        &verify(&changed).unwrap(),
        DamageClass::Chain,
        "seals.jsonl"
    ));
    let found = with_head(&changed, head);
    assert!(has(&found, DamageClass::Chain, "seals.jsonl"), "{found:#?}");
    // A missing start of the log with its seals is always detected.
    let changed = copy(&memory);
    changed.remove_file(TURNS_1).unwrap();
    changed
        .remove_file("2025-12-27/tool_calls.0001.jsonl")
        .unwrap();
    changed.remove_file(SEALS_1).unwrap();
    assert_named(&changed, DamageClass::Chain, SEALS_2, "a day deleted");
}

#[test]
fn seals_taken_out_put_elsewhere_or_made_anew_are_named() {
    let memory = sealed();
    let head = in_memory(&memory, Durability::Process)
        .seal_head()
        .unwrap()
        .unwrap();
    let [one, two]: [Vec<u8>; 2] = lines(&memory, SEALS_1).try_into().unwrap();
    let three = memory.bytes(SEALS_2).unwrap();
    let with = |first: Vec<u8>, second: Vec<u8>| {
        let changed = copy(&memory);
        changed.put_bytes(SEALS_1, first);
        changed.put_bytes(SEALS_2, second);
        changed
    };
    let all = || [&*one, &*two].concat();
    let cases = [
        (
            with(two.clone(), three.clone()),
            SEALS_1,
            "the first deleted",
        ),
        (
            with(one.clone(), three.clone()),
            SEALS_2,
            "the second deleted",
        ),
        (
            with([&*two, &*one].concat(), three.clone()),
            SEALS_1,
            "reordered",
        ),
        (
            with([&*one, &*one, &*two].concat(), three.clone()),
            SEALS_1,
            "one twice",
        ),
        (
            with([&*all(), &*three].concat(), vec![]),
            SEALS_1,
            "one in another day's",
        ),
        (
            with(all(), [&*two, &*three].concat()),
            SEALS_2,
            "one in both",
        ),
    ];
    for (changed, file, case) in cases {
        assert_named(&changed, DamageClass::Chain, file, case);
    }
    // The last seal is missing: as if the segment had never been sealed. Only a stored head reveals
    // it.
    let changed = with(all(), vec![]);
    assert_clean(&changed, "the last deleted");
    let found = with_head(&changed, head);
    assert!(has(&found, DamageClass::Chain, "seals.jsonl"), "{found:#?}");

    // An attacker with write access to everything writes another log, with its own seals.
    let forged = Memory::new();
    let store = in_memory(&forged, Durability::Process);
    for (nth, record) in records().into_iter().enumerate() {
        if nth != 1 {
            store.record(record).unwrap();
        }
    }
    assert_eq!(store.seal_at(LATER).unwrap().len(), 3);
    assert_clean(&forged, "forged");
    let found = with_head(&forged, head);
    assert!(has(&found, DamageClass::Chain, "seals.jsonl"), "{found:#?}");
    // A part of it does not match the old chain.
    let changed = with(forged.bytes(SEALS_1).unwrap(), three);
    assert_named(&changed, DamageClass::Chain, SEALS_2, "a part made anew");
}

#[test]
fn a_proof_holds_for_its_line_and_for_no_other() {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    let wanted = 1000u64;
    let events = (0..wanted)
        .map(|nth| with!(Event::new(None, "agent.started"), created_at: DAY_1 + nth.cast_signed()));
    for ack in store.record_batch(events.map(Record::from)).unwrap() {
        ack.unwrap();
    }
    let err = store.prove(&Key::Event(1)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Lifecycle);
    assert!(err.to_string().contains("decklog seal"), "{err}");
    let seals = store.seal_at(LATER).unwrap();
    assert_eq!(store.prove(&Key::Event(1001)).unwrap(), None);

    let lines = lines(&memory, &seals[0].file);
    let mut proofs = Vec::new();
    for (id, line) in (1..).zip(&lines) {
        let proof = store.prove(&Key::Event(id));
        let proof = proof.unwrap().unwrap();
        assert_eq!(proof.line.as_bytes(), line.trim_ascii_end());
        assert_eq!((proof.index, proof.lines), (id.cast_unsigned() - 1, wanted));
        proof.check(Some(&seals[0])).unwrap();
        let json = serde_json::to_string(&proof).unwrap();
        assert_eq!(serde_json::from_str::<Proof>(&json).unwrap(), proof);
        proofs.push(proof);
    }
    for (index, proof) in proofs.iter().enumerate() {
        for other in [0, 1, index / 2, index ^ 1, index + 1, proofs.len() - 1] {
            let Some(other) = proofs.get(other).filter(|other| other.index != proof.index) else {
                continue;
            };
            let mut elsewhere = [proof.clone(), proof.clone(), proof.clone()];
            elsewhere[0].line.clone_from(&other.line);
            elsewhere[1].index = other.index;
            elsewhere[2].path.clone_from(&other.path);
            for changed in elsewhere {
                // Adjacent lines may share all of their path except the first hash.
                if changed != *proof {
                    assert_eq!(changed.check(None).unwrap_err().kind(), ErrorKind::Damaged);
                }
            }
        }
    }
    let proof = &proofs[333];
    let (mut fewer, mut more) = (proof.clone(), proof.clone());
    fewer.lines -= 1;
    more.path.push(Digest::ZERO);
    for changed in [fewer, more] {
        assert!(changed.check(None).is_err());
    }
    let mut other = proof.clone();
    other.seal.lines += 1;
    other.lines += 1;
    assert!(other.check(None).unwrap_err().to_string().contains("hash"));
    let mut newer = proof.clone();
    newer.decklog_proof += 1;
    assert_eq!(
        newer.check(None).unwrap_err().kind(),
        ErrorKind::NewerFormat
    );
    // A valid proof from another log.
    let elsewhere = &seals_in(&sealed(), SEALS_1)[0];
    assert_eq!(
        proof.check(Some(elsewhere)).unwrap_err().kind(),
        ErrorKind::Damaged
    );
    // No proof is created for a changed line.
    memory.put_bytes(&seals[0].file, lines[1..].concat());
    let store = in_memory(&memory, Durability::Process);
    let err = store.prove(&Key::Event(5)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Damaged);
}

#[test]
fn a_proof_of_one_of_many_lines_is_short() {
    let wanted = count("DECKLOG_PROOF_LINES", 5_000);
    let memory = Memory::new();
    let options = still().segment_bytes_max(u32::MAX.into());
    let store = options.storage(Arc::new(memory.clone()));
    let store = store.open("memory").unwrap();
    let event = with!(Event::new(None, "agent.started"), created_at: DAY_1);
    let mut left = wanted;
    while left > 0 {
        let batch = left.min(10_000);
        let events = (0..batch).map(|_| Record::from(event.clone()));
        assert_eq!(store.record_batch(events).unwrap().len() as u64, batch);
        left -= batch;
    }
    let seals = store.seal_at(LATER).unwrap();
    assert_eq!(seals[0].lines, wanted);
    let key = Key::Event(i64::try_from(wanted / 3).unwrap());
    let started = Instant::now();
    let proof = store.prove(&key).unwrap().unwrap();
    let proven = started.elapsed();
    let started = Instant::now();
    proof.check(Some(&seals[0])).unwrap();
    println!(
        "{wanted} lines: proven in {proven:?}, checked in {:?}",
        started.elapsed()
    );
    assert!(proof.path.len() <= wanted.ilog2() as usize + 1);
}

const FAULTS: [Fault; 4] = [
    Fault::Error(io::ErrorKind::Other),
    Fault::Error(io::ErrorKind::StorageFull),
    Fault::Short(7),
    Fault::Gone,
];

/// The state after the next pass completes a failed one.
fn assert_completed(memory: &Memory, case: &str) {
    let found = verify(memory).unwrap();
    let is_torn = |class| matches!(class, DamageClass::Torn);
    assert!(
        found.damage.iter().all(|one| is_torn(one.class)),
        "{case}: {found:#?}"
    );
    let store = in_memory(memory, Durability::Process);
    store
        .seal_at(LATER)
        .unwrap_or_else(|e| panic!("{case}: {e}"));
    assert_eq!(store.seal_at(LATER).unwrap(), [], "{case}");
    assert_eq!(all_lines(&store).len(), records().len(), "{case}");
    let found = deep(memory);
    assert_eq!((found.sealed, found.seals), (3, 3), "{case}: {found:#?}");
    // A torn line is never parsed as a seal, and a repair removes it.
    let is_of_seals = |file: &str| file.ends_with("seals.jsonl");
    assert!(
        found.damage.iter().all(|one| is_of_seals(&one.file)),
        "{case}: {found:#?}"
    );
    if !found.is_clean() {
        store.repair().unwrap();
    }
    drop(store);
    assert_clean(memory, case);
    for file in [TURNS_1, TURNS_2] {
        assert!(memory.stat(file).unwrap().is_read_only, "{case}");
    }
}

#[test]
fn whatever_fails_while_segments_are_sealed_the_next_pass_completes_it() {
    let base = Memory::new();
    drop(filled(&base));
    let run = |fail: &dyn Fn(&Memory)| {
        let memory = copy(&base);
        fail(&memory);
        let store = still().storage(Arc::new(memory.clone())).open("memory");
        let sealed = store.and_then(|store| store.seal_at(LATER));
        (memory, sealed)
    };
    let (clean, sealed) = run(&|_| ());
    assert_eq!(sealed.unwrap().len(), 3);
    assert_completed(&clean, "nothing fails");
    let operations = clean.operations();
    let step = count("DECKLOG_SEAL_FAULT_STEP", 5) as usize;
    // With a step of 1, every fault occurs at every operation. Otherwise the faults alternate.
    for (number, fault) in (0..).zip(FAULTS) {
        for at in (number % step as u64..operations).step_by(step) {
            let case = format!("{fault:?} at {at} of {operations}");
            let (memory, _) = run(&|memory| memory.fail_at(at, fault));
            memory.heal();
            for keep_all in [false, true] {
                let cut = memory.after_power_cut(|n| if keep_all { n } else { 0 });
                assert_completed(&cut, &format!("{case}, power cut"));
            }
            assert_completed(&memory, &case);
        }
    }
    // Count seals that were only partly written.
    let mut torn = 0;
    for at in 0..operations {
        let (memory, _) = run(&|memory| {
            memory.fail_at(at, Fault::Short(7));
            memory.fail_at(at + 1, Fault::Gone);
        });
        memory.heal();
        let is_torn = |file| {
            let bytes = memory.bytes(file).unwrap_or_default();
            bytes.last().is_some_and(|byte| *byte != b'\n')
        };
        if is_torn(SEALS_1) || is_torn(SEALS_2) {
            torn += 1;
            assert_completed(&memory, &format!("cut short at {at}"));
        }
    }
    assert_eq!(torn, 3);
}

/// Reading, hashing and fsync happen without blocking writers.
#[test]
fn writers_do_not_wait_while_a_segment_is_hashed_or_synced() {
    let memory = Memory::new();
    drop(filled(&memory));
    let spy = Spy::new(memory.clone());
    let storage: Arc<dyn Storage> = Arc::new(spy.clone());
    let store = still().storage(storage).open("memory").unwrap();
    let before = spy.events().len();
    let other = in_memory(&memory, Durability::Process);
    spy.hook(move |operation, path| {
        let is_of_segment = path.ends_with("0001.jsonl") && operation == "read_at";
        if operation == "sync" || operation == "sync_dir" || is_of_segment {
            // It has the lock, or gets it.
            other.record_batch([]).unwrap();
        }
        Ok(())
    });
    assert_eq!(store.seal_at(LATER).unwrap().len(), 3);
    spy.unhook();
    let events = spy.events();
    let count_of = |operation: &str| {
        let events = events[before..].iter();
        events.filter(|event| event.operation == operation).count()
    };
    assert!(count_of("sync") >= 6 && count_of("read_at") > 3);
    assert_clean(&memory, "sealed");
}

#[test]
fn processes_that_seal_at_once_make_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    for day in 0..12 {
        for id in 0..3 {
            store
                .record(turn(day * 10 + id, "x", DAY_1 + day as i64 * DAY_MS))
                .unwrap();
            store
                .record(request(day, &id.to_string(), DAY_1 + day as i64 * DAY_MS))
                .unwrap();
        }
    }
    drop(store);
    let sealers: Vec<_> = (0..4)
        .map(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
            command.args(["seal", "--json", "--store"]).arg(&path);
            command.stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    // Another handle writes to the days that are being sealed.
    let writer = Store::open(&path).unwrap();
    for id in 0..200 {
        writer
            .record(turn(1000 + id, "late", DAY_1 + (id as i64 % 12) * DAY_MS))
            .unwrap();
    }
    let mut numbers = Vec::new();
    for sealer in sealers {
        let output = sealer.wait_with_output().unwrap();
        assert!(output.status.success());
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            numbers.extend(Seal::parse(line).ok().map(|seal| seal.seal));
        }
    }
    writer.seal_at(Timestamp::now().at()).unwrap();
    assert_eq!(all_lines(&writer).len(), 272);
    numbers.sort_unstable();
    assert!(numbers.len() >= 24, "{numbers:?}");
    let found = deep(&Disk::new(&path));
    assert!(found.is_clean(), "{found:#?}");
    assert_eq!(found.sealed, found.segments);
    numbers.dedup();
    assert!(numbers.len() as u64 <= found.seals);
    assert_eq!(found.seals, found.segments);
}

#[test]
fn a_sealed_segment_that_is_mended_is_sealed_anew() {
    let memory = Memory::new();
    drop(filled(&memory));
    let mut bytes = memory.bytes(TURNS_1).unwrap();
    bytes.extend_from_slice(b"no line\n");
    memory.put_bytes(TURNS_1, bytes);
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(store.seal_at(LATER).unwrap()[0].damaged, 1);
    drop(store);

    // The new seal is there, but the file is not: it still matches the old seal.
    let operations = {
        let memory = copy(&memory);
        in_memory(&memory, Durability::Process).repair().unwrap();
        memory.operations()
    };
    let mut interrupted = 0;
    for at in 0..operations {
        let memory = copy(&memory);
        memory.fail_at(at, Fault::Gone);
        let store = still().storage(Arc::new(memory.clone())).open("memory");
        drop(store.and_then(|store| store.repair()));
        memory.heal();
        let found = verify(&memory).unwrap();
        assert!(
            !has(&found, DamageClass::Changed, TURNS_1),
            "{at}: {found:#?}"
        );
        interrupted += found.interrupted.len();
        in_memory(&memory, Durability::Process).repair().unwrap();
        assert_clean(&memory, &format!("repair failed at {at}"));
    }
    assert!(interrupted > 0);

    let store = in_memory(&memory, Durability::Process);
    let repaired = store.repair().unwrap();
    assert!(repaired[0].resealed, "{repaired:?}");
    let seals = seals_in(&memory, SEALS_1);
    let last = seals.last().unwrap();
    assert_eq!(
        (last.reason, &*last.replaces, last.damaged),
        (SealReason::Repair, &[1][..], 0)
    );
    assert!(memory.stat(TURNS_1).unwrap().is_read_only);
    assert_clean(&memory, "mended");
    assert_eq!(store.repair_and_accept_edits().unwrap(), []);

    // Someone added a valid line. Only a person can decide whether it belongs there.
    let mut bytes = memory.bytes(TURNS_1).unwrap();
    bytes.truncate(lines(&memory, TURNS_1)[..2].concat().len());
    memory.put_bytes(TURNS_1, bytes);
    assert_named(&memory, DamageClass::Changed, TURNS_1, "cut");
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(store.repair().unwrap(), []);
    assert_named(&memory, DamageClass::Changed, TURNS_1, "cut still");
    assert!(store.repair_and_accept_edits().unwrap()[0].resealed);
    let found = verify(&memory).unwrap();
    assert_eq!((found.damage.len(), found.gaps.len()), (0, 1), "{found:#?}");
}

#[test]
fn what_the_log_of_removals_tells_of_is_not_missed() {
    let memory = sealed();
    let seals = seals_in(&memory, SEALS_1);
    let seal = &seals[0];
    let removal = |lines: u64| {
        let covered = format!(
            "{{\"seq\":1,\"at\":1,\"reason\":\"retention\",\"file\":\"{TURNS_1}\",\"lines\":{lines},\"first_seq\":{},\"last_seq\":{},\"seals\":[{}],\"prev\":\"{}\"",
            seal.first_seq,
            seal.last_seq,
            seal.to_line(),
            "0".repeat(64)
        );
        let crc = crc32fast::hash(covered.as_bytes());
        format!("{covered},\"crc\":\"{crc:08x}\"}}\n")
    };
    memory.put_bytes("removals.jsonl", removal(3).into_bytes());
    for found in [verify(&memory).unwrap(), deep(&memory)] {
        assert!(
            found.is_clean() && found.interrupted.len() == 1,
            "{found:#?}"
        );
        let removed = BTreeMap::from([(RemovalReason::Retention, 3)]);
        assert_eq!(found.removed, removed);
    }
    memory.remove_file(TURNS_1).unwrap();
    // While a seal is moved, both files have it.
    assert_clean(&memory, "while it is moved");
    memory.put_bytes(SEALS_1, format!("{}\n", seals[1].to_line()).into_bytes());
    assert_clean(&memory, "moved");
    assert_eq!(verify(&memory).unwrap().seals, 3);
    // More lines are missing than were removed.
    memory.put_bytes("removals.jsonl", removal(2).into_bytes());
    let found = verify(&memory).unwrap();
    assert_eq!(found.gaps.len(), 2, "{found:#?}");
    memory.put_bytes("removals.jsonl", removal(3).into_bytes());
    let short = lines(&memory, TURNS_2);
    memory.put_bytes(TURNS_2, short[0].clone());
    let found = verify(&memory).unwrap();
    assert!(has(&found, DamageClass::Changed, TURNS_2));
    memory.put_bytes(TURNS_2, short.concat());
    // A late record reuses the name of the removed segment, and gets its own seal.
    let store = in_memory(&memory, Durability::Process);
    store.record(turn(7, "seven", DAY_1)).unwrap();
    let next = store.seal_at(LATER).unwrap();
    assert_eq!(
        (next[0].seal, next[0].prev),
        (4, seals_in(&memory, SEALS_2)[0].hash)
    );
    assert_eq!(next[0].file, TURNS_1);
    assert_clean(&memory, "sealed on");
    memory.put_bytes("removals.jsonl", b"{\"no\":\"removal\"}\n".to_vec());
    assert_named(&memory, DamageClass::Chain, "removals.jsonl", "edited");
    memory.put_bytes("removals.jsonl", b"no removal\n".to_vec());
    assert_named(&memory, DamageClass::Damaged, "removals.jsonl", "no JSON");
}

/// A line of `removals.jsonl` with a valid checksum.
fn restamped(line: &str) -> String {
    let covered = &line[..line.rfind(",\"crc\":\"").unwrap()];
    let crc = crc32fast::hash(covered.as_bytes());
    format!("{covered},\"crc\":\"{crc:08x}\"}}\n")
}

/// Removals have their own chain: a changed, removed, moved or forged one is reported, and a stored
/// head covers all of them before it.
#[test]
fn a_removal_that_was_changed_taken_away_or_made_up_is_named() {
    const REMOVALS: &str = "removals.jsonl";
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    for day in 0..5i64 {
        let at = DAY_1 + day * DAY_MS;
        store
            .record(turn(u128::from(day.unsigned_abs()) + 1, "said", at))
            .unwrap();
    }
    store.seal_at(DAY_1 + 6 * DAY_MS).unwrap();
    for days in 1..=4 {
        retain(&store, DAY_1 + (90 + days) * DAY_MS);
    }
    let head = store.seal_head().unwrap().unwrap();
    let text = String::from_utf8(memory.bytes(REMOVALS).unwrap()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let count = lines.len();
    assert!(count >= 4 && head.removal == count as u64, "{text}");
    assert!(with_head(&memory, head).is_clean());
    for (place, line) in lines.iter().enumerate() {
        let start = format!("{{\"seq\":{},\"at\":", place + 1);
        assert!(
            line.starts_with(&start) && restamped(line) == *line,
            "{line}"
        );
    }
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        change(&mut changed);
        memory.put_bytes(REMOVALS, changed.concat().into_bytes());
        let is_named = |found: Verification| has(&found, DamageClass::Chain, REMOVALS);
        let named = (
            is_named(verify(&memory).unwrap()),
            is_named(with_head(&memory, head)),
        );
        memory.put_bytes(REMOVALS, text.clone().into_bytes());
        named
    };
    let edited = |line: &str| line.replacen("\"lines\":1", "\"lines\":2", 1);
    for place in 0..count {
        let is_last = place == count - 1;
        if lines[place].contains("\"lines\":1") {
            assert_eq!(with(&|all| all[place] = edited(lines[place])), (true, true));
            let forged = restamped(&edited(lines[place]));
            assert_eq!(
                with(&|all| all[place].clone_from(&forged)),
                (!is_last, true),
                "{place}"
            );
        }
        assert_eq!(
            with(&|all| _ = all.remove(place)),
            (!is_last, true),
            "{place}"
        );
        let again = lines[place].to_owned();
        assert_eq!(
            with(&|all| all.push(again.clone())),
            (true, true),
            "{place}"
        );
        if !is_last {
            assert_eq!(
                with(&|all| all.swap(place, place + 1)),
                (true, true),
                "{place}"
            );
        }
        assert_eq!(with(&|all| all.truncate(place)), (false, true), "{place}");
    }
    assert_eq!(with(&|all| all.push("{\"seq\":9}\n".into())), (true, true));
    // A torn line stays separate; the next line follows the last complete one.
    let torn = [text.as_bytes(), &text.as_bytes()[..40]].concat();
    memory.put_bytes(REMOVALS, torn);
    store.record(turn(9, "said", DAY_1)).unwrap();
    store.seal_at(DAY_1 + 95 * DAY_MS).unwrap();
    retain(&store, DAY_1 + 95 * DAY_MS);
    let found = with_head(&memory, head);
    assert_eq!(found.damage.len(), 1, "{found:#?}");
    store.repair().unwrap();
    assert!(with_head(&memory, head).is_clean());
}

/// As many lines are duplicated as are missing, in segments that were sealed in that state.
#[test]
fn a_line_that_is_missing_is_not_made_up_for_by_one_that_is_there_twice() {
    let memory = Memory::new();
    drop(filled(&memory));
    let twice = lines(&memory, TURNS_1);
    memory.put_bytes(TURNS_1, [twice.concat(), twice[0].clone()].concat());
    let short = lines(&memory, TURNS_2);
    memory.put_bytes(TURNS_2, short[1..].concat());
    for is_sealed in [false, true] {
        if is_sealed {
            let store = in_memory(&memory, Durability::Process);
            assert_eq!(store.seal_at(LATER).unwrap().len(), 3);
        }
        for found in [verify(&memory).unwrap(), deep(&memory)] {
            assert_eq!(found.gaps.len(), 1, "{found:#?}");
            assert_eq!(found.repeats.len(), 1, "{found:#?}");
            assert!(has(&found, DamageClass::Repeated, TURNS_1), "{found:#?}");
        }
    }
}

/// Nothing records any more that a segment was removed. A new segment of its day gets another name,
/// so that the old seal is not applied to it.
#[test]
fn a_new_segment_gets_no_number_that_a_seal_has() {
    let memory = sealed();
    let store = in_memory(&memory, Durability::Process);
    let turns_go = |settings: &mut decklog::Settings| {
        settings.retention.conversation_turns = Some(decklog::retention::Keep::Days(1));
        settings.retention.tool_calls = Some(decklog::retention::Keep::Forever);
    };
    store.change_settings(turns_go).unwrap();
    assert_eq!(retain(&store, LATER).parts.len(), 2);
    assert!(memory.stat(TURNS_1).is_err() && memory.stat(SEALS_1).is_ok());
    drop(store);
    memory.remove_file("removals.jsonl").unwrap();

    let store = in_memory(&memory, Durability::Process);
    store.record(turn(1, "one", DAY_1)).unwrap();
    let next = "2025-12-27/conversation_turns.0002.jsonl";
    assert!(memory.stat(TURNS_1).is_err() && memory.stat(next).is_ok());
    store.seal_at(LATER).unwrap();
    let found = deep(&memory);
    assert!(has(&found, DamageClass::Missing, TURNS_1), "{found:#?}");
    assert!(found.damage.iter().all(|it| it.file != next), "{found:#?}");
    assert_eq!(retain(&store, LATER).parts.len(), 1);
    assert!(memory.stat(next).is_err());
}

#[test]
fn a_sealed_segment_that_lost_its_mode_gets_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    store.record(turn(1, "one", DAY_1)).unwrap();
    store.seal_at(LATER).unwrap();
    let file = path.join(TURNS_1);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let is_read_only = || Disk::new(&path).stat(TURNS_1).unwrap().is_read_only;
    assert!(!is_read_only());
    assert_eq!(store.seal_at(LATER).unwrap(), []);
    assert!(is_read_only());
    drop(store);
    assert_clean(&Disk::new(&path), "copied");
}

#[test]
fn a_handle_that_only_reads_seals_nothing() {
    let memory = sealed();
    let options = still().read_only(true).storage(Arc::new(memory.clone()));
    let store = options.open("memory").unwrap();
    assert_eq!(
        store.seal_at(LATER).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(store.seal_head().unwrap().unwrap().seal, 3);
    assert!(
        store
            .prove(&Key::ToolCall {
                request_id: Uuid::from_u128(9),
                call_id: "a".into()
            })
            .unwrap()
            .is_some()
    );
    assert!(memory.open(TURNS_1, Access::Read).is_ok());
    assert_eq!(
        memory.open(TURNS_1, Access::Append).unwrap_err().kind(),
        io::ErrorKind::PermissionDenied
    );
}

/// The example seal in the document is what decklog writes for the example thought.
#[test]
fn the_seal_that_the_document_shows_is_written_so() {
    let layout = include_str!("../../data-layout.md");
    let shown = |name: &str| {
        let (_, rest) = layout.split_once(&format!("{name}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    let dir = tempfile::tempdir().unwrap();
    let (thoughts, seals) = (
        "2026-04-17/thought_records.0001.jsonl",
        "2026-04-17/seals.jsonl",
    );
    std::fs::create_dir(dir.path().join("2026-04-17")).unwrap();
    std::fs::write(
        dir.path().join(thoughts),
        shown(&format!("```jsonl {thoughts}")),
    )
    .unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.seal_at(1_776_470_400_000).unwrap();
    let written = std::fs::read_to_string(dir.path().join(seals)).unwrap();
    assert_eq!(written, shown(&format!("```json {seals}")));
}

fn decklog(path: &Path, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    let output = command
        .args(args)
        .arg("--store")
        .arg(path)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(text).unwrap(),
    )
}

#[test]
fn the_command_line_seals_proves_and_checks() {
    let dir = tempfile::tempdir().unwrap();
    let (path, file) = (dir.path().join("log"), |name: &str| dir.path().join(name));
    let run = |args: &[&str]| decklog(&path, args);
    let store = Store::open(&path).unwrap();
    for record in records() {
        store.record(record).unwrap();
    }
    drop(store);
    let id = Uuid::from_u128(3).to_string();
    assert_eq!(run(&["seal", "--head"]).0, 1);
    let (code, told) = run(&["prove", "turns", &id]);
    assert!(
        code == 1 && told.contains("not sealed yet"),
        "{code}: {told}"
    );
    let (code, told) = run(&["seal"]);
    assert!(code == 0 && told.ends_with("3 segments sealed\n"), "{told}");
    assert_eq!(run(&["seal"]).1, "nothing to seal\n");

    let (_, head) = run(&["seal", "--head"]);
    std::fs::write(file("head"), &head).unwrap();
    let kept = file("head").to_str().unwrap().to_owned();
    let (code, told) = run(&["verify", "--head", &kept]);
    assert!(
        code == 0 && told.contains("3 segments (3 sealed)"),
        "{told}"
    );
    assert_eq!(run(&["verify", "--deep", "--head", &kept]).0, 0);

    let (code, proof) = run(&["prove", "turns", &id]);
    assert_eq!(code, 0);
    std::fs::write(file("proof"), &proof).unwrap();
    std::fs::copy(path.join(SEALS_2), file("seal")).unwrap();
    let proof_file = file("proof").to_str().unwrap().to_owned();
    let seal_file = file("seal").to_str().unwrap().to_owned();
    let (code, told) = run(&["check-proof", &proof_file, "--seal", &seal_file]);
    assert!(
        code == 0 && told.starts_with("valid: seal 3 covers line 1 of 2025-12-28"),
        "{told}"
    );
    std::fs::write(file("proof"), proof.replace("three", "threw")).unwrap();
    let (code, told) = run(&["check-proof", &proof_file, "--seal", &seal_file]);
    assert!(code == 1 && told.starts_with("not valid"), "{told}");
    let (code, told) = run(&["check-proof", &proof_file, "--json"]);
    assert!(code == 1 && told.contains("\"holds\":false"), "{told}");
    assert_eq!(run(&["check-proof", &kept]).0, 2);

    for name in [TURNS_2, SEALS_2] {
        std::fs::remove_file(path.join(name)).unwrap();
    }
    let (code, told) = run(&["verify", "--head", &kept]);
    assert!(
        code == 1 && told.contains("cut off or rewritten after seal 2"),
        "{told}"
    );
}
