//! Times: epoch milliseconds, UTC days and validity.

use std::fmt;
use std::str::FromStr;

use chrono::{
    DateTime, Datelike, Days, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta,
    TimeZone, Utc,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::{from_text, text_schema};
use crate::error::{Error, Result};

const DAY_MS: i64 = 86_400_000;
/// The last millisecond of 9999-12-31.
const AT_MAX: i64 = 253_402_300_799_999;

/// The time from which a fact holds, and whether the fact is asserted or retracted.
///
/// In JSON, an assertion is an integer and a retraction is `{"at": …, "is_valid": false}`. For the
/// current time use [`Timestamp::now`](crate::Timestamp::now).
///
/// ```
/// use decklog::{Timestamp, Validity};
/// assert!(Validity::at(Timestamp::now().at()).is_valid);
/// let asserted: Validity = serde_json::from_str("1766832000123").unwrap();
/// assert_eq!(asserted, Validity::at(1_766_832_000_123));
/// assert!(!Validity::retracted(5).is_valid);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Validity {
    /// Epoch milliseconds, UTC, exactly as given.
    pub at: i64,
    /// `false` retracts the record from `at` on.
    pub is_valid: bool,
}

impl Validity {
    /// A fact that holds from `at` on, in epoch milliseconds.
    pub fn at(at: i64) -> Validity {
        Validity { at, is_valid: true }
    }

    /// A fact that holds from now on, by the system's clock.
    pub fn now() -> Validity {
        Validity::at(super::now())
    }

    /// A fact that is retracted from `at` on, in epoch milliseconds.
    pub fn retracted(at: i64) -> Validity {
        Validity {
            at,
            is_valid: false,
        }
    }
}

impl From<i64> for Validity {
    /// A fact that holds from this time on, in epoch milliseconds.
    fn from(at: i64) -> Validity {
        Validity::at(at)
    }
}

impl From<(i64, bool)> for Validity {
    fn from((at, is_valid): (i64, bool)) -> Validity {
        Validity { at, is_valid }
    }
}

impl From<Validity> for i64 {
    /// The time without the validity.
    fn from(validity: Validity) -> i64 {
        validity.at
    }
}

impl From<Validity> for (i64, bool) {
    fn from(validity: Validity) -> (i64, bool) {
        (validity.at, validity.is_valid)
    }
}

impl Serialize for Validity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Retracted {
            at: i64,
            is_valid: bool,
        }
        if self.is_valid {
            return serializer.serialize_i64(self.at);
        }
        Retracted {
            at: self.at,
            is_valid: false,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Validity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            deny_unknown_fields,
            expecting = "epoch milliseconds, or {\"at\": ms, \"is_valid\": bool}"
        )]
        enum Either {
            At(i64),
            Full { at: i64, is_valid: bool },
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::At(at) => Validity::at(at),
            Either::Full { at, is_valid } => Validity { at, is_valid },
        })
    }
}

/// A UTC day, from 1970-01-01 to 9999-12-31. It names a directory of the store.
///
/// ```
/// use decklog::record::Day;
/// let day: Day = "2025-12-27".parse().unwrap();
/// assert_eq!(Day::of(1_766_832_000_123).unwrap(), day);
/// assert_eq!(day.to_string(), "2025-12-27");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(u32);

impl Day {
    /// The last supported day.
    pub(crate) const LAST: Day = Day((AT_MAX / DAY_MS) as u32);

    /// The day that contains a time in epoch milliseconds.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) outside 1970 to 9999.
    pub fn of(at: i64) -> Result<Day> {
        let day = u32::try_from(at / DAY_MS)
            .ok()
            .filter(|_| (0..=AT_MAX).contains(&at));
        day.map(Day).ok_or_else(|| {
            Error::invalid(format!(
                "the time is {at} ms since 1970, which is outside 1970 to 9999: give one from 0 to {AT_MAX}"
            ))
        })
    }

    /// The first millisecond of the day and the first of the next day.
    pub fn bounds_ms(self) -> (i64, i64) {
        let start = i64::from(self.0) * DAY_MS;
        (start, start + DAY_MS)
    }

    /// The day `days` days earlier, or 1970-01-01.
    pub(crate) fn minus(self, days: u32) -> Day {
        Day(self.0.saturating_sub(days))
    }

    /// The next day; `None` after the last supported day.
    pub(crate) fn next(self) -> Option<Day> {
        Day::of(self.bounds_ms().1).ok()
    }

    /// The Monday of its week, or 1970-01-01, which is a Thursday.
    pub(crate) fn monday(self) -> Day {
        const FROM_MONDAY_1970: u32 = 3;
        self.minus((self.0 + FROM_MONDAY_1970) % 7)
    }

    /// The first day of its month.
    pub(crate) fn first_of_month(self) -> Day {
        self.minus(self.date().day0())
    }

    fn date(self) -> DateTime<Utc> {
        // The constructors check the range, so the fallback is never used.
        DateTime::from_timestamp_millis(self.bounds_ms().0).unwrap_or_default()
    }
}

