//! The health report: damage, unreadable files, the lock's holder, whether this handle still
//! writes, and disk usage. A store opens whatever the state of its files, unless continuing would
//! be unsafe.

#![allow(clippy::unwrap_used)]

use std::io;
use std::path::Path;
use std::sync::Arc;

use decklog::health::{DamageClass, Health, LockState, Usage};
use decklog::query::TurnQuery;
use decklog::storage::{Access, Disk, Fault, Memory, Storage, Volume};
use decklog::{ErrorKind, Kind, Options, Store, verify};

use super::support::{
    DAY_1, DAY_1_NAME, DAY_MS, Spy, all_lines, done, in_memory, request, still, turn,
};

const TURNS_1: &str = "2025-12-27/conversation_turns.0001.jsonl";
const TURNS_2: &str = "2025-12-28/conversation_turns.0001.jsonl";
/// `EIO`, as from a bad sector.
const EIO: i32 = 5;

fn on(storage: &Spy) -> Options {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    still().storage(storage)
}

fn ids(store: &Store) -> Vec<u128> {
    let turns = store.turns(&TurnQuery::default()).unwrap().items;
    turns.iter().map(|turn| turn.id.as_u128()).collect()
}

/// Two days with a turn each, and a call.
fn sample(path: &Path) -> Store {
    let store = Store::open(path).unwrap();
    let call = request(9, "a", DAY_1);
    store.record(turn(1, "one", DAY_1)).unwrap();
    store.record(turn(2, "two", DAY_1 + DAY_MS)).unwrap();
    store.record(call.clone()).unwrap();
    store.record(done(&call)).unwrap();
    // A handle that wrote a moment ago may still hold the lock.
    drop(store);
    Store::open(path).unwrap()
}

fn edit(path: &Path, file: &str, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path.join(file)).unwrap();
    edit(&mut bytes);
    std::fs::write(path.join(file), bytes).unwrap();
}

#[test]
fn a_store_that_is_well_says_so_with_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = sample(&path);
    let health = store.health().unwrap();
    assert!(health.is_good(), "{health:?}");
    assert_eq!(
        (health.last_seq, health.lock, health.poisoned.as_deref()),
        (4, LockState::Free, None)
    );
    let len = |file: &str| std::fs::metadata(path.join(file)).unwrap().len();
    let calls = "2025-12-27/tool_calls.0001.jsonl";
    let files = [
        (Kind::ConversationTurns, TURNS_1),
        (Kind::ToolCalls, calls),
        (Kind::ConversationTurns, TURNS_2),
    ];
    let usage = files.map(|(kind, file)| Usage {
        day: file[..10].parse().unwrap(),
        kind,
        segments: 1,
        bytes: len(file),
    });
    assert_eq!(health.usage, usage);
    assert_eq!(
        health.bytes(),
        files.iter().map(|(_, file)| len(file)).sum::<u64>()
    );
    assert_eq!(health.foreign, Vec::<String>::new());
    let volume = health.volume.unwrap();
    assert!(volume.free_bytes > 0 && !volume.is_network, "{volume:?}");

    let json = serde_json::to_value(store.health().unwrap()).unwrap();
    assert_eq!(json["usage"][0]["day"], DAY_1_NAME);
    assert_eq!(json["usage"][0]["kind"], "conversation_turns");
    assert_eq!(json["lock"]["state"], "free");
}

#[test]
fn damage_is_counted_by_its_class() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    drop(sample(&path));
    edit(&path, TURNS_1, |bytes| {
        let at = bytes.windows(3).position(|part| part == b"one").unwrap();
        bytes[at] = b'O';
        bytes.extend_from_slice(b"no line\n{\"seq\":5,\"torn");
    });
    std::fs::write(path.join(DAY_1_NAME).join("notes.txt"), "mine").unwrap();
    let store = Store::open(&path).unwrap();
    let health = store.health().unwrap();
    let damage = health.damage;
    assert_eq!((damage.altered, damage.damaged, damage.torn), (1, 1, 1));
    assert_eq!((damage.total(), health.is_good()), (3, false));
    assert_eq!(health.foreign, [format!("{DAY_1_NAME}/notes.txt")]);
    assert_eq!(health.quarantine_files, 0);

    store.repair_and_accept_edits().unwrap();
    let health = store.health().unwrap();
    assert!(health.is_good(), "{health:?}");
    assert_eq!(health.quarantine_files, 1);
    let kept = b"no line\n{\"seq\":5,\"torn".len() as u64;
    assert_eq!(health.quarantine_bytes, kept);
}

#[test]
fn who_has_the_lock_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = sample(&path);
    let holder = |pid: u64| {
        edit(&path, "HEAD", |head| {
            head[24..32].copy_from_slice(&pid.to_le_bytes());
        });
    };
    let lock = Disk::new(&path).open("LOCK", Access::Append).unwrap();
    assert!(lock.try_lock().unwrap());
    let state = || store.health().unwrap().lock;
    assert_eq!(state(), LockState::Held { process: None });
    holder(4242);
    assert_eq!(
        state(),
        LockState::Held {
            process: Some(4242)
        }
    );
    lock.unlock().unwrap();
    assert_eq!(state(), LockState::Abandoned { process: 4242 });
    // The report took no lock and no number: the next writer succeeds.
    store.record(turn(3, "three", DAY_1)).unwrap();
    drop(store);
    let reader = Store::options().read_only(true).open(&path).unwrap();
    assert_eq!(reader.health().unwrap().lock, LockState::Free);
    assert!(reader.health().unwrap().is_good());
}

