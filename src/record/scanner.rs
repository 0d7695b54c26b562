//! Scans JSON without decoding it. All that reads JSON by hand, other than the lines that decklog
//! writes, uses this scanner.

use std::ops::Range;

use super::JSON_DEPTH_MAX;
use super::strings::plain_len;

/// A position in JSON. A method returns `None` where there is no such JSON, or where it is nested
/// too deep. Does not check that the text is UTF-8.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scanner<'a> {
    json: &'a [u8],
    pub(crate) at: usize,
    /// Whether a line break between tokens was passed. Strings cannot contain one.
    pub(crate) has_line_break: bool,
    /// Whether a `\uD800`–`\uDFFF` escape that is not part of a pair was passed. It is JSON, but no
    /// text.
    pub(crate) has_lone_surrogate: bool,
}

/// The escapes in a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Escapes {
    None,
    /// Only the escapes that canonical JSON has.
    Short,
    /// A character by its number, or a slash.
    Other,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(json: &'a [u8]) -> Scanner<'a> {
        Scanner {
            json,
            at: 0,
            has_line_break: false,
            has_lone_surrogate: false,
        }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    pub(crate) fn blanks(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.peek() {
            self.has_line_break |= matches!(byte, b'\n' | b'\r');
            self.at += 1;
        }
    }

    /// Passes blanks, and one byte.
    pub(crate) fn token(&mut self) -> Option<u8> {
        self.blanks();
        self.next()
    }

    /// Passes blanks, and this byte.
    pub(crate) fn expect(&mut self, byte: u8) -> Option<()> {
        (self.token()? == byte).then_some(())
    }

    /// Passes a value: nested less than [`JSON_DEPTH_MAX`] deep, with numbers in the range of
    /// `f64`.
    pub(crate) fn value(&mut self) -> Option<()> {
        // Stack of open containers, the innermost in the lowest bit. 1 is an object.
        let (mut open, mut depth) = (0u64, 0);
        loop {
            match self.peek()? {
                bracket @ (b'{' | b'[') => {
                    let is_object = bracket == b'{';
                    depth += 1;
                    if depth >= JSON_DEPTH_MAX {
                        return None;
                    }
                    open = open << 1 | u64::from(is_object);
                    self.at += 1;
                    self.blanks();
                    if self.peek() == Some(closing(is_object)) {
                        // Closed below, like any other container.
                    } else {
                        if is_object {
                            self.name()?;
                        }
                        continue;
                    }
                }
                b'"' => {
                    self.string()?;
                }
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => self.number()?,
            }
            // After a value, or at the closing bracket of an empty container.
            loop {
                if depth == 0 {
                    return Some(());
                }
                let is_object = open & 1 == 1;
                let token = self.token()?;
                if token == b',' {
                    self.blanks();
                    if is_object {
                        self.name()?;
                    }
                    break;
                }
                if token != closing(is_object) {
                    return None;
                }
                open >>= 1;
                depth -= 1;
            }
        }
    }

    /// Passes a member's name and its colon.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn name(&mut self) -> Option<()> {
        self.string()?;
        self.expect(b':')?;
        self.blanks();
        Some(())
    }

    /// Passes a string.
    #[inline(always)]
    #[allow(clippy::inline_always)] // Where the scan is stays in a register then.
    pub(crate) fn string(&mut self) -> Option<Escapes> {
        if self.next()? != b'"' {
            return None;
        }
        let mut escapes = Escapes::None;
        loop {
            self.at += plain_len(self.json.get(self.at..)?);
            match self.next()? {
                b'"' => return Some(escapes),
                b'\\' => {
                    let escape = match self.next()? {
                        b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => Escapes::Short,
                        b'/' => Escapes::Other,
                        b'u' => self.utf16_escape()?,
                        _ => return None,
                    };
                    escapes = escapes.max(escape);
                }
                _ => return None,
            }
        }
    }

    /// Passes the rest of a `\u` escape, and the second escape of a surrogate pair.
    #[cold]
    fn utf16_escape(&mut self) -> Option<Escapes> {
        match self.utf16_unit()? {
            0xD800..=0xDBFF => {
                let mut ahead = *self;
                let is_pair = ahead.word(b"\\u").is_some()
                    && matches!(ahead.utf16_unit(), Some(0xDC00..=0xDFFF));
                if is_pair {
                    *self = ahead;
                }
                self.has_lone_surrogate |= !is_pair;
            }
            0xDC00..=0xDFFF => self.has_lone_surrogate = true,
            _ => {}
        }
        Some(Escapes::Other)
    }

    fn utf16_unit(&mut self) -> Option<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            unit = unit << 4 | char::from(self.next()?).to_digit(16)?;
        }
        Some(unit)
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn number(&mut self) -> Option<()> {
        // With no more digits, a number is well within the range of `f64`.
        const INTEGER_DIGITS_MAX: usize = 60;
        const EXPONENT_DIGITS_MAX: usize = 2;
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        let is_zero = self.peek() == Some(b'0');
        let digits = self.digits()?;
        if is_zero && digits > 1 {
            return None;
        }
        let mut is_small = digits <= INTEGER_DIGITS_MAX;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            is_small &= self.digits()? <= EXPONENT_DIGITS_MAX;
        }
        (is_small || is_in_range(self.json.get(start..self.at)?)).then_some(())
    }

    /// Passes digits, at least one, and returns their number.
    fn digits(&mut self) -> Option<usize> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        (self.at > start).then_some(self.at - start)
    }

    fn word<const N: usize>(&mut self, word: &[u8; N]) -> Option<()> {
        let found = self.json.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        (found == word).then_some(())
    }
}

fn closing(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

#[cold]
fn is_in_range(number: &[u8]) -> bool {
    let number = str::from_utf8(number).unwrap_or_default();
    number.parse().is_ok_and(f64::is_finite)
}

/// Whether a string in a JSON value has a surrogate that is not part of a pair.
pub(crate) fn has_lone_surrogate(json: &[u8]) -> bool {
    let mut scanner = Scanner::new(json);
    let _ = scanner.value();
    scanner.has_lone_surrogate
}

/// The ranges of the tokens of a text that may be JSON: strings, what looks like a number, and all
/// other bytes one by one. A string without an end is the last token, of its quote alone.
pub(crate) fn tokens(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let is_of_number = |byte: &u8| matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9');
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let rest = text.get(start..)?;
        at += match rest.first()? {
            b'"' => {
                let Some(len) = string_len(rest) else {
                    at = text.len();
                    return Some(start..start + 1);
                };
                len
            }
            b'-' | b'0'..=b'9' => rest.iter().take_while(|byte| is_of_number(byte)).count(),
            _ => 1,
        };
        Some(start..at)
    })
}

/// Length of the string at the start of a text, with its quotes; `None` if it has no end.
pub(crate) fn string_len(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}
