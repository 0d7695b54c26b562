//! Payloads: decides which texts are stored as nested JSON, and which JSON is rejected.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::scanner::{Scanner, tokens};
use crate::error::{Error, Result};

/// Maximum nesting depth of a line's JSON, including its own object.
pub const JSON_DEPTH_MAX: usize = 64;

/// How a payload is written into a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As JSON, unchanged.
    Nested,
    /// As a JSON string with the text.
    Text,
}

/// Decides how `text` is stored. JSON objects, arrays, numbers, `true` and `false` are stored
/// unchanged, unless they contain a line break or are surrounded by white space. Any other text is
/// stored as a string. A JSON string whose text is a number, `true` or `false` is also stored
/// unchanged, so that `"4.5"` and `4.5` differ. Both forms preserve the exact bytes.
///
/// # Errors
/// JSON that readers cannot be expected to parse: nested deeper than [`JSON_DEPTH_MAX`], or with a
/// lone surrogate.
pub(crate) fn form(field: &str, text: &str) -> Result<Form> {
    let bytes = text.as_bytes();
    let bracketed = matches!(
        (bytes.first(), bytes.last()),
        (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']'))
    );
    if !bracketed {
        return Ok(if is_scalar(text) || is_quoted_scalar(text) {
            Form::Nested
        } else {
            Form::Text
        });
    }
    let mut scanner = Scanner::new(bytes);
    if scanner.value().is_none() || scanner.at < bytes.len() {
        check_depth(field, bytes)?;
        return Ok(Form::Text);
    }
    if scanner.has_lone_surrogate {
        let reason = serde_json::from_str::<Value>(text).err();
        let reason = reason.map_or_else(String::new, |e| e.to_string());
        return Err(Error::invalid(format!(
            "{field} holds a lone surrogate, which is no text: {reason}"
        ))
        .with_field(field));
    }
    Ok(if scanner.has_line_break {
        Form::Text
    } else {
        Form::Nested
    })
}

/// Whether a text is a JSON number, `true` or `false`.
pub(crate) fn is_scalar(text: &str) -> bool {
    const BYTES_MAX: usize = 64;
    let is_number = || {
        let first = text.bytes().next();
        let may_be = first.is_some_and(|byte| byte == b'-' || byte.is_ascii_digit());
        let has_blank = text.bytes().any(|byte| byte.is_ascii_whitespace());
        may_be && !has_blank && text.len() <= BYTES_MAX && serde_json::from_str::<f64>(text).is_ok()
    };
    matches!(text, "true" | "false") || is_number()
}

/// Whether a text is a JSON string that [`from_string`] made of a scalar, once or repeatedly.
fn is_quoted_scalar(text: &str) -> bool {
    if !(text.len() > 2 && text.starts_with('"') && text.ends_with('"')) {
        return false;
    }
    let inner = serde_json::from_str::<String>(text);
    inner.is_ok_and(|inner| {
        let is_of_scalar = is_scalar(&inner) || is_quoted_scalar(&inner);
        let json = Value::from(inner).to_string();
        is_of_scalar && json == text
    })
}

/// The payload that a JSON string represents: its text. If the text is a scalar, the payload is the
/// JSON string itself.
pub(crate) fn from_string(text: String) -> String {
    if is_scalar(&text) || is_quoted_scalar(&text) {
        Value::from(text).to_string()
    } else {
        text
    }
}

/// Rejects a text whose brackets outside strings are all closed but nested too deep, with the line's
/// own object as one more level. Whether it is JSON cannot be decided, because parsers stop at their
/// own depth limit.
fn check_depth(field: &str, text: &[u8]) -> Result<()> {
    let (mut open, mut deepest, mut balanced) = (Vec::new(), 0, true);
    for token in tokens(text) {
        match text[token.start] {
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            bracket @ (b'}' | b']') => balanced &= open.pop() == Some(bracket),
            // A string without an end.
            b'"' if token.len() == 1 => balanced = false,
            _ => {}
        }
        deepest = deepest.max(open.len());
    }
    if deepest < JSON_DEPTH_MAX || !balanced || !open.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{field} is nested {deepest} levels deep: at most {} are allowed",
        JSON_DEPTH_MAX - 1
    ))
    .with_field(field))
}

