//! Machine-readable schemas of the kinds, generated from the declarations of the record types.

use serde::Serialize;

use super::Op;
use crate::record::Kind;
use crate::record::declare::{Class, Field, Place};

/// The format version that introduced the present fields. There is only one so far.
const SINCE: u32 = 1;

/// The schema of a kind's records.
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
    /// The ops of its lines, the op of a record's first line first.
    pub ops: Vec<&'static str>,
    /// The fields of its lines in canonical order. Fields of later ops come last.
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
    /// The class of its content, which determines its redaction by privacy settings: `content` is
    /// withheld, `name` loses secrets, and so on.
    pub class: Class,
    /// Whether it is part of the key, a lookup field, or part of the body.
    pub place: Place,
    /// Whether a line with the field's op must have it.
    #[serde(rename = "required")]
    pub is_required: bool,
    /// The allowed words. Empty: any value of its type.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub words: &'static [&'static str],
    /// The format version that introduced it.
    pub since: u32,
    /// A description for people.
    pub description: String,
}

impl Kind {
    /// The schema of its records.
    pub fn schema(self) -> KindSchema {
        KindSchema {
            kind: self,
            ops: self.ops().iter().copied().map(Op::as_str).collect(),
            fields: self.fields().map(FieldSchema::of).collect(),
        }
    }
}

impl FieldSchema {
    fn of(field: &'static Field) -> FieldSchema {
        FieldSchema {
            name: field.name,
            type_name: field.class.type_name(),
            unit: unit(field),
            class: field.class,
            place: field.place,
            is_required: !field.is_optional,
            words: field.words,
            since: SINCE,
            description: field.description(),
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
