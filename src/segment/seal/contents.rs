//! The contents of a segment as counts and hashes.

use std::io;

use sha2::Digest as _;
use sha2::Sha256;

use super::Digest;
use super::merkle::{Tree, begun_leaf};
use crate::segment::SegmentName;
use crate::segment::audit::Audit;
use crate::segment::scan::{Found, Report, Scanned, Span, Stretch, scan_stretches};
use crate::storage::{Access, Storage, StorageFile, read_full};

const CHUNK_BYTES: usize = 256 << 10;

/// The contents of a segment, as its seal describes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contents {
    pub bytes: u64,
    /// Lines that end with LF, of any kind.
    pub lines: u64,
    /// Lines that differ from what decklog wrote there.
    pub damaged: u64,
    /// The smallest sequence number of a good line, or 0.
    pub first_seq: u64,
    /// The greatest sequence number of a good line, or 0.
    pub last_seq: u64,
    pub sha256: Digest,
    pub merkle_root: Digest,
}

/// The result of reading a segment to seal it, or a sealed one.
#[derive(Debug)]
pub(crate) struct Reading {
    pub contents: Contents,
    pub scanned: Scanned,
    /// Lines of a day other than the segment's.
    pub misplaced: Option<Report>,
}

impl Contents {
    /// Reads a segment in bounded memory. Bytes after its last LF are not a line but count as
    /// damage. The name is needed to tell whether a line is as decklog wrote it.
    pub(crate) fn of(file: &dyn StorageFile, name: SegmentName) -> io::Result<Contents> {
        let read = Contents::read(file, name, &mut |_, _| ());
        read.map(|read| read.contents)
    }

    /// As [`of`](Contents::of). Calls `sink` with each line and its problem, if there is one.
    pub(crate) fn read(
        file: &dyn StorageFile,
        name: SegmentName,
        sink: &mut dyn FnMut(&Found<'_>, Option<Report>),
    ) -> io::Result<Reading> {
        let (mut audit, mut all, mut tree) = (Audit::new(name), Sha256::new(), Tree::default());
        let (mut bytes, mut lines, mut failed) = (0, 0, None);
        let mut look = |stretch: Stretch<'_>| {
            let mut leaf = begun_leaf();
            let read = each_piece(file, stretch, &mut |piece| {
                all.update(piece);
                leaf.update(piece);
            });
            failed = failed.take().or(read.err());
            all.update(b"\n");
            tree.push(Digest(leaf.finalize().into()));
            bytes += stretch.len + 1;
            lines += 1;
            let line = stretch.classified(name.kind);
            let report = audit.look(&line);
            sink(&line, report);
        };
        let scanned = scan_stretches(file, name.kind, Span::ALL, &mut look)?;
        if let Some(e) = failed {
            return Err(e);
        }
        if let Some(tail) = scanned.tail {
            read_through(file, scanned.end, tail.len, &mut |piece| all.update(piece))?;
            bytes += tail.len;
            audit.wrong += 1;
        }
        let (first_seq, last_seq) = audit.seqs.unwrap_or_default();
        Ok(Reading {
            contents: Contents {
                bytes,
                lines,
                damaged: audit.wrong,
                first_seq,
                last_seq,
                sha256: Digest(all.finalize().into()),
                merkle_root: tree.root(),
            },
            scanned,
            misplaced: audit.misplaced(),
        })
    }
}

/// Calls `sink` with the bytes of a line. One that is too long to be in memory is read again, in
/// pieces.
pub(super) fn each_piece(
    file: &dyn StorageFile,
    line: Stretch<'_>,
    sink: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    match line.bytes {
        Some(bytes) => sink(bytes),
        None => read_through(file, line.offset, line.len, sink)?,
    }
    Ok(())
}

/// The SHA-256 of a whole file, and its length.
pub(crate) fn hash_file(file: &dyn StorageFile) -> io::Result<(Digest, u64)> {
    hash_through(file, &mut |_| ())
}

fn hash_through(file: &dyn StorageFile, sink: &mut dyn FnMut(&[u8])) -> io::Result<(Digest, u64)> {
    let (mut all, mut len) = (Sha256::new(), 0);
    read_through(file, 0, u64::MAX, &mut |bytes| {
        all.update(bytes);
        len += bytes.len() as u64;
        sink(bytes);
    })?;
    Ok((Digest(all.finalize().into()), len))
}

/// As [`hash_file`], by name.
pub(crate) fn hash_segment(storage: &dyn Storage, name: SegmentName) -> io::Result<(Digest, u64)> {
    hash_file(&*storage.open(&name.path(), Access::Read)?)
}

/// As [`hash_file`], with the sequence numbers of all lines; `None` if some line does not begin
/// with its sequence number.
pub(crate) fn hash_lines(file: &dyn StorageFile) -> io::Result<(Digest, u64, Option<Vec<u64>>)> {
    let mut seqs = Seqs::default();
    let (sha256, len) = hash_through(file, &mut |bytes| seqs.feed(bytes))?;
    let is_whole = !seqs.is_any_other && seqs.start.is_empty();
    Ok((sha256, len, is_whole.then_some(seqs.found)))
}

/// Extracts the sequence numbers of lines from a stream of chunks.
#[derive(Default)]
struct Seqs {
    found: Vec<u64>,
    /// The first bytes of the current line.
    start: Vec<u8>,
    /// Some line does not begin with a sequence number.
    is_any_other: bool,
}

impl Seqs {
    const MEMBER: &[u8] = b"{\"seq\":";
    /// Room for a number of up to 20 digits and the byte after it.
    const START_BYTES: usize = Self::MEMBER.len() + 21;

    fn feed(&mut self, mut bytes: &[u8]) {
        loop {
            let end = memchr::memchr(b'\n', bytes);
            let line = &bytes[..end.unwrap_or(bytes.len())];
            let room = Self::START_BYTES.saturating_sub(self.start.len());
            self.start.extend(&line[..line.len().min(room)]);
            let Some(end) = end else {
                return;
            };
            match Self::seq(&self.start) {
                Some(seq) => self.found.push(seq),
                None => self.is_any_other = true,
            }
            self.start.clear();
            bytes = &bytes[end + 1..];
        }
    }

    fn seq(start: &[u8]) -> Option<u64> {
        let digits = start.strip_prefix(Self::MEMBER)?;
        let len = digits.iter().position(|byte| *byte == b',')?;
        let text = str::from_utf8(&digits[..len]).ok()?;
        let seq = text.parse().ok()?;
        // As decklog writes it, without sign or leading zeros.
        (itoa::Buffer::new().format::<u64>(seq) == text).then_some(seq)
    }
}

/// Reads `len` bytes from `offset`, or up to the end of the file, in chunks.
pub(crate) fn read_through(
    file: &dyn StorageFile,
    mut offset: u64,
    len: u64,
    sink: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let end = offset.saturating_add(len);
    let mut chunk = vec![0; CHUNK_BYTES];
    while offset < end {
        let wanted = usize::try_from(end - offset).unwrap_or(CHUNK_BYTES);
        let wanted = wanted.min(CHUNK_BYTES);
        let read = read_full(file, &mut chunk[..wanted], offset)?;
        sink(&chunk[..read]);
        if read < wanted {
            break;
        }
        offset += read as u64;
    }
    Ok(())
}
