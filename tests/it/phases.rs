//! Phases of a store's life, for fault injection: every operation on its files, phase by phase, by
//! a program that continues after every error as well as it can.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use decklog::capture::CaptureStats;
use decklog::import::Importer;
use decklog::query::{CallQuery, TurnQuery};
use decklog::storage::{Access, Memory, Storage};
use decklog::{
    AckStatus, Durability, ErrorKind, Event, HistoryEntry, Options, Record, Role, Store, verify,
};

use super::support::{DAY_1, DAY_1_NAME, DAY_MS, all_lines, done, failed, request, still, turn};

/// A few lines fill a segment.
const SEGMENT_BYTES_MAX: u64 = 1_000;

/// A phase of a store's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Creates a store, writes at level `Disk`, and closes it with a sidecar.
    Create,
    /// Opens it with the sidecar, and writes at level `Process` until segments are full.
    Roll,
    /// Foreign bytes get into a segment, and are removed.
    Repair,
    Capture,
    Import,
    /// Everything is recorded again, as by a program that got an error.
    Again,
    /// Everything is read and checked.
    Read,
}

impl Phase {
    pub const ALL: [Phase; 7] = [
        Phase::Create,
        Phase::Roll,
        Phase::Repair,
        Phase::Capture,
        Phase::Import,
        Phase::Again,
        Phase::Read,
    ];
}

/// The result of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// It is in the log, under this number if known; described by [`said`](said).
    Acked(Option<u64>, String),
    /// The error.
    Failed(ErrorKind, String),
}

fn long(id: u128) -> String {
    "x".repeat(250 + id as usize)
}

fn call(id: u128) -> [Record; 2] {
    let req = request(id, &format!("call {id}"), DAY_1 + id as i64);
    let outcome = if id.is_multiple_of(2) {
        done(&req)
    } else {
        failed(&req)
    };
    [req.into(), outcome.into()]
}

/// The records of a phase, in batches.
fn batches(phase: Phase) -> Vec<Vec<Record>> {
    let [ask_1, told_1] = call(1);
    let [ask_2, told_2] = call(2);
    match phase {
        Phase::Create => vec![
            vec![turn(1, "one", DAY_1).into()],
            vec![ask_1, turn(2, &long(2), DAY_1 + DAY_MS).into(), told_1],
            vec![ask_2],
            vec![
                turn(3, &long(3), DAY_1).into(),
                turn(1, "one, again", DAY_1 + 5).into(),
            ],
            vec![told_2],
        ],
        Phase::Roll => (10..13)
            .map(|id| {
                let mut event = Event::new(None, "a.b");
                event.created_at = DAY_1 + id;
                let mut entry = HistoryEntry::new(7, Role::User, format!("said {id}"));
                entry.created_at = DAY_1 + 2 * DAY_MS + id;
                let id = id.unsigned_abs().into();
                let mut batch: Vec<Record> = vec![turn(id, &long(id), DAY_1).into()];
                if id == 11 {
                    batch.push(event.into());
                    batch.push(entry.into());
                }
                batch
            })
            .collect(),
        Phase::Repair => vec![vec![turn(20, "after the repair", DAY_1).into()]],
        Phase::Capture => vec![
            (30..33)
                .map(|id| turn(id, &long(id), DAY_1 + DAY_MS).into())
                .collect(),
        ],
        Phase::Again => {
            // Without records that the log numbers itself, and without the turn that was recorded
            // again with a new version.
            let is_same = |record: &Record| match record {
                Record::Turn(turn) => turn.id.as_u128() != 1,
                Record::CallRequested(_) | Record::CallDone(_) => true,
                _ => false,
            };
            let phases = [Phase::Create, Phase::Roll, Phase::Repair, Phase::Capture];
            let records = phases.into_iter().flat_map(batches).flatten();
            let again: Vec<Record> = records.filter(is_same).collect();
            let more = vec![turn(40, "and one more", DAY_1).into()];
            let again = again.chunks(6).map(<[Record]>::to_vec);
            again.chain([more]).collect()
        }
        Phase::Import | Phase::Read => Vec::new(),
    }
}

fn session() -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    data.join("claude-code-subagent.jsonl")
}