/// A payload, such as `arguments_json`, as JSON in the form that the files use: unchanged if it is
/// JSON on one line, otherwise as a string.
///
/// ```
/// use decklog::record::payload_json;
/// assert_eq!(payload_json(r#"{"path":"a"}"#), r#"{"path":"a"}"#);
/// assert_eq!(payload_json("4.5"), "4.5");
/// assert_eq!(payload_json("*** Begin Patch\n"), r#""*** Begin Patch\n""#);
/// ```
pub fn payload_json(text: &str) -> Cow<'_, str> {
    match form("payload", text) {
        Ok(Form::Nested) => Cow::Borrowed(text),
        // A payload that is too deep to be stored can still be shown.
        Ok(Form::Text) | Err(_) => Cow::Owned(Value::from(text).to_string()),
    }
}

/// The payload that a JSON value represents: for a string, see [`from_string`]; otherwise its
/// bytes.
pub(crate) fn from_json(raw: &RawValue) -> serde_json::Result<String> {
    if raw.get().starts_with('"') {
        serde_json::from_str(raw.get()).map(from_string)
    } else {
        Ok(raw.get().to_owned())
    }
}

/// For serde: a required payload.
pub(crate) mod required {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        // A payload that is too deep to be stored can still be shown. Another program may have
        // written it.
        let json = RawValue::from_string(super::payload_json(text).into_owned());
        json.map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        if raw.get() == "null" {
            return Err(serde::de::Error::custom(
                "null is not a payload: give JSON or a text",
            ));
        }
        super::from_json(&raw).map_err(serde::de::Error::custom)
    }
}

/// For serde: an optional payload.
pub(crate) mod optional {
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::value::RawValue;

