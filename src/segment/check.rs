//! Properties that hold for any bytes read as a segment; for fuzzers.

#![allow(clippy::unwrap_used)]

use std::io;
use std::sync::Mutex;

use super::scan::scan_limited;
use super::{Fact, Found, Scanned, Span, Stretch, Tail, first_line};
use crate::line::{Line, classify, is_intact};
use crate::record::Kind;
use crate::storage::{FileStat, StorageFile};

/// A file that returns short reads and is interrupted by signals.
#[derive(Debug)]
struct Slow<'a> {
    bytes: &'a [u8],
    at_once: usize,
    reads: Mutex<u32>,
}

impl StorageFile for Slow<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut reads = self.reads.lock().unwrap();
        *reads += 1;
        if reads.is_multiple_of(5) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let from = usize::try_from(offset).unwrap().min(self.bytes.len());
        let rest = &self.bytes[from..];
        let len = rest.len().min(buf.len()).min(self.at_once);
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn append(&self, _: &[u8]) -> io::Result<usize> {
        unreachable!("scanning never writes")
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        unreachable!("scanning never writes")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("scanning never writes")
    }

    fn stat(&self) -> io::Result<FileStat> {
        Ok(FileStat {
            is_read_only: false,
            len: self.bytes.len() as u64,
            identity: 1,
            is_linked: true,
        })
    }

    fn try_lock(&self) -> io::Result<bool> {
        unreachable!("scanning never locks")
    }

    fn unlock(&self) -> io::Result<()> {
        unreachable!("scanning never locks")
    }
}

/// Offset and length of a line in a segment, and whether it is within the length limit.
type Place = (u64, u64, bool);

/// Checks all properties of these bytes as a segment of a kind. `limit` determines the maximum line
/// length, `cut` an offset at which to split the segment.
///
/// # Panics
/// If a property does not hold.
pub(crate) fn any_segment(kind: Kind, bytes: &[u8], limit: u8, cut: u8) {
    let line_bytes_max = match limit {
        0..200 => crate::line::LINE_BYTES_MAX,
        _ => usize::from(limit - 199) * 16,
    };
    let len = bytes.len() as u64;
    let file = Slow {
        bytes,
        at_once: usize::from(limit % 7) * 13 + 1,
        reads: Mutex::new(0),
    };
    let (expected, expected_end) = by_hand(kind, bytes, line_bytes_max);
    let whole = scanned(&file, kind, 0, u64::MAX, line_bytes_max);
    assert_eq!(whole, (expected.clone(), expected_end));

    // Scan from the start of any line, and up to any offset.
    let cut = len * u64::from(cut) / 255;
    let starts = expected.iter().map(|(offset, ..)| *offset);
    let start = starts.chain([expected_end.end]).find(|start| *start >= cut);
    let start = start.unwrap_or(expected_end.end);
    let (rest, end) = scanned(&file, kind, start, u64::MAX, line_bytes_max);
    let after = |place: &&Place| place.0 >= start;
    assert_eq!(
        rest,
        expected.iter().filter(after).copied().collect::<Vec<_>>()
    );
    assert_eq!(end, expected_end);
    let (first, end) = scanned(&file, kind, 0, cut, line_bytes_max);
    let until = usize::try_from(cut).unwrap();
    assert_eq!((first, end), by_hand(kind, &bytes[..until], line_bytes_max));

    // If the segment is split in two, every line is in exactly one part.
    let mut buffer = Vec::new();
    let (mut found, mut end) = (Vec::new(), None);
    for (from, stop) in [(0, cut), (cut, u64::MAX)] {
        let mut span = Span {
            from,
            stop,
            until: len,
        };
        if from > 0 {
            match first_line(&file, span).unwrap() {
                Some(first) => span.from = first,
                None => continue,
            }
        }
        if stop > 0 {
            let mut sink = |stretch: Stretch<'_>| found.push(place(stretch));
            let part =
                scan_limited(&file, kind, span, line_bytes_max, &mut buffer, &mut sink).unwrap();
            end = Some(part);
        }
    }
    assert_eq!((found, end.unwrap()), (expected, expected_end));
}

fn place(stretch: Stretch<'_>) -> Place {
    (stretch.offset, stretch.len, stretch.bytes.is_some())
}

/// A reference implementation that finds the lines.
fn by_hand(kind: Kind, bytes: &[u8], line_bytes_max: usize) -> (Vec<Place>, Scanned) {
    let (mut places, mut offset) = (Vec::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if line.ends_with(b"\n") {
            let is_read = line.len() <= line_bytes_max;
            places.push((offset, line.len() as u64 - 1, is_read));
            offset += line.len() as u64;
        }
    }
    let rest = &bytes[usize::try_from(offset).unwrap()..];
    let tail = (!rest.is_empty()).then(|| Tail {
        len: rest.len() as u64,
        holds_facts: rest.len() < line_bytes_max && holds_facts(kind, rest),
    });
    (places, Scanned { end: offset, tail })
}

/// Whether the tail would hold a record once it ends with LF.
fn holds_facts(kind: Kind, line: &[u8]) -> bool {
    match classify(kind, line) {
        Line::Good(_) => true,
        Line::Altered(read) => read.is_ok_and(|decoded| decoded.seq.is_some()),
        Line::Void(_) => false,
        Line::Damaged(pieces) => !pieces.is_empty(),
    }
}

/// The result of a scan. Each line is also checked separately.
fn scanned(
    file: &Slow<'_>,
    kind: Kind,
    from: u64,
    until: u64,
    line_bytes_max: usize,
) -> (Vec<Place>, Scanned) {
    let mut places = Vec::new();
    let mut sink = |stretch: Stretch<'_>| {
        let place = place(stretch);
        let found = stretch.classified(kind);
        if let Some(line) = &found.line {
            check_line(kind, line, &found);
            let start = usize::try_from(found.offset).unwrap();
            assert_eq!(found.bytes, &file.bytes[start..start + found.bytes.len()]);
        }
        let report = found.report();
        let is_good = matches!(found.line, Some(Line::Good(_)));
        assert_eq!(report.is_none(), is_good);
        if let Some(report) = report {
            assert_eq!((report.offset, report.length), (place.0, place.1));
            assert!(!report.reason.is_empty());
        }
        places.push(place);
    };
    let span = Span {
        from,
        until,
        ..Span::ALL
    };
    let mut buffer = Vec::new();
    let end = scan_limited(file, kind, span, line_bytes_max, &mut buffer, &mut sink);
    (places, end.unwrap())
}

fn check_line(kind: Kind, line: &Line<'_>, found: &Found<'_>) {
    let (offset, bytes) = (found.offset, found.bytes);
    let class = std::mem::discriminant(line);
    assert_eq!(class, std::mem::discriminant(&classify(kind, bytes)));
    let mut end = offset;
    let mut facts = 0;
    found.facts(kind, &mut |fact: Fact<'_>| {
        facts += 1;
        assert!(fact.offset >= end);
        end = fact.offset + fact.bytes.len() as u64;
        assert!(end <= offset + bytes.len() as u64);
        assert!(fact.envelope.seq > 0);
        assert!(is_intact(fact.bytes) || fact.is_altered);
        assert_eq!(fact.is_altered, matches!(line, Line::Altered(_)));
    });
    if let Line::Good(_) = line {
        assert_eq!(facts, 1);
    }
}
