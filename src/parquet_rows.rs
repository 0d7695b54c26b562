//! Rows of typed columns as Parquet.

use std::io;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, StringBuilder,
    TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::collections::Order;
use crate::collections::row_list::RowBounds;
use crate::error::{Error, Result};
use crate::index::Select;
use crate::record::columns::{Cell, Column, ColumnSet, ColumnType};
use crate::record::{Day, Kind};
use crate::store::Store;

/// Size of the values of a row group in memory.
const GROUP_BYTES: usize = 32 << 20;
/// Maximum number of rows of a row group.
const GROUP_ROWS_MAX: usize = 128 << 10;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// A row, and what row groups are sorted by.
struct SortedRow {
    at: i64,
    seq: u64,
    cells: Vec<Cell>,
}

/// Writes rows as a Parquet file. Each row group is sorted by time, and has statistics and page
/// indexes.
pub(crate) struct ParquetRows<W: io::Write + Send> {
    writer: ArrowWriter<W>,
    schema: Arc<Schema>,
    rows: Vec<SortedRow>,
    /// Size of the values of `rows`.
    bytes: usize,
}

/// A column that is no part of a key.
pub(crate) fn column(name: &'static str, column_type: ColumnType, is_required: bool) -> Column {
    Column {
        name,
        column_type,
        is_key: false,
        is_lookup: false,
        is_required,
    }
}

impl<W: io::Write + Send> ParquetRows<W> {
    /// `order` are the places of the columns by which the rows are sorted.
    pub(crate) fn new(out: W, columns: &[Column], order: &[i32]) -> Result<ParquetRows<W>> {
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
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let sorted = order.iter().map(|place| SortingColumn {
            column_idx: *place,
            descending: false,
            nulls_first: false,
        });
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_sorting_columns(Some(sorted.collect()))
            .set_created_by(concat!("decklog ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties));
        Ok(ParquetRows {
            writer: writer.map_err(failed)?,
            schema,
            rows: Vec::new(),
            bytes: 0,
        })
    }

    /// Adds a row. `at` and `seq` are what the rows are sorted by.
    pub(crate) fn push(&mut self, (at, seq): (i64, u64), cells: Vec<Cell>) -> Result<()> {
        let size = |cell: &Cell| match cell {
            Cell::Text(text) | Cell::Json(text) => text.len(),
            _ => 0,
        };
        self.bytes += cells.iter().map(|cell| 16 + size(cell)).sum::<usize>();
        self.rows.push(SortedRow { at, seq, cells });
        if self.bytes >= GROUP_BYTES || self.rows.len() >= GROUP_ROWS_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the rows so far as a row group.
    fn flush(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        rows.sort_by_key(|row| (row.at, row.seq));
        let fields = self.schema.fields().iter().enumerate();
        let arrays = fields.map(|(place, field)| array(field, &rows, place));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays.collect());
        let batch = batch.map_err(|e| Error::invalid(format!("a row has no such form: {e}")))?;
        self.writer.write(&batch).map_err(failed)?;
        self.writer.flush().map_err(failed)
    }

    /// Writes the end of the file.
    pub(crate) fn end(mut self) -> Result<W> {
        self.flush()?;
        self.writer.into_inner().map_err(failed)
    }
}

fn failed(e: ParquetError) -> Error {
    let e = match e {
        ParquetError::External(e) => match e.downcast::<io::Error>() {
            Ok(e) => *e,
            Err(e) => io::Error::other(e),
        },
        e => io::Error::other(e),
    };
    Error::io("write", std::path::Path::new("the Parquet file"), e)
}

fn array(field: &Field, rows: &[SortedRow], place: usize) -> ArrayRef {
    /// Fills a builder with the values that `of` finds in the cells.
    macro_rules! filled {
        ($builder:expr, $cell:ident => $of:expr) => {{
            let mut builder = $builder;
            for row in rows {
                let value = row.cells.get(place).and_then(|$cell| $of);
                builder.append_option(value);
            }
            ArrayBuilder::finish(&mut builder)
        }};
    }
    let len = rows.len();
    match field.data_type() {
        DataType::Utf8 => {
            let mut builder = StringBuilder::with_capacity(len, len * 16);
            for row in rows {
                match row.cells.get(place) {
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

impl Store {
    /// Writes the current records of a kind whose own time is from `since` to before `until`, in
    /// epoch milliseconds, as a Parquet file. Its columns are `store_id`, `seq`, `day`, the fields
    /// of the kind, and derived ones such as `status`. JSON is text. Returns the number of records.
    ///
    /// ```
    /// # use decklog::{Kind, Store, event_type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// store.log_event(None, event_type::AGENT_STARTED, None)?;
    /// let mut file = Vec::new();
    /// assert_eq!(store.export_parquet(Kind::Events, (0, i64::MAX), &mut file)?, 1);
    /// assert!(file.starts_with(b"PAR1"));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the store cannot be read, or `out` not be written.
    pub fn export_parquet(
        &self,
        kind: Kind,
        (since, until): (i64, i64),
        out: impl io::Write + Send,
    ) -> Result<u64> {
        const PAGE: usize = 1_000;
        let store_id = self.inner().store_id();
        let mut columns = vec![
            column("store_id", ColumnType::Uuid, true),
            column("seq", ColumnType::Integer, true),
        ];
        // Rollups have a day of their own.
        let has_day = kind.columns().iter().any(|it| it.name == "day");
        if !has_day {
            columns.push(column("day", ColumnType::Day, true));
        }
        columns.extend(kind.columns().iter().copied());
        let time = columns.iter().position(|it| it.name == kind.time_column());
        let order = [i32::try_from(time.unwrap_or(1)).unwrap_or(1), 1];
        let mut rows = ParquetRows::new(out, &columns, &order)?;
        let order_of_list = Order::OldestFirst;
        let times = (since, until);
        let mut bounds = RowBounds::new(kind, Select::All, order_of_list, None, times);
        let mut count = 0;
        loop {
            let page = self.next_rows(kind, &mut bounds, ColumnSet::ALL, PAGE)?;
            if page.is_empty() {
                break;
            }
            for row in page {
                count += 1;
                let mut cells = vec![Cell::Uuid(store_id), Cell::Unsigned(row.seq)];
                if !has_day {
                    cells.push(Cell::Day(Day::of(row.at)?));
                }
                cells.extend(row.cells);
                rows.push((row.at, row.seq), cells)?;
            }
        }
        rows.end()?;
        Ok(count)
    }
}
