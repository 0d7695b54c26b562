//! Standard input, line by line, read ahead by a thread of its own: so that a program that waits
//! for an answer gets one, and one that does not is read in batches.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The longest line that is read; of a longer one only its end is looked for.
const LINE_BYTES_MAX: usize = 64 << 20;
const BYTE_ORDER_MARK: char = '\u{feff}';
/// The most lines of a batch.
const BATCH_LINES: usize = 1000;
/// The bytes at which a batch ends, and at which no more is read ahead.
const BATCH_BYTES: usize = 8 << 20;

/// A line of input that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub struct Input {
    /// Its number, from 1.
    pub line: u64,
    /// What it says, or why that cannot be told.
    pub text: Result<String, String>,
}

impl Input {
    fn bytes(&self) -> usize {
        self.text.as_ref().map_or(0, String::len)
    }
}

/// What was read ahead.
#[derive(Debug, Default)]
pub struct Ahead {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inputs: VecDeque<Input>,
    bytes: usize,
    /// How the input ended, once it has.
    ended: Option<io::Result<()>>,
}

impl Ahead {
    /// Begins to read standard input.
    pub fn start() -> io::Result<Arc<Ahead>> {
        let ahead = Arc::new(Ahead::default());
        let filled = Arc::clone(&ahead);
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || {
                let ended = read(&mut io::stdin().lock(), LINE_BYTES_MAX, |input| {
                    filled.push(input);
                });
                filled.lock().ended = Some(ended);
                filled.changed.notify_all();
            })?;
        Ok(ahead)
    }

    /// Waits for a line and takes what is there by then, up to a batch; nothing at the end.
    ///
    /// # Errors
    /// The error that ended the input, after what came before it was taken.
    pub fn take(&self) -> io::Result<Vec<Input>> {
        let mut state = self.lock();
        while state.inputs.is_empty() {
            if let Some(ended) = &mut state.ended {
                return std::mem::replace(ended, Ok(())).map(|()| Vec::new());
            }
            state = self.wait(state);
        }
        let mut batch: Vec<Input> = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_LINES
            && let Some(next) = state.inputs.front().map(Input::bytes)
            && (batch.is_empty() || bytes + next <= BATCH_BYTES)
        {
            bytes += next;
            batch.extend(state.inputs.pop_front());
        }
        state.bytes -= bytes;
        self.changed.notify_all();
        Ok(batch)
    }

    fn push(&self, input: Input) {
        let mut state = self.lock();
        while state.bytes >= BATCH_BYTES || state.inputs.len() >= BATCH_LINES {
            state = self.wait(state);
        }
        state.bytes += input.bytes();
        state.inputs.push_back(input);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `sink` for every line that is not blank.
fn read(
    from: &mut impl BufRead,
    line_bytes_max: usize,
    mut sink: impl FnMut(Input),
) -> io::Result<()> {
    let mut number = 0;
    while let Some(line) = read_line(from, line_bytes_max)? {
        number += 1;
        let text = match line {
            Line::TooLong(bytes) => Err(format!(
                "the line has {bytes} bytes: at most {line_bytes_max} are read"
            )),
            Line::Whole(bytes) if bytes.trim_ascii().is_empty() => continue,
            Line::Whole(bytes) => String::from_utf8(bytes)
                .map(|text| match text.strip_prefix(BYTE_ORDER_MARK) {
                    // Some programs put one before the first line.
                    Some(rest) if number == 1 => rest.to_owned(),
                    _ => text,
                })
                .map_err(|e| format!("not UTF-8 at byte {}", e.utf8_error().valid_up_to())),
        };
        sink(Input { line: number, text });
    }
    Ok(())
}

enum Line {
    Whole(Vec<u8>),
    /// How long it is.
    TooLong(usize),
}

/// The next line without its LF; `None` at the end.
fn read_line(from: &mut impl BufRead, line_bytes_max: usize) -> io::Result<Option<Line>> {
    let (mut line, mut len) = (Vec::new(), 0);
    let mut began = false;
    loop {
        let chunk = match from.fill_buf() {
            Ok(chunk) => chunk,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        began |= !chunk.is_empty();
        len += part.len();
        if len <= line_bytes_max {
            line.extend_from_slice(part);
        } else {
            line = Vec::new();
        }
        let is_last = chunk.is_empty();
        let used = part.len() + usize::from(end.is_some());
        from.consume(used);
        if end.is_some() || is_last {
            let line = if len <= line_bytes_max {
                Line::Whole(line)
            } else {
                Line::TooLong(len)
            };
            return Ok(began.then_some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_with_their_numbers() {
        let mut inputs = Vec::new();
        let text = b"one\r\n\n  \r\n\xff\n12345678\n123456789\nlast";
        // A small buffer, so that lines are put together.
        let mut from = io::BufReader::with_capacity(3, &text[..]);
        read(&mut from, 8, |input| inputs.push(input)).unwrap();
        let ok = |line, text: &str| Input {
            line,
            text: Ok(text.to_owned()),
        };
        let bad = |line, reason: &str| Input {
            line,
            text: Err(reason.to_owned()),
        };
        let expected = [
            ok(1, "one\r"),
            bad(4, "not UTF-8 at byte 0"),
            ok(5, "12345678"),
            bad(6, "the line has 9 bytes: at most 8 are read"),
            ok(7, "last"),
        ];
        assert_eq!(inputs, expected);
    }

    #[test]
    fn a_byte_order_mark_before_the_first_line_is_none_of_it() {
        let mut inputs = Vec::new();
        let text = "\u{feff}one\n\u{feff}two\n";
        read(&mut text.as_bytes(), 8, |input| inputs.push(input.text)).unwrap();
        assert_eq!(inputs, [Ok("one".to_owned()), Ok("\u{feff}two".to_owned())]);
    }

    #[test]
    fn a_batch_is_what_is_there() {
        let ahead = Ahead::default();
        let big = "x".repeat(BATCH_BYTES - 1);
        for (line, text) in [(1, "a"), (2, big.as_str())] {
            let text = Ok(text.to_owned());
            ahead.push(Input { line, text });
        }
        ahead.lock().ended = Some(Ok(()));
        let numbers = |batch: Vec<Input>| batch.iter().map(|input| input.line).collect::<Vec<_>>();
        assert_eq!(numbers(ahead.take().unwrap()), [1, 2]);
        assert_eq!(numbers(ahead.take().unwrap()), [0; 0]);
    }
}
