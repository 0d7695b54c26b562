//! The fields of a span, and the names with a defined meaning.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};

/// Fields by name, as JSON.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// A field as text, if it is set.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }

    /// A field that holds JSON, or any text.
    pub(super) fn json(&self, name: &str) -> Option<String> {
        let value = self.0.get(name)?;
        Some(match value {
            Value::String(text) if serde_json::from_str::<Value>(text).is_ok() => text.clone(),
            other => other.to_string(),
        })
    }

    pub(super) fn into_json(self) -> Map<String, Value> {
        self.0
    }
}

macro_rules! as_json {
    ($($record:ident: $value:ty),+) => {$(
        fn $record(&mut self, field: &Field, value: $value) {
            self.0.insert(field.name().to_owned(), value.into());
        }
    )+};
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    as_json!(record_str: &str, record_i64: i64, record_u64: u64, record_f64: f64, record_bool: bool);
}
