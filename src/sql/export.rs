//! A log as a database file of SQLite.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};

use super::ddl::{TableDdl, UNIQUE};
use super::values::{day_text, time_text, with_value};
use crate::collections::Order;
use crate::collections::current_rows::CurrentRow;
use crate::collections::row_list::RowBounds;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Select;
use crate::record::columns::{Cell, ColumnSet};
use crate::record::{Day, Kind, Timestamp};
use crate::store::{FORMAT, Store};

/// Number of rows that are read together.
const ROWS: usize = 512;
/// Size of a page of the file. Rows of messages do not fit SQLite's 4 KiB well: with these pages,
/// the file is a fifth smaller, and is written faster.
const PAGE_BYTES: u32 = 16 << 10;
/// Memory for pages of the file, in KiB.
const CACHE_KIB: u32 = 64 << 10;

/// What an export has. By default, all records of all kinds.
#[derive(Debug, Clone, Default)]
pub struct ExportOptions {
    /// The kinds; none for all.
    pub kinds: Vec<Kind>,
    /// Only records of this time or later, in epoch milliseconds.
    pub since: Option<i64>,
    /// Only records before this time.
    pub until: Option<i64>,
}

/// Writes the current records of a store to a new database of SQLite, and returns the number of
/// rows of each table. Records that are added meanwhile are not in it. The file must not exist, or
/// be empty. Only a complete database has the table `decklog`, which says what was exported.
/// `progress` is called with the kind and the number of its rows so far.
///
/// The conversations of the exported messages are in it, whatever their time.
///
/// ```
/// use decklog::sql::{ExportOptions, export};
/// # use decklog::{Client, Conversation, Kind, Store};
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = Store::open(dir.path().join("log"))?;
/// # store.record(Conversation::new(decklog::uuid::Uuid::new_v4(), Client::Api))?;
/// # let path = dir.path().join("log.sqlite");
/// let options = ExportOptions { kinds: vec![Kind::Conversations], ..ExportOptions::default() };
/// assert_eq!(export(&store, &path, &options, |_, _| {})?, [(Kind::Conversations, 1)]);
/// # Ok::<(), decklog::Error>(())
/// ```
pub fn export(
    store: &Store,
    path: &Path,
    options: &ExportOptions,
    mut progress: impl FnMut(Kind, u64),
) -> Result<Vec<(Kind, u64)>> {
    let failed = |error: rusqlite::Error| of_file(&error, path);
    let connection = open(path).map_err(failed)?;
    let is_wanted = |kind: &Kind| options.kinds.is_empty() || options.kinds.contains(kind);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_wanted).collect();
    let last_seq = store.last_seq()?;
    let mut counts = Vec::new();
    for kind in kinds {
        let ddl = TableDdl::of(kind);
        connection.execute_batch(&ddl.create()).map_err(failed)?;
        if let Some(unique) = ddl.unique_key() {
            connection.execute_batch(unique).map_err(failed)?;
        }
        let mut insert = Insert::new(store, &connection, &ddl).map_err(failed)?;
        let times = (
            options.since.unwrap_or(i64::MIN),
            options.until.unwrap_or(i64::MAX),
        );
        let bounds = RowBounds::new(kind, Select::All, Order::OldestFirst, None, times);
        let mut bounds = bounds.upto(last_seq);
        let mut count = 0;
        loop {
            let rows = store.next_rows(kind, &mut bounds, ColumnSet::ALL, ROWS)?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                insert.add(row).map_err(failed)?;
            }
            count += rows.len() as u64;
            progress(kind, count);
        }
        counts.push((kind, count));
    }
    with_conversations(store, &connection, path, &mut counts)?;
    for (kind, _) in &counts {
        for index in TableDdl::of(*kind).indexes() {
            create_index(&connection, &index).map_err(failed)?;
        }
    }
    finish(store, &connection, last_seq).map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    Ok(counts)
}

/// Opens the file. Nothing is journaled: a file that is not complete is of no use. The conversation
/// of a message may not be there yet, or be gone.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(&format!(
        "PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
         PRAGMA foreign_keys = OFF;
         PRAGMA cache_size = -{CACHE_KIB}; BEGIN"
    ))?;
    Ok(connection)
}

