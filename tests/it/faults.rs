//! Disk failures at any operation, in any way that the storage trait allows. After the disk works
//! again and the store is reopened, acknowledged records are there once. Unacknowledged records may
//! be there, but never in part. A handle whose write or fsync failed acknowledges nothing more.

#![allow(clippy::unwrap_used, clippy::case_sensitive_file_extension_comparisons)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use decklog::health::DamageClass;
use decklog::query::{CallQuery, TurnQuery};
use decklog::storage::{Disk, Fault, Memory, Storage};
use decklog::{
    AckStatus, Durability, ErrorKind, ObservabilityStore, Record, Store, Validity, verify,
};
use uuid::Uuid;

use super::phases::{self, Heard, Phase};
use super::support::{
    DAY_1, DAY_1_NAME, DAY_MS, Spy, all_lines, count, done, failed, in_memory, request, still, turn,
};

const FAULTS: [Fault; 7] = [
    Fault::Error(io::ErrorKind::Other),
    Fault::Error(io::ErrorKind::StorageFull),
    Fault::Error(io::ErrorKind::Interrupted),
    Fault::Short(0),
    Fault::Short(1),
    Fault::Short(150),
    Fault::Gone,
];

/// A few lines fill a segment.
const SEGMENT_BYTES_MAX: u64 = 700;

/// The acknowledgements of a run of the workload.
#[derive(Debug, Default)]
struct Told {
    /// Acknowledged as added.
    acked: Vec<(u64, Record)>,
    /// All submitted records, whatever their result.
    submitted: Vec<Record>,
    poisoned: bool,
}

impl Told {
    fn hear(
        &mut self,
        batch: Vec<Record>,
        answer: decklog::Result<Vec<decklog::Result<decklog::Ack>>>,
    ) {
        let kind = |e: &decklog::Error| e.kind();
        match answer {
            Ok(answers) => {
                assert!(!self.poisoned, "acknowledged after it was poisoned");
                assert_eq!(answers.len(), batch.len());
                for (record, answer) in batch.iter().zip(answers) {
                    match answer {
                        Ok(ack) => {
                            assert_eq!(ack.status, AckStatus::Added);
                            self.acked.push((ack.seq, record.clone()));
                        }
                        // NotFound: the preceding request failed.
                        Err(e) => assert!(
                            matches!(kind(&e), ErrorKind::Io | ErrorKind::NotFound),
                            "{e}"
                        ),
                    }
                }
            }
            Err(e) => {
                let kind = kind(&e);
                assert!(matches!(kind, ErrorKind::Io | ErrorKind::Poisoned), "{e}");
                assert!(!self.poisoned || kind == ErrorKind::Poisoned, "{e}");
                self.poisoned |= kind == ErrorKind::Poisoned;
            }
        }
        self.submitted.extend(batch);
    }
}

/// Turns and calls over two days, alone and in batches.
fn batches() -> Vec<Vec<Record>> {
    let calls = [request(1, "a", DAY_1 + 1), request(1, "b", DAY_1 + DAY_MS)];
    let long = "x".repeat(300);
    vec![
        vec![turn(1, "one", DAY_1).into()],
        vec![
            calls[0].clone().into(),
            turn(2, &long, DAY_1 + DAY_MS).into(),
            done(&calls[0]).into(),
        ],
        vec![calls[1].clone().into()],
        vec![
            turn(3, &long, DAY_1).into(),
            turn(1, "one, again", DAY_1 + 5).into(),
        ],
        vec![failed(&calls[1]).into()],
    ]
}

fn open(memory: &Memory, durability: Durability) -> decklog::Result<Store> {
    still()
        .durability(durability)
        .segment_bytes_max(SEGMENT_BYTES_MAX)
        .storage(Arc::new(memory.clone()))
        .open("memory")
}

fn run(memory: &Memory, durability: Durability) -> Told {
    let mut told = Told::default();
    let Ok(store) = open(memory, durability) else {
        return told;
    };
    for batch in batches() {
        let answer = store.record_batch(batch.clone());
        told.hear(batch, answer);
        let _ = store.turns(&TurnQuery::default());
    }
    drop(store);
    told
}

