//! Random records of any kind, with any valid contents in their fields.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, json};

use super::*;

/// Number of cases. Each runs two or more processes with a list of records.
const CASES: u32 = 8;

pub fn each_case<S: Strategy>(strategy: S, test: impl Fn(Log, S::Value)) {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&strategy, |value| {
            test(Log::new(), value);
            Ok(())
        })
        .unwrap();
}

pub fn text() -> impl Strategy<Value = Value> {
    vec(any::<char>(), 0..24).prop_map(|chars| chars.into_iter().collect::<String>().into())
}

pub fn name() -> impl Strategy<Value = Value> {
    vec(any::<char>(), 1..12).prop_map(|chars| chars.into_iter().collect::<String>().into())
}

/// A payload that is returned unchanged: an object, an array, or a text that is neither.
pub fn payload() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|n| Value::from(if n.is_finite() { n } else { 0.5 })),
        text(),
    ];
    let nested = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name(), inner), 0..4).prop_map(|members| {
                let members = members.into_iter();
                let members = members.map(|(name, value)| (name.as_str().unwrap().into(), value));
                Value::Object(members.collect())
            }),
        ]
    });
    let object = nested.prop_map(|value| json!({ "value": value }));
    let is_plain = |text: &Value| !text.as_str().unwrap().starts_with(['{', '[']);
    prop_oneof![object, text().prop_filter("a nested text", is_plain)]
}

/// RFC 3339 in several notations, which are preserved.
pub fn timestamp(year: u32) -> impl Strategy<Value = Value> {
    let zone = select(vec!["Z", "+02:00", "-11:30"]);
    let part = select(vec!["", ".5", ".123456789"]);
    (1..=12u32, 1..=28u32, 0..24u32, part, zone).prop_map(move |(month, day, hour, part, zone)| {
        format!("{year}-{month:02}-{day:02}T{hour:02}:30:59{part}{zone}").into()
    })
}

pub fn millis() -> impl Strategy<Value = Value> {
    (0..4_000_000_000_000_i64).prop_map(Value::from)
}

pub fn word(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    select(words).prop_map(Value::from)
}

pub fn fraction() -> impl Strategy<Value = Value> {
    (0.0..=1.0_f64).prop_map(Value::from)
}

pub fn number() -> impl Strategy<Value = Value> {
    (0..i64::MAX / 1000).prop_map(Value::from)
}

pub type Field = (&'static str, BoxedStrategy<Option<Value>>);

pub fn always(name: &'static str, value: impl Strategy<Value = Value> + 'static) -> Field {
    (name, value.prop_map(Some).boxed())
}

pub fn maybe(name: &'static str, value: impl Strategy<Value = Value> + 'static) -> Field {
    (name, option::of(value).boxed())
}

/// Records with these fields, some without their optional fields.
pub fn records(fields: Vec<Field>) -> impl Strategy<Value = Vec<Map<String, Value>>> {
    let (names, values): (Vec<&str>, Vec<_>) = fields.into_iter().unzip();
    let record = values.prop_map(move |values| {
        let members = names.iter().zip(values);
        let given = members.filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        given.collect()
    });
    vec(record, 1..20)
}
