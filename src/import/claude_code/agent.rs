//! Where Claude Code keeps its sessions, and how they are recognised.

use std::path::{Path, PathBuf};

use serde_json::value::{RawValue, to_raw_value};

use super::{Session, other, read};
use crate::import::agent::{Agent, Home, LineReader, Reader};
use crate::import::facts::Facts;
use crate::import::json::{self, shapes};
use crate::import::qwen_code::is_line;

/// The importer.
pub(in crate::import) struct ClaudeCode;

shapes! {
    Marks {
        kind: "type",
        session_id: "sessionId",
        uuid: "uuid",
        leaf_uuid: "leafUuid",
        message: "message",
    }
}

impl Agent for ClaudeCode {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        let own = home.or("CLAUDE_CONFIG_DIR", ".claude");
        vec![own.join("projects"), home.join(".config/claude/projects")]
    }

    fn wrote_line(&self, line: &str) -> bool {
        let marks = || -> Option<bool> {
            let marks: Marks<'_> = json::object(line).ok()??;
            if marks.kind.get().is_none() {
                let is_of_session = marks.session_id.get().is_some();
                return Some(is_of_session && other::is_usage(marks.message));
            }
            Some(match &*json::text(marks.kind).ok()?? {
                "user" | "assistant" | "system" | "progress" | "attachment" => {
                    marks.uuid.get().is_some() || marks.session_id.get().is_some()
                }
                "summary" => marks.leaf_uuid.get().is_some(),
                "custom-title" | "ai-title" => marks.session_id.get().is_some(),
                "file-history-snapshot" => true,
                kind => other::is_state(kind) && marks.session_id.get().is_some(),
            })
        };
        // Lines of Qwen Code have the same base fields.
        marks().unwrap_or(false) && is_line(line) != Some(true)
    }

    /// The metadata file of a sub-agent.
    fn beside(&self, path: &Path) -> Option<PathBuf> {
        let name = path.file_name()?.to_str()?;
        let is_lines = path.extension().is_some_and(|ext| ext == "jsonl");
        (is_lines && name.starts_with("agent-")).then(|| path.with_extension("meta.json"))
    }

    fn reader(&self, path: &Path, state: Option<&RawValue>) -> Option<Reader> {
        let session = match state {
            Some(state) => serde_json::from_str(state.get()).ok()?,
            None => Session::of_file(path),
        };
        Some(Reader::Lines(Box::new(session)))
    }
}

impl LineReader for Session {
    fn read<'a>(&mut self, _number: u64, text: &'a str) -> Result<Vec<Facts<'a>>, String> {
        Ok(vec![read(self, text)?])
    }

    fn state(&self) -> Option<Box<RawValue>> {
        to_raw_value(self).ok()
    }
}
