//! State of one import over all its files: what was seen, what is counted and what is waiting.
//!
//! For turns, calls, messages and responses it keeps only ids, hashes and numbers. Contents are
//! kept only for results that arrive before their call, up to a limit.

mod erased;
mod headings;
mod kept;
mod messages;
mod results;

use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

pub(super) use headings::FileHeadings;
use headings::Headings;
use kept::KeptIds;
pub(super) use kept::KeptLines;
use messages::Messages;

use super::Format;
use super::batch::{Batch, Log, Place, Sent};
use super::facts::Facts;
use super::ids::{IdMap, IdSet};
use super::report::{FileState, Report};
use crate::error::Result;
use crate::record::{ConversationTurn, Record, ToolCallDone, ToolCallReq};
use crate::store::Tombstones;

/// Maximum size in bytes of the results that wait for their calls.
const HELD_BYTES_MAX: usize = 64 << 20;

pub(super) struct Run<'a> {
    batch: Batch<'a>,
    files: Vec<FileState>,
    turns: IdMap<Turn>,
    /// The calls by their `request_id`.
    calls: IdMap<Call>,
    results: IdSet,
    messages: Messages,
    headings: Headings,
    /// What is kept of the file being read, if anything.
    kept: Option<KeptIds>,
    tombstones: Tombstones,
    restores: bool,
    /// Conversations and requests that were left out because they were erased.
    erased: IdSet,
    /// Calls of lines that were left out. Their results may be on other lines.
    calls_left_out: IdSet,
    held: Vec<(Place, ToolCallDone)>,
    held_bytes: usize,
    held_bytes_max: usize,
}

struct Turn {
    /// Hash of its kind and content.
    said: u64,
    thread: Option<Uuid>,
    /// The last file that contains it.
    file: usize,
}

/// Whether a line was seen before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    InAnotherFile,
    InThisFile,
}

struct Call {
    started_at: i64,
    tool_name: Arc<str>,
    /// Hash of the tool's name and the arguments' hash.
    asked: u64,
    /// The last file that contains it.
    file: usize,
}

impl<'a> Run<'a> {
    pub(super) fn new(log: &'a dyn Log) -> Self {
        Run {
            batch: Batch::new(log),
            files: Vec::new(),
            turns: IdMap::default(),
            calls: IdMap::default(),
            results: IdSet::default(),
            messages: Messages::default(),
            headings: Headings::default(),
            kept: None,
            tombstones: Tombstones::default(),
            restores: false,
            erased: IdSet::default(),
            calls_left_out: IdSet::default(),
            held: Vec::new(),
            held_bytes: 0,
            held_bytes_max: HELD_BYTES_MAX,
        }
    }

    #[cfg(test)]
    pub(super) fn set_held_bytes_max(&mut self, bytes: usize) {
        self.held_bytes_max = bytes;
    }

    /// Starts a file. Returns the place before its first line.
    pub(super) fn open_file(&mut self, path: &Path) -> Place {
        self.files.push(FileState::new(path));
        Place {
            file: self.files.len() - 1,
            line: 0,
        }
    }

    pub(super) fn set_format(&mut self, place: Place, format: Format) {
        self.state(place).format = Some(format);
    }

    pub(super) fn count_file(&mut self, place: Place) {
        self.report(place).files = 1;
    }

    /// Counts a file that did not change since an earlier import.
    pub(super) fn skip_file(&mut self, path: &Path, headings: &FileHeadings) -> Place {
        let place = self.open_file(path);
        self.report(place).unchanged = 1;
        self.recall_headings(place, headings);
        place
    }

    pub(super) fn count_line(&mut self, place: Place) {
        self.report(place).lines += 1;
    }

    pub(super) fn broken(&mut self, place: Place, reason: impl Into<String>) {
        self.state(place).broken(place.line, reason.into());
    }

