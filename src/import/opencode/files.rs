//! Sessions in JSON documents: those of `opencode export`, and the files in which versions before
//! the database kept each session, message and part.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::session::{Item, Session};
use crate::import::agent::{Whole, modified_ms};

/// Number of bytes of a file in which an export says what it is.
const INFO_BYTES: usize = 4096;

/// What `opencode export` writes.
#[derive(Deserialize)]
struct Export {
    info: Info,
    messages: Vec<Exported>,
}

#[derive(Deserialize)]
struct Exported {
    info: Box<RawValue>,
    parts: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Info {
    id: String,
    #[serde(rename = "parentID")]
    parent: Option<String>,
    directory: Option<String>,
    title: Option<String>,
}

#[derive(Deserialize)]
struct Id {
    id: String,
    #[serde(default)]
    time: Time,
}

#[derive(Default, Deserialize)]
struct Time {
    created: Option<f64>,
}

impl Info {
    fn session(self, messages: Vec<Item>) -> Session {
        Session {
            id: self.id,
            parent: self.parent,
            directory: self.directory,
            title: self.title,
            messages,
        }
    }
}

/// Whether a file begins like an export.
pub(super) fn is_export(head: &[u8]) -> bool {
    let head = head.get(..INFO_BYTES).unwrap_or(head);
    let head = String::from_utf8_lossy(head);
    let member = head.trim_start().strip_prefix('{').map(str::trim_start);
    member.is_some_and(|it| it.starts_with("\"info\"") && it.contains("\"ses_"))
}

pub(super) fn read_export(whole: &mut Whole<'_, '_>) -> Result<(), String> {
    let Some(Export { info, messages }) = whole.json()? else {
        return Ok(());
    };
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        let mut parts = Vec::with_capacity(message.parts.len());
        for part in message.parts {
            parts.push((id_of(part.get())?.id, part.get().to_owned()));
        }
        items.push(Item {
            id: id_of(message.info.get())?.id,
            json: message.info.get().to_owned(),
            // The session may have gone on after it was exported.
            touched: None,
            parts,
        });
    }
    hand_over(whole, &info.session(items));
    Ok(())
}

/// Reads a session of `storage/session`, with its messages and their parts.
pub(super) fn read_stored(whole: &mut Whole<'_, '_>) -> Result<(), String> {
    let Some(info) = whole.json::<Info>()? else {
        return Ok(());
    };
    let Some(storage) = whole.path.ancestors().nth(3) else {
        return Ok(());
    };
    let is_name = |id: &str| !id.is_empty() && !id.contains(['/', '\\', '.']);
    if !is_name(&info.id) {
        return Err("the id of the session is not a valid file name".to_owned());
    }
    let mut items = Vec::new();
    for (json, mut touched) in documents(&storage.join("message").join(&info.id))? {
        // A file that is being written, or is broken: the session is read again.
        let Ok(Id { id, time }) = id_of(&json) else {
            whole.unfinished();
            return Ok(());
        };
        let mut parts = Vec::new();
        if is_name(&id) {
            for (json, at) in documents(&storage.join("part").join(&id))? {
                let Ok(part) = id_of(&json) else {
                    whole.unfinished();
                    return Ok(());
                };
                touched = touched.max(at);
                parts.push((part.id, json));
            }
        }
        parts.sort();
        let created = super::session::ms(time.created);
        items.push((
            (created, id.clone()),
            Item {
                id,
                json,
                touched,
                parts,
            },
        ));
    }
    items.sort_by(|(a, _), (b, _)| a.cmp(b));
    let items = items.into_iter().map(|(_, item)| item).collect();
    hand_over(whole, &info.session(items));
    Ok(())
}

fn hand_over(whole: &mut Whole<'_, '_>, session: &Session) {
    session.hand_over(whole, &mut 0);
}

fn id_of(json: &str) -> Result<Id, String> {
    serde_json::from_str(json).map_err(|e| format!("not readable as JSON: {e}"))
}

/// The JSON files of a folder, with their times. None if the folder does not exist.
fn documents(folder: &Path) -> Result<Vec<(String, Option<i64>)>, String> {
    let Ok(files) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut documents = Vec::new();
    for file in files {
        let path = file.map_err(|e| format!("cannot read: {e}"))?.path();
        if path.extension().is_some_and(|ext| ext == "json") && path.is_file() {
            let json = fs::read_to_string(&path);
            let json = json.map_err(|e| format!("cannot read {}: {e}", path.display()))?;
            documents.push((json, modified_ms(&path)));
        }
    }
    Ok(documents)
}
