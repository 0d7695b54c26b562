//! The schedule of a watcher.

use std::time::{Duration, Instant, SystemTime};

use super::{RETRY_MAX, RETRY_MIN, SAVE_AFTER};

/// If one clock is ahead of the other by more than this, the cause is not load: the machine was
/// suspended, or the clock was set.
const SLEPT: Duration = Duration::from_secs(10);
/// The share of the time that imports may take while files change.
const SHARE: u32 = 4;
/// The longest pause between two imports.
const PAUSE_MAX: Duration = Duration::from_millis(500);

pub(super) struct Pulse {
    /// When all files are checked.
    pub(super) rescan_at: Instant,
    /// When checkpoints are written, if there are new ones.
    pub(super) save_at: Option<Instant>,
    /// The earliest time of the next import.
    pub(super) not_before: Instant,
    /// When a file changed last.
    pub(super) changed_at: Instant,
    /// The pause before the next attempt, while the store cannot be written.
    retry: Option<Duration>,
    looked_at: (Instant, SystemTime),
}

impl Pulse {
    pub(super) fn new() -> Pulse {
        let now = Instant::now();
        Pulse {
            rescan_at: now,
            save_at: None,
            not_before: now,
            changed_at: now,
            retry: None,
            looked_at: (now, SystemTime::now()),
        }
    }

    /// Whether the machine was suspended since the last call. On some systems the monotonic clock
    /// stops meanwhile; on others it shows a late call.
    pub(super) fn has_slept(&mut self) -> bool {
        let now = (Instant::now(), SystemTime::now());
        let (before, wall_before) = std::mem::replace(&mut self.looked_at, now);
        let steady = now.0.saturating_duration_since(before);
        let wall = now.1.duration_since(wall_before).unwrap_or_default();
        wall > steady + SLEPT
    }

    pub(super) fn imported(&mut self, began: Instant) {
        let now = Instant::now();
        self.changed_at = now;
        self.not_before = now + (began.elapsed() * (SHARE - 1)).min(PAUSE_MAX);
    }

    pub(super) fn save_soon(&mut self) {
        self.save_at.get_or_insert(Instant::now() + SAVE_AFTER);
    }

    /// Whether the store could not be written before.
    pub(super) fn succeeded(&mut self) -> bool {
        self.retry.take().is_some()
    }

    /// Whether this is the first failure in a row.
    pub(super) fn failed(&mut self) -> bool {
        let retry = self
            .retry
            .map_or(RETRY_MIN, |before| (before * 2).min(RETRY_MAX));
        self.not_before = Instant::now() + retry;
        self.retry.replace(retry).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_shows_in_the_clock_of_the_day() {
        let mut pulse = Pulse::new();
        assert!(!pulse.has_slept());
        pulse.looked_at.1 -= Duration::from_secs(3600);
        assert!(pulse.has_slept());
        assert!(!pulse.has_slept());
    }

    #[test]
    fn tries_become_rarer() {
        let mut pulse = Pulse::new();
        assert!(!pulse.succeeded());
        assert!(pulse.failed());
        for _ in 0..10 {
            assert!(!pulse.failed());
        }
        assert_eq!(pulse.retry, Some(RETRY_MAX));
        assert!(pulse.succeeded());
    }
}
