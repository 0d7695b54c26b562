//! Numbers and times in bodies and queries, with their bounds: descriptions and checks use the same
//! types.

use std::fmt;

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
                millis(at)
            }

            fn visit_u64<E: Error>(self, at: u64) -> Result<Moment, E> {
                let at = i64::try_from(at);
                at.map_or_else(
                    |_| {
                        Err(E::invalid_value(
                            Unexpected::Other("a time past 9999"),
                            &self,
                        ))
                    },
                    millis,
                )
            }

            fn visit_f64<E: Error>(self, at: f64) -> Result<Moment, E> {
                Millis::deserialize(serde::de::value::F64Deserializer::new(at))
                    .map(|at| Moment(at.0))
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

fn millis<E: Error>(at: i64) -> Result<Moment, E> {
    Millis::deserialize(serde::de::value::I64Deserializer::new(at)).map(|at| Moment(at.0))
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

/// A name or id, which may not be empty.
#[cfg(feature = "mcp")]
#[derive(Debug, Clone)]
pub(crate) struct Name(pub(crate) String);

#[cfg(feature = "mcp")]
impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        let name = String::deserialize(from)?;
        check_name("it", &name, false).map_err(|e| D::Error::custom(e.reason()))?;
        Ok(Name(name))
    }
}

#[cfg(feature = "mcp")]
impl PartialSchema for Name {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let text = text.min_length(Some(1));
        text.max_length(Some(NAME_BYTES_MAX)).into()
    }
}

#[cfg(feature = "mcp")]
impl ToSchema for Name {}

/// A kind of record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindName(pub(crate) Kind);

impl<'de> Deserialize<'de> for KindName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<KindName, D::Error> {
        let name = String::deserialize(from)?;
        Kind::from_stem(&name).map(KindName).ok_or_else(|| {
            let all = Kind::ALL.map(Kind::stem).join(", ");
            D::Error::custom(format!("unknown kind of record: use one of {all}"))
        })
    }
}

impl PartialSchema for KindName {
    fn schema() -> RefOr<Schema> {
        let name = ObjectBuilder::new().schema_type(Type::String);
        name.enum_values(Some(Kind::ALL.map(Kind::stem))).into()
    }
}

impl ToSchema for KindName {}

/// The cursor of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchAfter(pub(crate) SearchCursor);

impl<'de> Deserialize<'de> for SearchAfter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SearchAfter, D::Error> {
        let text = String::deserialize(from)?;
        let cursor = text.parse::<SearchCursor>();
        cursor
            .map(SearchAfter)
            .map_err(|e| D::Error::custom(e.reason()))
    }
}

impl PartialSchema for SearchAfter {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).into()
    }
}

impl ToSchema for SearchAfter {}

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
