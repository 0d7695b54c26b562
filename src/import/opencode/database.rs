//! The database of opencode.
//!
//! What changed since an earlier import is found by the rows: messages and parts that are new have
//! higher row numbers than all before. Of the older ones only those change that were not over; the
//! cursor names their sessions.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::ToSql;
use serde::{Deserialize, Serialize};

use super::session::{Item, Session};
use crate::import::agent::Whole;
use crate::import::database::{Database, number, text};
use crate::import::facts::Facts;

/// How far the database was read.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Mark {
    message: Option<Last>,
    part: Option<Last>,
    /// When the latest session was updated.
    updated: i64,
    /// The sessions of which something still changes.
    open: BTreeSet<String>,
}

/// The last row of a table. If it is another one now, rows were removed or numbered anew.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Last {
    row: i64,
    id: String,
}

impl Last {
    fn of(database: &Database, table: &str) -> Result<Option<Last>, String> {
        let query = format!("SELECT rowid AS row, id FROM {table} ORDER BY rowid DESC LIMIT 1");
        let rows = database.rows(&query, &[], |row| {
            Some(Last {
                row: number(row, "row")?,
                id: text(row, "id")?,
            })
        })?;
        Ok(rows.into_iter().flatten().next())
    }

    fn is_there(&self, database: &Database, table: &str) -> Result<bool, String> {
        let query = format!("SELECT 1 FROM {table} WHERE rowid = ?1 AND id = ?2");
        Ok(!database
            .rows(&query, &[&self.row, &self.id], |_| ())?
            .is_empty())
    }
}

impl Mark {
    /// The sessions that have changed since; `None` if that cannot be told.
    fn changed(&self, database: &Database) -> Result<Option<BTreeSet<String>>, String> {
        let mut changed = self.open.clone();
        for (table, last) in [("message", &self.message), ("part", &self.part)] {
            let row = match last {
                Some(last) if !last.is_there(database, table)? => return Ok(None),
                Some(last) => last.row,
                None => i64::MIN,
            };
            let query = format!("SELECT DISTINCT session_id FROM {table} WHERE rowid > ?1");
            let ids = database.rows(&query, &[&row], |row| text(row, "session_id"))?;
            changed.extend(ids.into_iter().flatten());
        }
        Ok(Some(changed))
    }
}

pub(super) fn read(whole: &mut Whole<'_, '_>) -> Result<(), String> {
    let database = Database::open(whole.path)?;
    if !database.has_table("session")? || !database.has_table("part")? {
        return Err("not a database of opencode: it has no table of sessions".to_owned());
    }
    let before = whole.cursor.take();
    let known: Option<Mark> = before
        .as_deref()
        .and_then(|cursor| serde_json::from_str(cursor).ok());
    let changed = match &known {
        Some(known) => known.changed(&database)?,
        None => None,
    };
    let mut mark = Mark {
        message: Last::of(&database, "message")?,
        part: Last::of(&database, "part")?,
        ..Mark::default()
    };
    let mut line = 0;
    let query = "SELECT * FROM session ORDER BY time_created, id";
    let sessions = database.rows(query, &[], |row| {
        let session = Session {
            id: text(row, "id").unwrap_or_default(),
            parent: text(row, "parent_id").filter(|parent| !parent.is_empty()),
            directory: text(row, "directory"),
            title: text(row, "title"),
            messages: Vec::new(),
        };
        (session, number(row, "time_updated").unwrap_or(0))
    })?;
    for (mut session, updated) in sessions {
        mark.updated = mark.updated.max(updated);
        let is_changed = |changed: &BTreeSet<String>| changed.contains(&session.id);
        if !changed.as_ref().is_none_or(is_changed) {
            if known.as_ref().is_none_or(|known| updated >= known.updated) {
                line += 1;
                let headings = session.heading(&session.thread()).into_iter().collect();
                let facts = Facts {
                    headings,
                    ..Facts::default()
                };
                whole.take(line, vec![facts]);
            }
            continue;
        }
        session.messages = messages(&database, &session.id)?;
        if database.has_changed() {
            whole.unfinished();
            whole.cursor = before;
            return Ok(());
        }
        if !session.hand_over(whole, &mut line) {
            mark.open.insert(session.id);
        }
        if whole.is_stopped() {
            return Ok(());
        }
    }
    others(&database, whole, line + 1)?;
    whole.cursor = serde_json::to_string(&mark).ok();
    Ok(())
}

fn messages(database: &Database, session: &str) -> Result<Vec<Item>, String> {
    let of: [&dyn ToSql; 1] = [&session];
    let mut parts: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut touched: BTreeMap<String, i64> = BTreeMap::new();
    let query = "SELECT * FROM part WHERE session_id = ?1 ORDER BY id";
    database.rows(query, &of, |row| {
        let message = text(row, "message_id").unwrap_or_default();
        let at = number(row, "time_updated").unwrap_or(i64::MAX);
        let latest = touched.entry(message.clone()).or_insert(at);
        *latest = at.max(*latest);
        let part = (
            text(row, "id").unwrap_or_default(),
            text(row, "data").unwrap_or_default(),
        );
        parts.entry(message).or_default().push(part);
    })?;
    let query = "SELECT * FROM message WHERE session_id = ?1 ORDER BY time_created, id";
    database.rows(query, &of, |row| {
        let id = text(row, "id").unwrap_or_default();
        let at = number(row, "time_updated").unwrap_or(i64::MAX);
        Item {
            json: text(row, "data").unwrap_or_default(),
            touched: Some(touched.get(&id).map_or(at, |part| at.max(*part))),
            parts: parts.remove(&id).unwrap_or_default(),
            id,
        }
    })
}

/// Counts the messages of sessions that have only those of a newer form, which is not understood.
fn others(database: &Database, whole: &mut Whole<'_, '_>, line: u64) -> Result<(), String> {
    if !database.has_table("session_message")? {
        return Ok(());
    }
    let query = "SELECT type, count(*) AS n FROM session_message \
                 WHERE session_id NOT IN (SELECT session_id FROM message) GROUP BY type";
    let kinds = database.rows(query, &[], |row| (text(row, "type"), number(row, "n")))?;
    for (kind, n) in kinds {
        let what = format!("session_message.{}", kind.unwrap_or_default());
        let mut facts = Facts::default();
        let n = n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        facts.not_understood.insert(what, n);
        whole.take(line, vec![facts]);
    }
    Ok(())
}
