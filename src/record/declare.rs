//! The declaration of a type of record: each field once, with its class.
//!
//! From it come the struct with its serde attributes, what writes and reads a line of it, the
//! checks and limits of each field, what privacy settings do to it, and the table of fields that
//! schemas and documentation are made of. A text must have one of the classes of texts, each of
//! which says what privacy settings do to it.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{Client, Day, IdHashes, MessageSums, Sketch, Timestamp, Validity};
use crate::error::Result;

/// A field of a record.
#[derive(Debug)]
pub(crate) struct Field {
    pub name: &'static str,
    /// The name as it stands in a line, from the comma before it to its colon.
    pub member: &'static str,
    pub class: Class,
    pub place: Place,
}

/// What is known of a field beside what reading and writing it takes.
#[derive(Debug)]
pub(crate) struct Detail {
    /// Its documentation, line by line.
    pub doc: &'static [&'static str],
    /// Whether its type is an `Option`.
    pub is_optional: bool,
    /// What it is where who gives the record leaves it out, though a record has it.
    pub default: Option<&'static str>,
    /// The words that it may be, if they are few.
    pub words: &'static [&'static str],
    /// Reads JSON that is one of them, or stands for one.
    pub check_word: Option<fn(&str) -> serde_json::Result<()>>,
}

/// Whether a type is written as an `Option`.
pub(crate) const fn is_option(name: &str) -> bool {
    matches!(name.as_bytes(), [b'O', b'p', b't', b'i', b'o', b'n', ..])
}

/// Where a field stands in a line.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the record's key.
    Key,
    /// Among the fields that records are found by.
    Lookup,
    /// After those.
    Body,
    /// Only in lines of other ops of the kind.
    OtherOps,
    /// In no line: it follows from other lines.
    Derived,
}

/// The value of a field: required or, as an `Option`, optional.
pub(crate) trait Maybe<T>: Sized {
    const IS_OPTIONAL: bool;
    fn given(&self) -> Option<&T>;
    fn given_mut(&mut self) -> Option<&mut T>;
    /// `None` if the value is required and missing.
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

/// Stands for the value of a field that is read and not kept.
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

/// A word of a list.
pub(crate) trait Word: Clone + std::str::FromStr + serde::de::DeserializeOwned {
    /// All that there are.
    const WORDS: &'static [&'static str];

    fn word(&self) -> &str;
}