/// The lines of a reopened store, after checks.
fn recovered(memory: &Memory, told: &Told, case: &str) -> Vec<(u64, Record)> {
    let store = open(memory, Durability::Process).unwrap_or_else(|e| panic!("{case}: {e}"));
    store.record_batch([]).unwrap();
    let lines = all_lines(&store);
    for acked in &told.acked {
        let times = lines.iter().filter(|line| *line == acked).count();
        assert_eq!(times, 1, "{case}: {acked:?} in {lines:#?}");
    }
    for (_, record) in &lines {
        let times = lines.iter().filter(|(_, other)| other == record).count();
        assert_eq!(times, 1, "{case}: {record:?} is there twice");
        assert!(told.submitted.contains(record), "{case}: {record:?}");
    }
    lines
}

#[test]
fn whatever_fails_nothing_acknowledged_is_lost_and_appends_go_on() {
    for durability in [Durability::Process, Durability::Disk] {
        let clean = Memory::new();
        let told = run(&clean, durability);
        assert_eq!(told.acked.len(), 8);
        assert!(verify(&clean).unwrap().is_clean());
        let operations = clean.operations();
        let step = count("DECKLOG_FAULT_STEP", 3) as usize;
        // With a step of 1, every fault occurs at every operation. Otherwise the faults alternate.
        for (number, fault) in (0..).zip(FAULTS) {
            for at in (number % step as u64..operations).step_by(step) {
                let case = format!("{durability:?}, {fault:?} at {at}");
                let memory = Memory::new();
                memory.fail_at(at, fault);
                let told = run(&memory, durability);
                memory.heal();
                if durability == Durability::Disk {
                    for keep_all in [false, true] {
                        let cut = memory.after_power_cut(|n| if keep_all { n } else { 0 });
                        recovered(&cut, &told, &format!("{case}, power cut"));
                    }
                }
                let lines = recovered(&memory, &told, &case);

                let store = open(&memory, Durability::Process).unwrap();
                let late = turn(99, "later", DAY_1);
                let ack = store.record(late.clone()).unwrap();
                let last = lines.last().map_or(0, |(seq, _)| *seq);
                assert_eq!(ack.seq, last + 1, "{case}");
                assert_eq!(store.get_turn(late.id).unwrap(), Some(late), "{case}");
                drop(store);
                let found = verify(&memory).unwrap();
                assert_eq!((&found.gaps, &found.repeats), (&vec![], &vec![]), "{case}");
                assert_eq!(found.good_lines, ack.seq, "{case}");
                let torn = |class| matches!(class, DamageClass::Torn | DamageClass::Damaged);
                assert!(
                    found.damage.iter().all(|d| torn(d.class)),
                    "{case}: {found:?}"
                );
            }
        }
    }
}

/// Runs all phases; returns their results.
fn run_all(storage: &Arc<dyn Storage>, durability: Durability) -> Vec<Heard> {
    let mut heard = Vec::new();
    for phase in Phase::ALL {
        phases::run(phase, storage, durability, &mut |one| heard.push(one));
    }
    heard
}

/// Every kind of operation occurs in every phase that has it, so that the next test covers all of
/// them.
#[test]
fn every_kind_of_operation_is_among_those_that_fail() {
    let spy = Spy::new(Memory::new());
    let storage: Arc<dyn Storage> = Arc::new(spy.clone());
    let mut seen = 0;
    for phase in Phase::ALL {
        let mut told = |heard| assert!(matches!(heard, Heard::Acked(..)), "{phase:?}: {heard:?}");
        phases::run(phase, &storage, Durability::Disk, &mut told);
        let events = spy.events();
        let has = |operation: &str| {
            let mut events = events[seen..].iter();
            events.any(|event| event.operation == operation && event.is_ok)
        };
        let of_all = ["open", "stat", "read_at", "read_dir"];
        let of_writers = [
            "append", "write_at", "sync", "sync_dir", "try_lock", "unlock",
        ];
        let others: &[&str] = match phase {
            // Directories of days; the quarantine; the sidecar.
            Phase::Create | Phase::Roll | Phase::Repair | Phase::Import => {
                &["create_dir", "rename", "times"]
            }
            Phase::Capture | Phase::Again | Phase::Read => &[],
        };
        let writes: &[&str] = if phase == Phase::Read {
            &[]
        } else {
            &of_writers
        };
        for operation in of_all.iter().chain(writes).chain(others) {
            assert!(has(operation), "{operation} in {phase:?}");
        }
        seen = events.len();
    }
    let removes = |event: &super::support::Event| event.operation == "remove_file";
    assert!(spy.events().iter().any(removes));
}

