//! What the sidecar says of a segment, and how that is compared with the file.

use std::sync::atomic::{AtomicUsize, Ordering};

use xxhash_rust::xxh3::Xxh3;

use super::now_ns;
use crate::index::{encoded_as, run_all};
use crate::segment::seal::read_through;
use crate::segment::{Found, SegmentName, Span, scan};
use crate::storage::{Access, FileStat, FileTimes, Storage, StorageFile};
use crate::store::view::state::{Segment, State};

/// The last segment of a day and kind is taken to be still growing if it was written to less than
/// this time ago. Its times do not distinguish appends from other changes.
const GROWING_NS: i64 = 86_400_000_000_000;
/// Of a segment that may grow, this many bytes before the covered end are compared.
const COMPARED_BYTES: u64 = 1 << 20;
/// With fewer bytes to read than this, another thread does not pay off.
const PARALLEL_BYTES_MIN: u64 = 4 << 20;
const THREADS_MAX: usize = 4;

/// The sidecar's entry for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Covered {
    pub(super) name: SegmentName,
    pub(super) identity: u64,
    /// Number of bytes that the index covers.
    pub(super) end: u64,
    pub(super) last_seq: u64,
    /// Length and times, if they suffice to detect later changes.
    untouched: Option<(u64, FileTimes)>,
    /// The hash of the last [`COMPARED_BYTES`] covered bytes, if computed.
    hash: Option<u64>,
}

impl Covered {
    /// Whether the file had no bytes after the last line.
    pub(in crate::store) fn has_only_lines(&self) -> bool {
        self.untouched.is_some_and(|(len, _)| len == self.end)
    }

    /// Compares the covered part with the file, which was just looked at. `None` if it was changed;
    /// otherwise the number of bytes that were read to find out, unless the file has grown: then it
    /// is likely to grow on, and to be compared again.
    pub(in crate::store) fn compare(
        &self,
        storage: &dyn Storage,
        stat: &FileStat,
        times: Option<FileTimes>,
    ) -> Option<u64> {
        if stat.identity != self.identity || stat.len < self.end {
            return None;
        }
        if let Some((len, known)) = self.untouched
            && stat.len == len
            && times == Some(known)
        {
            return Some(0);
        }
        // Of a large file, the end is compared. That is enough if it grew since, but not if it was
        // changed in place.
        let has_grown = self.untouched.is_none_or(|(len, _)| stat.len > len);
        if !has_grown && self.end > COMPARED_BYTES {
            return None;
        }
        let file = storage.open(&self.name.path(), Access::Read).ok()?;
        let is_same = self.hash.is_some() && hash_of(&*file, self.end) == self.hash;
        let compared = match stat.len {
            len if len > self.end => 0,
            _ => self.end.min(COMPARED_BYTES),
        };
        is_same.then_some(compared)
    }
}

/// Compares all segments with their files, on several cores if much is to be read. `None` if one
/// differs from the state.
pub(super) fn cover_all(storage: &dyn Storage, state: &State) -> Option<Vec<Covered>> {
    let segments = &state.segments;
    let unread = segments.iter().map(|it| it.end.saturating_sub(it.verified));
    let is_much = unread.sum::<u64>() >= PARALLEL_BYTES_MIN;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if is_much { cores().min(THREADS_MAX) } else { 1 };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut covered = Vec::new();
        let mut is_same = true;
        while is_same {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(segment) = segments.get(place) else {
                break;
            };
            let found = cover(storage, state, segment);
            is_same = found.is_some();
            covered.push((place, found));
        }
        covered
    };
    let results = run_all(threads > 1, (0..threads).map(|_| &work));
    let mut covered: Vec<_> = results.into_iter().flatten().collect();
    covered.sort_unstable_by_key(|(place, _)| *place);
    covered.into_iter().map(|(_, found)| found).collect()
}

