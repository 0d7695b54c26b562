//! Limits the size of a prompt.

use serde_json::{Value, json};

/// Maximum number of items of lists of numbers.
const ITEMS_MAX: usize = 20;
/// Maximum bytes of names.
const NAME_BYTES_MAX: usize = 120;

/// A text, or its beginning and the number of omitted characters.
pub(super) fn clipped(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let shown = &text[..text.floor_char_boundary(bytes_max)];
    let left = text.len() - shown.len();
    format!("{shown}… ({left} more bytes)")
}

pub(super) fn name(text: &str) -> String {
    clipped(text, NAME_BYTES_MAX)
}

/// Numbers by name, with limits on the number and length of names.
pub(super) fn squeezed(value: Value) -> Value {
    match value {
        Value::String(text) => name(&text).into(),
        Value::Array(items) => items.into_iter().take(ITEMS_MAX).map(squeezed).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, member)| (name, squeezed(member)))
            .collect(),
        other => other,
    }
}

/// The items that fit, and whether there are more.
pub(super) fn fitting(items: impl IntoIterator<Item = Value>, bytes_max: usize) -> Value {
    let (mut shown, mut bytes) = (Vec::new(), 0);
    let mut has_more = false;
    for item in items {
        bytes += item.to_string().len() + 1;
        if bytes > bytes_max {
            has_more = true;
            break;
        }
        shown.push(item);
    }
    json!({ "latest_first": shown, "has_more": has_more })
}

/// Drops empty members.
pub(super) fn without_nulls(mut item: Value) -> Value {
    if let Value::Object(members) = &mut item {
        members.retain(|_, member| !member.is_null());
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(clipped("short", 5), "short");
        assert_eq!(clipped("a€b", 2), "a… (4 more bytes)");
        assert_eq!(clipped("€", 0), "… (3 more bytes)");
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let items = || (0..9).map(|n| json!({ "n": n }));
        let all = fitting(items(), 1_000);
        assert_eq!(all["latest_first"].as_array().map(Vec::len), Some(9));
        assert_eq!(all["has_more"], false);
        let some = fitting(items(), 20);
        assert_eq!(some["latest_first"], json!([{ "n": 0 }, { "n": 1 }]));
        assert_eq!(some["has_more"], true);
        assert_eq!(fitting(items(), 3)["latest_first"], json!([]));
    }
}