    // The signature is serde's.
    #[allow(clippy::ref_option)]
    pub(crate) fn serialize<S: Serializer>(
        text: &Option<impl AsRef<str>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match text {
            Some(text) => super::required::serialize(text.as_ref(), serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<String>, D::Error> {
        let raw = Option::<Box<RawValue>>::deserialize(from)?;
        let text = raw.map(|raw| super::from_json(&raw)).transpose();
        text.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Another program may have written it. It must not break a list.
    #[test]
    fn what_is_nested_too_deep_is_shown_as_a_text() {
        let deep = "[".repeat(JSON_DEPTH_MAX) + &"]".repeat(JSON_DEPTH_MAX);
        assert!(form("payload", &deep).is_err());
        let event = crate::record::Event {
            payload: Some(deep.clone()),
            ..crate::record::Event::new(None, "run.started")
        };
        let shown: Value = serde_json::to_value(event).unwrap();
        assert_eq!(shown["payload"], deep);
    }

    /// JSON as written by agents, people and fuzzers.
    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|b| b.to_string()),
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>().prop_map(|n| Value::from(n).to_string()),
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,3})?",
            any::<String>().prop_map(|text| Value::from(text).to_string()),
            "[a-zé ]{0,80}".prop_map(|text| Value::from(text).to_string()),
            r#""([a-z]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|\\ud83d\\ude00){0,20}""#,
        ];
        let blank = || prop_oneof![8 => Just(""), 1 => Just(" "), 1 => Just("\n\t")];
        leaf.prop_recursive(5, 40, 6, move |inner| {
            let items = proptest::collection::vec((blank(), inner.clone()), 0..6);
            let members = proptest::collection::vec((blank(), any::<String>(), inner), 0..6);
            prop_oneof![
                items.prop_map(|items| {
                    let items = items
                        .into_iter()
                        .map(|(blank, json)| blank.to_owned() + &json);
                    format!("[{}]", items.collect::<Vec<_>>().join(","))
                }),
                members.prop_map(|members| {
                    let member = |(blank, name, json): (&str, String, String)| {
                        format!("{blank}{}{blank}:{json}{blank}", Value::from(name))
                    };
                    let members: Vec<String> = members.into_iter().map(member).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_one_pass_says_what_the_parser_says(
            json in json(),
            edits in proptest::collection::vec((any::<prop::sample::Index>(), r#"[\[\]{}",:\\\\u0-9a-f.eE+ \n\x00-]?"#), 0..3),
        ) {
            let mut text = format!("[{json}]");
            for (index, edit) in edits {
                let at = text.char_indices().nth(index.index(text.chars().count()));
                if let Some((at, char)) = at.filter(|(at, _)| *at > 0) {
                    text.replace_range(at..at + char.len_utf8(), &edit);
                }
            }
            let mut scanner = Scanner::new(text.as_bytes());
            let is_json = scanner.value().is_some();
            let json = text.get(..scanner.at).unwrap_or_default();
            if is_json && !scanner.has_lone_surrogate {
                prop_assert!(serde_json::from_str::<Value>(json).is_ok(), "{}", json);
            }
            let is_whole = is_json && json.len() == text.len();
            let is_text = is_whole && !scanner.has_lone_surrogate;
            // The parser ignores blanks after a value, which is then no longer stored as it is.
            let is_read = is_json
                && text[json.len()..].trim_ascii().is_empty()
                && !scanner.has_lone_surrogate;
            prop_assert_eq!(serde_json::from_str::<Value>(&text).is_ok(), is_read, "{}", text);
            // The raw JSON of a value may have lone surrogates, and any exponent.
            let is_any = serde_json::from_str::<&RawValue>(&text).is_ok();
            prop_assert!(is_any || !is_whole, "{}", text);
            let is_one_line = !text.contains(['\n', '\r']);
            if let Ok(Form::Nested) = form("x", &text) {
                prop_assert!(is_text && is_one_line, "{}", text);
            } else if let Ok(Form::Text) = form("x", &text) {
                prop_assert!(!is_text || !is_one_line, "{}", text);
            } else {
                prop_assert!(is_whole && scanner.has_lone_surrogate, "{}", text);
            }
        }
    }

    #[test]
    fn the_one_pass_is_sure_of_what_agents_write() {
        for text in [
            "{}",
            "[]",
            "[{},[],\"\"]",
            r#"{"path": "src/a.rs", "n": [1, -2.5e3, null, true, false], "s": "\u00e9\ud83d\ude00\n"}"#,
            "{\n  \"a\": {}\n}",
        ] {
            let mut scanner = Scanner::new(text.as_bytes());
            assert_eq!(scanner.value(), Some(()), "{text}");
            assert_eq!(scanner.at, text.len(), "{text}");
        }
        let deep = "[".repeat(63) + &"]".repeat(63);
        assert!(Scanner::new(deep.as_bytes()).value().is_some());
    }

    #[test]
    fn only_plain_json_is_nested() {
        for text in [
            r#"{"a":1}"#,
            "[]",
            r#"[1e400,{"a":1,"a":2}]"#,
            r#"["\ud83d\ude00"]"#,
        ] {
            let expected = if text.contains("1e400") {
                Form::Text
            } else {
                Form::Nested
            };
            assert_eq!(form("x", text).unwrap(), expected, "{text}");
        }
        for text in ["1", "-2.50e3", "true", "false", "\"4.5\"", r#""\"true\"""#] {
            assert_eq!(form("x", text).unwrap(), Form::Nested, "{text}");
        }
        for text in [
            "",
            "01",
            "1 ",
            "null",
            "1e400",
            "\"a\"",
            "\"",
            "\"\\u0034\"",
            " {}",
            "{}\n",
            "[1,\n2]",
            "[1,\r2]",
            "{a}",
            "{\"a\":}",
            "[NaN]",
        ] {
            assert_eq!(form("x", text).unwrap(), Form::Text, "{text}");
        }
    }

    #[test]
    fn what_no_reader_could_read_is_refused() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(form("x", &nested(63)).unwrap(), Form::Nested);
        assert!(form("x", &nested(64)).is_err());
        assert!(form("x", &nested(100_000)).is_err());
        assert_eq!(form("x", &("[".repeat(100) + "]")).unwrap(), Form::Text);
        assert!(form("x", r#"["\ud800"]"#).is_err());
        assert!(form("x", r#"["\udc00\ud800"]"#).is_err());
        assert!(form("x", r#"{"a":"\ud800 \u00e9 \udfff"}"#).is_err());
        assert_eq!(form("x", r#"{"a":1, \ud800}"#).unwrap(), Form::Text);
        assert_eq!(form("x", r#"["\ud800",]"#).unwrap(), Form::Text);
        assert_eq!(form("x", r#"["\\ud800"]"#).unwrap(), Form::Nested);
    }
}
