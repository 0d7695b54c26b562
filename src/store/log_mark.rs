//! Marks of the log: how far its segments reached when a cache outside the index was written, and
//! whether a later log still has all of that.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Result;
use crate::record::{Day, Kind, now};
use crate::segment::SegmentName;
use crate::storage::{Access, Storage, read_full};
use crate::store::{SegmentWatermark, Snapshot, Store};

/// Number of bytes before the end of a segment that are compared: more than the checksum and the
/// LF of its last line.
const LAST_BYTES: u64 = 64;

/// The segments of some kinds at one moment, and what else must be the same for their records to be
/// as they were then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogMark {
    store_id: Uuid,
    /// Hash of the privacy settings.
    privacy: u64,
    /// Number of damaged places of each class.
    damage: Vec<u64>,
    /// By name, as [`SegmentName::pack`] packs it.
    segments: BTreeMap<u64, SegmentMark>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SegmentMark {
    identity: u64,
    /// The end of the last line.
    end: u64,
    /// Hash of the bytes before `end`; in a saved mark.
    #[serde(default)]
    last: u64,
    /// In a saved mark, the times of the file if it had no bytes after `end` and was not changed
    /// shortly before.
    #[serde(default)]
    times: Option<(i64, i64)>,
}

impl SegmentMark {
    /// By its name.
    fn named(segment: &SegmentWatermark) -> (u64, SegmentMark) {
        let mark = SegmentMark {
            identity: segment.identity,
            end: segment.end,
            last: 0,
            times: None,
        };
        (segment.name.pack(), mark)
    }

    fn is_extended_by(&self, later: &SegmentMark) -> bool {
        self.identity == later.identity && self.end <= later.end
    }

    /// Adds what a later process needs to recognize the segment. `None` if the file differs from
    /// what this process knows.
    fn saved(
        &self,
        storage: &dyn Storage,
        path: &str,
        known: Option<&SegmentMark>,
    ) -> Option<SegmentMark> {
        let now_ns = now().saturating_mul(1_000_000);
        let (stat, times) = storage.stat_and_times(path).ok()?;
        if stat.identity != self.identity || stat.len < self.end {
            return None;
        }
        let is_known = |known: &&SegmentMark| {
            (known.identity, known.end) == (self.identity, self.end)
                && known.times.is_some()
                && known.times == times.map(|times| (times.modified_ns, times.changed_ns))
        };
        if let Some(known) = known.filter(is_known) {
            return Some(known.clone());
        }
        let times = times.filter(|times| stat.len == self.end && times.are_settled(now_ns));
        Some(SegmentMark {
            last: last_of(storage, path, self.end)?,
            times: times.map(|times| (times.modified_ns, times.changed_ns)),
            ..*self
        })
    }

    /// Whether the file still begins with what was there when this mark was saved.
    fn is_in(&self, storage: &dyn Storage, path: &str) -> bool {
        let Ok((stat, times)) = storage.stat_and_times(path) else {
            return false;
        };
        if stat.identity != self.identity || stat.len < self.end {
            return false;
        }
        let times = times.map(|times| (times.modified_ns, times.changed_ns));
        let is_untouched = stat.len == self.end && times.is_some() && times == self.times;
        is_untouched || last_of(storage, path, self.end) == Some(self.last)
    }
}

/// Hash of the last bytes before an offset of a file.
fn last_of(storage: &dyn Storage, path: &str, end: u64) -> Option<u64> {
    let file = storage.open(path, Access::Read).ok()?;
    let start = end.saturating_sub(LAST_BYTES);
    let mut bytes = vec![0; usize::try_from(end - start).ok()?];
    let read = read_full(&*file, &mut bytes, start).ok()?;
    (read == bytes.len()).then(|| xxh3_64(&bytes))
}

fn path_of(name: u64) -> Option<String> {
    SegmentName::unpack(name).map(SegmentName::path)
}

impl LogMark {
    /// Whether everything up to this mark is also in a later one of the same handle.
    pub(crate) fn is_extended_by(&self, later: &LogMark) -> bool {
        let is_in_later = |(name, segment): (&u64, &SegmentMark)| {
            let later = later.segments.get(name);
            later.is_some_and(|later| segment.is_extended_by(later))
        };
        self.is_comparable_to(later) && self.segments.iter().all(is_in_later)
    }

    /// Whether everything up to this saved mark is still in the log, of which `now` is the mark.
    ///
    /// A replaced, removed or truncated segment is another file or shorter. Bytes that were
    /// inserted or removed before `end` move the last line, and other changes damage a line.
    pub(crate) fn is_held_by(&self, now: &LogMark, storage: &dyn Storage) -> bool {
        let is_there = |(name, segment): (&u64, &SegmentMark)| {
            path_of(*name).is_some_and(|path| segment.is_in(storage, &path))
        };
        self.is_extended_by(now) && self.segments.iter().all(is_there)
    }

