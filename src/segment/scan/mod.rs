//! Reads a segment line by line. Never writes.

use std::cell::Cell;
use std::io;

use super::damage::{Damage, DamageClass};
use super::name::SegmentName;
use crate::line::{Envelope, LINE_BYTES_MAX, Line, classify, is_intact};
use crate::record::Kind;
use crate::storage::{Access, Storage, StorageFile, read_full};

// Small for a fuzzer, so that it reaches many chunk boundaries.
const CHUNK_BYTES: usize = if cfg!(fuzzing) { 64 } else { 256 << 10 };
/// Usually an LF is found within this many bytes.
const FIRST_LINE_BYTES: usize = 8 << 10;

thread_local! {
    /// The buffer of this thread's last scan, for reuse by the next one: allocating it takes longer
    /// than reading most segments, which are shorter.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A line of a segment before it is classified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch<'a> {
    pub offset: u64,
    /// Its length without the LF.
    pub len: u64,
    /// The line without its LF. `None` if it exceeds the length limit: it was not kept in memory.
    pub bytes: Option<&'a [u8]>,
}

impl<'a> Stretch<'a> {
    /// A line within the length limit.
    pub(crate) fn line(offset: u64, bytes: &'a [u8]) -> Stretch<'a> {
        Stretch {
            offset,
            len: bytes.len() as u64,
            bytes: Some(bytes),
        }
    }

    pub(crate) fn classified(self, kind: Kind) -> Found<'a> {
        Found {
            offset: self.offset,
            len: self.len,
            bytes: self.bytes.unwrap_or_default(),
            line: self.bytes.map(|bytes| classify(kind, bytes)),
        }
    }
}

/// A classified line of a segment.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub offset: u64,
    /// Its length without the LF.
    pub len: u64,
    /// The line without its LF. Empty if it exceeds the length limit.
    pub bytes: &'a [u8],
    /// `None` if the line exceeds the length limit.
    pub line: Option<Line<'a>>,
}

/// A line with a valid record, or an intact piece of a damaged line.
#[derive(Debug)]
pub(crate) struct Fact<'a> {
    pub offset: u64,
    pub bytes: &'a [u8],
    pub envelope: &'a Envelope<'a>,
    /// The line was edited after it was written, so its own metadata is not reliable.
    pub is_altered: bool,
}

impl Found<'_> {
    /// Calls `sink` for every record in this line.
    pub(crate) fn facts(&self, kind: Kind, sink: &mut dyn FnMut(Fact<'_>)) {
        let (offset, bytes) = (self.offset, self.bytes);
        let mut sink = |offset, bytes: &[u8], envelope: &Envelope<'_>, is_altered| {
            sink(Fact {
                offset,
                bytes,
                envelope,
                is_altered,
            });
        };
        match &self.line {
            Some(Line::Good(envelope)) => sink(offset, bytes, envelope, false),
            Some(Line::Altered(Ok(decoded))) => {
                if let Some(seq) = decoded.seq {
                    sink(offset, bytes, &decoded.envelope(seq), true);
                }
            }
            Some(Line::Damaged(pieces)) => {
                for (start, len) in pieces {
                    let bytes = &bytes[*start..start + len];
                    if let Line::Good(envelope) = &classify(kind, bytes) {
                        sink(offset + *start as u64, bytes, envelope, false);
                    }
                }
            }
            Some(Line::Altered(Err(_)) | Line::Void(_)) | None => {}
        }
    }

    fn has_facts(&self, kind: Kind) -> bool {
        let mut has_any = false;
        self.facts(kind, &mut |_| has_any = true);
        has_any
    }

    /// Reports what is wrong with this line, if anything.
    pub(crate) fn report(&self) -> Option<Report> {
        let place = (self.offset, self.len);
        let Some(line) = &self.line else {
            let reason = "the line is past the limit";
            return Some(Report::new(DamageClass::TooLong, place, reason));
        };
        let reason = match line {
            Line::Good(_) => return None,
            Line::Altered(Ok(_)) if is_intact(self.bytes) => {
                "the checksum holds, but the fields are not in canonical form".to_owned()
            }
            Line::Altered(Ok(_)) => {
                "the line was rewritten: its checksum is wrong or missing".to_owned()
            }
            Line::Altered(Err(reason)) => {
                format!("the line was rewritten and holds no record: {reason}")
            }
            Line::Void(reason) => format!("the line holds no record: {reason}"),
            Line::Damaged(pieces) if !pieces.is_empty() => {
                format!("{} whole lines are glued to other bytes", pieces.len())
            }
            Line::Damaged(_) => "the line is no JSON object".to_owned(),
        };
        let class = match line {
            Line::Altered(_) => DamageClass::Altered,
            _ => DamageClass::Damaged,
        };
        Some(Report::new(class, place, reason))
    }
}

