//! Clocks that are wrong, differ, jump or go back: the log keeps its own order, each record is in
//! the day of its own time, timeouts take their stated time, and nothing is trusted because of its
//! time alone.
//!
//! Most tests run in separate processes with libfaketime. If it is not installed, they print that
//! and pass, unless `DECKLOG_FAKETIME` is set: then it is required. `DECKLOG_CLOCK_RECORDS` sets
//! the number of records per process.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use decklog::health::DamageClass;
use decklog::query::EventQuery;
use decklog::record::{Day, TaskStatus};
use decklog::storage::Disk;
use decklog::{ErrorKind, Event, Record, Store, Validity, verify};

use super::support::{DAY_1, DAY_MS, Kid, all_lines, count, turn};

const TURNS: &str = "2025-12-27/conversation_turns.0001.jsonl";
const ENV_DIR: &str = "DECKLOG_CLOCK_DIR";
const ENV_DO: &str = "DECKLOG_CLOCK_DO";
const LONG: Duration = Duration::from_secs(3600);

/// The library that fakes the clock of a process.
fn faketime() -> Option<PathBuf> {
    let dirs = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = dirs.map(|dir| dir.path().join("faketime/libfaketimeMT.so.1"));
    let found = found.find(|path| path.exists());
    if found.is_none() {
        assert!(
            std::env::var_os("DECKLOG_FAKETIME").is_none(),
            "libfaketime is not installed"
        );
        println!("not run: libfaketime is not installed");
    }
    found
}

/// Starts this program again to do one thing with a clock offset.
fn start(library: &Path, dir: &Path, what: &str, clock: &str) -> Child {
    fs::write(dir.join("clock"), clock).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "clock::process_with_another_clock",
        "--nocapture",
    ]);
    command.args(["--test-threads=1"]);
    command.env(ENV_DIR, dir).env(ENV_DO, what);
    command.env("LD_PRELOAD", library).env("TZ", "UTC");
    // The monotonic clock is not changed.
    command
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1");
    command.env("NO_FAKE_STAT", "1");
    if what == "jump" || what == "edit" {
        command.env("FAKETIME_TIMESTAMP_FILE", dir.join("clock"));
        command.env("FAKETIME_NO_CACHE", "1");
    } else {
        command.env("FAKETIME", clock);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn assert_ends_well(child: Child, what: &str) {
    let output = child.wait_with_output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&told)
    );
}

fn run(library: &Path, dir: &Path, what: &str, clock: &str) {
    assert_ends_well(
        start(library, dir, what, clock),
        &format!("{what} at {clock}"),
    );
}

/// Seconds since 1970 by this process's clock.
fn now_s() -> i64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_secs().cast_signed(),
        Err(before) => -before.duration().as_secs().cast_signed(),
    }
}

/// Does nothing unless one of the tests below started it as a process.
#[test]
fn process_with_another_clock() {
    let (Ok(dir), Ok(what)) = (std::env::var(ENV_DIR), std::env::var(ENV_DO)) else {
        return;
    };
    let dir = Path::new(&dir);
    let store = Store::options()
        .upkeep(false)
        .sidecar_bytes_min(0)
        .open(dir.join("log"))
        .unwrap();
    match &*what {
        "record" => records(&store),
        "midnight" => {
            // Midnight passes while this records.
            let first = Day::of(now_s() * 1000).unwrap();
            let started = Instant::now();
            while Day::of(now_s() * 1000).unwrap() == first {
                records(&store);
                assert!(started.elapsed() < Duration::from_secs(60));
            }
            records(&store);
        }
        "before" => {
            assert!(now_s() < 0, "the clock stands before 1970");
            let err = store.log_event(None, "a.b", None).unwrap_err();
            assert_eq!(err.kind(), ErrorKind::InvalidInput);
            let capture = store.capture().unwrap();
            let _ = capture.flush();
            // A record with its own time is accepted.
            store.record(turn(1, "", DAY_1)).unwrap();
        }
        "repair" => {
            for round in 0..2 {
                let name = dir.join("log").join(TURNS);
                let mut bytes = fs::read(&name).unwrap();
                bytes.extend(format!("damaged {round}\n").bytes());
                fs::write(&name, bytes).unwrap();
                assert_eq!(store.repair().unwrap()[0].quarantined_lines, 1);
            }
        }
        "jump" => jump(&store, dir),
        "edit" => edit(store, dir),
        other => panic!("{other}"),
    }
}

