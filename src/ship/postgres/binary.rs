//! Rows in PostgreSQL's binary COPY format, and what PostgreSQL cannot store.

use std::borrow::Cow;

use uuid::Uuid;

use crate::record::Day;
use crate::record::columns::Cell;

/// The start of a binary copy.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The end of a binary copy.
const TRAILER: &[u8] = &[0xff, 0xff];

/// Microseconds from 1970 to 2000, where PostgreSQL's times begin.
const EPOCH_US: i64 = 946_684_800_000_000;
/// The same in days.
const EPOCH_DAYS: i64 = 10_957;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// A number in JSON with a longer text or a greater exponent is not stored as a number.
const NUMBER_BYTES_MAX: usize = 1_000;

/// Rows for a COPY.
#[derive(Debug)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    /// Number of rows.
    pub len: u64,
}

impl Rows {
    pub(super) fn new() -> Rows {
        Rows {
            bytes: HEADER.to_vec(),
            len: 0,
        }
    }

    /// Begins a row with this number of values.
    pub(super) fn begin(&mut self, values: usize) {
        self.len += 1;
        let values = i16::try_from(values).unwrap_or(i16::MAX);
        self.bytes.extend(values.to_be_bytes());
    }

    pub(super) fn uuid(&mut self, id: Uuid) {
        self.value(|bytes| bytes.extend(id.as_bytes()));
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.value(|bytes| bytes.extend(number.to_be_bytes()));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.value(|bytes| bytes.extend(storable(text).as_bytes()));
    }

    pub(super) fn cell(&mut self, cell: &Cell) {
        match cell {
            Cell::Null => self.bytes.extend((-1_i32).to_be_bytes()),
            Cell::Uuid(id) => self.uuid(*id),
            Cell::Text(text) => self.text(text),
            Cell::Integer(number) => self.integer(*number),
            Cell::Unsigned(number) => self.integer(i64::try_from(*number).unwrap_or(i64::MAX)),
            Cell::Real(number) => self.value(|bytes| bytes.extend(number.to_be_bytes())),
            Cell::Boolean(flag) => self.value(|bytes| bytes.push(u8::from(*flag))),
            Cell::Json(json) => self.value(|bytes| {
                // The version of jsonb.
                bytes.push(1);
                bytes.extend(storable_json(json).as_bytes());
            }),
            Cell::Time(micros) => self.integer(micros.saturating_sub(EPOCH_US)),
            Cell::Day(day) => {
                let days = days_since_2000(*day);
                self.value(|bytes| bytes.extend(days.to_be_bytes()));
            }
        }
    }

    fn value(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        write(&mut self.bytes);
        let len = self.bytes.len() - start - 4;
        let len = i32::try_from(len).unwrap_or(i32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// A copy of the whole.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        [&*self.bytes, TRAILER].concat()
    }

    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.extend(TRAILER);
        self.bytes
    }
}

/// The day as PostgreSQL counts them.
pub(super) fn days_since_2000(day: Day) -> i32 {
    let (start_ms, _) = day.bounds_ms();
    i32::try_from(start_ms / DAY_MS - EPOCH_DAYS).unwrap_or(i32::MAX)
}

/// A text that PostgreSQL stores: U+0000, which it does not, becomes U+FFFD.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// JSON that jsonb stores. An escaped U+0000 or lone surrogate becomes U+FFFD. JSON with a number
/// that is too large becomes a JSON string.
fn storable_json(json: &str) -> Cow<'_, str> {
    let has_escape = json.contains("\\u0000") || json.contains("\\ud") || json.contains("\\uD");
    if !has_escape && !has_large_number(json) {
        return Cow::Borrowed(json);
    }
    let replaced = without_bad_escapes(json);
    if has_large_number(&replaced) {
        return Cow::Owned(serde_json::Value::from(replaced).to_string());
    }
    Cow::Owned(replaced)
}

fn without_bad_escapes(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(place) = rest.find('\\') {
        let (before, escape) = rest.split_at(place);
        out.push_str(before);
        let code = |escape: &str| {
            let digits = escape.strip_prefix("\\u")?.get(..4)?;
            u32::from_str_radix(digits, 16).ok()
        };
        match code(escape) {
            // A pair of surrogates.
            Some(0xd800..=0xdbff) => {
                let next = escape.get(6..).and_then(code);
                if matches!(next, Some(0xdc00..=0xdfff)) {
                    out.push_str(&escape[..12]);
                    rest = &escape[12..];
                } else {
                    out.push_str("\\ufffd");
                    rest = &escape[6..];
                }
            }
            Some(0 | 0xdc00..=0xdfff) => {
                out.push_str("\\ufffd");
                rest = &escape[6..];
            }
            _ => {
                // The character after the backslash may be a backslash.
                let len = escape.chars().take(2).map(char::len_utf8).sum();
                out.push_str(&escape[..len]);
                rest = &escape[len..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Whether a number in JSON has very many digits or a large exponent.
fn has_large_number(json: &str) -> bool {
    let bytes = json.as_bytes();
    let (mut in_string, mut at) = (false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'-' | b'0'..=b'9' if !in_string => {
                let is_of_number =
                    |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let len = bytes[at..]
                    .iter()
                    .take_while(|byte| is_of_number(byte))
                    .count();
                let number = &json[at..at + len];
                let exponent = number.split(['e', 'E']).nth(1);
                let is_large = |text: &str| text.trim_start_matches(['+', '-', '0']).len() > 3;
                if len > NUMBER_BYTES_MAX || exponent.is_some_and(is_large) {
                    return true;
                }
                at += len;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_postgresql_cannot_store_is_replaced() {
        for (json, stored) in [
            (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            (r#"["\u0000"]"#, r#"["\ufffd"]"#),
            (r#"["\\u0000"]"#, r#"["\\u0000"]"#),
            (r#"["\ud83d\ude00"]"#, r#"["\ud83d\ude00"]"#),
            (r#"["\ud83d", "\ude00x"]"#, r#"["\ufffd", "\ufffdx"]"#),
            (r#"["\uD83Dé"]"#, r#"["\ufffdé"]"#),
            ("[1e999999]", r#""[1e999999]""#),
            ("[1e308, -12.5E-7]", "[1e308, -12.5E-7]"),
            (r#"["1e999999"]"#, r#"["1e999999"]"#),
            (r#"{"\u0000":1e99999}"#, r#""{\"\\ufffd\":1e99999}""#),
        ] {
            assert_eq!(storable_json(json), stored, "{json}");
        }
        assert_eq!(storable("a\0b"), "a\u{fffd}b");
    }

    #[test]
    fn rows_have_the_binary_form() {
        let mut rows = Rows::new();
        rows.begin(4);
        rows.cell(&Cell::Null);
        rows.cell(&Cell::Integer(7));
        rows.cell(&Cell::Json("{}".to_owned()));
        rows.cell(&Cell::Day("2000-01-02".parse().unwrap()));
        let bytes = rows.into_bytes();
        let body = bytes.strip_prefix(HEADER).unwrap();
        let expected: &[u8] = &[
            0, 4, 255, 255, 255, 255, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 3, 1, b'{',
            b'}', 0, 0, 0, 4, 0, 0, 0, 1, 255, 255,
        ];
        assert_eq!(body, expected);
    }
}
