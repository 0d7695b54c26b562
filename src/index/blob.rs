//! The pieces of a saved index. Each is read when it is first used, and checked then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bytes::{Codec, In, fields};

/// Number of bytes of the checksum after each piece.
const HASH_BYTES: usize = 8;
/// A piece of at most this many bytes, with its checksum, is read without an allocation.
const SMALL_BYTES: usize = 1 << 10;
/// Maximum length of a piece, in bytes.
const BYTES_MAX: u32 = 1 << 28;

/// A file that pieces are read from.
pub(crate) trait BlobFile: Send + Sync {
    /// Fills the buffer. `false` if the file is too short or cannot be read.
    fn read(&self, buf: &mut [u8], offset: u64) -> bool;
}

/// Receives the bytes of a file that is being written, in order.
pub(crate) trait BlobSink {
    /// Returns `false` if the bytes cannot be written; what follows is then pointless.
    fn write(&mut self, bytes: &[u8]) -> bool;
}

/// The position of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blob {
    /// The highest bit is set if the piece is in the delta and not in the base.
    offset: u64,
    /// Its length in bytes, without the checksum.
    len: u32,
}

fields!(Blob, 12, offset len);

const IN_DELTA: u64 = 1 << 63;

impl Blob {
    /// A piece that was not written yet.
    pub(super) const NONE: Blob = Blob {
        offset: u64::MAX,
        len: 0,
    };

    /// The position of a piece of `len` bytes, `nth` places after this one, if this one and those
    /// between have `each` bytes.
    pub(super) fn following(self, nth: usize, each: usize, len: usize) -> Blob {
        let distance = (nth * (each + HASH_BYTES)) as u64;
        Blob {
            offset: self.offset.wrapping_add(distance),
            len: u32::try_from(len).unwrap_or(u32::MAX),
        }
    }

    fn is_in_delta(self) -> bool {
        self.offset & IN_DELTA != 0
    }
}

/// A file of a saved index. Checksums depend on its id, so that pieces of another file are not
/// taken for its own.
pub(crate) struct SavedFile {
    pub file: Box<dyn BlobFile>,
    pub id: u64,
}

