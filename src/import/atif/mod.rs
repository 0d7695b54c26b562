//! Documents of ATIF, Harbor's Agent Trajectory Interchange Format, versions 1.0 to 1.8: one
//! document in a file, or several, one after the other.
//!
//! A document that decklog wrote has its records in `extra.decklog`; they are restored as they
//! were, with the same ids. Of any other document, each step is a message and a turn, each of its
//! tool calls a call, and each result of its observation a message of a tool. The document is read
//! as one that no longer changes: its writers write it at the end of a run.

mod restore;
mod steps;

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::agent::{Agent, Home, Reader, Whole};
use super::facts::Facts;
use crate::atif::model::{self, Trajectory, VERSION_PREFIX};

/// The importer.
pub(super) struct Atif;

impl Agent for Atif {
    /// None: each program that runs agents has its own directories.
    fn places(&self, _home: &Home) -> Vec<PathBuf> {
        Vec::new()
    }

    fn is_source(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| {
            let is_named = |end: &str| name.ends_with(end);
            name.starts_with("trajectory") && is_named(".json")
                || is_named(".atif.json")
                || is_named(".atif.jsonl")
        })
    }

    fn wrote_file(&self, _path: &Path, head: &[u8]) -> bool {
        let head = super::without_bom(head).trim_ascii_start();
        let has = |text: &str| memchr::memmem::find(head, text.as_bytes()).is_some();
        head.starts_with(b"{") && has("\"schema_version\"") && has("\"ATIF-v1.")
    }

    fn reader(&self, _path: &Path, _state: Option<&RawValue>) -> Option<Reader> {
        Some(Reader::Whole(read))
    }
}

fn read(whole: &mut Whole<'_, '_>) -> Result<(), String> {
    let text = whole.text()?;
    let mut items = Items { whole, number: 0 };
    for document in serde_json::Deserializer::from_str(&text).into_iter::<Trajectory>() {
        match document {
            Ok(document) => items.document(&document, None)?,
            Err(error) if error.is_eof() => items.whole.unfinished(),
            Err(error) => return Err(format!("not readable as ATIF: {error}")),
        }
    }
    Ok(())
}

/// The steps of all documents of a file.
struct Items<'w, 'a, 'log> {
    whole: &'w mut Whole<'a, 'log>,
    number: u64,
}

impl Items<'_, '_, '_> {
    /// Reads a document and those in it. `parent` is the thread of the document that it is in, if
    /// another program wrote it.
    fn document(
        &mut self,
        document: &Trajectory,
        parent: Option<&steps::Parent>,
    ) -> Result<(), String> {
        let version = &document.schema_version;
        if !version.starts_with(VERSION_PREFIX) {
            let version: String = version.chars().take(80).collect();
            return Err(format!("{version:?} is not a supported version of ATIF"));
        }
        let own = model::own(&document.extra).and_then(|own| own.get("conversation"));
        let Some(own) = own.and_then(|own| own.as_object()) else {
            return self.steps(document, parent);
        };
        self.restore(document, own)?;
        for agent in document.subagent_trajectories.iter().flatten() {
            self.document(agent, None)?;
        }
        Ok(())
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn take(&mut self, number: u64, facts: Result<Vec<Facts<'static>>, String>) {
        match facts {
            Ok(facts) => self.whole.take(number, facts),
            Err(reason) => self.whole.broken(number, reason),
        }
    }
}
