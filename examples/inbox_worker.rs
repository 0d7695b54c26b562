//! Workers that take tasks from the inbox. Each task is held by one worker at a time; one that fails
//! is tried again, three times at most. The log is in a temporary directory that is removed at the
//! end.
//!
//! `cargo run --example inbox_worker`

use std::thread;
use std::time::Duration;

use decklog::query::TaskQuery;
use decklog::{InboxTask, Store};
use uuid::Uuid;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("decklog-inbox-{}", Uuid::new_v4()));
    let store = Store::open(&dir)?;
    for update_id in 1..=8 {
        let payload = format!(r#"{{"resize":"image-{update_id}.png"}}"#);
        store.inbox().enqueue(update_id, Some(&payload))?;
        // The same update again is the same task: a poll that is repeated adds nothing.
        store.inbox().enqueue(update_id, Some(&payload))?;
    }
    // A worker that died holds no task for good.
    store.inbox().release_stale(Duration::from_secs(600))?;

    let workers: Vec<_> = (1..=3)
        .map(|worker| {
            let store = store.clone();
            thread::spawn(move || work(worker, &store))
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")??;
    }

    for task in store.inbox().list(&TaskQuery::default())?.items {
        let error = task.error.as_deref().unwrap_or("no error");
        println!(
            "task {}: {} after {} attempts, {error}",
            task.id, task.status, task.attempts
        );
    }
    let counts = store.inbox().counts()?;
    println!(
        "{} done, {} failed, {} queued",
        counts.done, counts.failed, counts.queued
    );
    store.close()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn work(worker: u32, store: &Store) -> decklog::Result<()> {
    let inbox = store.inbox().attempts_max(3);
    while let Some(task) = inbox.claim()? {
        println!(
            "worker {worker} has task {}, attempt {}",
            task.id, task.attempts
        );
        match resize(&task) {
            Ok(()) => inbox.done(&task)?,
            Err(error) => _ = inbox.retry(&task, &error)?,
        }
    }
    Ok(())
}

/// Every third image does not read at first, and one never does.
fn resize(task: &InboxTask) -> Result<(), String> {
    thread::sleep(Duration::from_millis(5));
    if task.id == 7 || (task.id % 3 == 0 && task.attempts == 1) {
        return Err("the image does not read".to_owned());
    }
    Ok(())
}
