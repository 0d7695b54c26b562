//! A fast reader for typical JSON. It returns nothing for input that it does not handle: white
//! space other than blanks, escapes in names, deep nesting, duplicate members, or invalid JSON. The
//! caller then uses the full parser, which also reports reasons.

use super::Raw;

/// Maximum nesting depth inside a member.
const DEPTH_MAX: u32 = 64;
/// Number of words of a string that are scanned one by one. After these a search is started, which
/// has a fixed cost.
const WORDS: usize = 4;

/// The members of an object that are of interest.
pub(in crate::import) trait Shape<'a>: Default {
    /// Names of the members. At most 64.
    const NAMES: &'static [&'static str];

    /// Index of a name in `NAMES`.
    fn place(name: &str) -> Option<usize>;

    /// Reads the value at the cursor into the member with this index.
    fn take(&mut self, name: usize, cursor: &mut Cursor<'a>) -> Option<()>;
}

/// Reads a text as an object.
pub(super) fn object<'a, T: Shape<'a>>(text: &'a str) -> Option<T> {
    let mut cursor = Cursor::new(text)?;
    cursor.blanks();
    let found = cursor.object()?;
    cursor.blanks();
    (cursor.at == text.len()).then_some(found)
}

/// Reads a text as an array and returns its items.
pub(super) fn array(text: &str) -> Option<Vec<&str>> {
    let mut cursor = Cursor::new(text)?;
    let mut items = Vec::new();
    cursor.items(|cursor| {
        items.push(cursor.value()?);
        Some(())
    })?;
    (cursor.at == text.len()).then_some(items)
}

