//! Times that take back, too.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{OneOfBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::record::Validity;
use crate::wire::fields::Millis;

/// When a record holds from, and whether it is asserted or taken back.
#[derive(Debug, Clone, Copy)]
pub(super) struct When(pub(super) Validity);

/// As it is written where it may be taken back.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhenInFull {
    at: Millis,
    /// False takes the record back.
    is_valid: bool,
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<When, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = When;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("epoch milliseconds, or {\"at\": milliseconds, \"is_valid\": bool}")
            }

            fn visit_i64<E: Error>(self, at: i64) -> Result<When, E> {
                whole(at.into_deserializer())
            }

            fn visit_u64<E: Error>(self, at: u64) -> Result<When, E> {
                whole(at.into_deserializer())
            }

            fn visit_f64<E: Error>(self, at: f64) -> Result<When, E> {
                whole(at.into_deserializer())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<When, A::Error> {
                let full = WhenInFull::deserialize(MapAccessDeserializer::new(map))?;
                let (at, is_valid) = (full.at.0, full.is_valid);
                Ok(When(Validity { at, is_valid }))
            }
        }
        from.deserialize_any(Either)
    }
}

fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<When, D::Error> {
    Millis::deserialize(from).map(|at| When(Validity::at(at.0)))
}

impl PartialSchema for When {
    fn schema() -> RefOr<Schema> {
        let either = OneOfBuilder::new().item(Millis::schema());
        either.item(WhenInFull::schema()).into()
    }
}

impl ToSchema for When {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Millis::name().into_owned(), Millis::schema()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_take_back_and_nothing_else() {
        let when = |json: &str| serde_json::from_str::<When>(json).ok().map(|it| it.0);
        assert_eq!(when("5"), Some(Validity::at(5)));
        assert_eq!(when("5.0"), Some(Validity::at(5)));
        let back = r#"{"at": 5, "is_valid": false}"#;
        assert_eq!(when(back), Some(Validity::retracted(5)));
        for json in [
            "-1",
            "253402300800000",
            "[5, true]",
            "\"5\"",
            r#"{"at": 5}"#,
            r#"{"at": -5, "is_valid": true}"#,
            r#"{"at": 5, "is_valid": true, "x": 1}"#,
        ] {
            assert_eq!(when(json), None, "{json}");
        }
    }
}