#[test]
fn a_handle_that_failed_says_why() {
    let memory = Memory::new();
    let store = in_memory(&memory, decklog::Durability::Process);
    store.record(turn(1, "one", DAY_1)).unwrap();
    assert_eq!(store.health().unwrap().poisoned, None);
    let spy = Spy::new(memory.clone());
    let store = on(&spy).open("memory").unwrap();
    spy.hook(|operation, _| match operation {
        "append" => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    store.record(turn(2, "two", DAY_1)).unwrap_err();
    spy.unhook();
    let health = store.health().unwrap();
    assert!(!health.is_good());
    let why = health.poisoned.unwrap();
    assert!(why.contains("append") && why.contains(TURNS_1), "{why}");
    // It still reads, and a new handle writes.
    assert_eq!(ids(&store), [1]);
    let store = on(&spy).open("memory").unwrap();
    store.record(turn(2, "two", DAY_1)).unwrap();
    assert!(store.health().unwrap().is_good());
}

/// The rest is read. Writing without knowing all numbers and keys would be unsafe.
#[test]
fn what_cannot_be_read_hides_nothing_else_and_is_not_written_past() {
    for fails in ["open", "read_at", "stat"] {
        let memory = Memory::new();
        let store = in_memory(&memory, decklog::Durability::Process);
        store.record(turn(1, "one", DAY_1)).unwrap();
        store.record(turn(2, "two", DAY_1 + DAY_MS)).unwrap();
        drop(store);
        memory.remove_file("cache/index").unwrap();

        let spy = Spy::new(memory);
        spy.hook(move |operation, path| {
            if operation == fails && path == TURNS_1 {
                return Err(io::Error::from_raw_os_error(EIO));
            }
            Ok(())
        });
        let reader = on(&spy).read_only(true).open("memory").unwrap();
        let writer = on(&spy).open("memory").unwrap();
        for store in [&reader, &writer] {
            assert_eq!(ids(store), [2], "{fails}");
            let damage = store.damage().unwrap();
            assert_eq!(damage.len(), 1, "{fails}: {damage:?}");
            assert_eq!(damage[0].class, DamageClass::Unreadable);
            assert_eq!(damage[0].file, TURNS_1);
            assert_eq!(store.health().unwrap().damage.unreadable, 1);
        }
        let found = verify(&spy);
        if fails != "stat" {
            let found = found.unwrap();
            assert_eq!(found.damage.len(), 1, "{fails}: {found:?}");
            assert!(!found.is_clean());
        }
        for _ in 0..2 {
            let err = writer.record(turn(3, "three", DAY_1)).unwrap_err();
            assert_eq!(err.kind(), ErrorKind::Io, "{fails}: {err}");
            let err = err.to_string();
            assert!(err.contains(TURNS_1) && err.contains("readable"), "{err}");
        }

        spy.unhook();
        assert_eq!(writer.record(turn(3, "three", DAY_1)).unwrap().seq, 3);
        for store in [&reader, &writer] {
            store.refresh().unwrap();
            assert_eq!(ids(store), [1, 3, 2], "{fails}");
            assert_eq!(store.damage().unwrap(), []);
        }
        assert!(verify(&spy).unwrap().is_clean());
    }
}

#[test]
fn a_day_that_cannot_be_listed_is_named() {
    let memory = Memory::new();
    let store = in_memory(&memory, decklog::Durability::Process);
    store.record(turn(1, "one", DAY_1)).unwrap();
    store.record(turn(2, "two", DAY_1 + DAY_MS)).unwrap();
    let spy = Spy::new(memory);
    spy.hook(|operation, path| match (operation, path) {
        ("read_dir", DAY_1_NAME) => Err(io::ErrorKind::PermissionDenied.into()),
        _ => Ok(()),
    });
    let reader = on(&spy).read_only(true).open("memory").unwrap();
    assert_eq!(reader.damage().unwrap()[0].file, DAY_1_NAME);
    assert_eq!(all_lines(&reader).len(), 1);
    assert_eq!(verify(&spy).unwrap().damage[0].file, DAY_1_NAME);
}

/// For example, a lack of descriptors is not a property of the segment where it occurred.
#[test]
fn what_ails_the_process_is_an_error_and_no_damage() {
    let memory = Memory::new();
    let store = in_memory(&memory, decklog::Durability::Process);
    store.record(turn(1, "one", DAY_1)).unwrap();
    drop(store);
    memory.remove_file("cache/index").unwrap();
    let spy = Spy::new(memory);
    spy.hook(|operation, path| match (operation, path) {
        ("open", TURNS_1) => Err(io::Error::from_raw_os_error(24)),
        _ => Ok(()),
    });
    let err = on(&spy).read_only(true).open("memory").unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Io, "{err}");
    assert_eq!(verify(&spy).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_manifest_that_is_damaged_stops_writing_only() {
    for text in ["", "{", "{\"format\":1,\"store_id\":7}", "\0\0\0\0"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        drop(sample(&path));
        std::fs::write(path.join("decklog.json"), text).unwrap();
        let reader = Store::options().read_only(true).open(&path).unwrap();
        assert_eq!(ids(&reader), [1, 2]);
        let damage = reader.damage().unwrap();
        assert_eq!((damage.len(), &*damage[0].file), (1, "decklog.json"));
        let found = verify(&Disk::new(&path)).unwrap();
        assert_eq!((found.damage.len(), found.good_lines), (1, 4), "{found:?}");

        let err = Store::open(&path).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Damaged, "{err}");
        // The suggested action works.
        assert!(err.to_string().contains("move it away"), "{err}");
        std::fs::rename(path.join("decklog.json"), dir.path().join("away")).unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(store.record(turn(3, "three", DAY_1)).unwrap().seq, 5);
        // Only the handle that recreated the file reports it.
        assert_eq!(store.damage().unwrap()[0].file, "decklog.json");
        assert!(Store::open(&path).unwrap().health().unwrap().is_good());
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    drop(sample(&path));
    std::fs::write(path.join("decklog.json"), "{\"format\":2}").unwrap();
    for read_only in [false, true] {
        let err = Store::options().read_only(read_only).open(&path);
        assert_eq!(err.unwrap_err().kind(), ErrorKind::NewerFormat);
    }
}

/// Locks of another machine are not visible there.
#[test]
fn a_network_file_system_is_written_only_if_told_to() {
    let spy = Spy::new(Memory::new());
    spy.lies_on(Volume {
        file_system: "nfs4".into(),
        is_network: true,
        free_bytes: 1 << 40,
    });
    let err = on(&spy).open("memory").unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NetworkFileSystem);
    assert!(err.to_string().contains("nfs4"), "{err}");
    assert!(
        spy.events()
            .iter()
            .all(|event| event.operation != "create_dir")
    );

    let store = on(&spy).allow_network_fs(true).open("memory").unwrap();
    store.record(turn(1, "one", DAY_1)).unwrap();
    let reader = on(&spy).read_only(true).open("memory").unwrap();
    assert_eq!(ids(&reader), [1]);
    let health: Health = reader.health().unwrap();
    assert!(health.volume.unwrap().is_network);
}

#[test]
fn a_look_at_health_that_fails_says_so() {
    let memory = Memory::new();
    let store = in_memory(&memory, decklog::Durability::Process);
    store.record(turn(1, "one", DAY_1)).unwrap();
    let before = memory.operations();
    store.health().unwrap();
    let operations = memory.operations() - before;
    let mut failed = 0;
    for nth in 0..operations {
        memory.fail_at(
            memory.operations() + nth,
            Fault::Error(io::ErrorKind::Other),
        );
        match store.health() {
            Ok(health) => assert_eq!(health.last_seq, 1),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Io, "{e}");
                failed += 1;
            }
        }
        memory.heal();
    }
    assert!(failed > 3, "{failed} of {operations}");
    assert_eq!(store.health().unwrap().last_seq, 1);
}

