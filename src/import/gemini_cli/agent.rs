//! Where Gemini CLI keeps its chats, and how they are recognised.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::value::{RawValue, to_raw_value};

use super::shape::Entry;
use super::{Chat, FORMAT};
use crate::import::agent::{Agent, Home, LineReader, Reader, Whole};
use crate::import::facts::Facts;
use crate::import::json;

/// The importer.
pub(in crate::import) struct GeminiCli;

/// The folder of the chats of a project.
const CHATS: &str = "chats";
/// The file in the folder of a project that names it.
const PROJECT: &str = ".project_root";
/// Maximum size of that file.
const PROJECT_BYTES_MAX: u64 = 64 << 10;

impl Agent for GeminiCli {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        vec![home.or("GEMINI_CLI_HOME", "").join(".gemini").join("tmp")]
    }

    fn is_source(&self, path: &Path) -> bool {
        path.extension().is_some_and(|ext| ext == "jsonl") || is_document(path)
    }

    fn wrote_line(&self, line: &str) -> bool {
        let marks = || -> Option<bool> {
            let entry: Entry<'_> = json::object(line).ok()??;
            Some(entry.session_id.get().is_some() && entry.project.get().is_some())
        };
        marks().unwrap_or(false)
    }

    fn wrote_file(&self, path: &Path, head: &[u8]) -> bool {
        is_document(path) && is_chat(head) && !path.iter().any(|name| name == ".qwen")
    }

    fn reader(&self, path: &Path, state: Option<&RawValue>) -> Option<Reader> {
        if is_json(path) {
            return Some(Reader::Whole(|whole| document(whole, FORMAT)));
        }
        Some(Reader::Lines(Box::new(chat(path, state, FORMAT)?)))
    }
}

/// Whether a file is a chat that is one document, by its name.
pub(in crate::import) fn is_document(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    is_json(path) && name.is_some_and(|name| name.starts_with("session-"))
}

/// Whether a file is one document and not lines, by its name.
pub(in crate::import) fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "json")
}

/// Whether the first bytes of a document are those of a chat.
pub(in crate::import) fn is_chat(head: &[u8]) -> bool {
    let has = |name: &str| memchr::memmem::find(head, name.as_bytes()).is_some();
    has("\"sessionId\"") && (has("\"projectHash\"") || has("\"messages\""))
}

fn chat(path: &Path, state: Option<&RawValue>, format: &'static str) -> Option<Chat> {
    let mut chat: Chat = match state {
        Some(state) => serde_json::from_str(state.get()).ok()?,
        None => Chat::default(),
    };
    chat.format = format;
    if state.is_none() {
        chat.of_file(path);
    }
    Some(chat)
}

/// Reads a chat that is one document. Messages are added to it, and calls get their results.
pub(in crate::import) fn document(
    whole: &mut Whole<'_, '_>,
    format: &'static str,
) -> Result<(), String> {
    let Some(document) = whole.json::<Box<RawValue>>()? else {
        return Ok(());
    };
    let Some(mut chat) = chat(whole.path, None, format) else {
        return Ok(());
    };
    let Some(entry) = json::object::<Entry<'_>>(document.get())? else {
        return Err("not a chat document".to_owned());
    };
    chat.begin(&entry)?;
    if let Some(titled) = chat.titled(entry.summary)? {
        whole.take(1, vec![titled]);
    }
    let messages = json::array(entry.messages)?.unwrap_or_default();
    for (number, message) in (1..).zip(messages) {
        if whole.is_stopped() {
            return Ok(());
        }
        match chat.entry(message) {
            Ok(facts) => whole.take(number, facts),
            Err(reason) => whole.broken(number, reason),
        }
    }
    if chat.has_open_calls {
        whole.unfinished();
    }
    Ok(())
}

impl Chat {
    /// What the place of a file says: the project, and the session of a sub-agent.
    fn of_file(&mut self, path: &Path) {
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        let Some(chats) = path
            .ancestors()
            .skip(1)
            .take(2)
            .find(|it| it.ends_with(CHATS))
        else {
            return;
        };
        self.folder = path
            .parent()
            .filter(|folder| *folder != chats)
            .and_then(name);
        let project = chats.parent().map(|project| project.join(PROJECT));
        self.project = project.and_then(|path| {
            let is_small =
                fs::metadata(&path).is_ok_and(|it| it.is_file() && it.len() <= PROJECT_BYTES_MAX);
            let text = is_small.then(|| fs::read_to_string(path).ok())??;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        });
    }
}

impl LineReader for Chat {
    fn read<'a>(&mut self, _number: u64, text: &'a str) -> Result<Vec<Facts<'a>>, String> {
        self.entry(text)
    }

    fn state(&self) -> Option<Box<RawValue>> {
        to_raw_value(self).ok()
    }
}
