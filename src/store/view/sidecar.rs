//! The index sidecar: `cache/index`, and `cache/index.delta` with what changed since that was
//! written. With it, opening a store reads neither the segments that it covers nor all of the index:
//! each part of the index is read, and checked, when it is first used.
//!
//! It is used only for segments that are unchanged since it was written, and can be deleted at any
//! time.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::state::{Segment, State};
use crate::index::{
    Blob, BlobFile, BlobSink, Codec, In, Index, Out, SavedFile, Source, encoded_as,
};
use crate::record::Day;
use crate::segment::seal::read_through;
use crate::segment::{Found, SegmentName, Span, scan};
use crate::storage::{
    Access, FileStat, FileTimes, Storage, StorageFile, append_all, read_full, remove_if_there,
};
use crate::store::manifest;

const DIR: &str = "cache";
const BASE: &str = "cache/index";
const DELTA: &str = "cache/index.delta";
/// The first bytes of either file: its layout and the version of decklog that wrote it. Another
/// version's index may have other contents.
const MAGIC: &[u8] =
    concat!("decklog index 5, decklog ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
/// A file begins with `MAGIC`, the store's id and a random id of the file.
const HEADER_BYTES: usize = MAGIC.len() + 16 + 8;
/// It ends with the position of the root, the id of the base (of itself, if it is one), and the
/// hash of both and the header.
const TRAILER_BYTES: usize = 12 + 8 + 8;
/// A file changed less than this time ago may be changed again without a change of its times,
/// since the clocks of file systems are coarse.
const SETTLED_NS: i64 = 2_000_000_000;
/// The last segment of a day and kind is taken to be still growing if it was written to less than
/// this time ago. Its times do not distinguish appends from other changes.
const GROWING_NS: i64 = 86_400_000_000_000;
/// Of a segment that may grow, this many bytes before the covered end are compared.
const COMPARED_BYTES: u64 = 1 << 20;
/// A new base is written once an eighth of the log is not in the base.
const BASE_PART: u64 = 8;
/// Number of bytes that are written at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// The sidecar's entry for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Covered {
    name: SegmentName,
    identity: u64,
    /// Number of bytes that the index covers.
    end: u64,
    last_seq: u64,
    /// Length and times, if they suffice to detect later changes.
    untouched: Option<(u64, FileTimes)>,
    /// The hash of the last [`COMPARED_BYTES`] covered bytes, if computed.
    hash: Option<u64>,
}

/// The time in nanoseconds since 1970; 0 if the clock is set before that.
pub(in crate::store) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(0))
}

/// Whether a file that changed again after this time would have other times.
pub(super) fn is_settled(times: &FileTimes, at_ns: i64) -> bool {
    let changed_ns = times.modified_ns.max(times.changed_ns);
    changed_ns.saturating_add(SETTLED_NS) < at_ns
}

/// What a sidecar holds.
struct Sidecar {
    max_seq: u64,
    /// As [`State::commits`] and [`State::head_identity`].
    head: (u64, u64),
    /// As [`State::plain_days`].
    days: Vec<(Day, FileTimes)>,
    /// Number of bytes of the log that the base covers.
    in_base: u64,
    covered: Vec<Covered>,
    index: Index,
}

/// Opens the sidecar for an empty state. Returns `false` if there is no valid one.
pub(in crate::store) fn load(storage: &dyn Storage, store_id: Uuid, state: &mut State) -> bool {
    let Some(sidecar) = read(storage, store_id) else {
        return false;
    };
    let covered = sidecar.covered;
    let mut names = HashSet::new();
    if !covered.iter().all(|segment| names.insert(segment.name)) {
        return false;
    }
    let mut grown = Vec::new();
    for segment in &covered {
        let place = state.place(segment.name);
        grown.push((segment.last_seq, place));
        state.segments[place as usize] = Segment {
            end: segment.end,
            identity: segment.identity,
            last_seq: segment.last_seq,
            verified: segment.end,
            covered: (segment.identity != 0).then_some(*segment),
            ..Segment::unknown(segment.name)
        };
    }
    grown.retain(|(last_seq, _)| *last_seq > 0);
    state.note_grown(grown);
    state.index = sidecar.index;
    state.max_seq = sidecar.max_seq;
    (state.commits, state.head_identity) = sidecar.head;
    state.plain_days = sidecar.days.into_iter().collect();
    state.in_base = sidecar.in_base;
    state.covered = covered.iter().map(|segment| segment.end).sum();
    true
}

