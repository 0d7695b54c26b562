//! The operator between a name and its value: `=`, `: str =`, `is`, or `value:` in another member.

use super::assignment::{NAME_BYTES_MAX, after_gutter, quote_at};
use super::bytes::{is_blank, is_digit, is_of_name, is_space, run, skip, trim_end};
use super::literal::begins_line;
use super::names::words;
use super::text::starts_word;

/// An operator after a name.
#[derive(Clone, Copy)]
pub(super) struct Operator {
    pub end: usize,
    /// Only a quoted value is accepted.
    pub needs_quote: bool,
    /// The operator is a word, so the value is part of a sentence.
    pub is_said: bool,
}

impl Operator {
    fn new(end: usize) -> Operator {
        Operator {
            end,
            needs_quote: false,
            is_said: false,
        }
    }

    pub(super) fn of_quoted(end: usize) -> Operator {
        Operator {
            needs_quote: true,
            ..Operator::new(end)
        }
    }
}

pub(super) fn operator_after(text: &[u8], name: (usize, usize)) -> Option<Operator> {
    let name_end = name.1;
    // Java tools use a single dash.
    let is_flag = [&b"--"[..], b"-storepass", b"-keypass", b"requirepass"]
        .iter()
        .any(|flag| text[name.0..].starts_with(flag));
    let quoted = quote_at(text, name_end);
    let mut at = quoted.map_or(name_end, |(end, _)| end);
    if let Some(end) = after_value_name(text, at) {
        return Some(Operator::new(end));
    }
    at = after_marks(text, at, quoted.is_some());
    let rest = &text[at..];
    let plain = |len| Some(Operator::new(at + len));
    if at > name_end
        && quoted.is_none()
        && let Some(len) = verb(rest)
    {
        return Some(Operator {
            is_said: true,
            ..Operator::new(at + len)
        });
    }
    match rest {
        [b':', b':', ..] => None,
        [b':' | b'?', b'=', ..] | [b'=', b'>' | b'=', ..] => plain(2),
        [b'=', ..] => plain(1),
        [b':', ..] => Some(Operator::new(after_type(text, at + 1))),
        [b',' | b'{', ..]
            if quoted.is_some()
                && let Some(end) = declared_default(rest) =>
        {
            Some(Operator::of_quoted(at + end))
        }
        [b',', ..] if quoted.is_some() => Some(Operator::of_quoted(at + 1)),
        [b'[', ..]
            if at > name_end
                && let Some(len) = shown_default(rest) =>
        {
            plain(len)
        }
        _ if at > name_end
            && let Some(len) = go_type(rest) =>
        {
            Some(Operator::of_quoted(at + len))
        }
        _ if let Some(sign) = FOREIGN_SIGNS
            .iter()
            .find(|sign| rest.starts_with(sign.as_bytes())) =>
        {
            plain(sign.len())
        }
        // `PASSWORD '…'` in SQL, `.password("…")`.
        [b'\'' | b'"', ..] if quoted.is_none() && at > name_end && is_password(text, name) => {
            plain(0)
        }
        [b'F' | b'f', b'O' | b'o', b'R' | b'r', b' ', ..] if is_password(text, name) => {
            let near = &rest[..rest.len().min(NAME_BYTES_MAX)];
            plain(memchr::memchr2(b'=', b'\n', near).filter(|len| near[*len] == b'=')? + 1)
        }
        [b'(', ..] if quoted.is_none() && is_password(text, name) => {
            Some(Operator::of_quoted(at + 1))
        }
        _ if quoted.is_none()
            && at > name_end
            && (is_flag || is_set_by_word(text, name.0) || is_row(text, name.0, at)) =>
        {
            plain(0)
        }
        _ => None,
    }
}

