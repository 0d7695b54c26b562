//! Rows of typed columns as Arrow arrays.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, StringBuilder,
    TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::error::{Error, Result};
use crate::record::columns::{Cell, Column, ColumnType};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// The schema of these columns.
pub(crate) fn schema(columns: &[Column]) -> Schema {
    let fields = columns.iter().map(|column| {
        let data_type = match column.column_type {
            ColumnType::Uuid | ColumnType::Text | ColumnType::Json => DataType::Utf8,
            ColumnType::Integer | ColumnType::Unsigned => DataType::Int64,
            ColumnType::Real => DataType::Float64,
            ColumnType::Boolean => DataType::Boolean,
            ColumnType::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            ColumnType::Day => DataType::Date32,
        };
        Field::new(column.name, data_type, !column.is_required)
    });
    Schema::new(fields.collect::<Vec<Field>>())
}

/// The rows, each of which has the values of the schema's columns, as a record batch.
pub(crate) fn batch<'a>(
    schema: &Arc<Schema>,
    rows: impl Iterator<Item = &'a [Cell]> + Clone,
) -> Result<RecordBatch> {
    let fields = schema.fields().iter().enumerate();
    let arrays = fields.map(|(place, field)| array(field, rows.clone(), place));
    let batch = RecordBatch::try_new(Arc::clone(schema), arrays.collect());
    batch.map_err(|e| Error::invalid(format!("a row has no such form: {e}")))
}

fn array<'a>(field: &Field, rows: impl Iterator<Item = &'a [Cell]>, place: usize) -> ArrayRef {
    /// Fills a builder with the values that `of` finds in the cells.
    macro_rules! filled {
        ($builder:expr, $cell:ident => $of:expr) => {{
            let mut builder = $builder;
            for row in rows {
                let value = row.get(place).and_then(|$cell| $of);
                builder.append_option(value);
            }
            ArrayBuilder::finish(&mut builder)
        }};
    }
    let len = rows.size_hint().0;
    match field.data_type() {
        DataType::Utf8 => {
            let mut builder = StringBuilder::with_capacity(len, len * 16);
            for row in rows {
                match row.get(place) {
                    Some(Cell::Text(text) | Cell::Json(text)) => builder.append_value(text),
                    Some(Cell::Uuid(id)) => {
                        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
                        builder.append_value(id.hyphenated().encode_lower(&mut text));
                    }
                    _ => builder.append_null(),
                }
            }
            ArrayBuilder::finish(&mut builder)
        }
        DataType::Float64 => filled!(Float64Builder::with_capacity(len), cell => match cell {
            Cell::Real(number) => Some(*number),
            _ => None,
        }),
        DataType::Boolean => filled!(BooleanBuilder::with_capacity(len), cell => match cell {
            Cell::Boolean(flag) => Some(*flag),
            _ => None,
        }),
        DataType::Timestamp(..) => {
            let builder = TimestampMillisecondBuilder::with_capacity(len).with_timezone("UTC");
            filled!(builder, cell => match cell {
                Cell::Time(micros) => Some(micros.div_euclid(1_000)),
                _ => None,
            })
        }
        DataType::Date32 => filled!(Date32Builder::with_capacity(len), cell => match cell {
            Cell::Day(day) => i32::try_from(day.bounds_ms().0 / DAY_MS).ok(),
            _ => None,
        }),
        _ => filled!(Int64Builder::with_capacity(len), cell => match cell {
            Cell::Integer(number) => Some(*number),
            Cell::Unsigned(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
            _ => None,
        }),
    }
}
