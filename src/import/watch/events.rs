//! Events of the operating system about files. They may be lost or unavailable.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::{Condvar, Mutex};

use super::tree::source_of;
use crate::import::agent::is_source;

/// Maximum number of queued paths. Beyond it, all files are checked.
const PATHS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) paths: HashSet<PathBuf>,
    /// Whether events were lost.
    pub(super) is_lost: bool,
    /// When the first of these came.
    pub(super) since: Option<Instant>,
}

#[derive(Debug, Default)]
struct Shared {
    heard: Mutex<(Heard, bool)>,
    changed: Condvar,
}

impl Shared {
    fn hear(&self, event: notify::Result<notify::Event>) {
        let event = event.unwrap_or_else(|_| lost());
        if event.kind.is_access() {
            return;
        }
        let is_lost = event.need_rescan();
        // Other files of a folder, such as logs, may be written all the time.
        let is_of_content = matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)));
        let is_wanted = |path: &PathBuf| !is_of_content || is_source(&source_of(path), None);
        let mut heard = self.heard.lock();
        let now = &mut heard.0;
        now.is_lost |= is_lost;
        now.paths.extend(event.paths.into_iter().filter(is_wanted));
        if now.paths.len() > PATHS_MAX {
            now.paths.clear();
            now.is_lost = true;
        }
        if now.since.is_none() && (now.is_lost || !now.paths.is_empty()) {
            now.since = Some(Instant::now());
            self.changed.notify_all();
        }
    }
}

fn lost() -> notify::Event {
    notify::Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan)
}

/// Stops a [`Watcher`](super::Watcher), from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Ends the current and all later calls of [`next`](super::Watcher::next), after the import in
    /// progress.
    pub fn stop(&self) {
        self.0.heard.lock().1 = true;
        self.0.changed.notify_all();
    }

    /// Whether [`stop`](Stopper::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.0.heard.lock().1
    }
}

#[derive(Debug)]
pub(super) struct Events {
    /// `None` if the system has none left.
    watcher: Option<RecommendedWatcher>,
    shared: Arc<Shared>,
}

impl Events {
    pub(super) fn new() -> Events {
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let watcher = notify::recommended_watcher(move |event| told.hear(event));
        Events {
            watcher: watcher.ok(),
            shared,
        }
    }

    /// Watches a folder, without the folders in it.
    ///
    /// # Errors
    /// The reason if it cannot be watched.
    pub(super) fn watch(&mut self, folder: &Path) -> Result<(), String> {
        let Some(watcher) = &mut self.watcher else {
            return Err("the system has no watches left".to_owned());
        };
        watcher
            .watch(folder, RecursiveMode::NonRecursive)
            .map_err(|error| error.to_string())
    }

    pub(super) fn unwatch(&mut self, folder: &Path) {
        if let Some(watcher) = &mut self.watcher {
            let _ = watcher.unwatch(folder);
        }
    }

    pub(super) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.shared.heard.lock().1
    }

    /// When the first event came that was not taken.
    pub(super) fn since(&self) -> Option<Instant> {
        self.shared.heard.lock().0.since
    }

    pub(super) fn take(&self) -> Heard {
        std::mem::take(&mut self.shared.heard.lock().0)
    }

    /// Waits for the end of `wait`, for a stop, or for an event if none came before.
    pub(super) fn wait(&self, wait: Duration) {
        let mut heard = self.shared.heard.lock();
        if !heard.1 {
            self.shared.changed.wait_for(&mut heard, wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, Flag};
    use notify::{Error, Event};

    use super::*;

    #[test]
    fn what_is_lost_or_too_much_is_told() {
        let shared = Shared::default();
        let take = || std::mem::take(&mut shared.heard.lock().0);
        shared.hear(Err(Error::generic("no more watches")));
        assert!(take().is_lost);
        shared.hear(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        assert!(take().is_lost);
        for n in 0..=PATHS_MAX {
            let event = Event::new(EventKind::Create(CreateKind::File));
            shared.hear(Ok(event.add_path(format!("/p/{n}").into())));
        }
        let heard = take();
        assert!(heard.is_lost && heard.paths.is_empty());
    }

    #[test]
    fn writes_to_other_files_are_not_heard() {
        let shared = Shared::default();
        let kind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        for name in ["/p/log.txt", "/p/x.jsonl"] {
            shared.hear(Ok(Event::new(kind).add_path(name.into())));
        }
        let heard = std::mem::take(&mut shared.heard.lock().0);
        let paths: Vec<PathBuf> = heard.paths.into_iter().collect();
        assert_eq!(paths, [PathBuf::from("/p/x.jsonl")]);
        assert!(heard.since.is_some());
    }
}
