//! The way into the log: batches of bounded size, and what the log said to each record.

use uuid::Uuid;

use crate::collections::{
    Ack, AckStatus, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, ObservabilityStore, RECORD_BYTES,
};
use crate::error::{Error, Result};
use crate::line::text_len;
use crate::record::{ConversationMessage, Record, ToolCall};
use crate::store::Store;

/// What an import needs of the log; the tests have one in memory.
pub(super) trait Log {
    fn record_batch(&self, records: Vec<Record>) -> Result<Vec<Result<Ack>>>;
    fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>>;
    fn get_message(&self, id: Uuid) -> Result<Option<ConversationMessage>>;
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
}

/// Where a record comes from: a file of the run and a line in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) line: u64,
}

/// What became of a record.
pub(super) enum Outcome {
    Added,
    Refused(Error),
}

/// Records on their way to the log.
pub(super) struct Batch<'a> {
    log: &'a dyn Log,
    waiting: Vec<(Place, Record)>,
    bytes: usize,
}

impl<'a> Batch<'a> {
    pub(super) fn new(log: &'a dyn Log) -> Self {
        Batch {
            log,
            waiting: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn log(&self) -> &'a dyn Log {
        self.log
    }

    /// Whether this record has to wait for [`send`](Batch::send).
    pub(super) fn is_full_for(&self, record: &Record) -> bool {
        self.waiting.len() >= BATCH_RECORDS_MAX
            || (!self.waiting.is_empty() && self.bytes + size(record) > BATCH_BYTES_MAX)
    }

    pub(super) fn push(&mut self, place: Place, record: Record) {
        self.bytes += size(&record);
        self.waiting.push((place, record));
    }

    /// Hands everything to the log and says what became of it, without what changed nothing.
    ///
    /// # Errors
    /// What is no judgement on a record but ends the import.
    pub(super) fn send(&mut self) -> Result<Vec<(Place, Outcome)>> {
        self.bytes = 0;
        if self.waiting.is_empty() {
            return Ok(Vec::new());
        }
        let (places, records): (Vec<Place>, Vec<Record>) = self.waiting.drain(..).unzip();
        let mut outcomes = Vec::new();
        for (place, answer) in places.into_iter().zip(self.log.record_batch(records)?) {
            match answer {
                Ok(ack) if ack.status == AckStatus::Added => {
                    outcomes.push((place, Outcome::Added));
                }
                Ok(_) => {}
                Err(error) if error.kind().is_judgement() => {
                    outcomes.push((place, Outcome::Refused(error)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(outcomes)
    }
}

fn size(record: &Record) -> usize {
    RECORD_BYTES + text_len(record)
}
