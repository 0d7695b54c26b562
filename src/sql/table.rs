//! A kind of record as a table of SQLite: a virtual table, whose rows are read from the log page by
//! page while a query runs.
//!
//! One of four modules with unsafe code, because the traits of tables and cursors are unsafe to
//! implement. Their contract is about the layout: SQLite knows a table or a cursor by its first
//! member. There is no other unsafe code here.

#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rusqlite::Error as SqlError;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexInfo, Module, VTab, VTabConnection, VTabCursor, sqlite3_vtab,
    sqlite3_vtab_cursor,
};

use super::plan::{DAY, Known, Reads, SEQ, STORE_ID, Scan, first_columns};
use super::values::{day_text, sql_type, with_value};
use crate::collections::current_rows::CurrentRow;
use crate::error::{Error, Result};
use crate::record::Kind;
use crate::record::columns::{Cell, ColumnType};
use crate::store::Store;

/// Number of rows that are read together: few at first, for queries that stop early.
const ROWS: (usize, usize) = (16, 512);

/// What the tables of a database share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The first error of the log during a query. SQLite passes on its text alone.
    failed: Mutex<Option<Error>>,
    /// The last sequence number at the start of the query that runs. If none does, the greatest.
    upto: AtomicU64,
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared {
            failed: Mutex::new(None),
            upto: AtomicU64::new(u64::MAX),
        }
    }

    /// Begins a query. It and the queries within it see no record that is added from now on.
    pub(super) fn begin(&self, store: &Store) -> Result<Running<'_>> {
        let is_first = self.upto() == u64::MAX;
        if is_first {
            self.upto.store(store.last_seq()?, Ordering::Relaxed);
        }
        Ok(Running {
            shared: self,
            is_first,
        })
    }

    fn upto(&self) -> u64 {
        self.upto.load(Ordering::Relaxed)
    }

    pub(super) fn take_error(&self) -> Option<Error> {
        self.failed.lock().take()
    }
}

/// A query that runs, until it is dropped.
pub(super) struct Running<'a> {
    shared: &'a Shared,
    is_first: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_first {
            self.shared.upto.store(u64::MAX, Ordering::Relaxed);
        }
    }
}

/// The log that a table reads.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub store: Store,
    pub store_id: String,
    pub known: Known,
    pub shared: Arc<Shared>,
}

impl Source {
    fn fail(&self, error: Error) -> SqlError {
        let text = error.to_string();
        self.shared.failed.lock().get_or_insert(error);
        SqlError::ModuleError(text)
    }
}

/// Adds the table of a kind to a connection.
pub(super) fn add(connection: &rusqlite::Connection, source: Source) -> rusqlite::Result<()> {
    const MODULE: Module<'_, KindTable> = Module::eponymous_only_module();
    connection.create_module(source.known.kind.stem(), &MODULE, Some(source))
}

/// The statement that declares the columns of a kind to SQLite. Times are declared as texts, so
/// that they are compared as such.
fn declaration(kind: Kind) -> String {
    let first = first_columns(kind).iter();
    let first = first.map(|(name, sql_type)| format!("{name} {sql_type}"));
    let columns = kind.columns().iter().map(|column| {
        let sql_type = match column.column_type {
            ColumnType::Time => "TEXT",
            other => sql_type(other),
        };
        format!("\"{}\" {sql_type}", column.name)
    });
    let columns: Vec<String> = first.chain(columns).collect();
    format!("CREATE TABLE x({})", columns.join(", "))
}

/// The table of a kind.
#[repr(C)]
struct KindTable {
    /// What SQLite knows it by.
    base: sqlite3_vtab,
    source: Source,
}

// SAFETY: the layout is that of C, and the first member is the `sqlite3_vtab`.
unsafe impl<'vtab> VTab<'vtab> for KindTable {
    type Aux = Source;
    type Cursor = KindCursor<'vtab>;

