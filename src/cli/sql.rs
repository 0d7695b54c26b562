//! `decklog sql`

use std::borrow::Cow;
use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::path::PathBuf;

use decklog::Kind;
use decklog::human::count;
use decklog::sql::{Database, Query, Value, columns};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::context::Context;
use super::escape::{one_line, padded, width};
use super::exit::{Exit, Failure};
use super::export::csv;
use super::output::{Colour, Span};
use super::table::{Cell, Column, Table};

/// Number of rows that a table on the terminal is laid out for; then the heading comes again.
const ROWS: usize = 1_000;
/// Characters of the terminal's width that a column needs. If there is less, each value has a line.
const COLUMN_CHARS: usize = 10;

/// Query the log with SQL
///
/// Each kind of record is a table of SQLite, and a row is the current state of a record. The query
/// reads the files of the log: conditions on the time of a record, on its key and on the fields by
/// which records are found are answered by the index, and other conditions read each record.
/// Nothing can be changed.
///
/// Times are texts in UTC, such as '2025-12-27 10:40:00.123', as SQLite's date functions take
/// them. The columns store_id, seq (the number of the record's line) and day (its UTC day) come
/// first. Fields that hold JSON are texts for SQLite's JSON functions.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("spreadsheet", |it| it.requires("csv")),
    after_help = "Examples:\n  decklog sql \"SELECT model_used, count(*), sum(tokens_out) FROM messages\n    WHERE timestamp > datetime('now', '-7 days') GROUP BY model_used\"\n  decklog sql \"SELECT tool_name, avg(latency_ms) FROM tool_calls GROUP BY tool_name\" --csv\n  decklog sql \"SELECT * FROM messages WHERE id = '0b9f…'\" --json\n  decklog sql --file report.sql\n  decklog sql --tables"
)]
pub struct Args {
    /// One SELECT statement. Default: '-', standard input
    #[arg(value_name = "QUERY", conflicts_with_all = ["file", "tables"])]
    query: Option<String>,
    /// Read the statement from this file
    #[arg(long, value_name = "FILE", conflicts_with = "tables")]
    file: Option<PathBuf>,
    /// List the tables with their columns and types
    #[arg(long)]
    tables: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    style: csv::Style,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    if args.csv && context.json {
        return Err(Failure::usage("give --csv or --json, not both"));
    }
    if args.tables {
        return tables(args, context);
    }
    let sql = text(args)?;
    let store = context.open_to_read()?;
    let database = Database::of(&store)?;
    let mut query = database.prepare(&sql)?;
    if context.json {
        json(&mut query, context)?;
    } else if args.csv {
        as_csv(&mut query, args.style, context)?;
    } else {
        table(&mut query, context)?;
    }
    Ok(Exit::Ok)
}

/// The text of the statement.
fn text(args: &Args) -> Result<String, Failure> {
    if let Some(path) = &args.file {
        let read = std::fs::read_to_string(path);
        return read.map_err(|e| Failure::store(format!("cannot read {}: {e}", path.display())));
    }
    match args.query.as_deref() {
        Some(query) if query != "-" => Ok(query.to_owned()),
        _ => {
            let mut text = String::new();
            let read = io::stdin().lock().read_to_string(&mut text);
            read.map_err(|e| Failure::store(format!("cannot read standard input: {e}")))?;
            Ok(text)
        }
    }
}

fn tables(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let all = Kind::ALL.into_iter();
    let all = all.flat_map(|kind| columns(kind).into_iter().map(move |column| (kind, column)));
    let all = all.map(|(kind, column)| [kind.stem(), column.name, column.sql_type]);
    let names = ["table", "column", "type"];
    if context.json {
        for row in all {
            context.out.json(&Object {
                names: &names,
                values: &row.map(|text| Value::Text(text.into())),
            })?;
        }
        return Ok(Exit::Ok);
    }
    let table = Table {
        columns: vec![
            Column::text("TABLE", names[0]),
            Column::text("COLUMN", names[1]),
            Column::text("TYPE", names[2]),
        ],
        rows: all
            .map(|row| row.map(|text| Cell::Text(Some(text.to_owned()))).to_vec())
            .collect(),
        ..Table::default()
    };
    if args.csv {
        table.csv(&mut context.out, args.style)?;
    } else {
        table.print(&mut context.out)?;
    }
    Ok(Exit::Ok)
}

/// A row as a JSON object. Columns with the same name are each in it.
struct Object<'a, N> {
    names: &'a [N],
    values: &'a [Value<'a>],
}

