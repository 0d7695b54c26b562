//! Timestamps that keep their original text.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::{from_text, text_schema};
use crate::error::{Error, Result};

/// Maximum length of the text of a timestamp. A text with nanoseconds and an offset needs half of
/// it.
const TEXT_BYTES_MAX: usize = 64;

/// A timestamp as RFC 3339 text, kept byte for byte. JSON input may omit the offset; the time is
/// then UTC and `Z` is appended.
///
/// ```
/// use decklog::Timestamp;
/// let given: Timestamp = "2026-04-17T02:00:00+02:00".parse()?;
/// assert_eq!(given.as_str(), "2026-04-17T02:00:00+02:00");
/// assert_eq!(given.at(), 1_776_384_000_000);
/// let from_python: Timestamp = serde_json::from_str("\"2026-04-17T00:00:00\"").unwrap();
/// assert_eq!(from_python.as_str(), "2026-04-17T00:00:00Z");
/// assert_eq!(Timestamp::from_ms(1_776_384_000_000)?.as_str(), "2026-04-17T00:00:00.000Z");
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Timestamp {
    text: String,
    at: i64,
}

text_schema!(Timestamp: "RFC 3339, from 1970 to 9999. Without an offset it is taken as UTC");

impl Timestamp {
    /// The current time of the system clock, in UTC with milliseconds.
    pub fn now() -> Timestamp {
        Timestamp::of(&system_time())
    }

    /// The timestamp of epoch milliseconds, in UTC with milliseconds.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) outside 1970 to 9999.
    pub fn from_ms(at: i64) -> Result<Timestamp> {
        super::Day::of(at)?;
        let time = DateTime::from_timestamp_millis(at);
        Ok(Timestamp::of(&time.unwrap_or_default()))
    }

    fn of(time: &DateTime<Utc>) -> Timestamp {
        Timestamp {
            text: time.to_rfc3339_opts(SecondsFormat::Millis, true),
            at: time.timestamp_millis(),
        }
    }

    /// The original text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The time in epoch milliseconds.
    pub fn at(&self) -> i64 {
        self.at
    }

    /// The time in microseconds since 1970, rounded down.
    #[cfg(feature = "rows")]
    pub(crate) fn micros(&self) -> i64 {
        let fraction = self.text.bytes().skip_while(|byte| *byte != b'.').skip(1);
        let is_finer = fraction.take_while(u8::is_ascii_digit).count() > 3;
        let exact = is_finer.then(|| DateTime::parse_from_rfc3339(&self.text).ok());
        let exact = exact.flatten().map(|time| time.timestamp_micros());
        exact.unwrap_or_else(|| self.at.saturating_mul(1_000))
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Timestamp> {
        let bad = |why: &dyn fmt::Display| {
            let shown: String = text.chars().take(80).collect();
            Error::invalid(format!(
                "{shown:?} is not a timestamp ({why}): write it as in RFC 3339, such as 2026-04-17T00:00:00Z"
            ))
        };
        // The parser accepts any number of digits, and minus signs that RFC 3339 does not allow.
        if text.len() > TEXT_BYTES_MAX {
            return Err(bad(&format!("at most {TEXT_BYTES_MAX} bytes are allowed")));
        }
        if !text.is_ascii() {
            return Err(bad(&"it has characters that are not ASCII"));
        }
        let time = DateTime::parse_from_rfc3339(text).map_err(|e| bad(&e))?;
        Ok(Timestamp {
            text: text.to_owned(),
            at: time.timestamp_millis(),
        })
    }
}

/// Parses an RFC 3339 text in UTC with at most milliseconds into epoch milliseconds. Returns `None`
/// for any other text, and if the result is not certain. Most times have this form, and a scan
/// parses many.
pub(crate) fn instant_ms(text: &[u8]) -> Option<i64> {
    let (start, rest) = text.split_first_chunk::<19>()?;
    let [
        ..,
        b'-',
        _,
        _,
        b'-',
        _,
        _,
        b'T',
        _,
        _,
        b':',
        _,
        _,
        b':',
        _,
        _,
    ] = start
    else {
        return None;
    };
    let number = |range: std::ops::Range<usize>| {
        start[range].iter().try_fold(0, |number: u32, digit| {
            let digit = digit.wrapping_sub(b'0');
            (digit < 10).then(|| number * 10 + u32::from(digit))
        })
    };
    let date = NaiveDate::from_ymd_opt(number(0..4)?.cast_signed(), number(5..7)?, number(8..10)?)?;
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let ms = match rest {
        b"Z" => 0,
        [
            b'.',
            a @ b'0'..=b'9',
            b @ b'0'..=b'9',
            c @ b'0'..=b'9',
            b'Z',
        ] => {
            let digit = |digit: &u8| u32::from(digit - b'0');
            digit(a) * 100 + digit(b) * 10 + digit(c)
        }
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = i64::from(date.to_epoch_days());
    let seconds = days * 86_400 + i64::from(hour * 3_600 + minute * 60 + second);
    Some(seconds * 1_000 + i64::from(ms))
}

/// The system clock. It may be before 1970.
pub(super) fn system_time() -> DateTime<Utc> {
    SystemTime::now().into()
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a time as in RFC 3339, such as \"2026-04-17T00:00:00Z\"";
        from_text(deserializer, expected, |text| {
            // Programs that use UTC often omit the offset.
            let in_utc = |e| format!("{text}Z").parse().map_err(|_| e);
            text.parse().or_else(in_utc)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: non-ASCII minus signs and any number of digits were accepted.
    #[test]
    fn it_is_written_as_the_calendar_writes_it() {
        for at in (0..253_402_300_799_999_i64).step_by(86_399_999 * 1_009 + 7) {
            let time = DateTime::from_timestamp_millis(at).unwrap();
            let expected = time.to_rfc3339_opts(SecondsFormat::Millis, true);
            assert_eq!(Timestamp::from_ms(at).unwrap().as_str(), expected);
            assert_eq!(instant_ms(expected.as_bytes()), Some(at));
        }
    }

    #[test]
    fn only_what_every_reader_of_rfc_3339_reads_is_kept() {
        let digits = |count: usize| format!("2026-04-17T00:00:00.{}Z", "0".repeat(count));
        for text in [
            "2026-04-17T00:00:00\u{2212}02:00",
            "2026-04-17",
            "1766832000123",
            "",
            &digits(44),
            &digits(2_000_000),
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text:.80}");
        }
        for text in [
            "2026-04-17T00:00:00-02:00",
            "2016-12-31T23:59:60Z",
            "2026-04-17t00:00:00z",
            &digits(43),
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap().as_str(), text);
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
                    if let Some(at) = instant_ms(text.as_bytes()) {
                        assert_eq!(Ok(at), known, "{text}");
                    }
                }
            }
        }
        assert_eq!(
            instant_ms(b"2025-12-09T19:47:42.930Z"),
            Some(1_765_309_662_930)
        );
    }
}