/// Adds the conversations of messages that are older than the export.
fn with_conversations(
    store: &Store,
    connection: &Connection,
    path: &Path,
    counts: &mut [(Kind, u64)],
) -> Result<()> {
    let failed = |error: rusqlite::Error| of_file(&error, path);
    let has = |wanted| counts.iter().any(|(kind, _)| *kind == wanted);
    if !has(Kind::Messages) {
        return Ok(());
    }
    let Some((_, count)) = counts
        .iter_mut()
        .find(|(kind, _)| *kind == Kind::Conversations)
    else {
        return Ok(());
    };
    let missing = "SELECT DISTINCT conversation_id FROM messages
        WHERE conversation_id NOT IN (SELECT id FROM conversations) LIMIT 1000";
    let ddl = TableDdl::of(Kind::Conversations);
    let mut insert = Insert::new(store, connection, &ddl).map_err(failed)?;
    let mut missing = connection.prepare(missing).map_err(failed)?;
    loop {
        let ids = missing.query_map([], |row| row.get::<_, String>(0));
        let ids = ids.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        let hasher = store.inner().hasher();
        let ids = ids.map_err(failed)?.into_iter();
        let keys: Vec<_> = ids.map(|id| hasher.key([&id, ""])).collect();
        let mut found = 0;
        store.rows_of_keys(Kind::Conversations, &keys, |(_, row)| {
            found += 1;
            insert.add(&row).map_err(failed)
        })?;
        *count += found;
        // The conversation of a message may be gone.
        if found == 0 {
            return Ok(());
        }
    }
}

/// Creates an index. Lines that decklog did not write may break a rule of the log; then the index
/// is not unique.
fn create_index(connection: &Connection, index: &str) -> rusqlite::Result<()> {
    let created = connection.execute_batch(index);
    let is_broken = created.as_ref().is_err_and(|error| {
        error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
    });
    if is_broken {
        return connection.execute_batch(&index.replacen(UNIQUE, "", 1));
    }
    created
}

fn finish(store: &Store, connection: &Connection, last_seq: u64) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TABLE decklog (
    store_id TEXT NOT NULL,
    format INTEGER NOT NULL,
    version TEXT NOT NULL,
    exported_at TIMESTAMP NOT NULL,
    last_seq INTEGER NOT NULL
)",
    )?;
    let values = (
        store.inner().store_id().to_string(),
        FORMAT,
        env!("CARGO_PKG_VERSION"),
        time_text(Timestamp::now().at().saturating_mul(1_000)),
        last_seq.cast_signed(),
    );
    connection.execute("INSERT INTO decklog VALUES (?, ?, ?, ?, ?)", values)?;
    connection.execute_batch("COMMIT")
}

/// Where the value of a column comes from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    StoreId,
    Seq,
    Day,
    Cell(usize),
}

/// The statement that inserts rows of a kind.
struct Insert<'a> {
    statement: Statement<'a>,
    columns: Vec<Origin>,
    store_id: String,
    /// The day of the rows before, as most have the same.
    day: (Option<Day>, String),
}

impl<'a> Insert<'a> {
    fn new(store: &Store, connection: &'a Connection, ddl: &TableDdl) -> rusqlite::Result<Self> {
        let of_kind = ddl.kind.columns();
        let columns = ddl.names().map(|name| {
            let place = of_kind.iter().position(|column| column.name == name);
            match (place, name) {
                (Some(place), _) => Origin::Cell(place),
                (None, "store_id") => Origin::StoreId,
                (None, "seq") => Origin::Seq,
                (None, _) => Origin::Day,
            }
        });
        Ok(Insert {
            statement: connection.prepare(&ddl.insert())?,
            columns: columns.collect(),
            store_id: store.inner().store_id().to_string(),
            day: (None, String::new()),
        })
    }

    fn add(&mut self, row: &CurrentRow) -> rusqlite::Result<()> {
        let day = Day::of(row.at).ok();
        if self.day.0 != day {
            self.day = (day, day_text(row.at));
        }
        let statement = &mut self.statement;
        for (place, from) in (1..).zip(&self.columns) {
            let mut bind = |value: ValueRef<'_>| {
                statement.raw_bind_parameter(place, ToSqlOutput::Borrowed(value))
            };
            match from {
                Origin::StoreId => bind(ValueRef::Text(self.store_id.as_bytes())),
                Origin::Seq => bind(ValueRef::Integer(row.seq.cast_signed())),
                Origin::Day => bind(ValueRef::Text(self.day.1.as_bytes())),
                Origin::Cell(cell) => with_value(row.cells.get(*cell).unwrap_or(&Cell::Null), bind),
            }?;
        }
        statement.raw_execute().map(|_| ())
    }
}

/// An error of the file.
fn of_file(error: &rusqlite::Error, path: &Path) -> Error {
    let reason = match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    };
    Error::new(
        ErrorKind::Io,
        format!("cannot write the database: {reason}"),
    )
    .with_path(path)
}
