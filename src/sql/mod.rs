//! SQL over a log, with SQLite as the engine.
//!
//! Each kind of record is a table with the name of its files, and a row is the current state of a
//! record. Nothing is copied: while a query runs, it reads the records that it needs from the log,
//! found through the index if a condition is on their time, their key or a lookup field.
//!
//! ```
//! use std::ops::ControlFlow;
//! use decklog::sql::{Database, Value};
//! # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
//! # let dir = tempfile::tempdir().unwrap();
//! # let store = Store::open(dir.path().join("log"))?;
//! # let id = decklog::uuid::Uuid::new_v4();
//! # store.record(Conversation::new(id, Client::Api))?;
//! # store.record(ConversationMessage::new(id, Role::User, "hi"))?;
//! let database = Database::of(&store)?;
//! let mut query = database.prepare("SELECT role, count(*) AS messages FROM messages GROUP BY role")?;
//! assert_eq!(query.columns(), ["role", "messages"]);
//! let mut found = Vec::new();
//! query.for_each(|row: &[Value<'_>]| {
//!     found.push(format!("{row:?}"));
//!     Ok::<_, decklog::Error>(ControlFlow::Continue(()))
//! })?;
//! assert_eq!(found, [r#"[Text("user"), Integer(1)]"#]);
//! # Ok::<(), decklog::Error>(())
//! ```

mod ddl;
mod errors;
mod export;
mod plan;
mod table;
mod values;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, Statement};

pub use self::export::{ExportOptions, export};
use self::plan::{Known, first_columns};
use self::table::{Shared, Source};
use self::values::sql_type;
use crate::error::{Error, Result};
use crate::record::Kind;
use crate::store::Store;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The type of its values: `TEXT`, `INTEGER`, `REAL`, `BOOLEAN`, which is 0 or 1, or
    /// `TIMESTAMP`, which is a text in UTC such as `2025-12-27 10:40:00.123`.
    pub sql_type: &'static str,
}

/// The columns of the table of a kind.
///
/// ```
/// let columns = decklog::sql::columns(decklog::Kind::Messages);
/// assert_eq!((columns[0].name, columns[0].sql_type), ("store_id", "TEXT"));
/// ```
pub fn columns(kind: Kind) -> Vec<Column> {
    let first = first_columns(kind).iter();
    let first = first.map(|(name, sql_type)| Column { name, sql_type });
    let columns = kind.columns().iter().map(|column| Column {
        name: column.name,
        sql_type: sql_type(column.column_type),
    });
    first.chain(columns).collect()
}

/// A value of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A double.
    Real(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes.
    Blob(&'a [u8]),
}

impl<'a> Value<'a> {
    fn of(value: ValueRef<'a>) -> Value<'a> {
        match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Real(number) => Value::Real(number),
            ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text)),
            ValueRef::Blob(bytes) => Value::Blob(bytes),
        }
    }
}

/// A log as a database to query.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    store: Store,
    shared: Arc<Shared>,
}

impl Database {
    /// The database of a store. Reads nothing yet.
    pub fn of(store: &Store) -> Result<Database> {
        let shared = Arc::new(Shared::new());
        let open = || {
            let mut connection = Connection::open_in_memory()?;
            for kind in Kind::ALL {
                let source = Source {
                    store: store.clone(),
                    store_id: store.inner().store_id().to_string(),
                    known: Known::of(kind),
                    shared: Arc::clone(&shared),
                };
                table::add(&connection, source)?;
            }
            connection.authorizer(Some(authorize))?;
            Ok(connection)
        };
        let connection =
            open().map_err(|error: rusqlite::Error| Error::invalid(error.to_string()))?;
        Ok(Database {
            connection,
            store: store.clone(),
            shared,
        })
    }

    /// Prepares a query: one statement, which only reads.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the text is not such a statement, or
    /// names a table or a column that does not exist.
    pub fn prepare(&self, sql: &str) -> Result<Query<'_>> {
        let mut statements = Batch::new(&self.connection, sql);
        let mut next = || statements.next().map_err(|e| errors::of_sql(&e, sql));
        let Some(statement) = next()? else {
            return Err(Error::invalid(
                "the query is empty: give a SELECT statement",
            ));
        };
        if !matches!(next(), Ok(None)) {
            return Err(Error::invalid("there are several statements: give one"));
        }
        if !statement.readonly() || statement.column_count() == 0 {
            return Err(errors::not_reading());
        }
        let columns = statement.column_names().map(str::to_owned);
        Ok(Query {
            columns: columns.collect(),
            statement,
            database: self,
        })
    }
}

/// A prepared query.
#[derive(Debug)]
pub struct Query<'a> {
    statement: Statement<'a>,
    columns: Vec<String>,
    database: &'a Database,
}

impl Query<'_> {
    /// The names of the columns of its result.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Runs the query, and calls `take` with each row of the result until it breaks. Records that
    /// are added meanwhile are not in the result, and those that are erased may be missing from the
    /// rest of it. A turn, a call, a proposal or a rollup of which a new version is recorded
    /// meanwhile may be found twice or not at all.
    ///
    /// # Errors
    /// Those of `take` and of reading the log, and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the query cannot be evaluated.
    pub fn for_each<E: From<Error>>(
        &mut self,
        mut take: impl FnMut(&[Value<'_>]) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let Database { store, shared, .. } = self.database;
        let _running = shared.begin(store)?;
        let error = |error: rusqlite::Error| {
            let of_log = shared.take_error();
            of_log.unwrap_or_else(|| errors::of_sql(&error, ""))
        };
        let count = self.columns.len();
        let mut rows = self.statement.query([]).map_err(error)?;
        while let Some(row) = rows.next().map_err(error)? {
            let mut values = Vec::with_capacity(count);
            for place in 0..count {
                values.push(Value::of(row.get_ref(place).map_err(error)?));
            }
            if take(&values)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Allows what reads the tables. Without this, `ATTACH` would open other files.
#[allow(clippy::needless_pass_by_value)] // The type of the hook.
fn authorize(context: AuthContext<'_>) -> Authorization {
    let is_allowed = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => {
            !function_name.eq_ignore_ascii_case("load_extension")
        }
        AuthAction::Pragma { pragma_name, .. } => {
            matches!(pragma_name, "table_info" | "table_xinfo" | "function_list")
        }
        _ => false,
    };
    if is_allowed {
        Authorization::Allow
    } else {
        Authorization::Deny
    }
}
