//! Guarantees for embedding: a caller at level `Process` waits for no disk, few descriptors are
//! enough, closing reports errors, and what cannot work is an error and not a deadlock: a read-only
//! directory, a store used by its own closure, a forked child.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use decklog::record::ThoughtType;
use decklog::storage::Disk;
use decklog::thoughts::NewThought;
use decklog::{
    Client, Conversation, Durability, Error, ErrorKind, ObservabilityStore, Record, Store, verify,
};
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, Spy, still, turn};

fn on_day(id: u32, day: u32) -> Record {
    turn(id.into(), "said", DAY_1 + i64::from(day) * DAY_MS).into()
}

/// Bug: with more than 64 files to sync, the caller synced them all.
#[test]
fn a_caller_at_level_process_waits_for_no_fsync() {
    const DAYS: u32 = 200;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let spy = Spy::new(Disk::new(&path));
    let is_slow = Arc::new(AtomicBool::new(true));
    let slow = Arc::clone(&is_slow);
    spy.hook(move |operation, _| {
        if operation == "sync" && slow.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    });
    let store = Store::options().storage(Arc::new(spy.clone()));
    let store = store.upkeep(false).open(&path).unwrap();
    let mut longest = Duration::ZERO;
    for day in 0..DAYS {
        let started = Instant::now();
        store.record(on_day(day, day)).unwrap();
        longest = longest.max(started.elapsed());
    }
    let started = Instant::now();
    let batch = (0..DAYS).map(|day| on_day(1000 + day, day));
    for answer in store.record_batch(batch).unwrap() {
        answer.unwrap();
    }
    let of_batch = started.elapsed();
    // Two hundred would take 100 s.
    is_slow.store(false, Ordering::Relaxed);
    assert!(longest < Duration::from_millis(400), "{longest:?}");
    assert!(of_batch < Duration::from_secs(2), "{of_batch:?}");
    store.close().unwrap();
    // Each segment was synced after its last append, whether it was open or not.
    let events = spy.events();
    let of = |operation: &'static str, path: &str| {
        let is_it = |event: &super::support::Event| {
            event.operation == operation && event.path == path && event.is_ok
        };
        events.iter().rposition(is_it)
    };
    let mut segments = 0;
    for event in events.iter().filter(|event| event.operation == "append") {
        if event.path.contains("conversation_turns") {
            segments += 1;
            assert!(
                of("sync", &event.path) > of("append", &event.path),
                "{event:?}"
            );
        }
    }
    assert!(segments >= 2 * DAYS);
}

#[test]
fn an_fsync_that_fails_of_a_file_that_was_not_kept_open_ends_the_handle() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let spy = Spy::new(Disk::new(&path));
    let store = still().storage(Arc::new(spy.clone())).open(&path).unwrap();
    spy.hook(|operation, path| {
        // Some are synced while the others are written.
        if operation == "sync" && path.starts_with("2026-03") {
            return Err(std::io::Error::from_raw_os_error(5));
        }
        Ok(())
    });
    for day in 0..100 {
        let recorded = store.record(on_day(day, day));
        if let Err(e) = recorded {
            assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}");
        }
    }
    assert_eq!(store.sync().unwrap_err().kind(), ErrorKind::Io);
    let refused = store.record(on_day(1000, 0)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Poisoned);
    let told = store.clone().close().unwrap_err();
    assert!(told.to_string().contains("2026-03"), "{told}");
    spy.unhook();
    assert!(store.close().is_err(), "it is not forgotten");
}

/// Runs one of these tests in a separate process; `None` in that process.
fn in_own_process(test: &str, dir: &Path) -> Option<String> {
    const DIR: &str = "DECKLOG_TEST_EMBEDDED";
    if std::env::var_os(DIR).is_some() {
        return None;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("embedded::{test}"), "--nocapture"])
        .env(DIR, dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    Some(said.into_owned())
}