#[test]
fn whatever_fails_in_any_phase_nothing_acknowledged_is_lost() {
    let step = count("DECKLOG_FAULT_PHASES_STEP", 1_201) as usize;
    let mut cases = 0;
    for durability in [Durability::Process, Durability::Disk] {
        let clean = Memory::new();
        let storage: Arc<dyn Storage> = Arc::new(clean.clone());
        let heard = run_all(&storage, durability);
        let operations = clean.operations();
        let lines = phases::check(&storage, &heard, "nothing fails");
        assert!(verify(&clean).unwrap().is_clean());
        for (number, fault) in (0..).zip(FAULTS) {
            for at in ((number * 171) % step as u64..operations).step_by(step) {
                let case = format!("{durability:?}, {fault:?} at {at}");
                let memory = Memory::new();
                memory.fail_at(at, fault);
                let storage: Arc<dyn Storage> = Arc::new(memory.clone());
                let heard = run_all(&storage, durability);
                memory.heal();
                assert!(phases::check(&storage, &heard, &case) <= lines, "{case}");
                cases += 1;
            }
        }
        println!("{durability:?}: {operations} operations, {cases} faults so far");
    }
}

/// Bug: a lock whose release failed was held for as long as the handle lived.
#[test]
fn a_lock_that_cannot_be_unlocked_ends_with_its_file() {
    let memory = Memory::new();
    let spy = Spy::new(memory.clone());
    let store = still()
        .storage(Arc::new(spy.clone()))
        .open("memory")
        .unwrap();
    spy.hook(|operation, _| match operation {
        "unlock" => Err(io::Error::other("no unlock today")),
        _ => Ok(()),
    });
    store.record(turn(1, "one", DAY_1)).unwrap();
    let other = still()
        .lock_timeout(std::time::Duration::from_millis(50))
        .storage(Arc::new(memory.clone()))
        .open("memory")
        .unwrap();
    assert_eq!(other.record(turn(2, "two", DAY_1)).unwrap().seq, 2);
    assert_eq!(store.record(turn(3, "three", DAY_1)).unwrap().seq, 3);
}

#[test]
fn a_read_that_fails_says_so_and_the_next_one_is_whole() {
    let memory = Memory::new();
    run(&memory, Durability::Process);
    let call = request(1, "a", DAY_1 + 1);
    let everything = |store: &Store| -> decklog::Result<_> {
        Ok((
            store.turns(&TurnQuery::default())?,
            store.tool_calls(&CallQuery::default())?,
            store.get_tool_call(call.request_id, &call.call_id)?,
            store.as_of(DAY_1 + 2).turns(&TurnQuery::default())?,
            store.last_lines(100)?,
        ))
    };
    let expected = everything(&open(&memory, Durability::Process).unwrap()).unwrap();
    assert_eq!(expected.4.len(), 8);

    // Handles that must check the segments: one that missed another handle's write; one whose file
    // was replaced; one whose HEAD was removed as well.
    let other_wrote = || {
        let memory = Memory::new();
        let store = open(&memory, Durability::Process).unwrap();
        run(&memory, Durability::Process);
        (memory, store)
    };
    let replaced = |with_head: bool| {
        let memory = Memory::new();
        run(&memory, Durability::Process);
        let store = open(&memory, Durability::Process).unwrap();
        let name = format!("{DAY_1_NAME}/tool_calls.0001.jsonl");
        let bytes = memory.bytes(&name).unwrap();
        memory.remove_file(&name).unwrap();
        memory.put_bytes(&name, bytes);
        if !with_head {
            memory.remove_file("HEAD").unwrap();
        }
        (memory, store)
    };
    let cases: [&dyn Fn() -> (Memory, Store); 3] =
        [&other_wrote, &|| replaced(true), &|| replaced(false)];
    let faults = [
        Fault::Error(io::ErrorKind::Other),
        Fault::Short(1),
        Fault::Gone,
    ];
    for (number, case) in cases.iter().enumerate() {
        for fault in faults {
            for at in 0.. {
                let place = format!("case {number}, {fault:?} at {at}");
                let (memory, store) = case();
                let first = memory.operations();
                memory.fail_at(first + at, fault);
                match everything(&store) {
                    Ok(found) => assert_eq!(found, expected, "{place}"),
                    Err(e) => {
                        let kind = e.kind();
                        assert!(
                            matches!(kind, ErrorKind::Io | ErrorKind::Damaged),
                            "{place}: {e}"
                        );
                    }
                }
                let is_past = memory.operations() <= first + at;
                memory.heal();
                assert_eq!(everything(&store).unwrap(), expected, "{place}");
                let ack = store.record(turn(77, "on", DAY_1)).unwrap();
                assert_eq!(ack.seq, 9, "{place}");
                if is_past {
                    break;
                }
            }
        }
    }
}

