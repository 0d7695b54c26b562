//! The fast path of reading: decodes a line in canonical form that has no unknown members. If it
//! succeeds, the parser would give the same result.

// A field is constant where the code that reads it is inlined.
#![allow(clippy::inline_always)]

use std::collections::BTreeMap;

use uuid::Uuid;

use super::cursor::Cursor;
use super::{Decoded, Op, member, split_crc};
use crate::record::declare::{Field, FieldReader, Fields, Word};
use crate::record::{
    Client, ConversationMessage, ConversationTurn, Day, Event, HistoryEntry, IdHashes, Kind,
    MessageSums, Record, Sketch, Timestamp, ToolCallDone, ToolCallReq, Validity,
};

/// The input is not, or not certainly, in canonical form.
#[derive(Debug)]
pub(super) struct NotCanonical;

type Read<T> = Result<T, NotCanonical>;

/// Decodes a canonical line. Does not check its checksum.
#[inline] // Records are expensive to move.
pub(super) fn decode(kind: Kind, line: &[u8]) -> Option<Decoded> {
    let (covered, _) = split_crc(line)?;
    let mut line = Cursor::of_texts(covered)?;
    let (seq, at, op) = line.head(kind)?;
    let is_task = op == Op::Queued && {
        let mut ahead = line;
        ahead.need(member!("id"), Cursor::integer)?;
        ahead.skip(member!("update_id"))
    };
    let mut reader = LineReader::new(line, op, at);
    let record = Record::read(kind, op, is_task, &mut reader).ok()?;
    reader.line.end()?;
    Some(Decoded {
        seq: Some(seq),
        op,
        record,
    })
}

/// Whether the bytes covered by a line's checksum surely are a complete record in canonical form
/// whose own time equals the line's. The envelope then matches what [`decode`] would read. Nothing
/// is decoded, so a scan can check every line this way.
#[inline]
pub(super) fn is_sure(kind: Kind, covered: &[u8], at: i64) -> bool {
    let passed = || {
        let mut line = Cursor::of_texts(covered)?;
        let op = line.op(kind)?;
        let mut line = LinePasser { line, at };
        match (kind, op) {
            (Kind::ConversationTurns, _) => ConversationTurn::pass(&mut line),
            (Kind::ToolCalls, Op::Completed | Op::Failed) => ToolCallDone::pass(&mut line),
            (Kind::ToolCalls, _) => ToolCallReq::pass(&mut line),
            (Kind::Events, _) => Event::pass(&mut line),
            (Kind::History, _) => HistoryEntry::pass(&mut line),
            (Kind::Messages, _) => ConversationMessage::pass(&mut line),
            // There are few lines of the other kinds; the caller decodes them.
            _ => return None,
        }
        .ok()?;
        line.line.end()
    };
    passed().is_some()
}

/// Reads the fields of a line, after its head.
pub(super) struct LineReader<'a> {
    pub(super) line: Cursor<'a>,
    op: Op,
    at: i64,
    /// The time of a claim, which its line has twice.
    locked_at: Option<i64>,
}

