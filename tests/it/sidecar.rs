//! The index's sidecar saves the next open from reading what it covers, and is rejected if it is
//! invalid or the segments have changed.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use decklog::query::{CallQuery, EventQuery, TurnQuery};
use decklog::record::ThoughtType;
use decklog::retention::RetainOptions;
use decklog::storage::{Disk, Memory, Storage};
use decklog::thoughts::NewThought;
use decklog::{
    CallStatus, Durability, Event, HistoryEntry, Options, Record, Role, Settings, Store,
};

use super::support::*;

const SIDECAR: &str = "cache/index";
const DELTA: &str = "cache/index.delta";
/// The offset in HEAD of the process that writes.
const HOLDER_AT: usize = 24;
const CALLS: &str = "2025-12-27/tool_calls.0001.jsonl";
const TURNS: &str = "2025-12-27/conversation_turns.0001.jsonl";

fn on(storage: impl Storage + 'static) -> Options {
    still().sidecar_bytes_min(0).storage(Arc::new(storage))
}

/// Records of several kinds over three days.
fn fill(store: &Store, from: i64, count: i64) {
    for id in from..from + count {
        let at = DAY_1 + (id % 3) * DAY_MS + id;
        let key = id.cast_unsigned().into();
        let req = request(key, "call", at);
        let mut event = Event::new(None, "a.b");
        event.created_at = at;
        let mut entry = HistoryEntry::new(id % 4, Role::User, format!("said {id}"));
        entry.created_at = at;
        let mut records: Vec<Record> = vec![
            turn(key, &format!("turn {id}"), at).into(),
            req.clone().into(),
            event.into(),
            entry.into(),
        ];
        match id % 3 {
            0 => records.push(done(&req).into()),
            1 => records.push(failed(&req).into()),
            _ => {}
        }
        for answer in store.record_batch(records).unwrap() {
            answer.unwrap();
        }
    }
}

/// The answers of the store, through the index and by reading every line.
fn answers(store: &Store) -> String {
    let turns = TurnQuery {
        limit: 1_000,
        ..TurnQuery::default()
    };
    let failed = CallQuery {
        status: Some(CallStatus::Failed),
        limit: 1_000,
        ..CallQuery::default()
    };
    let events = EventQuery {
        limit: 1_000,
        ..EventQuery::default()
    };
    let chats: Vec<_> = (0..4)
        .map(|chat| store.history(chat, 1_000).unwrap())
        .collect();
    let lines: Vec<(u64, String)> = store
        .last_lines(usize::MAX)
        .unwrap()
        .into_iter()
        .map(|line| (line.seq, line.text))
        .collect();
    format!(
        "{:?}\n{:?}\n{:?}\n{chats:?}\n{lines:?}\n{:?}",
        store.turns(&turns).unwrap(),
        store.tool_calls(&failed).unwrap(),
        store.events(&events).unwrap(),
        store.damage().unwrap(),
    )
}

fn reader(memory: &Memory) -> Store {
    let options = Store::options().read_only(true);
    options.storage(Arc::new(memory.clone())).open("").unwrap()
}

/// The answers of a handle that reads everything.
fn read_anew(memory: &Memory) -> String {
    let sidecar = memory.bytes(SIDECAR).unwrap();
    memory.remove_file(SIDECAR).unwrap();
    // Its delta is of no use without it.
    let found = answers(&reader(memory));
    memory.put_bytes(SIDECAR, sidecar);
    found
}

/// A closed store with a sidecar.
fn sample() -> Memory {
    let memory = Memory::new();
    let store = on(memory.clone()).open("").unwrap();
    fill(&store, 1, 40);
    drop(store);
    assert!(memory.bytes(SIDECAR).is_some());
    memory
}

