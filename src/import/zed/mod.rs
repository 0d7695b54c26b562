//! Threads of Zed's own agent, in its database `threads.db`. A thread is one JSON document, which
//! is written anew as it grows.
//!
//! Messages have no times. They get that of the thread: when it was created, else that of its first
//! state of the project, else when it was updated. A prompt has an id; what the agent does after it
//! is known by its place after that prompt. The last message of the agent is handed over when
//! another follows, or when its calls have results and nothing was written for a while.
//!
//! Of the tokens, Zed keeps those of the last request after each prompt, and their sum. The former
//! are a message after each prompt that another one follows; what the sum has beyond them is one
//! message once the thread was not used for a day.

#[cfg(feature = "databases")]
mod database;
#[cfg(feature = "databases")]
mod thread;

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::agent::{Agent, Home, Reader, is_database, log_of};

#[cfg(feature = "databases")]
const FORMAT: &str = "zed";
const DATABASE: &str = "threads.db";

pub(super) struct Zed;

impl Agent for Zed {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        let mut folders = home.data("zed");
        // Other names of the folder: on macOS and Windows, and of a Flatpak.
        folders.extend(home.data("Zed"));
        folders.push(home.join(".var/app/dev.zed.Zed/data/zed"));
        folders
            .into_iter()
            .map(|folder| folder.join("threads").join(DATABASE))
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