#[test]
fn after_a_failed_fsync_nothing_is_acknowledged_and_nothing_synced_again() {
    let memory = Memory::new();
    let spy = Spy::new(memory.clone());
    let options = || {
        still()
            .storage(Arc::new(spy.clone()))
            .durability(Durability::Disk)
    };
    let store = options().open("memory").unwrap();
    store.record(turn(1, "one", DAY_1)).unwrap();

    spy.hook(|operation, path| match operation {
        "sync" if path.ends_with(".jsonl") => Err(io::Error::other("no fsync today")),
        _ => Ok(()),
    });
    let err = store.record(turn(2, "two", DAY_1)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Io);
    assert!(err.to_string().contains("no fsync today"), "{err}");
    spy.unhook();

    let events = spy.events();
    let refused = events
        .iter()
        .rfind(|event| event.operation == "sync")
        .unwrap();
    assert!(!refused.is_ok);
    for _ in 0..3 {
        let err = store.record(turn(3, "three", DAY_1)).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Poisoned);
        assert!(err.to_string().contains("no fsync today"), "{err}");
        assert!(store.sync().is_err());
    }
    // Reads still work.
    assert!(store.get_turn(Uuid::from_u128(1)).unwrap().is_some());
    drop(store);
    let later = &spy.events()[events.len()..];
    let again = |event: &&super::support::Event| {
        matches!(event.operation, "sync" | "append" | "write_at") && event.handle == refused.handle
    };
    assert_eq!(later.iter().find(again), None);

    let store = options().open("memory").unwrap();
    assert!(store.get_turn(Uuid::from_u128(1)).unwrap().is_some());
    store.record(turn(3, "three", DAY_1)).unwrap();
    assert!(verify(&memory).unwrap().is_clean());
}

#[test]
fn a_failed_fsync_in_the_background_poisons_as_well() {
    let spy = Spy::new(Memory::new());
    let (sender, failed) = std::sync::mpsc::channel();
    spy.hook(move |operation, path| match operation {
        "sync" if path.ends_with(".jsonl") => {
            let _ = sender.send(());
            Err(io::Error::other("no fsync today"))
        }
        _ => Ok(()),
    });
    let store = Store::options()
        .flush_interval(std::time::Duration::from_millis(1))
        .storage(Arc::new(spy.clone()))
        .open("memory")
        .unwrap();
    store.record(turn(1, "one", DAY_1)).unwrap();
    failed.recv().unwrap();
    // The failure is recorded only after the fsync returns. Until then a record may be accepted.
    let err = (2..1_000_000)
        .find_map(|id| store.record(turn(id, "two", DAY_1)).err())
        .unwrap();
    assert_eq!(err.kind(), ErrorKind::Poisoned);
    drop(store);
    let syncs = spy.events();
    let syncs = syncs
        .iter()
        .filter(|event| event.operation == "sync" && event.path.ends_with(".jsonl"));
    assert_eq!(syncs.count(), 1);
}

