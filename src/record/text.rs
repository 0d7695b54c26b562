//! Types that are written as strings.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

use crate::error::Result;

/// For serde: parses a string. `expected` describes it for errors.
pub(crate) fn from_text<'de, D: Deserializer<'de>, T>(
    from: D,
    expected: impl fmt::Display,
    parse: impl FnOnce(&str) -> Result<T>,
) -> Result<T, D::Error> {
    struct Text<S, F>(S, F);

    impl<T, S: fmt::Display, F: FnOnce(&str) -> Result<T>> Visitor<'_> for Text<S, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            (self.1)(text).map_err(E::custom)
        }
    }

    from.deserialize_str(Text(expected, parse))
}

/// Describes a type that is written as a string, in schemas.
macro_rules! text_schema {
    ($type:ident: $description:literal $(, $pattern:literal)?) => {
        #[cfg(feature = "wire")]
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some($description))
                    $(.pattern(Some($pattern)))?
                    .into()
            }
        }

        #[cfg(feature = "wire")]
        impl utoipa::ToSchema for $type {}
    };
}

pub(super) use text_schema;
