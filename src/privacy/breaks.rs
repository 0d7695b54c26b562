//! Line breaks inside a key or a token, made by a terminal, a mail program or a person.

use super::bytes::{is_mixed, is_of_name, run, run_before, skip, trim_end};

/// Whether a text contains such a line break.
pub(super) fn has_any(text: &[u8]) -> bool {
    memchr::memchr2_iter(b'\n', b'\r', text).any(|at| {
        let is_mail = at > 0 && text[at - 1] == b'=';
        break_at(text, at - usize::from(is_mail)).is_some()
    })
}

/// Length of the line break at `at`, if it may be inside a token, or if it is a lone carriage
/// return.
pub(super) fn break_at(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let (len, is_wrap) = match rest {
        [b'\n', ..] => (1, true),
        [b'\r' | b'=', b'\n', ..] => (2, true),
        [b'\r', ..] => (1, false),
        [b'=', b'\r', b'\n', ..] => (3, true),
        _ => return None,
    };
    let parts = Halves::around(text, at, at + len)?;
    let line_end = at + usize::from(rest[0] == b'=');
    (!is_wrap || parts.were_one(text, line_end)).then_some(len)
}

/// Like `has_any`, for JSON whose strings are not decoded: whether an escape may be such a line
/// break.
pub(super) fn has_break(json: &[u8]) -> bool {
    memchr::memchr_iter(b'\\', json).any(|at| {
        if !matches!(json.get(at + 1), Some(b'n' | b'r')) {
            return false;
        }
        let start = trim_end(&json[..at], |byte| matches!(byte, b'\\' | b'=')).len();
        let next = skip(json, at + 2, |byte| byte == b'\\');
        let is_pair = next > at + 2 && json.get(next) == Some(&b'n');
        let end = if is_pair { next + 1 } else { at + 2 };
        let is_return = json[at + 1] == b'r' && !is_pair;
        // A backslash before the line break is escaped too.
        let has_backslash = at - start >= 2;
        let blanks = if has_backslash { usize::MAX } else { 0 };
        let end = end + run(json, end, blanks, |byte| byte == b' ');
        let halves = Halves::around(json, start, end);
        halves.is_some_and(|it| is_return || has_backslash || it.may_be_token())
    })
}

/// The text on both sides of a line break, without blanks.
pub(super) struct Halves<'a> {
    before: &'a [u8],
    after: &'a [u8],
    /// The second half is a name to which a value is assigned.
    is_name: bool,
}

impl<'a> Halves<'a> {
    /// Returns `None` if either half is empty.
    pub(super) fn around(text: &'a [u8], start: usize, end: usize) -> Option<Halves<'a>> {
        const BYTES_MAX: usize = 256;
        let is_of_token = |byte| is_of_name(byte) || matches!(byte, b'.' | b'+' | b'/');
        let before = run_before(text, start, BYTES_MAX, is_of_token);
        let after = run(text, end, BYTES_MAX, is_of_token);
        let is_name = match text.get(end + after..).unwrap_or_default() {
            [b':', ..] => true,
            [b'=', next, ..] => !next.is_ascii_whitespace() && *next != b'=',
            _ => false,
        };
        (before > 0 && after > 0).then(|| Halves {
            before: &text[start - before..start],
            after: &text[end..end + after],
            is_name,
        })
    }

    /// Whether both halves are long enough for a token and consist of token characters.
    pub(super) fn may_be_token(&self) -> bool {
        const BYTES_MIN: usize = 16;
        self.before.len() + self.after.len() >= BYTES_MIN
            && !self.is_name
            && (is_mixed(self.before) || is_mixed(self.after))
    }

    /// Whether the halves are a token that was broken at the end of its line, `end`: the line has a
    /// width usual for terminals and mail, or the second half is not a word.
    fn were_one(&self, text: &[u8], end: usize) -> bool {
        const WIDTHS: [usize; 10] = [64, 70, 72, 76, 78, 80, 100, 120, 132, 160];
        const WIDTH_MIN: usize = 40;
        const WIDTH_MAX: usize = 1024;
        const REST_MIN: usize = 4;
        if !self.may_be_token() {
            return false;
        }
        let near = &text[end.saturating_sub(WIDTH_MAX)..end];
        let line = near.iter().rposition(|byte| *byte == b'\n');
        let line = &near[line.map_or(0, |at| at + 1)..];
        let is_first = |byte: &&u8| **byte & 0xC0 != 0x80;
        let width = line.iter().filter(is_first).count();
        WIDTHS.contains(&width)
            || width >= WIDTH_MIN && self.after.len() >= REST_MIN && is_mixed(self.after)
    }
}