#[test]
fn what_was_not_touched_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = on(Disk::new(&path)).open("").unwrap();
    fill(&store, 1, 40);
    let expected = answers(&store);
    drop(store);
    // Modification times that are too recent prove nothing.
    std::thread::sleep(Duration::from_millis(2_100));
    fs::remove_file(path.join(SIDECAR)).unwrap();
    drop(on(Disk::new(&path)).open("").unwrap());
    assert!(path.join(SIDECAR).exists());

    let reads_of_segments = |spy: &Spy| {
        let events = spy.events();
        let reads = events.iter().filter(|event| event.operation == "read_at");
        reads.filter(|event| event.path.contains(".jsonl")).count()
    };
    let spy = Spy::new(Disk::new(&path));
    let store = on(spy.clone()).open("").unwrap();
    assert_eq!(reads_of_segments(&spy), 0);
    assert_eq!(answers(&store), expected);
    // It can be written to, and so can handles opened later.
    fill(&store, 41, 20);
    let expected = answers(&store);
    drop(store);
    let store = on(Disk::new(&path)).open("").unwrap();
    assert_eq!(answers(&store), expected);
    drop(store);

    // One byte is changed in place, and the modification time is restored.
    let segment = path.join(TURNS);
    let time = fs::metadata(&segment).unwrap().modified().unwrap();
    let bytes = fs::read(&segment).unwrap();
    let text = String::from_utf8(bytes)
        .unwrap()
        .replacen("turn 3", "turn X", 1);
    overwrite(&segment, text.as_bytes());
    File::options()
        .append(true)
        .open(&segment)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let store = on(Disk::new(&path)).open("").unwrap();
    assert_eq!(store.damage().unwrap().len(), 1);
    assert!(answers(&store).contains("turn X"));
}