fn read(storage: &dyn Storage, store_id: Uuid) -> Option<Sidecar> {
    let base = SidecarFile::open(storage, store_id, BASE)?;
    let delta = SidecarFile::open(storage, store_id, DELTA);
    let delta = delta.filter(|delta| delta.base_id == base.saved.id);
    let (delta, root) = match delta {
        Some(delta) => (Some(delta.saved), delta.root),
        None => (None, base.root),
    };
    let source = Source::new(base.saved, delta);
    let bytes = source.bytes(root)?;
    let mut from = In {
        bytes: &bytes,
        segments: 0,
    };
    let (max_seq, in_base) = Codec::decode(&mut from)?;
    let head = Codec::decode(&mut from)?;
    let days: Vec<Listed> = Codec::decode(&mut from)?;
    let covered: Vec<Covered> = Codec::decode(&mut from)?;
    source.set_segments(u32::try_from(covered.len()).ok()?);
    let index = Index::open(&mut from, &source)?;
    from.bytes.is_empty().then_some(Sidecar {
        max_seq,
        head,
        days: days.into_iter().map(|listed| listed.0).collect(),
        in_base,
        covered,
        index,
    })
}

/// One of the two files.
struct SidecarFile {
    saved: SavedFile,
    base_id: u64,
    root: Blob,
}

impl SidecarFile {
    fn open(storage: &dyn Storage, store_id: Uuid, path: &str) -> Option<SidecarFile> {
        let file = storage.open(path, Access::Read).ok()?;
        let len = file.stat().ok()?.len;
        let mut bytes = [0; HEADER_BYTES + TRAILER_BYTES];
        let (header, trailer) = bytes.split_at_mut(HEADER_BYTES);
        let is_read = |buf: &mut [u8], offset| {
            read_full(&*file, buf, offset).is_ok_and(|read| read == buf.len())
        };
        let end = len.checked_sub(TRAILER_BYTES as u64)?;
        if !(is_read(header, 0) && is_read(trailer, end)) {
            return None;
        }
        let id = header
            .strip_prefix(MAGIC)?
            .strip_prefix(store_id.as_bytes())?;
        let id = u64::from_le_bytes(id.try_into().ok()?);
        let (rest, hash) = bytes.split_last_chunk::<8>()?;
        if xxh3_64(rest) != u64::from_le_bytes(*hash) {
            return None;
        }
        let mut from = In {
            bytes: &rest[HEADER_BYTES..],
            segments: 0,
        };
        let (root, base_id) = Codec::decode(&mut from)?;
        let file = Box::new(Opened(file));
        Some(SidecarFile {
            saved: SavedFile { file, id },
            base_id,
            root,
        })
    }
}

struct Opened(Arc<dyn StorageFile>);

impl BlobFile for Opened {
    fn read(&self, buf: &mut [u8], offset: u64) -> bool {
        read_full(&*self.0, buf, offset).is_ok_and(|read| read == buf.len())
    }
}

/// Appends to a file through a buffer.
struct Buffered<'a> {
    file: &'a dyn StorageFile,
    buffer: Vec<u8>,
}

impl BlobSink for Buffered<'_> {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.buffer.extend_from_slice(bytes);
        self.buffer.len() < BUFFER_BYTES || self.flush()
    }
}

impl Buffered<'_> {
    fn flush(&mut self) -> bool {
        let written = append_all(self.file, &self.buffer).is_ok();
        self.buffer.clear();
        written
    }
}

impl Covered {
    /// Whether the covered part of the file, which was just looked at, is unchanged.
    pub(in crate::store) fn is_as_covered(
        &self,
        storage: &dyn Storage,
        stat: &FileStat,
        times: Option<FileTimes>,
    ) -> bool {
        if stat.identity != self.identity || stat.len < self.end {
            return false;
        }
        if let Some((len, known)) = self.untouched
            && stat.len == len
            && times == Some(known)
        {
            return true;
        }
        // Of a large file, the end is compared. That is enough if it grew since, but not if it was
        // changed in place.
        let has_grown = self.untouched.is_none_or(|(len, _)| stat.len > len);
        if !has_grown && self.end > COMPARED_BYTES {
            return false;
        }
        let Ok(file) = storage.open(&self.name.path(), Access::Read) else {
            return false;
        };
        self.hash.is_some() && hash_of(&*file, self.end) == self.hash
    }
}

