//! What the records of a kind are made of, for programs: from the declarations of their types.

use serde::Serialize;

use super::Op;
use crate::record::Kind;
use crate::record::declare::{Class, Detail, Field, Place};

/// The first format that has a field of today: there is no other one yet.
const SINCE: u32 = 1;

/// What the records of a kind are made of.
///
/// ```
/// use decklog::Kind;
/// let schema = Kind::Messages.schema();
/// let tokens = schema.fields.iter().find(|field| field.name == "tokens_in").unwrap();
/// assert_eq!((tokens.type_name, tokens.is_required), ("integer", false));
/// ```
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct KindSchema {
    /// The kind.
    pub kind: Kind,
    /// The ops of its lines, the first of a record first.
    pub ops: Vec<&'static str>,
    /// The fields of its lines in canonical order, those that other ops add last.
    pub fields: Vec<FieldSchema>,
}

/// A field of a record.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FieldSchema {
    /// Its name.
    pub name: &'static str,
    /// Its type: `uuid`, `text`, `texts`, `integer`, `number`, `boolean`, `json`, `rfc3339`,
    /// `epoch_ms`, `day` or `object`.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// The unit of a number: `ms`, `tokens`, `usd` or `fraction`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// What it holds, and thereby what privacy settings do to it: `content` is withheld, `name`
    /// loses secrets, and so on.
    pub class: Class,
    /// Whether it belongs to the key, is a lookup field, or is part of the body.
    pub place: Place,
    /// Whether a line of the op that it belongs to must have it.
    #[serde(rename = "required")]
    pub is_required: bool,
    /// The words that it may be. Empty: any value of its type.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub words: &'static [&'static str],
    /// The format that it came with.
    pub since: u32,
    /// What it says.
    pub description: String,
}

impl Kind {
    /// What its records are made of.
    pub fn schema(self) -> KindSchema {
        KindSchema {
            kind: self,
            ops: self.ops().iter().copied().map(Op::as_str).collect(),
            fields: self.details().map(FieldSchema::of).collect(),
        }
    }
}

impl FieldSchema {
    fn of((field, detail): (&'static Field, &'static Detail)) -> FieldSchema {
        let is_assigned = matches!(field.class, Class::SumIfAny | Class::Sums | Class::Hashes);
        let lines = detail.doc.iter().map(|line| line.trim());
        FieldSchema {
            name: field.name,
            type_name: field.class.type_name(),
            unit: unit(field),
            class: field.class,
            place: field.place,
            is_required: !detail.is_optional && !is_assigned,
            words: detail.words,
            since: SINCE,
            description: lines.collect::<Vec<_>>().join(" "),
        }
    }
}

fn unit(field: &Field) -> Option<&'static str> {
    match field.class {
        Class::Fraction => Some("fraction"),
        _ if field.name.ends_with("_ms") || field.name.ends_with("_ms_sum") => Some("ms"),
        _ if field.name.starts_with("tokens_") => Some("tokens"),
        _ if field.name.ends_with("_usd") => Some("usd"),
        _ => None,
    }
}

impl Class {
    fn type_name(self) -> &'static str {
        match self {
            Class::Uuid => "uuid",
            Class::TextId
            | Class::Name
            | Class::User
            | Class::DottedName
            | Class::Client
            | Class::Hash
            | Class::Label
            | Class::Title
            | Class::Content
            | Class::Said
            | Class::Output
            | Class::Word
            | Class::Op
            | Class::Hashes => "text",
            Class::Names => "texts",
            Class::Arguments | Class::Payload | Class::Metadata => "json",
            Class::Id
            | Class::Sequence
            | Class::Int
            | Class::Count
            | Class::Elapsed
            | Class::Sum
            | Class::SumIfAny
            | Class::Repeated => "integer",
            Class::Fraction | Class::Amount => "number",
            Class::Flag => "boolean",
            Class::Instant | Class::OwnInstant => "rfc3339",
            Class::Millis | Class::OwnMillis | Class::Validity | Class::At => "epoch_ms",
            Class::Day => "day",
            Class::Sketch | Class::Counts | Class::Sums => "object",
        }
    }
}
