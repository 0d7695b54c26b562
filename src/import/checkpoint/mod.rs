//! `cache/imports`: which source files were imported, and how far, so that the next import reads
//! only what is new.
//!
//! A file has a checkpoint once all of its lines are in the log and nothing about it remains to be
//! reported: no broken line, no incomplete last line, nothing that was left out as erased. A
//! checkpoint is written after the records, and used only while the log still has every line that
//! it had then. Without it, the file is read again and adds nothing.

mod carried;
mod source;
mod state;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Seek};
use std::path::{Path, absolute};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

pub(super) use carried::Carried;
pub(super) use source::{Hashed, Source};
pub(super) use state::State;

use super::Format;
use super::run::{FileHeadings, Run};
use crate::record::Kind;
use crate::storage::SETTLED_NS;
use crate::store::{CacheFile, LogMark, Store};

const DIR: &str = "cache";
const PATH: &str = "cache/imports";
/// Another version of decklog may import more of a file.
const FILE: CacheFile = CacheFile {
    path: PATH,
    header: concat!(
        "decklog imports 2, decklog ",
        env!("CARGO_PKG_VERSION"),
        "\n"
    ),
};
/// The kinds that an import adds.
const KINDS: [Kind; 4] = [
    Kind::ConversationTurns,
    Kind::ToolCalls,
    Kind::Conversations,
    Kind::Messages,
];

/// Minimum length of a file of which the state is kept. A shorter one is read again in a few
/// milliseconds once it has grown.
const STATE_BYTES_MIN: u64 = 4 << 20;

/// What was read of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// The file before it was read.
    source: Source,
    /// The format that was set for the import, if any.
    format: Option<String>,
    /// Number of bytes read, and their XXH3.
    bytes: u64,
    hash: u64,
    headings: FileHeadings,
    /// Hash of the state after the last line, if it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<u64>,
    /// How far a database was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// Whether the database has items that still change. The cursor says which.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_open: bool,
}

/// The contents of `cache/imports`.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    log: LogMark,
    files: BTreeMap<String, Checkpoint>,
}

/// States by their hash.
type States = BTreeMap<u64, Vec<u8>>;

/// The checkpoints of earlier imports, and those that this import makes.
pub(super) struct Checkpoints<'a> {
    store: Option<&'a Store>,
    /// Whether all files are read again.
    pub(super) ignores_known: bool,
    is_loaded: bool,
    known: Option<Saved>,
    log: Option<LogMark>,
    /// Whether the log lost records during this import.
    is_lost: bool,
    /// By path.
    made: BTreeMap<String, Made>,
    /// What a watcher carries from one import to the next, besides `known`.
    carried: Carried,
    settled_ns: i64,
    state_bytes_min: u64,
}

/// A checkpoint that this import makes.
struct Made {
    /// The number of the file in this import.
    file: usize,
    checkpoint: Checkpoint,
    state: Option<Vec<u8>>,
}

impl Default for Checkpoints<'_> {
    fn default() -> Self {
        Checkpoints {
            store: None,
            ignores_known: false,
            is_loaded: false,
            known: None,
            log: None,
            is_lost: false,
            made: BTreeMap::new(),
            carried: Carried::default(),
            settled_ns: SETTLED_NS,
            state_bytes_min: STATE_BYTES_MIN,
        }
    }
}

/// How to read a file.
pub(super) enum Reading {
    /// Not at all: it is unchanged.
    Unchanged(Box<Checkpoint>),
    /// From the end of its checkpoint on, to which the file is positioned.
    Rest(Box<Rest>),
    Whole,
}

/// What is known of the start of a file.
pub(super) struct Rest {
    pub(super) checkpoint: Checkpoint,
    pub(super) hash: Xxh3,
    pub(super) state: State,
}

/// The key of a file: its absolute path.
fn key(path: &Path) -> Option<String> {
    absolute(path).ok()?.into_os_string().into_string().ok()
}

impl<'a> Checkpoints<'a> {
    /// The file with these metadata. `None` if it gets no checkpoint.
    pub(super) fn source(&self, path: &Path, metadata: &fs::Metadata) -> Option<Source> {
        let is_used = self.log.is_some();
        is_used
            .then(|| Source::of(path, metadata, self.settled_ns))
            .flatten()
    }

