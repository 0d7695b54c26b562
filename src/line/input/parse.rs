//! Reads what a client gives as a JSON object.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Given;
use crate::record::Kind;

/// More fields than this are looked up by hash, to find one that is given twice.
const FIELDS_FEW: usize = 64;

/// Reads the fields of a kind.
struct Fields(Kind);

impl<'de> Visitor<'de> for Fields {
    type Value = Given<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given<'static>, A::Error> {
        let mut members: Vec<(Cow<'static, str>, Cow<'static, str>)> = Vec::with_capacity(16);
        let mut names = HashSet::new();
        while let Some(name) = map.next_key_seed(FieldName(self.0))? {
            let value: Box<RawValue> = map.next_value()?;
            if members.len() == FIELDS_FEW {
                names.extend(members.iter().map(|(name, _)| name.clone()));
            }
            let is_repeated = if names.is_empty() {
                members.iter().any(|(known, _)| *known == name)
            } else {
                !names.insert(name.clone())
            };
            if is_repeated {
                return Err(A::Error::custom(format!("duplicate field `{name}`")));
            }
            members.push((name, Box::<str>::from(value).into_string().into()));
        }
        members.retain(|(_, json)| json != "null");
        Ok(Given {
            members,
            is_line: false,
        })
    }
}

/// Reads the name of a field. The names of the kind's own fields are not copied.
struct FieldName(Kind);

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Cow<'static, str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Cow<'static, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let field = self.0.field(name);
        Ok(field.map_or_else(|| name.to_owned().into(), |field| field.name.into()))
    }
}

impl Given<'static> {
    /// Reads the fields of a kind from a JSON object.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        kind: Kind,
        from: D,
    ) -> Result<Given<'static>, D::Error> {
        from.deserialize_map(Fields(kind))
    }
}
