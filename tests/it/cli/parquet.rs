//! `decklog export parquet`.

use std::fs::File;

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::Field;
use decklog::Kind;
use decklog::record::epoch_ms;
use serde_json::{Map, json};

use super::export::{LISTS, three_days};
use super::*;
use crate::layout::write_example;
use crate::support::still;

/// The rows of a kind as JSON objects without the columns that every kind has, in the order of the
/// file. Times are epoch milliseconds, and JSON is text.
fn rows(log: &Log, kind: Kind, times: &[&str]) -> Vec<Map<String, Value>> {
    let path = log.dir.path().join("rows.parquet");
    let args = [
        "export",
        "parquet",
        path.to_str().unwrap(),
        kind.stem(),
        "--force",
    ];
    log.ok(&[&args[..], times].concat());
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|row| {
        let mut object = Map::new();
        for (name, field) in row.get_column_iter() {
            let value = match field {
                Field::Null => continue,
                Field::Str(text) => text.as_str().into(),
                Field::Bool(flag) => (*flag).into(),
                Field::Long(number) => (*number).into(),
                Field::Double(number) => (*number).into(),
                Field::TimestampMillis(at) => (*at).into(),
                Field::Date(days) => format!("day {days}").into(),
                other => panic!("{name}: {other:?}"),
            };
            assert!(object.insert(name.clone(), value).is_none(), "{name} twice");
        }
        assert!(object.remove("store_id").is_some_and(|it| it.is_string()));
        assert!(object.remove("seq").is_some_and(|it| it.is_i64()));
        assert!(object.remove("day").is_some_and(|it| it.is_string()));
        object
    })
    .collect()
}

/// What a list prints, in the form of [`rows`].
fn listed(log: &Log, (list, kind): (&str, Kind), times: &[&str]) -> Vec<Map<String, Value>> {
    let printed = log.ok(&[&["export", "jsonl", list], times].concat());
    let fields = kind.schema().fields;
    let records = objects(&printed).into_iter();
    records
        .map(|record| {
            let Value::Object(record) = record else {
                panic!("{record}");
            };
            let in_form = record.into_iter().filter_map(|(name, value)| {
                let field = fields.iter().find(|field| field.name == name);
                let type_name = field.map_or("", |it| it.type_name);
                let value = match value {
                    Value::Null => return None,
                    _ if name == "day" => return None,
                    Value::String(text) if type_name == "rfc3339" => {
                        epoch_ms(&text).unwrap().into()
                    }
                    Value::Array(_) | Value::Object(_) => value.to_string().into(),
                    _ if type_name == "json" => value.to_string().into(),
                    other => other,
                };
                Some((name, value))
            });
            in_form.collect()
        })
        .collect()
}

/// Texts of JSON are compared as JSON.
fn as_json(row: &Map<String, Value>) -> Map<String, Value> {
    let json = |value: &Value| {
        let text = value
            .as_str()
            .filter(|text| text.starts_with(['[', '{', '"']));
        text.and_then(|text| serde_json::from_str(text).ok())
    };
    row.iter()
        .map(|(name, value)| (name.clone(), json(value).unwrap_or_else(|| value.clone())))
        .collect()
}

fn sorted(rows: &[Map<String, Value>]) -> Vec<String> {
    let texts = rows
        .iter()
        .map(|row| Value::Object(as_json(row)).to_string());
    let mut texts: Vec<String> = texts.collect();
    texts.sort_unstable();
    texts
}

#[test]
fn rows_are_those_of_the_lists() {
    let log = Log::keeping_all();
    write_example(&still().open(log.path()).unwrap());
    three_days(&log);
    let range = ["--since", "2025-12-10", "--until", "2025-12-27"];
    for (list, kind) in LISTS {
        let mut found = 0;
        for times in [&[][..], &range] {
            let in_file = rows(&log, kind, times);
            // The list also sums the days that are not rolled up yet.
            if kind != Kind::Rollups {
                let in_list = listed(&log, (list, kind), times);
                assert_eq!(sorted(&in_file), sorted(&in_list), "{list} {times:?}");
            }
            found += in_file.len();
        }
        assert!(found > 0, "{list}");
    }
}

#[test]
fn proposals_and_calls_have_their_last_step() {
    let log = Log::keeping_all();
    let step = |n: u32, op: &str, more: &str| {
        let (id, op) = (id(n), Value::from(op));
        format!(r#"{{"kind":"code_edit_proposals","op":{op},"request_id":"{id}"{more}}}"#)
    };
    let new = |n| {
        step(
            n,
            "pending",
            r#","created_at":1000,"confidence":0.5,"diffs_json":[]"#,
        )
    };
    log.record(&[
        new(1),
        new(2),
        new(3),
        new(4),
        step(2, "denied", r#","decided_at":2000"#),
        step(3, "approved", r#","decided_at":3000"#),
        step(4, "approved", r#","decided_at":4000"#),
        step(4, "applied", r#","applied_at":5000,"commit_hash":"abc""#),
        request(5, 6000, "edit", "{}"),
        request(6, 7000, "edit", "{}"),
        failed(6, 7012, "no such file"),
    ]);
    let column = |rows: &[Map<String, Value>], name: &str| -> Vec<Value> {
        let values = rows.iter().map(|row| row.get(name).cloned());
        values.map(Option::unwrap_or_default).collect()
    };
    let proposals = rows(&log, Kind::CodeEditProposals, &[]);
    for (name, values) in [
        (
            "status",
            json!(["pending", "denied", "approved", "applied"]),
        ),
        ("decided_at", json!([null, 2000, 3000, 4000])),
        ("applied_at", json!([null, null, null, 5000])),
        ("commit_hash", json!([null, null, null, "abc"])),
        ("created_at", json!([1000, 1000, 1000, 1000])),
    ] {
        assert_eq!(json!(column(&proposals, name)), values, "{name}");
    }
    let of_list = listed(&log, ("proposals", Kind::CodeEditProposals), &[]);
    assert_eq!(sorted(&proposals), sorted(&of_list));
    let calls = rows(&log, Kind::ToolCalls, &[]);
    for (name, values) in [
        ("status", json!(["requested", "failed"])),
        ("started_at", json!([6000, 7000])),
        ("ended_at", json!([null, 7012])),
        ("latency_ms", json!([null, 5])),
        ("error_msg", json!([null, "no such file"])),
    ] {
        assert_eq!(json!(column(&calls, name)), values, "{name}");
    }
    let of_list = listed(&log, ("calls", Kind::ToolCalls), &[]);
    assert_eq!(sorted(&calls), sorted(&of_list));
}
