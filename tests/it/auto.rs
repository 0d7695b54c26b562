//! Automatic upkeep by a writing handle: once a day, and when a segment is full.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use decklog::query::TurnQuery;
use decklog::record::Day;
use decklog::retention::{Keep, RemovalReason};
use decklog::storage::Disk;
use decklog::{Store, verify};

use super::support::{DAY_1, DAY_1_NAME, DAY_MS, turn};

/// Waits for another thread.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn today() -> Day {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Day::of(now.unwrap().as_millis().try_into().unwrap()).unwrap()
}

/// A store with old turns, on this many days.
fn old_store(path: &Path, days: u64) {
    let store = Store::open(path).unwrap();
    for id in 0..20 {
        let at = DAY_1 + (id as i64 % 2) * DAY_MS;
        store.record(turn(id, "said long ago", at)).unwrap();
    }
    drop(store);
    let manifest = File::options().write(true).open(path.join("decklog.json"));
    let made = SystemTime::now() - Duration::from_secs(days * 86_400);
    manifest.unwrap().set_modified(made).unwrap();
}

#[test]
fn what_is_over_goes_by_itself_once_a_day() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    old_store(&path, 2);
    let now = i64::from(u32::MAX) * 1_000;
    let (store, other) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    // Nothing is removed before the first write.
    assert_eq!(other.turns(&TurnQuery::default()).unwrap().items.len(), 20);
    store.record(turn(100, "said now", now)).unwrap();
    until("the old days go", || {
        !path.join(DAY_1_NAME).exists() && store.health().unwrap().last_upkeep.is_some()
    });
    for handle in [&store, &other] {
        assert_eq!(handle.turns(&TurnQuery::default()).unwrap().items.len(), 1);
        let health = handle.health().unwrap();
        assert_eq!(health.last_upkeep, Some(today()));
        assert_eq!((health.removed.lines, health.upkeep_failed), (20, None));
        assert_eq!(health.removed.last_reason, Some(RemovalReason::Retention));
    }
    assert_eq!(verify(&Disk::new(&path)).unwrap().damage, []);
    // Once, even if others write.
    other.record(turn(101, "said long ago", DAY_1)).unwrap();
    drop((store, other));
    let again = Store::open(&path).unwrap();
    again.record(turn(102, "said now", now)).unwrap();
    drop(again);
    assert!(path.join(DAY_1_NAME).exists());
}

/// The clock was far ahead at the last upkeep.
#[test]
fn a_day_that_is_to_come_keeps_nothing_from_being_done() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    old_store(&path, 2);
    fs::create_dir_all(path.join("cache")).unwrap();
    fs::write(path.join("cache/upkeep"), "2106-02-08").unwrap();
    let store = Store::open(&path).unwrap();
    let now = i64::from(u32::MAX) * 1_000;
    store.record(turn(100, "said now", now)).unwrap();
    until("the old days go", || !path.join(DAY_1_NAME).exists());
    until("it is noted", || {
        store.health().unwrap().last_upkeep == Some(today())
    });
}

#[test]
fn nothing_goes_on_the_first_day_or_where_settings_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    old_store(&path, 0);
    let store = Store::open(&path).unwrap();
    store.record(turn(100, "more", DAY_1)).unwrap();
    drop(store);
    assert!(!path.join("cache/upkeep").exists());

    for (name, change) in [
        (
            "auto",
            (|settings| settings.privacy.auto_delete = false) as fn(&mut decklog::Settings),
        ),
        ("forever", |settings| {
            settings.retention.conversation_turns = Some(Keep::Forever);
        }),
    ] {
        let path = dir.path().join(name);
        old_store(&path, 2);
        let store = Store::options().upkeep(false).open(&path).unwrap();
        store.change_settings(change).unwrap();
        drop(store);
        let made = SystemTime::now() - Duration::from_secs(2 * 86_400);
        let manifest = File::options().write(true).open(path.join("decklog.json"));
        manifest.unwrap().set_modified(made).unwrap();
        let store = Store::open(&path).unwrap();
        store.record(turn(100, "more", DAY_1)).unwrap();
        until("the day is seen to", || path.join("cache/upkeep").exists());
        until("the day is noted", || {
            store.health().unwrap().last_upkeep.is_some()
        });
        assert_eq!(store.turns(&TurnQuery::default()).unwrap().items.len(), 21);
        // Finished segments are sealed nevertheless.
        assert!(path.join(DAY_1_NAME).join("seals.jsonl").exists());
    }
}

#[test]
fn a_full_segment_is_sealed_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::options()
        .segment_bytes_max(2_000)
        .open(&path)
        .unwrap();
    for id in 0..30 {
        store
            .record(turn(id, "a text of some length", DAY_1))
            .unwrap();
    }
    let seals =
        || fs::read_to_string(path.join(DAY_1_NAME).join("seals.jsonl")).unwrap_or_default();
    until("all but the last are sealed", || {
        let segments = fs::read_dir(path.join(DAY_1_NAME)).unwrap().count() - 1;
        segments > 2 && seals().lines().count() == segments - 1
    });
    // The last segment accepts lines. Nothing was removed, though all lines are old.
    store.record(turn(99, "", DAY_1)).unwrap();
    assert_eq!(store.turns(&TurnQuery::default()).unwrap().items.len(), 31);
    assert_eq!(verify(&Disk::new(&path)).unwrap().damage, []);
}
