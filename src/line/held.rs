//! Reads a line by whoever knows which type of record it holds: the enum of all of them is long,
//! and to move it about takes a good part of what it takes to read a line.

use super::canonical::{entry, event, message, outcome, request, turn};
use super::cursor::{Cursor, Read, Unsure};
use super::decode::{Reason, decode_any};
use super::{Op, split_crc};
use crate::record::{
    ConversationMessage, ConversationTurn, Event, HistoryEntry, Kind, Record, ToolCallDone,
    ToolCallReq,
};

/// A type of record that is read by itself.
pub(crate) trait Held: Sized {
    const KIND: Kind;

    /// What follows the head of a canonical line.
    fn read(line: &mut Cursor<'_>, op: Op) -> Read<Self>;

    /// It, if the record is of this type.
    fn of(record: Record) -> Option<Self>;
}

/// As [`decode`](super::decode()); `None` if the line holds a record of another type.
#[inline]
pub(crate) fn decode_as<T: Held>(line: &[u8]) -> Result<Option<T>, Reason> {
    match canonical_as(line) {
        Ok(held) => Ok(Some(held)),
        Err(_) => by_parsing(line),
    }
}

#[cold]
fn by_parsing<T: Held>(line: &[u8]) -> Result<Option<T>, Reason> {
    decode_any(T::KIND, line).map(|decoded| T::of(decoded.record))
}

#[inline]
pub(super) fn canonical_as<T: Held>(line: &[u8]) -> Read<T> {
    let (covered, _) = split_crc(line).ok_or(Unsure)?;
    let mut line = Cursor::of_texts(covered)?;
    let op = line.op(T::KIND)?;
    let held = T::read(&mut line, op)?;
    line.end()?;
    Ok(held)
}

macro_rules! held {
    ($held:ty, $kind:ident, $variant:ident, |$line:ident, $op:ident| $read:expr) => {
        impl Held for $held {
            const KIND: Kind = Kind::$kind;

            #[inline]
            fn read($line: &mut Cursor<'_>, $op: Op) -> Read<$held> {
                $read
            }

            fn of(record: Record) -> Option<$held> {
                match record {
                    Record::$variant(held) => Some(held),
                    _ => None,
                }
            }
        }
    };
}

held!(ConversationTurn, ConversationTurns, Turn, |line, op| turn(
    line, op
));
held!(Event, Events, Event, |line, op| event(line, op));
held!(HistoryEntry, History, History, |line, op| entry(line, op));
held!(Box<ConversationMessage>, Messages, Message, |line, op| {
    message(line, op).map(Box::new)
});
held!(ToolCallReq, ToolCalls, CallRequested, |line, op| match op {
    Op::Completed | Op::Failed => Err(Unsure),
    op => request(line, op),
});
held!(ToolCallDone, ToolCalls, CallDone, |line, op| match op {
    Op::Completed | Op::Failed => outcome(line, op),
    _ => Err(Unsure),
});
