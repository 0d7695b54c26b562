//! Records of a kind as Arrow record batches.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use crate::arrow_rows::Batch;
use crate::collections::Order;
use crate::collections::row_list::RowBounds;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Select;
use crate::record::Kind;
use crate::record::columns::{Column, ColumnSet};
use crate::store::Store;

/// Number of rows that are read at a time. Writers wait meanwhile.
const PAGE: usize = 1_000;
/// Number of rows of a batch.
const BATCH: usize = 32 * PAGE;
/// Maximum number of threads that read.
const THREADS_MAX: usize = 4;

/// Reads the current records of a kind as record batches. The columns are the fields of the kind,
/// then derived ones such as `status`. JSON is text, and times are timestamps in milliseconds.
///
/// Several threads read ahead, each another part of the list.
pub struct ArrowReader {
    reading: Reading,
    /// What was not handed to a thread yet; `None` at the end.
    rest: Option<RowBounds>,
    threads: Vec<Thread>,
    /// The number of the next part that is asked for, and of the next one that is awaited.
    asked: usize,
    awaited: usize,
    /// Batches of the latest part.
    ready: VecDeque<RecordBatch>,
}

/// What is read.
#[derive(Clone)]
struct Reading {
    store: Store,
    kind: Kind,
    columns: Arc<[Column]>,
    /// The places of the columns in a row.
    places: Arc<[usize]>,
    wanted: ColumnSet,
    schema: SchemaRef,
}

/// A thread that reads parts of the list.
struct Thread {
    parts: Sender<RowBounds>,
    batches: Receiver<Result<Vec<RecordBatch>>>,
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
        let places: Vec<usize> = match columns {
            None => (0..all.len()).collect(),
            Some(names) => names
                .iter()
                .map(|name| place_of(kind, all, name))
                .collect::<Result<_>>()?,
        };
        if places.is_empty() {
            let message = "columns is empty: give at least one, or leave it out for all";
            return Err(Error::invalid(message).with_field("columns"));
        }
        let wanted = places.iter().fold(0, |set, place| {
            let bit = u32::try_from(*place).ok();
            set | bit.and_then(|bit| 1_u64.checked_shl(bit)).unwrap_or(0)
        });
        let columns: Vec<Column> = places.iter().map(|place| all[*place]).collect();
        let times = (since.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX));
        let order = Order::OldestFirst;
        Ok(ArrowReader {
            reading: Reading {
                store: store.clone(),
                kind,
                schema: Arc::clone(Batch::new(&columns).schema()),
                columns: columns.into(),
                places: places.into(),
                wanted: ColumnSet(wanted),
            },
            rest: Some(RowBounds::new(kind, Select::All, order, None, times)),
            threads: Vec::new(),
            asked: 0,
            awaited: 0,
            ready: VecDeque::new(),
        })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.asked == 0
                && let Some(part) = self.next_part()?
            {
                // A list of one part needs no thread.
                if self.rest.is_none() {
                    self.ready.extend(self.reading.batches(part)?);
                    continue;
                }
                self.start()?;
                self.ask(part);
            }
            while self.asked - self.awaited < 2 * self.threads.len() {
                let Some(part) = self.next_part()? else { break };
                self.ask(part);
            }
            if self.asked == self.awaited {
                return Ok(None);
            }
            let thread = &self.threads[self.awaited % self.threads.len()];
            self.awaited += 1;
            let ended = |_| Error::new(ErrorKind::Io, "a thread that reads the log has ended");
            let batches = thread.batches.recv().map_err(ended)??;
            // None, if the records of the part are gone: retracted or removed.
            self.ready.extend(batches);
        }
    }

    /// The next part of the list, of about a batch.
    fn next_part(&mut self) -> Result<Option<RowBounds>> {
        let Some(rest) = self.rest.take() else {
            return Ok(None);
        };
        let Reading { store, kind, .. } = &self.reading;
        let (part, rest) = store.split_rows(*kind, rest, BATCH)?;
        self.rest = rest;
        Ok(Some(part))
    }

    fn start(&mut self) -> Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        for _ in 0..cores.min(THREADS_MAX) {
            let ((parts, asked), (sender, batches)) = (channel(), channel());
            let reading = self.reading.clone();
            let work = move || {
                for part in asked {
                    if sender.send(reading.batches(part)).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("decklog-arrow".to_owned());
            let spawned = thread.spawn(work);
            spawned.map_err(|e| Error::invalid(format!("cannot start a thread: {e}")))?;
            self.threads.push(Thread { parts, batches });
        }
        Ok(())
    }

    fn ask(&mut self, part: RowBounds) {
        let thread = &self.threads[self.asked % self.threads.len()];
        self.asked += 1;
        // A thread that has ended has no answer, which is noticed then.
        let _ = thread.parts.send(part);
    }
}

impl Reading {
    /// Reads a part of the list.
    fn batches(&self, mut part: RowBounds) -> Result<Vec<RecordBatch>> {
        let (mut batch, mut batches) = (Batch::new(&self.columns), Vec::new());
        loop {
            let page = self
                .store
                .next_rows(self.kind, &mut part, self.wanted, PAGE)?;
            if page.is_empty() {
                break;
            }
            for row in &page {
                let cells = self.places.iter().filter_map(|place| row.cells.get(*place));
                batch.push(cells);
                if batch.is_full() {
                    batches.push(batch.take()?);
                }
            }
        }
        if batch.len() > 0 {
            batches.push(batch.take()?);
        }
        Ok(batches)
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
        let read = self.read().inspect_err(|_| {
            // Nothing follows an error.
            (self.rest, self.awaited) = (None, self.asked);
        });
        let failed = |e| ArrowError::ExternalError(Box::new(e));
        read.map_err(failed).transpose()
    }
}

impl RecordBatchReader for ArrowReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.reading.schema)
    }
}

impl std::fmt::Debug for ArrowReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrowReader").finish_non_exhaustive()
    }
}
