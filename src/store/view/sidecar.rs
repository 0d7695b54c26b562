//! The index sidecar, `cache/index`. It spares an open the reading of the segments that it covers.
//!
//! It is used only for segments that are unchanged since it was written, and can be deleted at any
//! time.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::state::{Segment, State};
use crate::index::Index;
use crate::line::LINE_BYTES_MAX;
use crate::segment::{Found, SegmentName, scan};
use crate::storage::{Access, FileTimes, Storage, StorageFile, read_full, replace_file};
use crate::store::manifest;

const DIR: &str = "cache";
const PATH: &str = "cache/index";
/// The bytes that the file begins with: its layout and the version that wrote it. The index of
/// another version may keep other things.
const MAGIC: &[u8] =
    concat!("decklog index 4, decklog ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
/// A file whose times are younger than this when they are noted may be changed once more and keep
/// them: clocks of file systems are coarse.
const SETTLED_NS: i64 = 2_000_000_000;
/// The last segment of a day and kind that was written to this lately may grow, which its times
/// do not tell from other changes.
const GROWING_NS: i64 = 86_400_000_000_000;
/// A longer one is none of ours.
const BYTES_MAX: usize = 1 << 36;
/// What one core reads and hashes at a time.
const CHUNK_BYTES: usize = 4 << 20;
const HASHED_AT_ONCE: usize = 256 << 10;

/// What the sidecar says of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Covered {
    name: SegmentName,
    identity: u64,
    /// How much of it the index covers.
    end: u64,
    last_seq: u64,
    /// Its length and times, if they tell that it was not touched since.
    untouched: Option<(u64, FileTimes)>,
    /// The hash of what is covered, if it was taken.
    hash: Option<u64>,
}

/// The time in nanoseconds since 1970; 0 where the clock says less.
pub(in crate::store) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(0))
}

/// Puts what the sidecar covers into a state that knows nothing yet; `false` if there is none
/// that can be believed.
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
    let mut names: Vec<SegmentName> = covered.iter().map(|segment| segment.name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
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
    let mut rest = Words(body.strip_prefix(store_id.as_bytes())?);
    let max_seq = rest.next()?;
    let count = usize::try_from(rest.next()?).ok()?;
    if count > rest.0.len() / Covered::BYTES {
        return None;
    }
    let covered: Option<Vec<Covered>> = (0..count).map(|_| Covered::take(&mut rest)).collect();
    let index = Index::load(rest.0, u32::try_from(count).ok()?)?;
    Some((covered?, max_seq, index))
}

/// Fills the room with a file's first bytes, on every core; their hash. `None` if there are not so
/// many, or they cannot be read.
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
    let is_read = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(read)).collect();
        let is_read = read();
        others
            .into_iter()
            .all(|thread| thread.join().unwrap_or(false))
            && is_read
    });
    is_read.then(|| hash_of_hashes(&hashes))
}

