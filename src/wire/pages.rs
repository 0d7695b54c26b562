//! Pages of lists, with a maximum size.

use serde::Serialize;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

#[cfg(feature = "mcp")]
use crate::collections::Cursor;
use crate::collections::Page;
#[cfg(feature = "mcp")]
use crate::error::Result;

/// Names a type with a parameter in descriptions. An alias has no parameter, and utoipa composes
/// other names.
macro_rules! named_by_parameter {
    ($type:ident, $prefix:literal) => {
        impl<T: utoipa::ToSchema> utoipa::ToSchema for $type<T> {
            fn name() -> std::borrow::Cow<'static, str> {
                format!(concat!($prefix, "_{}"), T::name()).into()
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                schemas.push((T::name().into_owned(), T::schema()));
                T::schemas(schemas);
            }
        }
    };
}

#[cfg(feature = "http")]
pub(crate) use named_by_parameter;

/// A page of records.
#[derive(Debug, Serialize)]
pub(crate) struct Paged<T> {
    pub(crate) items: Vec<T>,
    /// The `after` of the next page. Missing on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

impl<T: ToSchema> PartialSchema for Paged<T> {
    fn schema() -> RefOr<Schema> {
        let items = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        let next = ObjectBuilder::new().schema_type(Type::String);
        let next = next.description(Some(
            "The `after` of the next page. Missing on the last one.",
        ));
        let page = ObjectBuilder::new().property("items", items);
        page.required("items").property("next", next).into()
    }
}

named_by_parameter!(Paged, "Page");

impl<T> From<Page<T>> for Paged<T> {
    fn from(page: Page<T>) -> Paged<T> {
        Paged {
            items: page.items,
            next: page.next.map(|next| next.to_string()),
        }
    }
}

/// Reads a page of at most `limit` records, one at a time, as each may be long. `read` gets a limit
/// and a start, `length` estimates the length of a record. A page ends past `bytes_max`.
#[cfg(feature = "mcp")]
pub(crate) fn paged<T>(
    limit: usize,
    bytes_max: usize,
    mut after: Option<Cursor>,
    mut read: impl FnMut(usize, Option<Cursor>) -> Result<Page<T>>,
    length: impl Fn(&T) -> usize,
) -> Result<Paged<T>> {
    let (mut items, mut bytes) = (Vec::new(), 0);
    loop {
        let page = read(1, after)?;
        bytes += page.items.iter().map(&length).sum::<usize>();
        items.extend(page.items);
        after = page.next;
        if after.is_none() || items.len() >= limit || bytes >= bytes_max {
            return Ok(Paged {
                items,
                next: after.map(|next| next.to_string()),
            });
        }
    }
}
