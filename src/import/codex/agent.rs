//! Where Codex CLI keeps its sessions, and how they are recognised.

use std::path::{Path, PathBuf};

use serde_json::value::{RawValue, to_raw_value};

use super::{Rollout, compressed};
use crate::import::agent::{Agent, Home, LineReader, Reader};
use crate::import::facts::Facts;
use crate::import::json::{self, shapes};

/// The importer.
pub(in crate::import) struct Codex;

shapes! {
    Marks {
        kind: "type",
        payload: "payload",
        timestamp: "timestamp",
    }
}

impl Agent for Codex {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        let own = home.or("CODEX_HOME", ".codex");
        vec![own.join("sessions"), own.join("archived_sessions")]
    }

    fn wrote_line(&self, line: &str) -> bool {
        let marks = || -> Option<bool> {
            let marks: Marks<'_> = json::object(line).ok()??;
            let kind = json::text(marks.kind).ok()??;
            let is_known = matches!(
                &*kind,
                "session_meta"
                    | "turn_context"
                    | "response_item"
                    | "event_msg"
                    | "compacted"
                    | "inter_agent_communication"
                    | "realtime_item"
            );
            let has_both = marks.payload.get().is_some() && marks.timestamp.get().is_some();
            Some(is_known && has_both)
        };
        marks().unwrap_or(false)
    }

    fn is_source(&self, path: &Path) -> bool {
        path.extension().is_some_and(|ext| ext == "jsonl") || compressed::has_name(path)
    }

    fn wrote_file(&self, path: &Path, head: &[u8]) -> bool {
        compressed::has_name(path) && compressed::is_frame(head)
    }

    fn reader(&self, path: &Path, state: Option<&RawValue>) -> Option<Reader> {
        if compressed::has_name(path) {
            return Some(Reader::Whole(compressed::read));
        }
        let rollout = match state {
            Some(state) => serde_json::from_str(state.get()).ok()?,
            None => Rollout::new(),
        };
        Some(Reader::Lines(Box::new(rollout)))
    }
}

impl LineReader for Rollout {
    fn read<'a>(&mut self, number: u64, text: &'a str) -> Result<Vec<Facts<'a>>, String> {
        Ok(vec![Rollout::read(self, number, text)?])
    }

    fn state(&self) -> Option<Box<RawValue>> {
        to_raw_value(self).ok()
    }
}
