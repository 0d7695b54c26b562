//! Lists as tables: of comma-separated values, or in Markdown.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use chrono::{DateTime, SecondsFormat};
use decklog::human::one_line;
use decklog::query::SearchMatch;
use decklog::record::{Rollup, ToolCall};
use decklog::{
    CodeEditProposal, ConversationMessage, ConversationTurn, Event, HistoryEntry, InboxTask, Kind,
    ThoughtRecord,
};
use serde_json::value::RawValue;

use super::csv;
use crate::cli::output::Output;
use crate::cli::show::{Listed, Shown, columns as shown};
use crate::cli::{escape, markdown};

/// Maximum number of characters of a cell in Markdown.
const CELL_CHARS_MAX: usize = 200;

/// How a list is written.
#[derive(Debug, Clone, Copy)]
pub enum Sheet {
    Csv(csv::Style),
    Markdown,
}

/// What a table needs to know about a type of records.
pub trait Exported: Sized {
    /// The kind whose schema has its fields.
    const KIND: Option<Kind>;
    /// Further fields of its JSON, which are in no line.
    const DERIVED: &'static [&'static str];
}

macro_rules! exported {
    ($($type:ty: $kind:expr, [$($field:literal),*];)+) => { $(
        impl Exported for $type {
            const KIND: Option<Kind> = $kind;
            const DERIVED: &'static [&'static str] = &[$($field),*];
        }
    )+ };
}

exported! {
    ConversationTurn: Some(Kind::ConversationTurns), [];
    ToolCall: Some(Kind::ToolCalls), ["status"];
    CodeEditProposal: Some(Kind::CodeEditProposals), ["status"];
    Listed: Some(Kind::Conversations), [
        "message_count", "total_tokens_in", "total_tokens_out", "total_latency_ms",
        "total_cost_usd", "error_count", "failure_count", "models_used",
        "configs_used"
    ];
    ConversationMessage: Some(Kind::Messages), [];
    Event: Some(Kind::Events), [];
    InboxTask: Some(Kind::Inbox), ["status", "updated_at"];
    HistoryEntry: Some(Kind::History), [];
    ThoughtRecord: Some(Kind::ThoughtRecords), [];
    Rollup: Some(Kind::Rollups), [];
    SearchMatch: None, [];
}

/// A column: the name of its field and the type, as in the schema.
type Column = (&'static str, &'static str);

/// A table of records of one type.
#[derive(Debug)]
pub struct Table {
    sheet: Sheet,
    columns: Vec<Column>,
}

fn columns<T: Exported>() -> Vec<Column> {
    let schema = T::KIND.map(Kind::schema);
    let fields = schema.into_iter().flat_map(|schema| schema.fields);
    let fields = fields.map(|field| (field.name, field.type_name));
    let derived = T::DERIVED.iter().map(|name| {
        let is_time = name.ends_with("_at");
        (*name, if is_time { "epoch_ms" } else { "" })
    });
    fields.chain(derived).collect()
}

impl Table {
    pub fn of<T: Exported>(sheet: Sheet) -> Table {
        Table {
            sheet,
            columns: columns::<T>(),
        }
    }

    /// The line, or the lines, before the first record.
    pub fn heading<T: Shown>(&self, out: &mut Output) -> io::Result<()> {
        match self.sheet {
            Sheet::Csv(style) => {
                let names = self.columns.iter().map(|(name, _)| *name);
                out.raw_line(&style.heading(names)?)
            }
            Sheet::Markdown => {
                let columns = || shown::<T>(usize::MAX);
                let names = columns().map(|column| column.heading.trim().to_owned());
                out.line(&row(names))?;
                let sides = columns().map(|column| {
                    let side = if column.is_right { "---:" } else { "---" };
                    side.to_owned()
                });
                out.line(&row(sides))
            }
        }
    }

    /// The line of a record.
    pub fn row<T: Shown>(&self, out: &mut Output, record: &T) -> io::Result<()> {
        match self.sheet {
            Sheet::Csv(style) => {
                let json = serde_json::to_string(&record.as_json())?;
                out.raw_line(&csv_line(&self.columns, &json, style)?)
            }
            Sheet::Markdown => {
                let cells = record.cells();
                let cells = shown::<T>(usize::MAX).filter_map(|column| {
                    let cell = one_line(cells.get(column.place)?, CELL_CHARS_MAX);
                    Some(markdown::inline(&escape::one_line(&cell)))
                });
                out.line(&row(cells))
            }
        }
    }
}

fn row(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |", cells.join(" | "))
}

/// The line of a record, given as JSON.
fn csv_line(columns: &[Column], json: &str, style: csv::Style) -> io::Result<String> {
    let members: HashMap<&str, &RawValue> = serde_json::from_str(json)?;
    let mut cells = Vec::with_capacity(columns.len());
    for (name, type_name) in columns {
        let value = members.get(name).map_or("null", |value| value.get());
        let is_text = value.starts_with('"');
        let cell = cell(value, type_name)?;
        cells.push(if is_text { style.text(cell) } else { cell });
    }
    csv::line(cells.into_iter())
}

/// A value: a text without its quotes, a time in UTC, nothing for null, or JSON.
fn cell<'a>(value: &'a str, type_name: &str) -> io::Result<Cow<'a, str>> {
    if value == "null" {
        return Ok(Cow::Borrowed(""));
    }
    let in_utc = |time: DateTime<chrono::Utc>, digits| time.to_rfc3339_opts(digits, true);
    if value.starts_with('"') {
        let text: String = serde_json::from_str(value)?;
        let time = DateTime::parse_from_rfc3339(&text);
        return Ok(Cow::Owned(match time {
            Ok(time) if type_name == "rfc3339" => in_utc(time.to_utc(), SecondsFormat::AutoSi),
            _ => text,
        }));
    }
    let time = value.parse().ok().filter(|_| type_name == "epoch_ms");
    let time = time.and_then(DateTime::from_timestamp_millis);
    Ok(time.map_or(Cow::Borrowed(value), |time| {
        Cow::Owned(in_utc(time, SecondsFormat::Millis))
    }))
}