    /// Whether the segments of both can be compared: those of the same store, written under the same
    /// settings and with the same damage.
    pub(crate) fn is_comparable_to(&self, other: &LogMark) -> bool {
        (self.store_id, self.privacy, &self.damage)
            == (other.store_id, other.privacy, &other.damage)
    }

    /// Whether no line is damaged. Numbers of places do not tell which lines are.
    pub(crate) fn is_undamaged(&self) -> bool {
        self.damage.iter().all(|count| *count == 0)
    }

    /// Syncs the segments that changed shortly before this mark was saved. A power cut then does not
    /// take what a cache beside this mark is of.
    pub(crate) fn sync_recent(&self, storage: &dyn Storage) -> io::Result<()> {
        let recent = self
            .segments
            .iter()
            .filter(|(_, mark)| mark.times.is_none());
        let mut paths = recent.filter_map(|(name, _)| path_of(*name));
        paths.try_for_each(|path| storage.open(&path, Access::Read)?.sync())
    }

    /// The days of this saved mark of which every segment still begins with what it had then.
    pub(crate) fn days_held(&self, storage: &dyn Storage) -> BTreeMap<Day, Vec<SegmentWatermark>> {
        let mut days: BTreeMap<Day, Option<Vec<SegmentWatermark>>> = BTreeMap::new();
        for (name, segment) in &self.segments {
            let Some(name) = SegmentName::unpack(*name) else {
                return BTreeMap::new();
            };
            let held = days.entry(name.day).or_insert_with(|| Some(Vec::new()));
            if held.is_some() && !segment.is_in(storage, &name.path()) {
                *held = None;
            }
            if let Some(held) = held {
                held.push(SegmentWatermark {
                    name,
                    identity: segment.identity,
                    end: segment.end,
                });
            }
        }
        let held = days.into_iter();
        held.filter_map(|(day, held)| Some((day, held?))).collect()
    }

    /// This mark with these segments instead of its own.
    pub(crate) fn with_segments<'a>(
        self,
        segments: impl Iterator<Item = &'a SegmentWatermark>,
    ) -> LogMark {
        LogMark {
            segments: segments.map(SegmentMark::named).collect(),
            ..self
        }
    }

    /// The days of a later mark with segments that are not in this one.
    pub(crate) fn days_with_more(&self, later: &LogMark) -> BTreeSet<Day> {
        let names = later.segments.keys();
        let names = names.filter(|name| !self.segments.contains_key(name));
        let names = names.filter_map(|name| SegmentName::unpack(*name));
        names.map(|name| name.day).collect()
    }

    /// The mark to save, with what a later process needs to compare. `None` if a segment is no
    /// longer as this process knows it.
    /// `known`: an earlier saved mark, which spares reading the segments that did not change since.
    pub(crate) fn saved(&self, storage: &dyn Storage, known: Option<&LogMark>) -> Option<LogMark> {
        let segments = self.segments.iter().map(|(name, segment)| {
            let known = known.and_then(|known| known.segments.get(name));
            let saved = segment.saved(storage, &path_of(*name)?, known)?;
            Some((*name, saved))
        });
        Some(LogMark {
            segments: segments.collect::<Option<_>>()?,
            ..self.clone()
        })
    }

    /// Whether both have the same lines of a kind.
    pub(crate) fn has_same(&self, kind: Kind, other: &LogMark) -> bool {
        let of = |mark: &LogMark| {
            let segments = mark.segments.iter().filter(|(name, _)| {
                SegmentName::unpack(**name).is_some_and(|name| name.kind == kind)
            });
            let segments = segments.map(|(name, segment)| (*name, segment.identity, segment.end));
            segments.collect::<Vec<_>>()
        };
        of(self) == of(other)
    }
}

impl Store {
    /// The mark of these kinds; `None` if not all segments can be read.
    pub(crate) fn log_mark(&self, kinds: &[Kind]) -> Result<Option<LogMark>> {
        let privacy = self.settings()?.privacy;
        let privacy = xxh3_64(&serde_json::to_vec(&privacy).unwrap_or_default());
        let inner = self.inner();
        inner.with_snapshot(|view| {
            let damage = view.state.damage_counts.by_class();
            Ok(view.segment_marks(kinds).map(|segments| LogMark {
                store_id: inner.store_id,
                privacy,
                damage: damage.map(|(_, count)| count).collect(),
                segments,
            }))
        })
    }
}

impl Snapshot<'_> {
    fn segment_marks(&self, kinds: &[Kind]) -> Option<BTreeMap<u64, SegmentMark>> {
        let segments = self.state.present_in_order().map(|(_, segment)| segment);
        let segments = segments.filter(|segment| kinds.contains(&segment.name.kind));
        let segments = segments.map(|segment| SegmentMark::named(&segment.watermark()));
        self.state.is_sound().then(|| segments.collect())
    }
}
