//! The tables, made from the declaration of the records.

use std::fmt::Write as _;

use crate::record::Kind;
use crate::record::columns::{Column, ColumnType};

/// The kinds that have a table of their own. Rollups are in `daily_totals`.
pub(super) const KINDS: [Kind; 9] = [
    Kind::Conversations,
    Kind::Messages,
    Kind::ConversationTurns,
    Kind::ToolCalls,
    Kind::CodeEditProposals,
    Kind::Events,
    Kind::Inbox,
    Kind::History,
    Kind::ThoughtRecords,
];

/// The table with the sums of each day's messages.
pub(super) const TOTALS: &str = "daily_totals";

/// The fields of rollups that say which messages they count. A table of sums has no use for them.
const LEFT_OUT: [&str; 4] = [
    "through_seq",
    "part",
    "message_hashes",
    "conversation_hashes",
];

/// The tables that say what was copied.
pub(super) const OWN_TABLES: &str = "\
CREATE TABLE IF NOT EXISTS decklog_stores (
    store_id uuid PRIMARY KEY,
    last_seq bigint NOT NULL DEFAULT 0,
    shipped_at timestamptz
);
CREATE TABLE IF NOT EXISTS decklog_segments (
    store_id uuid NOT NULL,
    day date NOT NULL,
    kind text NOT NULL,
    number integer NOT NULL,
    bytes bigint NOT NULL,
    tail_crc bigint NOT NULL,
    seal text,
    rewritten boolean NOT NULL DEFAULT false,
    PRIMARY KEY (store_id, day, kind, number)
);
CREATE TABLE IF NOT EXISTS decklog_days (
    store_id uuid NOT NULL,
    day date NOT NULL,
    summed text NOT NULL,
    PRIMARY KEY (store_id, day)
);
";

/// A name as SQL has it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

pub(super) fn sql_type(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Uuid => "uuid",
        ColumnType::Text => "text",
        ColumnType::Integer | ColumnType::Unsigned => "bigint",
        ColumnType::Real => "double precision",
        ColumnType::Boolean => "boolean",
        ColumnType::Json => "jsonb",
        ColumnType::Time => "timestamptz",
        ColumnType::Day => "date",
    }
}

/// The columns of [`TOTALS`].
pub(super) fn totals_columns() -> Vec<Column> {
    let columns = Kind::Rollups.columns().iter();
    let columns = columns.filter(|column| !LEFT_OUT.contains(&column.name));
    columns.copied().collect()
}

/// Whether a later version of a record can have another own time.
pub(super) fn may_move(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ConversationTurns | Kind::ToolCalls | Kind::CodeEditProposals
    )
}

/// The names of the columns of a kind's key.
pub(super) fn key(kind: Kind) -> Vec<&'static str> {
    let columns = kind.columns().iter().filter(|column| column.is_key);
    columns.map(|column| column.name).collect()
}

/// The definition of a column, without its name.
pub(super) fn definition(column: &Column) -> String {
    let required = if column.is_required { " NOT NULL" } else { "" };
    format!("{}{required}", sql_type(column.column_type))
}

/// Creates a kind's table and its indexes.
pub(super) fn create_table(kind: Kind) -> String {
    let (table, time) = (kind.stem(), kind.time_column());
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS {} (\n    store_id uuid NOT NULL,\n    seq bigint NOT NULL,\n",
        quoted(table)
    );
    for column in kind.columns() {
        // Writing to a String cannot fail.
        let _ = writeln!(sql, "    {} {},", quoted(column.name), definition(column));
    }
    let key: Vec<String> = key(kind).into_iter().map(quoted).collect();
    let _ = write!(
        sql,
        "    PRIMARY KEY (store_id, {}, {time})\n) PARTITION BY RANGE ({time});\n",
        key.join(", "),
        time = quoted(time)
    );
    for (name, columns) in indexes(kind) {
        let columns: Vec<String> = columns.into_iter().map(quoted).collect();
        let _ = writeln!(
            sql,
            "CREATE INDEX IF NOT EXISTS {} ON {} ({});",
            quoted(&name),
            quoted(table),
            columns.join(", ")
        );
    }
    sql
}

/// The indexes of a kind: those of requirement and design, one for each lookup field, and one for
/// its own time.
fn indexes(kind: Kind) -> Vec<(String, Vec<&'static str>)> {
    let table = kind.stem();
    let time = kind.time_column();
    let mut indexes = Vec::new();
    for column in kind.columns().iter().filter(|column| column.is_lookup) {
        let (short, columns) = match (kind, column.name) {
            (Kind::Messages, "conversation_id") => {
                ("conversation", vec!["conversation_id", "sequence"])
            }
            // It comes second in the index before.
            (Kind::Messages, "sequence") => continue,
            (Kind::ToolCalls, "parent_id") => ("parent_id", vec!["parent_id", "started_at"]),
            (Kind::ConversationTurns, "thread_id") => {
                ("thread_id", vec!["thread_id", "created_at"])
            }
            (_, name) => (name, vec![name]),
        };
        indexes.push((format!("idx_{table}_{short}"), columns));
    }
    if matches!(
        kind,
        Kind::ToolCalls | Kind::CodeEditProposals | Kind::Inbox
    ) {
        indexes.push((format!("idx_{table}_status"), vec!["status"]));
    }
    let short = time.strip_suffix("_at").unwrap_or(time);
    indexes.push((format!("idx_{table}_{short}"), vec![time]));
    indexes
}

/// Creates [`TOTALS`].
pub(super) fn create_totals() -> String {
    let mut sql = format!("CREATE TABLE IF NOT EXISTS {TOTALS} (\n    store_id uuid NOT NULL");
    for column in totals_columns() {
        let name = quoted(column.name);
        let _ = write!(sql, ",\n    {name} {}", sql_type(column.column_type));
    }
    let _ = write!(
        sql,
        "\n);\nCREATE INDEX IF NOT EXISTS idx_{TOTALS}_day ON {TOTALS} (day, store_id);\n"
    );
    sql
}

/// The partition of a table for a day, `YYYY-MM-DD`.
pub(super) fn partition(kind: Kind, day: &str) -> String {
    format!("{}_{}", kind.stem(), day.replace('-', "_"))
}
