//! `decklog sql-views`.

use std::fs;

use rusqlite::Connection;

use super::sql::log_of_answers;
use super::sqlite::{exported, rows_of};
use super::*;

fn over(log: &Log, files: &[&Path]) -> Connection {
    let mut args = vec!["sql-views", "sqlite"];
    args.extend(files.iter().map(|file| file.to_str().unwrap()));
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(&log.ok(&args)).unwrap();
    database
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<String> = lines
        .map(|line| serde_json::from_str::<Value>(&line).unwrap().to_string())
        .collect();
    rows.sort_unstable();
    rows
}

#[test]
fn reports_run_unchanged_over_the_views() {
    let logs = [log_of_answers(), log_of_answers()];
    let files = [exported(&logs[0], &[]), exported(&logs[1], &[])];
    let one = over(&logs[0], &[&files[0]]);
    let both = over(&logs[0], &[&files[0], &files[1]]);
    let mut reports = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "sql") {
            continue;
        }
        reports += 1;
        let expected = logs[0].ok(&["sql", "--json", "--file", path.to_str().unwrap()]);
        let expected = sorted(expected.lines().map(str::to_owned));
        let sql = fs::read_to_string(&path).unwrap();
        let found = sorted(rows_of(&one, &sql).into_iter());
        assert_eq!(found, expected, "{}", path.display());
        assert!(rows_of(&both, &sql).len() >= found.len());
    }
    assert!(reports >= 11, "{reports}");
    let count = "SELECT COUNT(*) AS rows, COUNT(DISTINCT store_id) AS stores, COUNT(DISTINCT id) AS ids FROM messages";
    let [of_one, of_both] = [&one, &both].map(|database| {
        let row = rows_of(database, count).remove(0);
        serde_json::from_str::<Value>(&row).unwrap()
    });
    assert_eq!(of_one["rows"], of_one["ids"]);
    assert_eq!(
        (&of_both["stores"], &of_both["ids"]),
        (&Value::from(2), &of_one["ids"])
    );
    assert_eq!(
        of_both["rows"].as_i64(),
        of_one["rows"].as_i64().map(|rows| 2 * rows)
    );
}

#[test]
fn the_location_and_the_format_are_those_of_the_arguments() {
    let log = Log::new();
    let here = log.ok(&["sql-views", "duckdb", "logs"]);
    let cwd = std::env::current_dir().unwrap();
    let pattern = format!("read_json('{}/logs/kind=*/*/*/*.jsonl.zst'", cwd.display());
    assert!(here.contains(&pattern), "{here}");
    let parquet = log.ok(&["sql-views", "clickhouse", "/it's", "--format", "parquet"]);
    assert!(parquet.contains(r"file('/it\'s/kind=events/*/*/*.parquet', 'Parquet'"));
    let json: Value = log
        .ok(&["sql-views", "postgresql", "--json"])
        .parse()
        .unwrap();
    assert_eq!(json["engine"], "postgresql");
    assert!(
        json["sql"]
            .as_str()
            .unwrap()
            .contains("FROM public.messages;\n")
    );
    for (args, word) in [
        (&["sql-views", "oracle", "/logs"][..], "no engine"),
        (&["sql-views", "spark"], "one location"),
        (
            &["sql-views", "spark", "/logs", "--format", "jsonl"],
            "ship them as parquet",
        ),
        (&["sql-views", "clickhouse", "/lo*gs"], "pattern"),
    ] {
        let output = log.run(args);
        assert_eq!(code(&output), USAGE, "{args:?}");
        assert!(err(&output).contains(word), "{}", err(&output));
    }
}
