//! What a watcher reports.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::Serialize;
use uuid::Uuid;

use crate::error::Error;
use crate::import::report::{FileState, Report};
use crate::import::{Broken, Format};
use crate::store::Store;

/// What a [`Watcher`](super::Watcher) reports.
#[derive(Debug)]
#[non_exhaustive]
pub enum News {
    /// Records were added, or files are broken that were not before.
    Imported {
        /// The report of the import. A short file that grew is read from its start, so only `added`
        /// counts what is new. `broken` lists only what was not reported before.
        report: Box<Report>,
        /// The files of which records were added.
        additions: Vec<Addition>,
    },
    /// The store cannot be written now, for example because the disk is full or another process
    /// holds the lock. The watcher retries, and reports this once.
    Waiting(Error),
    /// The store can be written again.
    Resumed,
    /// The system does not report changes in some directory, for the given reason. Its files are
    /// checked every few seconds instead.
    Polling(String),
}

/// The records that were added from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Addition {
    /// The file's path.
    pub file: PathBuf,
    /// Number of lines that the store added.
    pub added: u64,
    /// The tool that wrote the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<&'static str>,
    /// The conversation of the file's last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Uuid>,
    /// Its project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Addition {
    pub(super) fn of(file: &FileState, store: Option<&Store>) -> Addition {
        let found = file.conversation.zip(store);
        let found = found.and_then(|(id, store)| store.get_conversation(id).ok().flatten());
        let (project, title) = found.map_or((None, None), |(it, _)| (it.project, it.title));
        let report = file.as_report();
        Addition {
            file: PathBuf::from(&report.file),
            added: report.report.added,
            format: file.format.map(Format::as_str),
            conversation: file.conversation,
            project,
            title,
        }
    }
}

/// What was reported about files, so that it is reported once.
#[derive(Debug, Default)]
pub(super) struct Told(HashSet<(String, u64, String)>);

/// Maximum number of broken lines that are remembered.
const TOLD_MAX: usize = 10_000;

impl Told {
    /// Keeps only what was not reported before.
    pub(super) fn retain_new(&mut self, report: &mut Report) {
        report.broken.retain(|broken| self.is_new(broken));
        let new = &report.broken;
        for file in &mut report.per_file {
            file.report.broken.retain(|broken| new.contains(broken));
        }
    }

    fn is_new(&mut self, broken: &Broken) -> bool {
        if self.0.len() >= TOLD_MAX {
            self.0.clear();
        }
        let Broken { file, line, reason } = broken.clone();
        self.0.insert((file, line, reason))
    }
}
