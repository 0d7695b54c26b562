//! Runs of bytes of a class. Many anchors may stand in one long run: each asks for its end, and
//! the run is gone through once.

use std::cell::{Cell, RefCell};

/// Sorts of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Class {
    Alnum,
    Hex,
    /// Capital letters and digits.
    Upper,
    Word,
    /// Those of words, and `-`.
    Dashed,
    Dotted,
    Base64,
    /// What stands between the `;` of cookies.
    Cookie,
    /// The values of cookies that are tokens.
    CookieValue,
    /// The values of assignments that have no quotes.
    Unquoted,
}

const CLASSES: [Class; 10] = [
    Class::Alnum,
    Class::Hex,
    Class::Upper,
    Class::Word,
    Class::Dashed,
    Class::Dotted,
    Class::Base64,
    Class::Cookie,
    Class::CookieValue,
    Class::Unquoted,
];

/// A bit for each class that a byte is of.
const BITS: [u16; 256] = {
    let mut bits = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut class = 0;
        while class < CLASSES.len() {
            if is_of(CLASSES[class], byte as u8) {
                bits[byte] |= 1 << CLASSES[class] as u16;
            }
            class += 1;
        }
        byte += 1;
    }
    bits
};

const fn is_of(class: Class, byte: u8) -> bool {
    let is_word = byte.is_ascii_alphanumeric() || byte == b'_';
    let is_dashed = is_word || byte == b'-';
    match class {
        Class::Alnum => byte.is_ascii_alphanumeric(),
        Class::Hex => byte.is_ascii_hexdigit(),
        Class::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        Class::Word => is_word,
        Class::Dashed => is_dashed,
        Class::Dotted => is_dashed || byte == b'.',
        Class::Base64 => is_dashed || matches!(byte, b'+' | b'/' | b'='),
        Class::Cookie => !byte.is_ascii_control() && !matches!(byte, b'"' | b'\'' | b'\\' | b';'),
        Class::CookieValue => {
            is_dashed || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=' | b':' | b'%')
        }
        Class::Unquoted => {
            !byte.is_ascii_whitespace()
                && !byte.is_ascii_control()
                && !matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b',' | b';' | b'|')
                && !matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'\\' | b'&')
        }
    }
}

impl Class {
    pub(super) fn has(self, byte: u8) -> bool {
        BITS[usize::from(byte)] & 1 << self as u16 != 0
    }
}

/// The runs of a text, as far as they were looked at.
pub(super) struct Runs<'a> {
    text: &'a [u8],
    /// The long ones of each class, in order.
    known: [RefCell<Vec<Run>>; CLASSES.len()],
    /// How far cookies were looked at.
    pub cookies_end: Cell<usize>,
}

#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
}

impl<'a> Runs<'a> {
    /// What is shorter is looked at again rather than remembered.
    const LONG_BYTES: usize = 64;

    pub(super) fn new(text: &'a [u8]) -> Runs<'a> {
        Runs {
            text,
            known: Default::default(),
            cookies_end: Cell::new(0),
        }
    }

    /// Where the run ends that `from` is in: `from` itself if its byte is of another class.
    pub(super) fn end(&self, class: Class, from: usize) -> usize {
        let end_before = |start: usize, until: usize| {
            let bytes = self.text.get(start..until).unwrap_or_default();
            let other = bytes.iter().position(|byte| !class.has(*byte));
            other.map(|len| start + len)
        };
        let near = self.text.len().min(from.saturating_add(Self::LONG_BYTES));
        if let Some(end) = end_before(from, near) {
            return end;
        }
        if near == self.text.len() {
            return near.max(from);
        }
        let mut known = self.known[class as usize].borrow_mut();
        let place = known.partition_point(|run| run.end <= from);
        let next = known.get(place).copied();
        match next {
            Some(run) if run.start <= from => return run.end,
            _ => {}
        }
        let until = next.map_or(self.text.len(), |run| run.start);
        let end = end_before(near.min(until), until);
        match (end, next) {
            (None, Some(run)) => {
                known[place].start = from;
                run.end
            }
            (end, _) => {
                let end = end.unwrap_or(until);
                known.insert(place, Run { start: from, end });
                end
            }
        }
    }
}