impl<'a> LineReader<'a> {
    pub(super) fn new(line: Cursor<'a>, op: Op, at: i64) -> LineReader<'a> {
        LineReader {
            line,
            op,
            at,
            locked_at: None,
        }
    }

    #[inline(always)]
    fn value<T>(
        &mut self,
        field: &'static Field,
        value: impl FnOnce(&mut Cursor<'a>) -> Option<T>,
    ) -> Read<Option<T>> {
        let read = if field.is_optional || field.has_default {
            self.line.may(field.member, value)
        } else {
            self.line.need(field.member, value).map(Some)
        };
        read.ok_or(NotCanonical)
    }
}

/// Methods that read a value of their class with a function.
macro_rules! values {
    ($($method:ident: $type:ty = $read:expr;)+) => {
        $(
            #[inline(always)]
            fn $method(&mut self, field: &'static Field) -> Read<Option<$type>> {
                self.value(field, $read)
            }
        )+
    };
}

impl FieldReader for LineReader<'_> {
    type Error = NotCanonical;
    const READS_OTHER_OPS: bool = false;

    values! {
        uuid: Uuid = Cursor::uuid;
        text: String = Cursor::text;
        names: Vec<String> = Cursor::texts;
        payload: String = Cursor::payload;
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
        hashes: IdHashes = hashes;
    }

    #[inline(always)]
    fn validity(&mut self, field: &'static Field) -> Read<Option<Validity>> {
        let is_valid = self.op != Op::Retracted;
        self.value(field, |line| {
            let at = line.integer()?;
            Some(Validity { at, is_valid })
        })
    }

    #[inline(always)]
    fn word<W: Word>(&mut self, field: &'static Field) -> Read<Option<W>> {
        self.value(field, Cursor::word)
    }

    #[inline]
    fn op<W: Word>(&mut self, _: &'static Field) -> Read<W> {
        self.op.as_str().parse().map_err(|_| NotCanonical)
    }

    fn at(&mut self, _: &'static Field) -> Read<i64> {
        Ok(self.locked_at.unwrap_or(self.at))
    }

    fn missing(&self, _: &str) -> NotCanonical {
        NotCanonical
    }

    #[inline(always)]
    fn repeated(&mut self, field: &'static Field) -> Read<()> {
        if field.name == "parent_id" {
            return self.uuid(field).map(drop);
        }
        let at = self.int(field)?;
        self.locked_at = at.filter(|_| self.op == Op::InProgress);
        Ok(())
    }
}

/// Skips the fields of a line with the time `at`, after its op.
struct LinePasser<'a> {
    line: Cursor<'a>,
    at: i64,
}

impl<'a> LinePasser<'a> {
    #[inline(always)]
    fn value<T, P>(
        &mut self,
        field: &'static Field,
        pass: impl FnOnce(&mut Cursor<'a>) -> Option<P>,
    ) -> Read<Option<T>> {
        if !field.is_optional {
            self.line.need(field.member, pass).ok_or(NotCanonical)?;
        } else if self.line.skip(field.member) {
            pass(&mut self.line).ok_or(NotCanonical)?;
        }
        Ok(None)
    }
}

impl FieldReader for LinePasser<'_> {
    type Error = NotCanonical;
    const READS_OTHER_OPS: bool = false;

    values! {
        uuid: Uuid = Cursor::uuid;
        text: String = Cursor::pass_text;
        names: Vec<String> = Cursor::pass_texts;
        payload: String = Cursor::pass_payload;
        id: i64 = Cursor::pass_id;
        int: i64 = Cursor::integer;
        fraction: f64 = Cursor::fraction;
        flag: bool = Cursor::flag;
        instant: Timestamp = Cursor::word::<Timestamp>;
        client: Client = Cursor::word::<Client>;
        day: Day = Cursor::word::<Day>;
        sum: u64 = Cursor::digits;
        sketch: Sketch = Cursor::parsed::<Sketch>;
        counts: BTreeMap<String, u64> = Cursor::parsed::<BTreeMap<String, u64>>;
        sums: MessageSums = Cursor::parsed::<MessageSums>;
        hashes: IdHashes = hashes;
    }

    #[inline(always)]
    fn own_millis(&mut self, field: &'static Field) -> Read<Option<i64>> {
        let at = self.at;
        self.value(field, |line| line.pass_integer(at))
    }

    #[inline(always)]
    fn own_instant(&mut self, field: &'static Field) -> Read<Option<Timestamp>> {
        let at = self.at;
        self.value(field, |line| line.pass_instant(at))
    }

    #[inline(always)]
    fn validity(&mut self, field: &'static Field) -> Read<Option<Validity>> {
        let at = self.at;
        self.value(field, |line| line.pass_integer(at))
    }

    #[inline(always)]
    fn word<W: Word>(&mut self, field: &'static Field) -> Read<Option<W>> {
        self.value(field, Cursor::word::<W>)
    }

    fn op<W: Word>(&mut self, _: &'static Field) -> Read<W> {
        Err(NotCanonical)
    }

    fn at(&mut self, _: &'static Field) -> Read<i64> {
        Ok(self.at)
    }

    fn missing(&self, _: &str) -> NotCanonical {
        NotCanonical
    }

    #[inline(always)]
    fn repeated(&mut self, field: &'static Field) -> Read<()> {
        self.uuid(field).map(drop)
    }
}

fn hashes(line: &mut Cursor<'_>) -> Option<IdHashes> {
    IdHashes::parse(line.text()?.as_bytes())
}
