//! File change events of the operating system. They can be lost or unavailable, so callers also
//! poll.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use crate::record::Day;
use crate::store::Store;

/// On Linux, each directory needs a watch of its own. Only the store's directory and those of its
/// days are watched: a recursive watch would follow a link in the store, perhaps to a whole disk.
const BY_DIRECTORY: bool = cfg!(target_os = "linux");

#[derive(Debug)]
pub(in crate::store) struct FileEvents {
    /// `None` if the system has no watches left.
    watcher: Option<RecommendedWatcher>,
    heard: Receiver<()>,
    has_lost_some: Arc<AtomicBool>,
    /// The identities of the watched directories.
    watched: HashMap<String, u64>,
}

impl FileEvents {
    pub(in crate::store) fn new(store: &Store) -> FileEvents {
        // One pending event is enough.
        let (sender, heard) = sync_channel(1);
        let has_lost_some = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&has_lost_some);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            lost.fetch_or(tells_of_lost(&event), Ordering::AcqRel);
            // Reading the store also causes events. Ignore them.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                let _ = sender.try_send(());
            }
        });
        let mut found = FileEvents {
            watcher: watcher.ok(),
            heard,
            has_lost_some,
            watched: HashMap::new(),
        };
        found.renew(store);
        found
    }

    /// Whether events were lost since the last call, so that all files must be checked.
    pub(in crate::store) fn has_lost_some(&self) -> bool {
        self.has_lost_some.swap(false, Ordering::AcqRel)
    }

    /// Whether a day's directory is watched, or no directory can be.
    pub(in crate::store) fn knows(&self, day: Day) -> bool {
        !BY_DIRECTORY || self.watcher.is_none() || self.watched.contains_key(&day.to_string())
    }

    /// Watches the directories that exist now.
    pub(in crate::store) fn renew(&mut self, store: &Store) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let storage = &*store.inner().storage;
        let mut names = vec![String::new()];
        if BY_DIRECTORY {
            let entries = storage.read_dir("").unwrap_or_default().into_iter();
            let days = entries.filter(|entry| entry.is_dir && entry.name.parse::<Day>().is_ok());
            names.extend(days.map(|day| day.name));
        }
        let mut kept = HashMap::new();
        for name in names {
            let Ok(found) = storage.stat(&name) else {
                continue;
            };
            let path = path_of(store, &name);
            if self.watched.remove(&name) == Some(found.identity) {
                kept.insert(name, found.identity);
                continue;
            }
            let mode = if BY_DIRECTORY {
                RecursiveMode::NonRecursive
            } else {
                RecursiveMode::Recursive
            };
            // The directory under this name was replaced.
            let _ = watcher.unwatch(&path);
            if watcher.watch(&path, mode).is_ok() {
                kept.insert(name, found.identity);
            }
        }
        for name in self.watched.keys() {
            let _ = watcher.unwatch(&path_of(store, name));
        }
        self.watched = kept;
    }

    /// Waits for an event, up to `timeout`. Returns whether one came.
    pub(in crate::store) fn wait(&self, timeout: Duration) -> bool {
        let started = Instant::now();
        match self.heard.recv_timeout(timeout) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            // There is no watcher.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(timeout.saturating_sub(started.elapsed()));
                true
            }
        }
    }
}

/// Whether events were lost: the queue overflowed, or the watcher failed.
fn tells_of_lost(event: &notify::Result<notify::Event>) -> bool {
    event.as_ref().map_or(true, notify::Event::need_rescan)
}

fn path_of(store: &Store, name: &str) -> PathBuf {
    crate::storage::full_path(&*store.inner().storage, name)
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, CreateKind, EventKind, Flag};
    use notify::{Error, Event};

    use super::*;

    #[test]
    fn what_was_lost_is_told() {
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert!(tells_of_lost(&Ok(lost)));
        assert!(tells_of_lost(&Err(Error::generic("no more watches"))));
        for kind in [
            EventKind::Create(CreateKind::File),
            EventKind::Access(AccessKind::Any),
        ] {
            assert!(!tells_of_lost(&Ok(Event::new(kind))));
        }
    }
}
