//! Tasks that record at level `Disk` do not block their runtime.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use decklog::storage::Disk;
use decklog::{
    AckStatus, Capture, ConversationTurn, Durability, ErrorKind, Record, Store, ToolCallDone,
    ToolStatus, TurnKind,
};
use tokio::runtime::{Builder, Runtime};
use uuid::Uuid;

use super::support::Spy;

const TASKS: usize = 16;
/// Number of ticks that must happen while all tasks wait for the disk.
const TICKS: u64 = 50;

fn two_workers() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_time().build().unwrap()
}

/// A store whose syncs end only after the runtime has ticked often enough, or after a minute.
struct Story {
    store: Store,
    spy: Spy,
    ticks: Arc<(Mutex<u64>, Condvar)>,
    is_stalled: Arc<AtomicBool>,
    syncs: Arc<AtomicU64>,
    _dir: tempfile::TempDir,
}

fn story() -> Story {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let spy = Spy::new(Disk::new(&path));
    let ticks = Arc::new((Mutex::new(0), Condvar::new()));
    let (is_stalled, syncs) = (Arc::default(), Arc::default());
    let (seen, stalled, count) = (
        Arc::clone(&ticks),
        Arc::<AtomicBool>::clone(&is_stalled),
        Arc::<AtomicU64>::clone(&syncs),
    );
    let options = Store::options().storage(Arc::new(spy.clone()));
    let options = options.durability(Durability::Disk).upkeep(false);
    let store = options.open(&path).unwrap();
    spy.hook(move |operation, _| {
        if operation == "sync" {
            count.fetch_add(1, Ordering::Relaxed);
            let (ticks, ticked) = &*seen;
            let ticks = ticks.lock().unwrap();
            let wanted = *ticks + TICKS;
            let waits = |ticks: &mut u64| *ticks < wanted;
            let minute = Duration::from_secs(60);
            let (_ticks, waited) = ticked.wait_timeout_while(ticks, minute, waits).unwrap();
            stalled.fetch_or(waited.timed_out(), Ordering::Relaxed);
        }
        Ok(())
    });
    Story {
        store,
        spy,
        ticks,
        is_stalled,
        syncs,
        _dir: dir,
    }
}

/// Runs the tasks and a ticker on two workers; returns the tasks' results.
fn run<F: Future<Output = decklog::Result<decklog::Ack>> + Send + 'static>(
    story: &Story,
    record: impl Fn(ConversationTurn) -> F,
) {
    let runtime = two_workers();
    let ticks = Arc::clone(&story.ticks);
    let ticker = runtime.spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            *ticks.0.lock().unwrap() += 1;
            ticks.1.notify_all();
        }
    });
    let tasks: Vec<_> = (0..TASKS)
        .map(|nth| ConversationTurn::new(TurnKind::User, nth.to_string()))
        .map(|turn| runtime.spawn(record(turn)))
        .collect();
    for task in tasks {
        let ack = runtime.block_on(task).unwrap().unwrap();
        assert_eq!(ack.status, AckStatus::Added);
    }
    ticker.abort();
    // The remaining syncs, such as that of closing the handle, need no ticks.
    assert!(!story.is_stalled.load(Ordering::Relaxed), "it stalled");
    let syncs = story.syncs.load(Ordering::Relaxed);
    assert!((1..=TASKS as u64).contains(&syncs), "{syncs}");
    assert_eq!(story.store.counts().unwrap().last_seq, TASKS as u64);
}

#[test]
fn tasks_that_wait_for_the_disk_do_not_stall_the_runtime() {
    let story = story();
    run(&story, |turn| {
        let store = story.store.clone();
        async move { store.record_async(turn).await }
    });
    story.finish();
}

#[test]
fn nor_do_those_that_wait_for_a_capture() {
    let story = story();
    let capture: Capture = story.store.capture().unwrap();
    run(&story, |turn| {
        let capture = capture.clone();
        async move { capture.record_async(turn).await }
    });
    drop(capture);
    story.finish();
}

impl Story {
    /// Lets syncs end without ticks.
    fn finish(self) {
        self.spy.unhook();
        let (ticks, ticked) = &*self.ticks;
        *ticks.lock().unwrap() = u64::MAX / 2;
        ticked.notify_all();
    }
}

#[test]
fn what_the_log_rejects_is_told_to_the_task_that_recorded_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let capture = store.capture().unwrap();
    let unknown = || ToolCallDone::new(Uuid::new_v4(), "c", ToolStatus::Completed);
    let said = ConversationTurn::new(TurnKind::User, "hello");
    two_workers().block_on(async {
        let error = store.record_async(unknown()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = capture.record_async(unknown()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let batch = vec![Record::from(said.clone()), unknown().into()];
        let answers = store.record_batch_async(batch).await.unwrap();
        assert_eq!(answers[0].as_ref().unwrap().status, AckStatus::Added);
        let error = answers[1].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let again = capture.record_async(said).await.unwrap();
        assert_eq!(again.status, AckStatus::Unchanged);
    });
}