text_schema!(Day: "A UTC day from 1970 to 9999, as 2025-12-27");

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, "a day, such as \"2026-04-17\"", str::parse)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.date().date_naive(), f)
    }
}

impl fmt::Debug for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Day {
    type Err = Error;

    fn from_str(text: &str) -> Result<Day> {
        let bad = || Error::invalid(format!("{text:?} is no day: write it as YYYY-MM-DD"));
        // The parser also accepts other numbers of digits.
        let is_day = text.bytes().enumerate().all(|(place, byte)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        if text.len() != 10 || !is_day {
            return Err(bad());
        }
        let date: NaiveDate = text.parse().map_err(|_| bad())?;
        let start = date
            .and_time(chrono::NaiveTime::MIN)
            .and_utc()
            .timestamp_millis();
        Day::of(start)
    }
}

/// Parses a time into epoch milliseconds. Accepts epoch milliseconds, RFC 3339, a day (its start),
/// a day with a time of day, as tables show it, with or without seconds; `today` and `yesterday`
/// (their starts); and a time before now as a number of minutes, hours, days or weeks: `30m`, `12h`,
/// `7d`, `2w`. UTC unless the text has an offset.
///
/// ```
/// use decklog::record::epoch_ms;
/// for text in ["1766793600000", "2025-12-27", "2025-12-27T01:00:00+01:00", "2025-12-27 00:00"] {
///     assert_eq!(epoch_ms(text)?, 1_766_793_600_000);
/// }
/// assert!(epoch_ms("2d")? <= epoch_ms("yesterday")? && epoch_ms("yesterday")? < epoch_ms("today")?);
/// # Ok::<(), decklog::Error>(())
/// ```
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) for any other text.
pub fn epoch_ms(text: &str) -> Result<i64> {
    epoch_ms_in(text, &Utc)
}

/// As [`epoch_ms`], with days and times without a zone in the local time of this machine.
///
/// # Errors
/// As for [`epoch_ms`].
#[cfg(feature = "cli")]
pub fn local_epoch_ms(text: &str) -> Result<i64> {
    epoch_ms_in(text, &chrono::Local)
}

fn epoch_ms_in(text: &str, zone: &impl TimeZone) -> Result<i64> {
    if let Ok(ms) = text.parse::<i64>() {
        return Ok(ms);
    }
    if let Ok(day) = text.parse::<Day>() {
        return Ok(in_zone(day.date().naive_utc(), zone));
    }
    if let Some(ms) = relative_ms(text, super::now(), zone) {
        return Ok(ms);
    }
    for format in [
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M",
    ] {
        if let Ok(time) = NaiveDateTime::parse_from_str(text, format) {
            return Ok(in_zone(time, zone));
        }
    }
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| {
        Error::invalid(
            "give epoch milliseconds, RFC 3339 (2025-12-27T08:30:00Z), a day (2025-12-27), today, yesterday, or a time before now (30m, 12h, 7d, 2w)",
        )
    })?;
    Ok(time.timestamp_millis())
}

/// The first moment at which a clock in this zone shows a time. A time that the clock skips is the
/// moment of the jump or up to an hour later, as for `date`.
fn in_zone(time: NaiveDateTime, zone: &impl TimeZone) -> i64 {
    let at = |time: &NaiveDateTime| match zone.from_local_datetime(time) {
        // A zone may name them in either order.
        LocalResult::Ambiguous(one, other) => Some(if other < one { other } else { one }),
        found => found.single(),
    };
    let after_jump = || at(&time.checked_add_signed(TimeDelta::hours(1))?);
    let found = at(&time).or_else(after_jump);
    found.map_or_else(
        || time.and_utc().timestamp_millis(),
        |found| found.timestamp_millis(),
    )
}