/// The records that the import adds.
pub fn imported() -> &'static [Record] {
    static IMPORTED: OnceLock<Vec<Record>> = OnceLock::new();
    IMPORTED.get_or_init(|| {
        let storage = Arc::new(Memory::new());
        let store = still().storage(storage).open("memory").unwrap();
        let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
        importer.path(&session()).unwrap();
        importer.finish().unwrap();
        all_lines(&store).into_iter().map(|(_, one)| one).collect()
    })
}

pub fn options(storage: &Arc<dyn Storage>, durability: Durability) -> Options {
    still()
        .durability(durability)
        .segment_bytes_max(SEGMENT_BYTES_MAX)
        .sidecar_bytes_min(0)
        .storage(Arc::clone(storage))
}

/// Reports results, and checks that a failed handle stays failed.
struct Teller<'a> {
    told: &'a mut dyn FnMut(Heard),
    is_poisoned: bool,
}

impl Teller<'_> {
    fn fail(&mut self, e: &decklog::Error) {
        // NotFound: the request of this outcome was not accepted.
        let expected = [
            ErrorKind::Io,
            ErrorKind::Poisoned,
            ErrorKind::NotFound,
            ErrorKind::Damaged,
        ];
        assert!(expected.contains(&e.kind()), "{e}");
        (self.told)(Heard::Failed(e.kind(), e.to_string()));
    }

    fn put(&mut self, store: &Store, batch: Vec<Record>) {
        match store.record_batch(batch.clone()) {
            Ok(answers) => {
                assert!(!self.is_poisoned, "acknowledged after it was poisoned");
                assert_eq!(answers.len(), batch.len());
                for (record, answer) in batch.into_iter().zip(answers) {
                    match answer {
                        Ok(ack) => (self.told)(Heard::Acked(Some(ack.seq), said(&record))),
                        Err(e) => self.fail(&e),
                    }
                }
            }
            Err(e) => {
                assert!(!self.is_poisoned || e.kind() == ErrorKind::Poisoned, "{e}");
                self.is_poisoned |= e.kind() == ErrorKind::Poisoned;
                self.fail(&e);
            }
        }
    }
}

/// Runs one phase and reports its results.
pub fn run(
    phase: Phase,
    storage: &Arc<dyn Storage>,
    durability: Durability,
    told: &mut dyn FnMut(Heard),
) {
    let mut teller = Teller {
        told,
        is_poisoned: false,
    };
    let level = match phase {
        Phase::Roll => Durability::Process,
        _ => durability,
    };
    if phase == Phase::Repair {
        let name = format!("{DAY_1_NAME}/conversation_turns.0001.jsonl");
        let append = || {
            let file = storage.open(&name, Access::Append)?;
            file.append(b"garbage\n")
        };
        let is_interrupted = |e: &std::io::Error| e.kind() == std::io::ErrorKind::Interrupted;
        let harmed = append().or_else(|e| if is_interrupted(&e) { append() } else { Err(e) });
        if let Err(e) = harmed {
            (teller.told)(Heard::Failed(ErrorKind::Io, e.to_string()));
        }
    }
    let store = match options(storage, level).open("") {
        Ok(store) => store,
        Err(e) => return teller.fail(&e),
    };
    match phase {
        Phase::Create | Phase::Roll | Phase::Again => {
            for batch in batches(phase) {
                teller.put(&store, batch);
            }
            if let Err(e) = store.turns(&TurnQuery::default()) {
                teller.fail(&e);
            }
            if let Err(e) = store.sync() {
                teller.fail(&e);
            }
        }
        Phase::Repair => {
            match store.repair() {
                Ok(repaired) => assert!(repaired.len() <= 3, "{repaired:?}"),
                Err(e) => teller.fail(&e),
            }
            for batch in batches(phase) {
                teller.put(&store, batch);
            }
        }
        Phase::Capture => capture(&store, &mut teller),
        Phase::Import => {
            let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
            let added = importer.path(&session()).and_then(|()| importer.finish());
            match added {
                Ok(report) => {
                    assert_eq!(report.broken, []);
                    for record in imported() {
                        (teller.told)(Heard::Acked(None, said(record)));
                    }
                }
                Err(e) => teller.fail(&e),
            }
        }
        Phase::Read => {
            let read = store
                .turns(&TurnQuery::default())
                .and_then(|_| store.tool_calls(&CallQuery::default()))
                .and_then(|_| store.last_lines(usize::MAX))
                .and_then(|_| verify(&**storage));
            if let Err(e) = read {
                teller.fail(&e);
            }
        }
    }
}

