//! Reads a canonical line as a row of columns, without building a record. Texts that are not wanted
//! are skipped, so that a query of a few columns copies nothing else.

// A field is constant where the code that reads it is inlined.
#![allow(clippy::inline_always)]

use std::collections::BTreeMap;

use uuid::Uuid;

use super::canonical::NotCanonical;
use super::cursor::Cursor;
use super::{Op, split_crc};
use crate::record::columns::{Cell, Row};
use crate::record::declare::{Field, FieldReader, FieldWriter, Fields, Word};
use crate::record::{
    Client, ConversationMessage, ConversationTurn, Day, Event, HistoryEntry, IdHashes, Kind,
    MessageSums, Sketch, ThoughtRecord, Timestamp, ToolCallDone, ToolCallReq, Validity,
    payload_json,
};

type Read<T> = Result<T, NotCanonical>;

/// Adds the values of a line to the row of its record. Returns the op of the line, or `None` if the
/// line is not, or not certainly, as decklog wrote it, or for a kind whose rows need more than the
/// values of lines. The row is then incomplete. Does not check the checksum.
pub(crate) fn add_line(row: &mut Row, kind: Kind, line: &[u8]) -> Option<Op> {
    let (covered, _) = split_crc(line)?;
    let mut line = Cursor::of_texts(covered)?;
    let op = line.op(kind)?;
    let mut reader = RowReader { line, row };
    match (kind, op) {
        (Kind::ConversationTurns, Op::Asserted) => ConversationTurn::pass(&mut reader),
        (Kind::ToolCalls, Op::Requested) => ToolCallReq::pass(&mut reader),
        (Kind::ToolCalls, Op::Completed | Op::Failed) => ToolCallDone::pass(&mut reader),
        (Kind::Events, _) => Event::pass(&mut reader),
        (Kind::History, _) => HistoryEntry::pass(&mut reader),
        (Kind::Messages, _) => ConversationMessage::pass(&mut reader),
        (Kind::ThoughtRecords, _) => ThoughtRecord::pass(&mut reader),
        _ => return None,
    }
    .ok()?;
    reader.line.end()?;
    Some(op)
}

struct RowReader<'a, 'r> {
    line: Cursor<'a>,
    row: &'r mut Row,
}

impl<'a> RowReader<'a, '_> {
    #[inline(always)]
    fn value<T>(
        &mut self,
        field: &'static Field,
        value: impl FnOnce(&mut Cursor<'a>) -> Option<T>,
    ) -> Read<Option<T>> {
        // A missing value with a default is left to the parser.
        let read = if field.is_optional {
            self.line.may(field.member, value)
        } else {
            self.line.need(field.member, value).map(Some)
        };
        read.ok_or(NotCanonical)
    }

    /// Sets a text, or skips it.
    #[inline(always)]
    fn text_or(
        &mut self,
        field: &'static Field,
        text: impl FnOnce(&mut Cursor<'a>) -> Option<String>,
        pass: impl FnOnce(&mut Cursor<'a>) -> Option<()>,
        cell: impl FnOnce(String) -> Cell,
    ) -> Read<()> {
        if self.row.wants(field.name) {
            let text = self.value(field, text)?;
            self.row.set_if(field.name, text, cell);
        } else {
            self.value(field, pass)?;
        }
        Ok(())
    }
}

/// Methods that read a value of their class with a function, and set it with the method of the same
/// name.
macro_rules! values {
    ($($method:ident: $type:ty = $read:expr;)+) => {
        $(
            #[inline(always)]
            fn $method(&mut self, field: &'static Field) -> Read<Option<$type>> {
                let value = self.value(field, $read)?;
                let set = FieldWriter::$method(self.row, field, value.as_ref());
                set.map(|()| None).map_err(|_| NotCanonical)
            }
        )+
    };
}

impl FieldReader for RowReader<'_, '_> {
    type Error = NotCanonical;
    const READS_OTHER_OPS: bool = false;

    values! {
        uuid: Uuid = Cursor::uuid;
        names: Vec<String> = Cursor::texts;
        client: Client = Cursor::word;
        int: i64 = Cursor::integer;
        fraction: f64 = Cursor::fraction;
        flag: bool = Cursor::flag;
        instant: Timestamp = Cursor::word;
        day: Day = Cursor::word;
        sum: u64 = Cursor::digits;
        sketch: Sketch = Cursor::parsed;
        counts: BTreeMap<String, u64> = Cursor::parsed;
        sums: MessageSums = Cursor::parsed;
    }

    #[inline(always)]
    fn text(&mut self, field: &'static Field) -> Read<Option<String>> {
        self.text_or(field, Cursor::text, Cursor::pass_text, Cell::Text)?;
        Ok(None)
    }

    #[inline(always)]
    fn payload(&mut self, field: &'static Field) -> Read<Option<String>> {
        self.text_or(field, Cursor::payload, Cursor::pass_payload, |text| {
            Cell::Json(payload_json(&text).into_owned())
        })?;
        Ok(None)
    }

    #[inline(always)]
    fn validity(&mut self, field: &'static Field) -> Read<Option<Validity>> {
        let value = self.value(field, Cursor::integer)?.map(Validity::at);
        let set = self.row.validity(field, value.as_ref());
        set.map(|()| None).map_err(|_| NotCanonical)
    }

    fn hashes(&mut self, _: &'static Field) -> Read<Option<IdHashes>> {
        Err(NotCanonical)
    }

    #[inline(always)]
    fn word<W: Word>(&mut self, field: &'static Field) -> Read<Option<W>> {
        let value = self.value(field, Cursor::word::<W>)?;
        let set = FieldWriter::word(self.row, field, value.as_ref());
        set.map(|()| None).map_err(|_| NotCanonical)
    }

    fn op<W: Word>(&mut self, _: &'static Field) -> Read<W> {
        Err(NotCanonical)
    }

    fn at(&mut self, _: &'static Field) -> Read<i64> {
        Err(NotCanonical)
    }

    fn missing(&self, _: &str) -> NotCanonical {
        NotCanonical
    }

    fn repeated(&mut self, field: &'static Field) -> Read<()> {
        // The row has it from the line that has the record.
        let parent_id = self.line.may(field.member, Cursor::uuid);
        parent_id.map(drop).ok_or(NotCanonical)
    }
}
