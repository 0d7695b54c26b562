//! The tables of an exported database.

use super::plan::first_columns;
use super::values::sql_type;
use crate::record::{Kind, columns::Column};

/// The columns with which the table of conversations begins.
const CONVERSATIONS: &[(&str, &str)] = &[
    ("id", "TEXT PRIMARY KEY"),
    ("created_at", "TIMESTAMP NOT NULL"),
    ("updated_at", "TIMESTAMP NOT NULL"),
    ("client", "TEXT NOT NULL"),
    ("workspace", "TEXT"),
    ("project", "TEXT"),
    ("user_id", "TEXT"),
    ("session_id", "TEXT"),
    ("message_count", "INTEGER DEFAULT 0"),
    ("total_tokens_in", "INTEGER DEFAULT 0"),
    ("total_tokens_out", "INTEGER DEFAULT 0"),
    ("total_latency_ms", "INTEGER DEFAULT 0"),
    ("status", "TEXT DEFAULT 'active'"),
    ("last_error", "TEXT"),
];

/// The columns with which the table of messages begins.
const MESSAGES: &[(&str, &str)] = &[
    ("id", "TEXT PRIMARY KEY"),
    ("conversation_id", "TEXT NOT NULL"),
    ("sequence", "INTEGER NOT NULL"),
    ("timestamp", "TIMESTAMP NOT NULL"),
    ("role", "TEXT NOT NULL"),
    ("source", "TEXT NOT NULL"),
    ("content", "TEXT NOT NULL"),
    ("content_type", "TEXT DEFAULT 'text'"),
    ("model_used", "TEXT"),
    ("config_used", "TEXT"),
    ("orchestration_mode", "TEXT"),
    ("models_in_chain", "TEXT"),
    ("tokens_in", "INTEGER"),
    ("tokens_out", "INTEGER"),
    ("latency_ms", "INTEGER"),
    ("context_utilization", "REAL"),
    ("task_type", "TEXT"),
    ("handoff_steps", "INTEGER"),
    ("compression_applied", "BOOLEAN"),
    ("error", "TEXT"),
    ("error_type", "TEXT"),
];

/// What makes an index unique.
pub(super) const UNIQUE: &str = "UNIQUE ";

/// The table of a kind.
#[derive(Debug)]
pub(super) struct TableDdl {
    pub kind: Kind,
    /// Each column with what defines it.
    columns: Vec<(&'static str, String)>,
    /// The constraints after the columns.
    constraints: Vec<String>,
}

impl TableDdl {
    pub(super) fn of(kind: Kind) -> TableDdl {
        let required = match kind {
            Kind::Conversations => CONVERSATIONS,
            Kind::Messages => MESSAGES,
            _ => &[],
        };
        let is_new = |name: &str| required.iter().all(|(known, _)| *known != name);
        let keys: Vec<&str> = kind
            .columns()
            .iter()
            .filter(|it| it.is_key)
            .map(|it| it.name)
            .collect();
        let is_key = |column: &Column| keys == [column.name] && kind != Kind::Rollups;
        let fields = kind.columns().iter().filter(|column| is_new(column.name));
        let fields = fields.map(|column| {
            let mut definition = sql_type(column.column_type).to_owned();
            if is_key(column) {
                definition.push_str(" PRIMARY KEY");
            } else if column.is_required {
                definition.push_str(" NOT NULL");
            }
            (column.name, definition)
        });
        let first = first_columns(kind).iter();
        let first = first.map(|(name, sql_type)| (*name, format!("{sql_type} NOT NULL")));
        let required_columns = required.iter().map(|(name, it)| (*name, (*it).to_owned()));
        let columns = if required.is_empty() {
            first.chain(fields).collect()
        } else {
            required_columns.chain(fields).chain(first).collect()
        };
        let mut constraints = Vec::new();
        if keys.len() > 1 {
            constraints.push(format!("PRIMARY KEY ({})", keys.join(", ")));
        }
        if kind == Kind::Messages {
            let reference = "FOREIGN KEY (conversation_id) REFERENCES conversations(id)";
            constraints.push(reference.to_owned());
        }
        TableDdl {
            kind,
            columns,
            constraints,
        }
    }

    /// The names of its columns, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|(name, _)| *name)
    }

    /// The statement that creates it.
    pub(super) fn create(&self) -> String {
        let columns = self.columns.iter();
        let columns = columns.map(|(name, definition)| format!("    {name} {definition}"));
        let constraints = self.constraints.iter().map(|it| format!("    {it}"));
        let parts: Vec<String> = columns.chain(constraints).collect();
        format!(
            "CREATE TABLE {} (\n{}\n)",
            self.kind.stem(),
            parts.join(",\n")
        )
    }

    /// The statement that inserts a row, in place of an earlier version of the record.
    pub(super) fn insert(&self) -> String {
        let names: Vec<&str> = self.names().collect();
        let places = vec!["?"; names.len()].join(", ");
        let stem = self.kind.stem();
        format!(
            "INSERT OR REPLACE INTO {stem} ({}) VALUES ({places})",
            names.join(", ")
        )
    }

    /// The statement that makes the key of a kind unique whose table cannot say it.
    pub(super) fn unique_key(&self) -> Option<&'static str> {
        (self.kind == Kind::Rollups).then_some(
            "CREATE UNIQUE INDEX idx_rollups_key ON rollups(day, ifnull(model_used, ''), \
             ifnull(config_used, ''), ifnull(orchestration_mode, ''), ifnull(task_type, ''), part)",
        )
    }

    /// The statements that create its indexes: on its own time and on the fields by which its
    /// records are found. Those of the log's rules are unique.
    pub(super) fn indexes(&self) -> Vec<String> {
        let kind = self.kind;
        let lookups = kind.columns().iter().filter(|column| column.is_lookup);
        let fields = lookups.map(|column| column.name);
        let fields = fields.filter(|name| !(kind == Kind::Messages && *name == "sequence"));
        let times = std::iter::once(kind.time_column());
        let status = kind
            .columns()
            .iter()
            .map(|it| it.name)
            .filter(|it| *it == "status");
        let mut all: Vec<String> = fields
            .chain(times)
            .chain(status)
            .map(|field| {
                let name = match (kind, field) {
                    (Kind::Messages, "conversation_id") => "conversation",
                    (Kind::Conversations, "created_at") => "created",
                    _ => field,
                };
                let is_unique = matches!(
                    (kind, field),
                    (Kind::Inbox, "update_id") | (Kind::ThoughtRecords, "hash")
                );
                let unique = if is_unique { UNIQUE } else { "" };
                let stem = kind.stem();
                format!("CREATE {unique}INDEX idx_{stem}_{name} ON {stem}({field})")
            })
            .collect();
        if kind == Kind::Messages {
            all.push(format!(
                "CREATE {UNIQUE}INDEX idx_messages_sequence ON messages(conversation_id, sequence)"
            ));
        }
        all
    }
}
