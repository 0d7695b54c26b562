//! Sessions of opencode: in its database, in the files of versions before it had one, and in the
//! documents that `opencode export` writes. All three become the same records.
//!
//! A request to the model, from `step-start` to `step-finish`, is one message with its texts, calls
//! and tokens. It is handed over once it is over: when its `step-finish` is there, when its message
//! is completed, when the session went on to another answer, or when nothing was written for a day.
//! The result of a call is a message of its own, and so is each part of a user's prompt.
//!
//! A session that was forked is a copy of all messages under other ids. The responses are counted
//! in the session that is read first.

#[cfg(feature = "databases")]
mod database;
mod files;
mod parts;
mod session;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::agent::{Agent, Home, Reader, is_database, log_of};

const FORMAT: &str = "opencode";

pub(super) struct OpenCode;

/// Whether this is the name of a database: `opencode.db`, or `opencode-<channel>.db`.
fn is_of_database(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let channel = name.and_then(|name| name.strip_prefix("opencode")?.strip_suffix(".db"));
    channel.is_some_and(|channel| channel.is_empty() || channel.starts_with('-'))
}

/// Whether this is the file of a session: `storage/session/<project>/ses_….json`.
fn is_of_session(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_name = name.is_some_and(|name| {
        name.starts_with("ses_") && path.extension().is_some_and(|ext| ext == "json")
    });
    let folder = path.ancestors().nth(2).and_then(Path::file_name);
    is_name && folder.is_some_and(|folder| folder == "session")
}

impl Agent for OpenCode {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        let folders = home.data("opencode");
        let mut places: Vec<PathBuf> = home.variable("OPENCODE_DB").into_iter().collect();
        for folder in folders {
            places.push(folder.join("opencode.db"));
            let files = fs::read_dir(&folder).into_iter().flatten().flatten();
            let others = files
                .map(|file| file.path())
                .filter(|path| is_of_database(path) && !path.ends_with("opencode.db"));
            places.extend(others);
            // The folder also has the states of files, as repositories.
            places.push(folder.join("storage").join("session"));
        }
        places
    }

    fn is_source(&self, path: &Path) -> bool {
        is_of_database(path) || is_of_session(path)
    }

    fn wrote_file(&self, path: &Path, head: &[u8]) -> bool {
        is_of_database(path) && is_database(head) || is_of_session(path) || files::is_export(head)
    }

    fn beside(&self, path: &Path) -> Option<PathBuf> {
        is_of_database(path).then(|| log_of(path))
    }

    fn reader(&self, path: &Path, _state: Option<&RawValue>) -> Option<Reader> {
        let read = if is_of_session(path) {
            files::read_stored
        } else if path.extension().is_some_and(|ext| ext == "db") {
            #[cfg(feature = "databases")]
            {
                database::read
            }
            #[cfg(not(feature = "databases"))]
            {
                super::agent::needs_databases
            }
        } else {
            files::read_export
        };
        Some(Reader::Whole(read))
    }
}
