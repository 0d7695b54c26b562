//! Integers with bounds, for JSON and parameters of clients. The same bounds are used for parsing
//! and for the schema.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{Number, PartialSchema, ToSchema};

use super::exact;

// Type aliases, because utoipa invents names for types with parameters.

/// Any 64-bit integer.
pub(crate) type AnyInt = Int<{ i64::MIN }, { i64::MAX }>;
/// A non-negative integer, for example a number of milliseconds.
#[cfg(feature = "http")]
pub(crate) type Length = Int<0, { i64::MAX }>;

/// An integer within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Int<const MIN: i64, const MAX: i64>(pub(crate) i64);

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

            // JSON Schema treats 5.0 as an integer, and languages without integers write it.
            fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
                match exact(number) {
                    Some(number) => self.visit_i64(number),
                    None => Err(E::invalid_value(Unexpected::Float(number), &self)),
                }
            }
        }
        from.deserialize_i64(Within)
    }
}

impl<const MIN: i64, const MAX: i64> FromStr for Int<MIN, MAX> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // As in request bodies.
        let text = text.strip_suffix(".0").unwrap_or(text);
        let number = text.parse().ok();
        let number = number.filter(|number| (MIN..=MAX).contains(number));
        number.map(Int).ok_or(())
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
