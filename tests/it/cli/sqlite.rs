//! `decklog export sqlite`.

use std::collections::BTreeSet;

use decklog::sql::columns;
use decklog::{Kind, Timestamp};
use rusqlite::Connection;
use rusqlite::types::Value as SqlValue;

use super::sql::log_of_answers;
use super::*;
use crate::layout::write_example;
use crate::support::still;

/// The tables that other programs expect.
const EXPECTED_TABLES: &str = include_str!("requirement.sql");

/// Exports the log to a new file.
pub fn exported(log: &Log, args: &[&str]) -> PathBuf {
    let file = log.dir.path().join("log.sqlite");
    let mut all = vec!["export", "sqlite", "--force", file.to_str().unwrap()];
    all.extend(args);
    let told = log.ok(&all);
    assert!(
        told.starts_with("wrote ") && told.contains(" rows in "),
        "{told}"
    );
    file
}

/// The rows of a result, as JSON.
pub fn rows_of(database: &Connection, sql: &str) -> Vec<String> {
    let mut statement = database.prepare(sql).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map([], |row| {
        let mut object = serde_json::Map::new();
        for (place, name) in names.iter().enumerate() {
            let value = match row.get::<_, SqlValue>(place)? {
                SqlValue::Null => Value::Null,
                SqlValue::Integer(number) => number.into(),
                SqlValue::Real(number) => number.into(),
                SqlValue::Text(text) => text.into(),
                SqlValue::Blob(_) => panic!("{name} has bytes"),
            };
            object.insert(name.clone(), value);
        }
        Ok(Value::from(object).to_string())
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// What a table has for a value of a record.
fn as_sql(value: &Value, type_name: &str) -> Value {
    let time = |at: i64| {
        let text = Timestamp::from_ms(at).unwrap().as_str().replace('T', " ");
        Value::from(text.trim_end_matches('Z'))
    };
    match (value, type_name) {
        (Value::Number(at), "epoch_ms") => time(at.as_i64().unwrap()),
        (Value::String(text), "rfc3339") => time(decklog::record::epoch_ms(text).unwrap()),
        (Value::Bool(flag), _) => i64::from(*flag).into(),
        (other, _) => other.clone(),
    }
}

/// Every kind with the list of its records.
const LISTS: [(&str, Kind); 9] = [
    ("turns", Kind::ConversationTurns),
    ("calls", Kind::ToolCalls),
    ("proposals", Kind::CodeEditProposals),
    ("conversations", Kind::Conversations),
    ("messages", Kind::Messages),
    ("events", Kind::Events),
    ("inbox", Kind::Inbox),
    ("history", Kind::History),
    ("thoughts", Kind::ThoughtRecords),
];

#[test]
fn tables_and_exports_have_the_records() {
    let log = Log::new();
    write_example(&still().open(log.path()).unwrap());
    // The turn of the example is retracted, and no conversation has a cost.
    let paid = message(92, 91, "x").replace('}', r#","cost_usd":0.5}"#);
    log.record(&[turn(90, 1000, "x"), conversation(91), paid]);
    let file = exported(&log, &[]);
    let database = Connection::open(&file).unwrap();
    for (list, kind) in LISTS {
        let records = objects(&log.ok(&["export", "jsonl", list]));
        let stem = kind.stem();
        let sql = format!("SELECT * FROM {stem} ORDER BY seq");
        let mut rows = log.json(&["sql", &sql]);
        assert_eq!(rows.len(), records.len(), "{list}");
        let names: Vec<&str> = columns(kind).iter().map(|column| column.name).collect();
        let select = format!("SELECT {} FROM {stem} ORDER BY seq", names.join(", "));
        let of_file = rows_of(&database, &select).into_iter();
        let of_file: Vec<Value> = of_file
            .map(|row| serde_json::from_str(&row).unwrap())
            .collect();
        assert_eq!(rows, of_file, "{list}");
        let schema = kind.schema();
        for record in &records {
            let is_it = |row: &Value| {
                record.as_object().unwrap().iter().all(|(name, value)| {
                    let field = schema.fields.iter().find(|field| field.name == name);
                    let type_name = field.map_or("", |field| field.type_name);
                    let type_name = if name == "updated_at" && value.is_i64() {
                        "epoch_ms"
                    } else {
                        type_name
                    };
                    let found = &row[name];
                    if value.is_object() || value.is_array() {
                        let text = found.as_str().unwrap_or("null");
                        return serde_json::from_str::<Value>(text).unwrap() == *value;
                    }
                    // JSON that is a text is in its quotes.
                    let quoted = || Value::from(value.to_string());
                    *found == as_sql(value, type_name) || type_name == "json" && *found == quoted()
                })
            };
            let place = rows.iter().position(is_it);
            let place = place.unwrap_or_else(|| panic!("{list}: {record} is not in {rows:#?}"));
            rows.remove(place);
        }
    }
    let told = rows_of(
        &database,
        "SELECT count(*) AS n, max(last_seq) AS seq FROM decklog",
    );
    assert_eq!(told.len(), 1);
    let check = |sql| rows_of(&database, sql);
    assert_eq!(
        check("PRAGMA integrity_check"),
        [r#"{"integrity_check":"ok"}"#]
    );
    assert_eq!(check("PRAGMA foreign_key_check").len(), 0);
    assert!(!check("SELECT * FROM rollups").is_empty() || log.json(&["rollups"]).is_empty());
}

#[test]
fn exported_tables_are_as_expected() {
    let log = log_of_answers();
    let file = exported(&log, &[]);
    let (found, expected) = (
        Connection::open(&file).unwrap(),
        Connection::open_in_memory().unwrap(),
    );
    expected.execute_batch(EXPECTED_TABLES).unwrap();
    for table in ["conversations", "messages"] {
        let columns = |database| rows_of(database, &format!("PRAGMA table_info({table})"));
        let (columns, expected_columns) = (columns(&found), columns(&expected));
        assert_eq!(columns[..expected_columns.len()], expected_columns);
        let references = |database| rows_of(database, &format!("PRAGMA foreign_key_list({table})"));
        assert_eq!(references(&found), references(&expected));
    }
    let indexes =
        "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL";
    let all: BTreeSet<String> = rows_of(&found, indexes).into_iter().collect();
    for index in rows_of(&expected, indexes) {
        assert!(all.contains(&index), "{index}");
    }
    // Each table has the columns of `decklog sql`, and a key of its own.
    for kind in Kind::ALL {
        let stem = kind.stem();
        let of_file = rows_of(
            &found,
            &format!("SELECT name FROM pragma_table_info('{stem}')"),
        );
        let names = columns(kind).into_iter();
        let names: BTreeSet<String> = names
            .map(|it| format!(r#"{{"name":"{}"}}"#, it.name))
            .collect();
        assert_eq!(
            of_file.into_iter().collect::<BTreeSet<_>>(),
            names,
            "{stem}"
        );
        let keys = format!("SELECT count(*) AS n FROM pragma_table_info('{stem}') WHERE pk > 0");
        let is_keyed = rows_of(&found, &keys) != [r#"{"n":0}"#];
        assert_eq!(is_keyed, kind != Kind::Rollups, "{stem}");
    }
}

#[test]
fn exports_may_have_some_records() {
    let log = log_of_answers();
    let file = exported(&log, &["messages", "conversations", "--since", "7d"]);
    let database = Connection::open(&file).unwrap();
    let count =
        |sql: &str| rows_of(&database, &format!("SELECT count(*) AS n FROM {sql}"))[0].clone();
    assert_eq!(count("messages"), r#"{"n":7}"#);
    // It is older than its messages.
    assert_eq!(count("conversations"), r#"{"n":1}"#);
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";
    let names = ["conversations", "decklog", "messages"];
    assert_eq!(
        rows_of(&database, tables),
        names.map(|it| format!(r#"{{"name":"{it}"}}"#))
    );
    drop(database);

    let known = std::fs::read(&file).unwrap();
    let name = file.to_str().unwrap();
    let output = log.run(&["export", "sqlite", name]);
    assert_eq!(code(&output), USAGE);
    assert!(err(&output).contains("give --force to replace it"));
    let output = log.run(&["export", "sqlite", name, "mesages", "--force"]);
    assert_eq!(code(&output), USAGE);
    assert_eq!(std::fs::read(&file).unwrap(), known);
    let inside = log.file("log.sqlite");
    let output = log.run(&["export", "sqlite", inside.to_str().unwrap()]);
    assert!(
        err(&output).contains("in the directory of the log"),
        "{}",
        err(&output)
    );
    let output = log.run(&["export", "csv", "messages", "--force"]);
    assert_eq!(code(&output), USAGE);
    // No temporary file is left.
    let names = std::fs::read_dir(log.dir.path()).unwrap();
    assert!(
        names
            .flatten()
            .all(|it| !it.file_name().to_string_lossy().contains(".tmp"))
    );
}
