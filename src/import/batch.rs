//! Writes to the log in batches of bounded size and collects the log's result for each record.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use uuid::Uuid;

use crate::collections::{
    Ack, AckStatus, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, GROUPS, ObservabilityStore, PreparedBatch,
    RECORD_BYTES, group, has_ids,
};
use crate::error::{Error, ErrorKind, Result};
use crate::line::text_len;
use crate::record::{Conversation, ConversationMessage, ConversationTurn, Kind, Record, ToolCall};
use crate::store::{Store, Tombstones};

/// The operations that an import needs of the log. The tests implement it in memory.
pub(super) trait Log {
    fn record_batch(&self, records: Vec<Record>) -> Result<Vec<Result<Ack>>>;
    fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>>;
    fn get_message(&self, id: Uuid) -> Result<Option<ConversationMessage>>;
    fn get_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>>;

    /// Whether the log has messages with these ids, and turns.
    fn has(&self, _messages: &[Uuid], _turns: &[Uuid]) -> Result<Option<(Vec<bool>, Vec<bool>)>> {
        Ok(None)
    }

    /// The conversation with this id.
    fn conversation(&self, _id: Uuid) -> Result<Option<Conversation>> {
        Ok(None)
    }

    /// Applies a change to a conversation, if it exists. Returns whether the conversation changed.
    fn amend(&self, _id: Uuid, _change: &dyn Fn(&mut Conversation)) -> Result<bool> {
        Ok(false)
    }

    /// The stored form of a title, after redaction.
    fn kept_title(&self, title: String) -> Result<String> {
        Ok(title)
    }

    /// The tombstones of erased data, which the import leaves out.
    fn tombstones(&self) -> Result<Tombstones> {
        Ok(Tombstones::default())
    }

    /// Removes a tombstone permanently, so that its data can be imported again.
    fn restore(&self, _tombstone: &str) -> Result<()> {
        Ok(())
    }

    /// The log, if another thread can write to it while this one reads.
    fn shared(&self) -> Option<Store> {
        None
    }
}

impl Log for Store {
    fn record_batch(&self, records: Vec<Record>) -> Result<Vec<Result<Ack>>> {
        self.record_batch_if_new(records)
    }

    fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>> {
        ObservabilityStore::get_tool_call(self, request_id, call_id)
    }

    fn get_message(&self, id: Uuid) -> Result<Option<ConversationMessage>> {
        Store::get_message(self, id)
    }

    fn get_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>> {
        Store::get_turn(self, id)
    }

    fn has(&self, messages: &[Uuid], turns: &[Uuid]) -> Result<Option<(Vec<bool>, Vec<bool>)>> {
        self.inner().with_snapshot(|view| {
            let messages = has_ids(view, Kind::Messages, messages);
            Ok(Some((
                messages,
                has_ids(view, Kind::ConversationTurns, turns),
            )))
        })
    }

    fn conversation(&self, id: Uuid) -> Result<Option<Conversation>> {
        Ok(self.get_conversation(id)?.map(|(found, _)| found))
    }

    fn amend(&self, id: Uuid, change: &dyn Fn(&mut Conversation)) -> Result<bool> {
        self.amend_conversation(id, change)
    }

    fn kept_title(&self, title: String) -> Result<String> {
        self.kept_title(title)
    }

    fn tombstones(&self) -> Result<Tombstones> {
        self.inner().tombstones()
    }

    fn restore(&self, tombstone: &str) -> Result<()> {
        self.inner().lift_tombstone(tombstone)
    }

    fn shared(&self) -> Option<Store> {
        Some(self.clone())
    }
}

/// The source of a record: a file of the run and a line in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) line: u64,
}

/// The relevant part of the log's results for a batch.
#[derive(Default)]
pub(super) struct Sent {
    /// The sources of the records that were added.
    pub(super) added: Vec<Place>,
    /// The records that the log rejected, in the order in which they were passed.
    pub(super) refused: Vec<(Place, Error)>,
}

/// What the log answered for each record of a batch.
type Answers = Result<Vec<Result<Ack>>>;
/// The source of a record, with its position in its batch.
type From = (u32, Place);

/// A batch of which only the first records are prepared.
type HalfPrepared = (PreparedBatch, Vec<Record>);

