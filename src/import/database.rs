//! Databases of agents, opened read-only. Their agents may use them meanwhile.

use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use super::agent::log_of;

/// How long to wait for a program that is writing.
const BUSY: Duration = Duration::from_secs(2);
/// The length of a header up to the versions of the format.
const HEADER_BYTES: usize = 20;
/// The version in the header of a database with a write-ahead log.
const WITH_LOG: u8 = 2;

/// An open database.
///
/// A database in WAL mode without a write-ahead log is not in use. To read it in the usual way,
/// SQLite would create files in its directory. It is therefore read as immutable, and
/// [`has_changed`](Database::has_changed) tells whether it was changed meanwhile.
pub(super) struct Database {
    connection: Connection,
    /// The file as it was opened, if SQLite reads it as immutable.
    quiet: Option<(PathBuf, Metadata)>,
}

impl Database {
    /// Opens a database and begins a read transaction: all queries see its current state.
    pub(super) fn open(path: &Path) -> Result<Database, String> {
        let failed = |error: std::io::Error| format!("cannot read: {error}");
        let mut header = Vec::new();
        let mut file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let head = file.by_ref().take(HEADER_BYTES as u64);
        { head }.read_to_end(&mut header).map_err(failed)?;
        let is_quiet = header.get(HEADER_BYTES - 1) == Some(&WITH_LOG)
            && fs::metadata(log_of(path)).map_or(0, |log| log.len()) == 0;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = if is_quiet {
            let uri = format!("{}?immutable=1", uri(path));
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
        } else {
            Connection::open_with_flags(path, flags)
        };
        let connection = opened.map_err(|e| reason(&e))?;
        connection.busy_timeout(BUSY).map_err(|e| reason(&e))?;
        connection.execute_batch("BEGIN").map_err(|e| reason(&e))?;
        Ok(Database {
            connection,
            quiet: is_quiet.then(|| (path.to_owned(), metadata)),
        })
    }

    /// The rows of a query.
    pub(super) fn rows<T>(
        &self,
        query: &str,
        values: &[&dyn rusqlite::ToSql],
        mut read: impl FnMut(&Row<'_>) -> T,
    ) -> Result<Vec<T>, String> {
        let mut statement = self.connection.prepare(query).map_err(|e| reason(&e))?;
        let rows = statement.query_map(values, |row| Ok(read(row)));
        let rows = rows.map_err(|e| reason(&e))?;
        rows.collect::<Result<_, _>>().map_err(|e| reason(&e))
    }

    /// Whether the database has a table or a view with this name.
    pub(super) fn has_table(&self, name: &str) -> Result<bool, String> {
        let query = "SELECT 1 FROM sqlite_master WHERE name = ?1";
        Ok(!self.rows(query, &[&name], |_| ())?.is_empty())
    }

    /// Whether the file was changed while it was read as immutable, so that the result may be
    /// wrong.
    pub(super) fn has_changed(&self) -> bool {
        self.quiet.as_ref().is_some_and(|(path, before)| {
            let is_same = fs::metadata(path).is_ok_and(|now| {
                now.len() == before.len() && now.modified().ok() == before.modified().ok()
            });
            !is_same
        })
    }
}

fn reason(error: &rusqlite::Error) -> String {
    format!("cannot read the database: {error}")
}

/// The URI of a file.
fn uri(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::from("file://");
    if !path.has_root() || cfg!(windows) {
        uri.push('/');
    }
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'/' | b':' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            // Writing to a string does not fail.
            byte => drop(write!(uri, "%{byte:02x}")),
        }
    }
    uri
}

/// A text of a row. `None` if the column does not exist or has no text.
pub(super) fn text(row: &Row<'_>, column: &str) -> Option<String> {
    match row.get_ref(column).ok()? {
        ValueRef::Text(text) => std::str::from_utf8(text).ok().map(str::to_owned),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => None,
    }
}

/// A number of a row. `None` if the column does not exist or has no number.
pub(super) fn number(row: &Row<'_>, column: &str) -> Option<i64> {
    match row.get_ref(column).ok()? {
        ValueRef::Integer(number) => Some(number),
        ValueRef::Real(number) => Some(number as i64),
        ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => None,
    }
}

/// A number of a row, with its fraction.
#[allow(clippy::cast_precision_loss)] // A cost.
pub(super) fn real(row: &Row<'_>, column: &str) -> Option<f64> {
    match row.get_ref(column).ok()? {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => None,
    }
}

/// The bytes of a row's text or blob.
pub(super) fn bytes(row: &Row<'_>, column: &str) -> Option<Vec<u8>> {
    match row.get_ref(column).ok()? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_owned()),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
    }
}
