//! Numbers and times in bodies and queries, with their bounds: descriptions and checks use the same
//! types.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::collections::SearchCursor;
#[cfg(feature = "http")]
pub(crate) use crate::record::Length;
pub(crate) use crate::record::{AnyInt, Int};
use crate::record::{Kind, epoch_ms};
#[cfg(feature = "mcp")]
use crate::record::{NAME_BYTES_MAX, check_name};

// Aliases, because utoipa generates names for types with parameters.

/// A time in epoch milliseconds, up to the end of 9999.
pub(crate) type Millis = Int<0, 253_402_300_799_999>;
/// The attempt number of a claim, from 1.
pub(crate) type Attempt = Int<1, { i64::MAX }>;
/// Maximum number of attempts of a task.
pub(crate) type AttemptsMax = Int<1, { u32::MAX as i64 }>;

/// An instant: epoch milliseconds, RFC 3339 or a day.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "mcp"), allow(dead_code))]
pub(crate) struct Moment(pub(crate) i64);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Moment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "epoch milliseconds, or a text such as 2026-07-28T12:00:00Z or 2026-07-28",
                )
            }

            fn visit_i64<E: Error>(self, at: i64) -> Result<Moment, E> {
                millis(serde::de::value::I64Deserializer::new(at))
            }

            fn visit_u64<E: Error>(self, at: u64) -> Result<Moment, E> {
                let past = Unexpected::Other("a time past 9999");
                let at = i64::try_from(at).map_err(|_| E::invalid_value(past, &self))?;
                self.visit_i64(at)
            }

            fn visit_f64<E: Error>(self, at: f64) -> Result<Moment, E> {
                millis(serde::de::value::F64Deserializer::new(at))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Moment, E> {
                epoch_ms(text)
                    .map(Moment)
                    .map_err(|e| E::custom(e.reason()))
            }
        }
        from.deserialize_any(Either)
    }
}

fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
    Millis::deserialize(from).map(|at| Moment(at.0))
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let text = text.description(Some(
            "RFC 3339, such as 2026-07-28T12:00:00Z, or a UTC day, such as 2026-07-28",
        ));
        AnyOfBuilder::new().item(text).item(Millis::schema()).into()
    }
}

impl ToSchema for Moment {}

/// A type that is parsed from a text, and described by a schema of texts.
macro_rules! parsed {
    ($name:ident, $described:expr) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                let text = String::deserialize(from)?;
                text.parse().map_err(D::Error::custom)
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let described: fn(ObjectBuilder) -> ObjectBuilder = $described;
                described(ObjectBuilder::new().schema_type(Type::String)).into()
            }
        }

        impl ToSchema for $name {}
    };
}

/// A name or id, which may not be empty.
#[cfg(feature = "mcp")]
#[derive(Debug, Clone)]
pub(crate) struct Name(pub(crate) String);

#[cfg(feature = "mcp")]
impl FromStr for Name {
    type Err = String;

    fn from_str(name: &str) -> Result<Name, String> {
        check_name("it", name, false).map_err(|e| e.reason())?;
        Ok(Name(name.to_owned()))
    }
}

#[cfg(feature = "mcp")]
parsed!(Name, |text| text
    .min_length(Some(1))
    .max_length(Some(NAME_BYTES_MAX)));

/// A kind of record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindName(pub(crate) Kind);

impl FromStr for KindName {
    type Err = String;

    fn from_str(name: &str) -> Result<KindName, String> {
        Kind::from_stem(name).map(KindName).ok_or_else(|| {
            let all = Kind::ALL.map(Kind::stem).join(", ");
            format!("unknown kind of record: use one of {all}")
        })
    }
}

parsed!(KindName, |text| text
    .enum_values(Some(Kind::ALL.map(Kind::stem))));

/// The cursor of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchAfter(pub(crate) SearchCursor);

impl FromStr for SearchAfter {
    type Err = String;

    fn from_str(text: &str) -> Result<SearchAfter, String> {
        let cursor = text.parse::<SearchCursor>();
        cursor.map(SearchAfter).map_err(|e| e.reason())
    }
}

parsed!(SearchAfter, |text| text);

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(json: &str) -> Option<i64> {
        serde_json::from_str::<AttemptsMax>(json)
            .ok()
            .map(|it| it.0)
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        assert_eq!(attempts("7"), Some(7));
        assert_eq!(attempts("7.0"), Some(7));
        assert_eq!(attempts("4294967295"), Some(4_294_967_295));
        for json in [
            "0",
            "-1",
            "4294967296",
            "7.5",
            "1e300",
            "\"7\"",
            "null",
            "true",
        ] {
            assert_eq!(attempts(json), None, "{json}");
        }
        let path = |text: &str| text.parse::<AnyInt>().ok().map(|it| it.0);
        assert_eq!(path("-5"), Some(-5));
        assert_eq!(path("5.0"), Some(5));
        assert_eq!((path("5.5"), path(""), path(".0")), (None, None, None));
    }

    #[test]
    fn what_is_out_of_bounds_is_told_the_bounds() {
        for json in ["0", "18446744073709551615", "0.5"] {
            let error = serde_json::from_str::<Attempt>(json).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("1 to 9223372036854775807"), "{error}");
        }
    }
}