    #[cfg(test)]
    pub(super) fn has_known(&self) -> bool {
        self.known.is_some()
    }

    #[cfg(test)]
    pub(super) fn trust_times_at_once(&mut self) {
        self.settled_ns = 0;
    }

    #[cfg(test)]
    pub(super) fn keep_all_states(&mut self) {
        self.state_bytes_min = 0;
    }

    /// Loads the checkpoints, unless the log lost some of their records. Returns whether
    /// conversations may have changed since they were written.
    pub(super) fn recall(&mut self, store: &'a Store) -> bool {
        self.store = Some(store);
        let log = store.log_mark(&KINDS).ok().flatten();
        let is_loaded = std::mem::replace(&mut self.is_loaded, true);
        let known = if is_loaded {
            self.known.take()
        } else {
            FILE.load(store.inner().storage())
        };
        self.is_lost |= match (&self.log, &log) {
            (Some(before), Some(now)) => !before.is_extended_by(now),
            (_, now) => now.is_none(),
        };
        self.known = known.filter(|known| {
            // Of a mark that was carried, only what happened since is in question.
            let is_carried = is_loaded && self.carried.is_used();
            let held = |now| is_carried || known.log.is_held_by(now, store.inner().storage());
            !self.is_lost && log.as_ref().is_some_and(held)
        });
        let is_same = |known: &Saved| {
            let log = log.as_ref();
            log.is_some_and(|log| known.log.has_same(Kind::Conversations, log))
        };
        let are_same = self.known.as_ref().is_some_and(is_same);
        self.log = log;
        !are_same
    }