/// The classes, with the method of each in the three traits and the type of its values. One that
/// is stored as another one has that one's method unless it has its own. Those of texts have to be
/// treated by whoever visits fields for the sake of privacy.
macro_rules! classes {
    ($($(#[doc = $doc:literal])+ $class:ident $method:ident: $type:ty $(=> $wire:ident)? $(, $private:ident)?;)+) => {
        /// What a field holds.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Class {
            $($(#[doc = $doc])+ $class,)+
            /// One of a few words.
            Word,
            /// One of a few words, which the line's op says.
            Op,
            /// The line's time.
            At,
            /// What the line has from another one of the same key.
            Repeated,
        }

        // Each by the name of its method, as declarations write it.
        #[allow(non_upper_case_globals)]
        impl Class {
            $(pub(crate) const $method: Class = Class::$class;)+
            pub(crate) const word: Class = Class::Word;
            pub(crate) const op: Class = Class::Op;
            pub(crate) const at: Class = Class::At;
            pub(crate) const repeated: Class = Class::Repeated;
        }

        /// Takes the fields of a record in the order of its line. What it has no method for, it
        /// passes over.
        pub(crate) trait FieldWriter {
            fn text(&mut self, _: &'static Field, _: &impl Maybe<String>) -> Result<()> {
                Ok(())
            }
            $(classes! { @write $method: $type $(, $wire)? })+
            fn word<W: Word>(&mut self, _: &'static Field, _: &impl Maybe<W>) -> Result<()> {
                Ok(())
            }
            /// A field that the line repeats from another record of the same key.
            fn repeated(&mut self, _: &'static Field) -> Result<()> {
                Ok(())
            }
        }

        /// Gives the fields of a record in the order of its line.
        pub(crate) trait FieldReader {
            type Error;
            /// Whether it reads fields that belong to lines of other ops.
            const READS_OTHER_OPS: bool;
            fn text<M: Maybe<String>>(&mut self, field: &'static Field) -> Result<M, Self::Error>;
            $(classes! { @read $method: $type $(, $wire)? })+
            fn word<W: Word, M: Maybe<W>>(&mut self, field: &'static Field) -> Result<M, Self::Error>;
            /// The word that the line's op is.
            fn op<W: Word>(&mut self, field: &'static Field) -> Result<W, Self::Error>;
            /// The line's time; [`NO_TIME`] if it has none.
            fn at(&mut self, field: &'static Field) -> Result<i64, Self::Error>;
            fn has(&self, field: &'static Field) -> bool;
            fn missing(&self, name: &str) -> Self::Error;
            fn repeated(&mut self, _: &'static Field) -> Result<(), Self::Error> {
                Ok(())
            }
        }

        /// Looks at the fields of a record, and may change texts.
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
    /// An id that is a text: not empty, and limited as a name is. A secret in it is replaced so
    /// that it is found all the same.
    TextId text_id: String => text, private;
    /// A name of at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes, without secrets.
    Name name: String => text, private;
    /// Names.
    Names names: Vec<String>, private;
    /// Who it is: hashed unless the settings say otherwise.
    User user: String => text, private;
    /// A dotted name. One that holds a secret is refused.
    DottedName dotted_name: String => text, private;
    /// A short name. One that holds a secret is refused.
    Client client: Client, private;
    /// 64 hex digits.
    Hash hash: String => text;
    /// A text without secrets, which is kept where contents are not.
    Label label: String => text, private;
    /// A content of at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes.
    Title title: String => text, private;
    /// What was said or went wrong.
    Content content: String => text, private;
    /// What was said, or a tool returned, as another field says.
    Said said: String => content, private;
    /// What a tool returned, as a text.
    Output output: String => text, private;
    /// The arguments or the outcome of a tool: JSON, or a text.
    Arguments arguments: String => payload, private;
    /// JSON, or a text.
    Payload payload: String, private;
    /// Metrics and names as JSON. Other texts in it are content.
    Metadata metadata: String => payload, private;
    /// A number that the log gives, from 1; 0 asks for it.
    Id id: i64 => int;
    /// A place, from 0.
    Sequence sequence: i64 => int;
    /// A number.
    Int int: i64;
    /// A number from 0.
    Count count: i64 => int;
    /// Milliseconds from 0, which the log counts where they are not known.
    Elapsed elapsed: i64 => int;
    /// A number from 0 to 1.
    Fraction fraction: f64;
    /// A number from 0, such as an amount of money in the currency's major unit.
    Amount amount: f64 => fraction;
    /// Yes or no.
    Flag flag: bool;
    /// RFC 3339.
    Instant instant: Timestamp;
    /// RFC 3339: the record's own time.
    OwnInstant own_instant: Timestamp => instant;
    /// Epoch milliseconds.
    Millis millis: i64 => int;
    /// Epoch milliseconds: the record's own time.
    OwnMillis own_millis: i64 => int;
    /// Epoch milliseconds: the record's own time. The op says whether it is valid.
    Validity validity: Validity;
    /// A UTC day.
    Day day: Day;
    /// A number of 64 bits from 0.
    Sum sum: u64;
    /// The same, left out where it is 0.
    SumIfAny sum_if_any: u64;
    /// A quantile sketch.
    Sketch sketch: Sketch;
    /// Numbers by name.
    Counts counts: BTreeMap<String, u64>, private;
    /// What messages add up to, left out where it is nothing.
    Sums sums: MessageSums, private;
    /// A set of ids, left out where it is empty.
    Hashes hashes: IdHashes;
}

/// Maximum number of fields that a type of record is found by.
pub(crate) const LOOKUPS_MAX: usize = 6;

/// The values of a record's key, and of the fields that it is found by.
#[derive(Debug, Clone)]
pub(crate) struct Found<'a> {
    /// Unused ones are empty.
    pub key: [Value<'a>; 2],
    /// In the order of their declaration.
    pub lookups: [Option<Value<'a>>; LOOKUPS_MAX],
}

impl Found<'_> {
    pub(crate) const NONE: Found<'static> = Found {
        key: [Value::EMPTY; 2],
        lookups: [const { None }; LOOKUPS_MAX],
    };
}

/// A part of a key, or what a record is found by.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    /// UTF-8.
    Text(&'a [u8]),
    /// A text whose line has escapes.
    Unescaped(String),
    Uuid(Uuid),
    Integer(i64),
}

impl Value<'_> {
    /// The longest of those that are no text yet.
    pub(crate) const BYTES: usize = 36;

    pub(crate) const EMPTY: Value<'static> = Value::Text(b"");

    /// The value as a line has it, in UTF-8; `buffer` holds it if it is no text yet.
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

    /// The number that it is or says.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            Value::Unescaped(text) => text.parse().ok(),
            Value::Uuid(_) => None,
            Value::Integer(number) => Some(*number),
        }
    }
}

/// The type of a field that a record is found by.
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

/// Gives the values of the fields that a line is found by, which are the first that it has.
pub(crate) trait LookupReader<'a> {
    /// `None` if it is not there.
    fn key(&mut self, field: &'static Field) -> Option<Value<'a>>;
    fn lookup(&mut self, field: &'static Field) -> Option<Value<'a>>;
}

/// Stands for a time that is not known.
pub(crate) const NO_TIME: i64 = i64::MIN;

/// A type of record whose fields are declared.
pub(crate) trait Fields: Sized {
    /// Every field in the order of its line; then those that stand in none of it.
    const FIELDS: &'static [Field];
    /// Of each of them.
    const DETAILS: &'static [Detail];

    fn write<W: FieldWriter>(&self, writer: &mut W) -> Result<()>;

    fn read<R: FieldReader>(reader: &mut R) -> Result<Self, R::Error>;

    /// Reads all fields, and makes nothing of them.
    fn pass<R: FieldReader>(reader: &mut R) -> Result<(), R::Error>;

    fn visit<V: FieldVisitor>(&mut self, visitor: &mut V) -> Result<()>;

    /// What it is found by.
    fn found(&self) -> Found<'_>;

    /// What its line is found by; `None` if the line has no key.
    fn read_found<'a>(line: &mut impl LookupReader<'a>) -> Option<Found<'a>>;
}

/// Declares a type of record: see [`crate::record::declare`]. A field is written as
/// `[class, flags; repeated] name as "name in JSON": Type`. Flags: `key` and `lookup` say where it
/// stands; `= "what"` after the type says what it is where input leaves it out; `null` shows it as null where it is none; `default` lets JSON leave it out, and `filled` all JSON but a line; `later` is a
/// field of later lines, `derived` one of none.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $record:ident { $($fields:tt)+ }) => {
        record! { @struct [$(#[$meta])* pub struct $record] {} $($fields)+ }
        record! { @fields $record $($fields)+ }
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
