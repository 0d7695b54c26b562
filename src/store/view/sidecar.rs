//! The index sidecar, `cache/index`. With it, opening a store need not read the segments that it
//! covers.
//!
//! It is used only for segments that are unchanged since it was written, and can be deleted at any
//! time.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::state::{Segment, State};
use crate::index::{Codec, In, Index, encoded_as, run_all};
use crate::segment::seal::read_through;
use crate::segment::{Found, SegmentName, Span, scan};
use crate::storage::{Access, FileTimes, Storage, StorageFile, read_full, replace_file};
use crate::store::manifest;

const DIR: &str = "cache";
const PATH: &str = "cache/index";
/// The first bytes of the file: its layout and the version of decklog that wrote it. Another
/// version's index may have other contents.
const MAGIC: &[u8] =
    concat!("decklog index 4, decklog ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
/// A file changed less than this time ago may be changed again without a change of its times,
/// since the clocks of file systems are coarse.
const SETTLED_NS: i64 = 2_000_000_000;
/// The last segment of a day and kind is taken to be still growing if it was written to less than
/// this time ago. Its times do not distinguish appends from other changes.
const GROWING_NS: i64 = 86_400_000_000_000;
/// Maximum size of the sidecar. A longer file is not one.
const BYTES_MAX: usize = 1 << 36;
/// Number of bytes that one thread reads and hashes at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// The sidecar's entry for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Covered {
    name: SegmentName,
    identity: u64,
    /// Number of bytes that the index covers.
    end: u64,
    last_seq: u64,
    /// Length and times, if they suffice to detect later changes.
    untouched: Option<(u64, FileTimes)>,
    /// The hash of the covered bytes, if computed.
    hash: Option<u64>,
}

/// The time in nanoseconds since 1970; 0 if the clock is set before that.
pub(in crate::store) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(0))
}

/// Loads the sidecar into an empty state. Returns `false` if there is no valid one.
pub(in crate::store) fn load(storage: &dyn Storage, store_id: Uuid, state: &mut State) -> bool {
    let Some((covered, max_seq, index)) = read(storage, store_id) else {
        return false;
    };
    let times = covered
        .iter()
        .map(|segment| times_as_covered(storage, segment));
    let Some(times) = times.collect::<Option<Vec<_>>>() else {
        return false;
    };
    let mut names = HashSet::new();
    if !covered.iter().all(|segment| names.insert(segment.name)) {
        return false;
    }
    let mut grown = Vec::new();
    for (segment, read_times) in covered.iter().zip(times) {
        let place = state.place(segment.name);
        grown.push((segment.last_seq, place));
        state.segments[place as usize] = Segment {
            end: segment.end,
            identity: segment.identity,
            last_seq: segment.last_seq,
            read_times,
            ..Segment::unknown(segment.name)
        };
    }
    grown.retain(|(last_seq, _)| *last_seq > 0);
    state.note_grown(grown);
    state.index = index;
    state.max_seq = max_seq;
    state.covered = covered.iter().map(|segment| segment.end).sum();
    true
}

fn read(storage: &dyn Storage, store_id: Uuid) -> Option<(Vec<Covered>, u64, Index)> {
    let file = storage.open(PATH, Access::Read).ok()?;
    let len = usize::try_from(file.stat().ok()?.len).ok()?;
    let mut start = [0; MAGIC.len()];
    read_full(&*file, &mut start, 0).ok()?;
    if start != MAGIC || len > BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; len];
    let (body, hash) = bytes.split_last_chunk_mut::<8>()?;
    read_full(&*file, hash, body.len() as u64).ok()?;
    if read_hashed(&*file, body)? != u64::from_le_bytes(*hash) {
        return None;
    }
    let body = body.strip_prefix(MAGIC)?;
    let bytes = body.strip_prefix(store_id.as_bytes())?;
    let mut from = In { bytes, segments: 0 };
    let (max_seq, covered) = <(u64, Vec<Covered>)>::decode(&mut from)?;
    let index = Index::load(from.bytes, u32::try_from(covered.len()).ok()?)?;
    Some((covered, max_seq, index))
}

/// Fills the buffer with the file's first bytes, on all cores, and returns their hash. `None` if
/// the file is too short or cannot be read.
fn read_hashed(file: &dyn StorageFile, room: &mut [u8]) -> Option<u64> {
    let mut hashes = vec![0; room.len().div_ceil(CHUNK_BYTES)];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(hashes.len());
    let chunks = room.chunks_mut(CHUNK_BYTES).zip(&mut hashes).enumerate();
    let chunks = Mutex::new(chunks);
    let read = || loop {
        let next = chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some((place, (chunk, hash))) = next else {
            return true;
        };
        let offset = (place * CHUNK_BYTES) as u64;
        if !read_full(file, chunk, offset).is_ok_and(|read| read == chunk.len()) {
            return false;
        }
        *hash = xxh3_64(chunk);
    };
    let are_read = run_all(threads > 1, (0..threads).map(|_| &read));
    are_read
        .into_iter()
        .all(|is_read| is_read)
        .then(|| hash_of_hashes(&hashes))
}

