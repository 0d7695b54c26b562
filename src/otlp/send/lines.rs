//! The records of a log in the order of its lines, in chunks.

use std::collections::VecDeque;

use super::batch::is_sent;
use super::{Items, batch};
use crate::error::Result;
use crate::line::decode;
use crate::record::{ConversationMessage, ConversationTurn, Record, Role, TurnKind};
use crate::store::{PagedReader, Store};

/// Number of records, and size of their lines in bytes, at which a chunk ends.
const CHUNK_RECORDS: usize = 1_000;
const CHUNK_BYTES: usize = 1 << 20;

/// Records up to a sequence number.
pub(crate) struct Chunk {
    pub(crate) records: Vec<Record>,
    /// The greatest sequence number of its lines, also of those that are not sent.
    pub(crate) last_seq: u64,
    /// Size of its lines in bytes.
    pub(crate) bytes: u64,
}

impl Chunk {
    /// The items of its records.
    ///
    /// # Errors
    /// Errors of reading the log.
    pub(crate) fn items(&self, store: &Store) -> Result<Items> {
        batch::items(store, &self.records)
    }
}

/// Reads the lines after a sequence number in chunks. A chunk ends before an answer or a prompt if
/// it can, so that an answer and its parts are in the same one.
pub(crate) struct Chunks {
    reader: PagedReader,
    lines: VecDeque<Line>,
    bytes: usize,
    is_read: bool,
    last_seq: u64,
}

struct Line {
    seq: u64,
    bytes: usize,
    record: Option<Record>,
}

impl Chunks {
    pub(crate) fn after(store: &Store, seq: u64) -> Chunks {
        Chunks {
            reader: store.lines_since(seq),
            lines: VecDeque::new(),
            bytes: 0,
            is_read: false,
            last_seq: seq,
        }
    }

    /// The next chunk. `upto`: the sequence number at which it ends, if it was begun before.
    ///
    /// # Errors
    /// Errors of reading the log.
    pub(crate) fn next(&mut self, upto: Option<u64>) -> Result<Option<Chunk>> {
        let is_enough = |it: &Chunks| match upto {
            Some(upto) => it.lines.back().is_some_and(|line| line.seq >= upto),
            None => it.lines.len() >= CHUNK_RECORDS || it.bytes >= CHUNK_BYTES,
        };
        while !self.is_read && !is_enough(self) {
            let page = self.reader.page()?;
            self.is_read = page.is_empty();
            for line in page {
                let record = is_sent(line.kind)
                    .then(|| decode(line.kind, line.text.as_bytes()).ok())
                    .flatten();
                self.bytes += line.text.len();
                self.lines.push_back(Line {
                    seq: line.seq,
                    bytes: line.text.len(),
                    record: record.map(|it| it.record),
                });
            }
        }
        let end = match upto {
            Some(upto) => self.lines.iter().take_while(|it| it.seq <= upto).count(),
            None if self.is_read => self.lines.len(),
            None => self.cut(),
        };
        if end == 0 {
            return Ok(None);
        }
        let mut chunk = Chunk {
            records: Vec::new(),
            last_seq: self.last_seq,
            bytes: 0,
        };
        for line in self.lines.drain(..end) {
            self.bytes -= line.bytes;
            chunk.bytes += line.bytes as u64;
            chunk.last_seq = chunk.last_seq.max(line.seq);
            chunk.records.extend(line.record);
        }
        self.last_seq = chunk.last_seq;
        Ok(Some(chunk))
    }

    /// The place of the last line in the second half that begins something.
    fn cut(&self) -> usize {
        let half = self.lines.len() / 2;
        let begins = |at: &usize| match &self.lines[*at].record {
            Some(Record::Conversation(_)) => true,
            Some(Record::Message(message)) => {
                message.part_of.is_none() && message.role != Role::Tool
            }
            _ => false,
        };
        let is_prompt = |at: &usize| match &self.lines[*at].record {
            Some(Record::Conversation(_)) => true,
            Some(Record::Message(message)) => message.role == Role::User,
            Some(Record::Turn(turn)) => turn.kind == TurnKind::User,
            _ => false,
        };
        let places = || (half.max(1)..self.lines.len()).rev();
        // What was said before an answer is best in its span.
        let prompt = places().find(is_prompt);
        let Some(mut at) = prompt.or_else(|| places().find(begins)) else {
            return self.lines.len();
        };
        // A message and its turn are next to each other, in either order.
        let of_turn = |turn: &ConversationTurn, message: &ConversationMessage| {
            turn.id == message.id || turn.message_id == message.id
        };
        let is_pair = match (&self.lines[at - 1].record, &self.lines[at].record) {
            (Some(Record::Turn(turn)), Some(Record::Message(message)))
            | (Some(Record::Message(message)), Some(Record::Turn(turn))) => of_turn(turn, message),
            _ => false,
        };
        if is_pair && at > 1 {
            at -= 1;
        }
        at
    }
}
