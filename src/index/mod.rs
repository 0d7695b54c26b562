//! The index: 64-bit hashes and line locations, but neither keys nor payloads. It finds candidates;
//! the caller confirms a hit by reading the line.

mod blob;
mod build;
mod bytes;
mod conversation_totals;
mod dump;
mod entry;
mod groups;
mod keyed;
mod list;
mod paged;
mod relocate;
mod rows;
mod shape;
mod slots;
mod table;
mod walk;

pub(crate) use blob::{Blob, BlobFile, BlobSink, Out, SavedFile, Source};
pub(crate) use bytes::{Codec, In, encoded_as};
pub(crate) use conversation_totals::{ConversationSums, ConversationTotals, status_state};
pub(crate) use entry::{CALL_ID, Entry, Hasher, KeyHash, Loc, REQUEST_ID, Sums};
pub(crate) use rows::{Position, Row, RowId};
pub(crate) use table::{Extent, Select, Table};
pub(crate) use walk::Walk;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use self::conversation_totals::StatusSignal;
use self::dump::Saved;
use crate::record::{Kind, NUMBER_MAX};

/// Below this number of lines or rows, a thread is not worth its cost.
const PARALLEL_MIN: usize = if cfg!(test) { 500 } else { 20_000 };

/// One table per kind, and aggregates over many lines.
#[derive(Debug)]
pub(crate) struct Index {
    /// The saved index that parts of it are read from.
    source: Option<Arc<Source>>,
    tables: [Saved<Table>; Kind::ALL.len()],
    totals: Totals,
}

/// Aggregates over many lines.
#[derive(Debug)]
struct Totals {
    conversations: Saved<ConversationTotals>,
    update_id_max: Option<i64>,
    /// During a full build: by row, the sequence number of each conversation's latest line.
    said: Vec<u64>,
}

impl Default for Totals {
    fn default() -> Totals {
        Totals {
            conversations: Saved::new(()),
            update_id_max: None,
            said: Vec::new(),
        }
    }
}

impl Totals {
    /// Adds a line. `is_new`: it is the first of its key. For a message, returns its effect on the
    /// status of its conversation.
    fn add(&mut self, entry: &Entry, is_new: bool) -> Option<(KeyHash, StatusSignal)> {
        match entry.sums.as_deref() {
            Some(Sums::Message(measured)) if is_new => {
                let add = |totals: &mut ConversationTotals| totals.add(entry, measured);
                let signal = self.conversations.change(add)?;
                return Some((measured.conversation, signal));
            }
            Some(Sums::Update(id)) => self.raise_update_id(Some(*id)),
            Some(Sums::Message(_) | Sums::Conversation(_)) | None => {}
        }
        None
    }

    /// As [`add`](Self::add), for a line of a row during a full build.
    fn gather(&mut self, entry: &Entry, row: RowId, is_new: bool) {
        if let Some(Sums::Conversation(_)) = entry.sums.as_deref() {
            let place = row.0 as usize;
            self.said.resize(self.said.len().max(place + 1), 0);
            self.said[place] = entry.seq;
        }
        self.add(entry, is_new);
    }

    fn raise_update_id(&mut self, id: Option<i64>) {
        let id = id.filter(|id| *id <= NUMBER_MAX);
        self.update_id_max = self.update_id_max.max(id);
    }

    /// Merges the totals of another kind. Each kind contributes different totals.
    fn absorb(&mut self, other: Totals) {
        if !other.conversations.get().is_empty() {
            self.conversations = other.conversations;
        }
        self.update_id_max = self.update_id_max.max(other.update_id_max);
        if !other.said.is_empty() {
            self.said = other.said;
        }
    }
}

impl Index {
    pub(crate) fn new() -> Index {
        Index {
            source: None,
            tables: Kind::ALL.map(Saved::new),
            totals: Totals::default(),
        }
    }

    // `Kind::ALL` is in the order of its variants; a test checks this.
    pub(crate) fn table(&self, kind: Kind) -> &Table {
        self.tables[kind as usize].get()
    }

    /// The totals of each conversation's messages.
    pub(crate) fn conversation_totals(&self) -> &ConversationTotals {
        self.totals.conversations.get()
    }

    /// The greatest `update_id` of the inbox.
    pub(crate) fn update_id_max(&self) -> Option<i64> {
        self.totals.update_id_max
    }

    /// Raises the greatest number of a kind to at least this one.
    pub(crate) fn raise(&mut self, kind: Kind, number: i64) {
        // No table has a number below 0.
        if number > 0 && number > self.table(kind).number_max() {
            self.tables[kind as usize].change(|table| table.raise(number));
        }
    }

    /// Raises the greatest `update_id` to at least this one.
    pub(crate) fn raise_update_id(&mut self, id: Option<i64>) {
        self.totals.raise_update_id(id);
    }

    /// Adds one line. Lines must come in the order of their sequence numbers.
    pub(crate) fn apply(&mut self, kind: Kind, entry: &Entry) {
        let is_new = self.tables[kind as usize].change(|table| table.apply(entry));
        if let Some((conversation, signal)) = self.totals.add(entry, is_new) {
            let conversations = &mut self.tables[Kind::Conversations as usize];
            conversations.change(|conversations| {
                if let Some(row) = conversations.find(conversation) {
                    conversations.set_state(row, |said| signal.state(said));
                }
            });
        }
    }

    /// Builds the index of a whole store from the lines of each kind, in the order of their
    /// sequence numbers, split into one or more runs.
    pub(crate) fn build(lines: [Vec<Vec<Entry>>; Kind::ALL.len()]) -> Index {
        let mut index = Index::new();
        let build = |table: &mut Saved<Table>, runs: Vec<Vec<Entry>>| {
            let mut totals = Totals::default();
            let gather = |line: &Entry, row, is_new| totals.gather(line, row, is_new);
            table.change(|table| table.build(runs, gather));
            totals
        };
        let len: usize = lines.iter().flatten().map(Vec::len).sum();
        let kinds = index.tables.iter_mut().zip(lines);
        let kinds = kinds.filter(|(_, runs)| !runs.is_empty());
        let builds = kinds.map(|(table, runs)| move || build(table, runs));
        let totals = run_all(len >= PARALLEL_MIN, builds);
        for totals in totals {
            index.totals.absorb(totals);
        }
        index.take_statuses();
        index
    }

    /// Applies the status signals of messages to conversations, because the two kinds were built
    /// separately.
    fn take_statuses(&mut self) {
        let said = std::mem::take(&mut self.totals.said);
        let totals = self.totals.conversations.get();
        self.tables[Kind::Conversations as usize].change(|conversations| {
            for (conversation, signal, seq) in totals.said() {
                let row = conversations.find(conversation);
                let is_before = |said: &u64| *said < seq;
                let row = row.filter(|row| said.get(row.0 as usize).is_some_and(is_before));
                if let Some(row) = row {
                    conversations.set_state(row, |said| signal.state(said));
                }
            }
        });
    }
}

/// Runs all tasks, in threads of their own or one by one. The results are in the order of the
/// tasks.
pub(crate) fn run_all<T: Send>(
    in_threads: bool,
    tasks: impl IntoIterator<Item = impl FnOnce() -> T + Send>,
) -> Vec<T> {
    if !in_threads {
        return tasks.into_iter().map(|task| task()).collect();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
        let joined = threads.into_iter().map(ScopedJoinHandle::join);
        joined
            .map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests;