    fn connect(
        _: &mut VTabConnection,
        source: Option<&Source>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> rusqlite::Result<(Cow<'static, CStr>, KindTable)> {
        let source = source.ok_or(SqlError::InvalidQuery)?.clone();
        let declaration = CString::new(declaration(source.known.kind))?;
        let base = sqlite3_vtab::default();
        Ok((Cow::Owned(declaration), KindTable { base, source }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<bool> {
        let Source { store, known, .. } = &self.source;
        let rows = store.rows_len(known.kind);
        known.choose(info, rows.map_err(|error| self.source.fail(error))?);
        Ok(true)
    }

    fn open(&'vtab mut self) -> rusqlite::Result<KindCursor<'vtab>> {
        Ok(KindCursor {
            base: sqlite3_vtab_cursor::default(),
            source: &self.source,
            scan: None,
            rows: Vec::new(),
            kept: Vec::new(),
            page: ROWS.0,
        })
    }
}

/// A walk over the rows of a table.
#[repr(C)]
struct KindCursor<'vtab> {
    /// What SQLite knows it by.
    base: sqlite3_vtab_cursor,
    source: &'vtab Source,
    /// What is left to read.
    scan: Option<Scan>,
    /// The rows that were read, from the last to the current one.
    rows: Vec<CurrentRow>,
    /// Rows of the next page, for queries that rely on the order.
    kept: Vec<CurrentRow>,
    page: usize,
}

// SAFETY: the layout is that of C, and the first member is the `sqlite3_vtab_cursor`.
unsafe impl VTabCursor for KindCursor<'_> {
    fn filter(
        &mut self,
        _: c_int,
        plan: Option<&str>,
        values: &Filters<'_>,
    ) -> rusqlite::Result<()> {
        let Source { store, known, .. } = self.source;
        let hasher = store.inner().hasher();
        self.scan = Some(Scan::of(known, hasher, plan.unwrap_or(""), values.iter()));
        self.rows.clear();
        self.kept.clear();
        self.page = ROWS.0;
        self.read()
    }

    fn next(&mut self) -> rusqlite::Result<()> {
        self.rows.pop();
        self.read()
    }

    fn eof(&self) -> bool {
        self.rows.is_empty()
    }

    fn column(&self, context: &mut Context, place: c_int) -> rusqlite::Result<()> {
        let Some(row) = self.rows.last() else {
            return Ok(());
        };
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let mut set = |value: ValueRef<'_>| context.set_result(ToSqlOutput::Borrowed(value));
        match place.checked_sub(self.source.known.first) {
            Some(place) => with_value(row.cells.get(place).unwrap_or(&Cell::Null), set),
            None if place == STORE_ID => set(ValueRef::Text(self.source.store_id.as_bytes())),
            None if place == SEQ => set(ValueRef::Integer(row.seq.cast_signed())),
            None if place == DAY => set(ValueRef::Text(day_text(row.at).as_bytes())),
            None => Ok(()),
        }
    }

    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(self.rows.last().map_or(0, |row| row.seq.cast_signed()))
    }
}

impl KindCursor<'_> {
    /// Reads rows if none is left.
    fn read(&mut self) -> rusqlite::Result<()> {
        while self.rows.is_empty()
            && let Some(scan) = self.scan.take()
        {
            let read = self.read_page(scan);
            read.map_err(|error| self.source.fail(error))?;
        }
        Ok(())
    }

    fn read_page(&mut self, mut scan: Scan) -> Result<()> {
        let Source { store, known, .. } = self.source;
        let (kind, upto) = (known.kind, self.source.shared.upto());
        match &mut scan.reads {
            Reads::Nothing => {}
            Reads::Key(key) => {
                store.columns_of_keys(kind, &[*key], (scan.wanted, upto), |(_, row)| {
                    self.rows.push(row);
                    Ok(())
                })?;
            }
            Reads::List(bounds) => {
                *bounds = bounds.upto(upto);
                let mut rows = std::mem::take(&mut self.kept);
                let page = store.next_rows(kind, bounds, scan.wanted, self.page)?;
                let is_last = page.len() < self.page;
                rows.extend(page);
                if scan.order.is_some() {
                    self.kept = self.in_order(&mut rows, &scan, is_last);
                }
                rows.reverse();
                self.rows = rows;
                self.page = (self.page * 2).min(ROWS.1);
                self.scan = (!is_last).then_some(scan);
            }
        }
        Ok(())
    }

    /// Sorts rows of the same millisecond by their microseconds; returns those that may not be
    /// complete.
    fn in_order(&self, rows: &mut Vec<CurrentRow>, scan: &Scan, is_last: bool) -> Vec<CurrentRow> {
        use crate::collections::Order;
        let known = &self.source.known;
        if known.number().is_some() {
            return Vec::new();
        }
        let last = rows.last().map(|row| row.at);
        let complete = rows.iter().rposition(|row| Some(row.at) != last);
        let complete = complete.map_or(0, |place| place + 1);
        let kept = if is_last {
            Vec::new()
        } else {
            rows.split_off(complete)
        };
        let micros = |row: &CurrentRow| match row.cells.get(known.time - known.first) {
            Some(Cell::Time(micros)) => *micros,
            _ => row.at.saturating_mul(1_000),
        };
        let key = |row: &CurrentRow| (micros(row), row.seq);
        if scan.order == Some(Order::NewestFirst) {
            rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
        } else {
            rows.sort_by_key(key);
        }
        kept
    }
}
