//! The fast reader returns what the parser returns, or nothing.

use proptest::prelude::*;

use super::check::{Sample, any_text};
use super::{array, object};
use crate::import::json;
use crate::record::JSON_DEPTH_MAX;

/// Text that is JSON or almost JSON.
fn nearly_json() -> impl Strategy<Value = String> {
    let string = prop_oneof![
        "[ -~é\u{1f600}]{0,40}".prop_map(|text| serde_json::Value::from(text).to_string()),
        r#""([ -~é]|\\[ -~]|\\u[0-9a-fA-F]{4}){0,12}""#,
        Just(r#""\ud83d\ude00 \u0041\ud800""#.to_owned()),
    ];
    let scalar = prop_oneof![
        string,
        "-?[0-9]{0,3}(\\.[0-9]{0,2})?([eE][+-]?[0-9]{0,2})?",
        prop::sample::select(vec![
            "true", "false", "null", "nul", "{}", "[]", "[", "}", ""
        ])
        .prop_map(str::to_owned),
    ];
    let name = prop::sample::select(vec![
        r#""a""#,
        r#""b""#,
        r#""a longer name""#,
        r#""c""#,
        r#""\u0061""#,
        r#""a b""#,
        "a",
        r#""""#,
    ]);
    let blank = prop::sample::select(vec!["", "", "", " ", "  ", "\t", "\n"]);
    scalar.prop_recursive(4, 48, 5, move |inner| {
        let member = (name.clone(), inner.clone(), blank.clone())
            .prop_map(|(name, value, blank)| format!("{blank}{name}{blank}:{blank}{value}{blank}"));
        prop_oneof![
            (prop::collection::vec(inner, 0..4), blank.clone())
                .prop_map(|(items, blank)| format!("[{blank}{}{blank}]", items.join(","))),
            prop::collection::vec(member, 0..4)
                .prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_answered_is_what_the_parser_answers(text in nearly_json(), cut in 0..200_usize) {
        any_text(&text);
        any_text(text.get(..cut).unwrap_or_default());
    }
}

#[test]
fn what_session_files_hold_is_answered() {
    let long = "x".repeat(100);
    let text = format!(
        r#"{{"z":null, "a" : {{"b":[1,-2.5e3,true,{{}},[]],"c":"\"\\\u00e9\n"}},"b":null,"a longer name":"{long}\\"}}"#
    );
    let sample: Sample<'_> = object(&text).unwrap();
    assert_eq!(
        sample.a.get(),
        Some(r#"{"b":[1,-2.5e3,true,{},[]],"c":"\"\\\u00e9\n"}"#)
    );
    assert_eq!(sample.b.get(), None);
    assert_eq!(
        json::text(sample.name).unwrap().unwrap(),
        format!("{long}\\")
    );
    assert_eq!(
        array(r#"[1,"a", {"b":2}]"#),
        Some(vec!["1", r#""a""#, r#"{"b":2}"#])
    );
}

#[test]
fn what_is_not_surely_the_same_is_left_to_the_parser() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"\u0061":1}"#,
        r#"{"a":01}"#,
        r#"{"a":1}x"#,
        "{\"a\":\"\t\"}",
        "[]",
        r#"{"a":[1,]}"#,
        r#"{"a":{]}"#,
        r#"{"a":"\x"}"#,
        r#"{"a":"\u00g0"}"#,
        "{",
        "",
    ] {
        assert!(object::<Sample<'_>>(text).is_none(), "{text}");
    }
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(object::<Sample<'_>>(&nested(JSON_DEPTH_MAX - 1)).is_some());
    assert!(object::<Sample<'_>>(&nested(JSON_DEPTH_MAX)).is_none());
}
