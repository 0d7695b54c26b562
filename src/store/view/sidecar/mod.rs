//! The index sidecar: `cache/index`, and `cache/index.delta` with what changed since that was
//! written. With it, opening a store reads neither the segments that it covers nor all of the index:
//! each part of the index is read, and checked, when it is first used.
//!
//! It is used only for segments that are unchanged since it was written, and can be deleted at any
//! time.

mod covered;

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

pub(in crate::store) use self::covered::Covered;
use self::covered::cover_all;
use super::state::{Segment, State};
use crate::index::{
    Blob, BlobFile, BlobSink, Codec, In, Index, Out, SavedFile, Source, encoded_as,
};
use crate::record::Day;
use crate::storage::{
    Access, FileTimes, Storage, StorageFile, append_all, read_full, remove_if_there,
};
use crate::store::manifest;

const DIR: &str = "cache";
const BASE: &str = "cache/index";
const DELTA: &str = "cache/index.delta";
/// The first bytes of either file: its layout and the version of decklog that wrote it. Another
/// version's index may have other contents.
const MAGIC: &[u8] =
    concat!("decklog index 9, decklog ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
/// A file begins with `MAGIC`, the store's id and a random id of the file.
const HEADER_BYTES: usize = MAGIC.len() + 16 + 8;
/// It ends with the position of the root, the id of the base (of itself, if it is one), and the
/// hash of both and the header.
const TRAILER_BYTES: usize = 12 + 8 + 8;
/// A new base is written once an eighth of the log is not in the base.
const BASE_PART: u64 = 8;
/// A delta is written once what is not covered is this part of what is not in the base.
const DELTA_PART: u64 = 256;
/// To list a directory takes as long as to compare this many bytes.
const LISTED_BYTES: u64 = 64 << 10;
/// Number of bytes that are written at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// The time in nanoseconds since 1970; 0 if the clock is set before that.
pub(in crate::store) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(0))
}

/// What a sidecar holds.
struct Sidecar {
    max_seq: u64,
    /// As [`State::commits`] and [`State::head_identity`].
    head: (u64, u64),
    mount_id: Option<u64>,
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
    let mut grown = Vec::with_capacity(covered.len());
    state.segments.reserve_exact(covered.len());
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
    if state.segments.len() != covered.len() {
        // A segment occurs twice.
        *state = State::new(state.hasher());
        return false;
    }
    grown.retain(|(last_seq, _)| *last_seq > 0);
    state.note_grown(grown);
    state.index = sidecar.index;
    state.max_seq = sidecar.max_seq;
    (state.commits, state.head_identity) = sidecar.head;
    state.mount_id = sidecar.mount_id;
    state.plain_days = sidecar.days.into_iter().collect();
    state.covered_days.clone_from(&state.plain_days);
    state.in_base = sidecar.in_base;
    let ends = covered.iter().map(|segment| segment.end);
    state.covered = ends.fold(0, u64::saturating_add);
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
    let mount_id = Codec::decode(&mut from)?;
    let days: Vec<Listed> = Codec::decode(&mut from)?;
    let covered: Vec<Covered> = Codec::decode(&mut from)?;
    source.set_segments(u32::try_from(covered.len()).ok()?);
    let index = Index::open(&mut from, &source)?;
    from.bytes.is_empty().then_some(Sidecar {
        max_seq,
        head,
        mount_id,
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

/// Writes the sidecar if the existing one leaves enough bytes uncovered, or to be compared: a delta,
/// or a new base if too much is not in the base. Errors are ignored: then the earlier sidecar
/// remains, or none.
pub(in crate::store) fn save(
    storage: &dyn Storage,
    store_id: Uuid,
    state: &State,
    uncovered_min: u64,
) {
    let bytes: u64 = state.segments.iter().map(|segment| segment.end).sum();
    let compared: u64 = state.segments.iter().map(|segment| segment.compared).sum();
    let listed = state.plain_days.iter();
    let listed = listed.filter(|(day, times)| state.covered_days.get(day) != Some(times));
    let compared = compared.saturating_add(listed.count() as u64 * LISTED_BYTES);
    let uncovered = bytes.saturating_sub(state.covered).saturating_add(compared);
    let not_in_base = bytes.saturating_sub(state.in_base);
    // Write no sidecar for a damaged store, since damage is found by reading the segments.
    let is_whole = state.is_sound() && state.damage_counts.total() == 0;
    if !is_whole || uncovered < uncovered_min.max(not_in_base / DELTA_PART) {
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
    let covered = cover_all(storage, state).ok_or_else(differs)?;
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
    storage.mount_id().encode(&mut root);
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
