//! The database of Zed's threads.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use rusqlite::Row;
use serde::{Deserialize, Serialize};

use super::FORMAT;
use super::thread::{Reader, Saved};
use crate::import::agent::Whole;
use crate::import::database::{Database, bytes, text};
use crate::import::heading::Origin;
use crate::import::ids::foreign_id;
use crate::import::step::Thread;

/// Maximum size in bytes of a thread.
const THREAD_BYTES_MAX: u64 = 1 << 30;

/// How far the database was read.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Mark {
    /// When each thread was updated. A thread may be written after one that was updated later.
    threads: BTreeMap<String, String>,
    /// The threads of which something still changes.
    open: BTreeSet<String>,
}

struct Stored {
    id: String,
    title: Option<String>,
    updated: String,
    created: Option<String>,
    parent: Option<String>,
    folders: Option<String>,
}

pub(super) fn read(whole: &mut Whole<'_, '_>) -> Result<(), String> {
    let database = Database::open(whole.path)?;
    if !database.has_table("threads")? {
        return Err("not a database of Zed: it has no table of threads".to_owned());
    }
    let before = whole.cursor.take();
    let known: Option<Mark> = before
        .as_deref()
        .and_then(|cursor| serde_json::from_str(cursor).ok());
    let known = known.unwrap_or_default();
    let mut mark = Mark::default();
    // The data is large.
    let columns = columns(&database)?;
    let query = format!("SELECT {columns} FROM threads ORDER BY updated_at, id");
    let mut line = 0;
    for stored in database.rows(&query, &[], stored)? {
        mark.threads
            .insert(stored.id.clone(), stored.updated.clone());
        let is_same = known.threads.get(&stored.id) == Some(&stored.updated);
        if is_same && !known.open.contains(&stored.id) {
            continue;
        }
        let query = "SELECT data_type, data FROM threads WHERE id = ?1";
        let data = database.rows(query, &[&stored.id], data)?;
        if database.has_changed() {
            whole.unfinished();
            whole.cursor = before;
            return Ok(());
        }
        let id = stored.id.clone();
        let saved = data
            .into_iter()
            .next()
            .unwrap_or_else(|| Err("no data".to_owned()));
        let saved = saved.and_then(|json| Saved::read(&json));
        match saved {
            Ok(saved) => {
                if !hand_over(whole, &mut line, stored, saved) {
                    whole.unfinished();
                    mark.open.insert(id);
                }
            }
            Err(reason) => {
                line += 1;
                whole.broken(line, format!("thread {id}: {reason}"));
            }
        }
        if whole.is_stopped() {
            return Ok(());
        }
    }
    whole.cursor = serde_json::to_string(&mark).ok();
    Ok(())
}

/// The names of all columns but the data.
fn columns(database: &Database) -> Result<String, String> {
    let query = "SELECT name FROM pragma_table_info('threads')";
    let names = database.rows(query, &[], |row| text(row, "name"))?;
    let names = names.into_iter().flatten().filter(|name| name != "data");
    let quoted = names.map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
    Ok(quoted.collect::<Vec<_>>().join(", "))
}

fn stored(row: &Row<'_>) -> Stored {
    let filled = |column| text(row, column).filter(|text| !text.is_empty());
    Stored {
        id: text(row, "id").unwrap_or_default(),
        title: filled("summary"),
        updated: text(row, "updated_at").unwrap_or_default(),
        created: filled("created_at"),
        parent: filled("parent_id"),
        folders: filled("folder_paths"),
    }
}

/// The JSON of a thread.
fn data(row: &Row<'_>) -> Result<Vec<u8>, String> {
    let bytes = bytes(row, "data").unwrap_or_default();
    match text(row, "data_type").as_deref() {
        Some("json") | None => Ok(bytes),
        Some("zstd") => unpacked(&bytes),
        Some(other) => Err(format!("unknown data type {other:?}")),
    }
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |error: String| format!("cannot decompress: {error}");
    let decoder = ruzstd::decoding::StreamingDecoder::new(bytes);
    let decoder = decoder.map_err(|error| failed(error.to_string()))?;
    let mut json = Vec::new();
    let read = decoder.take(THREAD_BYTES_MAX + 1).read_to_end(&mut json);
    read.map_err(|error| failed(error.to_string()))?;
    if json.len() as u64 > THREAD_BYTES_MAX {
        return Err(format!("a thread has more than {THREAD_BYTES_MAX} bytes"));
    }
    Ok(json)
}

fn hand_over(whole: &mut Whole<'_, '_>, line: &mut u64, stored: Stored, saved: Saved) -> bool {
    whole.begin_session();
    let mut thread = Thread::new(FORMAT, &stored.id);
    let folders = stored.folders.as_deref().unwrap_or_default();
    thread.cwd = folders
        .split(['\n', '\0'])
        .find(|folder| !folder.is_empty())
        .map(str::to_owned)
        .or_else(|| saved.folder());
    let parent = stored.parent.as_deref();
    thread.parent = parent.map(|parent| foreign_id("zed:session", parent));
    let ms = |text: &str| {
        let time = text.parse::<chrono::DateTime<chrono::Utc>>().ok()?;
        Some(time.timestamp_millis())
    };
    let updated = ms(&stored.updated);
    let created = stored.created.as_deref().and_then(ms);
    let first = saved.first_snapshot().and_then(ms);
    let at = created.or(first).or(updated).unwrap_or(0);
    let title = stored.title.or_else(|| saved.title());
    let heading = title.and_then(|title| thread.titled(Origin::Model, &title));
    let mut reader = Reader::new(whole, line, thread, at, updated);
    reader.head(heading);
    reader.read(saved)
}
