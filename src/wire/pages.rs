//! Pages of lists.

use serde::Serialize;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::collections::Page;

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
