//! Looking into JSON of which little can be taken for granted: a member is looked at as raw text
//! first, so that one of an unexpected type costs that member and not the line, and so that what
//! is kept is kept to the byte.
//!
//! An `Err` is the reason for which the line is broken.

use chrono::DateTime;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::record::Day;

/// A member that may be missing or null, or of any type.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// The object in a text; `None` if it is other JSON.
pub(super) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Option<T>, String> {
    // A derived struct would take an array for an object, member by member.
    if text.trim_ascii_start().starts_with('{') {
        serde_json::from_str(text).map(Some).map_err(|e| reason(&e))
    } else {
        let other: Result<IgnoredAny, _> = serde_json::from_str(text);
        other.map(|_| None).map_err(|e| reason(&e))
    }
}

/// The object in a member; `None` if it is missing or other JSON.
pub(super) fn member<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Result<Option<T>, String> {
    raw.map_or(Ok(None), |raw| object(raw.get()))
}

/// The items of an array; `None` if it is missing or other JSON.
pub(super) fn array(raw: Raw<'_>) -> Result<Option<Vec<&RawValue>>, String> {
    match raw {
        Some(raw) if raw.get().starts_with('[') => serde_json::from_str(raw.get())
            .map(Some)
            .map_err(|e| reason(&e)),
        _ => Ok(None),
    }
}

/// The text of a string; `None` if it is missing or other JSON. A lone surrogate, which no text
/// can hold, is an error.
pub(super) fn text(raw: Raw<'_>) -> Result<Option<String>, String> {
    match raw {
        Some(raw) if raw.get().starts_with('"') => serde_json::from_str(raw.get())
            .map(Some)
            .map_err(|e| reason(&e)),
        _ => Ok(None),
    }
}

/// The text of a string, or the bytes of any other value; `None` if it is missing.
pub(super) fn text_or_bytes(raw: Raw<'_>) -> Result<Option<String>, String> {
    Ok(text(raw)?.or_else(|| raw.map(|raw| raw.get().to_owned())))
}

/// The type of a block or line, or the words for its absence.
pub(super) fn type_name(raw: Raw<'_>) -> Result<String, String> {
    Ok(text(raw)?.unwrap_or_else(|| "(no type)".to_owned()))
}

/// Whether the member says `true`.
pub(super) fn is_true(raw: Raw<'_>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

/// The epoch milliseconds of an RFC 3339 time; `None` if it is missing.
pub(super) fn timestamp(raw: Raw<'_>) -> Result<Option<i64>, String> {
    let Some(raw) = raw else { return Ok(None) };
    let at = text(Some(raw))?
        .and_then(|text| DateTime::parse_from_rfc3339(&text).ok())
        .map(|time| time.timestamp_millis())
        .filter(|at| Day::of(*at).is_ok());
    if at.is_none() {
        let shown: String = raw.get().chars().take(80).collect();
        return Err(format!(
            "the timestamp {shown} is no RFC 3339 time from 1970 to 9999"
        ));
    }
    Ok(at)
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

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_time_is_epoch_milliseconds_or_a_reason() {
        let time = |text| timestamp(Some(raw(text)));
        assert_eq!(time("\"1970-01-01T00:00:01.234Z\""), Ok(Some(1234)));
        assert_eq!(time("\"1970-01-01T01:00:00+01:00\""), Ok(Some(0)));
        assert_eq!(timestamp(None), Ok(None));
        for bad in ["\"yesterday\"", "12", "\"1969-12-31T23:59:59Z\"", "\"\""] {
            assert!(time(bad).unwrap_err().contains("RFC 3339"), "{bad}");
        }
    }

    #[test]
    fn a_lone_surrogate_is_a_reason_and_not_a_mended_text() {
        assert!(text(Some(raw(r#""cut \ud83d""#))).is_err());
        assert_eq!(text(Some(raw("12"))), Ok(None));
    }
}
