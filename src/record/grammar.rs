//! Validates JSON in one pass without decoding. Returns a result only if the bytes are certainly
//! valid JSON. All other input is left to the full parser, which reports reasons.

use super::JSON_DEPTH_MAX;
use super::strings::plain_len;

/// A JSON object or array at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Container {
    pub len: usize,
    /// Whether there is a line break between tokens. Strings cannot contain one.
    pub has_line_break: bool,
}

/// The object or array at the start of `json`, if it is certainly valid: nested less than
/// [`JSON_DEPTH_MAX`] deep, without lone surrogates, with numbers in the range of `f64`. Does not
/// check that `json` is UTF-8.
pub(crate) fn container(json: &[u8]) -> Option<Container> {
    let mut tokens = Tokens {
        json,
        at: 0,
        has_line_break: false,
    };
    if !matches!(json.first(), Some(b'{' | b'[')) {
        return None;
    }
    // Stack of open containers, the innermost in the lowest bit. 1 is an object.
    let (mut open, mut depth) = (0u64, 0);
    loop {
        match tokens.next()? {
            bracket @ (b'{' | b'[') => {
                let is_object = bracket == b'{';
                depth += 1;
                if depth >= JSON_DEPTH_MAX {
                    return None;
                }
                open = open << 1 | u64::from(is_object);
                tokens.blanks();
                if tokens.peek() == Some(closing(is_object)) {
                    // Closed below, like any other container.
                } else {
                    if is_object {
                        tokens.name()?;
                    }
                    continue;
                }
            }
            b'"' => tokens.string()?,
            digit @ (b'-' | b'0'..=b'9') => tokens.number(digit)?,
            b't' => tokens.word(*b"rue")?,
            b'f' => tokens.word(*b"alse")?,
            b'n' => tokens.word(*b"ull")?,
            _ => return None,
        }
        // After a value, or at the closing bracket of an empty container.
        loop {
            let is_object = open & 1 == 1;
            tokens.blanks();
            let token = tokens.next()?;
            if token == b',' {
                tokens.blanks();
                if is_object {
                    tokens.name()?;
                }
                break;
            }
            if token != closing(is_object) {
                return None;
            }
            open >>= 1;
            depth -= 1;
            if depth == 0 {
                return Some(Container {
                    len: tokens.at,
                    has_line_break: tokens.has_line_break,
                });
            }
        }
    }
}

fn closing(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

struct Tokens<'a> {
    json: &'a [u8],
    at: usize,
    has_line_break: bool,
}

impl Tokens<'_> {
    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn blanks(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.peek() {
            self.has_line_break |= matches!(byte, b'\n' | b'\r');
            self.at += 1;
        }
    }

    /// Reads a member's name and its colon.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn name(&mut self) -> Option<()> {
        if self.next()? != b'"' {
            return None;
        }
        self.string()?;
        self.blanks();
        if self.next()? != b':' {
            return None;
        }
        self.blanks();
        Some(())
    }

    /// Reads the rest of a string.
    #[inline(always)]
    #[allow(clippy::inline_always)] // Where the scan is stays in a register then.
    fn string(&mut self) -> Option<()> {
        loop {
            self.at += plain_len(self.json.get(self.at..)?);
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => match self.next()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => self.utf16_escape()?,
                    _ => return None,
                },
                _ => return None,
            }
        }
    }

    /// Reads the rest of a `\u` escape, and the second escape of a surrogate pair.
    #[cold]
    fn utf16_escape(&mut self) -> Option<()> {
        match self.utf16_unit()? {
            0xD800..=0xDBFF => {
                let is_pair = self.next()? == b'\\'
                    && self.next()? == b'u'
                    && matches!(self.utf16_unit()?, 0xDC00..=0xDFFF);
                is_pair.then_some(())
            }
            0xDC00..=0xDFFF => None,
            _ => Some(()),
        }
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
    /// Reads the rest of a number, if it is well within the range of `f64`.
    fn number(&mut self, first: u8) -> Option<()> {
        const INTEGER_DIGITS_MAX: usize = 60;
        const EXPONENT_DIGITS_MAX: usize = 2;
        let digit = if first == b'-' { self.next()? } else { first };
        match digit {
            b'0' => {}
            b'1'..=b'9' if self.digits() < INTEGER_DIGITS_MAX => {}
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return None;
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if !(1..=EXPONENT_DIGITS_MAX).contains(&self.digits()) {
                return None;
            }
        }
        Some(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    fn word<const N: usize>(&mut self, rest: [u8; N]) -> Option<()> {
        let found = self.json.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        (*found == rest).then_some(())
    }
}