fn hash_of_hashes(hashes: &[u64]) -> u64 {
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

/// The times of a segment whose covered part is unchanged; `None` if it changed.
#[allow(clippy::option_option)]
fn times_as_covered(storage: &dyn Storage, covered: &Covered) -> Option<Option<FileTimes>> {
    if covered.identity == 0 {
        return Some(None);
    }
    let path = covered.name.path();
    let stat = storage.stat(&path).ok()?;
    if stat.identity != covered.identity || stat.len < covered.end {
        return None;
    }
    let now = storage.times(&path).ok()?;
    if let Some((len, times)) = covered.untouched
        && stat.len == len
        && now == Some(times)
    {
        return Some(now);
    }
    let hash = covered.hash?;
    let file = storage.open(&path, Access::Read).ok()?;
    (hash_of(&*file, covered.end)? == hash).then_some(now)
}

/// Writes the sidecar if the existing one leaves enough bytes uncovered. Errors are ignored: then
/// the earlier sidecar remains, or none.
pub(in crate::store) fn save(
    storage: &dyn Storage,
    store_id: Uuid,
    state: &State,
    uncovered_min: u64,
) {
    let bytes: u64 = state.segments.iter().map(|segment| segment.end).sum();
    let uncovered = bytes.saturating_sub(state.covered);
    // Write no sidecar for a damaged store, since damage is found by reading the segments.
    let is_whole = state.is_sound() && state.damage_counts.total() == 0;
    if !is_whole || uncovered < uncovered_min.max(bytes / 8) {
        return;
    }
    // Another store may have been moved to this path.
    let manifest = manifest::read(storage);
    if !manifest.is_ok_and(|found| found.is_some_and(|found| found.store_id == store_id)) {
        return;
    }
    let _ = storage.create_dir(DIR);
    if let Some(sidecar) = write(storage, store_id, state) {
        let _ = replace_file(storage, PATH, &sidecar);
    }
}

fn write(storage: &dyn Storage, store_id: Uuid, state: &State) -> Option<Vec<u8>> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(store_id.as_bytes());
    let mut covered = Vec::with_capacity(state.segments.len());
    for segment in &state.segments {
        covered.push(cover(storage, state, segment)?);
    }
    (state.max_seq, covered).encode(&mut out);
    state.index.dump(&mut out);
    Some(with_hash(out))
}

/// Adds the hash of all bytes, as [`read_hashed`] computes it.
fn with_hash(mut bytes: Vec<u8>) -> Vec<u8> {
    let hashes: Vec<u64> = bytes.chunks(CHUNK_BYTES).map(xxh3_64).collect();
    hash_of_hashes(&hashes).encode(&mut bytes);
    bytes
}

/// A sidecar with valid framing and an arbitrary body.
#[cfg(any(test, fuzzing))]
pub(crate) fn sealed(store_id: Uuid, body: &[u8]) -> Vec<u8> {
    with_hash([MAGIC, store_id.as_bytes(), body].concat())
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
    let times = storage.times(&path).ok()?;
    let stat = storage.stat(&path).ok()?;
    if stat.identity != segment.identity || stat.len < segment.end {
        return None;
    }
    let was_settled = |times: &FileTimes, at_ns: i64| {
        let changed_ns = times.modified_ns.max(times.changed_ns);
        changed_ns.saturating_add(SETTLED_NS) < at_ns
    };
    // The file changed after it was read, perhaps only by appends. Read it again, since the next
    // open would not report damage in the part that the sidecar covers. The clock alone is not
    // enough: it may have been set back.
    let is_as_read = times.is_some_and(|times| {
        segment.read_times == Some(times) && was_settled(&times, state.read_ns)
    });
    if !is_as_read && !is_intact(storage, segment) {
        return None;
    }
    let is_expected = stat.len == segment.expected_len();
    let untouched = times.filter(|times| is_expected && was_settled(times, now_ns));
    let age_ns = times.map_or(0, |times| now_ns.saturating_sub(times.modified_ns));
    let SegmentName { day, kind, .. } = segment.name;
    let active = state.active(day, kind);
    let may_grow = active.is_some_and(|place| state.segments[place as usize].name == segment.name);
    let hash = if untouched.is_none() || may_grow && age_ns < GROWING_NS {
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

/// Whether all covered lines are intact, and the last one has the known sequence number.
fn is_intact(storage: &dyn Storage, segment: &Segment) -> bool {
    let SegmentName { kind, .. } = segment.name;
    let Ok(file) = storage.open(&segment.name.path(), Access::Read) else {
        return false;
    };
    let (mut is_intact, mut last_seq) = (true, 0);
    let mut look = |found: Found<'_>| {
        is_intact &= found.report().is_none();
        found.facts(kind, &mut |fact| last_seq = fact.envelope.seq);
    };
    let span = Span {
        until: segment.end,
        ..Span::ALL
    };
    let scanned = scan(&*file, kind, span, &mut look);
    let is_whole =
        scanned.is_ok_and(|scanned| scanned.end == segment.end && scanned.tail.is_none());
    is_whole && is_intact && last_seq == segment.last_seq
}

/// The hash of a file's first bytes; `None` if the file is shorter.
fn hash_of(file: &dyn StorageFile, len: u64) -> Option<u64> {
    let (mut hasher, mut read) = (Xxh3::new(), 0);
    read_through(file, 0, len, &mut |bytes| {
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
