//! Properties that hold for every text.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::privacy::context::Place;
use crate::privacy::json::Said;
use crate::privacy::rules::{RUNS, TOKENS, WORDS};
use crate::privacy::runs::Runs;
use crate::privacy::scan::Scanner;

/// Texts with secrets, beginnings of secrets, and typical surrounding text.
fn texts() -> impl Strategy<Value = String> {
    let planted: Vec<Planted> = corpus("secrets.ndjson");
    let planted: Vec<String> = planted.iter().map(|one| one.text.concat()).collect();
    let piece = prop_oneof![
        4 => prop::sample::select(planted),
        2 => "[ -~é\n\u{1F600}]{0,20}",
        1 => r#"[\\"':=,{}\[\] nu0-9a-f]{0,8}"#,
        1 => prop::sample::select(vec!["password=", "\"token\": \"", "://a:", "@b ", "[REDACTED:", ":1]", "Bearer ", "sk-", "\\u0067hp_", "-----BEGIN PRIVATE KEY-----", "-----END "]).prop_map(str::to_owned),
        1 => "[0-9 +@.-]{0,24}",
        1 => prop::sample::select(vec!["\x1b[31m", "\x1b", "\x1b]0;", "\x07", "\u{9b}", "\\x1b[K", "\\e[", "\\0", "\0", "\x08", "\u{200b}", "%3D", "%2", "=3D", "=\n", "&quot;", "&#", "^[[0m", "\r", "\\\n", "\x1b[3C", "\u{fe0f}", "^M", "\\147", "\n"]).prop_map(str::to_owned),
    ];
    let cut = (piece, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(text, at, whole)| {
        let len = text.chars().count();
        let kept = if whole || len == 0 {
            len
        } else {
            at.index(len)
        };
        text.chars().take(kept).collect::<String>()
    });
    proptest::collection::vec(cut, 0..7).prop_map(|pieces| pieces.concat())
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        texts().prop_map(Value::from),
        texts().prop_map(|text| Value::from(Value::from(text).to_string())),
    ];
    let name = prop_oneof![
        "[a-z]{1,6}",
        Just("password".to_owned()),
        Just("api_key".to_owned()),
        Just("Authorization".to_owned()),
        Just("value".to_owned()),
        texts()
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name.clone(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn without_strings(value: &Value) -> Value {
    match value {
        // A number may be a password. It then becomes a string.
        Value::String(_) | Value::Number(_) => Value::from(""),
        Value::Array(items) => items.iter().map(without_strings).collect(),
        Value::Object(members) => {
            // If its name changes, a member may move.
            let mut values: Vec<Value> = members.values().map(without_strings).collect();
            values.sort_by_key(Value::to_string);
            Value::from(values)
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn what_was_redacted_stays_as_it_is(text in texts(), pii in any::<bool>()) {
        let redactor = redactor(&PrivacySettings { redact_pii: pii, ..PrivacySettings::default() });
        if let Some(once) = redactor.redacted(&text, &mut Numbers::default()) {
            prop_assert_ne!(&once, &text);
            prop_assert_eq!(redactor.redacted(&once, &mut Numbers::default()), None, "{}", once);
        }
    }

    #[test]
    fn json_stays_json(value in json()) {
        let redactor = redactor(&PrivacySettings::default());
        let text = value.to_string();
        if let Some(once) = redactor.redacted(&text, &mut Numbers::default()) {
            let now: Value = serde_json::from_str(&once).unwrap();
            prop_assert_eq!(without_strings(&now), without_strings(&value));
            prop_assert_eq!(redactor.redacted(&once, &mut Numbers::default()), None, "{}", once);
        }
    }

    /// Scanning raw JSON finds everything that scanning the decoded strings finds.
    #[test]
    fn the_quick_look_at_json_misses_nothing(value in json(), pii in any::<bool>()) {
        let settings = PrivacySettings { redact_pii: pii, ..PrivacySettings::default() };
        let scanner = Scanner::new(&settings).unwrap();
        let text = value.to_string();
        if !scanner.may_find(&text) {
            let mut any = false;
            let mut look = |said: Said<'_>, text: &str| {
                any |= match said {
                    Said::KeyLine => true,
                    said => !scanner.findings(said, text).is_empty(),
                };
                None
            };
            crate::privacy::json::rewrite(&text, &mut look).unwrap();
            prop_assert!(!any, "{}", text);
        }
    }

    /// Running every rule at every position finds nothing that the scanner misses.
    #[test]
    fn the_prefilter_passes_over_nothing(text in texts()) {
        let bytes = text.as_bytes();
        let scanner = Scanner::new(&PrivacySettings::default()).unwrap();
        let findings = scanner.findings(Said::Text, &text);
        let hidden = text.contains(PLACEHOLDER);
        let runs = Runs::new(bytes);
        for at in 0..bytes.len() {
            let tokens = TOKENS.iter().filter_map(|token| token.found(bytes, &runs, at));
            let mut all: Vec<Found> = tokens.collect();
            for context in RUNS.iter().chain(WORDS) {
                if let Some(anchor) = context.anchors.iter().find(|anchor| bytes[at..].starts_with(anchor.as_bytes())) {
                    let after = at + anchor.len();
                    context.found(&Place { text: bytes, runs: &runs, at, after, is_raw: false }, &mut all);
                }
            }
            for found in all {
                let is_in = findings.iter().any(|f| f.start <= found.start && found.end <= f.end);
                prop_assert!(is_in || hidden, "{:?} in {:?}", found, text);
            }
        }
    }
}
