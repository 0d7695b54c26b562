//! Canonical JSON (RFC 8785): equality of payloads, and the hash of a call's arguments.

mod quick;

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::tokens;

/// The SHA-256 of a tool call's arguments, as 64 lower-case hex digits.
///
/// JSON is hashed in its canonical form (RFC 8785), so the order of members and white space do not
/// matter. A text without a canonical form, because it is not JSON or has duplicate members, is
/// hashed unchanged.
///
/// ```
/// use decklog::args_sha256;
/// assert_eq!(args_sha256(r#"{"b":1,"a":2}"#), args_sha256(r#"{ "a": 2, "b": 1.0 }"#));
/// assert_ne!(args_sha256("*** Begin Patch"), args_sha256("*** Begin patch"));
/// ```
pub fn args_sha256(arguments_json: &str) -> String {
    let digest = match canonical(arguments_json) {
        Some(canonical) => Sha256::digest(&canonical),
        None => Sha256::digest(arguments_json),
    };
    hex(&digest)
}

/// Converts bytes to lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or_default();
    let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(digits).collect()
}

/// Whether two payloads are equal: byte for byte, or as JSON values in canonical form. Texts whose
/// canonical form would lose information (an integer above 2^53, more digits than a double has) are
/// equal only byte for byte.
pub(crate) fn same_json(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) if a == b => true,
        (Some(a), Some(b)) => match (canonical(a), canonical(b)) {
            (Some(canonical_a), Some(canonical_b)) => {
                canonical_a == canonical_b && !has_inexact_number(a) && !has_inexact_number(b)
            }
            _ => false,
        },
        _ => false,
    }
}

fn canonical(text: &str) -> Option<Vec<u8>> {
    quick::canonical(text).or_else(|| by_value(text))
}

/// Checks that the quick canonical form, if there is one, equals that of the canonicalizer.
///
/// # Panics
/// If they differ.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_canonical(text: &str) {
    if let Some(quick) = quick::canonical(text) {
        assert_eq!(Some(quick), by_value(text), "{text}");
    }
    assert!(same_json(Some(text), Some(text)));
}

fn by_value(text: &str) -> Option<Vec<u8>> {
    let Unique(value) = serde_json::from_str(text).ok()?;
    serde_json_canonicalizer::to_vec(&value).ok()
}

/// Whether a number in a JSON text changes its value in canonical form, where numbers are doubles.
fn has_inexact_number(json: &str) -> bool {
    let is_inexact = |number: &str| {
        let double: f64 = number.parse().unwrap_or(f64::NAN);
        decimal(number) != decimal(&format!("{double:e}"))
    };
    let is_number = |token: &&str| token.starts_with(|first| matches!(first, '-' | '0'..='9'));
    let numbers = tokens(json.as_bytes()).filter_map(|token| json.get(token));
    numbers.filter(is_number).any(is_inexact)
}

/// A number as its sign, its digits without leading and trailing zeros, and the power of ten of the
/// last digit; `None` if it is not a decimal number. Zero has no digits and no sign.
fn decimal(number: &str) -> Option<(bool, String, i64)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    // An exponent that does not fit is outside the range of a double too.
    let exponent: i64 = exponent.parse().ok()?;
    let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.to_owned() + fraction;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = digits.trim_end_matches('0');
    let dropped = digits.len() - kept.len();
    let power = exponent.checked_add(i64::try_from(dropped).ok()?)?;
    let power = power.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let kept = kept.trim_start_matches('0');
    if kept.is_empty() {
        return Some((false, String::new(), 0));
    }
    Some((is_negative, kept.to_owned(), power))
}

/// A JSON value without duplicate members. `Value` alone would accept them, and would take an
/// object with the member `$serde_json::private::RawValue` for another value.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(Value::String(value.to_owned()))
            }
            fn visit_string<E>(self, value: String) -> Result<Value, E> {
                Ok(Value::String(value))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                let mut items = Vec::new();
                while let Some(Unique(item)) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Value::Array(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut members = Map::new();
                while let Some((name, Unique(value))) = map.next_entry::<String, Unique>()? {
                    if members.insert(name, value).is_some() {
                        return Err(A::Error::custom("a member is named twice"));
                    }
                }
                Ok(Value::Object(members))
            }
        }
        deserializer.deserialize_any(Members).map(Unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: `serde_json` reads an object with this member as the value in its string.
    #[test]
    fn a_member_that_serde_json_uses_itself_is_one_like_any_other() {
        for name in [
            "$serde_json::private::RawValue",
            r"\u0024serde_json::private::RawValue",
        ] {
            let wrapped = format!(r#"{{"{name}":"{{\"a\":1}}\u0020"}}"#);
            assert!(!same_json(Some(&wrapped), Some(r#"{"a":1}"#)), "{wrapped}");
            assert_ne!(args_sha256(&wrapped), args_sha256(r#"{"a":1}"#));
        }
    }

    #[test]
    fn the_hash_is_that_of_the_canonical_form() {
        // printf '{"a":2,"b":1}' | sha256sum
        let expected = "d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772";
        assert_eq!(args_sha256(r#"{"b":1,"a":2}"#), expected);
        // printf 'not json' | sha256sum
        let expected = "7ccfa1fbf3940e6f0c0375d87c0f9235a50514e14cb427bdfaf5077987b26ccf";
        assert_eq!(args_sha256("not json"), expected);
    }

    #[test]
    fn payloads_that_would_lose_something_are_not_the_same() {
        assert!(same_json(Some(r#"{"a":1.0}"#), Some(r#"{ "a" : 1 }"#)));
        assert!(!same_json(
            Some("[9007199254740993]"),
            Some("[9007199254740992]")
        ));
        assert!(!same_json(Some(r#"{"a":1,"a":2}"#), Some(r#"{"a":2}"#)));
        assert!(!same_json(Some("[1e-400]"), Some("[0]")));
        assert!(!same_json(Some("[-1e-400]"), Some("[ -1e-400]")));
        assert!(!same_json(
            Some("[0.1000000000000000055511151231257827]"),
            Some("[0.1]")
        ));
        assert!(!same_json(
            Some(r#"["\"",100000000000000000000001]"#),
            Some(r#"["\"",100000000000000000000000]"#)
        ));
        assert!(same_json(
            Some("[0.30000000000000004,1E23,9007199254740994,-0.50]"),
            Some("[ 0.30000000000000004,100000000000000000000000,9007199254740994,-5e-1]")
        ));
        assert!(same_json(
            Some("[0.0,\"1e-400\"]"),
            Some("[-0, \"1e-400\"]")
        ));
        assert!(!same_json(Some("[1e400]"), Some("[1e401]")));
        assert!(same_json(Some("[1e400]"), Some("[1e400]")));
        assert!(!same_json(Some("a"), None));
    }
}
