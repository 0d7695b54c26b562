//! Records of a kind as Arrow record batches.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use crate::arrow_rows::Batch;
use crate::collections::Order;
use crate::collections::current_rows::CurrentRow;
use crate::collections::row_list::RowBounds;
use crate::error::{Error, Result};
use crate::index::Select;
use crate::record::Kind;
use crate::record::columns::{Column, ColumnSet};
use crate::store::Store;

/// Number of rows that are read at a time. Writers wait meanwhile.
const PAGE: usize = 1_000;
/// Number of pages that may be read before they are needed.
const PAGES_AHEAD: usize = 4;
/// Number of rows of a batch.
const BATCH: usize = 32 * PAGE;

/// Reads the current records of a kind as record batches. The columns are the fields of the kind,
/// then derived ones such as `status`. JSON is text, and times are timestamps in milliseconds.
pub struct ArrowReader {
    batch: Batch,
    /// The places of the wanted columns in a row.
    places: Vec<usize>,
    pages: Pages,
}

/// The pages that a thread reads from the log.
enum Pages {
    Unread(Box<Reading>),
    Read(Receiver<Result<Vec<CurrentRow>>>),
    AtEnd,
}

/// What is read.
struct Reading {
    store: Store,
    kind: Kind,
    bounds: RowBounds,
    wanted: ColumnSet,
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
        let reading = Reading {
            store: store.clone(),
            kind,
            bounds: RowBounds::new(kind, Select::All, order, None, times),
            wanted: ColumnSet(wanted),
        };
        Ok(ArrowReader {
            batch: Batch::new(&read),
            places,
            pages: Pages::Unread(Box::new(reading)),
        })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        while self.batch.len() < BATCH {
            let Some(page) = self.pages.next()? else {
                break;
            };
            for row in &page {
                let cells = self.places.iter().filter_map(|place| row.cells.get(*place));
                self.batch.push(cells);
            }
        }
        (self.batch.len() > 0)
            .then(|| self.batch.take())
            .transpose()
    }
}

impl Pages {
    fn next(&mut self) -> Result<Option<Vec<CurrentRow>>> {
        if let Pages::Unread(_) = self
            && let Pages::Unread(reading) = std::mem::replace(self, Pages::AtEnd)
        {
            let (sender, pages) = sync_channel(PAGES_AHEAD);
            let thread = std::thread::Builder::new().name("decklog-arrow".to_owned());
            let spawned = thread.spawn(move || reading.send(&sender));
            spawned.map_err(|e| Error::invalid(format!("cannot start a thread: {e}")))?;
            *self = Pages::Read(pages);
        }
        let Pages::Read(pages) = self else {
            return Ok(None);
        };
        match pages.recv() {
            Ok(Ok(page)) => Ok(Some(page)),
            Ok(Err(e)) => {
                *self = Pages::AtEnd;
                Err(e)
            }
            // The thread has read everything.
            Err(_) => {
                *self = Pages::AtEnd;
                Ok(None)
            }
        }
    }
}

impl Reading {
    /// Reads until the end, an error, or until nobody wants more.
    fn send(mut self, to: &SyncSender<Result<Vec<CurrentRow>>>) {
        loop {
            let page = self
                .store
                .next_rows(self.kind, &mut self.bounds, self.wanted, PAGE);
            let is_last = page.as_ref().map_or(true, Vec::is_empty);
            let is_empty = page.as_ref().is_ok_and(Vec::is_empty);
            if is_empty || to.send(page).is_err() || is_last {
                return;
            }
        }
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
        let failed = |e| ArrowError::ExternalError(Box::new(e));
        self.read().map_err(failed).transpose()
    }
}

impl RecordBatchReader for ArrowReader {
    fn schema(&self) -> SchemaRef {
        let schema: &Arc<Schema> = self.batch.schema();
        Arc::clone(schema)
    }
}

impl std::fmt::Debug for ArrowReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrowReader").finish_non_exhaustive()
    }
}