fn capture(store: &Store, teller: &mut Teller<'_>) {
    let lost: Arc<Mutex<Vec<Record>>> = Arc::default();
    let hears = Arc::clone(&lost);
    let options = store.capture_options().on_error(move |_, record| {
        hears.lock().unwrap().push(record.clone());
    });
    let capture = match options.start() {
        Ok(capture) => capture,
        Err(e) => return teller.fail(&e),
    };
    let records: Vec<Record> = batches(Phase::Capture).concat();
    for record in &records {
        capture.record(record.clone()).unwrap();
    }
    let flushed = capture.flush();
    let stats = capture.stats();
    let lost = lost.lock().unwrap().clone();
    let expected = CaptureStats {
        accepted: records.len() as u64,
        written: (records.len() - lost.len()) as u64,
        failed: lost.len() as u64,
        ..CaptureStats::default()
    };
    // Every record is accounted for, and each failed one was reported.
    assert_eq!(stats, expected);
    match flushed {
        Ok(()) => assert_eq!(lost, []),
        Err(e) => teller.fail(&e),
    }
    for record in records {
        if !lost.contains(&record) {
            (teller.told)(Heard::Acked(None, said(&record)));
        }
    }
}

/// Checks a reopened store on a working disk against the results: acknowledged records are there,
/// once; nothing is there twice or in part; the store's own counts are right; and appends work.
/// Returns the number of lines.
pub fn check(storage: &Arc<dyn Storage>, heard: &[Heard], case: &str) -> u64 {
    let store = options(storage, Durability::Process).open("");
    let store = store.unwrap_or_else(|e| panic!("{case}: {e}"));
    store
        .record_batch([])
        .unwrap_or_else(|e| panic!("{case}: {e}"));
    let lines = all_lines(&store);
    let mut there: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (seq, line) in &lines {
        there.entry(said(line)).or_default().push(*seq);
    }
    for (line, seqs) in &there {
        assert_eq!(seqs.len(), 1, "{case}: {line} is there twice");
        assert!(known().contains(line), "{case}: {line}");
    }
    for one in heard {
        let Heard::Acked(seq, record) = one else {
            continue;
        };
        let found = there.get(record).map(|seqs| seqs[0]);
        assert!(found.is_some(), "{case}: {record:?} is lost");
        assert!(
            seq.is_none() || *seq == found,
            "{case}: {record:?} at {found:?}"
        );
    }
    let last = lines.last().map_or(0, |(seq, _)| *seq);
    assert_eq!(lines.len() as u64, last, "{case}: numbers have gaps");
    let late = turn(99, "later", DAY_1);
    let ack = store.record(late.clone());
    let ack = ack.unwrap_or_else(|e| panic!("{case}: {e}"));
    assert_eq!(
        (ack.seq, ack.status),
        (last + 1, AckStatus::Added),
        "{case}"
    );
    drop(store);

    let found = verify(&**storage).unwrap_or_else(|e| panic!("{case}: {e}"));
    assert_eq!((&found.gaps, &found.repeats), (&vec![], &vec![]), "{case}");
    assert_eq!(found.good_lines, ack.seq, "{case}");
    let is_torn = |class| {
        matches!(
            class,
            decklog::health::DamageClass::Torn | decklog::health::DamageClass::Damaged
        )
    };
    assert!(
        found.damage.iter().all(|d| is_torn(d.class)),
        "{case}: {found:?}"
    );
    ack.seq
}

/// The content of a record on one line, without ids, since the log assigns some of them.
pub fn said(record: &Record) -> String {
    let mut record = record.clone();
    match &mut record {
        Record::Event(event) => event.id = 0,
        Record::History(entry) => entry.id = 0,
        _ => {}
    }
    format!("{record:?}")
}

/// All records that the log may contain.
fn known() -> &'static BTreeSet<String> {
    static KNOWN: OnceLock<BTreeSet<String>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let records = Phase::ALL.into_iter().flat_map(batches).flatten();
        let records: Vec<Record> = records.collect();
        records.iter().chain(imported()).map(said).collect()
    })
}
