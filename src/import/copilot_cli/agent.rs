//! Where Copilot CLI keeps its sessions, and how they are recognised.

use std::path::{Path, PathBuf};

use serde_json::value::{RawValue, to_raw_value};

use super::Session;
use super::shape::Line;
use crate::import::agent::{Agent, Home, LineReader, Reader};
use crate::import::facts::Facts;
use crate::import::json;

/// The importer.
pub(in crate::import) struct CopilotCli;

/// The file of a session in its folder.
const EVENTS: &str = "events.jsonl";
/// The file beside it with the name of the session.
pub(super) const WORKSPACE: &str = "workspace.yaml";

/// What the first events of a session may be.
const STARTS: [&str; 5] = [
    "session.",
    "user.message",
    "assistant.",
    "system.message",
    "tool.execution_",
];

impl Agent for CopilotCli {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        let own = home.or("COPILOT_HOME", ".copilot");
        vec![own.join("session-state"), own.join("history-session-state")]
    }

    fn wrote_line(&self, line: &str) -> bool {
        let marks = || -> Option<bool> {
            let line: Line<'_> = json::object(line).ok()??;
            let kind = json::text(line.kind).ok()??;
            let is_known = STARTS.iter().any(|start| kind.starts_with(start));
            let has_data = line.data.get().is_some_and(|data| data.starts_with('{'));
            Some(is_known && has_data && line.timestamp.get().is_some())
        };
        marks().unwrap_or(false)
    }

    fn beside(&self, path: &Path) -> Option<PathBuf> {
        let is_events = path.file_name()? == EVENTS;
        is_events.then(|| path.with_file_name(WORKSPACE))
    }

    fn reader(&self, path: &Path, state: Option<&RawValue>) -> Option<Reader> {
        let mut session = match state {
            Some(state) => serde_json::from_str(state.get()).ok()?,
            None => Session::new(name_of(path)),
        };
        if let Some(workspace) = self.beside(path) {
            session.read_workspace(&workspace);
        }
        Some(Reader::Lines(Box::new(session)))
    }
}

/// The session's id by the name of its file, for a file whose start is missing.
fn name_of(path: &Path) -> &str {
    let is_events = path.file_name().is_some_and(|name| name == EVENTS);
    let name = if is_events {
        path.parent().and_then(Path::file_name)
    } else {
        path.file_stem()
    };
    name.and_then(|name| name.to_str()).unwrap_or_default()
}

impl LineReader for Session {
    fn read<'a>(&mut self, _number: u64, text: &'a str) -> Result<Vec<Facts<'a>>, String> {
        Session::read(self, text)
    }

    fn state(&self) -> Option<Box<RawValue>> {
        to_raw_value(self).ok()
    }
}
