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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub name: &'static str,
    /// The name as it is written in a line, from the preceding comma to the colon.
    pub member: &'static str,
    pub class: Class,
    pub place: Place,
    /// Whether a line may omit it: its type is an `Option`, or it is omitted if it has its default.
    pub is_optional: bool,
    /// Whether a line without it is read with its default.
    pub has_default: bool,
    /// Its documentation, one element per line.
    pub doc: &'static [&'static str],
    /// The default if the input omits the field, although the record requires it.
    pub default: Option<&'static str>,
    /// The allowed words, if the field is an enumeration.
    pub words: &'static [&'static str],
    /// Checks that JSON is one of these words or an alias of one.
    pub check_word: Option<CheckWord>,
}

impl Field {
    /// Its documentation in one line.
    pub(crate) fn description(&self) -> String {
        let lines = self.doc.iter().map(|line| line.trim());
        lines.collect::<Vec<_>>().join(" ")
    }
}

pub(crate) type CheckWord = fn(&str) -> serde_json::Result<()>;

/// Whether a type is written as an `Option`.
pub(crate) const fn is_option(name: &str) -> bool {
    matches!(name.as_bytes(), [b'O', b'p', b't', b'i', b'o', b'n', ..])
}

/// Whether a field has the default of its type.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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
    fn given(&self) -> Option<&T>;
    fn given_mut(&mut self) -> Option<&mut T>;
    /// Returns `None` if the value is required and missing.
    fn of(value: Option<T>) -> Option<Self>;
}

#[allow(clippy::inline_always)] // What is optional is known where it is inlined.
impl<T> Maybe<T> for T {
    #[inline(always)]
    fn given(&self) -> Option<&T> {
        Some(self)
    }

    fn given_mut(&mut self) -> Option<&mut T> {
        Some(self)
    }

    #[inline(always)]
    fn of(value: Option<T>) -> Option<T> {
        value
    }
}

#[allow(clippy::inline_always)]
impl<T> Maybe<T> for Option<T> {
    #[inline(always)]
    fn given(&self) -> Option<&T> {
        self.as_ref()
    }

    fn given_mut(&mut self) -> Option<&mut T> {
        self.as_mut()
    }

    #[inline(always)]
    fn of(value: Option<T>) -> Option<Option<T>> {
        Some(value)
    }
}

/// An enumeration that is written as a word.
pub(crate) trait Word: Clone + std::str::FromStr + serde::de::DeserializeOwned {
    /// All words.
    const WORDS: &'static [&'static str];

    fn word(&self) -> &str;
}

