//! Values as SQLite has them, and the texts of times with the bounds that they set.

use std::ops::Range;

use chrono::{DateTime, Datelike, Timelike};
use rusqlite::types::ValueRef;

use crate::record::Day;
use crate::record::columns::{Cell, ColumnType};

const DAY_MS: i64 = 86_400_000;

/// The name of the type of a column.
pub(super) fn sql_type(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Uuid | ColumnType::Text | ColumnType::Json | ColumnType::Day => "TEXT",
        ColumnType::Integer | ColumnType::Unsigned => "INTEGER",
        ColumnType::Real => "REAL",
        ColumnType::Boolean => "BOOLEAN",
        ColumnType::Time => "TIMESTAMP",
    }
}

/// Calls `take` with a value as SQLite has it. An integer past the greatest of SQLite is a real
/// number.
pub(super) fn with_value<R>(cell: &Cell, take: impl FnOnce(ValueRef<'_>) -> R) -> R {
    match cell {
        Cell::Null => take(ValueRef::Null),
        Cell::Text(text) | Cell::Json(text) => take(ValueRef::Text(text.as_bytes())),
        Cell::Integer(number) => take(ValueRef::Integer(*number)),
        Cell::Unsigned(number) => take(match i64::try_from(*number) {
            Ok(number) => ValueRef::Integer(number),
            #[allow(clippy::cast_precision_loss)] // What it is too large for.
            Err(_) => ValueRef::Real(*number as f64),
        }),
        Cell::Real(number) => take(ValueRef::Real(*number)),
        Cell::Boolean(flag) => take(ValueRef::Integer(i64::from(*flag))),
        Cell::Uuid(id) => {
            let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
            take(ValueRef::Text(
                id.hyphenated().encode_lower(&mut text).as_bytes(),
            ))
        }
        Cell::Time(micros) => take(ValueRef::Text(time_text(*micros).as_bytes())),
        Cell::Day(day) => take(ValueRef::Text(day.to_string().as_bytes())),
    }
}

/// A time in UTC, as `SQLite`'s date functions write it, with milliseconds; with microseconds if it
/// has any.
pub(super) fn time_text(micros: i64) -> String {
    let time = DateTime::from_timestamp_micros(micros).unwrap_or_default();
    let mut text = String::with_capacity(26);
    let mut part = |before: &str, number: u32, digits: u32| {
        text.push_str(before);
        for place in (0..digits).rev() {
            let digit = number / 10_u32.pow(place) % 10;
            text.push(char::from(b'0' + digit as u8));
        }
    };
    part("", u32::try_from(time.year()).unwrap_or(0), 4);
    part("-", time.month(), 2);
    part("-", time.day(), 2);
    part(" ", time.hour(), 2);
    part(":", time.minute(), 2);
    part(":", time.second(), 2);
    let fraction = time.nanosecond() / 1_000;
    if fraction.is_multiple_of(1_000) {
        part(".", fraction / 1_000, 3);
    } else {
        part(".", fraction, 6);
    }
    text
}

/// The day of a time in epoch milliseconds.
pub(super) fn day_text(at: i64) -> String {
    Day::of(at).map(|day| day.to_string()).unwrap_or_default()
}

/// Which part of an order a comparison selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    Equal,
    /// Later, or equal.
    From,
    /// Earlier, or equal.
    Until,
}

/// A range of times in epoch milliseconds that has all records whose own time, as text, compares so
/// to a text. Any text is possible: `SQLite` compares bytes.
pub(super) fn times_of(compared: Compared, text: &str) -> Range<i64> {
    // The texts of one millisecond begin alike, and those with microseconds come after.
    let first = |at: i64| time_text(at.saturating_mul(1_000));
    let last = |at: i64| time_text(at.saturating_mul(1_000).saturating_add(999));
    range_of(compared, text, first, last)
}