/// Events and turns with the current time: alone, in batches and captured.
fn records(store: &Store) {
    for nth in 0..count("DECKLOG_CLOCK_RECORDS", 8) {
        store.log_event(None, "a.b", None).unwrap();
        let now = Validity::now().at;
        let id = uuid::Uuid::new_v4().as_u128();
        let mut batch: Vec<Record> = vec![Event::new(None, "b.c").into()];
        batch.push(turn(id, &format!("turn {nth}"), now).into());
        for answer in store.record_batch(batch).unwrap() {
            answer.unwrap();
        }
    }
    let capture = store.capture().unwrap();
    capture.record(Event::new(None, "captured.now")).unwrap();
    capture.flush().unwrap();
}

/// The clock jumps while a store is open.
fn jump(store: &Store, dir: &Path) {
    let set = |clock: &str| {
        // Atomically, because it is read at any time.
        fs::write(dir.join("new"), clock).unwrap();
        fs::rename(dir.join("new"), dir.join("clock")).unwrap();
    };
    let path = dir.join("log");
    // Nothing expires, however old it is by some of these clocks.
    let reader = Store::options().upkeep(false).open(&path).unwrap();
    let mut follow = reader
        .follow(
            store
                .last_lines(1)
                .unwrap()
                .last()
                .map_or(0, |line| line.seq),
        )
        .unwrap();
    let began = now_s();
    let mut last = 0;
    for (clock, days) in [
        ("+2d", 2),
        ("-2d", -2),
        ("+0", 0),
        ("-400d", -400),
        ("+400d", 400),
        ("+0", 0),
    ] {
        set(clock);
        let off = now_s() - began - days * DAY_MS / 1000;
        assert!(off.abs() < 600, "the clock is not at {clock}: {off}");
        records(store);
        // A waiting reader gets lines at once, and an idle wait ends in time.
        let started = Instant::now();
        let lines = follow.next_lines(LONG).unwrap();
        assert!(
            lines.iter().all(|line| line.seq > last) && lines.is_sorted_by_key(|line| line.seq)
        );
        while !follow
            .next_lines(Duration::from_millis(1))
            .unwrap()
            .is_empty()
        {}
        follow.next_lines(Duration::from_millis(30)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(30));
        store.sync().unwrap();
        assert_eq!(all_lines(store), all_lines(&reader));
        // A recreated HEAD is not taken for the previous one.
        fs::remove_file(path.join("HEAD")).unwrap();
        records(&reader);
        assert_eq!(all_lines(store), all_lines(&reader));
        last = reader.last_lines(1).unwrap()[0].seq;
        while follow.next_lines(LONG).unwrap().last().unwrap().seq < last {}
    }

    // The lock times out as configured, even if the clock jumps meanwhile.
    let lock = File::options()
        .append(true)
        .open(path.join("LOCK"))
        .unwrap();
    lock.lock().unwrap();
    let timeout = Duration::from_millis(200);
    let other = Store::options().lock_timeout(timeout).open(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for clock in ["-3d", "+3d", "+0"] {
                std::thread::sleep(timeout / 5);
                set(clock);
            }
        });
        let started = Instant::now();
        let err = other.record(turn(1 << 90, "", DAY_1)).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Locked);
        let took = started.elapsed();
        assert!(
            took >= timeout && took < Duration::from_secs(30),
            "{took:?}"
        );
    });
    lock.unlock().unwrap();

    // Claims: one made with a clock that was ahead expires soon, a current one does not.
    let inbox = store.inbox();
    for update in 0..3 {
        inbox.enqueue(update, None).unwrap();
    }
    set("+2d");
    let ahead = inbox.claim().unwrap().unwrap();
    set("+0");
    let of_now = inbox.claim().unwrap().unwrap();
    let released = inbox.release_stale(LONG).unwrap();
    assert_eq!(
        released.iter().map(|task| task.id).collect::<Vec<_>>(),
        [ahead.id]
    );
    // The former holder gets an error, and the next one gets another attempt number.
    assert!(inbox.fail(&ahead, "late").is_err());
    let again = inbox.claim().unwrap().unwrap();
    assert_eq!((again.id, again.attempts), (ahead.id, 2));
    inbox.done(&again).unwrap();
    inbox.done(&of_now).unwrap();
    set("-2d");
    let behind = inbox.claim().unwrap().unwrap();
    set("+0");
    assert_eq!(inbox.release_stale(LONG).unwrap()[0].id, behind.id);
    assert_eq!(inbox.release_stale(LONG).unwrap(), []);
    assert_eq!(inbox.counts().unwrap().done, 2);
    assert_eq!(behind.status, TaskStatus::InProgress);
}

