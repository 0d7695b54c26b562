//! redb, a store of keys and values: the finished lines by key, and the calls of each parent.

use std::path::Path;

use decklog::Record;
use redb::{Database, Durability, TableDefinition};

use super::files::Lines;
use crate::table::seconds;

const LINES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("lines");
const BY_PARENT: TableDefinition<'_, &[u8], ()> = TableDefinition::new("by_parent");

/// So many records a transaction, none of which waits for the disk.
pub fn batches(records: &[Record], lines: &Lines, a_batch: usize, path: &Path) -> f64 {
    let db = Database::create(path).expect("a database");
    let lines: Vec<&[u8]> = lines.iter().collect();
    let batches = records.chunks(a_batch).zip(lines.chunks(a_batch));
    seconds(|| {
        for (records, lines) in batches {
            let mut write = db.begin_write().expect("begun");
            write.set_durability(Durability::None).expect("set");
            {
                let mut by_key = write.open_table(LINES).expect("a table");
                let mut by_parent = write.open_table(BY_PARENT).expect("a table");
                for (record, line) in records.iter().zip(lines) {
                    let (key, found_by) = keys(record);
                    by_key.insert(&key[..], *line).expect("inserted");
                    if let Some(found_by) = found_by {
                        by_parent.insert(&found_by[..], ()).expect("inserted");
                    }
                }
            }
            write.commit().expect("committed");
        }
    })
}

/// The key of a record, and what it is found by.
fn keys(record: &Record) -> (Vec<u8>, Option<Vec<u8>>) {
    match record {
        Record::CallRequested(request) => {
            let id = request.request_id.as_bytes();
            let key = [&id[..], request.call_id.as_bytes(), b"0"].concat();
            let started = request.started_at.at.to_be_bytes();
            let found_by = [&request.parent_id.as_bytes()[..], &started, &key].concat();
            (key, Some(found_by))
        }
        Record::CallDone(outcome) => {
            let id = outcome.request_id.as_bytes();
            ([&id[..], outcome.call_id.as_bytes(), b"1"].concat(), None)
        }
        _ => unreachable!("only tool calls are logged here"),
    }
}
