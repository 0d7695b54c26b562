//! Rows of typed columns as Parquet.

use std::io;
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::arrow_rows::Batch;
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
    batch: Batch,
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
        let batch = Batch::new(columns);
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
        let writer = ArrowWriter::try_new(out, Arc::clone(batch.schema()), Some(properties));
        Ok(ParquetRows {
            writer: writer.map_err(failed)?,
            batch,
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
        for row in &rows {
            self.batch.push(row.cells.iter());
        }
        self.writer.write(&self.batch.take()?).map_err(failed)?;
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
