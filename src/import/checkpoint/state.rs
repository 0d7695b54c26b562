//! `cache/imports-<hash>`: the state after the last line of a file that may grow, so that the next
//! import reads only its new lines.

use std::collections::BTreeSet;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::{DIR, PATH};
use crate::import::run::KeptLines;
use crate::record::{ConversationTurn, Record, TurnKind, Validity};
use crate::storage::{Access, Storage, append_all, read_all, remove_if_there};
use crate::store::Store;

/// The state after the last line that was read.
#[derive(Serialize, Deserialize)]
pub(in crate::import) struct State {
    /// The number of the line.
    pub(in crate::import) number: u64,
    /// The format of the file, and the state of the reader of its lines.
    pub(in crate::import) format: String,
    pub(in crate::import) reader: Box<RawValue>,
    pub(in crate::import) lines: KeptLines,
}

impl State {
    /// The bytes to write. `None` if they would contain a text that is redacted in the log: titles
    /// and names are kept as the file has them.
    pub(super) fn written(&self, store: &Store) -> Option<Vec<u8>> {
        let mut texts = String::new();
        add_texts(&serde_json::from_str(self.reader.get()).ok()?, &mut texts);
        for name in self.lines.tool_names() {
            texts.push_str(name);
            texts.push('\n');
        }
        let turn = ConversationTurn {
            id: Uuid::nil(),
            parent_id: None,
            message_id: Uuid::nil(),
            kind: TurnKind::User,
            content: texts.clone(),
            created_at: Validity::at(0),
            thread_id: None,
        };
        let redacted = store.inner().transact(|txn| txn.redact(turn.into()));
        let is_same = match redacted.ok()?.record() {
            Record::Turn(turn) => turn.content == texts,
            _ => false,
        };
        is_same.then(|| serde_json::to_vec(self).ok())?
    }
}

/// Adds all strings that are not ids of the log, each on a line of its own.
fn add_texts(value: &Value, texts: &mut String) {
    let mut add = |text: &str| {
        if Uuid::try_parse(text).is_err() {
            texts.push_str(text);
            texts.push('\n');
        }
    };
    match value {
        Value::String(text) => add(text),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, texts)),
        Value::Object(members) => {
            members.keys().for_each(|name| add(name));
            members.values().for_each(|member| add_texts(member, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The name of a file with these contents.
fn path(hash: u64) -> String {
    format!("{PATH}-{hash:016x}")
}

/// Reads a state; `None` if it is missing or damaged.
pub(super) fn load(store: &Store, hash: u64) -> Option<State> {
    let file = store.inner().storage().open(&path(hash), Access::Read);
    let bytes = read_all(&*file.ok()?).ok()?;
    let is_whole = xxh3_64(&bytes) == hash;
    is_whole.then(|| serde_json::from_slice(&bytes).ok())?
}

/// Writes a state. The checkpoint that names it has its hash, so it need not be written atomically.
pub(super) fn write(storage: &dyn Storage, hash: u64, bytes: &[u8]) -> io::Result<()> {
    let path = path(hash);
    storage.create_dir(DIR)?;
    remove_if_there(storage, &path)?;
    append_all(&*storage.open(&path, Access::Append)?, bytes)
}

/// Removes all other states.
pub(super) fn keep_only(storage: &dyn Storage, hashes: &BTreeSet<u64>) -> io::Result<()> {
    let used: BTreeSet<String> = hashes.iter().map(|hash| path(*hash)).collect();
    for entry in storage.read_dir(DIR)? {
        let path = format!("{DIR}/{}", entry.name);
        let is_state = path
            .strip_prefix(PATH)
            .is_some_and(|rest| rest.starts_with('-'));
        if is_state && !used.contains(&path) {
            remove_if_there(storage, &path)?;
        }
    }
    Ok(())
}
