//! Records inside the spans and log records that decklog sends, so that they come back equal.
//!
//! The attribute `decklog.records` is JSON: an array with one element per record,
//! `[kind, object]` or `[kind, object, texts]`. `object` has the fields of the record's line
//! without `seq` and `crc`. `texts` names the fields that are left out of it, because the span has
//! the same text in another attribute: the value is the hash of that text, after `=` if the field
//! is that text as JSON and not as a string.

use std::collections::{BTreeMap, HashMap};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_128;

use super::proto::{AnyValue, KeyValue, LogRecord, Scope, Span, Value};
use crate::error::{Error, Result};
use crate::line::{LINE_BYTES_MAX, decode, encode};
use crate::record::{Kind, Record};

/// The name of the scope of what decklog sends.
pub(super) const SCOPE: &str = "decklog";
/// The attribute with the records.
pub(super) const RECORDS: &str = "decklog.records";
/// Texts of this length and longer are not repeated.
const TEXT_BYTES_MIN: usize = 48;
/// Maximum depth of values in which texts are looked for.
const DEPTH_MAX: usize = 64;

/// Whether decklog sent what has this scope.
pub(super) fn is_own(scope: &Scope) -> bool {
    scope.name == SCOPE
}

/// The records of a span that decklog sent; `None` if it has none, or was changed on its way.
pub(super) fn records_of(span: &Span) -> Option<Vec<Record>> {
    read(&span.attributes)
}

/// As [`records_of`], for a log record.
pub(super) fn records_of_log(log: &LogRecord) -> Option<Vec<Record>> {
    read(&log.attributes)
}

/// Adds the attribute with these records. It comes after all others.
pub(super) fn add(records: &[&Record], attributes: &mut Vec<KeyValue>) -> Result<()> {
    let texts = Texts::of(attributes);
    let mut json = "[".to_owned();
    for (nth, record) in records.iter().enumerate() {
        if nth > 0 {
            json.push(',');
        }
        write(record, &texts, &mut json)?;
    }
    json.push(']');
    attributes.push(KeyValue {
        key: RECORDS.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::String(json)),
        }),
    });
    Ok(())
}

/// The members of an object in their order, each as it is written.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(InOrder)
    }
}

fn write(record: &Record, texts: &Texts, to: &mut String) -> Result<()> {
    let mut line = Vec::new();
    encode(record, None, 1, LINE_BYTES_MAX, &mut line)?;
    let not_json = |e: &dyn std::fmt::Display| Error::invalid(format!("not a line: {e}"));
    let members: Members<'_> = serde_json::from_slice(&line).map_err(|e| not_json(&e))?;
    let mut object = String::new();
    let mut left_out = BTreeMap::new();
    for (name, value) in &members.0 {
        if name == "seq" || name == "crc" {
            continue;
        }
        let json = value.get();
        if let Some(hash) = texts.hash_of(json) {
            left_out.insert(name, hash);
            continue;
        }
        object.push(if object.is_empty() { '{' } else { ',' });
        object.push_str(&serde_json::to_string(name).map_err(|e| not_json(&e))?);
        object.push(':');
        object.push_str(json);
    }
    object.push('}');
    to.push_str("[\"");
    to.push_str(record.kind().stem());
    to.push_str("\",");
    to.push_str(&object);
    if !left_out.is_empty() {
        to.push(',');
        to.push_str(&serde_json::to_string(&left_out).map_err(|e| not_json(&e))?);
    }
    to.push(']');
    Ok(())
}

fn read(attributes: &[KeyValue]) -> Option<Vec<Record>> {
    let own = attributes.iter().rfind(|it| it.key == RECORDS)?;
    let Some(Value::String(json)) = own.value.as_ref()?.value.as_ref() else {
        return None;
    };
    let list: Vec<Vec<&RawValue>> = serde_json::from_str(json).ok()?;
    let mut texts = None;
    list.into_iter()
        .map(|element| read_one(&element, attributes, &mut texts))
        .collect()
}

