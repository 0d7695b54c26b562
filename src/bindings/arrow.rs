//! Records of a kind as Arrow record batches.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use crate::arrow_rows;
use crate::collections::Order;
use crate::collections::row_list::RowBounds;
use crate::error::{Error, Result};
use crate::index::Select;
use crate::record::Kind;
use crate::record::columns::{Cell, Column, ColumnSet};
use crate::store::Store;

/// Number of rows that are read at a time. Writers wait meanwhile.
const PAGE: usize = 1_000;
/// Number of rows of a batch.
const BATCH: usize = 32 * PAGE;

/// Reads the current records of a kind as record batches. The columns are the fields of the kind,
/// then derived ones such as `status`. JSON is text, and times are timestamps in milliseconds.
#[derive(Debug)]
pub struct ArrowReader {
    store: Store,
    kind: Kind,
    bounds: RowBounds,
    wanted: ColumnSet,
    /// The places of the wanted columns in a row.
    places: Vec<usize>,
    schema: SchemaRef,
    is_at_end: bool,
}

impl ArrowReader {
    /// The records whose own time is from `since` to before `until`, in epoch milliseconds, oldest
    /// first; of all columns, or of these.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a column that the kind does not have.
    pub fn new(
        store: &Store,
        kind: Kind,
        (since, until): (Option<i64>, Option<i64>),
        columns: Option<&[String]>,
    ) -> Result<ArrowReader> {
        let all = kind.columns();
        let places = match columns {
            None => (0..all.len()).collect(),
            Some(names) => names
                .iter()
                .map(|name| place_of(kind, all, name))
                .collect::<Result<Vec<_>>>()?,
        };
        let wanted = places.iter().fold(0, |set, place| {
            let bit = u32::try_from(*place).ok();
            set | bit.and_then(|bit| 1_u64.checked_shl(bit)).unwrap_or(0)
        });
        let read: Vec<Column> = places.iter().map(|place| all[*place]).collect();
        let times = (since.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX));
        let order = Order::OldestFirst;
        Ok(ArrowReader {
            store: store.clone(),
            kind,
            bounds: RowBounds::new(kind, Select::All, order, None, times),
            wanted: ColumnSet(wanted),
            places,
            schema: Arc::new(arrow_rows::schema(&read)),
            is_at_end: false,
        })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let mut rows: Vec<Vec<Cell>> = Vec::with_capacity(BATCH);
        while !self.is_at_end && rows.len() < BATCH {
            let page = self
                .store
                .next_rows(self.kind, &mut self.bounds, self.wanted, PAGE)?;
            self.is_at_end = page.is_empty();
            rows.extend(page.into_iter().map(|row| self.chosen(row.cells)));
        }
        if rows.is_empty() {
            return Ok(None);
        }
        arrow_rows::batch(&self.schema, rows.iter().map(Vec::as_slice)).map(Some)
    }

    fn chosen(&self, mut cells: Vec<Cell>) -> Vec<Cell> {
        let is_whole = self.places.len() == cells.len();
        if is_whole
            && self
                .places
                .iter()
                .enumerate()
                .all(|(at, place)| at == *place)
        {
            return cells;
        }
        let places = self.places.iter();
        let taken = places.map(|place| {
            let cell = cells.get_mut(*place);
            cell.map_or(Cell::Null, |cell| std::mem::replace(cell, Cell::Null))
        });
        taken.collect()
    }
}

fn place_of(kind: Kind, all: &[Column], name: &str) -> Result<usize> {
    let place = all.iter().position(|column| column.name == name);
    place.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|column| column.name).collect();
        let known = known.join(", ");
        Error::invalid(format!(
            "{kind} has no column {name:?}: give some of {known}"
        ))
        .with_field("columns")
    })
}

impl Iterator for ArrowReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read().inspect_err(|_| self.is_at_end = true);
        let failed = |e| ArrowError::ExternalError(Box::new(e));
        read.map_err(failed).transpose()
    }
}

impl RecordBatchReader for ArrowReader {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }
}
