//! Tasks of Cline, and of Roo Code, which began as a copy of it: a folder a task with
//! `ui_messages.json`, the list of what the user sees.
//!
//! A request to the model is `api_req_started`. Its tokens are written into it later, when the
//! answer is over, so that it and what follows wait until then: until there is another request, or
//! until nothing was written for a while. It carries the tokens; the texts and calls after it name
//! it in `part_of`. The result of a call is not in the list, unless it is the output of a command
//! or of an MCP server. It is then taken from the text of the next request, which is what the model
//! saw, if it was the only call.

mod files;
mod items;

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::agent::{Agent, Home, Reader, Whole};

/// The names of the files of a task.
const MESSAGES: &str = "ui_messages.json";

pub(super) struct Cline;
pub(super) struct RooCode;

const CLINE: &str = "cline";
const ROO_CODE: &str = "roo-code";
const CLINE_EXTENSION: &str = "saoudrizwan.claude-dev";
const ROO_CODE_EXTENSION: &str = "rooveterinaryinc.roo-cline";

/// The editors, by the name of the folder of their data.
const EDITORS: [&str; 8] = [
    "Code",
    "Code - Insiders",
    "Code - OSS",
    "VSCodium",
    "Cursor",
    "Windsurf",
    "Positron",
    "Trae",
];
/// The folders of data of editors that run on another machine.
const SERVERS: [&str; 5] = [
    ".vscode-server/data",
    ".vscode-server-insiders/data",
    ".vscodium-server/data",
    ".cursor-server/data",
    ".windsurf-server/data",
];
/// Where editors keep their data on Linux, macOS and Windows.
const ROOTS: [&str; 3] = [".config", "Library/Application Support", "AppData/Roaming"];

fn tasks(home: &Home, extension: &str) -> Vec<PathBuf> {
    let editors = ROOTS
        .iter()
        .flat_map(|root| EDITORS.map(|editor| format!("{root}/{editor}")));
    let folders = editors.chain(SERVERS.map(str::to_owned));
    folders
        .map(|folder| home.join(&format!("{folder}/User/globalStorage/{extension}/tasks")))
        .collect()
}

fn is_messages(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == MESSAGES)
}

/// Whether a task is one of Roo Code: it is in its folder, or has the file that only it writes.
fn is_of_roo_code(path: &Path) -> bool {
    let is_named = |name: &str| path.components().any(|it| it.as_os_str() == name);
    if is_named(CLINE_EXTENSION) || is_named(".cline") {
        return false;
    }
    is_named(ROO_CODE_EXTENSION) || path.with_file_name(files::HISTORY_ITEM).exists()
}

impl Agent for Cline {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        let mut places = tasks(home, CLINE_EXTENSION);
        places.push(home.or("CLINE_DIR", ".cline").join("data").join("tasks"));
        places
    }

    fn is_source(&self, path: &Path) -> bool {
        is_messages(path)
    }

    fn wrote_file(&self, path: &Path, _head: &[u8]) -> bool {
        is_messages(path) && !is_of_roo_code(path)
    }

    fn reader(&self, _path: &Path, _state: Option<&RawValue>) -> Option<Reader> {
        Some(Reader::Whole(|whole: &mut Whole<'_, '_>| {
            files::read(whole, CLINE)
        }))
    }
}

impl Agent for RooCode {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        tasks(home, ROO_CODE_EXTENSION)
    }

    fn is_source(&self, path: &Path) -> bool {
        is_messages(path)
    }

    fn wrote_file(&self, path: &Path, _head: &[u8]) -> bool {
        is_messages(path) && is_of_roo_code(path)
    }

    fn reader(&self, _path: &Path, _state: Option<&RawValue>) -> Option<Reader> {
        Some(Reader::Whole(|whole: &mut Whole<'_, '_>| {
            files::read(whole, ROO_CODE)
        }))
    }
}
