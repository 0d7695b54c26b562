//! Sessions of Goose, in its database `sessions.db`. Older versions wrote a JSONL file a session,
//! which Goose imports into its database by itself.
//!
//! A row of `messages` is written once and becomes a message; each tool result in it becomes one of
//! its own. Goose may write the rows of a session anew, under other row numbers: a message is known
//! by its own id and its content. The tokens of each request are in `usage_ledger`. A session
//! without rows there has only its sums, which change: they become one message once the session was
//! not used for a day.

#[cfg(feature = "databases")]
mod content;
#[cfg(feature = "databases")]
mod database;

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::agent::{Agent, Home, Reader, is_database, log_of};

#[cfg(feature = "databases")]
const FORMAT: &str = "goose";
const DATABASE: &str = "sessions.db";

pub(super) struct Goose;

impl Agent for Goose {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        let root = home
            .variable("GOOSE_PATH_ROOT")
            .map(|root| root.join("data"));
        let folders = ["goose", "Block/goose", "Block/goose/data"];
        let folders = folders.iter().flat_map(|folder| home.data(folder));
        let folders = root.into_iter().chain(folders);
        folders
            .map(|folder| folder.join("sessions").join(DATABASE))
            .collect()
    }

    fn is_source(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == DATABASE)
    }

    fn wrote_file(&self, path: &Path, head: &[u8]) -> bool {
        self.is_source(path) && is_database(head)
    }

    fn beside(&self, path: &Path) -> Option<PathBuf> {
        self.is_source(path).then(|| log_of(path))
    }

    fn reader(&self, _path: &Path, _state: Option<&RawValue>) -> Option<Reader> {
        #[cfg(feature = "databases")]
        return Some(Reader::Whole(database::read));
        #[cfg(not(feature = "databases"))]
        return Some(Reader::Whole(super::agent::needs_databases));
    }
}
