//! Waits for changes to a store, including those by other processes and other programs.

use std::time::{Duration, Instant};

use super::file_events::FileEvents;
use crate::error::Result;
use crate::store::Store;
use crate::store::view::state::State;

/// Maximum delay until a record is noticed without file events. They do not work on network
/// mounts, or if the system has no watches left.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum delay until changes by other programs are noticed. `HEAD` does not show them.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(in crate::store) struct ChangeWatch {
    events: FileEvents,
    /// Whether there were events since the last check of the files. `HEAD` may not show their
    /// changes.
    is_look_due: bool,
    looked: Instant,
    /// Number of segments at the last check.
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

    /// Checks the files for changes by other programs, if due. `HEAD` shows only the records of
    /// decklog. It is due at once if events were lost, and otherwise from time to time.
    pub(in crate::store) fn look_if_due(&mut self, store: &Store) -> Result<()> {
        let passed = self.looked.elapsed();
        let is_due = passed >= LOOK_INTERVAL || self.is_look_due && passed >= POLL_INTERVAL;
        if self.events.has_lost_some() || is_due {
            // Renew first, so that changes from here on cause events.
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

    /// Watches the directories that exist now.
    pub(in crate::store) fn renew(&mut self, store: &Store) {
        self.events.renew(store);
    }

    /// Whether a segment was added since the last call whose day could be watched but is not.
    pub(in crate::store) fn has_new_day(&mut self, state: &State) -> bool {
        let known = std::mem::replace(&mut self.segments, state.segments.len());
        let mut new = state.segments.iter().skip(known);
        new.any(|segment| !self.events.knows(segment.name.day))
    }

    /// Waits until there may be changes, up to `timeout`.
    pub(in crate::store) fn wait(&mut self, timeout: Duration) {
        self.is_look_due |= self.events.wait(timeout.min(POLL_INTERVAL));
    }
}

/// Waits for new lines. Created by [`Store::news`].
#[cfg(feature = "wire")]
#[derive(Debug)]
pub(crate) struct SeqWatch {
    store: Store,
    watch: ChangeWatch,
}

impl Store {
    /// The sequence number of the last line.
    #[cfg(any(feature = "wire", feature = "sql"))]
    pub(crate) fn last_seq(&self) -> Result<u64> {
        Ok(self.inner().snapshot()?.state.max_seq)
    }

    /// Watches for new lines.
    #[cfg(feature = "wire")]
    pub(crate) fn news(&self) -> SeqWatch {
        SeqWatch {
            store: self.clone(),
            watch: ChangeWatch::new(self),
        }
    }
}

#[cfg(feature = "wire")]
impl SeqWatch {
    /// Waits until the last sequence number differs from `seq`, or until `timeout` has passed.
    /// Returns it.
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
                // Check again, for lines written before the day was watched.
                self.watch.renew(&self.store);
            } else {
                self.watch.wait(left);
            }
        }
    }
}