/// Damage within one segment.
#[derive(Debug)]
pub(crate) struct Report {
    pub offset: u64,
    pub length: u64,
    pub class: DamageClass,
    pub reason: String,
}

impl Report {
    /// Damage at an offset, with a length.
    pub(crate) fn new(
        class: DamageClass,
        (offset, length): (u64, u64),
        reason: impl Into<String>,
    ) -> Report {
        let reason = reason.into();
        Report {
            offset,
            length,
            class,
            reason,
        }
    }

    /// Reports a name that does not belong to a regular file.
    pub(crate) fn no_file() -> Report {
        let reason = "this is not a regular file and is not read: move it away";
        Report::new(DamageClass::NoFile, (0, 0), reason)
    }

    /// Reports lines from `first` up to `end` that repeat others.
    pub(crate) fn repeated(count: u64, first: u64, end: u64) -> Report {
        let reason = format!(
            "from here on, {count} lines have sequence numbers that others have: if it is a copy, move it away"
        );
        let place = (first, end.saturating_sub(first));
        Report::new(DamageClass::Repeated, place, reason)
    }

    pub(crate) fn in_segment(self, name: SegmentName) -> Damage {
        self.in_file(name.path())
    }

    /// Locates the damage in a file, given relative to the store.
    pub(crate) fn in_file(self, file: impl Into<String>) -> Damage {
        let Report {
            offset,
            length,
            class,
            reason,
        } = self;
        Damage {
            file: file.into(),
            offset,
            length,
            class,
            reason,
        }
    }
}

/// Lines in the directory of a day other than their own.
#[derive(Debug)]
pub(crate) struct Misplaced {
    bounds_ms: std::ops::Range<i64>,
    count: u64,
    first: u64,
    end: u64,
}

impl Misplaced {
    pub(crate) fn in_day_of(name: SegmentName) -> Misplaced {
        let (start, end) = name.day.bounds_ms();
        Misplaced {
            bounds_ms: start..end,
            count: 0,
            first: 0,
            end: 0,
        }
    }

    /// Checks the time of the line at `offset..end`; returns whether it is of the directory's day.
    pub(crate) fn look(&mut self, at: i64, offset: u64, end: u64) -> bool {
        if self.bounds_ms.contains(&at) {
            return true;
        }
        if self.count == 0 {
            self.first = offset;
        }
        self.count += 1;
        self.end = end;
        false
    }

    /// Adds the result of a later part of the segment.
    pub(crate) fn go_on(&mut self, rest: &Misplaced) {
        if self.count == 0 {
            self.first = rest.first;
        }
        if rest.count > 0 {
            self.count += rest.count;
            self.end = rest.end;
        }
    }

    pub(crate) fn report(&self) -> Option<Report> {
        let reason = format!(
            "from here on, {} lines are of another day than their directory",
            self.count
        );
        let place = (self.first, self.end - self.first);
        (self.count > 0).then(|| Report::new(DamageClass::Misplaced, place, reason))
    }
}

/// The position that a scan reached.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// The offset after the last LF.
    pub end: u64,
    /// The bytes after it, if any.
    pub tail: Option<Tail>,
}

/// A last line without LF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub len: u64,
    /// Whether it would hold a record if it ended with LF.
    pub holds_facts: bool,
}

impl Tail {
    pub(crate) fn report(self, end: u64) -> Report {
        let reason = if self.holds_facts {
            "the last line has no LF; it is whole and counts once it has one"
        } else {
            "the last line is cut short"
        };
        Report::new(DamageClass::Torn, (end, self.len), reason)
    }
}

/// The part of a segment to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// The start of a line, or an offset within a line that belongs to the span before.
    pub from: u64,
    /// Lines that start here or later belong to another span.
    pub stop: u64,
    /// Bytes from here on are ignored: they are not written yet.
    pub until: u64,
}

impl Span {
    /// A whole segment.
    pub(crate) const ALL: Span = Span {
        from: 0,
        stop: u64::MAX,
        until: u64::MAX,
    };
}