impl<N: AsRef<str>> Serialize for Object<'_, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.names.len()))?;
        for (name, value) in self.names.iter().zip(self.values) {
            map.serialize_key(name.as_ref())?;
            match value {
                Value::Null => map.serialize_value(&())?,
                Value::Integer(number) => map.serialize_value(number)?,
                Value::Real(number) => map.serialize_value(number)?,
                Value::Text(text) => map.serialize_value(text)?,
                Value::Blob(bytes) => map.serialize_value(&hex(bytes))?,
            }
        }
        map.end()
    }
}

fn json(query: &mut Query<'_>, context: &mut Context) -> Result<(), Failure> {
    let names = query.columns().to_vec();
    query.for_each(|values| {
        let row = Object {
            names: &names,
            values,
        };
        context.out.json(&row)?;
        Ok::<_, Failure>(ControlFlow::Continue(()))
    })
}

fn as_csv(query: &mut Query<'_>, style: csv::Style, context: &mut Context) -> Result<(), Failure> {
    let heading = style.heading(query.columns().iter().map(String::as_str))?;
    context.out.raw_line(&heading)?;
    query.for_each(|values| {
        let cells = values.iter().map(|value| match value {
            Value::Text(text) => style.text(Cow::Borrowed(text)),
            other => Cow::Owned(plain(other).unwrap_or_default()),
        });
        context.out.raw_line(&csv::line(cells)?)?;
        Ok::<_, Failure>(ControlFlow::Continue(()))
    })
}

fn table(query: &mut Query<'_>, context: &mut Context) -> Result<(), Failure> {
    let names = query.columns().to_vec();
    let (mut rows, mut number_of_rows) = (Vec::new(), 0_u64);
    let is_wide = names.len().saturating_mul(COLUMN_CHARS) > context.out.columns();
    query.for_each(|values| {
        if is_wide {
            number_of_rows += 1;
            print_row(&names, values, number_of_rows, context)?;
            return Ok::<_, Failure>(ControlFlow::Continue(()));
        }
        if rows.len() == ROWS {
            print(&names, std::mem::take(&mut rows), context)?;
        }
        number_of_rows += 1;
        let row = values.iter().map(|value| match value {
            Value::Text(text) => (Some(text.to_string()), true),
            other => (plain(other), matches!(other, Value::Blob(_))),
        });
        rows.push(row.collect());
        Ok::<_, Failure>(ControlFlow::Continue(()))
    })?;
    if !is_wide {
        print(&names, rows, context)?;
    }
    if context.out.is_terminal() {
        let rows = if number_of_rows == 1 { "row" } else { "rows" };
        context.say_below(&format!("{} {rows}", count(number_of_rows)))?;
    }
    Ok(())
}

/// Prints a row with a line for each value.
fn print_row(
    names: &[String],
    values: &[Value<'_>],
    number: u64,
    context: &mut Context,
) -> io::Result<()> {
    if number > 1 {
        context.out.line("")?;
    }
    let names: Vec<Cow<'_, str>> = names.iter().map(|name| one_line(name)).collect();
    let longest = names.iter().map(|name| width(name)).max().unwrap_or(0);
    for (name, value) in names.iter().zip(values) {
        let value = plain(value);
        let value = one_line(value.as_deref().unwrap_or("-"));
        let name = format!("{}  ", padded(name, longest));
        let spans = [Span::new(name, Some(Colour::Dim)), Span::new(value, None)];
        context.out.spans(&spans)?;
    }
    Ok(())
}

/// Prints rows of values, each with whether it is a text. Columns without texts are numbers.
fn print(
    names: &[String],
    rows: Vec<Vec<(Option<String>, bool)>>,
    context: &mut Context,
) -> io::Result<()> {
    let columns = names.iter().enumerate().map(|(place, name)| {
        let mut cells = rows.iter().filter_map(|row| row.get(place));
        Column {
            heading: Cow::Owned(name.clone()),
            is_text: rows.is_empty() || cells.any(|(_, is_text)| *is_text),
            ..Column::text("", "")
        }
    });
    let columns = columns.collect();
    let cells = |row: Vec<(Option<String>, bool)>| {
        let cells = row.into_iter().map(|(text, _)| Cell::Text(text));
        cells.collect()
    };
    let table = Table {
        columns,
        rows: rows.into_iter().map(cells).collect(),
        ..Table::default()
    };
    table.print(&mut context.out)
}

/// A value as text; `None` for none.
fn plain(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::Real(number) => Some(number.to_string()),
        Value::Text(text) => Some(text.to_string()),
        Value::Blob(bytes) => Some(hex(bytes)),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
