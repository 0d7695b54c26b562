//! Declares a record type. Each field is declared once, with its class.
//!
//! The declaration generates the struct with its serde attributes, the code that writes and reads
//! its line, the checks and limits of each field, its treatment by the privacy settings, and the
//! table of fields from which schemas and documentation are generated. A text field must have one
//! of the text classes. Each text class determines how the privacy settings treat the field.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{Client, Day, IdHashes, MessageSums, Sketch, Timestamp, Validity};
use crate::error::Result;

/// A field of a record.
#[derive(Debug)]
pub(crate) struct Field {
    pub name: &'static str,
    /// The name as it is written in a line, from the preceding comma to the colon.
    pub member: &'static str,
    pub class: Class,
    pub place: Place,
}

/// The data of a field that reading and writing do not need.
#[derive(Debug)]
pub(crate) struct Detail {
    /// Its documentation, one element per line.
    pub doc: &'static [&'static str],
    /// Whether its type is an `Option`.
    pub is_optional: bool,
    /// The default if the input omits the field, although the record requires it.
    pub default: Option<&'static str>,
    /// The allowed words, if the field is an enumeration.
    pub words: &'static [&'static str],
    /// Checks that JSON is one of these words or an alias of one.
    pub check_word: Option<fn(&str) -> serde_json::Result<()>>,
}

/// Whether a type is written as an `Option`.
pub(crate) const fn is_option(name: &str) -> bool {
    matches!(name.as_bytes(), [b'O', b'p', b't', b'i', b'o', b'n', ..])
}

/// The position of a field in a line.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Part of the record's key.
    Key,
    /// Among the fields by which records are looked up.
    Lookup,
    /// After the lookup fields.
    Body,
    /// Only in lines with another op of the same kind.
    OtherOps,
    /// In no line: it is derived from other lines.
    Derived,
}

/// The value of a field: required or, as an `Option`, optional.
pub(crate) trait Maybe<T>: Sized {
    const IS_OPTIONAL: bool;
    fn given(&self) -> Option<&T>;
    fn given_mut(&mut self) -> Option<&mut T>;
    /// Returns `None` if the value is required and missing.
    fn of(value: Option<T>) -> Option<Self>;
}

impl<T> Maybe<T> for T {
    const IS_OPTIONAL: bool = false;

    #[inline(always)]
    #[allow(clippy::inline_always)] // What is optional is known where it is inlined.
    fn given(&self) -> Option<&T> {
        Some(self)
    }

    fn given_mut(&mut self) -> Option<&mut T> {
        Some(self)
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn of(value: Option<T>) -> Option<T> {
        value
    }
}

impl<T> Maybe<T> for Option<T> {
    const IS_OPTIONAL: bool = true;

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn given(&self) -> Option<&T> {
        self.as_ref()
    }

    fn given_mut(&mut self) -> Option<&mut T> {
        self.as_mut()
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn of(value: Option<T>) -> Option<Option<T>> {
        Some(value)
    }
}

/// Stands for the value of a field that is parsed and discarded.
pub(crate) struct Passed<M>(std::marker::PhantomData<M>);

macro_rules! passed {
    ($of:ty, $is_optional:literal) => {
        impl<T> Maybe<T> for Passed<$of> {
            const IS_OPTIONAL: bool = $is_optional;

            fn given(&self) -> Option<&T> {
                None
            }

            fn given_mut(&mut self) -> Option<&mut T> {
                None
            }

            #[inline(always)]
            #[allow(clippy::inline_always)]
            fn of(_: Option<T>) -> Option<Self> {
                Some(Passed(std::marker::PhantomData))
            }
        }
    };
}

passed!(T, false);
passed!(Option<T>, true);

/// An enumeration that is written as a word.
pub(crate) trait Word: Clone + std::str::FromStr + serde::de::DeserializeOwned {
    /// All words.
    const WORDS: &'static [&'static str];

