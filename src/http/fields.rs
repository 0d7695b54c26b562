//! Numbers and times in bodies and queries, with their bounds: what is described is what is read.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::{Number, PartialSchema, ToSchema};

use crate::record::Validity;

// Aliases, because utoipa makes up names for what is written with its parameters.

/// A time in epoch milliseconds, up to the end of 9999.
pub(super) type Millis = Int<0, 253_402_300_799_999>;
/// An id that the log gives, or 0 for the next one.
pub(super) type NewId = Int<0, { i64::MAX - 1 }>;
/// A number that clients give, which may be any.
pub(super) type AnyInt = Int<{ i64::MIN }, { i64::MAX }>;
/// A place in a conversation: one is left after it.
pub(super) type Sequence = Int<0, { i64::MAX - 1 }>;
/// A number of milliseconds, or of other things.
pub(super) type Length = Int<0, { i64::MAX }>;
/// Which claim of a task, from 1.
pub(super) type Attempt = Int<1, { i64::MAX }>;
/// How often a task may be tried.
pub(super) type AttemptsMax = Int<1, { u32::MAX as i64 }>;

/// The greatest double up to which each whole number is one.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A whole number within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Int<const MIN: i64, const MAX: i64>(pub(super) i64);

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Int<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Within<const MIN: i64, const MAX: i64>;
        impl<const MIN: i64, const MAX: i64> Visitor<'_> for Within<MIN, MAX> {
            type Value = Int<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                if (MIN..=MAX).contains(&number) {
                    Ok(Int(number))
                } else {
                    Err(out_of_bounds(&number, MIN, MAX))
                }
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                match i64::try_from(number) {
                    Ok(number) => self.visit_i64(number),
                    Err(_) => Err(out_of_bounds(&number, MIN, MAX)),
                }
            }

            // 5.0 is a whole number by JSON Schema, and languages without integers write it.
            fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
                if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
                    return self.visit_i64(number as i64);
                }
                let unexpected = Unexpected::Float(number);
                Err(E::invalid_value(unexpected, &self))
            }
        }
        from.deserialize_i64(Within)
    }
}

fn out_of_bounds<E: Error>(number: &dyn fmt::Display, min: i64, max: i64) -> E {
    E::custom(format!(
        "{number} is out of bounds: give one from {min} to {max}"
    ))
}

impl<const MIN: i64, const MAX: i64> PartialSchema for Int<MIN, MAX> {
    fn schema() -> RefOr<Schema> {
        let bound = |bound: i64| isize::try_from(bound).ok().map(Number::Int);
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(bound(MIN))
            .maximum(bound(MAX))
            .into()
    }
}

impl<const MIN: i64, const MAX: i64> ToSchema for Int<MIN, MAX> {
    fn name() -> Cow<'static, str> {
        format!("Int_{MIN}_{MAX}").replace('-', "minus").into()
    }
}

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