fn hash_of_hashes(hashes: &[u64]) -> u64 {
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

/// The times of a segment of which the part that the sidecar covers is as it was; `None` if it is
/// not.
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

/// Writes the sidecar if the one that there is leaves so many bytes uncovered that opening the
/// store would gain by it. A failure changes nothing: there is the one before, or none.
pub(in crate::store) fn save(
    storage: &dyn Storage,
    store_id: Uuid,
    state: &State,
    uncovered_min: u64,
) {
    let bytes: u64 = state.segments.iter().map(|segment| segment.end).sum();
    let uncovered = bytes.saturating_sub(state.covered);
    // Damage is reported by who reads it.
    let is_whole = state.is_sound() && state.damage_counts.total() == 0;
    if !is_whole || uncovered < uncovered_min.max(bytes / 8) {
        return;
    }
    // Another store may have been put under this path.
    let is_its_own = || {
        let manifest = manifest::read(storage);
        manifest.is_ok_and(|found| found.is_some_and(|found| found.store_id == store_id))
    };
    if !is_its_own() {
        return;
    }
    let _ = storage.create_dir(DIR);
    if let Some(sidecar) = write(storage, store_id, state) {
        let _ = replace_file(storage, PATH, &sidecar);
    }
}

fn write(storage: &dyn Storage, store_id: Uuid, state: &State) -> Option<Vec<u8>> {
    let now_ns = now_ns();
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(store_id.as_bytes());
    out.extend_from_slice(&state.max_seq.to_le_bytes());
    out.extend_from_slice(&(state.segments.len() as u64).to_le_bytes());
    for segment in &state.segments {
        let SegmentName { day, kind, .. } = segment.name;
        let may_grow = state
            .active(day, kind)
            .map(|place| &state.segments[place as usize]);
        let may_grow = may_grow.is_some_and(|active| active.name == segment.name);
        let clock = Clock {
            read_ns: state.read_ns,
            now_ns,
        };
        cover(storage, segment, may_grow, clock)?.put(&mut out);
    }
    state.index.dump(&mut out).ok()?;
    let hashes: Vec<u64> = out.chunks(CHUNK_BYTES).map(xxh3_64).collect();
    out.extend_from_slice(&hash_of_hashes(&hashes).to_le_bytes());
    Some(out)
}

/// A sidecar of a store that is whole for all that its frame tells, with any bytes in it.
#[cfg(any(test, fuzzing))]
pub(crate) fn sealed(store_id: Uuid, body: &[u8]) -> Vec<u8> {
    let mut out = [MAGIC, store_id.as_bytes(), body].concat();
    let hashes: Vec<u64> = out.chunks(CHUNK_BYTES).map(xxh3_64).collect();
    out.extend_from_slice(&hash_of_hashes(&hashes).to_le_bytes());
    out
}

/// `None` if the segment is not what the state knows.
fn cover(
    storage: &dyn Storage,
    segment: &Segment,
    may_grow: bool,
    Clock { read_ns, now_ns }: Clock,
) -> Option<Covered> {
    if segment.identity == 0 {
        // It is gone, but keeps its place.
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
    let is_settled = |times: &FileTimes| {
        times
            .modified_ns
            .max(times.changed_ns)
            .saturating_add(SETTLED_NS)
            < now_ns
    };
    // Changed since it was read, by appends for all that is known: looked at again, for what is
    // sealed in now is not reported by the next open. The clock alone does not tell: it may have
    // been set back meanwhile.
    let is_as_read = times.is_some_and(|times| {
        let changed_ns = times.modified_ns.max(times.changed_ns);
        segment.read_times == Some(times) && changed_ns.saturating_add(SETTLED_NS) < read_ns
    });
    if !is_as_read && !is_intact(storage, segment) {
        return None;
    }
    let untouched = times.filter(|times| stat.len == segment.expected_len() && is_settled(times));
    let age_ns = times.map_or(0, |times| now_ns.saturating_sub(times.modified_ns));
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

/// Whether all lines that are covered are as decklog writes them, up to the last one known.
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
    let scanned = scan(&*file, kind, 0, segment.end, LINE_BYTES_MAX, &mut look);
    let is_whole =
        scanned.is_ok_and(|scanned| scanned.end == segment.end && scanned.tail.is_none());
    is_whole && is_intact && last_seq == segment.last_seq
}

/// When the segments were read, before the first of them, and what time it is.
#[derive(Debug, Clone, Copy)]
struct Clock {
    read_ns: i64,
    now_ns: i64,
}

/// The hash of a file's first bytes; `None` if it is shorter.
fn hash_of(file: &dyn StorageFile, len: u64) -> Option<u64> {
    let mut hasher = Xxh3::new();
    let mut room = vec![0; HASHED_AT_ONCE];
    let mut offset = 0;
    while offset < len {
        let wanted =
            usize::try_from(len - offset).map_or(HASHED_AT_ONCE, |left| left.min(HASHED_AT_ONCE));
        let read = read_full(file, &mut room[..wanted], offset).ok()?;
        if read < wanted {
            return None;
        }
        hasher.update(&room[..read]);
        offset += read as u64;
    }
    Some(hasher.digest())
}

impl Covered {
    const WORDS: usize = 9;
    const BYTES: usize = Covered::WORDS * size_of::<u64>();

    fn put(&self, out: &mut Vec<u8>) {
        let none = FileTimes {
            modified_ns: 0,
            changed_ns: 0,
        };
        let (len, times) = self.untouched.unwrap_or((0, none));
        let flags = u64::from(self.untouched.is_some()) | u64::from(self.hash.is_some()) << 1;
        let words: [u64; Covered::WORDS] = [
            self.name.pack(),
            self.identity,
            self.end,
            self.last_seq,
            flags,
            len,
            times.modified_ns.cast_unsigned(),
            times.changed_ns.cast_unsigned(),
            self.hash.unwrap_or(0),
        ];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn take(words: &mut Words<'_>) -> Option<Covered> {
        let name = SegmentName::unpack(words.next()?)?;
        let [identity, end, last_seq, flags, len] = words.several()?;
        let [modified, changed, hash] = words.several()?;
        let times = FileTimes {
            modified_ns: modified.cast_signed(),
            changed_ns: changed.cast_signed(),
        };
        Some(Covered {
            name,
            identity,
            end,
            last_seq,
            untouched: (flags & 1 != 0).then_some((len, times)),
            hash: (flags & 2 != 0).then_some(hash),
        })
    }
}

/// Little-endian words, taken one after another.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn several<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.next()?;
        }
        Some(words)
    }
}