#[test]
fn a_failed_write_poisons_the_handle_and_no_other() {
    let memory = Memory::new();
    let spy = Spy::new(memory.clone());
    let store = still()
        .storage(Arc::new(spy.clone()))
        .open("memory")
        .unwrap();
    let other = in_memory(&memory, Durability::Process);
    store.record(turn(1, "one", DAY_1)).unwrap();
    spy.hook(|operation, path| match operation {
        "append" if path.ends_with(".jsonl") => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    assert_eq!(
        store.record(turn(2, "two", DAY_1)).unwrap_err().kind(),
        ErrorKind::Io
    );
    spy.unhook();
    let poisoned = store.record(turn(2, "two", DAY_1)).unwrap_err();
    assert_eq!(poisoned.kind(), ErrorKind::Poisoned);
    assert_eq!(other.record(turn(2, "two", DAY_1)).unwrap().seq, 2);
    // Its reads still work, and see the writes of others.
    assert!(store.get_turn(Uuid::from_u128(2)).unwrap().is_some());
    assert!(verify(&memory).unwrap().is_clean());
}

/// Bug: a failed write within a batch, before the commit of the batch, poisoned the handle, but the
/// batch continued with an index that had just been emptied, and was then acknowledged. The lines
/// before the failure were lost, and those after it got sequence numbers that were in use.
#[test]
fn a_write_that_fails_within_a_batch_fails_the_batch() {
    let memory = Memory::new();
    let spy = Spy::new(memory.clone());
    let store = still()
        .storage(Arc::new(spy.clone()))
        .open("memory")
        .unwrap();
    let (today, tomorrow) = (DAY_1, DAY_1 + DAY_MS);
    store.record(turn(1, "one", today)).unwrap();
    store.record(turn(2, "two", tomorrow)).unwrap();
    // Tomorrow's segment is edited, so that today's lines are written out as soon as the batch
    // reaches it.
    let name = "2025-12-28/conversation_turns.0001.jsonl";
    let mut bytes = memory.bytes(name).unwrap();
    bytes.push(b'\n');
    memory.put_bytes(name, bytes);
    let once = AtomicBool::new(false);
    spy.hook(move |operation, path| match operation {
        "append" if path.ends_with(".jsonl") && !once.swap(true, Ordering::Relaxed) => {
            Err(io::ErrorKind::StorageFull.into())
        }
        _ => Ok(()),
    });
    let batch = [
        turn(3, "three", today),
        turn(4, "four", tomorrow),
        turn(5, "five", tomorrow),
    ];
    let err = store.record_batch(batch.map(Record::from)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Io);
    spy.unhook();
    let err = store.record(turn(6, "six", today)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Poisoned);
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(store.record(turn(6, "six", today)).unwrap().seq, 3);
    assert_eq!(verify(&memory).unwrap().repeats, []);
}

/// Bug: the same for a failed read while the batch checked an edited segment.
#[test]
fn a_look_that_fails_within_a_batch_fails_the_batch() {
    let memory = Memory::new();
    let spy = Spy::new(memory.clone());
    let store = still()
        .storage(Arc::new(spy.clone()))
        .open("memory")
        .unwrap();
    let (today, tomorrow) = (DAY_1, DAY_1 + DAY_MS);
    store.record(turn(1, "one", today)).unwrap();
    store.record(turn(2, "two", tomorrow)).unwrap();
    let name = "2025-12-28/conversation_turns.0001.jsonl";
    let mut bytes = memory.bytes(name).unwrap();
    bytes.push(b'\n');
    memory.put_bytes(name, bytes);
    let once = AtomicBool::new(false);
    spy.hook(move |operation, _| match operation {
        "read_dir" if !once.swap(true, Ordering::Relaxed) => Err(io::Error::other("no list today")),
        _ => Ok(()),
    });
    let batch = [
        turn(3, "three", today),
        turn(4, "four", tomorrow),
        turn(1, "one", today),
    ];
    let err = store.record_batch(batch.map(Record::from)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Io);
    // Lines that were written out by then may be there.
    let store = in_memory(&memory, Durability::Process);
    let known = all_lines(&store).len() as u64;
    assert_eq!(store.record(turn(6, "six", today)).unwrap().seq, known + 1);
    let found = verify(&memory).unwrap();
    assert_eq!((found.repeats, found.gaps), (vec![], vec![]));
}

/// Bug: a check of all segments that read them and then failed to read `HEAD` dropped the lines,
/// but not the note that it had read them. They were missing from every list until the store was
/// reopened, and their sequence numbers were assigned a second time.
#[test]
fn a_look_that_fails_is_made_again() {
    let memory = Memory::new();
    let spy = Spy::new(memory.clone());
    let store = still()
        .storage(Arc::new(spy.clone()))
        .open("memory")
        .unwrap();
    let other = in_memory(&memory, Durability::Process);
    for id in 1..=3 {
        other.record(turn(id, "one", DAY_1)).unwrap();
    }
    // The first read of HEAD succeeds; the one after the check fails.
    let reads = AtomicUsize::new(0);
    spy.hook(move |operation, path| match (operation, path) {
        ("read_at", "HEAD") if reads.fetch_add(1, Ordering::Relaxed) == 1 => {
            Err(io::Error::other("no read today"))
        }
        _ => Ok(()),
    });
    assert_eq!(store.refresh().unwrap_err().kind(), ErrorKind::Io);
    spy.unhook();
    assert_eq!(store.list_conversation_since(0, 10).unwrap().len(), 3);
    assert_eq!(store.record(turn(4, "four", DAY_1)).unwrap().seq, 4);
    assert!(verify(&memory).unwrap().is_clean());
}

/// Bug: an append at level `Disk` to a segment that another process had created, and not yet
/// synced, was acknowledged without syncing the directories that contain it.
#[test]
fn a_segment_of_another_process_survives_the_power_cut_once_it_was_acknowledged_in() {
    let memory = Memory::new();
    let process = in_memory(&memory, Durability::Process);
    let disk = in_memory(&memory, Durability::Disk);
    process.record(turn(1, "one", DAY_1)).unwrap();
    disk.record(turn(2, "two", DAY_1)).unwrap();
    let call = request(1, "a", DAY_1);
    process.record(call.clone()).unwrap();
    assert_eq!(
        disk.record(call.clone()).unwrap().status,
        AckStatus::Unchanged
    );

    let cut = memory.after_power_cut(|_| 0);
    let store = in_memory(&cut, Durability::Process);
    assert!(store.get_turn(Uuid::from_u128(2)).unwrap().is_some());
    assert!(store.get_tool_call(call.request_id, "a").unwrap().is_some());
}

/// The same for a segment whose creation failed halfway.
#[test]
fn a_segment_that_was_made_at_the_second_try_survives_the_power_cut() {
    let memory = Memory::new();
    let spy = Spy::new(memory.clone());
    let options = || {
        still()
            .storage(Arc::new(spy.clone()))
            .durability(Durability::Disk)
    };
    let store = options().open("memory").unwrap();
    let once = AtomicBool::new(false);
    spy.hook(move |operation, path| match operation {
        "open" if path.ends_with(".jsonl") && !once.swap(true, Ordering::Relaxed) => {
            Err(io::ErrorKind::StorageFull.into())
        }
        _ => Ok(()),
    });
    assert_eq!(
        store.record(turn(1, "one", DAY_1)).unwrap_err().kind(),
        ErrorKind::Io
    );
    // Bug: the segment whose creation had failed could not be read, so all reads failed.
    assert_eq!(store.last_lines(1).unwrap(), []);
    store.record(turn(1, "one", DAY_1)).unwrap();
    let cut = memory.after_power_cut(|_| 0);
    let store = in_memory(&cut, Durability::Process);
    assert!(store.get_turn(Uuid::from_u128(1)).unwrap().is_some());
}

#[test]
fn a_retraction_is_as_durable_as_any_line() {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Disk);
    let mut gone = turn(1, "one", DAY_1);
    store.record(gone.clone()).unwrap();
    gone.created_at = Validity::retracted(DAY_1 + DAY_MS);
    store.record(gone.clone()).unwrap();
    let store = in_memory(&memory.after_power_cut(|_| 0), Durability::Process);
    assert_eq!(store.get_turn(gone.id).unwrap(), None);
    assert_eq!(all_lines(&store).len(), 2);
}

#[test]
fn no_space_on_a_real_disk_is_an_io_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let spy = Spy::new(Disk::new(dir.path().join("log")));
    let store = Store::options()
        .storage(Arc::new(spy.clone()))
        .open("")
        .unwrap();
    spy.hook(|operation, _| match operation {
        "append" => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    let err = store.record(turn(1, "one", DAY_1)).unwrap_err();
    let expected = format!("{DAY_1_NAME}/conversation_turns.0001.jsonl");
    assert!(err.path().unwrap().ends_with(expected), "{err}");
    assert!(std::error::Error::source(&err).is_some());
    let _: &dyn Storage = &spy;
}

#[test]
fn a_writer_that_died_before_it_told_is_noticed_by_the_next() {
    let memory = Memory::new();
    let spy = Spy::new(memory.clone());
    let dying = still()
        .storage(Arc::new(spy.clone()))
        .open("memory")
        .unwrap();
    let next = in_memory(&memory, Durability::Process);
    next.record(turn(1, "one", DAY_1)).unwrap();
    dying.record(turn(2, "two", DAY_1)).unwrap();
    next.record(turn(3, "three", DAY_1)).unwrap();
    // Its line is in a segment that the next writer has no reason to check.
    let is_appended = Arc::new(AtomicBool::new(false));
    spy.hook(move |operation, _| match operation {
        "append" => {
            is_appended.store(true, Ordering::Relaxed);
            Ok(())
        }
        "write_at" if is_appended.load(Ordering::Relaxed) => Err(io::Error::other("killed")),
        _ => Ok(()),
    });
    let err = dying.record(turn(4, "four", DAY_1 + DAY_MS)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Io);
    assert_eq!(next.record(turn(5, "five", DAY_1)).unwrap().seq, 5);
    assert!(next.get_turn(Uuid::from_u128(4)).unwrap().is_some());
    assert!(verify(&memory).unwrap().is_clean());
}

/// A store with three turns, a handle on it, and `HEAD` as of the first turn.
fn with_an_old_head() -> (Memory, Spy, Store, Vec<u8>) {
    let memory = Memory::new();
    let spy = Spy::new(memory.clone());
    let store = still()
        .storage(Arc::new(spy.clone()))
        .open("memory")
        .unwrap();
    store.record(turn(1, "one", DAY_1)).unwrap();
    let old = memory.bytes("HEAD").unwrap();
    for id in 2..=3 {
        store.record(turn(id, "more", DAY_1)).unwrap();
    }
    (memory, spy, store, old)
}

/// The old `HEAD` is restored, and another process commits until its count is as high as before.
fn counted_again(memory: &Memory, old: Vec<u8>) -> Store {
    let _ = memory.remove_file("HEAD");
    memory.put_bytes("HEAD", old);
    let other = in_memory(memory, Durability::Process);
    for (seq, call_id) in [(4, "a"), (5, "b")] {
        let ack = other.record(request(1, call_id, DAY_1)).unwrap();
        assert_eq!(ack.seq, seq);
    }
    other
}

/// Bug: a writer that had failed to read `HEAD` did not notice afterwards that the file had been
/// replaced, trusted its count, and assigned sequence numbers that were in use.
#[test]
fn a_writer_that_failed_notices_that_head_was_replaced() {
    let (memory, spy, store, old) = with_an_old_head();
    spy.hook(|operation, path| match (operation, path) {
        ("stat", "HEAD") => Err(io::Error::other("no stat today")),
        _ => Ok(()),
    });
    let failed = store.record(turn(9, "late", DAY_1)).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Io);
    spy.unhook();
    let _other = counted_again(&memory, old);
    assert_eq!(store.record(turn(9, "late", DAY_1)).unwrap().seq, 6);
    assert_eq!(verify(&memory).unwrap().repeats, []);
}

/// Bug: the same for a reader whose last check had found no `HEAD`.
#[test]
fn a_reader_that_saw_no_head_notices_another_one() {
    let (memory, _, store, old) = with_an_old_head();
    let reader = Store::options()
        .read_only(true)
        .storage(Arc::new(memory.clone()))
        .open("memory")
        .unwrap();
    assert_eq!(all_lines(&reader).len(), 3);
    memory.remove_file("HEAD").unwrap();
    assert_eq!(all_lines(&reader).len(), 3);
    let _other = counted_again(&memory, old);
    assert_eq!(all_lines(&reader).len(), 5);
    drop(store);
}
