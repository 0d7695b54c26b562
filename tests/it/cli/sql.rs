//! `decklog sql`.

use std::time::Instant;

use decklog::Timestamp;
use rusqlite::Connection;

use super::sqlite::{exported, rows_of};
use super::*;
use crate::support::DAY_MS;

/// The query by which models are compared.
const MODELS: &str = "
-- Model performance comparison
SELECT 
    model_used,
    config_used,
    COUNT(*) as requests,
    AVG(latency_ms) as avg_latency,
    SUM(tokens_in) as total_tokens_in,
    SUM(tokens_out) as total_tokens_out,
    AVG(context_utilization) as avg_context_util,
    SUM(CASE WHEN error IS NOT NULL THEN 1 ELSE 0 END) as errors
FROM messages
WHERE timestamp > datetime('now', '-7 days')
  AND role = 'assistant'
GROUP BY model_used, config_used
ORDER BY requests DESC;
";

/// A log with answers of the last days and older ones.
pub fn log_of_answers() -> Log {
    let log = Log::keeping_all();
    let now = Timestamp::now().at();
    let mut lines = vec![conversation(1)];
    let answer = |n: u32, days: i64, more: &str| {
        let at = Timestamp::from_ms(now - days * DAY_MS).unwrap();
        let (own, conversation) = (id(100 + n), id(1));
        format!(
            r#"{{"kind":"messages","id":"{own}","conversation_id":"{conversation}","role":"assistant","content":"2","timestamp":"{}"{more}}}"#,
            at.as_str()
        )
    };
    for n in 0..6 {
        let tokens = format!(
            r#","model_used":"phi-4","config_used":"D3","tokens_in":{},"tokens_out":50,"latency_ms":{},"context_utilization":0.{n}"#,
            100 + n,
            2_000 + n * 100
        );
        lines.push(answer(n, i64::from(n % 3) + 1, &tokens));
    }
    lines.push(answer(
        10,
        2,
        r#","model_used":"big","tokens_out":7,"error":"gone","error_type":"timeout""#,
    ));
    lines.push(answer(
        11,
        20,
        r#","model_used":"phi-4","config_used":"D3","tokens_in":9999"#,
    ));
    lines.push(message(12, 1, "a question"));
    log.record(&lines);
    log
}

#[test]
fn models_are_compared_as_stats_does() {
    let log = log_of_answers();
    let rows = log.json(&["sql", MODELS]);
    let stats: Value =
        serde_json::from_str(&log.ok(&["stats", "models", "--since", "7d", "--json"])).unwrap();
    let expected = stats["rows"].as_array().unwrap();
    assert_eq!((rows.len(), expected.len()), (2, 2));
    for (row, expected) in rows.iter().zip(expected) {
        for (name, path) in [
            ("model_used", "/model_used"),
            ("config_used", "/config_used"),
            ("requests", "/requests"),
            ("errors", "/errors"),
        ] {
            let expected = expected.pointer(path).unwrap_or(&Value::Null);
            assert_eq!(row[name], *expected, "{name}: {row} {expected}");
        }
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        assert!((number(&row["total_tokens_in"]) - number(&expected["tokens_in"])).abs() < 1e-9);
        assert!((number(&row["total_tokens_out"]) - number(&expected["tokens_out"])).abs() < 1e-9);
        let latency = number(&expected["latency_ms"]["avg"]);
        assert!(
            (number(&row["avg_latency"]) - latency).abs() < 1e-6,
            "{row} {expected}"
        );
        let context = number(&expected["context_utilization_avg"]);
        assert!(
            (number(&row["avg_context_util"]) - context).abs() < 1e-6,
            "{row} {expected}"
        );
    }
    assert_eq!(rows[0]["requests"], 6);
    assert_eq!(rows[0]["total_tokens_in"], 615);
    assert_eq!(rows[0]["avg_latency"], 2_250.0);
    // The same query on an export.
    let file = exported(&log, &[]);
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    assert_eq!(rows_of(&Connection::open(&file).unwrap(), MODELS), rows);
}

