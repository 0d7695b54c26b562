//! The store's directory is moved under open handles and replaced by another store; the working
//! directory changes under a relative path. Every acknowledged record is in the store whose lock,
//! numbers and settings were used.
//!
//! `DECKLOG_MOVES` sets the number of moves under a writer, at each of two rates.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use decklog::storage::Disk;
use decklog::{ErrorKind, ObservabilityStore, Settings, Store, verify};

use super::support::{DAY_1, DAY_MS, Spy, count, still, turn};

/// The text of all segments of a store.
fn text(path: &Path) -> String {
    let mut all = String::new();
    for day in fs::read_dir(path).unwrap() {
        let day = day.unwrap().path();
        for file in fs::read_dir(&day).into_iter().flatten() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|end| end == "jsonl") {
                all += &fs::read_to_string(file).unwrap();
            }
        }
    }
    all
}

/// Moves a store away while a handle writes, and creates another one that stores no content.
fn move_once(pause: Duration, moved_after: Duration) {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("log"), dir.path().join("away"));
    let mut store = Store::open(&path).unwrap();
    let is_over = AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut acknowledged = Vec::new();
            for id in 1.. {
                let said = turn(id, &format!("PLAIN {id} me@example.com"), DAY_1);
                match store.upsert_conversation_turn(said) {
                    Ok(()) => acknowledged.push(id),
                    // As an embedder would after such an error.
                    Err(_) => match Store::options().create(false).open(&path) {
                        Ok(opened) => store = opened,
                        Err(e) => assert_eq!(e.kind(), ErrorKind::NotAStore, "{e}"),
                    },
                }
                if is_over.load(Ordering::Relaxed) {
                    return acknowledged;
                }
                if !pause.is_zero() {
                    std::thread::sleep(pause);
                }
            }
            acknowledged
        });
        std::thread::sleep(moved_after);
        fs::rename(&path, &away).unwrap();
        let mut settings = Settings::default();
        settings.privacy.store_content = false;
        settings.privacy.redact_pii = true;
        let other = Store::options().settings(settings).open(&path).unwrap();
        other
            .upsert_conversation_turn(turn(0, "OTHER", DAY_1))
            .unwrap();
        std::thread::sleep(Duration::from_millis(40));
        is_over.store(true, Ordering::Relaxed);
        writing.join().unwrap()
    });
    drop(store);
    let plain = text(&path).matches("PLAIN").count();
    assert_eq!(plain, 0, "after {moved_after:?}, one each {pause:?}");
    for path in [&path, &away] {
        let found = verify(&Disk::new(path)).unwrap();
        assert!(found.is_clean(), "{found:?}");
    }
    let stores = [&path, &away].map(|path| Store::open(path).unwrap());
    for id in acknowledged {
        let id = turn(id, "", 0).id;
        let has = stores.each_ref().map(|store| store.get_turn(id).unwrap());
        assert_eq!(has.iter().flatten().count(), 1, "{id}");
    }
}

/// Bug: a record acknowledged under the old store's lock and settings was written to the new one,
/// in plain text.
#[test]
fn nothing_of_a_store_that_is_moved_goes_to_the_one_that_takes_its_path() {
    for round in 0..count("DECKLOG_MOVES", 8) {
        let moved_after = Duration::from_micros(3_000 + 777 * (round % 16));
        move_once(Duration::ZERO, moved_after);
        move_once(Duration::from_millis(2), moved_after);
    }
}

/// Bug: the rest of a transaction was written, by the old settings and numbers, to a store that had
/// been moved into the directory meanwhile.
#[test]
fn a_store_that_comes_into_the_directory_during_a_write_gets_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("log"), dir.path().join("other"));
    let spy = Spy::new(Disk::new(&path));
    let store = still().storage(Arc::new(spy.clone())).open(&path).unwrap();
    store.record(turn(1, "PLAIN", DAY_1)).unwrap();
    let mut settings = Settings::default();
    settings.privacy.store_content = false;
    let another = still().settings(settings).open(&other).unwrap();
    another.record(turn(2, "OTHER", DAY_1)).unwrap();
    drop(another);
    // The lock is held while the next day's directory is created.
    let (from, to) = (other.clone(), path.clone());
    spy.hook(move |operation, name| {
        if operation == "create_dir" && name == "2025-12-28" && from.exists() {
            for entry in fs::read_dir(&to).unwrap() {
                let entry = entry.unwrap().path();
                let removed = if entry.is_dir() {
                    fs::remove_dir_all(&entry)
                } else {
                    fs::remove_file(&entry)
                };
                removed.unwrap();
            }
            for entry in fs::read_dir(&from).unwrap() {
                let entry = entry.unwrap();
                fs::rename(entry.path(), to.join(entry.file_name())).unwrap();
            }
            fs::remove_dir(&from).unwrap();
        }
        Ok(())
    });
    let refused = store.record(turn(3, "PLAIN", DAY_1 + DAY_MS)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    let kept = store.record(turn(3, "PLAIN", DAY_1 + DAY_MS)).unwrap();
    assert_eq!(kept.seq, 2);
    assert!(!text(&path).contains("PLAIN"));
    assert!(verify(&Disk::new(&path)).unwrap().is_clean());
}

/// Bug: a relative path was resolved again for each file.
#[cfg(unix)]
#[test]
fn a_relative_path_is_that_of_the_directory_in_which_it_was_opened() {
    const PART: &str = "DECKLOG_TEST_RELATIVE";
    if let Ok(dir) = std::env::var(PART) {
        let dir = Path::new(&dir);
        std::env::set_current_dir(dir.join("one")).unwrap();
        let store = Store::open("log").unwrap();
        store.upsert_conversation_turn(turn(1, "", DAY_1)).unwrap();
        std::env::set_current_dir(dir.join("two")).unwrap();
        store.upsert_conversation_turn(turn(2, "", DAY_1)).unwrap();
        assert_eq!(store.path(), dir.join("one/log"));
        store.sync().unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        drop(Store::open(dir.path().join(name).join("log")).unwrap());
    }
    // The working directory belongs to the whole process.
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["moved::a_relative_path", "--nocapture"])
        .env(PART, dir.path().canonicalize().unwrap())
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let ids = |name: &str| {
        let store = Store::open(dir.path().join(name).join("log")).unwrap();
        let turns = store.list_conversation_since(0, 9).unwrap();
        turns
            .iter()
            .map(|turn| turn.id.as_u128())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("one"), [1, 2]);
    assert_eq!(ids("two"), [0; 0]);
}
