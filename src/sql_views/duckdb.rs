//! DuckDB.

use super::fields::{LineField, listed};
use super::location::{Location, quoted};
use super::{Dialect, ObjectFormat, select};
use crate::record::Kind;
use crate::record::columns::ColumnType;

pub(super) struct DuckDb {
    format: ObjectFormat,
    /// A literal with the pattern of all objects. Without a file of its pattern, a view is an
    /// error before DuckDB 2.0, so it is not that of one kind.
    objects: String,
}

impl DuckDb {
    pub(super) fn new(format: ObjectFormat, location: &Location) -> DuckDb {
        let location = location.escaped(|char| match char {
            '*' | '?' | '[' => Some(format!("[{char}]")),
            _ => None,
        });
        let pattern = format!("{location}/kind=*/*/*/*.{}", format.extension());
        DuckDb {
            format,
            objects: quoted(&pattern),
        }
    }

    fn json(&self, fields: &[LineField]) -> String {
        let envelope = ["seq: 'BIGINT'", "\"at\": 'BIGINT'", "op: 'VARCHAR'"].map(str::to_owned);
        let columns = fields.iter().map(|field| {
            let in_lines = match field.column_type {
                ColumnType::Time if field.is_rfc3339() => "VARCHAR",
                ColumnType::Time => "BIGINT",
                ColumnType::Json => "JSON",
                other => sql_type(other),
            };
            format!("{}: '{in_lines}'", field.name)
        });
        format!(
            "\
read_json({objects}, format = 'newline_delimited',
    compression = 'zstd', ignore_errors = true, filename = true, hive_partitioning = false,
    maximum_object_size = 16777216, columns = {{
{columns}
    }})",
            objects = self.objects,
            columns = listed(envelope.into_iter().chain(columns), 8)
        )
    }

    fn parquet(&self, fields: &[LineField]) -> String {
        let envelope = [("seq", "BIGINT"), ("at", "TIMESTAMPTZ"), ("op", "VARCHAR")].into_iter();
        let of_fields = fields.iter().map(|field| {
            let in_file = match field.column_type {
                ColumnType::Time => "TIMESTAMPTZ",
                other => sql_type(other),
            };
            (field.name_in_parquet(), in_file)
        });
        // Also a field that older objects do not have.
        let columns = envelope.chain(of_fields).map(|(name, in_file)| {
            format!("        '{name}': {{name: '{name}', type: '{in_file}', default_value: NULL}}")
        });
        format!(
            "\
read_parquet({objects}, filename = true, hive_partitioning = false, schema = MAP {{
{columns}
    }})",
            objects = self.objects,
            columns = columns.collect::<Vec<_>>().join(",\n")
        )
    }
}

impl Dialect for DuckDb {
    fn head(&self) -> String {
        let format = self.format;
        let why = match format {
            ObjectFormat::Jsonl => "as the lines of turns have a field named kind",
            ObjectFormat::Parquet => "as before 2.0 it cannot be combined with a schema",
        };
        format!(
            "\
-- Views for DuckDB, tried with 2.0.1 and 1.5.5, over {format} objects.
-- For s3:// run INSTALL httpfs, LOAD httpfs and CREATE SECRET first.
-- A query with a condition on day opens only the files of these days; it lists all files. A pattern
-- without a file is an error before 2.0, so each view lists the files of all kinds and opens those
-- of its own. hive_partitioning is off, {why}.
SET TimeZone = 'UTC';
"
        )
    }

    fn lines(&self, kind: Kind, fields: &[LineField]) -> String {
        let (source, at) = match self.format {
            ObjectFormat::Jsonl => (self.json(fields), "make_timestamp_ms(\"at\")"),
            ObjectFormat::Parquet => (self.parquet(fields), "CAST(\"at\" AS TIMESTAMP)"),
        };
        let value = |field: &LineField| match (self.format, field.column_type) {
            (ObjectFormat::Parquet, ColumnType::Time) => {
                format!("CAST({} AS TIMESTAMP)", field.name)
            }
            (ObjectFormat::Parquet, _) => field.name_in_parquet().to_owned(),
            (_, ColumnType::Time) if field.is_rfc3339() => format!(
                "CAST(TRY_CAST(upper({}) AS TIMESTAMPTZ) AS TIMESTAMP)",
                field.name
            ),
            (_, ColumnType::Time) => format!("make_timestamp_ms({})", field.name),
            (_, ColumnType::Json) => format!("CAST({} AS VARCHAR)", field.name),
            _ => field.name.to_owned(),
        };
        let of_path = [
            "regexp_extract(filename, '.*/store=([^/]+)/', 1) AS store_id",
            "CAST(regexp_extract(filename, '.*/day=([^/]+)/', 1) AS DATE) AS day",
        ];
        let source = format!(
            "{source}\nWHERE regexp_extract(filename, '.*/kind=([^/]+)/', 1) = '{kind}' AND seq IS NOT NULL"
        );
        select(of_path, at, fields, value, &source)
    }
}

fn sql_type(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Uuid | ColumnType::Text | ColumnType::Json => "VARCHAR",
        ColumnType::Integer | ColumnType::Unsigned => "BIGINT",
        ColumnType::Real => "DOUBLE",
        ColumnType::Boolean => "BOOLEAN",
        ColumnType::Time => "TIMESTAMP",
        ColumnType::Day => "DATE",
    }
}
