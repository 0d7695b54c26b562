//! Values from a language that checks types at run time.

use std::borrow::Cow;

use super::strings::push_quoted;
use crate::error::{Error, Result};

/// A value of a field or an argument, as a language such as Python or JavaScript has it.
///
/// ```
/// use decklog::bindings::Dynamic;
/// let id = Dynamic::from("67e55044-10b1-426f-9247-bb680e5fe0c8");
/// assert_eq!(id, Dynamic::Text("67e55044-10b1-426f-9247-bb680e5fe0c8".into()));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Dynamic<'a> {
    /// Nothing: as if the field were left out.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number that may have a fraction.
    Float(f64),
    /// A text, also an id or a time.
    Text(Cow<'a, str>),
    /// An object, an array, or a number that no other variant has, as JSON.
    Json(String),
}

impl<'a> From<&'a str> for Dynamic<'a> {
    fn from(text: &'a str) -> Dynamic<'a> {
        Dynamic::Text(text.into())
    }
}

impl Dynamic<'_> {
    /// Appends its JSON.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a number that JSON does not have.
    pub(crate) fn push_json(&self, name: &str, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Dynamic::Null => out.extend_from_slice(b"null"),
            Dynamic::Bool(flag) => out.extend_from_slice(flag.to_string().as_bytes()),
            Dynamic::Int(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
            }
            Dynamic::Float(number) => {
                let finite = serde_json::Number::from_f64(*number).ok_or_else(|| {
                    Error::invalid(format!("{name} is {number}: give a finite number"))
                        .with_field(name)
                })?;
                out.extend_from_slice(finite.to_string().as_bytes());
            }
            Dynamic::Text(text) => push_quoted(out, text),
            Dynamic::Json(json) => out.extend_from_slice(json.as_bytes()),
        }
        Ok(())
    }
}