/// The offset of the first line that starts in a span which does not begin at the segment's start;
/// `None` if no line starts in it.
pub(crate) fn first_line(file: &dyn StorageFile, span: Span) -> io::Result<Option<u64>> {
    let mut buffer = [0; FIRST_LINE_BYTES];
    // The last possible offset of the LF before that line.
    let last = span.stop.min(span.until).saturating_sub(1);
    let mut offset = span.from.saturating_sub(1);
    while offset < last {
        let wanted = (last - offset).min(FIRST_LINE_BYTES as u64) as usize;
        let read = read_full(file, &mut buffer[..wanted], offset)?;
        if let Some(lf) = memchr::memchr(b'\n', &buffer[..read]) {
            return Ok(Some(offset + lf as u64 + 1));
        }
        if read < wanted {
            break;
        }
        offset += read as u64;
    }
    Ok(None)
}

/// Reads a whole segment and calls `sink` for every record in it.
pub(crate) fn each_fact(
    storage: &dyn Storage,
    name: SegmentName,
    sink: &mut dyn FnMut(Fact<'_>),
) -> io::Result<Scanned> {
    let file = storage.open(&name.path(), Access::Read)?;
    scan(&*file, name.kind, Span::ALL, &mut |found| {
        found.facts(name.kind, sink);
    })
}

/// Calls `sink` for every line of a span of a segment of `kind`. The span must begin at the start
/// of a line.
pub(crate) fn scan(
    file: &dyn StorageFile,
    kind: Kind,
    span: Span,
    sink: &mut dyn FnMut(Found<'_>),
) -> io::Result<Scanned> {
    scan_stretches(file, kind, span, &mut |stretch| {
        sink(stretch.classified(kind));
    })
}

/// As [`scan`], but does not classify the lines.
pub(crate) fn scan_stretches(
    file: &dyn StorageFile,
    kind: Kind,
    span: Span,
    sink: &mut dyn FnMut(Stretch<'_>),
) -> io::Result<Scanned> {
    let mut buffer = BUFFER.take();
    let scanned = scan_limited(file, kind, span, LINE_BYTES_MAX, &mut buffer, sink);
    if buffer.len() <= CHUNK_BYTES {
        BUFFER.set(buffer);
    }
    scanned
}

/// As [`scan_stretches`], with this maximum length of a line including its LF.
pub(super) fn scan_limited(
    file: &dyn StorageFile,
    kind: Kind,
    span: Span,
    line_bytes_max: usize,
    buffer: &mut Vec<u8>,
    sink: &mut dyn FnMut(Stretch<'_>),
) -> io::Result<Scanned> {
    // The buffer begins with the line at `offset` and holds no LF that was not found yet. Of a line
    // that is too long, `skipping` bytes were read and dropped.
    let (mut filled, mut offset, mut skipping) = (0, span.from, 0u64);
    loop {
        let at = offset + skipping + filled as u64;
        let ahead = usize::try_from(span.until.saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = ahead.min(CHUNK_BYTES.max(filled));
        if buffer.len() < filled + wanted {
            buffer.resize(filled + wanted, 0);
        }
        let read = read_full(file, &mut buffer[filled..filled + wanted], at)?;
        let (mut start, mut searched) = (0, filled);
        filled += read;
        let bytes = &buffer[..filled];

        while let Some(found) = memchr::memchr(b'\n', &bytes[searched..]) {
            let lf = searched + found;
            let len = skipping + (lf - start) as u64;
            let is_kept = skipping == 0 && lf - start < line_bytes_max;
            let bytes = is_kept.then(|| &bytes[start..lf]);
            sink(Stretch { offset, len, bytes });
            offset += len + 1;
            skipping = 0;
            (start, searched) = (lf + 1, lf + 1);
            if offset >= span.stop {
                let (end, tail) = (offset, None);
                return Ok(Scanned { end, tail });
            }
        }
        if read == 0 {
            let rest = &bytes[start..];
            let len = skipping + rest.len() as u64;
            // Together with its LF, the line must not exceed the limit.
            let is_read = skipping == 0 && rest.len() < line_bytes_max;
            let holds_facts =
                is_read && Stretch::line(offset, rest).classified(kind).has_facts(kind);
            let tail = (len > 0).then_some(Tail { len, holds_facts });
            return Ok(Scanned { end: offset, tail });
        }
        if skipping > 0 || filled - start > line_bytes_max {
            skipping += (filled - start) as u64;
            start = filled;
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
    }
}

#[cfg(test)]
mod tests;
