//! SQLite as a careful user has it: WAL, prepared statements that are kept, keys and indexes for
//! what is asked, answers in the same types as decklog's.

use std::path::Path;
use std::time::Duration;

use decklog::record::ToolCall;
use decklog::{ToolCallDone, ToolCallReq, ToolStatus, Validity};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

/// `PRAGMA synchronous`: what a commit waits for.
#[derive(Clone, Copy)]
pub enum Synchronous {
    /// The operating system.
    Normal,
    /// The disk.
    Full,
}

/// A connection, also one of many: it waits for its turn, and has a page cache of 64 MB.
///
/// That and a table with rowids are what served SQLite best with 200,000 lines. Tried as well, as
/// its rate over that of decklog in the same rounds, relative to what is here (get by key, list
/// of 5 calls, list of 20): a cache of 2 MB, the default, 1.1, 0.7, 0.7; of 512 MB 1.2, 0.9, 0.7;
/// `mmap_size` of 1 GB 1.0, 0.9, 1.0; pages of 16 KB 1.0, 0.9, 0.7. `WITHOUT ROWID` took twice
/// the disk, since rows of more than a quarter of a page spill over: 0.5, 0.3, 0.2, and a third
/// of the rate in batches.
pub fn connect(path: &Path, synchronous: Synchronous) -> Connection {
    let db = Connection::open(path).expect("a database");
    db.busy_timeout(Duration::from_secs(60)).expect("set");
    let level = match synchronous {
        Synchronous::Normal => "NORMAL",
        Synchronous::Full => "FULL",
    };
    db.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {level}; PRAGMA cache_size = -64000;"
    ))
    .expect("set");
    db
}

/// A new database for tool calls.
pub fn calls(path: &Path, synchronous: Synchronous) -> Connection {
    let db = connect(path, synchronous);
    db.execute_batch(
        "CREATE TABLE tool_calls (
            request_id BLOB NOT NULL, call_id TEXT NOT NULL, parent_id BLOB NOT NULL,
            vendor TEXT NOT NULL, tool_name TEXT NOT NULL, args_sha256 TEXT NOT NULL,
            arguments_json TEXT, started_at INTEGER NOT NULL, status TEXT NOT NULL,
            ended_at INTEGER, latency_ms INTEGER, outcome_json TEXT, error_kind TEXT, error_msg TEXT,
            PRIMARY KEY (request_id, call_id));
         CREATE INDEX by_parent ON tool_calls (parent_id, started_at);
         CREATE INDEX by_status ON tool_calls (status);",
    )
    .expect("a schema");
    db
}

/// Work in one transaction.
pub fn transaction(db: &Connection, work: impl FnOnce()) {
    db.execute_batch("BEGIN IMMEDIATE").expect("begun");
    work();
    db.execute_batch("COMMIT").expect("committed");
}

/// Moves what the log ahead has into the file itself.
pub fn checkpoint(db: &Connection) {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("a checkpoint");
}

pub fn insert(db: &Connection, request: &ToolCallReq) {
    db.prepare_cached(
        "INSERT INTO tool_calls (request_id, call_id, parent_id, vendor, tool_name, args_sha256,
            arguments_json, started_at, status) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,'requested')
         ON CONFLICT DO NOTHING",
    )
    .and_then(|mut statement| {
        statement.execute(params![
            request.request_id.as_bytes(),
            request.call_id,
            request.parent_id.as_bytes(),
            request.vendor,
            request.tool_name,
            request.args_sha256,
            request.arguments_json,
            request.started_at.at
        ])
    })
    .expect("inserted");
}

pub fn update(db: &Connection, outcome: &ToolCallDone) {
    db.prepare_cached(
        "UPDATE tool_calls SET status = ?3, ended_at = ?4, latency_ms = ?5, outcome_json = ?6,
            error_kind = ?7, error_msg = ?8
         WHERE request_id = ?1 AND call_id = ?2 AND status = 'requested'",
    )
    .and_then(|mut statement| {
        statement.execute(params![
            outcome.request_id.as_bytes(),
            outcome.call_id,
            outcome.status.as_str(),
            outcome.ended_at.at,
            outcome.latency_ms,
            outcome.outcome_json,
            outcome.error_kind,
            outcome.error_msg
        ])
    })
    .expect("updated");
}

/// The calls for which something holds, as [`tool_call`] reads them.
macro_rules! select {
    ($what:literal) => {
        concat!(
            "SELECT request_id, call_id, parent_id, vendor, tool_name, args_sha256,
                arguments_json, started_at, status, ended_at, latency_ms, outcome_json,
                error_kind, error_msg
             FROM tool_calls WHERE ",
            $what
        )
    };
}

pub fn get(db: &Connection, request_id: Uuid, call_id: &str) -> ToolCall {
    let sql = select!("request_id = ?1 AND call_id = ?2");
    let mut statement = db.prepare_cached(sql).expect("prepared");
    let key = params![request_id.as_bytes(), call_id];
    statement.query_row(key, tool_call).expect("there")
}

pub fn list(db: &Connection, parent_id: Uuid, limit: usize) -> Vec<ToolCall> {
    let sql = select!("parent_id = ?1 ORDER BY started_at DESC LIMIT ?2");
    let mut statement = db.prepare_cached(sql).expect("prepared");
    let wanted = params![parent_id.as_bytes(), limit as u32];
    let rows = statement.query_map(wanted, tool_call).expect("asked");
    rows.collect::<Result<_, _>>().expect("read")
}

fn tool_call(row: &Row<'_>) -> rusqlite::Result<ToolCall> {
    let (request_id, call_id): (Uuid, String) = (uuid(row, 0)?, row.get(1)?);
    let outcome = match row.get_ref(8)?.as_str()? {
        "requested" => None,
        status => Some(ToolCallDone {
            request_id,
            call_id: call_id.clone(),
            ended_at: Validity::at(row.get(9)?),
            latency_ms: row.get(10)?,
            outcome_json: row.get(11)?,
            error_kind: row.get(12)?,
            error_msg: row.get(13)?,
            status: if status == "completed" {
                ToolStatus::Completed
            } else {
                ToolStatus::Failed
            },
        }),
    };
    let request = ToolCallReq {
        request_id,
        call_id,
        parent_id: uuid(row, 2)?,
        vendor: row.get(3)?,
        tool_name: row.get(4)?,
        args_sha256: row.get(5)?,
        arguments_json: row.get(6)?,
        started_at: Validity::at(row.get(7)?),
    };
    Ok((request, outcome))
}

/// A column that holds a UUID.
pub fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}
