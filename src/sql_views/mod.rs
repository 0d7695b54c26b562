//! The SQL of the views that other engines read a shipped log through.
//!
//! ```
//! use decklog::sql_views::{Engine, ObjectFormat, script};
//!
//! let sql = script(Engine::DuckDb, None, &["s3://logs/agents"])?;
//! assert!(sql.contains("CREATE OR REPLACE VIEW messages AS"));
//! assert!(sql.contains("read_json('s3://logs/agents/kind=*/*/*/*.jsonl.zst'"));
//!
//! let sql = script(Engine::Spark, Some(ObjectFormat::Parquet), &["/srv/agents"])?;
//! assert!(sql.contains("USING parquet OPTIONS (path '/srv/agents')"));
//! # Ok::<(), decklog::Error>(())
//! ```

mod clickhouse;
mod current;
mod duckdb;
mod fields;
mod files;
mod location;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::record::Kind;
use fields::{LineField, listed};
use location::Location;

/// An engine that runs SQL over a shipped log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// DuckDB, over objects.
    DuckDb,
    /// ClickHouse, over objects.
    ClickHouse,
    /// Apache DataFusion, over objects.
    DataFusion,
    /// Apache Spark, over objects.
    Spark,
    /// PostgreSQL, over the tables that are shipped to it.
    PostgreSql,
    /// SQLite, over exported files.
    Sqlite,
}

impl Engine {
    /// All engines.
    pub const ALL: [Engine; 6] = [
        Engine::DuckDb,
        Engine::ClickHouse,
        Engine::DataFusion,
        Engine::Spark,
        Engine::PostgreSql,
        Engine::Sqlite,
    ];

    /// The engine as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Engine::DuckDb => "duckdb",
            Engine::ClickHouse => "clickhouse",
            Engine::DataFusion => "datafusion",
            Engine::Spark => "spark",
            Engine::PostgreSql => "postgresql",
            Engine::Sqlite => "sqlite",
        }
    }

    /// The formats of objects that it reads, the one it reads by default first. None if it reads no
    /// objects.
    pub fn formats(self) -> &'static [ObjectFormat] {
        match self {
            Engine::DuckDb | Engine::ClickHouse => &[ObjectFormat::Jsonl, ObjectFormat::Parquet],
            Engine::DataFusion | Engine::Spark => &[ObjectFormat::Parquet],
            Engine::PostgreSql | Engine::Sqlite => &[],
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Engine {
    type Err = Error;

    fn from_str(word: &str) -> Result<Engine> {
        let mut all = Engine::ALL.into_iter();
        all.find(|it| it.as_str() == word).ok_or_else(|| {
            let known = Engine::ALL.map(Engine::as_str).join(", ");
            Error::invalid(format!("{word:?} is no engine: give one of {known}"))
        })
    }
}

/// The format of shipped objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectFormat {
    /// Lines, compressed with zstd.
    Jsonl,
    /// A row a line.
    Parquet,
}

impl ObjectFormat {
    /// The format as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectFormat::Jsonl => "jsonl",
            ObjectFormat::Parquet => "parquet",
        }
    }

    /// What the names of objects end with.
    fn extension(self) -> &'static str {
        match self {
            ObjectFormat::Jsonl => "jsonl.zst",
            ObjectFormat::Parquet => "parquet",
        }
    }
}

impl fmt::Display for ObjectFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ObjectFormat {
    type Err = Error;

    fn from_str(word: &str) -> Result<ObjectFormat> {
        match word {
            "jsonl" => Ok(ObjectFormat::Jsonl),
            "parquet" => Ok(ObjectFormat::Parquet),
            _ => Err(Error::invalid(format!(
                "{word:?} is no format of objects: give jsonl or parquet"
            ))),
        }
    }
}

