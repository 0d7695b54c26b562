//! Unquoted values that can only be text: in settings files, URLs, database connection strings and
//! options. Elsewhere an unquoted value may be code.

use super::bytes::{ends_url, is_blank, is_of_name, is_space, run, run_before, skip, trim_end};
use super::extent::Value;
use super::runs::Class;

/// Maximum distance between a value and the start of its line.
const LINE_BYTES_MAX: usize = 256;

/// The end of a value that can only be text; `None` if it may be code or prose.
pub(super) fn literal_end(text: &[u8], name: (usize, usize), value: &Value) -> Option<usize> {
    let said = &text[name.0..name.1];
    let between = &text[name.1..value.start];
    let before = name.0.checked_sub(1).map(|at| text[at]);
    let after = text.get(value.end).copied();
    let ends = after.is_none_or(|byte| {
        byte.is_ascii_whitespace() || matches!(byte, b'&' | b';' | b'|' | b'"' | b'\'')
    });
    if between == b"=" {
        if said.starts_with(b"--") {
            return ends.then_some(value.end);
        }
        // `?password=…&`, `;Password=…;`
        let is_parameter = matches!(before, Some(b'?' | b'&'));
        let is_setting =
            before == Some(b';') || after == Some(b';') && is_next_set(text, value.end);
        if is_parameter || is_setting && said[0].is_ascii_uppercase() {
            let said = &text[value.start..value.end];
            let len = memchr::memchr(b'&', said).filter(|_| is_parameter);
            let said = &said[..len.unwrap_or(said.len())];
            return Some(value.start + trim_end(said, |byte| byte == b'.').len());
        }
        let is_env = !said.iter().any(u8::is_ascii_lowercase);
        let path = path_before(text, name.0);
        let begins_line = begins_line(text, path);
        let is_property = path < name.0 && begins_line;
        if is_env && before != Some(b'.') || is_property {
            return Some(word_end(text, value));
        }
        return (begins_line && ends_line(text, value.end)).then_some(value.end);
    }
    // `password: …` in YAML or in prose.
    let is_member = between.starts_with(b":") && between[1..].iter().all(|byte| is_blank(*byte));
    let dash = text[..name.0]
        .strip_suffix(b"- ")
        .map_or(name.0, <[u8]>::len);
    let is_line =
        is_member && between.len() > 1 && begins_line(text, dash) && ends_line(text, value.end);
    (is_line && !is_in_code(text, value.end)).then_some(value.end)
}

/// The start of the dotted path whose last part is at `name`.
fn path_before(text: &[u8], name: usize) -> usize {
    name - run_before(text, name, LINE_BYTES_MAX, |byte| Class::Dotted.has(byte))
}

/// Whether only blanks precede `at` on its line.
pub(super) fn begins_line(text: &[u8], at: usize) -> bool {
    let before = &text[at.saturating_sub(LINE_BYTES_MAX)..at];
    let rest = before.iter().rev().find(|byte| !is_blank(**byte));
    rest.is_none_or(|byte| *byte == b'\n')
}

/// Whether only blanks and a comment follow `at` on its line.
fn ends_line(text: &[u8], at: usize) -> bool {
    let end = skip(text, at, |byte| is_blank(byte) || byte == b'\r');
    matches!(text.get(end), None | Some(b'\n')) || end > at && text[end] == b'#'
}

/// Whether the next line closes a block of code.
fn is_in_code(text: &[u8], at: usize) -> bool {
    let next = skip(text, at, is_space);
    matches!(text.get(next), Some(b'}' | b')' | b']'))
}

/// Whether another name is assigned after the `;` at `at`.
fn is_next_set(text: &[u8], at: usize) -> bool {
    let start = skip(text, at + 1, is_blank);
    let is_of_names = |byte| is_of_name(byte) || is_blank(byte);
    let name = run(text, start, LINE_BYTES_MAX, is_of_names);
    name > 0 && text.get(start + name) == Some(&b'=') || start == text.len()
}

/// The end of the word at the start of a value, including every character that values of settings
/// may contain.
pub(super) fn word_end(text: &[u8], value: &Value) -> usize {
    let stops =
        |byte: u8| ends_url(byte) || byte.is_ascii_control() || matches!(byte, b'|' | b';' | b'&');
    let end = value.end + run(text, value.end, LINE_BYTES_MAX, |byte| !stops(byte));
    let word = &text[value.start..end];
    // A closing bracket or comma may belong to the text around the assignment.
    let opens = word.iter().any(|byte| matches!(byte, b'(' | b'[' | b'{'));
    let is_around = |byte| byte == b',' || !opens && matches!(byte, b')' | b']' | b'}');
    value.start + trim_end(word, is_around).len()
}
