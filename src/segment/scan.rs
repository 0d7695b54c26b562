//! Reads a segment line by line. Never writes.

use std::io;

use super::damage::{Damage, DamageClass};
use super::name::SegmentName;
use crate::line::{Envelope, Line, classify, piece_at};
use crate::record::Kind;
use crate::storage::{StorageFile, read_full};

const CHUNK_BYTES: usize = 256 << 10;

/// What stands at one place of a segment.
// There is one at a time, and boxing would cost an allocation a line.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A line that ends with LF; `bytes` is without it.
    Line {
        offset: u64,
        bytes: &'a [u8],
        line: Line<'a>,
    },
    /// A line past the limit, which was not read.
    TooLong { offset: u64, len: u64 },
}

/// A line, or a piece of a damaged one, that counts.
#[derive(Debug)]
pub(crate) struct Fact<'a> {
    pub offset: u64,
    pub bytes: &'a [u8],
    pub envelope: &'a Envelope<'a>,
    /// Someone rewrote it: what it says of itself is not proven.
    pub is_altered: bool,
}

impl Found<'_> {
    /// Calls `sink` for everything here that counts.
    pub(crate) fn facts(&self, kind: Kind, sink: &mut dyn FnMut(Fact<'_>)) {
        let Found::Line {
            offset,
            bytes,
            line,
        } = self
        else {
            return;
        };
        let (offset, bytes) = (*offset, *bytes);
        match line {
            Line::Good(envelope) => sink(Fact {
                offset,
                bytes,
                envelope,
                is_altered: false,
            }),
            Line::Altered(Ok(decoded)) => {
                if let Some(seq) = decoded.seq {
                    let envelope = &decoded.envelope(seq);
                    sink(Fact {
                        offset,
                        bytes,
                        envelope,
                        is_altered: true,
                    });
                }
            }
            Line::Altered(Err(_)) => {}
            Line::Damaged(pieces) => {
                for (start, len) in pieces {
                    let bytes = &bytes[*start..start + len];
                    if let Line::Good(envelope) = &classify(kind, bytes) {
                        let offset = offset + *start as u64;
                        sink(Fact {
                            offset,
                            bytes,
                            envelope,
                            is_altered: false,
                        });
                    }
                }
            }
        }
    }

    /// What is wrong here, if anything is.
    pub(crate) fn report(&self) -> Option<Report> {
        let (offset, length, class, reason) = match self {
            Found::TooLong { offset, len } => (
                *offset,
                *len,
                DamageClass::TooLong,
                "the line is past the limit".to_owned(),
            ),
            Found::Line {
                offset,
                bytes,
                line,
            } => {
                let (class, reason) = match line {
                    Line::Good(_) => return None,
                    Line::Altered(Ok(_)) => (
                        DamageClass::Altered,
                        "the line was rewritten: its checksum is wrong or missing".to_owned(),
                    ),
                    Line::Altered(Err(reason)) => (
                        DamageClass::Altered,
                        format!("the line was rewritten and holds no record: {reason}"),
                    ),
                    Line::Damaged(pieces) if !pieces.is_empty() => (
                        DamageClass::Damaged,
                        format!("{} whole lines are glued to other bytes", pieces.len()),
                    ),
                    Line::Damaged(_) => (
                        DamageClass::Damaged,
                        "the line is no JSON object".to_owned(),
                    ),
                };
                (*offset, bytes.len() as u64, class, reason)
            }
        };
        Some(Report {
            offset,
            length,
            class,
            reason,
        })
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
    pub(crate) fn in_file(self, name: SegmentName) -> Damage {
        let Report {
            offset,
            length,
            class,
            reason,
        } = self;
        Damage {
            file: name.path(),
            offset,
            length,
            class,
            reason,
        }
    }
}

/// Where a scan came to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// After the last LF.
    pub end: u64,
    /// What follows it.
    pub tail: Option<Tail>,
}

/// The bytes of a last line without LF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub len: u64,
    /// Only the LF is missing.
    pub is_whole_line: bool,
}

impl Tail {
    pub(crate) fn report(self, end: u64) -> Report {
        let reason = if self.is_whole_line {
            "the last line has no LF; it is whole and counts once it has one"
        } else {
            "the last line is cut short"
        };
        Report {
            offset: end,
            length: self.len,
            class: DamageClass::Torn,
            reason: reason.to_owned(),
        }
    }
}