/// Replaces a sealed file.
fn replace(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
    let mut permissions = std::fs::metadata(path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(path, permissions).unwrap();
}

#[test]
fn a_sealed_segment_that_was_taken_away_or_cut_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = sample(&path);
    store.seal_at(DAY_1 + 9 * DAY_MS).unwrap();
    assert!(store.health().unwrap().is_good());
    let elsewhere = dir.path().join("elsewhere");
    std::fs::rename(path.join(TURNS_1), &elsewhere).unwrap();
    let anew = Store::options().read_only(true).open(&path).unwrap();
    for store in [&store, &anew] {
        assert_eq!(store.health().unwrap().damage.missing, 1);
    }
    std::fs::rename(&elsewhere, path.join(TURNS_1)).unwrap();
    assert!(store.health().unwrap().is_good());
    // A segment without its last lines, which leaves only valid lines.
    let calls = path.join("2025-12-27/tool_calls.0001.jsonl");
    let whole = std::fs::read(&calls).unwrap();
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for left in [line + 1, 0] {
        let cut = &whole[..left];
        replace(&calls, cut);
        let anew = Store::options().read_only(true).open(&path).unwrap();
        for store in [&store, &anew] {
            let damage = store.health().unwrap().damage;
            assert_eq!(
                (damage.changed, damage.total()),
                (1, 1),
                "{left}: {damage:?}"
            );
        }
    }
    replace(&calls, &whole);
    assert!(store.health().unwrap().is_good());
    // And changed seals.
    edit(&path, "2025-12-27/seals.jsonl", |bytes| bytes[20] ^= 1);
    let anew = Store::options().read_only(true).open(&path).unwrap();
    let damage = anew.health().unwrap().damage;
    assert!(damage.total() > 0, "{damage:?}");
}