/// A time given relative to now.
fn relative_ms(text: &str, now: i64, zone: &impl TimeZone) -> Option<i64> {
    let days_ago = match text {
        "today" => Some(0),
        "yesterday" => Some(1),
        _ => None,
    };
    if let Some(days_ago) = days_ago {
        let now = DateTime::from_timestamp_millis(now)?.with_timezone(zone);
        let day = now.date_naive().checked_sub_days(Days::new(days_ago))?;
        return Some(in_zone(day.and_time(NaiveTime::MIN), zone));
    }
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => DAY_MS,
        "w" => 7 * DAY_MS,
        _ => return None,
    };
    // The parser also accepts a sign.
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = number.parse().ok().filter(|_| is_number)?;
    // A time before 1970 is before every record.
    Some(now.saturating_sub(number.saturating_mul(unit)).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zone whose clock shows every time twice, or skips the first hour of a day.
    #[derive(Debug, Clone, Copy)]
    struct Jumping(Option<[i32; 2]>);

    impl TimeZone for Jumping {
        type Offset = chrono::FixedOffset;

        fn from_offset(_: &chrono::FixedOffset) -> Jumping {
            Jumping(None)
        }

        fn offset_from_local_date(&self, _: &NaiveDate) -> LocalResult<chrono::FixedOffset> {
            LocalResult::None
        }

        fn offset_from_local_datetime(
            &self,
            local: &NaiveDateTime,
        ) -> LocalResult<chrono::FixedOffset> {
            let offset = |seconds| chrono::FixedOffset::east_opt(seconds).unwrap();
            match self.0 {
                Some([one, other]) => LocalResult::Ambiguous(offset(one), offset(other)),
                None if chrono::Timelike::hour(local) == 0 => LocalResult::None,
                None => LocalResult::Single(offset(0)),
            }
        }

        fn offset_from_utc_date(&self, _: &NaiveDate) -> chrono::FixedOffset {
            chrono::FixedOffset::east_opt(0).unwrap()
        }

        fn offset_from_utc_datetime(&self, _: &NaiveDateTime) -> chrono::FixedOffset {
            chrono::FixedOffset::east_opt(0).unwrap()
        }
    }

    #[test]
    fn times_without_a_zone_are_those_of_the_given_one() {
        let east = chrono::FixedOffset::east_opt(3_600).unwrap();
        assert_eq!(
            epoch_ms_in("2025-12-27 01:00", &east).unwrap(),
            1_766_793_600_000
        );
        assert_eq!(
            epoch_ms_in("2025-12-27", &east).unwrap(),
            1_766_793_600_000 - 3_600_000
        );
        assert_eq!(
            epoch_ms_in("2025-12-27T00:00Z", &east).unwrap_err().kind(),
            crate::ErrorKind::InvalidInput
        );
        // A clock that shows this time twice, and one that skips it.
        let twice = Jumping(Some([3_600, 7_200]));
        assert_eq!(
            epoch_ms_in("2025-12-27 02:00", &twice).unwrap(),
            1_766_793_600_000
        );
        let skips = Jumping(None);
        assert_eq!(
            epoch_ms_in("2025-12-27 00:30", &skips).unwrap(),
            1_766_793_600_000 + 5_400_000
        );
        let last = epoch_ms_in("9999-12-31 23:59:59.999", &east).unwrap();
        assert_eq!(last, AT_MAX - 3_600_000);
    }

    #[test]
    fn a_time_is_given_relative_to_now() {
        let now = 1_766_793_600_000 + 3 * 3_600_000;
        for (text, expected) in [
            ("today", Some(1_766_793_600_000)),
            ("yesterday", Some(1_766_793_600_000 - DAY_MS)),
            ("90m", Some(now - 5_400_000)),
            ("12h", Some(now - 43_200_000)),
            ("7d", Some(now - 7 * DAY_MS)),
            ("2w", Some(now - 14 * DAY_MS)),
            ("0d", Some(now)),
            ("999999999999d", Some(0)),
            ("9999999999999999999999d", None),
            ("d", None),
            ("-1d", None),
            ("+1d", None),
            ("1.5d", None),
            ("7 d", None),
            ("7é", None),
            ("", None),
        ] {
            assert_eq!(relative_ms(text, now, &Utc), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_told_what_is_one() {
        for text in ["", "tomorrow", "2025-12-27 00", "2025-02-30"] {
            let error = epoch_ms(text).unwrap_err().to_string();
            assert!(error.contains("RFC 3339"), "{text}: {error}");
        }
    }

    #[test]
    fn days_have_both_ends_and_nothing_past_them() {
        assert_eq!(Day::of(0).unwrap().to_string(), "1970-01-01");
        assert_eq!(Day::of(AT_MAX).unwrap().to_string(), "9999-12-31");
        assert!(Day::of(-1).is_err());
        assert!(Day::of(AT_MAX + 1).is_err());
        assert!(Day::of(i64::MIN).is_err());
    }

    #[test]
    fn weeks_begin_on_mondays_and_months_on_the_first() {
        for (day, monday, first) in [
            ("1970-01-01", "1970-01-01", "1970-01-01"),
            ("1970-01-04", "1970-01-01", "1970-01-01"),
            ("1970-01-05", "1970-01-05", "1970-01-01"),
            ("2024-02-29", "2024-02-26", "2024-02-01"),
            ("2025-12-28", "2025-12-22", "2025-12-01"),
            ("2026-01-01", "2025-12-29", "2026-01-01"),
            ("9999-12-31", "9999-12-27", "9999-12-01"),
        ] {
            let parsed: Day = day.parse().unwrap();
            assert_eq!(parsed.monday().to_string(), monday, "{day}");
            assert_eq!(parsed.first_of_month().to_string(), first, "{day}");
        }
        let last: Day = "9999-12-31".parse().unwrap();
        assert_eq!(last.next(), None);
        assert_eq!(last.minus(1).next(), Some(last));
    }

    #[test]
    fn a_day_is_read_only_in_its_one_form() {
        for text in ["2024-02-29", "1970-01-01", "9999-12-31"] {
            assert_eq!(text.parse::<Day>().unwrap().to_string(), text);
        }
        for text in [
            "2025-02-29",
            "2025-1-01",
            "1969-12-31",
            "20251227",
            "+025-12-27",
            "",
            "é025-12-2",
        ] {
            assert!(text.parse::<Day>().is_err(), "{text}");
        }
    }
}