/// Reads a segment of `kind` from the start of a line at `from` to the end of the file, or to
/// `until`, and calls `sink` for every line.
pub(crate) fn scan(
    file: &dyn StorageFile,
    kind: Kind,
    from: u64,
    until: u64,
    line_bytes_max: usize,
    sink: &mut dyn FnMut(Found<'_>),
) -> io::Result<Scanned> {
    let mut buf = Vec::new();
    // `buf[start..]` stands at `offset` in the file and holds no LF that was not looked at.
    let (mut start, mut offset, mut skipping) = (0, from, 0u64);
    loop {
        buf.drain(..start);
        start = 0;
        let filled = buf.len();
        let ahead = until.saturating_sub(offset + skipping + filled as u64);
        let wanted = usize::try_from(ahead)
            .unwrap_or(usize::MAX)
            .min(CHUNK_BYTES.max(filled));
        buf.resize(filled + wanted, 0);
        let read = read_full(file, &mut buf[filled..], offset + skipping + filled as u64)?;
        buf.truncate(filled + read);

        if skipping > 0 {
            match memchr::memchr(b'\n', &buf) {
                None => skipping += buf.len() as u64,
                Some(lf) => {
                    sink(Found::TooLong {
                        offset,
                        len: skipping + lf as u64,
                    });
                    offset += skipping + lf as u64 + 1;
                    (start, skipping) = (lf + 1, 0);
                }
            }
        }
        if skipping == 0 {
            let mut searched = filled.max(start);
            while let Some(found) = memchr::memchr(b'\n', &buf[searched..]) {
                let lf = searched + found;
                let bytes = &buf[start..lf];
                if bytes.len() >= line_bytes_max {
                    sink(Found::TooLong {
                        offset,
                        len: bytes.len() as u64,
                    });
                } else {
                    sink(Found::Line {
                        offset,
                        bytes,
                        line: classify(kind, bytes),
                    });
                }
                offset += (lf + 1 - start) as u64;
                start = lf + 1;
                searched = start;
            }
            if buf.len() - start > line_bytes_max {
                skipping = (buf.len() - start) as u64;
                start = buf.len();
            }
        } else {
            start = buf.len();
        }
        if read == 0 {
            let rest = &buf[start..];
            let len = skipping + rest.len() as u64;
            let is_whole_line = skipping == 0 && piece_at(rest) == Some(rest.len());
            let tail = (len > 0).then_some(Tail { len, is_whole_line });
            return Ok(Scanned { end: offset, tail });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Access, Memory, Storage};

    fn scan_bytes(bytes: Vec<u8>, line_bytes_max: usize) -> (Vec<(u64, u64, bool)>, Scanned) {
        let memory = Memory::new();
        memory.create_dir("").unwrap();
        memory.put_bytes("a", bytes);
        let file = memory.open("a", Access::Read).unwrap();
        let mut found = Vec::new();
        let scanned = scan(
            &*file,
            Kind::ToolCalls,
            0,
            u64::MAX,
            line_bytes_max,
            &mut |line| {
                found.push(match line {
                    Found::Line { offset, bytes, .. } => (offset, bytes.len() as u64, true),
                    Found::TooLong { offset, len } => (offset, len, false),
                });
            },
        );
        (found, scanned.unwrap())
    }

    #[test]
    fn every_byte_belongs_to_one_line_or_the_tail() {
        let long = 3 * CHUNK_BYTES + 5;
        let bytes = [
            b"{}\n\n".to_vec(),
            vec![b'x'; long],
            b"\n{}\n".to_vec(),
            vec![b'y'; CHUNK_BYTES - 1],
            b"\ntail".to_vec(),
        ]
        .concat();
        let end = bytes.len() as u64 - 4;
        let (found, scanned) = scan_bytes(bytes.clone(), 2 * CHUNK_BYTES);
        let long = long as u64;
        let chunk = CHUNK_BYTES as u64;
        assert_eq!(
            found,
            [
                (0, 2, true),
                (3, 0, true),
                (4, long, false),
                (5 + long, 2, true),
                (8 + long, chunk - 1, true)
            ]
        );
        assert_eq!(
            scanned,
            Scanned {
                end,
                tail: Some(Tail {
                    len: 4,
                    is_whole_line: false
                })
            }
        );

        let (found, _) = scan_bytes(bytes, 8 * CHUNK_BYTES);
        assert_eq!(found[2], (4, long, true));
    }

    #[test]
    fn an_endless_tail_is_not_held_in_memory() {
        let (found, scanned) = scan_bytes(vec![0; 5 * CHUNK_BYTES], 10);
        assert!(found.is_empty());
        assert_eq!(scanned.end, 0);
        assert_eq!(scanned.tail.unwrap().len, 5 * CHUNK_BYTES as u64);
    }
}
