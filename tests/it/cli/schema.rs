//! `decklog schema`: the fields of each kind's records.

use std::collections::BTreeMap;

use super::*;
use crate::erase::each_file;
use crate::layout::write_example;
use crate::support::still;

/// Whether a value in a line has the type in the schema.
fn is_of(value: &Value, type_name: &str) -> bool {
    match type_name {
        "uuid" | "text" | "rfc3339" | "day" => value.is_string(),
        "texts" => value.is_array(),
        "integer" | "epoch_ms" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object() || value.is_array(),
        "json" => true,
        other => panic!("no such type: {other}"),
    }
}

/// Every line of a store's segments, with the file stem of its kind.
fn lines(path: &Path) -> Vec<(String, serde_json::Map<String, Value>)> {
    let mut found = Vec::new();
    each_file(path, &mut |file, bytes| {
        let name = file.file_name().unwrap().to_str().unwrap();
        let Some((stem, "0001.jsonl")) = name.split_once('.') else {
            return;
        };
        for line in bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            found.push((stem.to_owned(), serde_json::from_slice(line).unwrap()));
        }
    });
    found
}

#[test]
fn the_schema_says_what_the_lines_of_files_hold() {
    let log = Log::new();
    let path = log.path();
    write_example(&still().open(&path).unwrap());
    let schemas: BTreeMap<String, Value> = log
        .ok(&["schema", "--json"])
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|schema| (schema["kind"].as_str().unwrap().to_owned(), schema))
        .collect();
    assert_eq!(schemas.len(), decklog::Kind::ALL.len());
    let mut seen = 0;
    for (stem, line) in lines(&path) {
        let schema = &schemas[&stem];
        let op = &line["op"];
        assert!(
            schema["ops"].as_array().unwrap().contains(op),
            "{stem} {op}"
        );
        let fields = schema["fields"].as_array().unwrap();
        let named = |name: &str| fields.iter().find(|field| field["name"] == name);
        for (name, value) in &line {
            if ["seq", "at", "op", "crc"].contains(&name.as_str()) {
                continue;
            }
            let field = named(name).unwrap_or_else(|| panic!("{stem} has no {name}"));
            let type_name = field["type"].as_str().unwrap();
            assert!(
                is_of(value, type_name),
                "{stem}.{name} {value}: {type_name}"
            );
            assert!(
                !field["description"].as_str().unwrap().is_empty(),
                "{stem}.{name}"
            );
            if let Some(words) = field["words"].as_array() {
                assert!(words.contains(value), "{stem}.{name} {value}");
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_kind_is_shown_and_an_unknown_one_refused() {
    let log = Log::new();
    let text = log.ok(&["schema", "history"]);
    assert!(text.starts_with("history  op: added\n"), "{text}");
    let role = text
        .lines()
        .find(|line| line.starts_with("  role "))
        .unwrap();
    assert!(
        role.contains("One of system, user, assistant, tool."),
        "{role}"
    );
    assert_eq!(text.lines().count(), 6, "{text}");
    let output = log.run(&["schema", "poems"]);
    let said = err(&output);
    assert_eq!(code(&output), USAGE, "{said}");
    assert!(said.contains("use one of conversation_turns"), "{said}");
}
