//! A fast reader for typical JSON. It returns nothing for input that it does not handle: escapes in
//! names, deep nesting, duplicate members, or invalid JSON. The caller then uses the full parser,
//! which also reports reasons.

use super::Raw;
use crate::record::{Escapes, Scanner};

/// The members of an object that are of interest.
pub(in crate::import) trait Shape<'a>: Default {
    /// Names of the members. At most 64.
    const NAMES: &'static [&'static str];

    /// Reads the value at the cursor into the member with this index.
    fn take(&mut self, name: usize, cursor: &mut Cursor<'a>) -> Option<()>;
}

/// Reads a text as an object.
pub(super) fn object<'a, T: Shape<'a>>(text: &'a str) -> Option<T> {
    let mut cursor = Cursor::new(text);
    let found = cursor.object()?;
    cursor.scanner.blanks();
    (cursor.scanner.at == text.len()).then_some(found)
}

/// Reads a text as an array and returns its items.
pub(super) fn array(text: &str) -> Option<Vec<&str>> {
    let mut cursor = Cursor::new(text);
    let mut items = Vec::new();
    cursor.items(|cursor| {
        items.push(cursor.value()?);
        Some(())
    })?;
    (cursor.scanner.at == text.len()).then_some(items)
}

/// A position in a text.
pub(in crate::import) struct Cursor<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Cursor<'a> {
        let scanner = Scanner::new(text.as_bytes());
        Cursor { text, scanner }
    }

    /// Passes the opening bracket. Returns whether the container has anything in it; if not, its
    /// closing bracket is passed too.
    fn open(&mut self, open: u8, close: u8) -> Option<bool> {
        self.scanner.expect(open)?;
        self.scanner.blanks();
        let is_empty = self.scanner.peek()? == close;
        self.scanner.at += usize::from(is_empty);
        Some(!is_empty)
    }

    /// Whether another member or item follows the one that was read.
    fn has_next(&mut self, close: u8) -> Option<bool> {
        let token = self.scanner.token()?;
        if token == b',' {
            self.scanner.blanks();
        }
        (token == b',' || token == close).then_some(token == b',')
    }

    /// Reads the object at this position.
    pub(in crate::import) fn object<T: Shape<'a>>(&mut self) -> Option<T> {
        let mut found = T::default();
        let mut seen = 0_u64;
        let mut expected = 0;
        let mut has_next = self.open(b'{', b'}')?;
        while has_next {
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
                self.scanner.value()?;
            }
            has_next = self.has_next(b'}')?;
        }
        Some(found)
    }

    /// Reads the name of a member, up to its value, and returns its index among the known names, or
    /// their number if it is unknown. Similar objects have their members in the same order, so the
    /// next known name is tried first.
    fn name<T: Shape<'a>>(&mut self, expected: usize) -> Option<usize> {
        let place = if let Some(next) = T::NAMES.get(expected).filter(|name| self.is_name(name)) {
            self.scanner.at += next.len() + 2;
            expected
        } else {
            let start = self.scanner.at;
            // An escaped name may equal a known one.
            (self.scanner.string()? == Escapes::None).then_some(())?;
            let name = self.text.get(start + 1..self.scanner.at - 1)?;
            let place = T::NAMES.iter().position(|known| *known == name);
            place.unwrap_or(T::NAMES.len())
        };
        self.scanner.expect(b':')?;
        self.scanner.blanks();
        Some(place)
    }

    fn is_name(&self, name: &str) -> bool {
        let rest = self.text.as_bytes().get(self.scanner.at..);
        let rest = rest.unwrap_or_default();
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
        let mut has_next = self.open(b'[', b']')?;
        while has_next {
            take(self)?;
            has_next = self.has_next(b']')?;
        }
        Some(())
    }

    /// Tries to read a value. On failure the position is restored.
    pub(in crate::import) fn attempt<T>(
        &mut self,
        read: impl FnOnce(&mut Cursor<'a>) -> Option<T>,
    ) -> Option<T> {
        let start = self.scanner;
        let read = read(self);
        if read.is_none() {
            self.scanner = start;
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
        let start = self.scanner.at;
        let found = self.object()?;
        Some((found, Raw(self.text.get(start..self.scanner.at))))
    }

    /// The text of the value at this position.
    fn value(&mut self) -> Option<&'a str> {
        let start = self.scanner.at;
        self.scanner.value()?;
        self.text.get(start..self.scanner.at)
    }
}

#[cfg(any(test, fuzzing))]
pub(crate) mod check;
#[cfg(test)]
mod tests;