/// The statements that make the views of an engine. Each ends with a semicolon at the end of a
/// line.
///
/// `locations` is one directory or URL that was shipped to, for SQLite at least one file of
/// `decklog export sqlite`, and for PostgreSQL nothing, or the URL of the database. A relative path
/// is made absolute. Without a format, it is the first that the engine reads.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the engine does not read this format, if
/// there are too few locations or too many, or if a location has characters that the engine cannot
/// take.
pub fn script(
    engine: Engine,
    format: Option<ObjectFormat>,
    locations: &[impl AsRef<str>],
) -> Result<String> {
    let format = format_of(engine, format)?;
    let given = locations.iter().map(AsRef::as_ref);
    match (engine, format) {
        (Engine::PostgreSql, _) => tables::postgresql(given),
        (Engine::Sqlite, _) => tables::sqlite(given),
        (_, None) => Err(Error::invalid(format!("{engine} reads no objects"))),
        (_, Some(format)) => {
            let location = Location::only(given)?;
            let dialect: Box<dyn Dialect> = match engine {
                Engine::ClickHouse => Box::new(clickhouse::ClickHouse::new(format, &location)?),
                Engine::DataFusion => Box::new(files::DataFusion::new(&location)),
                Engine::Spark => Box::new(files::Spark::new(&location)),
                _ => Box::new(duckdb::DuckDb::new(format, &location)),
            };
            Ok(views(&*dialect))
        }
    }
}

fn format_of(engine: Engine, format: Option<ObjectFormat>) -> Result<Option<ObjectFormat>> {
    let known = engine.formats();
    match (format, known) {
        (None, _) => Ok(known.first().copied()),
        (Some(_), []) => Err(Error::invalid(format!(
            "{engine} reads tables and no objects: leave the format out"
        ))),
        (Some(format), _) if !known.contains(&format) => Err(Error::invalid(format!(
            "{engine} cannot read the {format} objects of a log: ship them as {}",
            known[0]
        ))),
        (Some(format), _) => Ok(Some(format)),
    }
}

/// What is particular to an engine that reads objects.
trait Dialect {
    /// Comments and settings, before the views.
    fn head(&self) -> String;

    /// How a view begins.
    fn create(&self) -> &'static str {
        "CREATE OR REPLACE VIEW"
    }

    /// A statement that the view of the lines needs.
    fn table(&self, _kind: Kind, _fields: &[LineField]) -> Option<String> {
        None
    }

    /// The lines of a kind as rows: `store_id`, `day`, `seq`, `line_at`, `op`, and the fields.
    fn lines(&self, kind: Kind, fields: &[LineField]) -> String;
}

/// All kinds; conversations after the messages that they are derived from.
fn kinds() -> impl Iterator<Item = Kind> {
    let others = Kind::ALL.into_iter();
    let others = others.filter(|kind| *kind != Kind::Conversations);
    others.chain([Kind::Conversations])
}

/// For each kind a view of its lines, which only the engine's own SQL can read, and over it the
/// view of its current records, in SQL that all engines have in common.
fn views(dialect: &dyn Dialect) -> String {
    let mut script = dialect.head();
    for kind in kinds() {
        let fields = LineField::of(kind);
        let statements = dialect.table(kind, &fields).into_iter().chain([
            format!(
                "{} {kind}_lines AS\n{}",
                dialect.create(),
                dialect.lines(kind, &fields)
            ),
            format!("{} {kind} AS\n{}", dialect.create(), current::records(kind)),
        ]);
        for statement in statements {
            script.push('\n');
            script.push_str(&statement);
            script.push_str(";\n");
        }
    }
    script
}

/// The lines of a source as typed columns. `value` gives the expression of a field by its quoted
/// name.
fn select(
    of_path: [&str; 2],
    at: &str,
    fields: &[LineField],
    value: impl Fn(&LineField) -> String,
    source: &str,
) -> String {
    let envelope = [format!("{at} AS line_at"), "op".to_owned()];
    let own = of_path.map(str::to_owned).into_iter();
    let own = own.chain(["seq".to_owned()]).chain(envelope);
    let columns = fields.iter().map(|field| {
        let value = if field.is_own_time() {
            // It is the time of the line, whatever its spelling.
            at.to_owned()
        } else {
            value(field)
        };
        if value == field.name {
            value
        } else {
            format!("{value} AS {}", field.name)
        }
    });
    let columns = listed(own.chain(columns), 4);
    format!("SELECT\n{columns}\nFROM {source}")
}
