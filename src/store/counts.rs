//! Counts of a store and of a handle. No file is read for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::error::Result;
use crate::record::Kind;
use crate::segment::DamageCounts;
use crate::store::Store;

/// The first bound of [`SyncTimes::upto`]. Each further bound is twice the previous one.
const SHORTEST: Duration = Duration::from_micros(100);
const BOUNDS: usize = 17;

/// Durations of fsyncs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SyncTimes {
    /// Number of fsyncs.
    pub count: u64,
    /// Total duration.
    pub total: Duration,
    /// Number of fsyncs by duration. Each entry has an upper bound, from 0.1 ms to 6.6 s, and
    /// counts the fsyncs that took at most that long and longer than the previous bound.
    pub upto: Vec<(Duration, u64)>,
}

/// The counters behind [`SyncTimes`].
#[derive(Debug, Default)]
pub(super) struct Times {
    count: AtomicU64,
    total_ns: AtomicU64,
    upto: [AtomicU64; BOUNDS],
}

impl Times {
    pub(super) fn note(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(took_ns, Ordering::Relaxed);
        if let Some((_, count)) = bounds().zip(&self.upto).find(|(bound, _)| took <= *bound) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> SyncTimes {
        let counts = self.upto.iter().map(|count| count.load(Ordering::Relaxed));
        SyncTimes {
            upto: bounds().zip(counts).collect(),
            count: self.count.load(Ordering::Relaxed),
            total: Duration::from_nanos(self.total_ns.load(Ordering::Relaxed)),
        }
    }
}

fn bounds() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(SHORTEST), |bound| bound.checked_mul(2)).take(BOUNDS)
}

/// Counts of one kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KindCounts {
    /// The kind.
    pub kind: Kind,
    /// Number of records, such as tool calls or messages.
    pub records: u64,
    /// Number of segment files.
    pub segments: u64,
    /// Size of the segments, in bytes.
    pub bytes: u64,
    /// Number of lines that this handle appended since it was opened.
    pub appended: u64,
}

/// Counts of a store and of a handle; from [`Store::counts`].
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// The greatest sequence number.
    pub last_seq: u64,
    /// Whether a write or fsync failed. This handle acknowledges nothing more then.
    pub is_poisoned: bool,
    /// Counts by kind of record.
    pub kinds: Vec<KindCounts>,
    /// Number of damaged places.
    pub damage: DamageCounts,
    /// Durations of this handle's file fsyncs.
    pub syncs: SyncTimes,
}

impl Store {
    /// Counts of the store, as far as this handle knows, and of the handle. Unlike
    /// [`health`](Store::health), it reads no file except for new records, so it is cheap.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = decklog::Store::open(dir.path().join("log"))?;
    /// store.log_event(None, decklog::event_type::AGENT_STARTED, None)?;
    /// let counts = store.counts()?;
    /// let appended: u64 = counts.kinds.iter().map(|of| of.appended).sum();
    /// assert_eq!((counts.last_seq, appended), (1, 1));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if new records cannot be read.
    pub fn counts(&self) -> Result<Counts> {
        let inner = self.inner();
        let view = inner.snapshot()?;
        let mut kinds = Vec::with_capacity(Kind::ALL.len());
        for (kind, appended) in Kind::ALL.into_iter().zip(&inner.appended) {
            kinds.push(KindCounts {
                kind,
                records: view.state.index.table(kind).len() as u64,
                segments: 0,
                bytes: 0,
                appended: appended.load(Ordering::Relaxed),
            });
        }
        view.check()?;
        for segment in view.state.present() {
            let of = &mut kinds[segment.name.kind as usize];
            of.segments += 1;
            of.bytes += segment.expected_len();
        }
        Ok(Counts {
            last_seq: view.state.max_seq,
            damage: view.damage_counts(),
            kinds,
            is_poisoned: inner.why_poisoned().is_some(),
            syncs: inner.sync.times(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_where_they_belong() {
        let times = Times::default();
        for took_us in [0, 100, 101, 200, 6_553_600, 6_553_601] {
            times.note(Duration::from_micros(took_us));
        }
        let read = times.read();
        let counts: Vec<u64> = read.upto.iter().map(|(_, count)| *count).collect();
        assert_eq!((counts[0], counts[1], counts[16]), (2, 2, 1));
        assert_eq!(counts.iter().sum::<u64>(), 5);
        assert_eq!(read.count, 6);
        assert_eq!(read.total, Duration::from_micros(13_107_602));
        assert_eq!(read.upto[16].0, Duration::from_micros(6_553_600));
    }

    #[test]
    fn kinds_stand_in_their_order() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }
}
