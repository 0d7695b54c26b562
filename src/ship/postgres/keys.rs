//! A temporary table of keys, to delete rows by.

use uuid::Uuid;

use super::binary::Rows;
use super::schema::{self, quoted};
use crate::record::Kind;
use crate::record::columns::{Cell, ColumnType};

/// The temporary table `decklog_keys`: the columns of a kind's key, and the time of a line.
pub(super) struct Stage {
    pub create: String,
    pub copy: String,
    /// The columns of the key, quoted, with their types.
    columns: Vec<(String, ColumnType)>,
}

impl Stage {
    pub(super) fn of_keys(kind: Kind) -> Stage {
        let columns = kind.columns().iter().filter(|column| column.is_key);
        let columns: Vec<(String, ColumnType)> = columns
            .map(|column| (quoted(column.name), column.column_type))
            .collect();
        let defined = columns
            .iter()
            .map(|(name, column_type)| format!("{name} {}", schema::sql_type(*column_type)));
        let defined: Vec<String> = defined.collect();
        let names: Vec<&str> = columns.iter().map(|(name, _)| &**name).collect();
        Stage {
            create: format!(
                "CREATE TEMP TABLE decklog_keys ({}, at timestamptz) ON COMMIT DROP",
                defined.join(", ")
            ),
            copy: format!(
                "COPY decklog_keys ({}, at) FROM STDIN (FORMAT binary)",
                names.join(", ")
            ),
            columns,
        }
    }

    /// The condition that a row `t` has the key `k`.
    pub(super) fn is_same(&self) -> String {
        let same = self.columns.iter();
        let same = same.map(|(name, _)| format!("k.{name} = t.{name}"));
        same.collect::<Vec<_>>().join(" AND ")
    }

    /// Keys, with a time in epoch milliseconds, as rows. A key that is not of its type has no row
    /// anywhere.
    pub(super) fn rows<'a>(
        &self,
        keys: impl IntoIterator<Item = (&'a [String; 2], Option<i64>)>,
    ) -> Rows {
        let mut rows = Rows::new();
        for (key, at) in keys {
            let parts = key.iter().zip(&self.columns);
            let parts = parts.map(|(text, (_, column_type))| match column_type {
                ColumnType::Uuid => Uuid::try_parse(text).ok().map(Cell::Uuid),
                ColumnType::Integer => text.parse().ok().map(Cell::Integer),
                _ => Some(Cell::Text(text.clone())),
            });
            let Some(parts) = parts.collect::<Option<Vec<Cell>>>() else {
                continue;
            };
            rows.begin(parts.len() + 1);
            for part in &parts {
                rows.cell(part);
            }
            let at = at.map(|ms| Cell::Time(ms.saturating_mul(1_000)));
            rows.cell(&at.unwrap_or(Cell::Null));
        }
        rows
    }
}
