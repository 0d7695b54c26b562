//! The fields of a span, and the names with a defined meaning.

use serde_json::{Map, Value};

/// Fields by name, as JSON.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

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

    pub(super) fn has(&self, name: &str, text: &str) -> bool {
        self.0.get(name).is_some_and(|value| value == text)
    }

    pub(super) fn into_json(self) -> Map<String, Value> {
        self.0
    }
}