/// A segment is edited under an open handle that read it while the clock was ahead.
fn edit(store: Store, dir: &Path) {
    store.record(turn(1, "one", DAY_1)).unwrap();
    store.record(turn(2, "two", DAY_1)).unwrap();
    let path = dir.join("log");
    drop(store);
    let _ = fs::remove_file(path.join("cache/index"));
    let store = Store::options().sidecar_bytes_min(0).open(&path).unwrap();
    overwrite_once_later(&path.join(TURNS), "\"one\"", "\"ONE\"");
    fs::write(dir.join("clock"), "+0").unwrap();
    drop(store);
    let store = Store::options().sidecar_bytes_min(0).open(&path).unwrap();
    let classes: Vec<_> = store
        .damage()
        .unwrap()
        .into_iter()
        .map(|found| found.class)
        .collect();
    assert_eq!(classes, [DamageClass::Altered]);
}

/// Changes bytes in place, long enough after the last change that the file's times differ.
fn overwrite_once_later(path: &Path, from: &str, to: &str) {
    let times = || {
        let found = fs::metadata(path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let before = times();
    let text = fs::read_to_string(path).unwrap();
    let at = text.find(from).unwrap() as u64;
    let file = File::options().write(true).open(path).unwrap();
    let started = Instant::now();
    while times() == before {
        assert!(started.elapsed() < Duration::from_secs(10));
        file.write_all_at(to.as_bytes(), at).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// All lines are in the day of their own time, in the order in which they were written.
fn check(path: &Path) -> BTreeSet<String> {
    let found = verify(&Disk::new(path)).unwrap();
    assert!(found.is_clean(), "{found:?}");
    let store = Store::open(path).unwrap();
    let lines = store.last_lines(usize::MAX).unwrap();
    let mut days = BTreeSet::new();
    for (line, (seq, record)) in lines.iter().zip(all_lines(&store)) {
        assert_eq!(line.seq, seq);
        let day = Day::of(record.at()).unwrap().to_string();
        assert!(line.file.starts_with(&day), "{}: {}", line.file, line.text);
        days.insert(day);
    }
    assert!(lines.is_sorted_by(|one, next| one.seq + 1 == next.seq));
    days
}

#[test]
fn clocks_days_ahead_and_behind_and_a_midnight() {
    let Some(library) = faketime() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut upto = 0;
    for (what, clock) in [
        ("record", "+0"),
        ("record", "+2d"),
        ("record", "-2d"),
        ("midnight", "@2025-12-31 23:59:59"),
        ("record", "@2025-12-31 12:00:00"),
        ("record", "+400d"),
        ("record", "+0"),
    ] {
        run(&library, dir.path(), what, clock);
        let days = check(&dir.path().join("log"));
        let store = Store::open(dir.path().join("log")).unwrap();
        let last = store.last_lines(1).unwrap()[0].seq;
        assert!(last > upto, "{clock}");
        upto = last;
        if what == "midnight" {
            assert!(
                days.contains("2025-12-31") && days.contains("2026-01-01"),
                "{days:?}"
            );
        }
    }
    // The order of ids is that of sequence numbers, whatever the times.
    let store = Store::open(dir.path().join("log")).unwrap();
    let query = EventQuery {
        limit: usize::MAX,
        ..EventQuery::default()
    };
    let events = store.events(&query).unwrap().items;
    assert!(events.is_sorted_by(|one, next| one.id < next.id));
    assert!(!events.is_sorted_by_key(|event| event.created_at));
}

#[test]
fn two_processes_four_days_apart_share_one_log() {
    let Some(library) = faketime() else { return };
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let path = dirs[0].path().join("log");
    Store::open(&path).unwrap();
    std::os::unix::fs::symlink(&path, dirs[1].path().join("log")).unwrap();
    for _ in 0..2 {
        let kids: Vec<Kid> = ["+2d", "-2d"]
            .iter()
            .zip(&dirs)
            .map(|(clock, dir)| Kid(start(&library, dir.path(), "record", clock)))
            .collect();
        for mut kid in kids {
            let status = kid.0.wait().unwrap();
            let mut told = String::new();
            let mut stderr = kid.0.stderr.take().unwrap();
            std::io::Read::read_to_string(&mut stderr, &mut told).unwrap();
            assert!(status.success(), "{told}");
        }
        fs::remove_file(path.join("HEAD")).unwrap();
    }
    assert_eq!(check(&path).len(), 2);
    let lines = Store::open(&path)
        .unwrap()
        .last_lines(usize::MAX)
        .unwrap()
        .len() as u64;
    assert_eq!(lines, 4 * (3 * count("DECKLOG_CLOCK_RECORDS", 8) + 1));
}

#[test]
fn a_clock_that_jumps_while_the_store_is_open() {
    let Some(library) = faketime() else { return };
    let dir = tempfile::tempdir().unwrap();
    run(&library, dir.path(), "jump", "+0");
    check(&dir.path().join("log"));
}

#[test]
fn a_clock_before_1970_is_refused_and_ends_nothing() {
    let Some(library) = faketime() else { return };
    let dir = tempfile::tempdir().unwrap();
    run(&library, dir.path(), "before", "-70y");
    check(&dir.path().join("log"));
}

/// Bug: with a stopped clock, a name in the quarantine was used twice.
#[test]
fn a_clock_that_stands_still_gives_no_name_twice() {
    let Some(library) = faketime() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    store.record(turn(1, "one", DAY_1)).unwrap();
    drop(store);
    for _ in 0..2 {
        run(&library, dir.path(), "repair", "2025-12-27 12:00:00");
    }
    let files = fs::read_dir(dir.path().join("log/quarantine")).unwrap();
    let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    assert_eq!(
        texts,
        ["damaged 0\n", "damaged 0\n", "damaged 1\n", "damaged 1\n"]
    );
    check(&dir.path().join("log"));
}

/// Bug: an edit after the clock was set back seemed older than the last read, and the sidecar
/// marked it as checked.
#[test]
fn an_edit_after_the_clock_was_set_back_is_not_sealed_in() {
    let Some(library) = faketime() else { return };
    let dir = tempfile::tempdir().unwrap();
    run(&library, dir.path(), "edit", "+2d");
}

#[test]
fn files_from_the_future_are_read_and_their_edits_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let open = || Store::options().sidecar_bytes_min(0).open(&path).unwrap();
    let store = open();
    store.record(turn(1, "one", DAY_1)).unwrap();
    store.record(turn(2, "two", DAY_1)).unwrap();
    drop(store);
    let segment = path.join(TURNS);
    let future = SystemTime::now() + Duration::from_secs(2 * 86_400);
    let set = || {
        File::options()
            .write(true)
            .open(&segment)
            .unwrap()
            .set_modified(future)
            .unwrap();
    };
    set();
    fs::remove_file(path.join("cache/index")).unwrap();
    let store = open();
    store.record(turn(3, "three", DAY_1)).unwrap();
    assert_eq!(store.damage().unwrap(), []);
    set();
    drop(store);
    assert!(path.join("cache/index").exists());
    let store = open();
    assert_eq!(all_lines(&store).len(), 3);
    drop(store);
    overwrite_once_later(&segment, "\"two\"", "\"TWO\"");
    set();
    let store = open();
    assert_eq!(store.damage().unwrap().len(), 1);
    assert_eq!(
        store
            .get_turn(uuid::Uuid::from_u128(2))
            .unwrap()
            .unwrap()
            .content,
        "TWO"
    );
}
