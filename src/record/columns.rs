//! Records as rows of typed columns: the form that SQL engines and Parquet files take.
//!
//! The columns of a kind come from the declaration of its fields, and from a short list of fields
//! that are derived from several lines.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use uuid::Uuid;

use super::declare::{Class, Field, FieldWriter, Place, Word, is_default};
use super::{
    Client, CodeEditProposal, Conversation, ConversationStats, Day, IdHashes, InboxTask, Kind,
    MessageSums, Sketch, Timestamp, ToolCall, Validity, payload_json,
};
use crate::error::{Error, Result};
use crate::record::CallStatus;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Uuid,
    Text,
    /// A signed 64-bit integer.
    Integer,
    /// An unsigned 64-bit integer.
    Unsigned,
    /// A double.
    Real,
    Boolean,
    Json,
    /// An instant.
    Time,
    /// A UTC day.
    Day,
}

impl ColumnType {
    pub(crate) const fn of(class: Class) -> ColumnType {
        match class {
            Class::Uuid => ColumnType::Uuid,
            Class::Id
            | Class::Sequence
            | Class::Int
            | Class::Count
            | Class::Elapsed
            | Class::Repeated => ColumnType::Integer,
            Class::Sum | Class::SumIfAny => ColumnType::Unsigned,
            Class::Fraction | Class::Amount => ColumnType::Real,
            Class::Flag => ColumnType::Boolean,
            Class::Names
            | Class::Arguments
            | Class::Payload
            | Class::Metadata
            | Class::Sketch
            | Class::Counts
            | Class::Sums => ColumnType::Json,
            Class::Instant
            | Class::OwnInstant
            | Class::Millis
            | Class::OwnMillis
            | Class::Validity
            | Class::At => ColumnType::Time,
            Class::Day => ColumnType::Day,
            Class::TextId
            | Class::Name
            | Class::User
            | Class::DottedName
            | Class::Client
            | Class::Hash
            | Class::Label
            | Class::Title
            | Class::Content
            | Class::Said
            | Class::Output
            | Class::Hashes
            | Class::Word
            | Class::Op => ColumnType::Text,
        }
    }
}

/// A column of the rows of a kind.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_field_names)] // `type` is a keyword.
pub(crate) struct Column {
    pub name: &'static str,
    pub column_type: ColumnType,
    /// Whether it is part of the record's key.
    pub is_key: bool,
    /// Whether records are looked up by it.
    pub is_lookup: bool,
    /// Whether each row has a value.
    pub is_required: bool,
}

/// The name of a field in Parquet objects. The field `kind` of turns has another name there, since
/// `kind` is that of a folder.
pub(crate) fn name_in_parquet(name: &'static str) -> &'static str {
    if name == "kind" { "turn_kind" } else { name }
}

/// A set of columns of a kind, by their place in [`Kind::columns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnSet(pub u64);

impl ColumnSet {
    pub(crate) const ALL: ColumnSet = ColumnSet(u64::MAX);

    /// Whether it has a column. One after the 64th is in every set.
    pub(crate) fn has(self, place: usize) -> bool {
        let bit = u32::try_from(place)
            .ok()
            .and_then(|it| 1_u64.checked_shl(it));
        bit.is_none_or(|bit| self.0 & bit != 0)
    }
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Uuid(Uuid),
    Text(String),
    Integer(i64),
    Unsigned(u64),
    Real(f64),
    Boolean(bool),
    /// JSON as text.
    Json(String),
    /// Microseconds since 1970, UTC.
    Time(i64),
    Day(Day),
}

/// The columns of a kind that no line has, after its fields.
fn derived(kind: Kind) -> &'static [(&'static str, ColumnType, bool)] {
    use ColumnType::{Json, Real, Text, Time, Unsigned};
    match kind {
        Kind::ToolCalls | Kind::CodeEditProposals => &[("status", Text, true)],
        Kind::Inbox => &[("status", Text, true), ("updated_at", Time, true)],
        Kind::Conversations => &[
            ("message_count", Unsigned, true),
            ("total_tokens_in", Unsigned, true),
            ("total_tokens_out", Unsigned, true),
            ("total_latency_ms", Unsigned, true),
            ("total_cost_usd", Real, false),
            ("error_count", Unsigned, true),
            ("failure_count", Unsigned, true),
            ("models_used", Json, true),
            ("configs_used", Json, true),
        ],
        _ => &[],
    }
}