fn own_dir() -> std::path::PathBuf {
    std::env::var_os("DECKLOG_TEST_EMBEDDED").unwrap().into()
}

/// Bug: 198 of 300 records failed.
#[cfg(unix)]
#[test]
fn forty_descriptors_are_enough_for_a_hundred_days() {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let dir = tempfile::tempdir().unwrap();
    let test = "forty_descriptors_are_enough_for_a_hundred_days";
    if in_own_process(test, dir.path()).is_some() {
        return;
    }
    let limit = Rlimit {
        current: Some(40),
        maximum: Some(40),
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    for (name, durability) in [("process", Durability::Process), ("disk", Durability::Disk)] {
        let options = Store::options().durability(durability);
        let store = options.upkeep(false).open(own_dir().join(name)).unwrap();
        let batch = (0..100).map(|day| on_day(1000 + day, day));
        for answer in store.record_batch(batch).unwrap() {
            answer.unwrap();
        }
        for n in 0..300 {
            let day = n % 100;
            store.record(on_day(n, day)).unwrap();
            let id = Uuid::from_u128((n / 2).into());
            assert!(store.get_turn(id).unwrap().is_some());
        }
        assert_eq!(store.list_conversation_since(0, 1000).unwrap().len(), 400);
        store.close().unwrap();
    }
}

/// Bug: the store opened, and the first record failed.
#[cfg(unix)]
#[test]
fn a_directory_that_cannot_be_written_is_told_at_opening() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    store.record(on_day(1, 0)).unwrap();
    store.close().unwrap();
    // Root can write whatever the mode, but not to an immutable directory.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).unwrap();
    let chattr = |flag| {
        let run = Command::new("chattr").arg(flag).arg(&path).output();
        run.is_ok_and(|run| run.status.success())
    };
    let is_root = rustix::process::geteuid().is_root();
    if is_root && !chattr("+i") {
        println!("not run, as this user writes everything");
        return;
    }
    let opened = Store::open(&path);
    let read = Store::options().read_only(true).open(&path);
    let read = read.map(|store| store.list_conversation_since(0, 9));
    if is_root {
        assert!(chattr("-i"));
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let e = opened.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.to_string().contains("read-only"), "{e}");
    assert_eq!(read.unwrap().unwrap().len(), 1);
    Store::open(&path).unwrap().record(on_day(2, 0)).unwrap();
}

#[test]
fn closing_syncs_and_tells() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let spy = Spy::new(Disk::new(&path));
    let store = still().storage(Arc::new(spy.clone())).open(&path).unwrap();
    store.record(on_day(1, 0)).unwrap();
    let clone = store.clone();
    clone.close().unwrap();
    let is_synced = |path: &str| {
        let events = spy.events();
        let last = events.iter().rfind(|event| event.path.contains(path));
        last.is_some_and(|event| event.operation == "sync" && event.is_ok)
    };
    assert!(is_synced("conversation_turns"));
    // A clone is still usable.
    store.record(on_day(2, 0)).unwrap();
    spy.hook(|operation, _| {
        if operation == "sync" {
            return Err(std::io::Error::from_raw_os_error(5));
        }
        Ok(())
    });
    let told = store.close().unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Io, "{told}");
    spy.unhook();
    let only_reads = Store::options().read_only(true).open(&path).unwrap();
    only_reads.close().unwrap();
}

