//! One fsync for all requests that wait for the disk.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::store::Store;

pub(super) struct Syncer {
    store: Store,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    /// The requests that wait for the next fsync.
    next: Vec<oneshot::Sender<Result<()>>>,
    is_running: bool,
}

impl Syncer {
    pub(super) fn new(store: Store) -> Syncer {
        Syncer {
            store,
            waiting: Arc::default(),
        }
    }

    /// Returns when everything acknowledged before is on disk.
    pub(super) async fn sync(&self) -> Result<()> {
        let (sender, answer) = oneshot::channel();
        let is_running = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.next.push(sender);
            std::mem::replace(&mut waiting.is_running, true)
        };
        if !is_running {
            let (store, waiting) = (self.store.clone(), Arc::clone(&self.waiting));
            tokio::task::spawn_blocking(move || run(&store, &waiting));
        }
        let ended = |_| Error::new(ErrorKind::Poisoned, "the sync thread ended");
        answer.await.map_err(ended)?
    }
}

fn run(store: &Store, waiting: &Mutex<Waiting>) {
    loop {
        let those = {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.next.is_empty() {
                waiting.is_running = false;
                return;
            }
            std::mem::take(&mut waiting.next)
        };
        let synced = store.sync();
        for sender in those {
            let answer = synced.as_ref().copied().map_err(Error::clone);
            let _ = sender.send(answer);
        }
    }
}
