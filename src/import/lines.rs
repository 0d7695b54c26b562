//! Reads a file line by line, with a maximum line length. The file may be larger than the memory.

use std::io::{self, BufRead, ErrorKind};

use serde::de::IgnoredAny;

/// Maximum length of a line in bytes, without its LF. A longer line is skipped without being
/// buffered.
pub(super) const LINE_BYTES_MAX: usize = 64 << 20;

/// One line of the input, without its LF.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// The last line, without an LF. The file may still be growing.
    Last(&'a [u8]),
    /// A line over the limit, with its length in bytes.
    TooLong(u64),
}

/// Some consecutive lines, held together.
#[derive(Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    lines: Vec<Held>,
}

/// A line of a chunk: where it ends, and whether it is complete.
enum Held {
    Whole(usize),
    Last(usize),
    TooLong(u64),
}

impl Chunk {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn add(&mut self, line: &Line<'_>) {
        let held = match line {
            Line::TooLong(bytes) => Held::TooLong(*bytes),
            Line::Whole(bytes) | Line::Last(bytes) => {
                self.bytes.extend_from_slice(bytes);
                match line {
                    Line::Whole(_) => Held::Whole(self.bytes.len()),
                    _ => Held::Last(self.bytes.len()),
                }
            }
        };
        self.lines.push(held);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        let mut start = 0;
        self.lines.iter().map(move |held| match held {
            Held::TooLong(bytes) => Line::TooLong(*bytes),
            Held::Whole(end) => Line::Whole(&self.bytes[std::mem::replace(&mut start, *end)..*end]),
            Held::Last(end) => Line::Last(&self.bytes[std::mem::replace(&mut start, *end)..*end]),
        })
    }
}

/// Iterates over the lines of an input. The last line needs no LF. If the input grows after its end
/// was read, the iteration does not continue: the new bytes may be the rest of the last line.
pub(super) struct Lines<R> {
    input: R,
    is_at_end: bool,
    bytes_max: usize,
    held: Vec<u8>,
    number: u64,
    bytes_read: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R, bytes_max: usize) -> Self {
        Lines {
            input,
            is_at_end: false,
            bytes_max,
            held: Vec::new(),
            number: 0,
            bytes_read: 0,
        }
    }

    /// Continues after `number` lines and `bytes` bytes.
    pub(super) fn after(self, number: u64, bytes: u64) -> Self {
        Lines {
            number,
            bytes_read: bytes,
            ..self
        }
    }

    /// Number of the line read last, from 1; 0 before the first.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Number of bytes up to here.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    pub(super) fn read_next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.held.clear();
        let mut line_bytes: u64 = 0;
        let mut ended = false;
        let mut any = false;
        while !ended && !self.is_at_end {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if chunk.is_empty() {
                self.is_at_end = true;
                break;
            }
            any = true;
            let (part, used) = match memchr::memchr(b'\n', chunk) {
                Some(at) => {
                    ended = true;
                    (chunk.get(..at).unwrap_or_default(), at + 1)
                }
                None => (chunk, chunk.len()),
            };
            line_bytes += part.len() as u64;
            if line_bytes <= self.bytes_max as u64 {
                self.held.extend_from_slice(part);
            }
            self.bytes_read += used as u64;
            self.input.consume(used);
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(if line_bytes > self.bytes_max as u64 {
            Line::TooLong(line_bytes)
        } else if ended {
            Line::Whole(&self.held)
        } else {
            Line::Last(&self.held)
        }))
    }
}

/// Whether the bytes are a truncated JSON object.
pub(super) fn is_unfinished(bytes: &[u8]) -> bool {
    let read: Result<IgnoredAny, _> = serde_json::from_slice(bytes);
    bytes.starts_with(b"{") && read.is_err_and(|e| e.is_eof() || !bytes.ends_with(b"}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn lines(input: &[u8], buffer: usize, bytes_max: usize) -> Vec<Result<Vec<u8>, u64>> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, input), bytes_max);
        let mut all = Vec::new();
        while let Some(line) = lines.read_next().unwrap() {
            all.push(match line {
                Line::Whole(bytes) | Line::Last(bytes) => Ok(bytes.to_vec()),
                Line::TooLong(bytes) => Err(bytes),
            });
        }
        assert_eq!(lines.number(), all.len() as u64);
        assert_eq!(lines.bytes_read(), input.len() as u64);
        all
    }

    #[test]
    fn lines_are_the_same_whatever_the_buffer() {
        for buffer in 1..20 {
            assert_eq!(
                lines(b"one\n\nthree\r\nlast", buffer, 100),
                [
                    Ok(b"one".to_vec()),
                    Ok(vec![]),
                    Ok(b"three\r".to_vec()),
                    Ok(b"last".to_vec())
                ]
            );
            assert_eq!(lines(b"", buffer, 100), []);
            assert_eq!(lines(b"\n", buffer, 100), [Ok(vec![])]);
        }
    }

    /// A file to which a part is added whenever its end was read.
    struct Growing(Vec<&'static [u8]>);

    impl io::Read for Growing {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let Some(part) = self.0.first_mut() else {
                return Ok(0);
            };
            let read = part.read(buf)?;
            if read == 0 {
                self.0.remove(0);
            }
            Ok(read)
        }
    }

    #[test]
    fn the_rest_of_a_line_that_is_written_meanwhile_is_not_a_line() {
        for (start, last) in [
            (b"one\ntw".as_slice(), Some(Line::Last(b"tw"))),
            (b"one\n", None),
        ] {
            let growing = Growing(vec![start, b"o\nthree\n"]);
            let mut lines = Lines::new(BufReader::new(growing), 100);
            assert_eq!(lines.read_next().unwrap(), Some(Line::Whole(b"one")));
            assert_eq!(lines.read_next().unwrap(), last);
            assert_eq!(lines.read_next().unwrap(), None);
            assert_eq!(lines.read_next().unwrap(), None);
            assert_eq!(lines.bytes_read(), start.len() as u64);
        }
    }

    #[test]
    fn a_line_past_the_limit_is_passed_over_and_the_next_one_is_whole() {
        for buffer in 1..20 {
            assert_eq!(
                lines(b"12345\n123456\n12345\n1234567", buffer, 5),
                [Ok(b"12345".to_vec()), Err(6), Ok(b"12345".to_vec()), Err(7)]
            );
        }
    }

    #[test]
    fn a_line_past_the_limit_is_not_held() {
        let long = vec![b'x'; 1 << 20];
        let mut lines = Lines::new(BufReader::with_capacity(64, long.as_slice()), 1000);
        assert_eq!(lines.read_next().unwrap(), Some(Line::TooLong(1 << 20)));
        assert!(lines.held.capacity() <= 4096);
    }
}
