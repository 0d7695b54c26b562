//! The files of a store at one moment, to copy them.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::record::Day;
use crate::segment::SegmentName;
use crate::segment::seal::Seal;
use crate::storage::{Access, Storage, StorageFile, if_there, io_error, read_all, read_full};
use crate::store::health::QUARANTINE;
use crate::store::maintain::removals;
use crate::store::{Inner, MANIFEST, SealLog, Store};

/// The files of a store at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub store_id: Uuid,
    /// The greatest sequence number of the log.
    pub last_seq: u64,
    /// In the order of their names.
    pub segments: Vec<PointSegment>,
    /// The number of the last seal, 0 if there is none.
    pub last_seal: u64,
    /// The number of each day's last seal, also if its segment was removed.
    pub last_seals: BTreeMap<Day, u64>,
    /// The store's other files, by their path: `decklog.json` and `removals.jsonl` and, if asked
    /// for, `access.json` and the files of `quarantine/`.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// A segment at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PointSegment {
    pub name: SegmentName,
    /// The offset after its last line. For a sealed segment, its length.
    pub bytes: u64,
    pub identity: u64,
    /// Its seal, unless it is not sealed.
    pub seal: Option<Seal>,
}

impl Store {
    /// The files at one moment: all lines up to a sequence number, and no line after it.
    ///
    /// The seals are read before the segments, so each segment that they name exists, unless it was
    /// removed in between. A caller that copies the files checks afterwards that none was rewritten:
    /// [`Point::has_all_of`].
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io), [`Damaged`](crate::ErrorKind::Damaged) if a file cannot be
    /// read.
    pub(crate) fn point(&self, has_all_files: bool) -> Result<Point> {
        let inner = self.inner();
        let mut log = inner.seals();
        log.refresh(inner.storage())?;
        let mut files = BTreeMap::new();
        for path in inner.small_files(has_all_files)? {
            let bytes = inner.small_file(&path)?;
            if !bytes.is_empty() {
                files.insert(path, bytes);
            }
        }
        let view = inner.snapshot()?;
        let segments = view.state.present_in_order();
        let segments = segments.map(|(_, segment)| {
            let seal = seal_of(&log, segment.name, segment.expected_len());
            PointSegment {
                name: segment.name,
                bytes: seal.map_or(segment.end, |seal| seal.bytes),
                identity: segment.identity,
                seal: seal.cloned(),
            }
        });
        let segments = segments.filter(|segment| segment.bytes > 0).collect();
        let last_seq = view.last_seq();
        drop(view);
        let mut last_seals = BTreeMap::new();
        for name in log.segments() {
            if let Some(seal) = log.seals_of(name).next() {
                let last = last_seals.entry(name.day).or_insert(0);
                *last = seal.seal.max(*last);
            }
        }
        Ok(Point {
            store_id: inner.store_id,
            last_seq,
            segments,
            last_seal: log.last().map_or(0, |seal| seal.seal),
            last_seals,
            files,
        })
    }

    /// A day's `seals.jsonl`, as it is. Empty if there is none.
    pub(crate) fn seals_of_day(&self, day: Day) -> Result<Vec<u8>> {
        self.inner().small_file(&format!("{day}/{}", SealLog::FILE))
    }
}

impl Point {
    /// Whether nothing of an earlier point was removed or rewritten since: its segments are still
    /// these files, and no removal was recorded.
    pub(crate) fn has_all_of(&self, earlier: &Point) -> bool {
        let is_there = |old: &PointSegment| {
            let place = self
                .segments
                .binary_search_by_key(&old.name, |segment| segment.name);
            place.is_ok_and(|place| self.segments[place].identity == old.identity)
        };
        self.files.get(removals::NAME) == earlier.files.get(removals::NAME)
            && earlier.segments.iter().all(is_there)
    }
}

/// Number of bytes before an offset that [`PointSegment::tail_crc`] is of.
const TAIL_BYTES: u64 = 64;

impl PointSegment {
    /// Opens the file that the segment was at the point.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if it was rewritten or removed since: take a new point;
    /// [`Io`](ErrorKind::Io).
    pub(crate) fn open(&self, storage: &dyn Storage) -> Result<Arc<dyn StorageFile>> {
        let path = self.name.path();
        let io = |e| io_error(storage, "read the segment", &path, e);
        let file = if_there(storage.open(&path, Access::Read)).map_err(io)?;
        if let Some(file) = file
            && file.stat().map_err(io)?.identity == self.identity
        {
            return Ok(file);
        }
        Err(self.rewritten())
    }

    /// The error of a segment that is not as it was at the point.
    pub(crate) fn rewritten(&self) -> Error {
        let message = format!("{} was rewritten while it was copied: try again", self.name);
        Error::new(ErrorKind::Conflict, message)
    }

    /// CRC-32 of the last 64 bytes before an offset, or of all if there are fewer. It shows whether
    /// a segment that is still appended to was rewritten.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn tail_crc(&self, storage: &dyn Storage, to: u64) -> Result<u32> {
        let file = self.open(storage)?;
        let len = to.min(TAIL_BYTES);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let read = read_full(&*file, &mut bytes, to - len);
        let io = |e| io_error(storage, "read the segment", &self.name.path(), e);
        Ok(crc32fast::hash(&bytes[..read.map_err(io)?]))
    }
}

/// The seal that a segment of this length matches: the current one or, after an interrupted rewrite,
/// an earlier one.
fn seal_of(log: &SealLog, name: SegmentName, len: u64) -> Option<&Seal> {
    let mut seals = log.last_and_earlier(name);
    seals.find(|seal| seal.bytes == len)
}

impl Inner {
    /// The paths of files that hold no records in use.
    fn small_files(&self, has_all: bool) -> Result<Vec<String>> {
        let mut paths = vec![MANIFEST.to_owned(), removals::NAME.to_owned()];
        if has_all {
            paths.push("access.json".to_owned());
            let listed = if_there(self.storage().read_dir(QUARANTINE));
            let listed = listed.map_err(|e| io_error(self.storage(), "list", QUARANTINE, e))?;
            let files = listed.into_iter().flatten().filter(|entry| entry.is_file);
            paths.extend(files.map(|entry| format!("{QUARANTINE}/{}", entry.name)));
        }
        Ok(paths)
    }

    /// The bytes of a file that holds no records; none if it does not exist.
    fn small_file(&self, path: &str) -> Result<Vec<u8>> {
        let storage = self.storage();
        let bytes = storage
            .open(path, Access::Read)
            .and_then(|file| read_all(&*file));
        let bytes = if_there(bytes).map_err(|e| io_error(storage, "read", path, e))?;
        Ok(bytes.unwrap_or_default())
    }
}
