//! Lenient access to JSON. Members are read as raw text first, so that a member of unexpected type
//! costs only that member and not the line, and so that stored values keep their exact bytes.
//!
//! An `Err` is the reason why the line is broken.

mod scan;
mod shape;

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::DateTime;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[cfg(any(test, fuzzing))]
pub(crate) use scan::check::any_text;
pub(super) use scan::{Cursor, Shape};
pub(super) use shape::shapes;

use crate::record::{Day, escaped, instant_ms};

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

/// The members of an object by their names; `None` if it is missing or other JSON.
pub(super) fn members(raw: Raw<'_>) -> Result<Option<BTreeMap<String, Raw<'_>>>, String> {
    let text = raw.0.filter(|raw| raw.starts_with('{'));
    let members = text.map(|text| serde_json::from_str(text).map_err(|e| reason(&e)));
    members.transpose()
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
    match escaped(raw.as_bytes().get(1..).unwrap_or_default(), escape) {
        Some((text, _)) => Ok(Some(Cow::Owned(text))),
        None => serde_json::from_str(raw)
            .map(|text| Some(Cow::Owned(text)))
            .map_err(|e| reason(&e)),
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

/// The same JSON without white space between its tokens. It must be valid.
pub(super) fn compact(json: &str) -> String {
    let mut compact = String::with_capacity(json.len());
    let (mut is_text, mut is_escaped) = (false, false);
    for c in json.chars() {
        if is_text {
            is_text = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
        } else if c.is_ascii_whitespace() {
            continue;
        } else {
            is_text = c == '"';
        }
        compact.push(c);
    }
    compact
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

/// The number in the member, if it is finite.
pub(super) fn float(raw: Raw<'_>) -> Option<f64> {
    let number: f64 = raw.0?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// The epoch milliseconds of an RFC 3339 time; `None` if it is missing.
pub(super) fn timestamp(raw: Raw<'_>) -> Result<Option<i64>, String> {
    let Some(shown) = raw.0 else { return Ok(None) };
    let ms = |text: Cow<'_, str>| {
        instant_ms(text.as_bytes()).or_else(|| {
            let time = DateTime::parse_from_rfc3339(&text).ok()?;
            Some(time.timestamp_millis())
        })
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
    fn only_white_space_between_tokens_is_removed() {
        let json = r#"{ "a b" : [ 1 , "c \" d\\" ] , "e" : null }"#;
        assert_eq!(compact(json), r#"{"a b":[1,"c \" d\\"],"e":null}"#);
    }

    #[test]
    fn a_lone_surrogate_is_a_reason_and_not_a_mended_text() {
        assert!(text(raw(r#""cut \ud83d""#)).is_err());
        assert_eq!(text(raw("12")), Ok(None));
    }
}
