//! Where Qwen Code keeps its chats, and how they are recognised.

use std::path::{Path, PathBuf};

use serde_json::value::{RawValue, to_raw_value};

use super::shape::{Line, Message};
use super::{FORMAT, Session};
use crate::import::agent::{Agent, Home, LineReader, Reader};
use crate::import::facts::Facts;
use crate::import::gemini_cli::{document, is_chat, is_document, is_json};
use crate::import::json;

/// The importer.
pub(in crate::import) struct QwenCode;

impl Agent for QwenCode {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        let own = home.or("QWEN_RUNTIME_DIR", ".qwen");
        vec![own.join("projects"), own.join("tmp")]
    }

    fn is_source(&self, path: &Path) -> bool {
        path.extension().is_some_and(|ext| ext == "jsonl") || is_document(path)
    }

    fn wrote_line(&self, line: &str) -> bool {
        is_line(line).unwrap_or(false)
    }

    /// Early versions wrote the documents of Gemini CLI.
    fn wrote_file(&self, path: &Path, head: &[u8]) -> bool {
        is_document(path) && is_chat(head) && path.iter().any(|name| name == ".qwen")
    }

    fn reader(&self, path: &Path, state: Option<&RawValue>) -> Option<Reader> {
        if is_json(path) {
            return Some(Reader::Whole(|whole| document(whole, FORMAT)));
        }
        let mut session: Session = match state {
            Some(state) => serde_json::from_str(state.get()).ok()?,
            None => Session::default(),
        };
        path.clone_into(&mut session.path);
        Some(Reader::Lines(Box::new(session)))
    }
}

/// Whether Qwen Code wrote a line. Those of Claude Code have the same members, except for the
/// content of messages and of system lines.
pub(in crate::import) fn is_line(line: &str) -> Option<bool> {
    let line: Line<'_> = json::object(line).ok()??;
    line.uuid.get()?;
    line.session_id.get()?;
    let message: Message<'_> = json::member(line.message).ok()?.unwrap_or_default();
    Some(match &*json::text(line.kind).ok()?? {
        "user" | "assistant" => message.parts.get().is_some(),
        "system" => line.payload.get().is_some(),
        "tool_result" => true,
        _ => false,
    })
}

impl LineReader for Session {
    fn read<'a>(&mut self, _number: u64, text: &'a str) -> Result<Vec<Facts<'a>>, String> {
        Session::read(self, text)
    }

    fn state(&self) -> Option<Box<RawValue>> {
        to_raw_value(self).ok()
    }
}