#[test]
fn nothing_but_reading_is_allowed() {
    let log = log_of_answers();
    let other = log.dir.path().join("other.sqlite");
    let into = format!("VACUUM INTO '{}'", other.display());
    let attach = format!("ATTACH '{}' AS other", other.display());
    for sql in [
        "DELETE FROM messages",
        "INSERT INTO messages(id) VALUES ('x')",
        "UPDATE messages SET role = 'user'",
        "CREATE TABLE x(y)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE VIRTUAL TABLE x USING messages",
        "DROP TABLE messages",
        "PRAGMA journal_mode = WAL",
        "PRAGMA temp_store_directory = '/'",
        "BEGIN",
        "REINDEX",
        &into,
        &attach,
    ] {
        let output = log.run(&["sql", sql]);
        assert_eq!(
            (code(&output), out(&output)),
            (USAGE, String::new()),
            "{sql}"
        );
        assert!(
            err(&output).contains("only SELECT statements are allowed"),
            "{sql}: {}",
            err(&output)
        );
    }
    assert!(!other.exists());
    for (sql, words) in [
        ("", "the query is empty"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SELECT 1; nonsense", "several statements"),
        (
            "SELECT modle_used FROM messages",
            "(line 1, column 8): did you mean model_used?",
        ),
        (
            "SELECT\n m.x9 FROM messages m",
            "(line 2, column 2): 'decklog sql --tables'",
        ),
        ("SELECT * FROM mesages", "did you mean messages?"),
        (
            "SELECT * FROM nowhere_else",
            "the tables are conversation_turns, tool_calls",
        ),
        ("SELECT FROM", "syntax error"),
        ("SELECT load_extension('x')", "not authorized"),
        ("SELECT abs(-9223372036854775808)", "integer overflow"),
        ("SELECT ?", "parameters"),
    ] {
        let output = log.run(&["sql", sql]);
        assert_eq!(code(&output), USAGE, "{sql}: {}", out(&output));
        assert!(err(&output).contains(words), "{sql}: {}", err(&output));
    }
}

#[test]
fn results_are_for_people_and_programs() {
    let log = Log::keeping_all();
    log.record(&[
        conversation(1),
        message(2, 1, "=1+1, \"x\"\u{1b}[31m"),
        message(3, 1, "b\nc"),
    ]);
    let sql = "SELECT content, sequence, NULL AS nil, 0.5 AS half FROM messages ORDER BY sequence";
    let json = log.json(&["sql", sql]);
    assert_eq!(
        json[1].to_string(),
        r#"{"content":"b\nc","half":0.5,"nil":null,"sequence":2}"#
    );
    let csv = log.ok(&["sql", sql, "--csv"]);
    assert_eq!(
        csv,
        "content,sequence,nil,half\n\"=1+1, \"\"x\"\"\u{1b}[31m\",1,,0.5\n\"b\nc\",2,,0.5\n"
    );
    let csv = log.ok(&["sql", sql, "--csv", "--spreadsheet"]);
    assert!(
        csv.starts_with("\u{feff}content,") && csv.contains("\"'=1+1"),
        "{csv}"
    );
    let table = log.ok(&["sql", sql]);
    assert!(!table.contains('\u{1b}'), "{table}");
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("content") && lines[0].ends_with("sequence  nil  half"),
        "{table}"
    );
    assert!(lines[2].ends_with("       2    -   0.5"), "{table}");
    // Many columns do not fit beside each other.
    let args = [
        "--color",
        "always",
        "sql",
        "SELECT * FROM messages ORDER BY sequence",
    ];
    let mut command = log.command(&args);
    let wide = out(&command
        .env("COLUMNS", "80")
        .env("NO_COLOR", "1")
        .output()
        .unwrap());
    let wide = wide.replace("\u{1b}[2m", "").replace("\u{1b}[0m", "");
    assert!(!wide.contains('\u{1b}'), "{wide}");
    let values: Vec<&str> = wide
        .lines()
        .filter(|it| it.starts_with("sequence "))
        .collect();
    assert_eq!(
        values,
        ["sequence               1", "sequence               2"],
        "{wide}"
    );
    // A name is untrusted too.
    let table = log.ok(&["sql", "SELECT 1 AS \"\u{1b}[31m\""]);
    assert!(!table.contains('\u{1b}'), "{table}");

    let from_stdin = log.run_with(&["sql"], b"SELECT count(*) AS n FROM messages;");
    assert_eq!(out(&from_stdin), "n\n2\n");
    let file = log.dir.path().join("query.sql");
    std::fs::write(
        &file,
        "-- all of them\nSELECT count(*) AS n\nFROM messages\n",
    )
    .unwrap();
    assert_eq!(log.ok(&["sql", "--file", file.to_str().unwrap()]), "n\n2\n");
    let output = log.run(&["sql", "--file", "/nowhere.sql"]);
    assert_eq!(code(&output), STORE);
    let tables = log.ok(&["sql", "--tables"]);
    assert!(
        tables.contains("messages             timestamp                  TIMESTAMP\n"),
        "{tables}"
    );
    assert_eq!(log.json(&["sql", "--tables"])[0]["column"], "store_id");
    let output = log.run(&["sql", "SELECT 1", "--csv", "--json"]);
    assert_eq!(code(&output), USAGE);
}

/// Rows at first, then no row ever again.
const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
    SELECT x, length(content) FROM n, messages WHERE x < 20000";

/// Every file of the log, with its length.
fn files_of(log: &Log) -> Vec<(PathBuf, u64)> {
    let (mut found, mut left) = (Vec::new(), vec![log.path()]);
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            match entry.metadata().unwrap() {
                it if it.is_dir() => left.push(entry.path()),
                it => found.push((entry.path(), it.len())),
            }
        }
    }
    found.sort();
    found
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_a_query_at_once() {
    use std::os::unix::process::ExitStatusExt as _;

    use rustix::process::{Pid, Signal, kill_process};

    let log = log_of_answers();
    let before = files_of(&log);
    let mut child = spawn(&mut log.command(&["sql", ENDLESS, "--csv"]));
    let next = lines_of(child.stdout.take().unwrap());
    assert_eq!(next(), "x,length(content)");
    // Wait until it only computes. The last rows are still in its buffer.
    let number = |row: String| row.split(',').next().unwrap().parse::<u32>().unwrap();
    while number(next()) < 10_000 {}
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None);
    let began = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{began:?}");
    // Shells show this as 130.
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()));
    assert_eq!(files_of(&log), before);

    // Ctrl-C on a terminal.
    let mut pty = super::pty::Pty::start(&log.command(&["sql", ENDLESS]), 80, 24);
    pty.wait_for("length(content)", 0);
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    pty.send(b"\x03");
    let status = pty.wait_for_end();
    assert!(began.elapsed() < Duration::from_secs(1), "{began:?}");
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()));
    assert!(pty.is_as_before());
    assert_eq!(files_of(&log), before);
    // The log can be used as before.
    assert_eq!(log.json(&["sql", "SELECT count(*) FROM messages"]).len(), 1);
}
