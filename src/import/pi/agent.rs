//! Where pi keeps its sessions, and how they are recognised.

use std::path::{Path, PathBuf};

use serde_json::value::{RawValue, to_raw_value};

use super::Session;
use super::shape::{Entry, Message};
use crate::import::agent::{Agent, Home, LineReader, Reader};
use crate::import::facts::Facts;
use crate::import::json;

/// The importer.
pub(in crate::import) struct Pi;

impl Agent for Pi {
    fn places(&self, home: &Home) -> Vec<PathBuf> {
        let own = home.or("PI_CODING_AGENT_DIR", ".pi/agent");
        vec![own.join("sessions")]
    }

    fn wrote_line(&self, line: &str) -> bool {
        let marks = || -> Option<bool> {
            let entry: Entry<'_> = json::object(line).ok()??;
            entry.timestamp.get()?;
            Some(match &*json::text(entry.kind).ok()?? {
                "session" => entry.id.get().is_some() && entry.cwd.get().is_some(),
                "message" => {
                    let message: Message<'_> = json::member(entry.message).ok()??;
                    message.role.get().is_some()
                }
                _ => false,
            })
        };
        marks().unwrap_or(false)
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
        Session::read(self, text)
    }

    fn state(&self) -> Option<Box<RawValue>> {
        to_raw_value(self).ok()
    }
}
