//! A fast reading of JSON that is as it mostly is. It answers nothing for what it does not know:
//! other white space than blanks, escapes in names, deep nesting, a member named twice, or what is
//! no JSON. The parser behind it then has the word, and the reasons.

use super::Raw;

/// The deepest nesting that is read here, within a member.
const DEPTH_MAX: u32 = 64;
/// How much of a string is looked at word by word: to start a search through more of it costs.
const WORDS: usize = 4;

/// The members of an object that are looked for.
pub(in crate::import) trait Shape<'a>: Default {
    /// Their names; at most 64.
    const NAMES: &'static [&'static str];

    /// Takes the value at the cursor for the member of a name.
    fn take(&mut self, name: usize, cursor: &mut Cursor<'a>) -> Option<()>;
}

/// The object that a text is.
pub(super) fn object<'a, T: Shape<'a>>(text: &'a str) -> Option<T> {
    let mut cursor = Cursor::new(text)?;
    cursor.blanks();
    let found = cursor.object()?;
    cursor.blanks();
    (cursor.at == text.len()).then_some(found)
}

/// The items of the array that a text is.
pub(super) fn array(text: &str) -> Option<Vec<&str>> {
    let mut cursor = Cursor::new(text)?;
    let mut items = Vec::new();
    cursor.items(|cursor| {
        items.push(cursor.value()?);
        Some(())
    })?;
    (cursor.at == text.len()).then_some(items)
}

/// A place in a text without control characters.
pub(in crate::import) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Option<Cursor<'a>> {
        // As a sum, not as a search: that goes many bytes at a time.
        let controls = |bytes: &[u8]| bytes.iter().fold(false, |any, byte| any | (*byte < b' '));
        let any = text.as_bytes().chunks(1 << 10).any(controls);
        (!any).then_some(Cursor { text, at: 0 })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// The byte that ends an item or the space before it.
    fn next(&mut self) -> Option<u8> {
        self.blanks();
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// The object at this place.
    pub(in crate::import) fn object<T: Shape<'a>>(&mut self) -> Option<T> {
        let mut found = T::default();
        let mut seen = 0_u64;
        let mut hint = 0;
        self.expect(b'{')?;
        self.blanks();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(found);
        }
        loop {
            self.blanks();
            let name = self.string()?;
            let name = name.get(1..name.len() - 1)?;
            self.expect(b':')?;
            self.blanks();
            if let Some(known) = position(T::NAMES, name, hint) {
                let bit = 1_u64 << known;
                if seen & bit != 0 {
                    return None;
                }
                seen |= bit;
                hint = known + 1;
                found.take(known, self)?;
            } else {
                if memchr::memchr(b'\\', name.as_bytes()).is_some() {
                    return None;
                }
                self.skip()?;
            }
            match self.next()? {
                b',' => {}
                b'}' => return Some(found),
                _ => return None,
            }
        }
    }

    /// The array at this place, item by item.
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

    /// Reads ahead: what is not understood so is left where it is.
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

    /// The value at this place, as a member.
    pub(in crate::import) fn raw(&mut self) -> Option<Raw<'a>> {
        let value = self.value()?;
        Some(Raw(Some(value).filter(|value| *value != "null")))
    }

    /// The text of the value at this place.
    fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.skip()?;
        self.text.get(start..self.at)
    }

    /// The string at this place, with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.skip_string()?;
        self.text.get(start..self.at)
    }

    fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' | b'[' => self.skip_nested(),
            _ => self.skip_scalar(),
        }
    }

    fn skip_nested(&mut self) -> Option<()> {
        // A bit for each level, set for an object.
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
                    // Closed at once.
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

    /// The name of a member, up to its value.
    fn skip_name(&mut self) -> Option<()> {
        self.skip_string()?;
        self.expect(b':')?;
        self.blanks();
        Some(())
    }

    fn skip_scalar(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.skip_string(),
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

    fn skip_string(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        (self.peek()? == b'"').then_some(())?;
        self.at += 1;
        loop {
            self.at += quote_or_escape(bytes.get(self.at..)?)?;
            if bytes.get(self.at) == Some(&b'"') {
                self.at += 1;
                return Some(());
            }
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

/// The place of a name; the members of objects that are alike come in the same order, so the one
/// after the last is the likeliest.
fn position(names: &[&str], name: &str, hint: usize) -> Option<usize> {
    let (before, after) = names.split_at_checked(hint)?;
    let found = after.iter().position(|known| *known == name);
    match found {
        Some(place) => Some(hint + place),
        None => before.iter().position(|known| *known == name),
    }
}

fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    // A byte of zero is the lowest one of which the high bit is set.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut at = 0;
    for _ in 0..WORDS {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) else {
            break;
        };
        let word = u64::from_le_bytes(*word);
        let found =
            zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', bytes.get(at..)?).map(|found| at + found)
}
