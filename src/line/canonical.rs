//! The fast path of reading: decodes a line in canonical form that has no unknown members. If it
//! succeeds, the parser would give the same result.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::cursor::{Cursor, NotCanonical, Read};
use super::{Decoded, Op, member, split_crc};
use crate::record::declare::{Field, FieldReader, Fields, Maybe, Word};
use crate::record::{
    Client, ConversationMessage, ConversationTurn, Day, Event, HistoryEntry, IdHashes, Kind,
    MessageSums, Record, Sketch, Timestamp, ToolCallDone, ToolCallReq, Validity,
};

/// Decodes a canonical line. Does not check its checksum.
#[inline] // Records are expensive to move.
pub(super) fn decode(kind: Kind, line: &[u8]) -> Read<Decoded> {
    let (covered, _) = split_crc(line).ok_or(NotCanonical)?;
    let mut line = Cursor::of_texts(covered)?;
    let (seq, at, op) = line.head(kind)?;
    let is_task = op == Op::Queued && {
        let mut ahead = line;
        ahead.need(member!("id"), Cursor::integer)?;
        ahead.skip(member!("update_id"))
    };
    let mut reader = LineReader::new(line, op, at);
    let record = Record::read(kind, op, is_task, &mut reader)?;
    reader.line.end()?;
    Ok(Decoded {
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
            (Kind::ConversationTurns, _) => ConversationTurn::pass(&mut line)?,
            (Kind::ToolCalls, Op::Completed | Op::Failed) => ToolCallDone::pass(&mut line)?,
            (Kind::ToolCalls, _) => ToolCallReq::pass(&mut line)?,
            (Kind::Events, _) => Event::pass(&mut line)?,
            (Kind::History, _) => HistoryEntry::pass(&mut line)?,
            (Kind::Messages, _) => ConversationMessage::pass(&mut line)?,
            // There are few lines of the other kinds; the caller decodes them.
            _ => return Err(NotCanonical),
        }
        line.line.end()
    };
    passed().is_ok()
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
    #[allow(clippy::inline_always)] // The field is constant where it is inlined.
    fn value<T, M: Maybe<T>>(
        &mut self,
        field: &'static Field,
        value: impl FnOnce(&mut Cursor<'a>) -> Read<T>,
    ) -> Read<M> {
        let value = if M::IS_OPTIONAL {
            self.line.may(field.member, value)?
        } else {
            Some(self.line.need(field.member, value)?)
        };
        M::of(value).ok_or(NotCanonical)
    }
}

/// Methods that read a value of their class with a function.
macro_rules! values {
    ($($method:ident: $type:ty = $read:expr;)+) => {
        $(
            #[inline(always)]
            #[allow(clippy::inline_always)]
            fn $method<M: Maybe<$type>>(&mut self, field: &'static Field) -> Read<M> {
                self.value(field, $read)
            }
        )+
    };
}

impl FieldReader for LineReader<'_> {
    type Error = NotCanonical;
    const READS_OTHER_OPS: bool = false;

    values! {
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
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn uuid<M: Maybe<Uuid>>(&mut self, field: &'static Field) -> Read<M> {
        let id = if M::IS_OPTIONAL {
            self.line.may_uuid(field.member)?
        } else {
            Some(self.line.need_uuid(field.member)?)
        };
        M::of(id).ok_or(NotCanonical)
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn validity<M: Maybe<Validity>>(&mut self, field: &'static Field) -> Read<M> {
        let is_valid = self.op != Op::Retracted;
        self.value(field, |line| {
            let at = line.integer()?;
            Ok(Validity { at, is_valid })
        })
    }

    fn sum_if_any<M: Maybe<u64>>(&mut self, field: &'static Field) -> Read<M> {
        let sum = self.line.may(field.member, Cursor::digits)?;
        M::of(Some(sum.unwrap_or(0))).ok_or(NotCanonical)
    }

    fn sums<M: Maybe<MessageSums>>(&mut self, field: &'static Field) -> Read<M> {
        let found = self.line.may(field.member, sums)?;
        M::of(Some(found.unwrap_or_default())).ok_or(NotCanonical)
    }

    fn hashes<M: Maybe<IdHashes>>(&mut self, field: &'static Field) -> Read<M> {
        let found = self.line.may(field.member, hashes)?;
        M::of(Some(found.unwrap_or_default())).ok_or(NotCanonical)
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn word<W: Word, M: Maybe<W>>(&mut self, field: &'static Field) -> Read<M> {
        self.value(field, Cursor::word)
    }

    #[inline]
    fn op<W: Word>(&mut self, _: &'static Field) -> Read<W> {
        self.op.as_str().parse().map_err(|_| NotCanonical)
    }

    fn at(&mut self, _: &'static Field) -> Read<i64> {
        Ok(self.locked_at.unwrap_or(self.at))
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn has(&self, field: &'static Field) -> bool {
        self.line.is_at(field.member)
    }

    fn missing(&self, _: &str) -> NotCanonical {
        NotCanonical
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn repeated(&mut self, field: &'static Field) -> Read<()> {
        if field.name == "parent_id" {
            return self.line.may_uuid(field.member).map(drop);
        }
        let at = self.line.may(field.member, Cursor::integer)?;
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
    #[allow(clippy::inline_always)]
    fn value<T, P, M: Maybe<T>>(
        &mut self,
        field: &'static Field,
        pass: impl FnOnce(&mut Cursor<'a>) -> Read<P>,
    ) -> Read<M> {
        if !M::IS_OPTIONAL {
            self.line.need(field.member, pass)?;
        } else if self.line.skip(field.member) {
            pass(&mut self.line)?;
        }
        M::of(None).ok_or(NotCanonical)
    }
}

impl FieldReader for LinePasser<'_> {
    type Error = NotCanonical;
    const READS_OTHER_OPS: bool = false;

    values! {
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
        sum_if_any: u64 = Cursor::digits;
        sketch: Sketch = Cursor::parsed::<Sketch>;
        counts: BTreeMap<String, u64> = Cursor::parsed::<BTreeMap<String, u64>>;
        sums: MessageSums = sums;
        hashes: IdHashes = hashes;
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn uuid<M: Maybe<Uuid>>(&mut self, field: &'static Field) -> Read<M> {
        if !M::IS_OPTIONAL || self.line.is_at(field.member) {
            self.line.need_uuid(field.member)?;
        }
        M::of(None).ok_or(NotCanonical)
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn own_millis<M: Maybe<i64>>(&mut self, field: &'static Field) -> Read<M> {
        let at = self.at;
        self.value(field, |line| line.pass_integer(at))
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn own_instant<M: Maybe<Timestamp>>(&mut self, field: &'static Field) -> Read<M> {
        let at = self.at;
        self.value(field, |line| line.pass_instant(at))
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn validity<M: Maybe<Validity>>(&mut self, field: &'static Field) -> Read<M> {
        let at = self.at;
        self.value(field, |line| line.pass_integer(at))
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn word<W: Word, M: Maybe<W>>(&mut self, field: &'static Field) -> Read<M> {
        self.value(field, Cursor::word::<W>)
    }

    fn op<W: Word>(&mut self, _: &'static Field) -> Read<W> {
        Err(NotCanonical)
    }

    fn at(&mut self, _: &'static Field) -> Read<i64> {
        Ok(self.at)
    }

    fn has(&self, field: &'static Field) -> bool {
        self.line.is_at(field.member)
    }

    fn missing(&self, _: &str) -> NotCanonical {
        NotCanonical
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn repeated(&mut self, field: &'static Field) -> Read<()> {
        self.line.may_uuid(field.member).map(drop)
    }
}

fn hashes(line: &mut Cursor<'_>) -> Read<IdHashes> {
    IdHashes::parse(line.text()?.as_bytes()).ok_or(NotCanonical)
}

fn sums(line: &mut Cursor<'_>) -> Read<MessageSums> {
    line.expect("{\"tokens_in\":")?;
    let sums = MessageSums {
        tokens_in: line.digits()?,
        tokens_out: line.need(member!("tokens_out"), Cursor::digits)?,
        tokens_cache_write: line
            .may(member!("tokens_cache_write"), Cursor::digits)?
            .unwrap_or(0),
        tokens_cache_read: line
            .may(member!("tokens_cache_read"), Cursor::digits)?
            .unwrap_or(0),
        tokens_reasoning: line
            .may(member!("tokens_reasoning"), Cursor::digits)?
            .unwrap_or(0),
        latency_ms_sum: line.need(member!("latency_ms_sum"), Cursor::digits)?,
        latency_count: line.need(member!("latency_count"), Cursor::digits)?,
        latency_sketch: line.need(member!("latency_sketch"), Cursor::parsed)?,
        context_utilization_sum: line.need(member!("context_utilization_sum"), Cursor::fraction)?,
        context_utilization_count: line
            .need(member!("context_utilization_count"), Cursor::digits)?,
        compressed: line.need(member!("compressed"), Cursor::digits)?,
        errors: line.need(member!("errors"), Cursor::digits)?,
        errors_by_type: line.need(member!("errors_by_type"), Cursor::parsed)?,
    };
    line.expect("}").map(|()| sums)
}
