//! The contents of a segment as counts and hashes.

use std::io;

use sha2::Digest as _;
use sha2::Sha256;

use super::Digest;
use super::merkle::{self, Tree};
use crate::line::LINE_BYTES_MAX;
use crate::segment::SegmentName;
use crate::segment::audit::Audit;
use crate::segment::scan::{Buffer, Report, Scanned, Span, Stretch, scan_span};
use crate::storage::{StorageFile, read_full};

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

/// Computes the [`Contents`] of a segment from its lines, one by one. A writer of a segment that is
/// sealed immediately feeds it each line, including the LF, and need not read the file again.
#[derive(Debug)]
pub(crate) struct Sealer {
    audit: Audit,
    all: Sha256,
    tree: Tree,
    bytes: u64,
    lines: u64,
    seqs: Option<(u64, u64)>,
}

/// The result of reading a sealed segment.
#[derive(Debug)]
pub(crate) struct Reading {
    pub contents: Contents,
    pub scanned: Scanned,
    /// Lines of a day other than the segment's.
    pub misplaced: Option<Report>,
}

impl Sealer {
    /// For the segment with this name, which is needed to tell whether a line is as decklog wrote
    /// it.
    pub(crate) fn new(name: SegmentName) -> Sealer {
        Sealer {
            audit: Audit::new(name),
            all: Sha256::new(),
            tree: Tree::default(),
            bytes: 0,
            lines: 0,
            seqs: None,
        }
    }

    /// Adds a line, including its LF.
    pub(crate) fn push(&mut self, line: &[u8]) {
        let (offset, bytes) = (self.bytes, line.strip_suffix(b"\n").unwrap_or(line));
        let len = bytes.len() as u64;
        let stretch = if line.len() > LINE_BYTES_MAX {
            Stretch::TooLong { offset, len }
        } else {
            Stretch::Line { offset, bytes }
        };
        self.all.update(line);
        self.tree.push(merkle::leaf(bytes));
        self.look(stretch, &mut |_, _| ());
    }

    pub(crate) fn finish(self) -> Contents {
        let (first_seq, last_seq) = self.seqs.unwrap_or_default();
        Contents {
            bytes: self.bytes,
            lines: self.lines,
            damaged: self.audit.wrong,
            first_seq,
            last_seq,
            sha256: Digest(self.all.finalize().into()),
            merkle_root: self.tree.root(),
        }
    }

    /// Reads a segment in bounded memory. Bytes after its last LF are not a line but count as
    /// damage.
    pub(crate) fn of_file(file: &dyn StorageFile, name: SegmentName) -> io::Result<Contents> {
        let read = Sealer::read(file, name, &mut |_| (), &mut |_, _| ());
        read.map(|read| read.contents)
    }

    /// As [`of_file`](Sealer::of_file). Calls `report` with the problem of each line, if there is
    /// one, and `number` with the sequence numbers that count, as [`Audit::look`] does.
    pub(crate) fn read(
        file: &dyn StorageFile,
        name: SegmentName,
        report: &mut dyn FnMut(Option<Report>),
        number: &mut dyn FnMut(u64, bool),
    ) -> io::Result<Reading> {
        let mut sealer = Sealer::new(name);
        let mut failed = None;
        let mut look = |stretch: Stretch<'_>| {
            match stretch {
                Stretch::Line { bytes, .. } => sealer.all.update(bytes),
                Stretch::TooLong { offset, len } => {
                    let all = &mut sealer.all;
                    let read = read_through(file, offset, len, &mut |bytes| all.update(bytes));
                    failed = failed.take().or(read.err());
                }
            }
            sealer.all.update(b"\n");
            match leaf_of(file, stretch) {
                Ok(leaf) => sealer.tree.push(leaf),
                Err(e) => failed = failed.take().or(Some(e)),
            }
            report(sealer.look(stretch, number));
        };
        let (all, mut buffer) = (Span::ALL, Buffer::default());
        let scanned = scan_span(file, name.kind, all, LINE_BYTES_MAX, &mut buffer, &mut look)?;
        if let Some(e) = failed {
            return Err(e);
        }
        if let Some(tail) = scanned.tail {
            let all = &mut sealer.all;
            read_through(file, scanned.end, tail.len, &mut |bytes| all.update(bytes))?;
            sealer.bytes += tail.len;
            sealer.audit.wrong += 1;
        }
        let misplaced = sealer.audit.misplaced();
        Ok(Reading {
            contents: sealer.finish(),
            scanned,
            misplaced,
        })
    }

    /// Counts a line that was hashed already.
    fn look(&mut self, stretch: Stretch<'_>, number: &mut dyn FnMut(u64, bool)) -> Option<Report> {
        let len = match stretch {
            Stretch::Line { bytes, .. } => bytes.len() as u64,
            Stretch::TooLong { len, .. } => len,
        };
        self.bytes += len + 1;
        self.lines += 1;
        let seqs = &mut self.seqs;
        let line = stretch.classified(self.audit.kind());
        self.audit.look(&line, &mut |seq, is_altered| {
            if !is_altered {
                let (first, last) = seqs.unwrap_or((seq, seq));
                *seqs = Some((first.min(seq), last.max(seq)));
            }
            number(seq, is_altered);
        })
    }
}

/// The leaf hash of a line. A line that is too long to be in memory is read again.
pub(super) fn leaf_of(file: &dyn StorageFile, line: Stretch<'_>) -> io::Result<Digest> {
    match line {
        Stretch::Line { bytes, .. } => Ok(merkle::leaf(bytes)),
        Stretch::TooLong { offset, len } => {
            let mut leaf = Sha256::new().chain_update([0]);
            read_through(file, offset, len, &mut |bytes| leaf.update(bytes))?;
            Ok(Digest(leaf.finalize().into()))
        }
    }
}

/// The SHA-256 of a whole file, and its length.
pub(crate) fn hash_file(file: &dyn StorageFile) -> io::Result<(Digest, u64)> {
    let (mut all, mut len) = (Sha256::new(), 0);
    read_through(file, 0, u64::MAX, &mut |bytes| {
        all.update(bytes);
        len += bytes.len() as u64;
    })?;
    Ok((Digest(all.finalize().into()), len))
}

/// As [`hash_file`], with the sequence numbers of all lines; `None` if some line does not begin
/// with its sequence number.
pub(crate) fn hash_lines(file: &dyn StorageFile) -> io::Result<(Digest, u64, Option<Vec<u64>>)> {
    let (mut all, mut len) = (Sha256::new(), 0);
    let mut seqs = Seqs::default();
    read_through(file, 0, u64::MAX, &mut |bytes| {
        all.update(bytes);
        len += bytes.len() as u64;
        seqs.feed(bytes);
    })?;
    let is_whole = !seqs.is_any_other && seqs.start.is_empty();
    let found = is_whole.then_some(seqs.found);
    Ok((Digest(all.finalize().into()), len, found))
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
        let is_canonical = len == 1 || digits[0] != b'0';
        let digits = digits[..len]
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| &digits[..len])?;
        str::from_utf8(digits)
            .ok()?
            .parse()
            .ok()
            .filter(|_| is_canonical)
    }
}

/// Reads `len` bytes from `offset`, or up to the end of the file, in chunks.
fn read_through(
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