/// Writes the sidecar if the existing one leaves enough bytes uncovered: a delta, or a new base if
/// too much is not in the base. Errors are ignored: then the earlier sidecar remains, or none.
pub(in crate::store) fn save(
    storage: &dyn Storage,
    store_id: Uuid,
    state: &State,
    uncovered_min: u64,
) {
    let bytes: u64 = state.segments.iter().map(|segment| segment.end).sum();
    let uncovered = bytes.saturating_sub(state.covered);
    let not_in_base = bytes.saturating_sub(state.in_base);
    // Write no sidecar for a damaged store, since damage is found by reading the segments.
    let is_whole = state.is_sound() && state.damage_counts.total() == 0 && !state.index.is_broken();
    if !is_whole || uncovered < uncovered_min.max(not_in_base / BASE_PART) {
        return;
    }
    // Another store may have been moved to this path.
    let manifest = manifest::read(storage);
    if !manifest.is_ok_and(|found| found.is_some_and(|found| found.store_id == store_id)) {
        return;
    }
    let base = state.index.base_id();
    let base = base.filter(|_| state.in_base > 0 && not_in_base < bytes / BASE_PART);
    let base = base.filter(|id| {
        let found = SidecarFile::open(storage, store_id, BASE);
        found.is_some_and(|found| found.saved.id == *id)
    });
    let _ = storage.create_dir(DIR);
    let path = if base.is_some() { DELTA } else { BASE };
    let temporary = format!("{path}.tmp");
    let written = write(storage, store_id, state, base, &temporary);
    let replaced = written.and_then(|()| storage.rename(&temporary, path));
    if replaced.is_err() {
        // The temporary file would take up space, which may be what is missing.
        let _ = storage.remove_file(&temporary);
    } else if base.is_none() {
        let _ = remove_if_there(storage, DELTA);
    }
}

/// Writes the temporary file. It is not synced: what a power cut leaves of it has wrong hashes.
fn write(
    storage: &dyn Storage,
    store_id: Uuid,
    state: &State,
    base: Option<u64>,
    temporary: &str,
) -> io::Result<()> {
    let differs = || io::Error::other("the segments differ from the state");
    let mut covered = Vec::with_capacity(state.segments.len());
    for segment in &state.segments {
        covered.push(cover(storage, state, segment).ok_or_else(differs)?);
    }
    remove_if_there(storage, temporary)?;
    let file = storage.open(temporary, Access::Append)?;
    let id = Uuid::new_v4().as_u64_pair().0;
    let mut header = Vec::with_capacity(HEADER_BYTES + TRAILER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(store_id.as_bytes());
    id.encode(&mut header);
    let mut sink = Buffered {
        file: &*file,
        buffer: header.clone(),
    };
    let mut out = Out::new(&mut sink, id, HEADER_BYTES as u64, base.is_some());
    let bytes = covered.iter().map(|segment| segment.end).sum();
    let in_base = if base.is_some() { state.in_base } else { bytes };
    let mut root = Vec::new();
    (state.max_seq, in_base).encode(&mut root);
    (state.commits, state.head_identity).encode(&mut root);
    let days = state.plain_days.iter();
    let days: Vec<Listed> = days.map(|(day, times)| Listed((*day, *times))).collect();
    days.encode(&mut root);
    covered.encode(&mut root);
    state.index.dump(&mut out, &mut root);
    let root = out.put(&root);
    let is_whole = out.is_whole() && !state.index.is_broken();
    sink.buffer
        .extend(trailer(header, root, base.unwrap_or(id)));
    if sink.flush() && is_whole {
        Ok(())
    } else {
        Err(io::Error::other("the index cannot be written"))
    }
}

fn trailer(header: Vec<u8>, root: Blob, base_id: u64) -> Vec<u8> {
    let mut bytes = header;
    (root, base_id).encode(&mut bytes);
    xxh3_64(&bytes).encode(&mut bytes);
    bytes.split_off(HEADER_BYTES)
}

/// A sidecar with valid framing whose root and pieces are arbitrary.
#[cfg(any(test, fuzzing))]
pub(crate) fn sealed(store_id: Uuid, body: &[u8]) -> Vec<u8> {
    struct ToVec<'a>(&'a mut Vec<u8>);
    impl BlobSink for ToVec<'_> {
        fn write(&mut self, bytes: &[u8]) -> bool {
            self.0.extend_from_slice(bytes);
            true
        }
    }
    let header = [MAGIC, store_id.as_bytes(), &[0; 8]].concat();
    let mut file = header.clone();
    let mut sink = ToVec(&mut file);
    let root = Out::new(&mut sink, 0, HEADER_BYTES as u64, false).put(body);
    file.extend(trailer(header, root, 0));
    file
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
    // The file changed after it was read, perhaps only by appends. Read it again, since the next
    // open would not report damage in the part that the sidecar covers. The clock alone is not
    // enough: it may have been set back.
    let is_as_read = times.is_some_and(|times| {
        segment.read_times == Some(times) && is_settled(&times, state.read_ns)
    });
    let is_as_read = is_as_read && segment.verified == segment.end;
    if !is_as_read && !is_intact(storage, segment) {
        return None;
    }
    let is_expected = stat.len == segment.expected_len();
    let untouched = times.filter(|times| is_expected && is_settled(times, now_ns));
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

/// A day directory and its times.
struct Listed((Day, FileTimes));

encoded_as!(
    [i64; 3],
    Listed,
    |Listed((day, times))| [day.bounds_ms().0, times.modified_ns, times.changed_ns],
    |[start_ms, modified_ns, changed_ns]| {
        let times = FileTimes {
            modified_ns,
            changed_ns,
        };
        Some(Listed((Day::of(start_ms).ok()?, times)))
    }
);

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
