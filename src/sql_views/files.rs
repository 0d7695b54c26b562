//! Engines that read Parquet as a table of files, with the day and the store from their path.

use super::fields::{LineField, listed};
use super::location::{Location, backslashed, quoted};
use super::{Dialect, select};
use crate::record::Kind;
use crate::record::columns::ColumnType;

/// The columns of a table of files.
fn columns(
    at: &str,
    fields: &[LineField],
    sql_type: fn(ColumnType) -> &'static str,
    of_path: &[&str],
) -> String {
    let envelope = [
        format!("seq {}", sql_type(ColumnType::Integer)),
        format!("{at} {}", sql_type(ColumnType::Time)),
        format!("op {}", sql_type(ColumnType::Text)),
    ];
    let fields = fields.iter().map(|field| {
        let sql_type = sql_type(field.column_type);
        format!("{} {sql_type}", field.name_in_parquet())
    });
    let of_path = of_path.iter().map(|column| (*column).to_owned());
    listed(envelope.into_iter().chain(fields).chain(of_path), 4)
}

fn lines(at: &str, fields: &[LineField], source: &str) -> String {
    let value = |field: &LineField| field.name_in_parquet().to_owned();
    select(["store AS store_id", "day"], at, fields, value, source)
}

pub(super) struct Spark {
    /// A literal.
    location: String,
}

impl Spark {
    pub(super) fn new(location: &Location) -> Spark {
        let location = match location {
            // The name of the scheme in Hadoop.
            Location::Url(scheme, rest) if scheme == "s3" => {
                Location::Url("s3a".to_owned(), rest.clone())
            }
            other => other.clone(),
        };
        let escaped = location.escaped(|char| match char {
            '*' | '?' | '[' | ']' | '{' | '}' => Some(format!("\\{char}")),
            _ => None,
        });
        Spark {
            location: backslashed(&escaped),
        }
    }

    fn sql_type(column_type: ColumnType) -> &'static str {
        match column_type {
            ColumnType::Uuid | ColumnType::Text | ColumnType::Json => "STRING",
            ColumnType::Integer | ColumnType::Unsigned => "BIGINT",
            ColumnType::Real => "DOUBLE",
            ColumnType::Boolean => "BOOLEAN",
            ColumnType::Time => "TIMESTAMP",
            ColumnType::Day => "DATE",
        }
    }
}

impl Dialect for Spark {
    fn head(&self) -> String {
        "\
-- Views for Spark, tried with 4.3.0 (4.1 or later for the recursion of run_tree.sql), over parquet
-- objects. Without Hadoop's native library, Spark cannot read text that is compressed with zstd.
-- For s3a:// it needs the package hadoop-aws of its Hadoop version; this was not tried.
-- A path without a file is an error, so the path is that of all kinds. A query with a condition on
-- day opens only the files of these days. A view keeps the list of files it was made with: run this
-- again, or REFRESH TABLE, to see later ones.
SET spark.sql.session.timeZone = UTC;
"
        .to_owned()
    }

    fn create(&self) -> &'static str {
        "CREATE OR REPLACE TEMPORARY VIEW"
    }

    fn table(&self, kind: Kind, fields: &[LineField]) -> Option<String> {
        let of_path = ["kind STRING", "day DATE", "store STRING"];
        let columns = columns("`at`", fields, Spark::sql_type, &of_path);
        let location = &self.location;
        Some(format!(
            "CREATE OR REPLACE TEMPORARY VIEW {kind}_files (\n{columns}\n) USING parquet OPTIONS (path {location})"
        ))
    }

    fn lines(&self, kind: Kind, fields: &[LineField]) -> String {
        let source = format!("{kind}_files\nWHERE kind = '{kind}'");
        lines("`at`", fields, &source)
    }
}

pub(super) struct DataFusion {
    location: String,
}

impl DataFusion {
    pub(super) fn new(location: &Location) -> DataFusion {
        let location = match location {
            // A path may be a pattern. A URL is none, with these characters escaped.
            Location::Directory(path) if path.contains(['*', '?', '[']) => {
                let url = Location::Url("file".to_owned(), path.clone());
                url.escaped(|char| match char {
                    '%' | '*' | '?' | '[' | ']' | '#' => Some(format!("%{:02X}", u32::from(char))),
                    _ => None,
                })
            }
            other => other.escaped(|_| None),
        };
        DataFusion { location }
    }

    fn sql_type(column_type: ColumnType) -> &'static str {
        match column_type {
            ColumnType::Uuid | ColumnType::Text | ColumnType::Json => "VARCHAR",
            ColumnType::Integer | ColumnType::Unsigned => "BIGINT",
            ColumnType::Real => "DOUBLE",
            ColumnType::Boolean => "BOOLEAN",
            // Without its precision, a time is in nanoseconds, and ends in 2262.
            ColumnType::Time => "TIMESTAMP(3)",
            ColumnType::Day => "DATE",
        }
    }
}

impl Dialect for DataFusion {
    fn head(&self) -> String {
        "\
-- Views for DataFusion, tried with 55.0.0, over parquet objects. It reads JSON objects too, but a
-- payload that is an object cannot be read as text, and a damaged line is an error.
-- For s3:// register an object store with the bucket first. A location without a file gives no
-- rows, and a query with a condition on day opens only the files of these days. A time without a
-- precision would be in nanoseconds, which end in 2262.
"
        .to_owned()
    }

    fn table(&self, kind: Kind, fields: &[LineField]) -> Option<String> {
        let of_path = ["day DATE", "store VARCHAR"];
        let columns = columns("\"at\"", fields, DataFusion::sql_type, &of_path);
        let location = quoted(&format!("{}/kind={kind}/", self.location));
        Some(format!(
            "CREATE EXTERNAL TABLE {kind}_files (\n{columns}\n) STORED AS PARQUET PARTITIONED BY (day, store)\nLOCATION {location}"
        ))
    }

    fn lines(&self, kind: Kind, fields: &[LineField]) -> String {
        lines("\"at\"", fields, &format!("{kind}_files"))
    }
}
