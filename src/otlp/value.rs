//! Values of attributes as JSON, as text and as numbers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Number, Value as Json};

use super::json::not_finite;
use super::proto::{AnyValue, KeyValue, Value};

/// A value as JSON. Bytes are in base64; numbers that are not finite are texts.
pub(super) fn to_json(value: AnyValue) -> Json {
    match value.value {
        None => Json::Null,
        Some(Value::String(text)) => Json::String(text),
        Some(Value::Bool(flag)) => Json::Bool(flag),
        Some(Value::Int(number)) => number.into(),
        Some(Value::Double(number)) => {
            Number::from_f64(number).map_or_else(|| not_finite(number).into(), Json::Number)
        }
        Some(Value::Array(array)) => array.values.into_iter().map(to_json).collect(),
        Some(Value::KeyValues(object)) => Json::Object(object_of(object.values)),
        Some(Value::Bytes(bytes)) => BASE64.encode(bytes).into(),
    }
}

/// Attributes as an object. Of attributes with the same name, the last one applies.
pub(super) fn object_of(attributes: Vec<KeyValue>) -> Map<String, Json> {
    let entries = attributes.into_iter();
    let entries = entries.map(|it| (it.key, to_json(it.value.unwrap_or_default())));
    entries.collect()
}

/// A value as JSON; a text is parsed if it is an array or an object.
pub(super) fn parsed(value: AnyValue) -> Json {
    match value.value {
        Some(Value::String(text)) if text.trim_start().starts_with(['[', '{']) => {
            serde_json::from_str(&text).unwrap_or(Json::String(text))
        }
        other => to_json(AnyValue { value: other }),
    }
}

/// A value as text: a text as it is, other values as JSON. `None` for no value.
pub(super) fn to_text(value: AnyValue) -> Option<String> {
    match value.value? {
        Value::String(text) => Some(text),
        other => Some(to_json(AnyValue { value: Some(other) }).to_string()),
    }
}

/// A value as a name: `None` if it is empty.
pub(super) fn to_name(value: AnyValue) -> Option<String> {
    to_text(value).filter(|text| !text.is_empty())
}

/// A count, also as a number with a fraction or as text.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The cast ends at the limits.
pub(super) fn to_count(value: &AnyValue) -> Option<u64> {
    match value.value.as_ref()? {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Double(number) if *number >= 0.0 => Some(*number as u64),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A number.
#[allow(clippy::cast_precision_loss)]
pub(super) fn to_number(value: &AnyValue) -> Option<f64> {
    match value.value.as_ref()? {
        Value::Int(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}