/// Skips what can be between a name and its operator: emphasis, array size, blanks.
fn after_marks(text: &[u8], mut at: usize, is_quoted: bool) -> usize {
    if !is_quoted {
        // `**Password**:`
        at = skip(text, at, |byte| byte == b'*');
    }
    // `char password[16] = "…"`
    let size = skip(text, at + 1, is_digit);
    if text.get(at) == Some(&b'[') && text.get(size) == Some(&b']') {
        at = size;
    }
    at = skip(text, at, |byte| byte == b']');
    skip(text, at, if is_quoted { is_space } else { is_blank })
}

/// The text after `default =` in a call or block that declares the name: `("--password",
/// default="…")`, `"db_password" { default = "…" }`.
fn declared_default(rest: &[u8]) -> Option<usize> {
    const NEAR_BYTES: usize = 256;
    const WORD: &[u8] = b"default";
    let near = &rest[..rest.len().min(NEAR_BYTES)];
    let ends = |byte: &u8| matches!(byte, b')' | b'}' | b']' | b';');
    let near = &near[..near.iter().position(ends).unwrap_or(near.len())];
    let at = memchr::memmem::find(near, WORD)?;
    let sign = skip(near, at + WORD.len(), is_blank);
    matches!(near.get(sign), Some(b'=' | b':')).then_some(sign + 1)
}

/// The current value that a prompt shows before the colon: `Secret Access Key [None]: `.
fn shown_default(rest: &[u8]) -> Option<usize> {
    const SHOWN_BYTES_MAX: usize = 48;
    let near = &rest[..rest.len().min(SHOWN_BYTES_MAX)];
    let end = memchr::memchr(b']', near)? + 1;
    near[end..].starts_with(b": ").then_some(end + 1)
}

/// A type between a name and its value without a colon: `var password string = "…"`.
fn go_type(rest: &[u8]) -> Option<usize> {
    const TYPES: [&[u8]; 3] = [b"string ", b"*string ", b"[]byte "];
    let known = TYPES.iter().find(|known| rest.starts_with(known))?;
    let sign = skip(rest, known.len(), is_blank);
    (rest.get(sign) == Some(&b'=')).then_some(sign + 1)
}

/// Whether the name at `at` begins a row of a table below a line of dashes, with the next column at
/// `next`: `password    …`.
fn is_row(text: &[u8], at: usize, next: usize) -> bool {
    const BEFORE_BYTES_MAX: usize = 1024;
    let is_rule = |line: &[u8]| {
        let columns = line.split(u8::is_ascii_whitespace);
        let mut columns = columns.filter(|column| !column.is_empty());
        let is_dashes = |column: &[u8]| column.len() > 1 && column.iter().all(|byte| *byte == b'-');
        columns.clone().count() > 1 && columns.all(is_dashes)
    };
    let before = &text[at.saturating_sub(BEFORE_BYTES_MAX)..at];
    text[..next].ends_with(b"  ")
        && begins_line(text, at)
        && before.split(|byte| *byte == b'\n').any(is_rule)
}

/// The full-width colon and the words for `is` in Chinese and Japanese.
const FOREIGN_SIGNS: [&str; 4] = ["：", "は", "是", "为"];

/// Length of the words before a password in a sentence: `is `, `was changed to `.
fn verb(rest: &[u8]) -> Option<usize> {
    const VERBS: [&[u8]; 5] = [b"is ", b"was ", b"ist ", b"est ", b"es "];
    const MORE: [&[u8]; 5] = [b"now ", b"set to ", b"changed to ", b"reset to ", b"jetzt "];
    let len = |known: &[&[u8]], rest: &[u8]| {
        let known = known.iter().find(|word| rest.starts_with(word));
        known.map(|word| word.len())
    };
    let verb = len(&VERBS, rest)?;
    Some(verb + len(&MORE, &rest[verb..]).unwrap_or_default())
}