fn overwrite(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    let mut file = File::options().write(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn a_sidecar_that_is_wrong_is_not_believed() {
    let memory = sample();
    let expected = read_anew(&memory);
    assert_eq!(answers(&on(memory.clone()).open("").unwrap()), expected);
    let good = memory.bytes(SIDECAR).unwrap();
    let other = {
        let memory = Memory::new();
        let store = on(memory.clone()).open("").unwrap();
        fill(&store, 1, 41);
        drop(store);
        memory.bytes(SIDECAR).unwrap()
    };
    assert_not_believed(&memory, SIDECAR, &good, [other], &expected);
}

/// A delta that is wrong, or belongs to another base.
#[test]
fn a_delta_that_is_wrong_is_not_believed() {
    let with_delta = || {
        let memory = sample();
        fill(&on(memory.clone()).open("").unwrap(), 100, 2);
        memory
    };
    let memory = with_delta();
    let expected = read_anew(&memory);
    let good = memory.bytes(DELTA).unwrap();
    let other = with_delta().bytes(DELTA).unwrap();
    assert_not_believed(&memory, DELTA, &good, [other], &expected);
}

/// The answers do not depend on a file of the sidecar that is wrong: `wrong`, or `good` with any bit
/// flipped or cut at any byte.
fn assert_not_believed(
    memory: &Memory,
    path: &str,
    good: &[u8],
    wrong: impl IntoIterator<Item = Vec<u8>>,
    expected: &str,
) {
    let step = count("DECKLOG_FLIP_STEP", 797) as usize;
    let cuts = (0..good.len()).step_by(step.div_ceil(8));
    let cuts = cuts.map(|at| good[..at].to_vec());
    let flips = (0..good.len() * 8).step_by(step).map(|bit| {
        let mut flipped = good.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    let unlike = [Vec::new(), vec![0; 100], [good, b"x"].concat()];
    for bytes in wrong.into_iter().chain(unlike).chain(cuts).chain(flips) {
        memory.put_bytes(path, bytes);
        assert_eq!(answers(&reader(memory)), expected);
    }
}

/// After any change to the segments, the answers are those of a handle that reads everything.
#[test]
fn a_sidecar_of_other_segments_is_not_believed() {
    type Change = fn(&Memory);
    let changes: [Change; 9] = [
        |_| {},
        // Appended to, without a new sidecar.
        |memory| {
            let store = still().storage(Arc::new(memory.clone())).open("").unwrap();
            fill(&store, 41, 7);
        },
        // Rewritten in place with the same length.
        |memory| {
            let bytes = memory.bytes(TURNS).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            memory.put_bytes(TURNS, text.replacen("turn 3", "turn X", 1).into_bytes());
        },
        // Rewritten in place, and appended to.
        |memory| {
            let bytes = memory.bytes(TURNS).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            memory.put_bytes(TURNS, text.replacen("turn 3", "turn 33", 1).into_bytes());
            let store = still().storage(Arc::new(memory.clone())).open("").unwrap();
            fill(&store, 41, 7);
        },
        // Truncated.
        |memory| {
            let bytes = memory.bytes(CALLS).unwrap();
            memory.put_bytes(CALLS, bytes[..bytes.len() - 30].to_vec());
        },
        |memory| memory.remove_file(CALLS).unwrap(),
        // Replaced by a file with the same bytes.
        |memory| {
            let bytes = memory.bytes(CALLS).unwrap();
            memory.remove_file(CALLS).unwrap();
            memory.put_bytes(CALLS, bytes);
        },
        // A segment whose lines sort before the known ones.
        |memory| {
            let bytes = memory.bytes(CALLS).unwrap();
            let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap();
            memory.put_bytes("2025-12-27/tool_calls.0000002.jsonl", first.to_vec());
            memory.put_bytes("2025-12-27/tool_calls.0002.jsonl", first.to_vec());
        },
        // A torn last line.
        |memory| {
            let mut bytes = memory.bytes(TURNS).unwrap();
            bytes.extend_from_slice(b"{\"seq\":9");
            memory.put_bytes(TURNS, bytes);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let memory = sample();
        change(&memory);
        let expected = read_anew(&memory);
        for round in 0..3 {
            let store = on(memory.clone()).open("").unwrap();
            assert_eq!(answers(&store), expected, "change {number}, round {round}");
        }
        // Writes are also the same.
        let store = in_memory(&memory, Durability::Process);
        fill(&store, 100, 3);
        drop(store);
        let store = on(memory.clone()).open("").unwrap();
        assert_eq!(answers(&store), read_anew(&memory), "change {number}");
    }
}

/// A sidecar or an index in memory cannot detect a later change to a line; reading the line does.
#[test]
fn a_line_that_changes_under_an_open_store_is_noticed_once_it_is_read() {
    let memory = sample();
    let store = on(memory.clone()).open("").unwrap();
    assert_eq!(store.damage().unwrap(), []);
    for (path, from, to) in [(TURNS, "turn 3", "turn X"), (CALLS, "call", "cell")] {
        let text = String::from_utf8(memory.bytes(path).unwrap()).unwrap();
        memory.put_bytes(path, text.replacen(from, to, 1).into_bytes());
    }
    let turn = store.get_turn(uuid::Uuid::from_u128(3)).unwrap().unwrap();
    assert_eq!(turn.content, "turn X");
    let files = |store: &Store| -> Vec<String> {
        let damage = store.damage().unwrap().into_iter();
        damage.map(|damage| damage.file).collect()
    };
    // Then everything is read again, and the other change is found too.
    assert_eq!(files(&store), [TURNS, CALLS]);
    assert_eq!(answers(&store), read_anew(&memory));
}

/// Bug: a change made while a handle was open was covered by the sidecar when the handle closed,
/// and no later open reported it.
#[test]
fn a_sidecar_does_not_vouch_for_what_was_not_read() {
    let memory = sample();
    memory.remove_file(SIDECAR).unwrap();
    let store = on(memory.clone()).open("").unwrap();
    let text = String::from_utf8(memory.bytes(TURNS).unwrap()).unwrap();
    memory.put_bytes(TURNS, text.replacen("turn 3", "turn X", 1).into_bytes());
    drop(store);
    assert!(memory.bytes(SIDECAR).is_none());
    let store = on(memory.clone()).open("").unwrap();
    assert_eq!(store.damage().unwrap().len(), 1);
}

#[test]
fn who_may_not_write_or_gains_nothing_writes_none() {
    let memory = sample();
    memory.remove_file(SIDECAR).unwrap();
    let open = |options: Options| options.storage(Arc::new(memory.clone())).open("").unwrap();
    drop(open(Store::options().read_only(true).sidecar_bytes_min(0)));
    // A few kilobytes are read just as fast without it.
    drop(open(Store::options()));
    assert!(memory.bytes(SIDECAR).is_none());
    drop(open(Store::options().sidecar_bytes_min(1_000)));
    assert!(memory.bytes(SIDECAR).is_some());
}

/// Also if compaction removed the last lines of a segment: the sidecar then covers the remaining
/// lines.
#[test]
fn who_rewrote_segments_leaves_one() {
    let memory = Memory::new();
    let store = on(memory.clone()).open("").unwrap();
    fill(&store, 1, 40);
    // The last line of the first day's turns is superseded on the next day.
    for day in [0, 1] {
        let at = DAY_1 + day * DAY_MS;
        store.record(turn(1_000, "said again", at)).unwrap();
    }
    let before = memory.bytes(TURNS).unwrap();
    super::upkeep::compact(&store, DAY_1 + 30 * DAY_MS);
    let after = memory.bytes(TURNS).unwrap();
    assert!(before.starts_with(&after) && after.len() < before.len());
    let expected = answers(&store);
    drop(store);
    assert!(memory.bytes(SIDECAR).is_some());
    let spy = Spy::new(memory.clone());
    assert_eq!(answers(&on(spy).open("").unwrap()), expected);
    assert_eq!(read_anew(&memory), expected);
}

/// Bug: a handle that opened with a sidecar did not know what had been removed, and started the
/// chain of a removed thought anew.
#[test]
fn a_chain_goes_on_after_its_thoughts_were_removed() {
    let memory = Memory::new();
    let mut settings = Settings::default();
    settings.set("retention.thought_records", "60").unwrap();
    let open = || {
        on(memory.clone())
            .settings(settings.clone())
            .open("")
            .unwrap()
    };
    let store = open();
    fill(&store, 1, 40);
    let think = |store: &Store| {
        let thought = NewThought {
            thought_type: ThoughtType::Plan,
            task_id: "task".into(),
            agent_id: "agent".into(),
            content: "It fails.".into(),
        };
        store.thoughts().create(thought).unwrap()
    };
    let first = think(&store);
    let now = first.timestamp.at() + 100 * DAY_MS;
    store.seal_at(now).unwrap();
    let options = RetainOptions {
        now,
        ..RetainOptions::default()
    };
    store.retain(options).unwrap();
    assert!(store.thoughts().list(None, None).unwrap().is_empty());
    fill(&store, 100, 40);
    drop(store);
    assert!(memory.bytes(SIDECAR).is_some());
    let store = open();
    assert_eq!(think(&store).prev_hash, first.hash);
    let checks = store.thoughts().verify_chains().unwrap();
    assert!(checks.iter().all(decklog::thoughts::ChainCheck::is_intact));
}

/// A handle that stays open saves the index now and then, and goes on from there.
#[test]
fn a_handle_that_stays_open_renews_the_sidecar() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = || Store::options().sidecar_bytes_min(0).open(&path).unwrap();
    let (store, other) = (open(), open());
    let saved = || [SIDECAR, DELTA].map(|file| fs::read(path.join(file)).ok());
    let mut next = 0;
    for round in 0..3 {
        let known = saved();
        let mut parts = 0;
        while saved() == known {
            for handle in [&store, &other] {
                fill(handle, next, 50);
                next += 50;
            }
            // Segments are created meanwhile, not in the order of their days.
            for day in [900 - next, 901 - next] {
                let key = 1_000_000 + u128::from(day.unsigned_abs());
                store
                    .record(turn(key, "early", DAY_1 + day * DAY_MS))
                    .unwrap();
            }
            std::thread::sleep(Duration::from_millis(20));
            parts += 1;
            assert!(parts < 500, "round {round}");
        }
        // It is read and written on meanwhile.
        fill(&store, next, 10);
        next += 10;
        assert_eq!(answers(&store), answers(&other), "round {round}");
    }
    let expected = answers(&store);
    assert_eq!(answers(&open()), expected);
    for file in [SIDECAR, DELTA] {
        let _ = fs::remove_file(path.join(file));
    }
    assert_eq!(answers(&open()), expected);
}

/// Files that changed shortly before a sidecar was written are compared by their bytes. The next
/// handle notes their times, so that later ones need not read them.
#[test]
fn files_are_compared_by_their_bytes_only_until_their_times_suffice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = |read_only| {
        let options = Store::options().sidecar_bytes_min(4_096).upkeep(false);
        options.read_only(read_only).open(&path).unwrap()
    };
    let saved = || [SIDECAR, DELTA].map(|file| fs::read(path.join(file)).ok());
    let store = open(false);
    fill(&store, 1, 300);
    let expected = answers(&store);
    drop(store);
    let recent = saved();
    assert!(recent[0].is_some());
    drop(open(false));
    assert_eq!(saved(), recent);
    std::thread::sleep(Duration::from_millis(2_100));
    // It would have to read far more for a handle that only reads to write.
    drop(open(true));
    assert_eq!(saved(), recent);
    drop(open(false));
    let settled = saved();
    assert_ne!(settled, recent);
    let store = open(false);
    assert_eq!(answers(&store), expected);
    drop(store);
    assert_eq!(saved(), settled);
}

/// What is new goes to a file of its own, until it is much.
#[test]
fn what_is_new_is_saved_beside_the_rest() {
    let memory = Memory::new();
    let store = on(memory.clone()).open("").unwrap();
    fill(&store, 1, 400);
    drop(store);
    let base = memory.bytes(SIDECAR).unwrap();
    let mut last = Vec::new();
    for round in 0..4 {
        let store = on(memory.clone()).open("").unwrap();
        fill(&store, 1_000 + round * 10, 10);
        // Outcomes of calls that the base has, and new versions of its turns.
        for id in 1 + round * 3..4 + round * 3 {
            let at = DAY_1 + 5 * DAY_MS + round;
            let key = u128::from(id.cast_unsigned());
            store.record(turn(key, "said anew", at)).unwrap();
            let req = request(key, "call", DAY_1 + (id % 3) * DAY_MS + id);
            let _ = store.record(done(&req));
        }
        drop(store);
        assert_eq!(memory.bytes(SIDECAR).unwrap(), base, "round {round}");
        let delta = memory.bytes(DELTA).unwrap();
        assert!(delta != last && delta.len() < base.len());
        last = delta;
        let spy = Spy::new(memory.clone());
        let expected = answers(&on(spy).open("").unwrap());
        assert_eq!(read_anew(&memory), expected, "round {round}");
    }
    let store = on(memory.clone()).open("").unwrap();
    fill(&store, 2_000, 400);
    drop(store);
    assert_ne!(memory.bytes(SIDECAR).unwrap(), base);
    assert!(memory.bytes(DELTA).is_none());
}

/// Of many segments, the older ones are not looked at when a store is opened, unless their directory
/// changed or decklog appended to them.
#[test]
fn what_did_not_change_is_not_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = || on(Disk::new(&path)).open("").unwrap();
    let store = open();
    let turns = (0..400).map(|day| {
        turn(
            day + 1,
            "said",
            DAY_1 + i64::try_from(day).unwrap() * DAY_MS,
        )
    });
    store.record_batch(turns.map(Record::from)).unwrap();
    drop(store);
    // Times that are too recent prove nothing.
    std::thread::sleep(Duration::from_millis(2_100));
    drop(open());
    let looked = || {
        let spy = Spy::new(Disk::new(&path));
        let store = on(spy.clone()).open("").unwrap();
        let stats = spy.events().into_iter();
        let stats = stats.filter(|event| event.path.ends_with("s.0001.jsonl"));
        let days: HashSet<String> = stats.map(|event| event.path).collect();
        (store, days.len())
    };
    assert_eq!(looked().1, 64);
    // Another handle appends to an old segment, without a new sidecar.
    let other = still().open(&path).unwrap();
    other.record(turn(1_000, "later", DAY_1 + 1)).unwrap();
    drop(other);
    let (store, count) = looked();
    assert_eq!(count, 65);
    assert!(
        store
            .get_turn(uuid::Uuid::from_u128(1_000))
            .unwrap()
            .is_some()
    );
    drop(store);
    // A process died while it wrote: HEAD still names it.
    let head = fs::read(path.join("HEAD")).unwrap();
    let mut held = head.clone();
    held[HOLDER_AT..HOLDER_AT + 8].copy_from_slice(&1u64.to_le_bytes());
    overwrite(&path.join("HEAD"), &held);
    assert_eq!(looked().1, 400);
    overwrite(&path.join("HEAD"), &head);
    // The segment that was appended to changed too recently.
    assert_eq!(looked().1, 65);
    // Another file takes the name of an old segment, and time passes.
    let old = path.join("2025-12-29/conversation_turns.0001.jsonl");
    let lines = fs::read(&old).unwrap();
    fs::write(path.join("copy"), [&lines[..], b"by hand\n"].concat()).unwrap();
    fs::rename(path.join("copy"), &old).unwrap();
    std::thread::sleep(Duration::from_millis(2_100));
    assert_eq!(looked().0.damage().unwrap().len(), 1);
    fs::write(&old, lines).unwrap();
    for _ in 0..2 {
        // The second one finds the directories as the first one did.
        drop(open());
        std::thread::sleep(Duration::from_millis(2_100));
    }
    assert_eq!(looked().1, 64);
    // Another program appends to an old segment. A refresh finds it.
    let append = |path: &Path| {
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        std::io::Write::write_all(&mut file, b"by hand\n").unwrap();
    };
    append(&path.join("2025-12-30/conversation_turns.0001.jsonl"));
    let (store, _) = looked();
    assert_eq!(store.damage().unwrap().len(), 0);
    store.refresh().unwrap();
    assert_eq!(store.damage().unwrap().len(), 1);
    drop(store);
    // A file that comes into an old directory is found at once.
    append(&path.join("2025-12-31/conversation_turns.0002.jsonl"));
    let files: Vec<String> = open()
        .damage()
        .unwrap()
        .into_iter()
        .map(|damage| damage.file)
        .collect();
    assert!(
        files
            .iter()
            .any(|file| file == "2025-12-31/conversation_turns.0002.jsonl"),
        "{files:?}"
    );
}
