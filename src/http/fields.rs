//! Numbers in bodies and queries, with their bounds: what is described is what is read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{Number, PartialSchema, ToSchema};

// Aliases, because utoipa makes up names for what is written with its parameters.

/// A time in epoch milliseconds, up to the end of 9999.
pub(super) type Millis = Int<0, 253_402_300_799_999>;
/// An id that the log gives, or 0 for the next one.
pub(super) type NewId = Int<0, { i64::MAX - 1 }>;
/// A number that clients give, which may be any.
pub(super) type AnyInt = Int<{ i64::MIN }, { i64::MAX }>;
/// A number of milliseconds.
pub(super) type Length = Int<0, { i64::MAX }>;
/// Which claim of a task, from 1.
pub(super) type Attempt = Int<1, { i64::MAX }>;
/// How often a task may be tried.
pub(super) type AttemptsMax = Int<1, { u32::MAX as i64 }>;

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
