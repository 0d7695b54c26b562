//! Turns, events and chats in SQLite, each found by an index of its own.

use decklog::{ConversationTurn, Event, HistoryEntry, Validity};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::sqlite::uuid;

pub const SCHEMA: &str = "
    CREATE TABLE turns (
        id BLOB PRIMARY KEY, parent_id BLOB, message_id BLOB NOT NULL, kind TEXT NOT NULL,
        content TEXT NOT NULL, created_at INTEGER NOT NULL, thread_id BLOB);
    CREATE INDEX turns_by_time ON turns (created_at);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY, parent_id INTEGER, event_type TEXT NOT NULL,
        created_at INTEGER NOT NULL, payload TEXT);
    CREATE INDEX events_by_parent ON events (parent_id);
    CREATE TABLE history (
        id INTEGER PRIMARY KEY, chat_id INTEGER NOT NULL, role TEXT NOT NULL,
        created_at INTEGER NOT NULL, content TEXT NOT NULL);
    CREATE INDEX history_by_chat ON history (chat_id, id);";

pub fn insert_turn(db: &Connection, turn: &ConversationTurn) {
    db.prepare_cached("INSERT INTO turns VALUES (?1,?2,?3,?4,?5,?6,?7)")
        .and_then(|mut statement| {
            statement.execute(params![
                turn.id.as_bytes(),
                turn.parent_id.map(Uuid::into_bytes),
                turn.message_id.as_bytes(),
                turn.kind.as_str(),
                turn.content,
                turn.created_at.at,
                turn.thread_id.map(Uuid::into_bytes)
            ])
        })
        .expect("inserted");
}

pub fn insert_event(db: &Connection, event: &Event) {
    db.prepare_cached("INSERT INTO events VALUES (?1,?2,?3,?4,?5)")
        .and_then(|mut statement| {
            statement.execute(params![
                event.id,
                event.parent_id,
                event.event_type,
                event.created_at,
                event.payload
            ])
        })
        .expect("inserted");
}

pub fn insert_entry(db: &Connection, entry: &HistoryEntry) {
    db.prepare_cached(
        "INSERT INTO history (chat_id, role, created_at, content) VALUES (?1,?2,?3,?4)",
    )
    .and_then(|mut statement| {
        statement.execute(params![
            entry.chat_id,
            entry.role.as_str(),
            entry.created_at,
            entry.text
        ])
    })
    .expect("inserted");
}

pub fn turns_since(db: &Connection, since: i64, limit: usize) -> Vec<ConversationTurn> {
    let sql = "SELECT id, parent_id, message_id, kind, content, created_at, thread_id FROM turns
         WHERE created_at >= ?1 ORDER BY created_at LIMIT ?2";
    let mut statement = db.prepare_cached(sql).expect("prepared");
    let turn = |row: &rusqlite::Row<'_>| {
        let optional = |column| -> rusqlite::Result<Option<Uuid>> {
            let bytes: Option<[u8; 16]> = row.get(column)?;
            Ok(bytes.map(Uuid::from_bytes))
        };
        Ok(ConversationTurn {
            id: uuid(row, 0)?,
            parent_id: optional(1)?,
            message_id: uuid(row, 2)?,
            kind: row.get_ref(3)?.as_str()?.parse().expect("a kind"),
            content: row.get(4)?,
            created_at: Validity::at(row.get(5)?),
            thread_id: optional(6)?,
        })
    };
    let rows = statement.query_map(params![since, limit as u32], turn);
    let rows = rows.expect("asked");
    rows.collect::<Result<_, _>>().expect("read")
}

/// An event and what is under it, with depths.
pub fn tree(db: &Connection, root: i64) -> Vec<(i64, Event)> {
    // Columns that go through the recursion instead make it half as fast.
    let sql = "WITH RECURSIVE tree (id, depth) AS (
            SELECT ?1, 0
            UNION ALL
            SELECT e.id, depth + 1 FROM tree JOIN events e ON e.parent_id = tree.id)
         SELECT e.id, e.parent_id, e.event_type, e.created_at, e.payload, depth
         FROM tree JOIN events e ON e.id = tree.id";
    let mut statement = db.prepare_cached(sql).expect("prepared");
    let node = |row: &rusqlite::Row<'_>| {
        let mut event = Event::new(row.get(1)?, row.get::<_, String>(2)?)
            .id(row.get(0)?)
            .created_at(row.get(3)?);
        event.payload = row.get(4)?;
        Ok((row.get(5)?, event))
    };
    let rows = statement.query_map([root], node).expect("asked");
    rows.collect::<Result<_, _>>().expect("read")
}

/// The last entries of a chat, the earliest first.
pub fn last_of_chat(db: &Connection, chat_id: i64, limit: usize) -> Vec<HistoryEntry> {
    let sql = "SELECT id, chat_id, role, created_at, content FROM history
         WHERE chat_id = ?1 ORDER BY id DESC LIMIT ?2";
    let mut statement = db.prepare_cached(sql).expect("prepared");
    let entry = |row: &rusqlite::Row<'_>| {
        let role = row.get_ref(2)?.as_str()?.parse().expect("a role");
        let entry = HistoryEntry::new(row.get(1)?, role, row.get::<_, String>(4)?);
        Ok(entry.id(row.get(0)?).created_at(row.get(3)?))
    };
    let rows = statement.query_map(params![chat_id, limit as u32], entry);
    let rows = rows.expect("asked");
    let mut entries: Vec<_> = rows.collect::<Result<_, _>>().expect("read");
    entries.reverse();
    entries
}