/// The files that an index was loaded from.
pub(crate) struct Source {
    base: SavedFile,
    /// What changed since the base was written.
    delta: Option<SavedFile>,
    /// Segment numbers of lines must be less than this.
    segments: AtomicU32,
    is_broken: AtomicBool,
    loaded: AtomicUsize,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl Source {
    pub(crate) fn new(base: SavedFile, delta: Option<SavedFile>) -> Arc<Source> {
        Arc::new(Source {
            base,
            delta,
            segments: AtomicU32::new(0),
            is_broken: AtomicBool::new(false),
            loaded: AtomicUsize::new(0),
        })
    }

    /// Sets the number of segments. Until then, no line is valid.
    pub(crate) fn set_segments(&self, segments: u32) {
        self.segments.store(segments, Ordering::Release);
    }

    /// The id of the base.
    pub(crate) fn base_id(&self) -> u64 {
        self.base.id
    }

    /// Whether a piece could not be read, or was not valid. What the index answered since may be
    /// wrong.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    pub(super) fn note_broken(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    /// Number of bytes that were read and may be dropped again.
    pub(super) fn loaded(&self) -> usize {
        self.loaded.load(Ordering::Relaxed)
    }

    pub(super) fn note_dropped(&self) {
        self.loaded.store(0, Ordering::Relaxed);
    }

    /// The bytes of a piece. `None`, and the index is broken, if they are not as written.
    pub(crate) fn bytes(&self, blob: Blob) -> Option<Vec<u8>> {
        self.load(blob, |from| Some(std::mem::take(&mut from.bytes).to_vec()))
    }

    /// Calls `take` with the bytes of a piece.
    fn read<T>(&self, blob: Blob, take: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let file = if blob.is_in_delta() {
            self.delta.as_ref()?
        } else {
            &self.base
        };
        if blob.len > BYTES_MAX {
            return None;
        }
        let offset = blob.offset & !IN_DELTA;
        let len = blob.len as usize + HASH_BYTES;
        let (mut small, mut large) = ([0; SMALL_BYTES], Vec::new());
        let buf = if let Some(small) = small.get_mut(..len) {
            small
        } else {
            large.resize(len, 0);
            &mut large[..]
        };
        if !file.file.read(buf, offset) {
            return None;
        }
        let (bytes, hash) = buf.split_last_chunk()?;
        let is_right = *hash == hash_of(bytes, file.id, offset);
        // Tests alter pieces as if they had been written so.
        let is_believed = cfg!(any(test, fuzzing)) && file.id == 0;
        (is_right || is_believed).then(|| take(bytes))
    }

    /// Decodes a piece, all of it. `None`, and the index is broken, if it is not as written.
    pub(super) fn load<T>(
        &self,
        blob: Blob,
        decode: impl FnOnce(&mut In<'_>) -> Option<T>,
    ) -> Option<T> {
        let decoded = self.read(blob, |bytes| {
            self.loaded.fetch_add(bytes.len(), Ordering::Relaxed);
            let mut from = In {
                bytes,
                segments: self.segments.load(Ordering::Acquire),
            };
            decode(&mut from).filter(|_| from.bytes.is_empty())
        });
        let decoded = decoded.flatten();
        if decoded.is_none() {
            self.note_broken();
        }
        decoded
    }
}

fn hash_of(bytes: &[u8], file: u64, offset: u64) -> [u8; HASH_BYTES] {
    xxh3_64_with_seed(bytes, file ^ offset).to_le_bytes()
}

/// Writes pieces to a file.
pub(crate) struct Out<'a> {
    sink: &'a mut dyn BlobSink,
    id: u64,
    at: u64,
    is_delta: bool,
    is_failed: bool,
}

impl<'a> Out<'a> {
    /// `at`: the offset of the first piece. A delta has only pieces that are not in the base.
    pub(crate) fn new(sink: &'a mut dyn BlobSink, id: u64, at: u64, is_delta: bool) -> Out<'a> {
        Out {
            sink,
            id,
            at,
            is_delta,
            is_failed: false,
        }
    }

    /// Whether everything could be written.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_failed
    }

    pub(super) fn is_delta(&self) -> bool {
        self.is_delta
    }

    /// Whether a piece that did not change need not be written.
    pub(super) fn keeps(&self, blob: Blob) -> bool {
        self.is_delta && blob != Blob::NONE && !blob.is_in_delta()
    }

    /// Writes a piece.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Blob {
        let blob = Blob {
            offset: self.at | if self.is_delta { IN_DELTA } else { 0 },
            len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        };
        self.is_failed |= blob.len > BYTES_MAX;
        let hash = hash_of(bytes, self.id, self.at);
        if !self.is_failed {
            self.is_failed = !(self.sink.write(bytes) && self.sink.write(&hash));
        }
        self.at += (bytes.len() + HASH_BYTES) as u64;
        blob
    }

    /// Writes a piece that was read from the source.
    pub(super) fn copy(&mut self, source: Option<&Source>, blob: Blob) -> Blob {
        let copied = source.and_then(|source| source.read(blob, |bytes| self.put(bytes)));
        self.is_failed |= copied.is_none();
        copied.unwrap_or(Blob::NONE)
    }

    /// Writes items as one piece.
    pub(super) fn put_items<'i, T: Codec + 'i>(
        &mut self,
        items: impl IntoIterator<Item = &'i T>,
    ) -> Blob {
        self.put(&encoded(items))
    }
}

/// Items as the bytes of a piece.
pub(super) fn encoded<'i, T: Codec + 'i>(items: impl IntoIterator<Item = &'i T>) -> Vec<u8> {
    let mut bytes = Vec::new();
    items.into_iter().for_each(|item| item.encode(&mut bytes));
    bytes
}
