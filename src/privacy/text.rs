//! Distinguishes secrets from text that looks similar: word starts and randomness.

use super::bytes::{contains, is_mixed};
use super::names::words;

/// Whether a word starts at `at`: at the start of the text, or after a byte that is not a letter or
/// digit. The letters of an undecoded escape (`\n`, `\u000a`, `%20`) and of a terminal colour
/// (`[0m`) do not count as letters before it.
pub(super) fn starts_word(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    let Some(last) = before.last() else {
        return true;
    };
    !last.is_ascii_alphanumeric() || ends_in_escape(before)
}

fn ends_in_escape(before: &[u8]) -> bool {
    let back = |n: usize| before.len().checked_sub(n).map(|at| before[at]);
    let hex = |n: usize| back(n).is_some_and(|byte| byte.is_ascii_hexdigit());
    let simple =
        back(2) == Some(b'\\') && matches!(back(1), Some(b'n' | b'r' | b't' | b'b' | b'f'));
    let percent = back(3) == Some(b'%') && hex(1) && hex(2);
    let unicode = back(6) == Some(b'\\') && back(5) == Some(b'u') && (1..=4).all(hex);
    let is_colour = || {
        let Some(codes) = before.strip_suffix(b"m") else {
            return false;
        };
        let codes = codes.iter().rev().take(12);
        let mut codes = codes.skip_while(|byte| byte.is_ascii_digit() || **byte == b';');
        codes.next() == Some(&b'[')
    };
    simple || percent || unicode || is_colour()
}

/// Words that are used in place of a secret.
const PLACEHOLDERS: &[&str] = &[
    "example",
    "placehold",
    "changeme",
    "change_me",
    "change-me",
    "replace",
    "redacted",
    "goes-here",
    "goes_here",
    "goeshere",
    "notreal",
    "not-real",
    "not_real",
];
/// Words used in place of a secret that are so short that random text may contain them.
const SHORT_PLACEHOLDERS: &[&str] = &[
    "your", "xxxx", "dummy", "****", "....", "todo", "fake", "insert", "sample",
];
/// Number of bytes of a text that are examined. A long text may contain many candidates.
const LOOKED_AT: usize = 256;

/// Whether a text is a stand-in for a secret.
pub(super) fn is_placeholder(text: &[u8]) -> bool {
    // Long random text contains any short word somewhere by chance.
    let lower = lower_start(text);
    let mut short = SHORT_PLACEHOLDERS.iter();
    let mut has_short = || short.any(|word| contains(&lower, word));
    has_placeholder(&lower, 6) || !is_jumbled(text) && has_short()
}

/// The part of a text in which stand-ins are searched, in lower case.
fn lower_start(text: &[u8]) -> Vec<u8> {
    text[..text.len().min(64)].to_ascii_lowercase()
}

/// Whether a text contains a word that does not occur by chance, or `row` characters that are equal
/// or consecutive.
fn has_placeholder(lower: &[u8], row: usize) -> bool {
    let is_row = |goes_on: fn(&u8, &u8) -> bool| {
        let mut rows = lower.chunk_by(goes_on);
        rows.any(|one| one.len() >= row)
    };
    PLACEHOLDERS.iter().any(|word| contains(lower, word))
        // Like `abcdef` or `123456`.
        || is_row(|a, b| a.is_ascii_alphanumeric() && a.checked_add(1) == Some(*b))
        || is_row(|a, b| a == b)
}

/// Whether a short word is delimited on both sides, which does not occur by chance.
fn has_short_word(lower: &[u8]) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    SHORT_PLACEHOLDERS.iter().any(|word| {
        memchr::memmem::find_iter(lower, word.as_bytes()).any(|at| {
            is_edge(at.checked_sub(1).and_then(|before| lower.get(before)))
                && is_edge(lower.get(at + word.len()))
        })
    })
}

/// Whether lower case, upper case and digits alternate more often than in words.
fn is_jumbled(text: &[u8]) -> bool {
    const BYTES_MIN: usize = 20;
    let text = &text[..text.len().min(LOOKED_AT)];
    let sort = |byte: u8| (byte.is_ascii_lowercase(), byte.is_ascii_uppercase());
    let changes = text.windows(2).filter(|two| sort(two[0]) != sort(two[1]));
    text.len() >= BYTES_MIN && changes.count() * 20 > text.len() * 9
}

/// Whether a token's text is random, as a key is and a name is not. Only its start is examined.
pub(super) fn is_random(text: &[u8]) -> bool {
    let text = &text[..text.len().min(LOOKED_AT)];
    is_mixed(text) && is_no_placeholder(text)
}

/// Whether the text after a token prefix may be random. Random text contains a short word in one of
/// several thousand cases. Short words are therefore ignored in text that looks random; elsewhere
/// they count only if delimited.
pub(super) fn is_no_placeholder(text: &[u8]) -> bool {
    const LONG_BYTES: usize = 20;
    let text = &text[..text.len().min(LOOKED_AT)];
    let least = if text.len() < LONG_BYTES { 5 } else { 8 };
    let lower = lower_start(text);
    distinct(text) >= least
        && !has_placeholder(&lower, 8)
        && (is_jumbled(text) || !has_short_word(&lower))
}

/// Number of distinct bytes.
pub(super) fn distinct(text: &[u8]) -> u32 {
    let mut seen = [0u64; 4];
    for byte in text {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|word| word.count_ones()).sum()
}

/// Whether a text is random base64 and not a path: it has letters of both cases, which alternate
/// more often than in names.
pub(super) fn is_base64_at_random(text: &[u8]) -> bool {
    const BYTES_MIN: usize = 32;
    let has = |class: fn(&u8) -> bool| text.iter().any(class);
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    (BYTES_MIN..=LOOKED_AT).contains(&text.len())
        && text.iter().all(is_base64)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && words(text).len() * 7 > text.len() * 2
}

pub(super) fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Ids that are not secrets: UUIDs, ULIDs, ids of calls, labelled hashes.
pub(super) fn is_id(value: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 17] = [
        b"call_",
        b"toolu_",
        b"chatcmpl-",
        b"msg_",
        b"req_",
        b"resp_",
        b"run_",
        b"thread_",
        b"sha256",
        b"sha512",
        b"sha1",
        b"arn:",
        b"op:",
        b"env:",
        b"ssm:",
        b"vault:",
        b"data:",
    ];
    let is_sortable_id = value.len() == 26
        && matches!(value[0], b'0'..=b'7')
        && value
            .iter()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    is_uuid(value) || is_sortable_id || PREFIXES.iter().any(|prefix| value.starts_with(prefix))
}
