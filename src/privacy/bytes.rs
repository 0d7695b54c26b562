//! Scans bytes by class.

/// Number of bytes of a class from `at` on, at most `most`.
pub(super) fn run(text: &[u8], at: usize, most: usize, class: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(at..).unwrap_or_default().iter().take(most);
    rest.take_while(|byte| class(**byte)).count()
}

/// Number of bytes of a class directly before `at`, at most `most`.
pub(super) fn run_before(text: &[u8], at: usize, most: usize, class: impl Fn(u8) -> bool) -> usize {
    let before = text[..at].iter().rev().take(most);
    before.take_while(|byte| class(**byte)).count()
}

/// The end of the bytes of a class from `at` on.
pub(super) fn skip(text: &[u8], at: usize, class: impl Fn(u8) -> bool) -> usize {
    at + run(text, at, usize::MAX, class)
}

/// A text without the bytes of a class at its end.
pub(super) fn trim_end(text: &[u8], class: impl Fn(u8) -> bool) -> &[u8] {
    &text[..text.len() - run_before(text, text.len(), usize::MAX, class)]
}

pub(super) fn contains(text: &[u8], part: impl AsRef<[u8]>) -> bool {
    memchr::memmem::find(text, part.as_ref()).is_some()
}

/// Whether a text ends with a word, in upper or lower case.
pub(super) fn ends_in(text: &[u8], word: &[u8]) -> bool {
    let start = text.len().checked_sub(word.len());
    start.is_some_and(|start| text[start..].eq_ignore_ascii_case(word))
}

pub(super) fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

pub(super) fn is_alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// A byte of an identifier.
pub(super) fn is_word(byte: u8) -> bool {
    is_alnum(byte) || byte == b'_'
}

/// A byte of a name whose words may also be joined by `-`.
pub(super) fn is_of_name(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

pub(super) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace()
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The token68 alphabet of credentials in an HTTP header.
pub(super) fn is_token68(byte: u8) -> bool {
    is_of_name(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=' | b':')
}

/// Whether a URL in a text ends before this byte.
pub(super) fn ends_url(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>')
}

/// Whether a text has digits, or capital letters among others. Few words do.
pub(super) fn is_mixed(text: &[u8]) -> bool {
    let has = |class: fn(&u8) -> bool| text.iter().any(class);
    has(u8::is_ascii_digit) || has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase)
}