/// A position in a text without control characters.
pub(in crate::import) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Option<Cursor<'a>> {
        // Computes the minimum instead of searching, because it is vectorized.
        let least = text.bytes().fold(u8::MAX, u8::min);
        (least >= b' ').then_some(Cursor { text, at: 0 })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// The byte after an item and any blanks.
    fn next(&mut self) -> Option<u8> {
        self.blanks();
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// Reads the object at this position.
    pub(in crate::import) fn object<T: Shape<'a>>(&mut self) -> Option<T> {
        let mut found = T::default();
        let mut seen = 0_u64;
        let mut expected = 0;
        self.expect(b'{')?;
        self.blanks();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(found);
        }
        loop {
            self.blanks();
            let name = self.name::<T>(expected)?;
            if name < T::NAMES.len() {
                let bit = 1_u64 << name;
                if seen & bit != 0 {
                    return None;
                }
                seen |= bit;
                expected = name + 1;
                found.take(name, self)?;
            } else {
                self.skip()?;
            }
            match self.next()? {
                b',' => {}
                b'}' => return Some(found),
                _ => return None,
            }
        }
    }

    /// Reads the name of a member, up to its value, and returns its index among the known names, or
    /// their number if it is unknown. Similar objects have their members in the same order, so the
    /// next known name is tried first.
    fn name<T: Shape<'a>>(&mut self, expected: usize) -> Option<usize> {
        let place = if let Some(next) = T::NAMES.get(expected).filter(|name| self.is_name(name)) {
            self.at += next.len() + 2;
            expected
        } else {
            let start = self.at;
            // An escaped name may equal a known one.
            if !self.skip_string()? {
                return None;
            }
            let name = self.text.get(start + 1..self.at - 1)?;
            T::place(name).unwrap_or(T::NAMES.len())
        };
        self.expect(b':')?;
        self.blanks();
        Some(place)
    }

    fn is_name(&self, name: &str) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let end = name.len() + 1;
        rest.first() == Some(&b'"')
            && rest.get(end) == Some(&b'"')
            && rest.get(1..end) == Some(name.as_bytes())
    }

    /// Reads the array at this position item by item.
    pub(in crate::import) fn items(
        &mut self,
        mut take: impl FnMut(&mut Cursor<'a>) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'[')?;
        self.blanks();
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.blanks();
            take(self)?;
            match self.next()? {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Tries to read a value. On failure the position is restored.
    pub(in crate::import) fn attempt<T>(
        &mut self,
        read: impl FnOnce(&mut Cursor<'a>) -> Option<T>,
    ) -> Option<T> {
        let start = self.at;
        let read = read(self);
        if read.is_none() {
            self.at = start;
        }
        read
    }

    /// The raw value at this position.
    pub(in crate::import) fn raw(&mut self) -> Option<Raw<'a>> {
        let value = self.value()?;
        Some(Raw(Some(value).filter(|value| *value != "null")))
    }

    /// The object at this position, parsed and raw.
    pub(in crate::import) fn object_and_raw<T: Shape<'a>>(&mut self) -> Option<(T, Raw<'a>)> {
        let start = self.at;
        let found = self.object()?;
        Some((found, Raw(self.text.get(start..self.at))))
    }

    /// The text of the value at this position.
    fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.skip()?;
        self.text.get(start..self.at)
    }

    fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' | b'[' => self.skip_nested(),
            _ => self.skip_scalar(),
        }
    }

    fn skip_nested(&mut self) -> Option<()> {
        // One bit per level, set for an object.
        let (mut levels, mut depth) = (0_u64, 0);
        loop {
            let open = self.peek()?;
            if matches!(open, b'{' | b'[') {
                let is_object = open == b'{';
                depth += 1;
                if depth > DEPTH_MAX {
                    return None;
                }
                levels = levels << 1 | u64::from(is_object);
                self.at += 1;
                self.blanks();
                if self.peek()? == open + 2 {
                    // The object or array is empty.
                } else if is_object {
                    self.skip_name()?;
                    continue;
                } else {
                    continue;
                }
            } else {
                self.skip_scalar()?;
            }
            loop {
                if depth == 0 {
                    return Some(());
                }
                let in_object = levels & 1 == 1;
                match self.next()? {
                    b',' if in_object => {
                        self.blanks();
                        self.skip_name()?;
                        break;
                    }
                    b',' => {
                        self.blanks();
                        break;
                    }
                    b'}' if in_object => {}
                    b']' if !in_object => {}
                    _ => return None,
                }
                levels >>= 1;
                depth -= 1;
            }
        }
    }

    /// Skips the name of a member, up to its value.
    fn skip_name(&mut self) -> Option<()> {
        self.skip_string()?;
        self.expect(b':')?;
        self.blanks();
        Some(())
    }

    fn skip_scalar(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.skip_string().map(|_| ()),
            b't' => self.skip_word("true"),
            b'f' => self.skip_word("false"),
            b'n' => self.skip_word("null"),
            _ => self.skip_number(),
        }
    }

    fn skip_word(&mut self, word: &str) -> Option<()> {
        let end = self.at + word.len();
        (self.text.as_bytes().get(self.at..end)? == word.as_bytes()).then_some(())?;
        self.at = end;
        Some(())
    }

    fn skip_number(&mut self) -> Option<()> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.skip_digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek()?, b'+' | b'-') {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Some(())
    }

    fn skip_digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Skips a string. Returns whether it has no escapes.
    fn skip_string(&mut self) -> Option<bool> {
        let bytes = self.text.as_bytes();
        (self.peek()? == b'"').then_some(())?;
        self.at += 1;
        let mut is_plain = true;
        loop {
            self.at += quote_or_escape(bytes.get(self.at..)?)?;
            if bytes.get(self.at) == Some(&b'"') {
                self.at += 1;
                return Some(is_plain);
            }
            is_plain = false;
            match bytes.get(self.at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                b'u' => {
                    let digits = bytes.get(self.at + 2..self.at + 6)?;
                    digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                    self.at += 6;
                }
                _ => return None,
            }
        }
    }
}

fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    // The lowest byte whose high bit is set is zero in the input.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (words, _) = bytes.as_chunks();
    for (place, word) in words.iter().take(WORDS).enumerate() {
        let word = u64::from_le_bytes(*word);
        let found =
            zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(place * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let at = words.len().min(WORDS) * 8;
    memchr::memchr2(b'"', b'\\', bytes.get(at..)?).map(|found| at + found)
}

#[cfg(any(test, fuzzing))]
pub(crate) mod check;
#[cfg(test)]
mod tests;
