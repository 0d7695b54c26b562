//! Lenient access to JSON. Members are read as raw text first, so that a member of unexpected type
//! costs only that member and not the line, and so that stored values keep their exact bytes.
//!
//! An `Err` is the reason why the line is broken.

mod scan;
mod shape;

use std::borrow::Cow;

use chrono::DateTime;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[cfg(any(test, fuzzing))]
pub(crate) use scan::check::any_text;
pub(super) use scan::{Cursor, Shape};
pub(super) use shape::shapes;

use crate::record::Day;

/// The JSON of a member. It may be missing, null or of any type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Raw<'a>(Option<&'a str>);

impl<'a> Raw<'a> {
    pub(super) fn get(self) -> Option<&'a str> {
        self.0
    }

    pub(super) fn or(self, other: Raw<'a>) -> Raw<'a> {
        Raw(self.0.or(other.0))
    }

    fn string(self) -> Option<&'a str> {
        self.0.filter(|raw| raw.starts_with('"'))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Option::<&RawValue>::deserialize(deserializer)?;
        Ok(Raw(raw.map(RawValue::get)))
    }
}

/// Parses an object; `None` if the text is other JSON.
pub(super) fn object<'a, T>(text: &'a str) -> Result<Option<T>, String>
where
    T: Shape<'a> + Deserialize<'a>,
{
    quick(text).map_or_else(|| parsed(text), |found| Ok(Some(found)))
}

/// Like [`object`], with the fast reader only; `None` if it does not accept the text.
pub(super) fn quick<'a, T: Shape<'a>>(text: &'a str) -> Option<T> {
    scan::object(text)
}

/// Like [`object`], with the full parser, which accepts any JSON and reports reasons.
pub(super) fn parsed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Option<T>, String> {
    // A derived struct would also accept an array, element by element.
    if text.trim_ascii_start().starts_with('{') {
        serde_json::from_str(text).map(Some).map_err(|e| reason(&e))
    } else {
        let other: Result<IgnoredAny, _> = serde_json::from_str(text);
        other.map(|_| None).map_err(|e| reason(&e))
    }
}

/// The object in a member; `None` if it is missing or other JSON.
pub(super) fn member<'a, T>(raw: Raw<'a>) -> Result<Option<T>, String>
where
    T: Shape<'a> + Deserialize<'a>,
{
    raw.0.map_or(Ok(None), object)
}

/// The items of an array; `None` if it is missing or other JSON.
pub(super) fn array(raw: Raw<'_>) -> Result<Option<Vec<&str>>, String> {
    let Some(text) = raw.0.filter(|raw| raw.starts_with('[')) else {
        return Ok(None);
    };
    if let Some(items) = scan::array(text) {
        return Ok(Some(items));
    }
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|e| reason(&e))?;
    Ok(Some(items.into_iter().map(RawValue::get).collect()))
}

/// The text of a string; `None` if it is missing or other JSON. A lone surrogate is an error,
/// because UTF-8 cannot represent it.
pub(super) fn text(raw: Raw<'_>) -> Result<Option<Cow<'_, str>>, String> {
    let Some(raw) = raw.string() else {
        return Ok(None);
    };
    let plain = raw.get(1..raw.len() - 1).unwrap_or_default();
    let Some(escape) = memchr::memchr(b'\\', plain.as_bytes()) else {
        return Ok(Some(Cow::Borrowed(plain)));
    };
    match unescaped(plain, escape) {
        Some(text) => Ok(Some(Cow::Owned(text))),
        None => serde_json::from_str(raw)
            .map(|text| Some(Cow::Owned(text)))
            .map_err(|e| reason(&e)),
    }
}

/// Decodes a string whose first escape is at `escape`; `None` if it contains a lone surrogate.
fn unescaped(text: &str, mut escape: usize) -> Option<String> {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        said.push_str(rest.get(..escape)?);
        let (character, len) = match rest.as_bytes().get(escape + 1)? {
            b'n' => ('\n', 2),
            b'"' => ('"', 2),
            b'\\' => ('\\', 2),
            b'/' => ('/', 2),
            b't' => ('\t', 2),
            b'r' => ('\r', 2),
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{c}', 2),
            b'u' => {
                let unit = rest.get(escape + 2..escape + 6)?;
                (char::from_u32(u32::from_str_radix(unit, 16).ok()?)?, 6)
            }
            _ => return None,
        };
        said.push(character);
        rest = rest.get(escape + len..)?;
        let Some(next) = memchr::memchr(b'\\', rest.as_bytes()) else {
            said.push_str(rest);
            return Some(said);
        };
        escape = next;
    }
}

/// The text of a string, owned.
pub(super) fn owned_text(raw: Raw<'_>) -> Result<Option<String>, String> {
    Ok(text(raw)?.map(Cow::into_owned))
}

