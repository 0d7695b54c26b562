//! Rows of typed columns as Arrow arrays.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, StringBuilder,
    TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::error::{Error, Result};
use crate::record::columns::{Cell, Column, ColumnType};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Size of the texts at which a batch ends, far below the 2 GiB that an array can have.
#[cfg(feature = "bindings")]
const BYTES_MAX: usize = 256 << 20;

/// A record batch under construction.
pub(crate) struct Batch {
    schema: Arc<Schema>,
    builders: Vec<Builder>,
    len: usize,
    /// Size of its texts.
    bytes: usize,
}

impl Batch {
    pub(crate) fn new(columns: &[Column]) -> Batch {
        let fields = columns.iter().map(|column| {
            let data_type = data_type(column.column_type);
            Field::new(column.name, data_type, !column.is_required)
        });
        let builders = columns.iter().map(|it| Builder::new(it.column_type));
        Batch {
            schema: Arc::new(Schema::new(fields.collect::<Vec<Field>>())),
            builders: builders.collect(),
            len: 0,
            bytes: 0,
        }
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Number of rows.
    #[cfg(feature = "bindings")]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it must be taken: an array of texts has a maximum size.
    #[cfg(feature = "bindings")]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    /// Adds a row, which has a value for each column.
    pub(crate) fn push<'a>(&mut self, row: impl Iterator<Item = &'a Cell>) {
        for (builder, cell) in self.builders.iter_mut().zip(row) {
            if let Cell::Text(text) | Cell::Json(text) = cell {
                self.bytes += text.len();
            }
            builder.push(cell);
        }
        self.len += 1;
    }

    /// The rows so far. It is empty afterwards.
    pub(crate) fn take(&mut self) -> Result<RecordBatch> {
        (self.len, self.bytes) = (0, 0);
        let arrays = self.builders.iter_mut().map(Builder::finish).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        batch.map_err(|e| Error::invalid(format!("a row has no such form: {e}")))
    }
}

fn data_type(column_type: ColumnType) -> DataType {
    match column_type {
        ColumnType::Uuid | ColumnType::Text | ColumnType::Json => DataType::Utf8,
        ColumnType::Integer | ColumnType::Unsigned => DataType::Int64,
        ColumnType::Real => DataType::Float64,
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        ColumnType::Day => DataType::Date32,
    }
}

/// An array under construction.
enum Builder {
    Text(StringBuilder),
    Integer(Int64Builder),
    Real(Float64Builder),
    Boolean(BooleanBuilder),
    Time(TimestampMillisecondBuilder),
    Day(Date32Builder),
}

impl Builder {
    fn new(column_type: ColumnType) -> Builder {
        match column_type {
            ColumnType::Uuid | ColumnType::Text | ColumnType::Json => {
                Builder::Text(StringBuilder::new())
            }
            ColumnType::Integer | ColumnType::Unsigned => Builder::Integer(Int64Builder::new()),
            ColumnType::Real => Builder::Real(Float64Builder::new()),
            ColumnType::Boolean => Builder::Boolean(BooleanBuilder::new()),
            ColumnType::Time => {
                Builder::Time(TimestampMillisecondBuilder::new().with_timezone("UTC"))
            }
            ColumnType::Day => Builder::Day(Date32Builder::new()),
        }
    }

    fn push(&mut self, cell: &Cell) {
        match (self, cell) {
            (Builder::Text(texts), Cell::Text(text) | Cell::Json(text)) => texts.append_value(text),
            (Builder::Text(texts), Cell::Uuid(id)) => {
                let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
                texts.append_value(id.hyphenated().encode_lower(&mut text));
            }
            (Builder::Text(texts), _) => texts.append_null(),
            (Builder::Integer(numbers), Cell::Integer(number)) => numbers.append_value(*number),
            (Builder::Integer(numbers), Cell::Unsigned(number)) => {
                numbers.append_value(i64::try_from(*number).unwrap_or(i64::MAX));
            }
            (Builder::Integer(numbers), _) => numbers.append_null(),
            (Builder::Real(numbers), Cell::Real(number)) => numbers.append_value(*number),
            (Builder::Real(numbers), _) => numbers.append_null(),
            (Builder::Boolean(flags), Cell::Boolean(flag)) => flags.append_value(*flag),
            (Builder::Boolean(flags), _) => flags.append_null(),
            (Builder::Time(times), Cell::Time(micros)) => {
                times.append_value(micros.div_euclid(1_000));
            }
            (Builder::Time(times), _) => times.append_null(),
            (Builder::Day(days), Cell::Day(day)) => {
                days.append_option(i32::try_from(day.bounds_ms().0 / DAY_MS).ok());
            }
            (Builder::Day(days), _) => days.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Text(texts) => Arc::new(texts.finish()),
            Builder::Integer(numbers) => Arc::new(numbers.finish()),
            Builder::Real(numbers) => Arc::new(numbers.finish()),
            Builder::Boolean(flags) => Arc::new(flags.finish()),
            Builder::Time(times) => Arc::new(times.finish()),
            Builder::Day(days) => Arc::new(days.finish()),
        }
    }
}