/// Bug: it deadlocked.
#[test]
fn a_store_that_is_used_by_its_own_closure_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let other = Store::open(dir.path().join("other")).unwrap();
    let id = Uuid::from_u128(1);
    store.record(Conversation::new(id, Client::Cli)).unwrap();
    let check = |answer: Result<(), Error>| {
        let e = answer.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
        assert!(e.to_string().contains("closure"), "{e}");
    };
    let use_all = || {
        check(store.record(on_day(1, 0)).map(drop));
        check(store.get_conversation(id).map(drop));
        check(store.refresh());
        check(store.update_conversation(id, |_| ()).map(drop));
        check(store.clone().counts().map(drop));
        // Another store is not locked.
        other.record(on_day(1, 0)).unwrap();
    };
    let updated = store.update_conversation(id, |conversation| {
        use_all();
        conversation.project = Some("after all".into());
    });
    assert_eq!(updated.unwrap().project.as_deref(), Some("after all"));
    store.change_settings(|_| use_all()).unwrap();
    let thoughts = store.thoughts();
    let thought = NewThought {
        thought_type: ThoughtType::Plan,
        task_id: "t1".into(),
        agent_id: "a1".into(),
        content: String::new(),
    };
    thoughts.create(thought).unwrap();
    let mut called = 0;
    let verified = thoughts.verify_chain_with("t1", &mut |_| {
        called += 1;
        check(store.record(on_day(1, 0)).map(drop));
        ControlFlow::Continue(())
    });
    assert!(verified.unwrap().is_some() && called > 0);
    // It continues once they have returned.
    store.record(on_day(1, 0)).unwrap();
}

/// Bug: the drop panicked in the child.
#[cfg(unix)]
#[test]
#[allow(unsafe_code)]
fn a_store_that_is_dropped_in_a_forked_child_leaves_the_parents_alone() {
    use rustix::process::{Pid, WaitOptions, waitpid};

    // SAFETY: declared as in the C library. The child of this process, which does nothing else,
    // only makes the calls below and exits.
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(status: i32) -> !;
    }

    let dir = tempfile::tempdir().unwrap();
    let test = "a_store_that_is_dropped_in_a_forked_child_leaves_the_parents_alone";
    if let Some(said) = in_own_process(test, dir.path()) {
        assert!(!said.contains("panicked"), "{said}");
        return;
    }
    let path = own_dir().join("log");
    let store = Store::open(&path).unwrap();
    let id = Uuid::from_u128(1);
    store.record(Conversation::new(id, Client::Cli)).unwrap();
    // Its thread has a clone of the handle, which is never dropped in the child.
    let capturing = Store::open(&path).unwrap();
    let capture = capturing.capture().unwrap();
    capture.record(on_day(1, 0)).unwrap();
    capture.flush().unwrap();
    let (holder, is_held, is_over) = (
        store.clone(),
        AtomicBool::new(false),
        AtomicBool::new(false),
    );
    let wait = |flag: &AtomicBool| {
        while !flag.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let updated = holder.update_conversation(id, |conversation| {
                is_held.store(true, Ordering::Relaxed);
                wait(&is_over);
                conversation.project = Some("whole".into());
            });
            updated.unwrap();
        });
        wait(&is_held);
        // SAFETY: see above.
        let child = unsafe { fork() };
        if child == 0 {
            let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let closed = store.clone().close();
                // The thread with the other clone does not exist in the child, so its reference
                // must be dropped here. SAFETY: the value is this process's own copy, and is not
                // used again.
                unsafe { std::ptr::drop_in_place((&raw const holder).cast_mut()) };
                drop((capture, capturing, store));
                closed.is_err_and(|e| e.kind() == ErrorKind::Poisoned)
            }));
            // SAFETY: see above.
            unsafe { _exit(i32::from(!matches!(used, Ok(true)))) };
        }
        let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty())
            .unwrap()
            .unwrap();
        assert_eq!(status.exit_status(), Some(0));
        // The parent still has the lock.
        let other = Store::options().lock_timeout(Duration::from_millis(100));
        let refused = other.open(&path).unwrap().record(on_day(2, 0)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
        is_over.store(true, Ordering::Relaxed);
    });
    let known = holder.get_conversation(id).unwrap().unwrap();
    assert_eq!(known.0.project.as_deref(), Some("whole"));
    holder.record(on_day(3, 0)).unwrap();
    holder.close().unwrap();
    assert!(verify(&Disk::new(&path)).unwrap().is_clean());
}