/// A thread that writes batches while lines are read.
struct Writer {
    store: Store,
    batches: Option<SyncSender<HalfPrepared>>,
    answers: Receiver<Answers>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// `None` if the log cannot be shared, or if there is no thread to be had.
    fn start(log: &dyn Log) -> Option<Writer> {
        let store = log.shared()?;
        let (batches, waiting) = sync_channel::<HalfPrepared>(1);
        let (told, answers) = sync_channel(1);
        let writer = store.clone();
        let work = move || {
            for (mut batch, rest) in waiting {
                batch.append(writer.prepare_batch_if_new(rest));
                if told.send(writer.put_in_order(batch)).is_err() {
                    return;
                }
            }
        };
        let name = "decklog-import".to_owned();
        let thread = thread::Builder::new().name(name).spawn(work).ok()?;
        Some(Writer {
            store,
            batches: Some(batches),
            answers,
            thread: Some(thread),
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported by its thread.
            let _ = thread.join();
        }
    }
}

/// Records that are waiting to be written.
///
/// A full batch is sent grouped by kind, because a log makes one write for each run of records of
/// one kind. Records whose order matters have the same kind: a call and its outcome, the messages
/// of a conversation. The only exception is that a conversation comes before its messages. The last
/// batch of a path keeps its order, so that the end of the log reads like the session.
pub(super) struct Batch<'a> {
    log: &'a dyn Log,
    /// Each record with its source and its position in the batch, by [`group`].
    waiting: [Vec<(u32, Place, Record)>; GROUPS],
    records: u32,
    bytes: usize,
    /// Started for the second batch: most imports have one.
    writer: Option<Writer>,
    has_sent: bool,
    /// The sources of the records that are being written.
    writing: Option<Vec<From>>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(log: &'a dyn Log) -> Self {
        Batch {
            log,
            waiting: [const { Vec::new() }; GROUPS],
            records: 0,
            bytes: 0,
            writer: None,
            has_sent: false,
            writing: None,
        }
    }

    pub(super) fn log(&self) -> &'a dyn Log {
        self.log
    }

    /// Adds a record. Returns the record if the batch is full; call [`send`](Batch::send) first.
    pub(super) fn push(&mut self, place: Place, record: Record) -> Option<Record> {
        let bytes = RECORD_BYTES + text_len(&record);
        let is_full = self.records as usize >= BATCH_RECORDS_MAX
            || (self.records > 0 && self.bytes + bytes > BATCH_BYTES_MAX);
        if is_full {
            return Some(record);
        }
        self.waiting[group(&record)].push((self.records, place, record));
        self.records += 1;
        self.bytes += bytes;
        None
    }

    /// The waiting conversations.
    pub(super) fn conversations(&mut self) -> impl Iterator<Item = &mut Conversation> {
        let waiting = self.waiting[0].iter_mut();
        waiting.filter_map(|(_, _, record)| match record {
            Record::Conversation(conversation) => Some(conversation),
            _ => None,
        })
    }

    /// Writes a full batch to the log, by kind, while the next one is collected. Returns the results
    /// of the batch before it, without records that changed nothing.
    ///
    /// # Errors
    /// Any error that does not concern a single record. It ends the import.
    pub(super) fn send(&mut self) -> Result<Sent> {
        let (from, records) = self.drain(true);
        if self.has_sent && self.writer.is_none() {
            self.writer = Writer::start(self.log);
        }
        self.has_sent = true;
        let Some(writer) = &self.writer else {
            return Sent::default().and(from, self.log.record_batch(records));
        };
        // Redaction needs no lock. That of a third of the records leaves as much to do for this
        // thread as for the other.
        let mut records = records;
        let rest = records.split_off(records.len() / 3);
        let batch = (writer.store.prepare_batch_if_new(records), rest);
        let sent = self.wait()?;
        let batches = self.writer.as_ref().and_then(|it| it.batches.as_ref());
        if batches.is_none_or(|batches| batches.send(batch).is_err()) {
            return Err(ended());
        }
        self.writing = Some(from);
        Ok(sent)
    }

    /// Writes all records to the log, in their order, and waits until they are written.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn send_last(&mut self) -> Result<Sent> {
        let sent = self.wait()?;
        if self.records == 0 {
            return Ok(sent);
        }
        let (from, records) = self.drain(false);
        sent.and(from, self.log.record_batch(records))
    }

    /// Waits for the batch that is being written.
    pub(super) fn wait(&mut self) -> Result<Sent> {
        let sent = Sent::default();
        match (self.writing.take(), &self.writer) {
            (Some(from), Some(writer)) => {
                sent.and(from, writer.answers.recv().unwrap_or_else(|_| Err(ended())))
            }
            _ => Ok(sent),
        }
    }

    /// Takes all records out, with their sources.
    fn drain(&mut self, by_kind: bool) -> (Vec<From>, Vec<Record>) {
        let waiting = self.waiting.iter_mut().flat_map(|kind| kind.drain(..));
        let mut waiting: Vec<_> = waiting.collect();
        if !by_kind {
            waiting.sort_unstable_by_key(|(order, ..)| *order);
        }
        self.records = 0;
        self.bytes = 0;
        let waiting = waiting.into_iter();
        waiting
            .map(|(order, place, record)| ((order, place), record))
            .unzip()
    }
}

impl Sent {
    /// Adds the answers for a batch.
    fn and(mut self, from: Vec<From>, answers: Answers) -> Result<Sent> {
        let mut refused = Vec::new();
        for ((order, place), answer) in from.into_iter().zip(answers?) {
            match answer {
                Ok(ack) if ack.status == AckStatus::Added => self.added.push(place),
                Ok(_) => {}
                Err(error) if error.kind().is_judgement() => refused.push((order, place, error)),
                Err(error) => return Err(error),
            }
        }
        refused.sort_unstable_by_key(|(order, ..)| *order);
        let refused = refused.into_iter();
        self.refused
            .extend(refused.map(|(_, place, error)| (place, error)));
        Ok(self)
    }
}

/// The thread that writes has panicked.
fn ended() -> Error {
    Error::new(ErrorKind::Io, "the thread that writes to the log ended")
}