    /// The checkpoints for a survey of what an import would do.
    pub(super) fn for_survey<'b>(&self, store: &'b Store) -> Checkpoints<'b> {
        let mut checkpoints = Checkpoints {
            ignores_known: self.ignores_known,
            ..Checkpoints::default()
        };
        checkpoints.recall(store);
        checkpoints
    }

    /// The checkpoint of a file that is to be read with this format.
    fn known(&self, path: &Path, format: Option<Format>) -> Option<&Checkpoint> {
        let known = self.known.as_ref().filter(|_| !self.ignores_known)?;
        let found = known.files.get(&key(path)?)?;
        (found.format.as_deref() == format.map(Format::as_str)).then_some(found)
    }

    /// The checkpoint of a file that did not change, as far as its times show.
    pub(super) fn unchanged(
        &self,
        path: &Path,
        source: &Source,
        format: Option<Format>,
    ) -> Option<&Checkpoint> {
        let known = self.known(path, format)?;
        let is_same =
            source.is_same_as(&known.source) && source.len() == known.bytes && !known.is_open;
        is_same.then_some(known)
    }

    /// How far an earlier import read a database, and what it read about conversations.
    pub(super) fn read_before(
        &self,
        path: &Path,
        format: Option<Format>,
    ) -> Option<(&str, &FileHeadings)> {
        let known = self.known(path, format)?;
        Some((known.cursor.as_deref()?, &known.headings))
    }

    /// How to read an open file whose times are not those of its checkpoint.
    pub(super) fn reading(
        &self,
        path: &Path,
        (file, source): (&mut fs::File, Source),
        format: Option<Format>,
    ) -> io::Result<Reading> {
        let Some(known) = self.known(path, format) else {
            return Ok(Reading::Whole);
        };
        let has_grown = source.len() > known.bytes;
        let state = self.store.zip(known.state.filter(|_| has_grown));
        let state = state.and_then(|(store, hash)| match self.carried.state(hash) {
            Some(bytes) => serde_json::from_slice(bytes).ok(),
            None => state::load(store, hash),
        });
        // Of a database, the bytes were not hashed.
        let is_read =
            source.len() < known.bytes || has_grown && state.is_none() || known.cursor.is_some();
        if is_read || !source.may_extend(&known.source) {
            return Ok(Reading::Whole);
        }
        let hash = source::hash_start(file, known.bytes)?;
        let Some(hash) = hash.filter(|hash| hash.digest() == known.hash) else {
            file.rewind()?;
            return Ok(Reading::Whole);
        };
        let checkpoint = known.clone();
        Ok(match state {
            None => Reading::Unchanged(Box::new(Checkpoint {
                source,
                ..checkpoint
            })),
            Some(state) => Reading::Rest(Box::new(Rest {
                checkpoint,
                hash,
                state,
            })),
        })
    }

    /// Whether the state after the last line of a file is to be kept.
    pub(super) fn keeps_state(&self, path: &Path, source: &Source, format: Option<Format>) -> bool {
        let may_grow = source.is_recent() || self.known(path, format).is_some();
        may_grow && source.len() >= self.state_bytes_min
    }

    /// Adds the checkpoint of a file, to be written if nothing about the file is to be reported.
    pub(super) fn add(
        &mut self,
        path: &Path,
        file: usize,
        mut checkpoint: Checkpoint,
        state: Option<&State>,
    ) {
        let Some(key) = key(path) else { return };
        let state = state.zip(self.store);
        let state = state.and_then(|(state, store)| state.written(store));
        if let Some(state) = &state {
            checkpoint.state = Some(xxh3_64(state));
        }
        let made = Made {
            file,
            checkpoint,
            state,
        };
        self.made.insert(key, made);
    }

    /// Writes no checkpoints of this import: the log failed.
    pub(super) fn give_up(&mut self) {
        self.is_lost = true;
    }

    /// Writes the checkpoints after all records. Errors are ignored: then the files are read again.
    pub(super) fn save(self, store: &Store, run: &mut Run<'_>) {
        if !self.made.is_empty() && store.sync().is_ok() {
            let saved = self.saved(store, run);
            let _ = saved.map(|(saved, states)| write(store, &saved, &states));
        }
    }

    /// `None` if the log lost records meanwhile. Nothing may be written that was erased.
    fn saved(self, store: &Store, run: &mut Run<'_>) -> Option<(Saved, States)> {
        let now = store.log_mark(&KINDS).ok()??;
        let before = self.log.filter(|_| !self.is_lost)?;
        if !before.is_extended_by(&now) {
            return None;
        }
        let known = self.known.as_ref();
        run.load_tombstones(false).ok()?;
        let log = now.saved(store.inner().storage(), known.map(|known| &known.log))?;
        let (mut files, mut states) = (BTreeMap::new(), States::new());
        for (path, made) in self.made {
            let has_cursor = made.checkpoint.cursor.is_some();
            if let Some(headings) = run.headings_of(made.file, has_cursor) {
                let checkpoint = Checkpoint {
                    headings,
                    ..made.checkpoint
                };
                states.extend(checkpoint.state.zip(made.state));
                files.insert(path, checkpoint);
            }
        }
        for (path, checkpoint) in known.into_iter().flat_map(|known| &known.files) {
            let is_there = || fs::metadata(path).is_ok();
            if !files.contains_key(path) && is_there() {
                files.insert(path.clone(), checkpoint.clone());
            }
        }
        files.retain(|_, checkpoint| !run.has_erased(&checkpoint.headings));
        Some((Saved { log, files }, states))
    }
}

impl Checkpoint {
    /// The checkpoint of a file that was read whole.
    pub(super) fn new(source: Source, format: Option<Format>, bytes: u64, hash: u64) -> Self {
        Checkpoint {
            source,
            format: format.map(|format| format.as_str().to_owned()),
            bytes,
            hash,
            headings: FileHeadings::default(),
            state: None,
            cursor: None,
            is_open: false,
        }
    }

    /// Sets how far a database was read, and whether it has items that still change.
    pub(super) fn with_cursor(self, cursor: Option<String>, is_open: bool) -> Self {
        Checkpoint {
            cursor,
            is_open,
            ..self
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn headings(&self) -> &FileHeadings {
        &self.headings
    }
}

fn write(store: &Store, saved: &Saved, states: &States) -> io::Result<()> {
    let storage = store.inner().storage();
    for (hash, state) in states {
        state::write(storage, *hash, state)?;
    }
    FILE.save(storage, saved)?;
    let used = saved.files.values().filter_map(|file| file.state);
    state::keep_only(storage, &used.collect())
}
