//! Reads a line whose record type is known to the caller. The enum of all record types is large,
//! and moving it takes a considerable part of the time to read a line.

use super::canonical::LineReader;
use super::cursor::Cursor;
use super::decode::{Reason, decode_any};
use super::{Op, split_crc};
use crate::record::declare::Fields;
use crate::record::{
    ConversationMessage, ConversationTurn, Event, HistoryEntry, Kind, RecordType, ThoughtRecord,
    ToolCallDone, ToolCallReq,
};

/// A record type that can be read without the enum.
pub(crate) trait TypedRecord: RecordType {
    const KIND: Kind;
    /// The type that declares the fields of its lines.
    type Of: Fields + Into<Self>;

    /// Whether a line of its kind with this op holds this type.
    fn is_of(op: Op) -> bool;
}

/// As [`decode`](super::decode()); `None` if the line holds a record of another type.
#[inline]
pub(crate) fn decode_as<T: TypedRecord>(line: &[u8]) -> Result<Option<T>, Reason> {
    match canonical_as(line) {
        Some(typed) => Ok(Some(typed)),
        None => by_parsing(line),
    }
}

#[cold]
fn by_parsing<T: TypedRecord>(line: &[u8]) -> Result<Option<T>, Reason> {
    decode_any(T::KIND, line).map(|decoded| T::of(decoded.record))
}

#[inline]
pub(super) fn canonical_as<T: TypedRecord>(line: &[u8]) -> Option<T> {
    let (covered, _) = split_crc(line)?;
    let mut line = Cursor::of_texts(covered)?;
    let op = line.op(T::KIND)?;
    T::is_of(op).then_some(())?;
    // None of these types takes its time from the line.
    let mut reader = LineReader::new(line, op, 0);
    let typed = T::Of::read(&mut reader).ok()?;
    reader.line.end()?;
    Some(typed.into())
}

macro_rules! typed {
    ($($typed:ty, $of:ty: $kind:ident ($ops:pat);)+) => {
        $(impl TypedRecord for $typed {
            const KIND: Kind = Kind::$kind;
            type Of = $of;

            fn is_of(op: Op) -> bool {
                matches!(op, $ops)
            }
        })+
    };
}

typed! {
    ConversationTurn, ConversationTurn: ConversationTurns (_);
    Event, Event: Events (_);
    HistoryEntry, HistoryEntry: History (_);
    Box<ConversationMessage>, ConversationMessage: Messages (_);
    ThoughtRecord, ThoughtRecord: ThoughtRecords (_);
    ToolCallReq, ToolCallReq: ToolCalls (Op::Requested | Op::Retracted);
    ToolCallDone, ToolCallDone: ToolCalls (Op::Completed | Op::Failed);
}