impl Kind {
    /// The columns of its rows: the fields of its lines in canonical order, then the derived ones.
    pub(crate) fn columns(self) -> &'static [Column] {
        static COLUMNS: [OnceLock<Vec<Column>>; Kind::ALL.len()] =
            [const { OnceLock::new() }; Kind::ALL.len()];
        COLUMNS[self as usize].get_or_init(|| {
            let first = self.first_fields();
            let fields = self.fields().map(|field| Column {
                name: field.name,
                column_type: ColumnType::of(field.class),
                is_key: field.place == Place::Key,
                is_lookup: field.place == Place::Lookup,
                is_required: !field.is_optional
                    && field.place != Place::OtherOps
                    && first.iter().any(|first| first.name == field.name),
            });
            let derived = derived(self)
                .iter()
                .map(|(name, column_type, is_required)| Column {
                    name,
                    column_type: *column_type,
                    is_key: false,
                    is_lookup: false,
                    is_required: *is_required,
                });
            fields.chain(derived).collect()
        })
    }

    /// The columns that lines have: those of its fields.
    #[cfg(any(feature = "parquet", test))]
    pub(crate) fn line_columns(self) -> &'static [Column] {
        let columns = self.columns();
        &columns[..self.fields().count().min(columns.len())]
    }

    /// The column with the own time of its records, which lists are ordered by.
    pub(crate) fn time_column(self) -> &'static str {
        match self {
            Kind::ToolCalls => "started_at",
            Kind::Messages | Kind::ThoughtRecords => "timestamp",
            Kind::Rollups => "day",
            _ => "created_at",
        }
    }
}

/// A row of a kind, under construction.
#[derive(Debug)]
pub(crate) struct Row {
    columns: &'static [Column],
    cells: Vec<Cell>,
    wanted: ColumnSet,
    /// The column that most likely comes next.
    next: usize,
}

impl Row {
    /// A row without values.
    #[cfg(feature = "ship")]
    pub(crate) fn new(kind: Kind) -> Row {
        Row::of(kind, ColumnSet::ALL)
    }

    /// A row without values, which keeps those of the wanted columns.
    pub(crate) fn of(kind: Kind, wanted: ColumnSet) -> Row {
        let columns = kind.columns();
        Row {
            columns,
            cells: vec![Cell::Null; columns.len()],
            wanted,
            next: 0,
        }
    }

    /// Its values, in the order of [`Kind::columns`].
    pub(crate) fn into_cells(self) -> Vec<Cell> {
        self.cells
    }

    pub(crate) fn set(&mut self, name: &str, cell: Cell) {
        self.set_if(name, Some(cell), |cell| cell);
    }

