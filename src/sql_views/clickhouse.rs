//! ClickHouse.

use super::fields::{LineField, listed};
use super::location::{Location, backslashed};
use super::{Dialect, ObjectFormat, select};
use crate::error::{Error, Result};
use crate::record::Kind;
use crate::record::columns::ColumnType;

pub(super) struct ClickHouse {
    format: ObjectFormat,
    /// The table function.
    function: &'static str,
    location: String,
}

impl ClickHouse {
    pub(super) fn new(format: ObjectFormat, location: &Location) -> Result<ClickHouse> {
        let function = match location {
            Location::Directory(_) => "file",
            Location::Url(scheme, _) => match scheme.as_str() {
                "s3" | "gs" | "http" | "https" => "s3",
                _ => {
                    return Err(Error::invalid(format!(
                        "clickhouse reads no {scheme}:// by its URL alone: give s3://, gs:// or https://"
                    )));
                }
            },
        };
        let location = location.escaped(|_| None);
        // It has no escapes in patterns.
        if location.contains(['*', '?', '{', '}']) || location.contains("::") {
            let problem = "clickhouse takes as a pattern: it must be without *, ?, { and ::";
            return Err(Error::invalid(format!(
                "the location {location:?} {problem}"
            )));
        }
        Ok(ClickHouse {
            format,
            function,
            location,
        })
    }

    fn type_in_file(&self, field: &LineField) -> &'static str {
        match (field.column_type, self.format) {
            (ColumnType::Uuid | ColumnType::Text | ColumnType::Json, _) => "String",
            (ColumnType::Time, ObjectFormat::Jsonl) if field.is_rfc3339() => "String",
            (ColumnType::Integer | ColumnType::Unsigned, _)
            | (ColumnType::Time, ObjectFormat::Jsonl) => "Int64",
            // Quoted once more, as the columns are in a literal.
            (ColumnType::Time, ObjectFormat::Parquet) => "DateTime64(3, ''UTC'')",
            (ColumnType::Real, _) => "Float64",
            (ColumnType::Boolean, _) => "Bool",
            (ColumnType::Day, _) => "Date32",
        }
    }
}

impl Dialect for ClickHouse {
    fn head(&self) -> String {
        let format = self.format;
        let place = if self.function == "s3" {
            "-- Give s3() the KEY and the SECRET after the URL, unless the server has its own.\n"
        } else {
            "-- A server reads files only below its user_files_path.\n"
        };
        let of_json = match format {
            ObjectFormat::Jsonl => {
                "\
-- use_hive_partitioning is off, as the lines of turns have a field named kind. A payload that is a
-- JSON string is read without its quotes.
"
            }
            ObjectFormat::Parquet => "",
        };
        format!(
            "\
-- Views for ClickHouse, tried with 26.9 (chdb 4.4.0), over {format} objects.
{place}-- A pattern without a file gives no rows, and a query with a condition on day opens only the files
-- of these days.
{of_json}SET join_use_nulls = 1;
"
        )
    }

    fn lines(&self, kind: Kind, fields: &[LineField]) -> String {
        let at_type = match self.format {
            ObjectFormat::Jsonl => "Int64",
            ObjectFormat::Parquet => "DateTime64(3, ''UTC'')",
        };
        let envelope = ["seq Int64", &format!("\"at\" {at_type}"), "op String"].map(str::to_owned);
        let columns = fields.iter().map(|field| {
            let name = match self.format {
                ObjectFormat::Jsonl => field.name,
                ObjectFormat::Parquet => field.name_in_parquet(),
            };
            format!("{name} Nullable({})", self.type_in_file(field))
        });
        let columns = listed(envelope.into_iter().chain(columns), 8);
        let pattern = format!(
            "{}/kind={kind}/*/*/*.{}",
            self.location,
            self.format.extension()
        );
        let (form, more, settings) = match self.format {
            ObjectFormat::Jsonl => (
                "JSONEachRow",
                ", 'zstd'",
                "use_hive_partitioning = 0, input_format_json_read_objects_as_strings = 1,\n    input_format_json_read_arrays_as_strings = 1, input_format_allow_errors_ratio = 1",
            ),
            ObjectFormat::Parquet => (
                "Parquet",
                "",
                "use_hive_partitioning = 0, input_format_parquet_allow_missing_columns = 1",
            ),
        };
        let source = format!(
            "\
{function}({pattern}, '{form}', '
{columns}
    '{more})
WHERE seq > 0
SETTINGS {settings}",
            function = self.function,
            pattern = backslashed(&pattern),
        );
        let value = |field: &LineField| match (self.format, field.column_type) {
            (ObjectFormat::Parquet, _) => field.name_in_parquet().to_owned(),
            (_, ColumnType::Time) if field.is_rfc3339() => format!(
                "parseDateTime64BestEffortOrNull(upper({}), 3, 'UTC')",
                field.name
            ),
            (_, ColumnType::Time) => format!("fromUnixTimestamp64Milli({}, 'UTC')", field.name),
            _ => field.name.to_owned(),
        };
        let at = match self.format {
            ObjectFormat::Jsonl => "fromUnixTimestamp64Milli(\"at\", 'UTC')",
            ObjectFormat::Parquet => "\"at\"",
        };
        let of_path = [
            "extract(_path, '.*/store=([^/]+)/') AS store_id",
            "toDate32(extract(_path, '.*/day=([^/]+)/')) AS day",
        ];
        select(of_path, at, fields, value, &source)
    }
}
