//! Values as `wire.js` writes them: a byte for the type, then the value. Numbers are little-endian.
//!
//! | type | value |
//! |---|---|
//! | 0, 1, 2 | none: `null`, `false`, `true` |
//! | 3, 4 | a double: an integer, a number with a fraction |
//! | 5 | a text: its length in 4 bytes, then UTF-8 |
//! | 6 | a number in decimal, as a text |
//! | 7 | an array: the number of items in 4 bytes, then the items |
//! | 8 | an object: the number of members in 4 bytes, then each member's name and value |
//!
//! A name is its number in 2 bytes, see `names`, or 65535 and then a text.

use std::sync::Arc;

use decklog::Kind;
use decklog::bindings::{self, Dynamic, Input, push_text};
use napi::Result;

use crate::errors::{self, OrThrow as _};
use crate::names;

const INLINE_NAME: u16 = u16::MAX;
const NO_KIND: u8 = u8::MAX;

/// The names and values of a record, or of the arguments of a list.
pub(crate) type Members<'a> = Vec<(&'a str, Dynamic<'a>)>;

pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    names: Arc<Vec<&'static str>>,
}

fn cut() -> napi::Error {
    errors::fault("a value is cut off")
}

/// Reads what JavaScript wrote.
pub(crate) fn read<T>(
    bytes: &[u8],
    length: u32,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T>,
) -> Result<T> {
    let bytes = bytes.get(..length as usize).ok_or_else(cut)?;
    let names = names::all();
    read(&mut Reader { bytes, names })
}

/// A single record.
pub(crate) fn record(bytes: &[u8], length: u32) -> Result<Input> {
    read(bytes, length, |reader| {
        let kind = reader.kind()?;
        reader.record_of(kind)
    })
}

/// A single value as JSON.
pub(crate) fn json(bytes: &[u8], length: u32) -> Result<String> {
    read(bytes, length, |reader| {
        let mut out = Vec::with_capacity(length as usize);
        reader.push_json(&mut out)?;
        String::from_utf8(out).map_err(errors::fault)
    })
}

/// A payload: a text as it is, anything else as JSON.
pub(crate) fn payload(bytes: &[u8], length: u32) -> Result<String> {
    read(bytes, length, |reader| {
        Ok(match reader.value()? {
            Dynamic::Text(text) => bindings::payload(text.into_owned()),
            Dynamic::Json(json) => json,
            Dynamic::Bool(flag) => flag.to_string(),
            Dynamic::Int(number) => number.to_string(),
            Dynamic::Float(number) => serde_json::to_string(&number).map_err(errors::fault)?,
            _ => "null".to_owned(),
        })
    })
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, left) = self.bytes.split_at_checked(length).ok_or_else(cut)?;
        self.bytes = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, left) = self.bytes.split_first_chunk().ok_or_else(cut)?;
        self.bytes = left;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn count(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn double(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<&'a str> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).map_err(errors::fault)
    }

    fn name(&mut self) -> Result<&'a str> {
        match u16::from_le_bytes(self.array()?) {
            INLINE_NAME => self.text(),
            number => {
                let name = self.names.get(usize::from(number)).copied();
                name.ok_or_else(|| errors::fault("a name is unknown"))
            }
        }
    }

    fn value(&mut self) -> Result<Dynamic<'a>> {
        let whole = self.bytes;
        Ok(match self.byte()? {
            0 => Dynamic::Null,
            1 => Dynamic::Bool(false),
            2 => Dynamic::Bool(true),
            3 => Dynamic::Int(integer(self.double()?)),
            4 => Dynamic::Float(self.double()?),
            5 => Dynamic::Text(self.text()?.into()),
            6 => {
                let digits = self.text()?;
                let number = digits.parse().map(Dynamic::Int);
                number.unwrap_or_else(|_| Dynamic::Json(digits.to_owned()))
            }
            _ => {
                self.bytes = whole;
                let mut out = Vec::with_capacity(128);
                self.push_json(&mut out)?;
                Dynamic::Json(String::from_utf8(out).map_err(errors::fault)?)
            }
        })
    }

    fn push_json(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match self.byte()? {
            0 => out.extend_from_slice(b"null"),
            1 => out.extend_from_slice(b"false"),
            2 => out.extend_from_slice(b"true"),
            3 => push(out, &integer(self.double()?))?,
            4 => push(out, &self.double()?)?,
            5 => push_text(out, self.text()?),
            6 => out.extend_from_slice(self.text()?.as_bytes()),
            7 => {
                out.push(b'[');
                for place in 0..self.count()? {
                    if place > 0 {
                        out.push(b',');
                    }
                    self.push_json(out)?;
                }
                out.push(b']');
            }
            8 => {
                out.push(b'{');
                for place in 0..self.count()? {
                    if place > 0 {
                        out.push(b',');
                    }
                    push_text(out, self.name()?);
                    out.push(b':');
                    self.push_json(out)?;
                }
                out.push(b'}');
            }
            other => {
                return Err(errors::fault(format!(
                    "a value has the unknown type {other}"
                )));
            }
        }
        Ok(())
    }

    /// An object of which each member is a field or an argument.
    pub(crate) fn members(&mut self) -> Result<Members<'a>> {
        if self.byte()? != 8 {
            return Err(errors::fault("fields are no object"));
        }
        let count = self.count()?;
        let mut members = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            members.push((self.name()?, self.value()?));
        }
        Ok(members)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A record: the number of its kind or 255, and its fields.
    pub(crate) fn record(&mut self) -> Result<Input> {
        let kind = self.kind()?;
        self.record_of(kind)
    }

    fn kind(&mut self) -> Result<Option<Kind>> {
        match self.byte()? {
            NO_KIND => Ok(None),
            number => Kind::ALL
                .get(usize::from(number))
                .copied()
                .map(Some)
                .ok_or_else(|| errors::fault("a kind is unknown")),
        }
    }

    pub(crate) fn record_of(&mut self, kind: Option<Kind>) -> Result<Input> {
        Input::new(kind, &self.members()?).or_throw()
    }
}

/// `wire.js` gives an integer that a double holds exactly.
fn integer(double: f64) -> i64 {
    double as i64
}

fn push(out: &mut Vec<u8>, value: &impl serde::Serialize) -> Result<()> {
    serde_json::to_writer(out, value).map_err(errors::fault)
}
