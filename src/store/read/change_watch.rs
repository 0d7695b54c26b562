//! Waits for changes to a store, also by other processes and other programs.

use std::time::{Duration, Instant};

use super::file_events::FileEvents;
use crate::error::Result;
use crate::store::Store;
use crate::store::view::state::State;

/// How long a record may go unnoticed where the system's notices fail, as they do on network
/// mounts or where it has no more of them to give.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long other hands' changes may, which `HEAD` does not tell.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(in crate::store) struct ChangeWatch {
    events: FileEvents,
    /// Something changed since the files were last looked at, which `HEAD` may not tell.
    is_look_due: bool,
    looked: Instant,
    /// How many segments there were when they were last seen.
    segments: usize,
}

impl ChangeWatch {
    pub(in crate::store) fn new(store: &Store) -> ChangeWatch {
        ChangeWatch {
            events: FileEvents::new(store),
            is_look_due: false,
            looked: Instant::now(),
            segments: 0,
        }
    }

    /// `HEAD` tells what was recorded. What other hands do to the files is found by looking at
    /// them: at once where notices were lost, else now and then.
    pub(in crate::store) fn look_if_due(&mut self, store: &Store) -> Result<()> {
        let passed = self.looked.elapsed();
        let is_due = passed >= LOOK_INTERVAL || self.is_look_due && passed >= POLL_INTERVAL;
        if self.events.has_lost_some() || is_due {
            // What changes from here on is news.
            self.events.renew(store);
            self.is_look_due = false;
            self.looked = Instant::now();
            if let Err(e) = store.refresh() {
                self.is_look_due = true;
                return Err(e);
            }
        }
        Ok(())
    }

    /// Watches the directories that there are now.
    pub(in crate::store) fn renew(&mut self, store: &Store) {
        self.events.renew(store);
    }

    /// Whether a segment came since this was last asked whose day is not watched, though it could be.
    pub(in crate::store) fn has_new_day(&mut self, state: &State) -> bool {
        let known = std::mem::replace(&mut self.segments, state.segments.len());
        let mut new = state.segments.iter().skip(known);
        new.any(|segment| !self.events.knows(segment.name.day))
    }

    /// Waits until something may be new, but no longer than `timeout`.
    pub(in crate::store) fn wait(&mut self, timeout: Duration) {
        self.is_look_due |= self.events.wait(timeout.min(POLL_INTERVAL));
    }
}

/// Waits for what is new; from [`Store::news`].
#[cfg(feature = "wire")]
#[derive(Debug)]
pub(crate) struct SeqWatch {
    store: Store,
    watch: ChangeWatch,
}

#[cfg(feature = "wire")]
impl Store {
    /// The number of the last line.
    pub(crate) fn last_seq(&self) -> Result<u64> {
        Ok(self.inner().snapshot()?.state.max_seq)
    }

    /// Watches for what is new.
    pub(crate) fn news(&self) -> SeqWatch {
        SeqWatch {
            store: self.clone(),
            watch: ChangeWatch::new(self),
        }
    }
}

#[cfg(feature = "wire")]
impl SeqWatch {
    /// The number of the last line, once it is not `seq` any more or `timeout` has passed.
    pub(crate) fn wait(&mut self, seq: u64, timeout: Duration) -> Result<u64> {
        let started = Instant::now();
        loop {
            self.watch.look_if_due(&self.store)?;
            let (last_seq, has_new_day) = {
                let view = self.store.inner().snapshot()?;
                (view.state.max_seq, self.watch.has_new_day(&view.state))
            };
            let left = timeout.saturating_sub(started.elapsed());
            if last_seq != seq || left.is_zero() {
                return Ok(last_seq);
            }
            if has_new_day {
                // What came before it was watched is seen by looking again.
                self.watch.renew(&self.store);
            } else {
                self.watch.wait(left);
            }
        }
    }
}
