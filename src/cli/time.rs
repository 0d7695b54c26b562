//! Times, as arguments and on a screen. Always UTC.

use chrono::{DateTime, NaiveDateTime};
use decklog::Day;

/// Reads epoch milliseconds, RFC 3339, or the start of a day.
pub fn parse(text: &str) -> Result<i64, String> {
    if let Ok(ms) = text.parse::<i64>() {
        return Ok(ms);
    }
    if let Ok(day) = text.parse::<Day>() {
        return Ok(day.bounds_ms().0);
    }
    // As tables show it.
    if let Ok(time) = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f") {
        return Ok(time.and_utc().timestamp_millis());
    }
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| {
        "give epoch milliseconds, RFC 3339 (2025-12-27T08:30:00Z) or a day (2025-12-27)".to_owned()
    })?;
    Ok(time.timestamp_millis())
}

/// The time as a table shows it.
pub fn shown(at: i64) -> String {
    DateTime::from_timestamp_millis(at).map_or_else(
        || at.to_string(),
        |time| time.format("%Y-%m-%d %H:%M:%S%.3f").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_in_many_spellings() {
        let at = 1_766_793_600_000;
        for text in [
            "1766793600000",
            "2025-12-27",
            "2025-12-27T01:00:00+01:00",
            "2025-12-27 00:00:00.000",
        ] {
            assert_eq!(parse(text).unwrap(), at, "{text}");
        }
        assert_eq!(shown(at), "2025-12-27 00:00:00.000");
        for text in ["", "yesterday", "2025-12-27 00:00", "2025-02-30"] {
            assert!(parse(text).unwrap_err().contains("RFC 3339"), "{text}");
        }
    }
}
