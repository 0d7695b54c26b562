//! What was read, as JSON. Integers that a double does not hold are marked: JavaScript reads them as
//! `BigInt`.

use decklog::bindings::has_long_number;
use napi::Result;
use serde::Serialize;

use crate::errors;

/// The greatest integer up to which a double holds all of them.
const SAFE_MAX: u64 = (1 << 53) - 1;
/// The least number of digits of a greater one.
const DIGITS_MIN: usize = 16;
/// What JSON with marked numbers begins with.
const MARKED: u8 = b'!';

/// A value as JSON.
pub(crate) fn text(value: &impl Serialize) -> Result<String> {
    let mut json = serde_json::to_vec(value).map_err(errors::fault)?;
    if has_long_number(&json, DIGITS_MIN)
        && let Some(marked) = marked(&json)
    {
        json = marked;
    }
    String::from_utf8(json).map_err(errors::fault)
}

/// As [`text`]; `None` for none.
pub(crate) fn optional(value: Option<impl Serialize>) -> Result<Option<String>> {
    value.map(|value| text(&value)).transpose()
}

/// The JSON with each integer that is too great as a text that begins with a mark. Texts that begin
/// with U+0000, as the mark does, get another one before. `None` if no integer is too great.
fn marked(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(json.len() + 64);
    out.push(MARKED);
    let mut at = 0;
    let mut is_marked = false;
    while let Some(byte) = json.get(at) {
        let length = match byte {
            b'"' => {
                let length = text_length(&json[at..]);
                // JSON has no other form of it.
                if json[at + 1..].starts_with(b"\\u0000") && !is_name(&json[at + length..]) {
                    out.extend_from_slice(b"\"\\u0000");
                    out.extend_from_slice(&json[at + 1..at + length]);
                    at += length;
                    continue;
                }
                length
            }
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let length = json[at..].iter().take_while(is_part).count();
                if is_unsafe(&json[at..at + length]) {
                    is_marked = true;
                    out.extend_from_slice(b"\"\\u0000bigint:");
                    out.extend_from_slice(&json[at..at + length]);
                    out.push(b'"');
                    at += length;
                    continue;
                }
                length
            }
            _ => 1,
        };
        out.extend_from_slice(&json[at..at + length]);
        at += length;
    }
    is_marked.then_some(out)
}

/// Whether a text is the name of a member, which is never marked. `after`: what follows it.
fn is_name(after: &[u8]) -> bool {
    let after = after.iter().find(|byte| !byte.is_ascii_whitespace());
    after == Some(&b':')
}

/// The length of the text at the start, with its quotes.
fn text_length(json: &[u8]) -> usize {
    let mut at = 1;
    while at < json.len() && json[at] != b'"' {
        at += if json[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(json.len())
}

fn is_unsafe(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let Ok(digits) = std::str::from_utf8(digits) else {
        return false;
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    digits
        .parse::<u64>()
        .map_or(true, |number| number > SAFE_MAX)
}
