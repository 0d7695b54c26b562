//! Records as input of programs: one JSON object per line.
//!
//! ```
//! use decklog::ndjson;
//! # let dir = tempfile::tempdir().unwrap();
//! # let store = decklog::Store::open(dir.path().join("log"))?;
//! let mut from = &b"{\"kind\":\"events\",\"event_type\":\"agent.started\"}\n\nno record\n"[..];
//! let mut inputs = Vec::new();
//! ndjson::read(&mut from, 1 << 20, |input| inputs.push(input)).unwrap();
//! let answers = ndjson::record(&store, inputs)?;
//! assert!(answers[0].1.is_ok());
//! // Line numbers count all lines of the input; blank ones have no answer.
//! assert_eq!((answers[1].0, answers[1].1.is_err()), (3, true));
//! # Ok::<(), decklog::Error>(())
//! ```

use std::io::{self, BufRead, Read};

use crate::collections::{Ack, IfKnown, given};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;
use crate::store::Store;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A line of input that is not blank.
#[derive(Debug)]
pub struct Input {
    /// Its number, from 1.
    pub line: u64,
    /// The record, or the reason why the line is invalid.
    pub text: Result<String>,
}

/// Records all valid lines; each is accepted or rejected separately. The answers are in the order of
/// the lines, with their numbers. A record without a time gets the current time: a repeated one with
/// the same id is compared without the time.
///
/// # Errors
/// As [`Store::record_batch`].
pub fn record(store: &Store, inputs: Vec<Input>) -> Result<Vec<(u64, Result<Ack>)>> {
    let mut records = Vec::with_capacity(inputs.len());
    let mut read = Vec::with_capacity(inputs.len());
    for Input { line, text } in inputs {
        let given = text.and_then(|text| Record::from_line(&text));
        let record = given.map(|given| {
            let if_known = IfKnown::of_client(given.has_time);
            records.push((self::given(given.record), if_known));
        });
        read.push((line, record));
    }
    let mut acks = if records.is_empty() {
        Vec::new().into_iter()
    } else {
        store.put_batch(records)?.into_iter()
    };
    let none = || Error::new(ErrorKind::Poisoned, "the store returned no answer");
    let answer = |(line, read): (u64, Result<()>)| {
        let ack = read.and_then(|()| acks.next().unwrap_or_else(|| Err(none())));
        (line, ack)
    };
    Ok(read.into_iter().map(answer).collect())
}

/// Calls `sink` for every line that is not blank.
///
/// # Errors
/// The input's error.
pub fn read(
    from: &mut impl BufRead,
    line_bytes_max: usize,
    mut sink: impl FnMut(Input),
) -> io::Result<()> {
    let mut number = 0;
    while let Some(line) = read_line(from, line_bytes_max)? {
        number += 1;
        let text = match line {
            Ok(bytes) if bytes.trim_ascii().is_empty() => continue,
            Ok(bytes) => String::from_utf8(bytes)
                .map(|text| match text.strip_prefix(BYTE_ORDER_MARK) {
                    // Some programs write a byte order mark before the first line.
                    Some(rest) if number == 1 => rest.to_owned(),
                    _ => text,
                })
                .map_err(|e| {
                    let valid = e.utf8_error().valid_up_to();
                    Error::invalid(format!("not UTF-8 at byte {valid}"))
                }),
            Err(bytes) => Err(Error::invalid(format!(
                "the line has {bytes} bytes: the maximum is {line_bytes_max}"
            ))),
        };
        sink(Input { line: number, text });
    }
    Ok(())
}

/// The next line without its LF, or the length of a line that is too long; `None` at the end.
fn read_line(
    from: &mut impl BufRead,
    line_bytes_max: usize,
) -> io::Result<Option<std::result::Result<Vec<u8>, usize>>> {
    let part_bytes_max = (line_bytes_max as u64).saturating_add(1);
    let (mut line, mut len) = (Vec::new(), 0);
    loop {
        let part = from.take(part_bytes_max).read_until(b'\n', &mut line)?;
        let has_end = line.pop_if(|last| *last == b'\n').is_some();
        len += part - usize::from(has_end);
        if has_end || part == 0 {
            let line = if len <= line_bytes_max {
                Ok(line)
            } else {
                Err(len)
            };
            return Ok((has_end || len > 0).then_some(line));
        }
        if len > line_bytes_max {
            line = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(input: Input) -> (u64, std::result::Result<String, String>) {
        (input.line, input.text.map_err(|e| e.to_string()))
    }

    #[test]
    fn lines_come_with_their_numbers() {
        let mut inputs = Vec::new();
        let text = b"one\r\n\n  \r\n\xff\n12345678\n123456789\nlast";
        // A small buffer, so that lines span several reads.
        let mut from = io::BufReader::with_capacity(3, &text[..]);
        read(&mut from, 8, |input| inputs.push(said(input))).unwrap();
        let ok = |line, text: &str| (line, Ok(text.to_owned()));
        let bad = |line, reason: &str| (line, Err(reason.to_owned()));
        let expected = [
            ok(1, "one\r"),
            bad(4, "not UTF-8 at byte 0"),
            ok(5, "12345678"),
            bad(6, "the line has 9 bytes: the maximum is 8"),
            ok(7, "last"),
        ];
        assert_eq!(inputs, expected);
    }

    #[test]
    fn a_byte_order_mark_before_the_first_line_is_none_of_it() {
        let mut inputs = Vec::new();
        let text = "\u{feff}one\n\u{feff}two\n";
        read(&mut text.as_bytes(), 8, |input| inputs.push(said(input).1)).unwrap();
        assert_eq!(inputs, [Ok("one".to_owned()), Ok("\u{feff}two".to_owned())]);
    }
}
