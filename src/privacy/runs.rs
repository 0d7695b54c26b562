//! Runs of bytes of one class. A long run may contain many anchors, and each asks for the end of
//! the run. The run is scanned only once.

use std::cell::{Cell, RefCell};

/// Byte classes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Class {
    Alnum,
    Hex,
    /// Capital letters and digits.
    Upper,
    Word,
    /// Word bytes and `-`.
    Dashed,
    Dotted,
    Base64,
    /// Bytes of a cookie, between the `;`.
    Cookie,
    /// Bytes of a cookie's value that is a token.
    CookieValue,
    /// Bytes of an unquoted value of an assignment.
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

/// For each byte, one bit per class.
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

/// The runs of a text that were scanned so far.
pub(super) struct Runs<'a> {
    text: &'a [u8],
    /// The long runs of each class, sorted.
    known: [RefCell<Vec<Run>>; CLASSES.len()],
    /// Offset up to which cookies were scanned.
    pub cookies_end: Cell<usize>,
}

#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
}

impl<'a> Runs<'a> {
    /// Minimum length of a cached run. A shorter run is scanned again.
    const LONG_BYTES: usize = 64;

    pub(super) fn new(text: &'a [u8]) -> Runs<'a> {
        Runs {
            text,
            known: Default::default(),
            cookies_end: Cell::new(0),
        }
    }

    /// The end of the run that contains `from`, or `from` if its byte is not of the class.
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
        let until = known.get(place).map_or(self.text.len(), |next| next.start);
        if until <= from {
            return known[place].end;
        }
        let end = end_before(near.min(until), until);
        if let (None, Some(next)) = (end, known.get_mut(place)) {
            next.start = from;
            return next.end;
        }
        let end = end.unwrap_or(until);
        known.insert(place, Run { start: from, end });
        end
    }
}