/// The text of a string, or the raw JSON of any other value; `None` if it is missing.
pub(super) fn text_or_bytes(raw: Raw<'_>) -> Result<Option<Cow<'_, str>>, String> {
    Ok(text(raw)?.or(raw.0.map(Cow::Borrowed)))
}

/// The type of a block or line, or a substitute if it is missing.
pub(super) fn type_name(raw: Raw<'_>) -> Result<Cow<'_, str>, String> {
    Ok(text(raw)?.unwrap_or(Cow::Borrowed("(no type)")))
}

/// Whether the member is `true`.
pub(super) fn is_true(raw: Raw<'_>) -> bool {
    raw.0 == Some("true")
}

/// The non-negative integer in the member.
pub(super) fn number(raw: Raw<'_>) -> Option<u64> {
    raw.0?.parse().ok()
}

/// The epoch milliseconds of an RFC 3339 time; `None` if it is missing.
pub(super) fn timestamp(raw: Raw<'_>) -> Result<Option<i64>, String> {
    let Some(shown) = raw.0 else { return Ok(None) };
    let ms = |text: Cow<'_, str>| match utc_ms(text.as_bytes()) {
        Some(at) => Some(at),
        None => DateTime::parse_from_rfc3339(&text)
            .ok()
            .map(|time| time.timestamp_millis()),
    };
    let at = text(raw)?.and_then(ms).filter(|at| Day::of(*at).is_ok());
    if at.is_none() {
        let shown: String = shown.chars().take(80).collect();
        return Err(format!(
            "the timestamp {shown} is no RFC 3339 time from 1970 to 9999"
        ));
    }
    Ok(at)
}

/// The epoch milliseconds of a time in the most common format, `2025-12-27T08:00:00.123Z`.
fn utc_ms(text: &[u8]) -> Option<i64> {
    const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let text: &[u8; 24] = text.try_into().ok()?;
    let marks = [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (19, b'.'),
        (23, b'Z'),
    ];
    if marks.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let number = |from: usize, until: usize| {
        let mut digits = text[from..until].iter();
        digits.try_fold(0, |number, digit| {
            let digit = digit.is_ascii_digit().then_some(i64::from(digit & 15))?;
            Some(number * 10 + digit)
        })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Days that not every month has, and leap seconds, are left to the full date parser.
    let is_plain = (1970..10_000).contains(&year)
        && (1..=28).contains(&day)
        && (hour < 24 && minute < 60 && second < 60);
    if !is_plain {
        return None;
    }
    let before = DAYS_BEFORE.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let past = year - 1;
    let leap_days = past / 4 - past / 100 + past / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let leap_day = i64::from(is_leap && month > 2);
    let days = (year - 1970) * 365 + leap_days + before + leap_day + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + number(20, 23)?)
}

fn reason(error: &serde_json::Error) -> String {
    let words = error.to_string();
    // Every line is parsed alone, so serde's own "line 1" would mislead.
    let words = words.split(" at line ").next().unwrap_or(&words);
    format!("not readable as JSON: {words}, column {}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw(Some(text))
    }

    #[test]
    fn a_time_is_epoch_milliseconds_or_a_reason() {
        let time = |text| timestamp(raw(text));
        assert_eq!(time("\"1970-01-01T00:00:01.234Z\""), Ok(Some(1234)));
        assert_eq!(time("\"1970-01-01T01:00:00+01:00\""), Ok(Some(0)));
        assert_eq!(timestamp(Raw(None)), Ok(None));
        for bad in ["\"yesterday\"", "12", "\"1969-12-31T23:59:59Z\"", "\"\""] {
            assert!(time(bad).unwrap_err().contains("RFC 3339"), "{bad}");
        }
    }

    #[test]
    fn a_time_is_read_as_the_calendar_reads_it() {
        for year in [1969, 1970, 1972, 1999, 2000, 2024, 2025, 2100, 2400, 9999] {
            for date in [
                "01-01", "01-31", "02-28", "02-29", "03-01", "06-15", "12-28", "12-31", "13-01",
                "00-10",
            ] {
                for time in [
                    "00:00:00.000",
                    "23:59:59.999",
                    "12:34:56.789",
                    "24:00:00.000",
                    "12:60:00.000",
                    "23:59:60.000",
                    "1a:00:00.000",
                ] {
                    let text = format!("{year}-{date}T{time}Z");
                    let known =
                        DateTime::parse_from_rfc3339(&text).map(|time| time.timestamp_millis());
                    if let Some(at) = utc_ms(text.as_bytes()) {
                        assert_eq!(Ok(at), known, "{text}");
                    }
                }
            }
        }
        assert_eq!(utc_ms(b"2025-12-09T19:47:42.930Z"), Some(1_765_309_662_930));
    }

    #[test]
    fn a_lone_surrogate_is_a_reason_and_not_a_mended_text() {
        assert!(text(raw(r#""cut \ud83d""#)).is_err());
        assert_eq!(text(raw("12")), Ok(None));
    }
}