/// `None` if the segment differs from the state.
fn cover(storage: &dyn Storage, state: &State, segment: &Segment) -> Option<Covered> {
    let now_ns = now_ns();
    if segment.identity == 0 {
        // The segment was removed but keeps its index.
        return Some(Covered {
            name: segment.name,
            identity: 0,
            end: 0,
            last_seq: 0,
            untouched: None,
            hash: None,
        });
    }
    let path = segment.name.path();
    let (stat, times) = storage.stat_and_times(&path).ok()?;
    if stat.identity != segment.identity || stat.len < segment.end {
        return None;
    }
    // The file changed after it was read, perhaps only by appends. Read it again, since the next
    // open would not report damage in the part that the sidecar covers. The clock alone is not
    // enough: it may have been set back.
    let is_as_read = times
        .is_some_and(|times| segment.read_times == Some(times) && times.are_settled(state.read_ns));
    // A segment that did not change since the last sidecar.
    let now = times.map(|times| (stat.len, times));
    let as_covered = segment.covered.as_ref().filter(|covered| {
        let is_same = covered.identity == stat.identity;
        is_same && covered.untouched.is_some() && covered.untouched == now
    });
    let is_as_read = (is_as_read || as_covered.is_some()) && segment.verified == segment.end;
    if !is_as_read && !is_intact(storage, segment) {
        return None;
    }
    let is_expected = stat.len == segment.expected_len();
    let untouched = times.filter(|times| is_expected && times.are_settled(now_ns));
    let age_ns = times.map_or(0, |times| now_ns.saturating_sub(times.modified_ns));
    let SegmentName { day, kind, .. } = segment.name;
    let active = state.active(day, kind);
    let may_grow = active.is_some_and(|place| state.segments[place as usize].name == segment.name);
    let known_hash = as_covered.filter(|covered| covered.end == segment.end);
    let known_hash = known_hash.and_then(|covered| covered.hash);
    let hash = if known_hash.is_some() {
        known_hash
    } else if untouched.is_none() || may_grow && age_ns < GROWING_NS {
        let file = storage.open(&path, Access::Read).ok()?;
        Some(hash_of(&*file, segment.end)?)
    } else {
        None
    };
    Some(Covered {
        name: segment.name,
        identity: segment.identity,
        end: segment.end,
        last_seq: segment.last_seq,
        untouched: untouched.map(|times| (stat.len, times)),
        hash,
    })
}

/// Whether all covered lines that were not checked yet are intact, and the last one has the known
/// sequence number.
fn is_intact(storage: &dyn Storage, segment: &Segment) -> bool {
    let SegmentName { kind, .. } = segment.name;
    let Ok(file) = storage.open(&segment.name.path(), Access::Read) else {
        return false;
    };
    // Appends alone change the times, too. Of a large segment, only what was appended is read.
    let from = match segment.verified {
        verified if verified > COMPARED_BYTES && verified < segment.end => verified,
        _ => 0,
    };
    let (mut is_intact, mut last_seq) = (true, 0);
    let mut look = |found: Found<'_>| {
        is_intact &= found.report().is_none();
        found.facts(kind, &mut |fact| last_seq = fact.envelope.seq);
    };
    let span = Span {
        from,
        until: segment.end,
        ..Span::ALL
    };
    let scanned = scan(&*file, kind, span, &mut look);
    let is_whole =
        scanned.is_ok_and(|scanned| scanned.end == segment.end && scanned.tail.is_none());
    is_whole && is_intact && last_seq == segment.last_seq
}

/// The hash of the last [`COMPARED_BYTES`] before an offset of a file; `None` if the file is
/// shorter.
fn hash_of(file: &dyn StorageFile, end: u64) -> Option<u64> {
    let len = end.min(COMPARED_BYTES);
    let (mut hasher, mut read) = (Xxh3::new(), 0);
    read_through(file, end - len, len, &mut |bytes| {
        hasher.update(bytes);
        read += bytes.len() as u64;
    })
    .ok()?;
    (read == len).then(|| hasher.digest())
}

encoded_as!(
    [u64; 9],
    Covered,
    |covered| {
        let none = FileTimes {
            modified_ns: 0,
            changed_ns: 0,
        };
        let (len, times) = covered.untouched.unwrap_or((0, none));
        let has_hash = u64::from(covered.hash.is_some());
        [
            covered.name.pack(),
            covered.identity,
            covered.end,
            covered.last_seq,
            u64::from(covered.untouched.is_some()) | has_hash << 1,
            len,
            times.modified_ns.cast_unsigned(),
            times.changed_ns.cast_unsigned(),
            covered.hash.unwrap_or(0),
        ]
    },
    |[
        name,
        identity,
        end,
        last_seq,
        flags,
        len,
        modified,
        changed,
        hash,
    ]| {
        let times = FileTimes {
            modified_ns: modified.cast_signed(),
            changed_ns: changed.cast_signed(),
        };
        Some(Covered {
            name: SegmentName::unpack(name)?,
            identity,
            end,
            last_seq,
            untouched: (flags & 1 != 0).then_some((len, times)),
            hash: (flags & 2 != 0).then_some(hash),
        })
    }
);