    /// Whether it keeps the value of a column.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let place = self.place(name);
        place.is_some_and(|place| self.wanted.has(place))
    }

    /// The place of a column, most likely the next one.
    fn place(&self, name: &str) -> Option<usize> {
        let (before, rest) = self.columns.split_at(self.next);
        let mut columns = rest.iter().chain(before);
        let place = columns.position(|column| column.name == name)?;
        Some((self.next + place) % self.columns.len())
    }

    /// Sets a value that there is. `cell` is only called for columns that are wanted.
    pub(crate) fn set_if<T>(&mut self, name: &str, value: Option<T>, cell: impl FnOnce(T) -> Cell) {
        let Some(value) = value else { return };
        if let Some(place) = self.place(name) {
            self.next = place + 1;
            if self.wanted.has(place) {
                self.cells[place] = cell(value);
            }
        }
    }

    fn set_json(&mut self, name: &str, value: Option<&impl serde::Serialize>) -> Result<()> {
        let mut failed = None;
        self.set_if(name, value, |value| match serde_json::to_string(value) {
            Ok(text) => Cell::Json(text),
            Err(e) => {
                failed = Some(Error::invalid(e.to_string()));
                Cell::Null
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// The row of a call with its outcome and its status.
    pub(crate) fn of_call((req, done): &ToolCall, wanted: ColumnSet) -> Result<Row> {
        use super::declare::Fields as _;
        let mut row = Row::of(Kind::ToolCalls, wanted);
        req.write(&mut row)?;
        if let Some(done) = done {
            done.write(&mut row)?;
        }
        let status = CallStatus::of(done.as_ref());
        row.set("status", Cell::Text(status.as_str().to_owned()));
        Ok(row)
    }

    /// The row of a proposal with its status and the fields of its later steps.
    pub(crate) fn of_proposal(proposal: &CodeEditProposal, wanted: ColumnSet) -> Result<Row> {
        use super::declare::Fields as _;
        let mut row = Row::of(Kind::CodeEditProposals, wanted);
        proposal.write(&mut row)?;
        row.set_if("decided_at", proposal.decided_at, of_ms);
        row.set_if("applied_at", proposal.applied_at, of_ms);
        row.set_if("commit_hash", proposal.commit_hash.clone(), Cell::Text);
        row.set("status", Cell::Text(proposal.status.as_str().to_owned()));
        Ok(row)
    }

    /// The row of a task with its status.
    pub(crate) fn of_task(task: &InboxTask, wanted: ColumnSet) -> Result<Row> {
        use super::declare::Fields as _;
        let mut row = Row::of(Kind::Inbox, wanted);
        task.write(&mut row)?;
        row.set("attempts", Cell::Integer(task.attempts));
        row.set_if("locked_at", task.locked_at, of_ms);
        row.set_if("error", task.error.clone(), Cell::Text);
        row.set("status", Cell::Text(task.status.as_str().to_owned()));
        row.set("updated_at", of_ms(task.updated_at));
        Ok(row)
    }

    /// The row of a conversation with the totals of its messages.
    pub(crate) fn of_conversation(
        conversation: &Conversation,
        stats: &ConversationStats,
        wanted: ColumnSet,
    ) -> Result<Row> {
        use super::declare::Fields as _;
        let mut row = Row::of(Kind::Conversations, wanted);
        conversation.write(&mut row)?;
        for (name, number) in [
            ("message_count", stats.message_count),
            ("total_tokens_in", stats.total_tokens_in),
            ("total_tokens_out", stats.total_tokens_out),
            ("total_latency_ms", stats.total_latency_ms),
        ] {
            row.set(name, Cell::Unsigned(number));
        }
        row.set_if("total_cost_usd", stats.total_cost_usd, Cell::Real);
        row.set("error_count", Cell::Unsigned(stats.error_count));
        row.set("failure_count", Cell::Unsigned(stats.failure_count));
        row.set_json("models_used", Some(&stats.models_used))?;
        row.set_json("configs_used", Some(&stats.configs_used))?;
        Ok(row)
    }
}

fn of_ms(ms: i64) -> Cell {
    Cell::Time(ms.saturating_mul(1_000))
}

impl FieldWriter for Row {
    fn text(&mut self, field: &'static Field, value: Option<&String>) -> Result<()> {
        self.set_if(field.name, value, |text| Cell::Text(text.clone()));
        Ok(())
    }

    fn uuid(&mut self, field: &'static Field, value: Option<&Uuid>) -> Result<()> {
        self.set_if(field.name, value, |id| Cell::Uuid(*id));
        Ok(())
    }

    fn names(&mut self, field: &'static Field, value: Option<&Vec<String>>) -> Result<()> {
        self.set_json(field.name, value)
    }

    fn client(&mut self, field: &'static Field, value: Option<&Client>) -> Result<()> {
        self.set_if(field.name, value, |it| Cell::Text(it.as_str().to_owned()));
        Ok(())
    }

    fn payload(&mut self, field: &'static Field, value: Option<&String>) -> Result<()> {
        let json = |text: &String| Cell::Json(payload_json(text).into_owned());
        self.set_if(field.name, value, json);
        Ok(())
    }

    fn int(&mut self, field: &'static Field, value: Option<&i64>) -> Result<()> {
        let is_time = ColumnType::of(field.class) == ColumnType::Time;
        self.set_if(field.name, value, |number| {
            if is_time {
                of_ms(*number)
            } else {
                Cell::Integer(*number)
            }
        });
        Ok(())
    }

    fn fraction(&mut self, field: &'static Field, value: Option<&f64>) -> Result<()> {
        self.set_if(field.name, value, |number| Cell::Real(*number));
        Ok(())
    }

    fn flag(&mut self, field: &'static Field, value: Option<&bool>) -> Result<()> {
        self.set_if(field.name, value, |flag| Cell::Boolean(*flag));
        Ok(())
    }

    fn instant(&mut self, field: &'static Field, value: Option<&Timestamp>) -> Result<()> {
        self.set_if(field.name, value, |time| Cell::Time(time.micros()));
        Ok(())
    }

    fn validity(&mut self, field: &'static Field, value: Option<&Validity>) -> Result<()> {
        self.set_if(field.name, value, |validity| of_ms(validity.at));
        Ok(())
    }

    fn day(&mut self, field: &'static Field, value: Option<&Day>) -> Result<()> {
        self.set_if(field.name, value, |day| Cell::Day(*day));
        Ok(())
    }

    fn sum(&mut self, field: &'static Field, value: Option<&u64>) -> Result<()> {
        self.set_if(field.name, value, |sum| Cell::Unsigned(*sum));
        Ok(())
    }

    fn sketch(&mut self, field: &'static Field, value: Option<&Sketch>) -> Result<()> {
        self.set_json(field.name, value)
    }

    fn counts(
        &mut self,
        field: &'static Field,
        value: Option<&BTreeMap<String, u64>>,
    ) -> Result<()> {
        self.set_json(field.name, value)
    }

    fn sums(&mut self, field: &'static Field, value: Option<&MessageSums>) -> Result<()> {
        let value = value.filter(|sums| !is_default(*sums));
        self.set_json(field.name, value)
    }

    fn hashes(&mut self, field: &'static Field, value: Option<&IdHashes>) -> Result<()> {
        self.set_if(field.name, value, |hashes| {
            // As JSON it is a string of hex digits.
            match serde_json::to_value(hashes) {
                Ok(serde_json::Value::String(text)) => Cell::Text(text),
                _ => Cell::Null,
            }
        });
        Ok(())
    }

    fn word<W: Word>(&mut self, field: &'static Field, value: Option<&W>) -> Result<()> {
        self.set_if(field.name, value, |word| Cell::Text(word.word().to_owned()));
        Ok(())
    }
}
