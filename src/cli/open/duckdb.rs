//! The log as views of DuckDB.

use std::ffi::OsString;
use std::fmt::Write as _;

use super::{Segments, Start};

pub fn start(files: &[Segments], args: &[OsString]) -> Start {
    let views: Vec<String> = files.iter().map(view).collect();
    let mut all: Vec<OsString> = vec!["-cmd".into(), views.join("\n").into()];
    all.extend_from_slice(args);
    Start {
        program: "duckdb",
        install: "pip install duckdb-cli, brew install duckdb, or https://duckdb.org/install",
        args: all,
        files: Vec::new(),
    }
}

/// The view of a kind: its lines, with the types of the schema. Lines that are damaged are left
/// out, and fields that a line does not have are NULL. The time of a line is `time`, as its name in
/// the line is a word of SQL.
fn view(files: &Segments) -> String {
    let schema = files.kind.schema();
    let mut types = String::from("seq: 'BIGINT', 'at': 'BIGINT', op: 'VARCHAR'");
    let mut times = Vec::new();
    for field in &schema.fields {
        let name = field.name;
        // Writing to a String cannot fail.
        let _ = write!(types, ", {name}: '{}'", sql(field.type_name));
        if field.type_name == "epoch_ms" {
            times.push(format!("epoch_ms({name}) AS {name}"));
        }
    }
    let replaced = match &*times {
        [] => String::new(),
        times => format!(" REPLACE ({})", times.join(", ")),
    };
    let (stem, pattern) = (files.kind.stem(), pattern(files));
    format!(
        "CREATE TEMP VIEW {stem} AS SELECT epoch_ms(\"at\") AS time, * EXCLUDE (\"at\"){replaced}
  FROM read_json({pattern}, format = 'newline_delimited', ignore_errors = true,
  columns = {{{types}}}) WHERE seq IS NOT NULL;"
    )
}

/// The type of a field in SQL. Times in milliseconds are converted by the view.
fn sql(type_name: &str) -> &'static str {
    match type_name {
        "uuid" => "UUID",
        "texts" => "VARCHAR[]",
        "integer" | "epoch_ms" => "BIGINT",
        "number" => "DOUBLE",
        "boolean" => "BOOLEAN",
        "json" | "object" => "JSON",
        "rfc3339" => "TIMESTAMP",
        "day" => "DATE",
        _ => "VARCHAR",
    }
}

/// The files as a literal, in which the characters of patterns in the path stand for themselves.
fn pattern(files: &Segments) -> String {
    let mut path = String::new();
    for c in files.store.to_string_lossy().chars() {
        match c {
            '*' | '?' | '[' => path.extend(['[', c, ']']),
            '\'' => path.push_str("''"),
            _ => path.push(c),
        }
    }
    format!("'{path}/{}'", files.pattern())
}