/// The default after an expression that may have no value: `|| "…"`, `?? "…"`, `?: "…"`, `or "…"`.
pub(super) fn default_after(text: &[u8], name: (usize, usize)) -> Option<Operator> {
    const OPERATORS: [&[u8]; 5] = [b"||", b"??", b"?:", b"or ", b"{ "];
    let at = quote_at(text, name.1).map_or(name.1, |(end, _)| end);
    let at = skip(text, at, |byte| matches!(byte, b']' | b')'));
    let at = skip(text, at, is_space);
    let rest = &text[at..];
    let operator = OPERATORS.iter().find(|known| rest.starts_with(known))?;
    Some(Operator::of_quoted(at + operator.len()))
}

/// Whether a name is `password` or the name of a setter for one.
fn is_password(text: &[u8], name: (usize, usize)) -> bool {
    const BEFORE: [&str; 6] = ["set", "with", "user", "db", "store", "key"];
    let words = words(&text[name.0..name.1]);
    words.split_last().is_some_and(|(last, before)| {
        last == "password" && before.iter().all(|word| BEFORE.contains(&word.as_str()))
    })
}

/// Whether the word before the name at `at` sets it to the next word: `ENV`, `setenv`, `set -x`,
/// `configure set`.
fn is_set_by_word(text: &[u8], at: usize) -> bool {
    const BEFORE_BYTES_MAX: usize = 32;
    const WORDS: [&[u8]; 6] = [
        b"ENV",
        b"setenv",
        b"SetEnv",
        b"setx",
        b"configure set",
        b"config set",
    ];
    let before = &text[at.saturating_sub(BEFORE_BYTES_MAX)..at];
    let word = trim_end(before, is_blank);
    let flag = memchr::memrchr(b' ', word).map(|blank| word.split_at(blank));
    let is_fish = flag.is_some_and(|(set, flag)| {
        set.trim_ascii_end().ends_with(b"set")
            && (flag.ends_with(b"x") || flag == b" --export")
            && flag.starts_with(b" -")
    });
    let ends = |known: &&[u8]| word.ends_with(known) && starts_word(word, word.len() - known.len());
    word.len() < before.len() && (is_fish || WORDS.iter().any(ends))
}

/// The offset after `: Type =`, or `at` if there is no type.
fn after_type(text: &[u8], at: usize) -> usize {
    const TYPE_BYTES_MAX: usize = 40;
    let is_of_type = |byte| is_of_name(byte) || b" &<>[]'|.".contains(&byte);
    let rest = &text[at..];
    let len = run(rest, 0, TYPE_BYTES_MAX, is_of_type);
    let has_value = rest.get(len) == Some(&b'=') && rest[..len].ends_with(b" ");
    if has_value { at + len + 1 } else { at }
}

/// The offset after `value:` in the next member, as in lists of name and value pairs.
fn after_value_name(text: &[u8], at: usize) -> Option<usize> {
    const SEPARATORS_BYTES_MAX: usize = 80;
    const VALUE: &[u8] = b"value";
    let near = &text[..text.len().min(at + SEPARATORS_BYTES_MAX)];
    let (mut next, mut commas) = (at, 0);
    while let Some(byte) = near.get(next) {
        match byte {
            b'\n' => next = after_gutter(near, next + 1),
            b',' => (next, commas) = (next + 1, commas + 1),
            byte if byte.is_ascii_whitespace() => next += 1,
            _ => break,
        }
    }
    if next == at || commas > 1 {
        return None;
    }
    let quoted = quote_at(text, next);
    let start = quoted.map_or(next, |(start, _)| start);
    let end = start
        + run(text, start, NAME_BYTES_MAX, |byte| {
            byte.is_ascii_alphabetic()
        });
    let is_value = end - start >= VALUE.len()
        && end - start <= "ParameterValue".len()
        && text[end - VALUE.len()..end].eq_ignore_ascii_case(VALUE);
    if !is_value {
        return None;
    }
    let closing = quoted.and_then(|_| quote_at(text, end));
    if quoted.map(|(_, quote)| quote) != closing.map(|(_, quote)| quote) {
        return None;
    }
    let colon = skip(text, closing.map_or(end, |(end, _)| end), is_blank);
    matches!(text.get(colon), Some(b':' | b'=')).then_some(colon + 1)
}