/// As [`times_of`], for the day of a record.
pub(super) fn times_of_day(compared: Compared, text: &str) -> Range<i64> {
    range_of(compared, text, day_text, day_text)
}

fn range_of(
    compared: Compared,
    text: &str,
    first: impl Fn(i64) -> String,
    last: impl Fn(i64) -> String,
) -> Range<i64> {
    let end = Day::LAST.bounds_ms().0 + DAY_MS;
    // The first time for which it is true, of those for which it stays true.
    let first_that = |is: &dyn Fn(i64) -> bool| {
        let (mut low, mut high) = (0, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if is(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    };
    let from = match compared {
        Compared::Until => 0,
        _ => first_that(&|at| last(at).as_str() >= text),
    };
    let until = match compared {
        Compared::From => end,
        _ => first_that(&|at| first(at).as_str() > text),
    };
    from..until
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_texts_of_sqlite() {
        assert_eq!(time_text(0), "1970-01-01 00:00:00.000");
        assert_eq!(time_text(1_766_832_000_123_000), "2025-12-27 10:40:00.123");
        assert_eq!(
            time_text(1_766_832_000_123_456),
            "2025-12-27 10:40:00.123456"
        );
        assert_eq!(day_text(1_766_832_000_123), "2025-12-27");
    }

    #[test]
    fn integers_that_are_too_large_are_real() {
        let is = |cell: &Cell, expected: ValueRef<'_>| {
            with_value(cell, |value| assert_eq!(value, expected));
        };
        is(&Cell::Unsigned(7), ValueRef::Integer(7));
        is(
            &Cell::Unsigned(1 << 63),
            ValueRef::Real(9_223_372_036_854_775_808.0),
        );
        is(&Cell::Boolean(true), ValueRef::Integer(1));
        is(&Cell::Time(0), ValueRef::Text(b"1970-01-01 00:00:00.000"));
        is(
            &Cell::Uuid(uuid::Uuid::nil()),
            ValueRef::Text(b"00000000-0000-0000-0000-000000000000"),
        );
    }

    #[test]
    fn a_range_has_every_time_that_compares_so() {
        let texts = [
            "",
            "2025",
            "2025-12-27",
            "2025-12-27 10:40:00",
            "2025-12-27 10:40:00.123",
            "2025-12-27 10:40:00.1234",
            "2025-12-27 10:40:00.124",
            "2025-12-27T10:40:00Z",
            "9999-12-31 23:59:59.999999",
            "later",
        ];
        let base = 1_766_832_000_123_000;
        let mut times: Vec<i64> = (-3_000..3_000).map(|it| base + it).collect();
        times.extend([0, 1, 253_402_300_799_999_999]);
        for text in texts {
            let from = times_of(Compared::From, text);
            let until = times_of(Compared::Until, text);
            let equal = times_of(Compared::Equal, text);
            for micros in &times {
                let (at, shown) = (micros / 1_000, time_text(*micros));
                let is = |is: bool, range: &Range<i64>| !is || range.contains(&at);
                assert!(is(shown.as_str() >= text, &from), "{shown} >= {text}");
                assert!(is(shown.as_str() <= text, &until), "{shown} <= {text}");
                assert!(is(shown.as_str() == text, &equal), "{shown} = {text}");
            }
        }
        // It has few others.
        let text = "2025-12-27 10:40:00.123";
        assert_eq!(
            times_of(Compared::Equal, text),
            1_766_832_000_123..1_766_832_000_124
        );
        let midnight = 1_766_793_600_000;
        let day = times_of_day(Compared::Equal, "2025-12-27");
        assert_eq!(day, midnight..midnight + DAY_MS);
        assert_eq!(times_of_day(Compared::From, "2025-12-27").start, midnight);
        assert_eq!(times_of_day(Compared::Until, "2025-12-26").end, midnight);
        assert!(times_of_day(Compared::Equal, "2025-13").is_empty());
    }
}