fn read_one(
    element: &[&RawValue],
    attributes: &[KeyValue],
    texts: &mut Option<Texts>,
) -> Option<Record> {
    let (kind, object, left_out) = match element {
        [kind, object] => (kind, object, None),
        [kind, object, left_out] => (kind, object, Some(left_out)),
        _ => return None,
    };
    let kind: String = serde_json::from_str(kind.get()).ok()?;
    let kind = Kind::from_stem(&kind)?;
    let mut line = object.get().strip_suffix('}')?.to_owned();
    let left_out = left_out.map(|json| serde_json::from_str(json.get()));
    let left_out: BTreeMap<String, String> = left_out.transpose().ok()?.unwrap_or_default();
    for (name, hash) in left_out {
        let texts = texts.get_or_insert_with(|| Texts::of(attributes));
        let (hash, is_raw) = match hash.strip_prefix('=') {
            Some(hash) => (hash, true),
            None => (&*hash, false),
        };
        let text = texts.0.get(&u128::from_str_radix(hash, 16).ok()?)?;
        if line.len() > 1 {
            line.push(',');
        }
        line.push_str(&serde_json::to_string(&name).ok()?);
        line.push(':');
        if is_raw {
            line.push_str(text);
        } else {
            line.push_str(&serde_json::to_string(text).ok()?);
        }
    }
    line.push('}');
    decode(kind, line.as_bytes()).ok().map(|it| it.record)
}

/// The texts in attributes, by their hash.
struct Texts(HashMap<u128, String>);

impl Texts {
    fn of(attributes: &[KeyValue]) -> Texts {
        let mut texts = Texts(HashMap::new());
        let others = attributes.iter().filter(|it| it.key != RECORDS);
        for value in others.filter_map(|it| it.value.as_ref()?.value.as_ref()) {
            texts.add_value(value, DEPTH_MAX);
        }
        texts
    }

    fn add_value(&mut self, value: &Value, depth: usize) {
        match value {
            Value::String(text) => {
                // Such as a list of messages.
                if text.starts_with('[')
                    && let Ok(json) = serde_json::from_str(text)
                {
                    self.add_json(&json);
                }
                self.add(text);
            }
            Value::Array(array) if depth > 0 => {
                for value in array.values.iter().filter_map(|it| it.value.as_ref()) {
                    self.add_value(value, depth - 1);
                }
            }
            Value::KeyValues(object) if depth > 0 => {
                let values = object.values.iter();
                for value in values.filter_map(|it| it.value.as_ref()?.value.as_ref()) {
                    self.add_value(value, depth - 1);
                }
            }
            _ => {}
        }
    }

    fn add_json(&mut self, json: &serde_json::Value) {
        match json {
            serde_json::Value::String(text) => self.add(text),
            serde_json::Value::Array(items) => items.iter().for_each(|it| self.add_json(it)),
            serde_json::Value::Object(members) => {
                members.values().for_each(|value| self.add_json(value));
            }
            _ => {}
        }
    }

    fn add(&mut self, text: &str) {
        if text.len() >= TEXT_BYTES_MIN {
            self.0
                .entry(xxh3_128(text.as_bytes()))
                .or_insert_with(|| text.to_owned());
        }
    }

    /// The hash of the text that a field has, if it is one of these.
    fn hash_of(&self, json: &str) -> Option<String> {
        if json.len() < TEXT_BYTES_MIN || self.0.is_empty() {
            return None;
        }
        let as_json = xxh3_128(json.as_bytes());
        if self.0.get(&as_json).is_some_and(|known| known == json) {
            return Some(format!("={as_json:032x}"));
        }
        let text: String = serde_json::from_str(json).ok()?;
        let hash = xxh3_128(text.as_bytes());
        // Another way to write the same text would not come back as it was.
        let is_plain = serde_json::to_string(&text).is_ok_and(|it| it == json);
        (is_plain && self.0.get(&hash) == Some(&text)).then(|| format!("{hash:032x}"))
    }
}
