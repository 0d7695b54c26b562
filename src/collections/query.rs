//! The queries of lists. Each is declared once: the library, the command line and HTTP accept the
//! same filters, with the same descriptions and defaults.

use crate::index::{RowId, Table};

/// Whether the own time of a row is `since` or later and before `until`, in epoch milliseconds.
pub(super) fn is_of_time(
    table: &Table,
    row: RowId,
    (since, until): (Option<i64>, Option<i64>),
) -> bool {
    table.row(row).is_some_and(|row| {
        since.is_none_or(|since| row.at >= since) && until.is_none_or(|until| row.at < until)
    })
}

/// Declares the query of a list: its filters with their command-line options, the time bounds, the
/// order and the start of the page, and the limit if it is not that of other lists.
macro_rules! query {
    (
        $(#[$meta:meta])*
        $name:ident { filters $($rest:tt)* }
    ) => {
        $crate::collections::query::query! {
            $(#[$meta])*
            $name {
                limit {
                    /// Maximum number of records; 0 gives none. Default: 100.
                    #[cfg_attr(feature = "http", serde(deserialize_with = "crate::collections::query::limit::<_, 0>"))]
                    #[cfg_attr(feature = "http", param(value_type = Option<u32>, maximum = 1000))]
                }
                filters $($rest)*
            }
        }
    };
    (
        $(#[$meta:meta])*
        $name:ident {
            limit { $(#[$limit_meta:meta])* }
            filters { $($(#[$filter_meta:meta])* $filter:ident: $type:ty = $option:literal $value:literal,)* }
            $(flags { $($(#[$flag_meta:meta])* $flag:ident,)* })?
            $(times {
                $(#[$since_meta:meta])* $since:ident,
                $(#[$until_meta:meta])* $until:ident,
            })?
            order { $(#[$order_meta:meta])* $order:ident }
            from { $(#[$from_meta:meta])* $from:ident: $from_type:ty }
        }
    ) => {
        $(#[$meta])*
        $(#[doc = concat!("\n`", stringify!($since), "` and `", stringify!($until), "` are in epoch milliseconds.")])?
        #[derive(Debug, Clone)]
        #[cfg_attr(feature = "cli", derive(clap::Args), group(skip))]
        #[cfg_attr(feature = "http", derive(serde::Deserialize, utoipa::IntoParams))]
        #[cfg_attr(feature = "http", serde(default, deny_unknown_fields))]
        #[cfg_attr(feature = "http", into_params(parameter_in = Query))]
        pub struct $name {
            $(
                $(#[$filter_meta])*
                #[cfg_attr(feature = "cli", arg(long = $option, value_name = $value))]
                pub $filter: Option<$type>,
            )*
            $($(
                $(#[$flag_meta])*
                #[cfg_attr(feature = "cli", arg(long))]
                #[cfg_attr(feature = "http", param(value_type = Option<bool>))]
                pub $flag: bool,
            )*)?
            $(
                $(#[$since_meta])*
                #[cfg_attr(feature = "cli", arg(long, value_name = "TIME", value_parser = $crate::record::epoch_ms))]
                #[cfg_attr(feature = "http", serde(deserialize_with = "crate::collections::query::time"))]
                #[cfg_attr(feature = "http", param(value_type = Option<crate::collections::query::TimeText>))]
                pub $since: Option<i64>,
                $(#[$until_meta])*
                #[cfg_attr(feature = "cli", arg(long, value_name = "TIME", value_parser = $crate::record::epoch_ms))]
                #[cfg_attr(feature = "http", serde(deserialize_with = "crate::collections::query::time"))]
                #[cfg_attr(feature = "http", param(value_type = Option<crate::collections::query::TimeText>))]
                pub $until: Option<i64>,
            )?
            $(#[$order_meta])*
            #[cfg_attr(feature = "cli", arg(skip = $crate::collections::Order::$order))]
            #[cfg_attr(feature = "http", param(value_type = Option<crate::collections::Order>))]
            pub order: $crate::collections::Order,
            $(#[$limit_meta])*
            #[cfg_attr(feature = "cli", arg(skip = $crate::collections::PAGE_LIMIT))]
            pub limit: usize,
            $(#[$from_meta])*
            #[cfg_attr(feature = "cli", arg(skip))]
            pub $from: $from_type,
        }

        impl Default for $name {
            fn default() -> $name {
                $name {
                    $($filter: None,)*
                    $($($flag: false,)*)?
                    $($since: None, $until: None,)?
                    order: $crate::collections::Order::$order,
                    limit: $crate::collections::PAGE_LIMIT,
                    $from: Default::default(),
                }
            }
        }

        #[cfg(feature = "bindings")]
        impl $crate::collections::arguments::Arguments for $name {
            const ARGUMENTS: &'static [$crate::collections::arguments::ArgumentSchema] = {
                use $crate::collections::arguments::{Argument, ArgumentSchema};
                &[
                    $(ArgumentSchema {
                        words: <$type as Argument>::WORDS,
                        docs: &[$(stringify!($filter_meta)),*],
                        ..ArgumentSchema::new(stringify!($filter), <$type as Argument>::TYPE_NAME, "")
                    },)*
                    $($(ArgumentSchema {
                        docs: &[$(stringify!($flag_meta)),*],
                        ..ArgumentSchema::new(stringify!($flag), bool::TYPE_NAME, "")
                    },)*)?
                    $(
                        ArgumentSchema {
                            docs: &[$(stringify!($since_meta)),*],
                            ..ArgumentSchema::new(stringify!($since), "time", "")
                        },
                        ArgumentSchema {
                            docs: &[$(stringify!($until_meta)),*],
                            ..ArgumentSchema::new(stringify!($until), "time", "")
                        },
                    )?
                    ArgumentSchema {
                        words: <$crate::collections::Order as Argument>::WORDS,
                        docs: &[$(stringify!($order_meta)),*],
                        ..ArgumentSchema::new("order", "text", "")
                    },
                    ArgumentSchema::new("limit", "integer", "Maximum number of records. Default: all."),
                ]
            };

            fn set(&mut self, name: &str, value: &$crate::record::Dynamic<'_>) -> Result<(), String> {
                use $crate::collections::arguments::argument;
                match name {
                    $(stringify!($filter) => self.$filter = Some(argument(value)?),)*
                    $($(stringify!($flag) => self.$flag = argument(value)?,)*)?
                    $(
                        stringify!($since) => self.$since = Some($crate::collections::arguments::moment(value)?),
                        stringify!($until) => self.$until = Some($crate::collections::arguments::moment(value)?),
                    )?
                    "order" => self.order = argument(value)?,
                    "limit" => self.limit = argument(value)?,
                    // Checked against the names.
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

pub(super) use query;

#[cfg(feature = "http")]
pub(crate) use params::{Limit, TimeText, number_param};
#[cfg(feature = "http")]
pub(super) use params::{integer, limit, offset, time};

/// Parses and describes parameters, which are strings in a request.
#[cfg(feature = "http")]
mod params {
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, de::Error};
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
    use utoipa::{PartialSchema, ToSchema};

    use crate::collections::{PAGE_LIMIT, PAGE_LIMIT_MAX};
    use crate::record::{AnyInt, Int, Length, epoch_ms};

    /// An instant: epoch milliseconds, RFC 3339 or a day.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct TimeText(pub(crate) i64);

    impl<'de> Deserialize<'de> for TimeText {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TimeText, D::Error> {
            let text = Cow::<str>::deserialize(from)?;
            epoch_ms(&text).map(TimeText).map_err(Error::custom)
        }
    }

    impl PartialSchema for TimeText {
        fn schema() -> RefOr<Schema> {
            let text = ObjectBuilder::new().schema_type(Type::String);
            text.description(Some("Epoch milliseconds, RFC 3339 or a UTC day"))
                .into()
        }
    }

    impl ToSchema for TimeText {}

    /// Maximum number of records in a page, at least `MIN`.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Limit<const MIN: usize = 0>(pub(crate) usize);

    impl<const MIN: usize> Default for Limit<MIN> {
        fn default() -> Self {
            Limit(PAGE_LIMIT)
        }
    }

    impl<'de, const MIN: usize> Deserialize<'de> for Limit<MIN> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let limit = Cow::<str>::deserialize(from)?.parse().ok();
            let limit = limit.filter(|it| (MIN..=PAGE_LIMIT_MAX).contains(it));
            limit.map(Limit).ok_or_else(|| {
                let message = format!(
                    "give a number from {MIN} to {PAGE_LIMIT_MAX}: what does not fit is on the next page"
                );
                Error::custom(message)
            })
        }
    }

    pub(in super::super) fn limit<'de, D: Deserializer<'de>, const MIN: usize>(
        from: D,
    ) -> Result<usize, D::Error> {
        Limit::<MIN>::deserialize(from).map(|limit| limit.0)
    }

    pub(in super::super) fn time<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<i64>, D::Error> {
        TimeText::deserialize(from).map(|time| Some(time.0))
    }

    /// Parses a number from a string: all query parameters are strings.
    pub(crate) fn number_param<'de, D: Deserializer<'de>, const MIN: i64, const MAX: i64>(
        from: D,
    ) -> Result<Option<Int<MIN, MAX>>, D::Error> {
        let number = Cow::<str>::deserialize(from)?.parse();
        let expected = |()| Error::custom(format!("give a whole number from {MIN} to {MAX}"));
        number.map(Some).map_err(expected)
    }

    pub(in super::super) fn integer<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<i64>, D::Error> {
        Ok(number_param(from)?.map(|AnyInt { 0: number }| number))
    }

    pub(in super::super) fn offset<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
        let offset: Option<Length> = number_param(from)?;
        Ok(offset.map_or(0, |offset| usize::try_from(offset.0).unwrap_or(usize::MAX)))
    }
}