    /// Adds the content of a line, unless the same line was seen before.
    pub(super) fn take(&mut self, place: Place, facts: Facts<'_>) -> Result<()> {
        if facts.is_repeated {
            self.report(place).repeated += 1;
            return Ok(());
        }
        let Some(facts) = self.not_erased(place, facts)? else {
            return Ok(());
        };
        if let Some(conversation) = facts.conversation {
            self.restore_talk(place, *conversation)?;
        }
        for heading in facts.headings {
            self.head(place, heading)?;
        }
        let thread = facts.turn.as_ref().and_then(|turn| turn.thread_id);
        let seen = match facts.turn {
            Some(turn) => self.turn(place, turn)?,
            None => Seen::Never,
        };
        let answered = match facts.results.as_slice() {
            [done] => Some(done.request_id),
            _ => facts.answered,
        };
        for call in facts.calls {
            self.call(place, call, seen)?;
        }
        if seen == Seen::Never {
            for result in facts.results {
                self.result(place, result)?;
            }
            for (what, n) in facts.not_understood {
                self.report(place).count_not_understood(&what, n);
            }
        }
        if seen != Seen::InThisFile
            && let Some(said) = facts.said
        {
            self.say(place, said, answered, thread)?;
            for said in facts.advice {
                self.say(place, said, None, thread)?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, place: Place, turn: ConversationTurn) -> Result<Seen> {
        let said = hash(turn.kind.as_str(), &turn.content);
        let file = place.file;
        if let Some(kept) = &mut self.kept {
            kept.turns.push(turn.id);
        }
        match self.turns.entry(turn.id) {
            Entry::Vacant(entry) => entry.insert(Turn {
                said,
                thread: turn.thread_id,
                file,
            }),
            Entry::Occupied(mut entry) if entry.get().said == said => {
                let before = std::mem::replace(&mut entry.get_mut().file, file);
                return Ok(if before == file {
                    Seen::InThisFile
                } else {
                    Seen::InAnotherFile
                });
            }
            Entry::Occupied(_) => {
                let reason = format!(
                    "an earlier line has the id {} and says something else: the first stands",
                    turn.id
                );
                self.broken(place, reason);
                return Ok(Seen::InThisFile);
            }
        };
        self.report(place).turns += 1;
        self.push(place, turn.into())?;
        Ok(Seen::Never)
    }

    fn call(&mut self, place: Place, req: ToolCallReq, seen: Seen) -> Result<()> {
        let asked = hash(&req.tool_name, &req.args_sha256);
        let tool_name = self.messages.shared(&req.tool_name);
        if let Some(kept) = &mut self.kept {
            kept.calls.push(req.request_id);
        }
        match self.calls.entry(req.request_id) {
            // The same line occurred before in this file with other content.
            _ if seen == Seen::InThisFile => return Ok(()),
            Entry::Vacant(entry) => entry.insert(Call {
                started_at: req.started_at.at,
                tool_name,
                asked,
                file: place.file,
            }),
            // Storing it again would move the call to another parent. Every import would move it
            // back and forth.
            Entry::Occupied(mut entry) if entry.get().asked == asked => {
                entry.get_mut().file = place.file;
                return Ok(());
            }
            Entry::Occupied(_) => {
                let reason = format!(
                    "an earlier line has the call id {} for another call: the first stands",
                    shown(&req.call_id)
                );
                self.broken(place, reason);
                return Ok(());
            }
        };
        self.report(place).tool_calls += 1;
        self.push(place, req.into())
    }

    /// Counts an incomplete last line. It is imported once it is complete.
    pub(super) fn unfinished(&mut self, place: Place) {
        self.report(place).unfinished += 1;
    }

    /// Whether the file has items that a later import reads.
    pub(super) fn is_unfinished(&mut self, place: Place) -> bool {
        self.report(place).unfinished > 0
    }

    /// Ends a file.
    pub(super) fn end_file(&mut self) {
        self.kept = None;
        self.messages.forget_file();
    }

    fn push(&mut self, place: Place, record: Record) -> Result<()> {
        if let Some(record) = self.batch.push(place, record) {
            self.send_batch()?;
            // An empty batch accepts any record.
            self.batch.push(place, record);
        }
        Ok(())
    }

    /// Sends a full batch.
    fn send_batch(&mut self) -> Result<()> {
        self.head_waiting();
        let sent = self.batch.send()?;
        self.note(sent);
        Ok(())
    }

    /// Sends what is waiting, and waits until all is written.
    fn send_last(&mut self) -> Result<()> {
        self.head_waiting();
        let sent = self.batch.send_last()?;
        self.note(sent);
        Ok(())
    }

    fn note(&mut self, sent: Sent) {
        for place in sent.added {
            self.report(place).added += 1;
        }
        for (place, error) in sent.refused {
            self.broken(place, error.to_string());
        }
    }

    /// The files of which records were added.
    pub(super) fn files_with_news(&self) -> impl Iterator<Item = &FileState> {
        let files = self.files.iter();
        files.filter(|file| file.as_report().report.added > 0)
    }

    pub(super) fn into_report(mut self) -> Report {
        // After an error of the log, a batch may still be in writing.
        if let Ok(sent) = self.batch.wait() {
            self.note(sent);
        }
        let mut sum = Report::default();
        for state in self.files {
            let file = state.into_report();
            sum.add(&file.report);
            if file.report.unchanged == 0 {
                sum.per_file.push(file);
            }
        }
        sum
    }

    // Only `open_file` creates places, and files are never removed.
    fn state(&mut self, place: Place) -> &mut FileState {
        &mut self.files[place.file]
    }

    fn report(&mut self, place: Place) -> &mut Report {
        self.state(place).report()
    }
}

fn hash(a: &str, b: &str) -> u64 {
    xxh3_64(a.as_bytes()) ^ xxh3_64(b.as_bytes()).rotate_left(1)
}

fn shown(id: &str) -> String {
    let id: String = id.chars().take(80).collect();
    format!("{id:?}")
}
