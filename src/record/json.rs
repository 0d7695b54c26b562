//! Canonical JSON (RFC 8785): when two payloads say the same, and the hash of a call's arguments.

mod quick;

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The SHA-256 of a tool call's arguments, as 64 lower-case hex digits.
///
/// JSON is hashed in its canonical form (RFC 8785), so the order of members and white space do
/// not matter. A text that has no canonical form, because it is no JSON or repeats a member, is
/// hashed as it stands.
///
/// ```
/// use decklog::args_sha256;
/// assert_eq!(args_sha256(r#"{"b":1,"a":2}"#), args_sha256(r#"{ "a": 2, "b": 1.0 }"#));
/// assert_ne!(args_sha256("*** Begin Patch"), args_sha256("*** Begin patch"));
/// ```
pub fn args_sha256(arguments_json: &str) -> String {
    let digest = match canonical(arguments_json) {
        Some(canonical) => Sha256::digest(&canonical.bytes),
        None => Sha256::digest(arguments_json),
    };
    hex(&digest)
}

/// Bytes as lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or_default();
    let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(digits).collect()
}

/// Whether two payloads say the same: byte for byte, or as JSON values in canonical form. Texts
/// whose canonical form would lose something (an integer past 2^53) are never the same.
pub(crate) fn same_json(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) if a == b => true,
        (Some(a), Some(b)) => match (canonical(a), canonical(b)) {
            (Some(a), Some(b)) => !a.lossy && !b.lossy && a.bytes == b.bytes,
            _ => false,
        },
        _ => false,
    }
}

struct Canonical {
    bytes: Vec<u8>,
    /// Some number has no exact double, so other texts share this form.
    lossy: bool,
}

fn canonical(text: &str) -> Option<Canonical> {
    let quick = quick::canonical(text).map(|bytes| Canonical {
        bytes,
        lossy: false,
    });
    quick.or_else(|| by_value(text))
}

/// Checks that the quick canonical form, where there is one, is the canonicalizer's.
///
/// # Panics
/// If it is not.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_canonical(text: &str) {
    if let Some(quick) = quick::canonical(text) {
        let slow = by_value(text).map(|slow| (slow.bytes, slow.lossy));
        assert_eq!(Some((quick, false)), slow, "{text}");
    }
    assert!(same_json(Some(text), Some(text)));
}

fn by_value(text: &str) -> Option<Canonical> {
    let Unique(value) = serde_json::from_str(text).ok()?;
    let bytes = serde_json_canonicalizer::to_vec(&value).ok()?;
    Some(Canonical {
        bytes,
        lossy: has_inexact_number(&value),
    })
}

#[allow(clippy::cast_precision_loss)]
fn has_inexact_number(value: &Value) -> bool {
    const EXACT_MAX: f64 = (1u64 << 53) as f64;
    match value {
        Value::Number(n) => n.as_f64().is_none_or(|f| f.abs() >= EXACT_MAX),
        Value::Array(items) => items.iter().any(has_inexact_number),
        Value::Object(members) => members.values().any(has_inexact_number),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// A JSON value in which no object names a member twice.
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
        assert!(!same_json(Some("[1e400]"), Some("[1e401]")));
        assert!(same_json(Some("[1e400]"), Some("[1e400]")));
        assert!(!same_json(Some("a"), None));
    }
}