/// The classes, each with its method in the three traits, its value type and the name of its type in
/// schemas. A class after `=>` is stored like another class and uses that class's method unless it
/// has its own. Visitors must implement the methods of text classes, because the privacy settings
/// depend on them.
macro_rules! classes {
    ($($(#[doc = $doc:literal])+ $class:ident $method:ident: $type:ty $(=> $wire:ident)? = $type_name:literal $(, $private:ident)?;)+) => {
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

            /// The name of its type in schemas.
            pub(crate) fn type_name(self) -> &'static str {
                match self {
                    $(Class::$class => $type_name,)+
                    Class::Word | Class::Op => "text",
                    Class::At => "epoch_ms",
                    Class::Repeated => "integer",
                }
            }

            /// Checks that JSON is a value of the class. A payload is checked as a text.
            pub(crate) fn check(self, json: &str) -> serde_json::Result<()> {
                match self {
                    $(Class::$class => serde_json::from_str::<$type>(json).map(drop),)+
                    Class::Word | Class::Op => serde_json::from_str::<String>(json).map(drop),
                    Class::At | Class::Repeated => serde_json::from_str::<i64>(json).map(drop),
                }
            }
        }

        /// Receives the fields of a record in the order of its line. Fields without an overridden
        /// method are ignored.
        pub(crate) trait FieldWriter {
            fn text(&mut self, _: &'static Field, _: Option<&String>) -> Result<()> {
                Ok(())
            }
            $(classes! { @write $method: $type $(, $wire)? })+
            fn word<W: Word>(&mut self, _: &'static Field, _: Option<&W>) -> Result<()> {
                Ok(())
            }
            /// A field copied from another record with the same key.
            fn repeated(&mut self, _: &'static Field) -> Result<()> {
                Ok(())
            }
        }

        /// Supplies the fields of a record in the order of its line; `None` for one that is absent.
        pub(crate) trait FieldReader {
            type Error;
            /// Whether it also reads fields that belong to lines with other ops.
            const READS_OTHER_OPS: bool;
            fn text(&mut self, field: &'static Field) -> Result<Option<String>, Self::Error>;
            $(classes! { @read $method: $type $(, $wire)? })+
            fn word<W: Word>(&mut self, field: &'static Field) -> Result<Option<W>, Self::Error>;
            /// The word given by the op of the line.
            fn op<W: Word>(&mut self, field: &'static Field) -> Result<W, Self::Error>;
            /// The time of the line; [`NO_TIME`] if it has none.
            fn at(&mut self, field: &'static Field) -> Result<i64, Self::Error>;
            fn missing(&self, name: &str) -> Self::Error;
            fn repeated(&mut self, field: &'static Field) -> Result<(), Self::Error>;
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
        fn $method(&mut self, field: &'static Field, value: Option<&$type>) -> Result<()> {
            self.$wire(field, value)
        }
    };
    (@write $method:ident: $type:ty) => {
        fn $method(&mut self, _: &'static Field, _: Option<&$type>) -> Result<()> {
            Ok(())
        }
    };
    (@read $method:ident: $type:ty, $wire:ident) => {
        #[inline(always)]
        #[allow(clippy::inline_always)]
        fn $method(&mut self, field: &'static Field) -> Result<Option<$type>, Self::Error> {
            self.$wire(field)
        }
    };
    (@read $method:ident: $type:ty) => {
        fn $method(&mut self, field: &'static Field) -> Result<Option<$type>, Self::Error>;
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
    Uuid uuid: Uuid = "uuid";
    /// A text id: not empty, with the maximum length of a name. A secret in it is replaced in a way
    /// that keeps it searchable.
    TextId text_id: String => text = "text", private;
    /// A name of at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes, without secrets.
    Name name: String => text = "text", private;
    /// A list of names.
    Names names: Vec<String> = "texts", private;
    /// A user id. It is hashed unless disabled in the settings.
    User user: String => text = "text", private;
    /// A dotted name. A name that contains a secret is rejected.
    DottedName dotted_name: String => text = "text", private;
    /// A short name. A name that contains a secret is rejected.
    Client client: Client = "text", private;
    /// 64 hex digits.
    Hash hash: String => text = "text";
    /// A text without secrets. It is stored even if content is not.
    Label label: String => text = "text", private;
    /// A content of at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes.
    Title title: String => text = "text", private;
    /// The text of a message or of an error.
    Content content: String => text = "text", private;
    /// The text of a message or the output of a tool, depending on another field.
    Said said: String => content = "text", private;
    /// The output of a tool, as text.
    Output output: String => text = "text", private;
    /// The arguments or the outcome of a tool: JSON or text.
    Arguments arguments: String => payload = "json", private;
    /// JSON or text.
    Payload payload: String = "json", private;
    /// Metrics and names as JSON. Other texts in it are content.
    Metadata metadata: String => payload = "json", private;
    /// A number assigned by the log, from 1. 0 requests the assignment.
    Id id: i64 => int = "integer";
    /// A position, from 0.
    Sequence sequence: i64 => int = "integer";
    /// A number.
    Int int: i64 = "integer";
    /// A non-negative integer.
    Count count: i64 => int = "integer";
    /// Milliseconds from 0. The log computes the value if it is unknown.
    Elapsed elapsed: i64 => int = "integer";
    /// A number from 0 to 1.
    Fraction fraction: f64 = "number";
    /// A non-negative number, such as an amount of money in the major unit of the currency.
    Amount amount: f64 => fraction = "number";
    /// A boolean.
    Flag flag: bool = "boolean";
    /// An RFC 3339 time.
    Instant instant: Timestamp = "rfc3339";
    /// An RFC 3339 time: the record's own time.
    OwnInstant own_instant: Timestamp => instant = "rfc3339";
    /// Epoch milliseconds.
    Millis millis: i64 => int = "epoch_ms";
    /// Epoch milliseconds: the record's own time.
    OwnMillis own_millis: i64 => int = "epoch_ms";
    /// Epoch milliseconds: the record's own time. The op of the line determines its validity.
    Validity validity: Validity = "epoch_ms";
    /// A UTC day.
    Day day: Day = "day";
    /// An unsigned 64-bit integer.
    Sum sum: u64 = "integer";
    /// Like `Sum`, omitted if it is 0.
    SumIfAny sum_if_any: u64 => sum = "integer";
    /// A quantile sketch.
    Sketch sketch: Sketch = "object";
    /// Counts by name.
    Counts counts: BTreeMap<String, u64> = "object", private;
    /// Sums over messages, omitted if all are zero.
    Sums sums: MessageSums = "object", private;
    /// A set of ids, omitted if it is empty.
    Hashes hashes: IdHashes = "text";
}

/// Maximum number of lookup fields of a record type.
pub(crate) const LOOKUPS_MAX: usize = 7;

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
/// `default` makes the field optional in all JSON, `filled` in all JSON except lines; `omitted`
/// leaves it out of all JSON if it has its default; `later` marks a field of later lines, `derived`
/// a field of no line. `pub non_exhaustive struct` can get more fields later: other crates create
/// it with `new`, and a setter for each optional field.
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
    (@struct $head:tt $done:tt $(#[doc = $doc:literal])* [$($class:tt)+] $($rest:tt)+) => {
        record! { @attributes $head $done {$(#[doc = $doc])*} [$($class)+] $($rest)+ }
    };

    // The attributes of a field, by its class, its flags and its type.
    (@attributes $head:tt $done:tt $doc:tt [arguments $($flags:tt)*] $($rest:tt)+) => {
        record! { @attributes $head $done $doc [payload $($flags)*] $($rest)+ }
    };
    (@attributes $head:tt $done:tt $doc:tt [metadata $($flags:tt)*] $($rest:tt)+) => {
        record! { @attributes $head $done $doc [payload $($flags)*] $($rest)+ }
    };
    (@attributes $head:tt $done:tt {$($doc:tt)*} [payload $($flags:tt)*] $field:ident: Option<$($rest:tt)+) => {
        record! { @push $head $done {
            $($doc)*
            #[serde(default, with = "crate::record::payload::optional", skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "wire", schema(value_type = Option<serde_json::Value>))]
        } $field: Option<$($rest)+ }
    };
    (@attributes $head:tt $done:tt {$($doc:tt)*} [payload $($flags:tt)*] $($rest:tt)+) => {
        record! { @push $head $done {
            $($doc)*
            #[serde(with = "crate::record::payload::required")]
            #[cfg_attr(feature = "wire", schema(value_type = serde_json::Value))]
        } $($rest)+ }
    };
    (@attributes $head:tt $done:tt {$($doc:tt)*} [$class:ident, lookup, null] $($rest:tt)+) => {
        record! { @push $head $done {
            $($doc)*
            #[serde(default)]
            #[cfg_attr(feature = "wire", schema(required))]
        } $($rest)+ }
    };
    (@attributes $head:tt $done:tt {$($doc:tt)*} [validity $($flags:tt)*] $($rest:tt)+) => {
        record! { @push $head $done {
            $($doc)*
            #[cfg_attr(feature = "wire", schema(value_type = i64))]
        } $($rest)+ }
    };
    (@attributes $head:tt $done:tt {$($doc:tt)*} [$class:ident, omitted] $($rest:tt)+) => {
        record! { @push $head $done {
            $($doc)*
            #[serde(default, skip_serializing_if = "crate::record::declare::is_default")]
        } $($rest)+ }
    };
    (@attributes $head:tt $done:tt {$($doc:tt)*} $class:tt $field:ident as $name:literal: $($rest:tt)+) => {
        record! { @push $head $done {
            $($doc)*
            #[serde(rename = $name)]
            #[cfg_attr(feature = "wire", schema(rename = $name))]
        } $field: $($rest)+ }
    };
    (@attributes $head:tt $done:tt {$($doc:tt)*} $class:tt $field:ident: Option<$($rest:tt)+) => {
        record! { @push $head $done {
            $($doc)*
            #[serde(default, skip_serializing_if = "Option::is_none")]
        } $field: Option<$($rest)+ }
    };
    (@attributes $head:tt $done:tt {$($doc:tt)*} [$class:ident $($flags:tt)*] $($rest:tt)+) => {
        record! { @defaulted [$($flags)*] $head $done {$($doc)*} $($rest)+ }
    };
    (@defaulted [$(, key)? $(, lookup)?] $($field:tt)+) => {
        record! { @push $($field)+ }
    };
    // With any other flag, the field may be absent.
    (@defaulted $flags:tt $head:tt $done:tt {$($doc:tt)*} $($rest:tt)+) => {
        record! { @push $head $done {$($doc)* #[serde(default)]} $($rest)+ }
    };
    (@push $head:tt {$($done:tt)*} {$($attributes:tt)*} $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)*) => {
        record! { @struct $head { $($done)* $($attributes)* pub $field: $type, } $($rest)* }
    };

    (@setters $record:ident {$($done:tt)*}) => {
        /// Setters of optional fields.
        impl $record { $($done)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$class:ident, later] $field:ident: $type:ty, $($rest:tt)*) => {
        record! { @setters $record $done $($rest)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$class:ident, derived] $field:ident: $type:ty, $($rest:tt)*) => {
        record! { @setters $record $done $($rest)* }
    };
    (@setters $record:ident {$($done:tt)*} $(#[doc = $doc:literal])* [$($class:tt)+] $field:ident: Option<String> $(= $default:literal)?, $($rest:tt)*) => {
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
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$($class:tt)+] $field:ident: Option<$type:ty> $(= $default:literal)?, $($rest:tt)*) => {
        record! { @setter $record $done $(#[doc = $doc])* $field: $type => Some($field), $($rest)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [own_instant] $field:ident: $type:ty, $($rest:tt)+) => {
        record! { @setter $record $done $(#[doc = $doc])* $field: $type => $field, $($rest)+ }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [own_millis] $field:ident: $type:ty, $($rest:tt)+) => {
        record! { @setter $record $done $(#[doc = $doc])* $field: $type => $field, $($rest)+ }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$class:ident, default $($flags:tt)*] $field:ident: $type:ty $(= $default:literal)?, $($rest:tt)+) => {
        record! { @setter $record $done $(#[doc = $doc])* $field: $type => $field, $($rest)+ }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$($class:tt)+] $field:ident: $type:ty = $default:literal, $($rest:tt)*) => {
        record! { @setter $record $done $(#[doc = $doc])* $field: $type => $field, $($rest)* }
    };
    (@setters $record:ident $done:tt $(#[doc = $doc:literal])* [$($class:tt)+] $field:ident: $type:ty, $($rest:tt)*) => {
        record! { @setters $record $done $($rest)* }
    };
    (@setter $record:ident {$($done:tt)*} $(#[doc = $doc:literal])* $field:ident: $type:ty => $value:expr, $($rest:tt)*) => {
        record! { @setters $record {
            $($done)*
            $(#[doc = $doc])*
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $value;
                self
            }
        } $($rest)* }
    };

    (@fields $record:ident $($(#[doc = $doc:literal])* [$class:ident $(, $flag:ident)* $(; $repeated:ident)?] $field:ident $(as $name:literal)?: $type:ty $(= $default:literal)?,)+) => {
        const _: () = {
            use $crate::record::declare;

            /// Each field as a constant.
            struct Declared;

            #[allow(non_upper_case_globals)]
            impl Declared {
                $(
                    const $field: &'static declare::Field = &declare::Field {
                        doc: &[$($doc),*],
                        default: record!(@default $class $($default)?),
                        words: record!(@words $class $type),
                        check_word: record!(@check_word $class $type),
                        ..record!(@field [$class $(, $flag)*] $type, $field $($name)?)
                    };
                    $(const $repeated: &'static declare::Field = &declare::Field {
                        doc: &[concat!(" `", stringify!($repeated), "` of another record of the same key.")],
                        ..record!(@field [repeated] Option<_>, $repeated)
                    };)?
                )+
            }

            impl declare::Fields for $record {
                const FIELDS: &'static [declare::Field] = &[$(*Declared::$field, $(*Declared::$repeated,)?)+];

                #[inline]
                fn write<W: declare::FieldWriter>(&self, writer: &mut W) -> $crate::Result<()> {
                    $(
                        record!(@in_line [$class $(, $flag)*] {
                            writer.$class(Declared::$field, record!(@given self.$field, [$class $(, $flag)*]))?;
                        });
                        $(writer.repeated(Declared::$repeated)?;)?
                    )+
                    Ok(())
                }

                #[inline]
                fn read<R: declare::FieldReader>(reader: &mut R) -> Result<Self, R::Error> {
                    Ok($record {
                        $($field: {
                            let value = record!(@read R, reader, [$class $(, $flag)*] $field: $type);
                            $(reader.repeated(Declared::$repeated)?;)?
                            value
                        },)+
                    })
                }

                #[inline]
                fn pass<R: declare::FieldReader>(reader: &mut R) -> Result<(), R::Error> {
                    $(
                        record!(@in_line [$class $(, $flag)*] {
                            record!(@pass reader, $class $field: $type);
                        });
                        $(reader.repeated(Declared::$repeated)?;)?
                    )+
                    Ok(())
                }

                fn visit<V: declare::FieldVisitor>(&mut self, visitor: &mut V) -> $crate::Result<()> {
                    $(visitor.$class(Declared::$field, &mut self.$field)?;)+
                    Ok(())
                }

                #[inline]
                #[allow(unused_mut, unused_variables, unused_assignments)]
                fn found(&self) -> declare::Found<'_> {
                    let mut found = declare::Found::NONE;
                    let (mut keys, mut lookups) = (0, 0);
                    $(record!(@found self found keys lookups $field $($flag)*);)+
                    found
                }

                #[inline(always)]
                #[allow(clippy::inline_always, unused_assignments)]
                fn read_found<'a>(line: &mut impl declare::LookupReader<'a>) -> Option<declare::Found<'a>> {
                    let mut found = declare::Found::NONE;
                    let (mut keys, mut lookups) = (0, 0);
                    $(match Declared::$field.place {
                        declare::Place::Key => {
                            found.key[keys] = line.key(Declared::$field)?;
                            keys += 1;
                        }
                        declare::Place::Lookup => {
                            found.lookups[lookups] = line.lookup(Declared::$field);
                            lookups += 1;
                        }
                        _ => {}
                    })+
                    Some(found)
                }
            }
        };
    };

    (@words word $type:ty) => { <$type as declare::Word>::WORDS };
    (@words op $type:ty) => { <$type as declare::Word>::WORDS };
    (@words $class:ident $type:ty) => { &[] };
    (@check_word word $type:ty) => { Some(|json| serde_json::from_str::<$type>(json).map(drop)) };
    (@check_word op $type:ty) => { Some(|json| serde_json::from_str::<$type>(json).map(drop)) };
    (@check_word $class:ident $type:ty) => { None };
    (@default $class:ident $default:literal) => { Some($default) };
    (@default own_instant) => { Some("now") };
    (@default own_millis) => { Some("now") };
    (@default validity) => { Some("now") };
    (@default id) => { Some("the next one") };
    (@default $class:ident) => { None };
    (@field $class:tt $type:ty, $field:ident) => {
        record!(@field $class $type, stringify!($field))
    };
    (@field $class:tt $type:ty, $field:ident $name:literal) => {
        record!(@field $class $type, $name)
    };
    (@field [$class:ident $(, $flag:ident)*] $type:ty, $name:expr) => {
        declare::Field {
            name: $name,
            member: concat!(",\"", $name, "\":"),
            class: declare::Class::$class,
            place: record!(@place $($flag)*),
            is_optional: declare::is_option(stringify!($type)) || record!(@has_flag omitted $($flag)*),
            has_default: record!(@has_flag default $($flag)*),
            doc: &[],
            default: None,
            words: &[],
            check_word: None,
        }
    };
    (@place) => { declare::Place::Body };
    (@place key $($flag:ident)*) => { declare::Place::Key };
    (@place lookup $($flag:ident)*) => { declare::Place::Lookup };
    (@place later $($flag:ident)*) => { declare::Place::OtherOps };
    (@place derived $($flag:ident)*) => { declare::Place::Derived };
    (@place $other:ident $($flag:ident)*) => { record!(@place $($flag)*) };
    (@has_flag omitted omitted) => { true };
    (@has_flag default default $($flag:ident)*) => { true };
    (@has_flag $wanted:ident $($flag:ident)*) => { false };

    (@found $self:ident $found:ident $keys:ident $lookups:ident $field:ident) => {};
    (@found $self:ident $found:ident $keys:ident $lookups:ident $field:ident key $($flag:ident)*) => {
        $found.key[$keys] = declare::Lookup::lookup(&$self.$field).unwrap_or(declare::Value::EMPTY);
        $keys += 1;
    };
    (@found $self:ident $found:ident $keys:ident $lookups:ident $field:ident lookup $($flag:ident)*) => {
        $found.lookups[$lookups] = declare::Lookup::lookup(&$self.$field);
        $lookups += 1;
    };
    (@found $self:ident $found:ident $keys:ident $lookups:ident $field:ident $other:ident $($flag:ident)*) => {
        record!(@found $self $found $keys $lookups $field $($flag)*)
    };

    // What is done for a field that is part of the line.
    (@in_line [op] $do:tt) => {};
    (@in_line [at] $do:tt) => {};
    (@in_line [$class:ident, later] $do:tt) => {};
    (@in_line [$class:ident, derived] $do:tt) => {};
    (@in_line $class:tt {$($do:tt)+}) => { $($do)+ };

    (@given $self:ident.$field:ident, [$class:ident, omitted]) => {
        Some(&$self.$field).filter(|value| !declare::is_default(*value))
    };
    (@given $self:ident.$field:ident, $class:tt) => { declare::Maybe::given(&$self.$field) };

    (@read $R:ident, $reader:ident, [op] $field:ident: $type:ty) => { $reader.op(Declared::$field)? };
    (@read $R:ident, $reader:ident, [at] $field:ident: $type:ty) => { $reader.at(Declared::$field)? };
    (@read $R:ident, $reader:ident, [$class:ident, derived] $field:ident: $type:ty) => { Default::default() };
    (@read $R:ident, $reader:ident, [$class:ident, later] $field:ident: $type:ty) => {
        if $R::READS_OTHER_OPS {
            record!(@read $R, $reader, [$class, default] $field: $type)
        } else {
            Default::default()
        }
    };
    (@read $R:ident, $reader:ident, [$class:ident, default $($flags:tt)*] $field:ident: $type:ty) => {
        <$type as declare::Maybe<_>>::of($reader.$class(Declared::$field)?).unwrap_or_default()
    };
    (@read $R:ident, $reader:ident, [$class:ident, omitted] $field:ident: $type:ty) => {
        $reader.$class(Declared::$field)?.unwrap_or_default()
    };
    (@read $R:ident, $reader:ident, [$class:ident $($flags:tt)*] $field:ident: $type:ty) => {
        match <$type as declare::Maybe<_>>::of($reader.$class(Declared::$field)?) {
            Some(value) => value,
            None => return Err($reader.missing(Declared::$field.name)),
        }
    };

    (@pass $reader:ident, word $field:ident: $type:ty) => { $reader.word::<$type>(Declared::$field)? };
    (@pass $reader:ident, $class:ident $field:ident: $type:ty) => { $reader.$class(Declared::$field)? };
}

pub(crate) use record;
