//! Records as text, as a line of a table or with all fields, and as JSON.

mod call;
mod conversation;
mod entry;
mod event;
mod found;
mod message;
mod proposal;
mod rollup;
mod task;
mod thought;
mod turn;

use std::io;

use decklog::Kind;
use decklog::schema::FieldSchema;
use serde::Serialize;
use serde_json::Value;

pub use message::in_transcript;

use super::escape::{clipped, lines, one_line};
use super::output::Output;
use super::time;

/// The column of the values of a record shown in full.
const LABEL_COLUMNS: usize = 10;

/// A record that commands show. Untrusted text is escaped here, not by the printer.
pub trait Shown {
    /// The heading of a table of such records.
    const HEADING: &'static str;

    /// Its line in a table, not cut yet.
    fn row(&self) -> String;

    /// All fields, one per line.
    fn in_full(&self, out: &mut Output) -> io::Result<()>;

    /// One JSON object, with the field names of the files.
    fn json(&self, out: &mut Output) -> io::Result<()>;
}

/// A line of a table, cut at the terminal's width.
pub fn row(out: &mut Output, text: &str) -> io::Result<()> {
    let columns = out.columns();
    out.line(clipped(text, columns).trim_end())
}

/// A record's line in a table.
pub fn row_of(out: &mut Output, record: &impl Shown) -> io::Result<()> {
    row(out, &record.row())
}

fn moment(at: i64) -> String {
    format!("{} UTC", time::shown(at))
}

/// A field of a record; the lines of its value stay below each other.
pub fn field(out: &mut Output, label: &str, value: &str) -> io::Result<()> {
    let value = lines(value);
    let mut label = label;
    for line in value.trim_end().split('\n') {
        let space = if label.chars().count() < LABEL_COLUMNS {
            ""
        } else {
            " "
        };
        let text = format!("  {label:<LABEL_COLUMNS$}{space}{line}");
        out.line(text.trim_end())?;
        label = "";
    }
    Ok(())
}

/// An optional field.
pub fn optional(out: &mut Output, label: &str, value: Option<&str>) -> io::Result<()> {
    value.map_or(Ok(()), |value| field(out, label, value))
}

/// Every present field that is not in `shown`, by name.
fn others(out: &mut Output, kind: Kind, record: &impl Serialize, shown: &[&str]) -> io::Result<()> {
    let record = serde_json::to_value(record)?;
    for FieldSchema { name, .. } in kind.schema().fields {
        match record.get(name).filter(|_| !shown.contains(&name)) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => field(out, name, text)?,
            Some(other) => field(out, name, &other.to_string())?,
        }
    }
    Ok(())
}

/// The error type and message, if any.
fn failure(class: Option<&str>, words: Option<&str>) -> Option<String> {
    match (class, words) {
        (Some(class), Some(words)) => Some(format!("{class}: {words}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

/// The error in a row, before fields of any length.
fn failure_in_row(why: Option<&str>) -> String {
    why.map_or(String::new(), |why| format!("! {}  ", one_line(why.trim())))
}

/// A number of milliseconds, or `-`.
fn milliseconds(ms: Option<i64>) -> String {
    ms.map_or("-".to_owned(), |ms| {
        format!("{} ms", grouped(ms.unsigned_abs()))
    })
}

/// A number with thousands separators.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun.
pub fn count(n: u64, thing: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(n))
}