    fn word(&self) -> &str;
}

/// The classes, each with its method in the three traits and its value type. A class after `=>` is
/// stored like another class and uses that class's method unless it has its own. Visitors must
/// implement the methods of text classes, because the privacy settings depend on them.
macro_rules! classes {
    ($($(#[doc = $doc:literal])+ $class:ident $method:ident: $type:ty $(=> $wire:ident)? $(, $private:ident)?;)+) => {
        /// The class of a field's values.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Class {
            $($(#[doc = $doc])+ $class,)+
            /// One word of an enumeration.
            Word,
            /// One word of an enumeration, given by the op of the line.
            Op,
            /// The time of the line.
            At,
            /// A field copied from another line with the same key.
            Repeated,
        }

        // Constants with the names of the methods, for use in declarations.
        #[allow(non_upper_case_globals)]
        impl Class {
            $(pub(crate) const $method: Class = Class::$class;)+
            pub(crate) const word: Class = Class::Word;
            pub(crate) const op: Class = Class::Op;
            pub(crate) const at: Class = Class::At;
            pub(crate) const repeated: Class = Class::Repeated;
        }

        /// Receives the fields of a record in the order of its line. Fields without an overridden
        /// method are ignored.
        pub(crate) trait FieldWriter {
            fn text(&mut self, _: &'static Field, _: &impl Maybe<String>) -> Result<()> {
                Ok(())
            }
            $(classes! { @write $method: $type $(, $wire)? })+
            fn word<W: Word>(&mut self, _: &'static Field, _: &impl Maybe<W>) -> Result<()> {
                Ok(())
            }
            /// A field copied from another record with the same key.
            fn repeated(&mut self, _: &'static Field) -> Result<()> {
                Ok(())
            }
        }

        /// Supplies the fields of a record in the order of its line.
        pub(crate) trait FieldReader {
            type Error;
            /// Whether it also reads fields that belong to lines with other ops.
            const READS_OTHER_OPS: bool;
            fn text<M: Maybe<String>>(&mut self, field: &'static Field) -> Result<M, Self::Error>;
            $(classes! { @read $method: $type $(, $wire)? })+
            fn word<W: Word, M: Maybe<W>>(&mut self, field: &'static Field) -> Result<M, Self::Error>;
            /// The word given by the op of the line.
            fn op<W: Word>(&mut self, field: &'static Field) -> Result<W, Self::Error>;
            /// The time of the line; [`NO_TIME`] if it has none.
            fn at(&mut self, field: &'static Field) -> Result<i64, Self::Error>;
            fn has(&self, field: &'static Field) -> bool;
            fn missing(&self, name: &str) -> Self::Error;
            fn repeated(&mut self, _: &'static Field) -> Result<(), Self::Error> {
                Ok(())
            }
        }

        /// Visits the fields of a record and may change texts.
        pub(crate) trait FieldVisitor {
            $(classes! { @visit $method: $type $(, $private)? })+
            fn word<W: Word>(&mut self, _: &'static Field, _: &mut impl Maybe<W>) -> Result<()> {
                Ok(())
            }
            fn op<W: Word>(&mut self, _: &'static Field, _: &mut W) -> Result<()> {
                Ok(())
            }
            fn at(&mut self, _: &'static Field, _: &mut i64) -> Result<()> {
                Ok(())
            }
        }
    };
    (@write $method:ident: $type:ty, $wire:ident) => {
        #[inline(always)]
        #[allow(clippy::inline_always)]
        fn $method(&mut self, field: &'static Field, value: &impl Maybe<$type>) -> Result<()> {
            self.$wire(field, value)
        }
    };
    (@write $method:ident: $type:ty) => {
        fn $method(&mut self, _: &'static Field, _: &impl Maybe<$type>) -> Result<()> {
            Ok(())
        }
    };
    (@read $method:ident: $type:ty, $wire:ident) => {
        #[inline(always)]
        #[allow(clippy::inline_always)]
        fn $method<M: Maybe<$type>>(&mut self, field: &'static Field) -> Result<M, Self::Error> {
            self.$wire(field)
        }
    };
    (@read $method:ident: $type:ty) => {
        fn $method<M: Maybe<$type>>(&mut self, field: &'static Field) -> Result<M, Self::Error>;
    };
    (@visit $method:ident: $type:ty, private) => {
        fn $method(&mut self, field: &'static Field, value: &mut impl Maybe<$type>) -> Result<()>;
    };
    (@visit $method:ident: $type:ty) => {
        fn $method(&mut self, _: &'static Field, _: &mut impl Maybe<$type>) -> Result<()> {
            Ok(())
        }
    };
}

classes! {
    /// A UUID.
    Uuid uuid: Uuid;
    /// A text id: not empty, with the maximum length of a name. A secret in it is replaced in a way
    /// that keeps it searchable.
    TextId text_id: String => text, private;
    /// A name of at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes, without secrets.
    Name name: String => text, private;
    /// A list of names.
    Names names: Vec<String>, private;
    /// A user id. It is hashed unless disabled in the settings.
    User user: String => text, private;
    /// A dotted name. A name that contains a secret is rejected.
    DottedName dotted_name: String => text, private;
    /// A short name. A name that contains a secret is rejected.
    Client client: Client, private;
    /// 64 hex digits.
    Hash hash: String => text;
    /// A text without secrets. It is stored even if content is not.
    Label label: String => text, private;
    /// A content of at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes.
    Title title: String => text, private;
    /// The text of a message or of an error.
    Content content: String => text, private;
    /// The text of a message or the output of a tool, depending on another field.
    Said said: String => content, private;
    /// The output of a tool, as text.
    Output output: String => text, private;
    /// The arguments or the outcome of a tool: JSON or text.
    Arguments arguments: String => payload, private;
    /// JSON or text.
    Payload payload: String, private;
    /// Metrics and names as JSON. Other texts in it are content.
    Metadata metadata: String => payload, private;
    /// A number assigned by the log, from 1. 0 requests the assignment.
    Id id: i64 => int;
    /// A position, from 0.
    Sequence sequence: i64 => int;
    /// A number.
    Int int: i64;
    /// A non-negative integer.
    Count count: i64 => int;
    /// Milliseconds from 0. The log computes the value if it is unknown.
    Elapsed elapsed: i64 => int;
    /// A number from 0 to 1.
    Fraction fraction: f64;
    /// A non-negative number, such as an amount of money in the major unit of the currency.
    Amount amount: f64 => fraction;
    /// A boolean.
    Flag flag: bool;
    /// An RFC 3339 time.
    Instant instant: Timestamp;
    /// An RFC 3339 time: the record's own time.
    OwnInstant own_instant: Timestamp => instant;
    /// Epoch milliseconds.
    Millis millis: i64 => int;
    /// Epoch milliseconds: the record's own time.
    OwnMillis own_millis: i64 => int;
    /// Epoch milliseconds: the record's own time. The op of the line determines its validity.
    Validity validity: Validity;
    /// A UTC day.
    Day day: Day;
    /// An unsigned 64-bit integer.
    Sum sum: u64;
    /// Like `Sum`, omitted if it is 0.
    SumIfAny sum_if_any: u64;
    /// A quantile sketch.
    Sketch sketch: Sketch;
    /// Counts by name.
    Counts counts: BTreeMap<String, u64>, private;
    /// Sums over messages, omitted if all are zero.
    Sums sums: MessageSums, private;
    /// A set of ids, omitted if it is empty.
    Hashes hashes: IdHashes;
}

/// Maximum number of lookup fields of a record type.
pub(crate) const LOOKUPS_MAX: usize = 6;

/// The values of a record's key and of its lookup fields.
#[derive(Debug, Clone)]
pub(crate) struct Found<'a> {
    /// Unused values are empty.
    pub key: [Value<'a>; 2],
    /// In order of declaration.
    pub lookups: [Option<Value<'a>>; LOOKUPS_MAX],
}

impl Found<'_> {
    pub(crate) const NONE: Found<'static> = Found {
        key: [Value::EMPTY; 2],
        lookups: [const { None }; LOOKUPS_MAX],
    };
}

/// A part of a key, or a lookup value.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    /// UTF-8.
    Text(&'a [u8]),
    /// A text whose JSON contains escapes, decoded.
    Unescaped(String),
    Uuid(Uuid),
    Integer(i64),
}

impl Value<'_> {
    /// Maximum length of the text of a value that is not a text.
    pub(crate) const BYTES: usize = 36;

    pub(crate) const EMPTY: Value<'static> = Value::Text(b"");

    /// The value as UTF-8, as in a line. `buffer` holds the text of a value that is not a text.
    pub(crate) fn text<'b>(&'b self, buffer: &'b mut [u8; Value::BYTES]) -> &'b [u8] {
        match self {
            Value::Text(text) => text,
            Value::Unescaped(text) => text.as_bytes(),
            Value::Uuid(id) => id.hyphenated().encode_lower(buffer).as_bytes(),
            Value::Integer(number) => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(*number).as_bytes();
                // The longest has 20 bytes.
                let (start, _) = buffer.split_at_mut(digits.len());
                start.copy_from_slice(digits);
                start
            }
        }
    }

    /// The integer value, or the integer that the text represents.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            Value::Unescaped(text) => text.parse().ok(),
            Value::Uuid(_) => None,
            Value::Integer(number) => Some(*number),
        }
    }
}

/// The type of a lookup field.
pub(crate) trait Lookup {
    fn lookup(&self) -> Option<Value<'_>>;
}

macro_rules! lookups {
    ($($type:ty, |$it:ident| $value:expr;)+) => {
        $(impl Lookup for $type {
            #[inline]
            fn lookup(&self) -> Option<Value<'_>> {
                let $it = self;
                Some($value)
            }
        })+
    };
}

lookups! {
    Uuid, |id| Value::Uuid(*id);
    i64, |number| Value::Integer(*number);
    String, |text| Value::Text(text.as_bytes());
    Client, |client| Value::Text(client.as_str().as_bytes());
    Day, |day| Value::Unescaped(day.to_string());
}

impl<T: Lookup> Lookup for Option<T> {
    #[inline]
    fn lookup(&self) -> Option<Value<'_>> {
        self.as_ref()?.lookup()
    }
}

/// Supplies the key and lookup values of a line. These are the first fields of the line.
pub(crate) trait LookupReader<'a> {
    /// Returns `None` if the field is missing.
    fn key(&mut self, field: &'static Field) -> Option<Value<'a>>;
    fn lookup(&mut self, field: &'static Field) -> Option<Value<'a>>;
}

/// The value of an unknown time.
pub(crate) const NO_TIME: i64 = i64::MIN;

/// A record type with declared fields.
pub(crate) trait Fields: Sized {
    /// All fields in the order of the line, then those that no line has.
    const FIELDS: &'static [Field];
    /// The details of each field, in the same order.
    const DETAILS: &'static [Detail];

    fn write<W: FieldWriter>(&self, writer: &mut W) -> Result<()>;

    fn read<R: FieldReader>(reader: &mut R) -> Result<Self, R::Error>;

    /// Parses all fields without building a record.
    fn pass<R: FieldReader>(reader: &mut R) -> Result<(), R::Error>;

    fn visit<V: FieldVisitor>(&mut self, visitor: &mut V) -> Result<()>;

    /// The key and lookup values.
    fn found(&self) -> Found<'_>;

    /// The key and lookup values of a line; `None` if the line has no key.
    fn read_found<'a>(line: &mut impl LookupReader<'a>) -> Option<Found<'a>>;
}

/// Declares a record type: see [`crate::record::declare`]. The syntax of a field is `[class, flags;
/// repeated] name as "name in JSON": Type`. Flags: `key` and `lookup` set its position; `=
/// "default"` after the type sets the default for input; `null` writes a missing value as null;
/// `default` makes the field optional in all JSON, `filled` in all JSON except lines; `later` marks
/// a field of later lines, `derived` a field of no line. `pub non_exhaustive struct` can get more
/// fields later: other crates create it with `new`, and a setter for each optional field.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $record:ident { $($fields:tt)+ }) => {
        record! { @struct [$(#[$meta])* pub struct $record] {} $($fields)+ }
        record! { @fields $record $($fields)+ }
    };

    ($(#[$meta:meta])* pub non_exhaustive struct $record:ident { $($fields:tt)+ }) => {
        record! { $(#[$meta])* #[non_exhaustive] pub struct $record { $($fields)+ } }
        record! { @setters $record {} $($fields)+ }
    };

    (@struct [$($head:tt)+] {$($done:tt)+}) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        $($head)+ { $($done)+ }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [$class:ident $($flags:tt)*] $field:ident as $name:literal: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(rename = $name)]
            #[cfg_attr(feature = "wire", schema(rename = $name))]
            pub $field: $type,
        } $($rest)* }
    };
    (@struct $head:tt $done:tt $(#[doc = $doc:literal])* [arguments $($flags:tt)*] $($rest:tt)+) => {
        record! { @struct $head $done $(#[doc = $doc])* [payload $($flags)*] $($rest)+ }
    };
    (@struct $head:tt $done:tt $(#[doc = $doc:literal])* [metadata $($flags:tt)*] $($rest:tt)+) => {
        record! { @struct $head $done $(#[doc = $doc])* [payload $($flags)*] $($rest)+ }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [payload $($flags:tt)*] $field:ident: Option<String> $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default, with = "crate::record::payload::optional", skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "wire", schema(value_type = Option<serde_json::Value>))]
            pub $field: Option<String>,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [payload $($flags:tt)*] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(with = "crate::record::payload::required")]
            #[cfg_attr(feature = "wire", schema(value_type = serde_json::Value))]
            pub $field: $type,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [$class:ident, lookup, null] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default)]
            #[cfg_attr(feature = "wire", schema(required))]
            pub $field: $type,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [validity $($flags:tt)*] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[cfg_attr(feature = "wire", schema(value_type = i64))]
            pub $field: $type,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [sum_if_any $($flags:tt)*] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default, skip_serializing_if = "is_zero")]
            pub $field: $type,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [sums $($flags:tt)*] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default, skip_serializing_if = "MessageSums::are_zero")]
            pub $field: $type,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [hashes $($flags:tt)*] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default, skip_serializing_if = "IdHashes::is_empty")]
            pub $field: $type,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [$class:ident $($flags:tt)*] $field:ident: Option<$type:ty> $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $field: Option<$type>,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [$class:ident, default $($flags:tt)*] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default)]
            pub $field: $type,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [$class:ident, filled $($flags:tt)*] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default)]
            pub $field: $type,
        } $($rest)* }
    };
    (@struct $head:tt {$($done:tt)*} $(#[doc = $doc:literal])* [$class:ident $($flags:tt)*] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head {
            $($done)*
            $(#[doc = $doc])*
            pub $field: $type,
        } $($rest)* }
    };

    (@field_of_struct $head:tt {$($done:tt)*} [$($attrs:tt)*] $field:ident: $type:ty; $($rest:tt)*) => {
        record! { @struct $head { $($done)* $($attrs)* pub $field: $type, } $($rest)* }
    };

    (@setters $record:ident {$($done:tt)*}) => {
        /// Setters of optional fields.
        impl $record { $($done)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$class:ident, later $($flags:tt)*] $field:ident: $type:ty, $($rest:tt)*) => {
        record! { @setters $record $done $($rest)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$class:ident, derived $($flags:tt)*] $field:ident: $type:ty, $($rest:tt)*) => {
        record! { @setters $record $done $($rest)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$class:ident, default, derived] $field:ident: $type:ty, $($rest:tt)*) => {
        record! { @setters $record $done $($rest)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$class:ident, default, later] $field:ident: $type:ty, $($rest:tt)*) => {
        record! { @setters $record $done $($rest)* }
    };
    (@setters $record:ident {$($done:tt)*} $(#[doc = $doc:literal])* [$($flags:tt)*] $field:ident $(as $name:literal)?: Option<String> $(= $default:literal)?, $($rest:tt)*) => {
        record! { @setters $record {
            $($done)*
            $(#[doc = $doc])*
            #[must_use]
            pub fn $field(mut self, $field: impl Into<String>) -> Self {
                self.$field = Some($field.into());
                self
            }
        } $($rest)* }
    };
    (@setters $record:ident {$($done:tt)*} $(#[doc = $doc:literal])* [$($flags:tt)*] $field:ident $(as $name:literal)?: Option<$type:ty> $(= $default:literal)?, $($rest:tt)*) => {
        record! { @setters $record {
            $($done)*
            $(#[doc = $doc])*
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = Some($field);
                self
            }
        } $($rest)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [own_instant $($flags:tt)*] $($rest:tt)+) => {
        record! { @setter $record $done $(#[doc = $doc])* $($rest)+ }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [own_millis $($flags:tt)*] $($rest:tt)+) => {
        record! { @setter $record $done $(#[doc = $doc])* $($rest)+ }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$class:ident, default $($flags:tt)*] $($rest:tt)+) => {
        record! { @setter $record $done $(#[doc = $doc])* $($rest)+ }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$($flags:tt)*] $field:ident $(as $name:literal)?: $type:ty = $default:literal, $($rest:tt)*) => {
        record! { @setter $record $done $(#[doc = $doc])* $field: $type, $($rest)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$($flags:tt)*] $field:ident $(as $name:literal)?: $type:ty, $($rest:tt)*) => {
        record! { @setters $record $done $($rest)* }
    };
    (@setter $record:ident {$($done:tt)*} $(#[doc = $doc:literal])* $field:ident $(as $name:literal)?: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @setters $record {
            $($done)*
            $(#[doc = $doc])*
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            }
        } $($rest)* }
    };

    (@fields $record:ident $($(#[doc = $doc:literal])* [$class:ident $(, $flag:ident)* $(; $repeated:ident)?] $field:ident $(as $name:literal)?: $type:ty $(= $default:literal)?,)+) => {
        impl $crate::record::declare::Fields for $record {
            const FIELDS: &'static [$crate::record::declare::Field] = &[$(
                record!(@field [$class $(, $flag)*] $field $($name)?),
                $(record!(@field [repeated] $repeated),)?
            )+];
            const DETAILS: &'static [$crate::record::declare::Detail] = &[$(
                $crate::record::declare::Detail {
                    doc: &[$($doc),*],
                    is_optional: $crate::record::declare::is_option(stringify!($type)),
                    default: record!(@default [$class $(, $flag)*] $($default)?),
                    words: record!(@words $class $type),
                    check_word: record!(@check_word $class $type),
                },
                $($crate::record::declare::Detail {
                    doc: &[concat!(" `", stringify!($repeated), "` of another record of the same key.")],
                    is_optional: true,
                    default: None,
                    words: &[],
                    check_word: None,
                },)?
            )+];

            #[inline]
            fn write<W: $crate::record::declare::FieldWriter>(&self, writer: &mut W) -> $crate::Result<()> {
                $(
                    record!(@write writer self [$class $(, $flag)*] $field $($name)?);
                    $(writer.repeated(record!(@static [repeated] $repeated))?;)?
                )+
                Ok(())
            }

            #[inline]
            fn read<R: $crate::record::declare::FieldReader>(reader: &mut R) -> Result<Self, R::Error> {
                Ok($record {
                    $($field: {
                        let value = record!(@read reader [$class $(, $flag)*] $field $($name)? => $type);
                        $(reader.repeated(record!(@static [repeated] $repeated))?;)?
                        value
                    },)+
                })
            }

            #[inline]
            fn pass<R: $crate::record::declare::FieldReader>(reader: &mut R) -> Result<(), R::Error> {
                $(
                    record!(@pass reader [$class $(, $flag)*] $field $($name)? => $type);
                    $(reader.repeated(record!(@static [repeated] $repeated))?;)?
                )+
                Ok(())
            }

            fn visit<V: $crate::record::declare::FieldVisitor>(&mut self, visitor: &mut V) -> $crate::Result<()> {
                $(visitor.$class(record!(@static [$class $(, $flag)*] $field $($name)?), &mut self.$field)?;)+
                Ok(())
            }

            #[inline]
            #[allow(unused_mut, unused_variables, unused_assignments)]
            fn found(&self) -> $crate::record::declare::Found<'_> {
                let mut found = $crate::record::declare::Found::NONE;
                let (mut keys, mut lookups) = (0, 0);
                $(record!(@found self found keys lookups $field $($flag)*);)+
                found
            }

            #[inline(always)]
            #[allow(clippy::inline_always, unused_mut, unused_variables, unused_assignments)]
            fn read_found<'a>(
                line: &mut impl $crate::record::declare::LookupReader<'a>,
            ) -> Option<$crate::record::declare::Found<'a>> {
                let mut found = $crate::record::declare::Found::NONE;
                let (mut keys, mut lookups) = (0, 0);
                $(record!(@read_found line found keys lookups [$class $(, $flag)*] $field $($name)?; $($flag)*);)+
                Some(found)
            }
        }
    };

    (@words word $type:ty) => { <$type as $crate::record::declare::Word>::WORDS };
    (@words op $type:ty) => { <$type as $crate::record::declare::Word>::WORDS };
    (@words $class:ident $type:ty) => { &[] };
    (@check_word word $type:ty) => { Some(|json| serde_json::from_str::<$type>(json).map(drop)) };
    (@check_word op $type:ty) => { Some(|json| serde_json::from_str::<$type>(json).map(drop)) };
    (@check_word $class:ident $type:ty) => { None };
    (@default $class:tt $default:literal) => { Some($default) };
    (@default [own_instant $($flag:tt)*]) => { Some("now") };
    (@default [own_millis $($flag:tt)*]) => { Some("now") };
    (@default [validity $($flag:tt)*]) => { Some("now") };
    (@default [id $($flag:tt)*]) => { Some("the next one") };
    (@default $class:tt) => { None };
    (@static $class:tt $field:ident $($name:literal)?) => {{
        const FIELD: $crate::record::declare::Field = record!(@field $class $field $($name)?);
        &FIELD
    }};
    (@field $class:tt $field:ident) => {
        record!(@field_of $class stringify!($field))
    };
    (@field $class:tt $field:ident $name:literal) => {
        record!(@field_of $class $name)
    };
    (@field_of [$class:ident $(, $flag:ident)*] $name:expr) => {
        $crate::record::declare::Field {
            name: $name,
            member: concat!(",\"", $name, "\":"),
            class: $crate::record::declare::Class::$class,
            place: record!(@place $($flag)*),
        }
    };
    (@place) => { $crate::record::declare::Place::Body };
    (@place key $($flag:ident)*) => { $crate::record::declare::Place::Key };
    (@place lookup $($flag:ident)*) => { $crate::record::declare::Place::Lookup };
    (@place later $($flag:ident)*) => { $crate::record::declare::Place::OtherOps };
    (@place derived $($flag:ident)*) => { $crate::record::declare::Place::Derived };
    (@place $other:ident $($flag:ident)*) => { record!(@place $($flag)*) };

    (@found $self:ident $found:ident $keys:ident $lookups:ident $field:ident) => {};
    (@found $self:ident $found:ident $keys:ident $lookups:ident $field:ident key $($flag:ident)*) => {
        $found.key[$keys] = $crate::record::declare::Lookup::lookup(&$self.$field)
            .unwrap_or($crate::record::declare::Value::EMPTY);
        $keys += 1;
    };
    (@found $self:ident $found:ident $keys:ident $lookups:ident $field:ident lookup $($flag:ident)*) => {
        $found.lookups[$lookups] = $crate::record::declare::Lookup::lookup(&$self.$field);
        $lookups += 1;
    };
    (@found $self:ident $found:ident $keys:ident $lookups:ident $field:ident $other:ident $($flag:ident)*) => {
        record!(@found $self $found $keys $lookups $field $($flag)*)
    };
    (@read_found $line:ident $found:ident $keys:ident $lookups:ident $class:tt $field:ident $($name:literal)?;) => {};
    (@read_found $line:ident $found:ident $keys:ident $lookups:ident $class:tt $field:ident $($name:literal)?; key $($flag:ident)*) => {
        $found.key[$keys] = $line.key(record!(@static $class $field $($name)?))?;
        $keys += 1;
    };
    (@read_found $line:ident $found:ident $keys:ident $lookups:ident $class:tt $field:ident $($name:literal)?; lookup $($flag:ident)*) => {
        $found.lookups[$lookups] = $line.lookup(record!(@static $class $field $($name)?));
        $lookups += 1;
    };
    (@read_found $line:ident $found:ident $keys:ident $lookups:ident $class:tt $field:ident $($name:literal)?; $other:ident $($flag:ident)*) => {
        record!(@read_found $line $found $keys $lookups $class $field $($name)?; $($flag)*)
    };

    (@write $writer:ident $self:ident [op] $($field:tt)+) => {};
    (@write $writer:ident $self:ident [at] $($field:tt)+) => {};
    (@write $writer:ident $self:ident [$class:ident, default, later] $($field:tt)+) => {};
    (@write $writer:ident $self:ident [$class:ident, default, derived] $($field:tt)+) => {};
    (@write $writer:ident $self:ident [$class:ident, later] $($field:tt)+) => {};
    (@write $writer:ident $self:ident [$class:ident $($flags:tt)*] $field:ident $($name:literal)?) => {
        $writer.$class(record!(@static [$class $($flags)*] $field $($name)?), &$self.$field)?
    };

    (@read $reader:ident [op] $field:ident $($name:literal)? => $type:ty) => {
        $reader.op::<$type>(record!(@static [op] $field $($name)?))?
    };
    (@read $reader:ident [$class:ident, default, derived] $($field:tt)+) => { Default::default() };
    (@read $reader:ident [$class:ident, default, later] $field:ident $($name:literal)? => $type:ty) => {
        if R::READS_OTHER_OPS {
            record!(@read $reader [$class, default] $field $($name)? => $type)
        } else {
            Default::default()
        }
    };
    (@read $reader:ident [$class:ident, later] $field:ident $($name:literal)? => $type:ty) => {
        if R::READS_OTHER_OPS {
            record!(@read $reader [$class] $field $($name)? => $type)
        } else {
            None
        }
    };
    (@read $reader:ident [$class:ident, default $(, $flag:ident)*] $field:ident $($name:literal)? => $type:ty) => {
        if $reader.has(record!(@static [$class $(, $flag)*] $field $($name)?)) {
            $reader.$class(record!(@static [$class $(, $flag)*] $field $($name)?))?
        } else {
            Default::default()
        }
    };
    (@read $reader:ident [$class:ident $(, $flag:ident)*] $field:ident $($name:literal)? => $type:ty) => {
        $reader.$class(record!(@static [$class $(, $flag)*] $field $($name)?))?
    };

    (@pass $reader:ident [op] $($field:tt)+) => {};
    (@pass $reader:ident [at] $($field:tt)+) => {};
    (@pass $reader:ident [$class:ident, default, later] $($field:tt)+) => {};
    (@pass $reader:ident [$class:ident, default, derived] $($field:tt)+) => {};
    (@pass $reader:ident [$class:ident, later] $($field:tt)+) => {};
    (@pass $reader:ident [word $($flags:tt)*] $field:ident $($name:literal)? => $type:ty) => {
        $reader.word::<$type, $crate::record::declare::Passed<$type>>(record!(@static [word $($flags)*] $field $($name)?))?
    };
    (@pass $reader:ident [$class:ident $($flags:tt)*] $field:ident $($name:literal)? => $type:ty) => {
        $reader.$class::<$crate::record::declare::Passed<$type>>(record!(@static [$class $($flags)*] $field $($name)?))?
    };
}

pub(crate) use record;
