//! The way into the log: batches of bounded size, and what the log said to each record.

use uuid::Uuid;

use crate::collections::{
    Ack, AckStatus, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, ObservabilityStore, RECORD_BYTES,
};
use crate::error::{Error, Result};
use crate::line::text_len;
use crate::record::{Conversation, ConversationMessage, ConversationTurn, Kind, Record, ToolCall};
use crate::store::{Store, Tombstones};

/// What an import needs of the log; the tests have one in memory.
pub(super) trait Log {
    fn record_batch(&self, records: Vec<Record>) -> Result<Vec<Result<Ack>>>;
    fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>>;
    fn get_message(&self, id: Uuid) -> Result<Option<ConversationMessage>>;
    fn get_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>>;

    /// The conversation with this id.
    fn conversation(&self, _id: Uuid) -> Result<Option<Conversation>> {
        Ok(None)
    }

    /// Changes a conversation, if the log has it; whether it is another one then.
    fn amend(&self, _id: Uuid, _change: &dyn Fn(&mut Conversation)) -> Result<bool> {
        Ok(false)
    }

    /// A title as the log keeps it.
    fn kept_title(&self, title: String) -> Result<String> {
        Ok(title)
    }

    /// What was erased and is to be left out.
    fn tombstones(&self) -> Result<Tombstones> {
        Ok(Tombstones::default())
    }

    /// Has what was erased come back, for good.
    fn restore(&self, _tombstone: &str) -> Result<()> {
        Ok(())
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
}

/// Where a record comes from: a file of the run and a line in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) line: u64,
}

/// Of what the log said to a batch, the part that counts.
#[derive(Default)]
pub(super) struct Sent {
    /// Where the records come from that are now in the log.
    pub(super) added: Vec<Place>,
    /// What the log refused, in the order in which it was handed over.
    pub(super) refused: Vec<(Place, Error)>,
}

/// Records on their way to the log.
///
/// A full batch goes kind by kind, because a log writes once for every run of records of one kind.
/// What may not be reordered is of one kind: a call and its outcome, the messages of a
/// conversation. Only a conversation comes before its messages. The last batch of a path stays in
/// order, so that the end of the log reads as the session did.
pub(super) struct Batch<'a> {
    log: &'a dyn Log,
    /// By [`rank`], each record with its place in the batch.
    waiting: [Vec<(u32, Place, Record)>; RANKS],
    records: u32,
    bytes: usize,
}

const RANKS: usize = 4;

fn rank(record: &Record) -> usize {
    match record.kind() {
        Kind::Conversations => 0,
        Kind::ConversationTurns => 1,
        Kind::ToolCalls => 2,
        // Messages; there are no others.
        _ => 3,
    }
}

impl<'a> Batch<'a> {
    pub(super) fn new(log: &'a dyn Log) -> Self {
        Batch {
            log,
            waiting: [const { Vec::new() }; RANKS],
            records: 0,
            bytes: 0,
        }
    }

    pub(super) fn log(&self) -> &'a dyn Log {
        self.log
    }

    /// Takes a record, or gives it back if it has to wait for [`send`](Batch::send).
    pub(super) fn push(&mut self, place: Place, record: Record) -> Option<Record> {
        let bytes = RECORD_BYTES + text_len(&record);
        let is_full = self.records as usize >= BATCH_RECORDS_MAX
            || (self.records > 0 && self.bytes + bytes > BATCH_BYTES_MAX);
        if is_full {
            return Some(record);
        }
        self.waiting[rank(&record)].push((self.records, place, record));
        self.records += 1;
        self.bytes += bytes;
        None
    }

    /// The conversations that wait.
    pub(super) fn conversations(&mut self) -> impl Iterator<Item = &mut Conversation> {
        let waiting = self.waiting[0].iter_mut();
        waiting.filter_map(|(_, _, record)| match record {
            Record::Conversation(conversation) => Some(conversation),
            _ => None,
        })
    }

    /// Hands everything to the log, `by_kind` or in order, and says what became of it, without what changed nothing.
    ///
    /// # Errors
    /// What is no judgement on a record but ends the import.
    pub(super) fn send(&mut self, by_kind: bool) -> Result<Sent> {
        let mut sent = Sent::default();
        if self.records == 0 {
            return Ok(sent);
        }
        let waiting = self.waiting.iter_mut().flat_map(|kind| kind.drain(..));
        let mut waiting: Vec<_> = waiting.collect();
        if !by_kind {
            waiting.sort_unstable_by_key(|(order, ..)| *order);
        }
        let (places, records): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|(order, place, record)| ((order, place), record))
            .unzip();
        self.records = 0;
        self.bytes = 0;
        let mut refused = Vec::new();
        for ((order, place), answer) in places.into_iter().zip(self.log.record_batch(records)?) {
            match answer {
                Ok(ack) if ack.status == AckStatus::Added => sent.added.push(place),
                Ok(_) => {}
                Err(error) if error.kind().is_judgement() => refused.push((order, place, error)),
                Err(error) => return Err(error),
            }
        }
        refused.sort_unstable_by_key(|(order, ..)| *order);
        let refused = refused.into_iter();
        sent.refused = refused.map(|(_, place, error)| (place, error)).collect();
        Ok(sent)
    }
}
