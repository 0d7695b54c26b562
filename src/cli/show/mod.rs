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
pub mod transcript;
mod turn;

use std::fmt::Display;
use std::io;

use decklog::Kind;
use decklog::human::count;
use decklog::schema::FieldSchema;
use serde::Serialize;
use serde_json::Value;

pub use conversation::{Listed, short_id};

use super::escape::{clipped, lines, one_line, padded};
use super::export::Exported;
use super::output::{Colour, Output, Span};
use super::time::moment;

/// The column of the values of a record shown in full.
const LABEL_COLUMNS: usize = 10;

/// A record that commands show. Untrusted text is escaped here, not by the printer.
pub trait Shown: Serialize + Exported {
    /// The headings of a table of such records, separated by `|`, each as wide as its column. `>`
    /// aligns a column to the right. `80:` before a heading: it is shown if a line has at least 80
    /// columns; `<80:`: if it has fewer.
    const COLUMNS: &'static str;

    /// Its cells in the table, not escaped yet. The last one may have any length.
    fn cells(&self) -> Vec<String>;

    /// All fields, one per line.
    fn in_full(&self, out: &mut Output) -> io::Result<()>;

    /// Its JSON, with the field names of the files.
    fn as_json(&self) -> impl Serialize {
        self
    }
}

/// A line of a table, cut at the terminal's width.
pub fn row(out: &mut Output, text: &str) -> io::Result<()> {
    let columns = out.columns();
    out.line(clipped(text.trim_end(), columns).trim_end())
}

/// The heading of a table.
pub fn heading<T: Shown>(out: &mut Output) -> io::Result<()> {
    let shown = columns::<T>(out.columns());
    let headings: Vec<&str> = shown.map(|column| column.heading).collect();
    let text = headings.join("  ");
    let spans = [Span::new(text.trim_end(), Some(Colour::Dim))];
    out.spans(&spans)
}

/// A column of a table.
pub struct Column {
    /// Its place among the cells of a row.
    pub place: usize,
    pub heading: &'static str,
    pub is_right: bool,
}

/// The columns of a table in lines of this width.
pub fn columns<T: Shown>(width: usize) -> impl Iterator<Item = Column> {
    let all = T::COLUMNS.split('|').enumerate();
    all.filter_map(move |(place, heading)| {
        let (limit, heading) = heading.split_once(':').unwrap_or(("0", heading));
        let is_shown = match limit.strip_prefix('<') {
            Some(end) => end.parse().is_ok_and(|end: usize| width < end),
            None => limit.parse().is_ok_and(|least: usize| width >= least),
        };
        let right = heading.strip_prefix('>');
        is_shown.then_some(Column {
            place,
            heading: right.unwrap_or(heading),
            is_right: right.is_some(),
        })
    })
}

/// A record's line in a table.
pub fn row_of(out: &mut Output, record: &impl Shown) -> io::Result<()> {
    row(out, &table_row(record, out.columns()))
}

/// A record's line in a table, with the columns for lines of this width, not cut yet.
pub fn table_row<T: Shown>(record: &T, width: usize) -> String {
    let record = record.cells();
    let cells = columns::<T>(width).filter_map(|column| {
        let cell = one_line(record.get(column.place)?);
        let heading = column.heading;
        Some(if column.is_right {
            format!("{cell:>0$}", heading.len())
        } else {
            padded(&cell, heading.len())
        })
    });
    cells.collect::<Vec<String>>().join("  ")
}

/// A name, or `-`, cut to the width of a column.
pub fn name(name: Option<&str>, columns: usize) -> String {
    clipped(&one_line(name.unwrap_or("-")), columns).into_owned()
}

/// A field of a record; the lines of its value stay below each other.
pub fn field(out: &mut Output, label: &str, value: impl Display) -> io::Result<()> {
    let value = value.to_string();
    let mut label = label;
    for line in lines(&value).trim_end().split('\n') {
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
pub fn optional(out: &mut Output, label: &str, value: Option<impl Display>) -> io::Result<()> {
    value.map_or(Ok(()), |value| field(out, label, value))
}

/// Every present field that is not in `shown`, by name.
fn others(out: &mut Output, kind: Kind, record: &impl Serialize, shown: &[&str]) -> io::Result<()> {
    let record = serde_json::to_value(record)?;
    for FieldSchema { name, .. } in kind.schema().fields {
        match record.get(name).filter(|_| !shown.contains(&name)) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => field(out, name, text)?,
            Some(other) => field(out, name, other)?,
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
pub fn failure_in_row(why: Option<&str>) -> String {
    why.map_or(String::new(), |why| format!("! {}  ", why.trim()))
}

/// A number without its fraction, or `-`.
pub fn whole(number: Option<f64>) -> String {
    // Never negative; saturates at 64 bits.
    #[allow(clippy::cast_sign_loss)]
    number.map_or("-".to_owned(), |number| count(number.round() as u64))
}

/// The parts above 0, separated by commas.
pub fn parts_of<const N: usize>(parts: [(u64, &str); N]) -> Option<String> {
    let parts = parts.into_iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, of)| format!("{} {of}", count(n))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
