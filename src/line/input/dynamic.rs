//! Records given by name and value, by a language that checks types at run time.
//!
//! What is given in the form of lines is read at once. Anything else becomes JSON and is read as
//! such: other forms of numbers and times, kinds that are given seldom, and errors.

// A field is constant where the code that reads it is inlined.
#![allow(clippy::inline_always)]

use std::collections::BTreeMap;

use uuid::Uuid;

use super::given::GivenRecord;
use crate::error::{Error, Result};
use crate::line::Op;
use crate::record::declare::{Field, FieldReader, Word};
use crate::record::{
    Client, Day, Dynamic, IdHashes, Kind, MessageSums, Record, Role, Sketch, Source, Timestamp,
    ToolCallDone, TurnKind, Validity, now, payload_of_string, push_quoted,
};

/// A field by name.
pub(crate) type Named<'a> = (&'a str, Dynamic<'a>);

impl Record {
    /// As [`from_json`](Record::from_json), from names and values. `kind` is that of the record, if
    /// no value says it.
    pub(crate) fn from_dynamic(kind: Option<Kind>, members: &[Named<'_>]) -> Result<GivenRecord> {
        match read(kind, members) {
            Some(given) => Ok(given),
            None => Record::from_line(&json(kind, members)?),
        }
    }
}

/// The members as a JSON object.
fn json(kind: Option<Kind>, members: &[Named<'_>]) -> Result<String> {
    let mut out = b"{".to_vec();
    let is_kind = |(name, value): &Named<'_>| {
        *name == "kind" && matches!(value, Dynamic::Text(word) if Kind::from_stem(word).is_some())
    };
    let is_turn = |(name, _): &Named<'_>| matches!(*name, "kind" | "turn_kind");
    if let Some(kind) = kind
        && !members.iter().any(is_kind)
        && !(kind == Kind::ConversationTurns && members.iter().any(is_turn))
    {
        out.extend_from_slice(b"\"kind\":");
        push_quoted(&mut out, kind.stem());
    }
    for (name, value) in members {
        if out.len() > 1 {
            out.push(b',');
        }
        push_quoted(&mut out, name);
        out.push(b':');
        value.push_json(name, &mut out)?;
    }
    out.push(b'}');
    String::from_utf8(out).map_err(|_| Error::invalid("a value is not UTF-8"))
}

/// Reads a record whose values have the form of lines.
fn read(kind: Option<Kind>, members: &[Named<'_>]) -> Option<GivenRecord> {
    let mut reader = DynamicReader::new(kind, members)?;
    // Retracted records, and those of other kinds, are given seldom.
    let is_plain = match reader.kind {
        Kind::ToolCalls => reader.op != Op::Retracted,
        Kind::ConversationTurns => reader.op == Op::Asserted,
        Kind::Messages | Kind::Events | Kind::History | Kind::ThoughtRecords => true,
        _ => false,
    };
    if !is_plain {
        return None;
    }
    let record = Record::read(reader.kind, reader.op, false, &mut reader).ok()?;
    // Otherwise a field is unknown, or given twice.
    let is_whole = reader.left == 0 && Day::of(record.at()).is_ok();
    is_whole.then_some(GivenRecord {
        record,
        has_time: reader.has_time,
    })
}

/// The value has another form than in lines.
#[derive(Debug)]
struct OtherForm;

type Read<T> = Result<T, OtherForm>;

struct DynamicReader<'a> {
    members: &'a [Named<'a>],
    kind: Kind,
    op: Op,
    turn_kind: Option<TurnKind>,
    /// Number of members that were not read yet, and that are not null.
    left: usize,
    has_time: bool,
    /// The time of the record, if it is not given.
    now: Option<i64>,
    /// The id of a turn, which is also the default of its message.
    id: Option<Uuid>,
    /// The role of a message, which has a default source.
    role: Option<Role>,
}

impl<'a> DynamicReader<'a> {
    fn new(mut kind: Option<Kind>, members: &'a [Named<'a>]) -> Option<DynamicReader<'a>> {
        let (mut op, mut turn_kind, mut left) = (None, None, 0);
        for (name, value) in members {
            match (*name, value) {
                (_, Dynamic::Null) => {
                    // A field that is given twice is rejected, also if it has no value.
                    if members.iter().filter(|(known, _)| known == name).count() > 1 {
                        return None;
                    }
                }
                ("kind", Dynamic::Text(word)) => match Kind::from_stem(word) {
                    Some(given) if kind.is_none_or(|kind| kind == given) => kind = Some(given),
                    Some(_) => return None,
                    None if turn_kind.is_some() => return None,
                    None => turn_kind = Some(word.parse().ok()?),
                },
                ("turn_kind", Dynamic::Text(word)) if turn_kind.is_none() => {
                    turn_kind = Some(word.parse().ok()?);
                }
                ("op", Dynamic::Text(word)) if op.is_none() => op = Some(word),
                _ => left += 1,
            }
        }
        let kind = match (kind, turn_kind) {
            (None, Some(_)) => Kind::ConversationTurns,
            (Some(Kind::ConversationTurns), None) => return None,
            (Some(kind), Some(_)) if kind != Kind::ConversationTurns => return None,
            (kind, _) => kind?,
        };
        let op = match op {
            Some(word) => kind.op(word)?,
            None if kind == Kind::ToolCalls => return None,
            None => kind.first_op(),
        };
        Some(DynamicReader {
            members,
            kind,
            op,
            turn_kind,
            left,
            has_time: false,
            now: None,
            id: None,
            role: None,
        })
    }

    /// The value of a field that is given.
    #[inline(always)]
    fn find(&mut self, name: &str) -> Option<&'a Dynamic<'a>> {
        let mut found = self.members.iter().filter(|(known, _)| *known == name);
        let (_, value) = found.find(|(_, value)| *value != Dynamic::Null)?;
        self.left = self.left.wrapping_sub(1);
        Some(value)
    }

    #[inline(always)]
    fn value<T>(
        &mut self,
        field: &'static Field,
        read: impl FnOnce(&'a Dynamic<'a>) -> Option<T>,
    ) -> Read<Option<T>> {
        let found = self.find(field.name);
        found.map(|value| read(value).ok_or(OtherForm)).transpose()
    }

    /// The record's own time, which is now if it is not given.
    fn own_time<T>(
        &mut self,
        field: &'static Field,
        read: impl FnOnce(&'a Dynamic<'a>) -> Option<T>,
        of_now: impl FnOnce(i64) -> Option<T>,
    ) -> Read<Option<T>> {
        let given = self.value(field, read)?;
        self.has_time = given.is_some();
        if given.is_some() {
            return Ok(given);
        }
        let now = *self.now.get_or_insert_with(now);
        of_now(now).map(Some).ok_or(OtherForm)
    }
}

fn text<'a>(value: &'a Dynamic<'a>) -> Option<&'a str> {
    match value {
        Dynamic::Text(text) => Some(text),
        _ => None,
    }
}

fn int(value: &Dynamic<'_>) -> Option<i64> {
    match value {
        Dynamic::Int(number) => Some(*number),
        _ => None,
    }
}

/// Methods for values that are always read from JSON.
macro_rules! by_parsing {
    ($($method:ident: $type:ty;)+) => {
        $(fn $method(&mut self, field: &'static Field) -> Read<Option<$type>> {
            self.value(field, |_| None)
        })+
    };
}

impl FieldReader for DynamicReader<'_> {
    type Error = OtherForm;
    const READS_OTHER_OPS: bool = true;

    fn text(&mut self, field: &'static Field) -> Read<Option<String>> {
        self.value(field, |value| text(value).map(str::to_owned))
    }

    fn text_id(&mut self, field: &'static Field) -> Read<Option<String>> {
        let given = self.text(field)?;
        let is_new = given.is_none() && self.kind == Kind::ThoughtRecords && field.name == "id";
        Ok(if is_new {
            Some(Uuid::new_v4().to_string())
        } else {
            given
        })
    }

    fn hash(&mut self, field: &'static Field) -> Read<Option<String>> {
        let given = self.text(field)?;
        // Computed later, from the arguments.
        let is_computed = given.is_none() && field.name == "args_sha256";
        Ok(if is_computed {
            Some(String::new())
        } else {
            given
        })
    }

    fn uuid(&mut self, field: &'static Field) -> Read<Option<Uuid>> {
        let given = self.value(field, |value| text(value)?.parse().ok())?;
        let id = match (field.name, self.kind) {
            ("id", Kind::ConversationTurns | Kind::Messages) => {
                self.id = Some(given.unwrap_or_else(Uuid::new_v4));
                self.id
            }
            ("message_id", Kind::ConversationTurns) => given.or(self.id),
            _ => given,
        };
        Ok(id)
    }

    fn names(&mut self, field: &'static Field) -> Read<Option<Vec<String>>> {
        self.value(field, |value| match value {
            Dynamic::Json(json) => serde_json::from_str(json).ok(),
            _ => None,
        })
    }

    fn payload(&mut self, field: &'static Field) -> Read<Option<String>> {
        self.value(field, |value| match value {
            Dynamic::Text(text) => Some(payload_of_string(text.clone().into_owned())),
            Dynamic::Json(json) => Some(json.clone()),
            Dynamic::Int(number) => Some(number.to_string()),
            Dynamic::Bool(flag) => Some(flag.to_string()),
            _ => None,
        })
    }

    fn int(&mut self, field: &'static Field) -> Read<Option<i64>> {
        self.value(field, int)
    }

    fn elapsed(&mut self, field: &'static Field) -> Read<Option<i64>> {
        let given = self.value(field, int)?;
        Ok(given.or(Some(ToolCallDone::LATENCY_UNKNOWN)))
    }

    fn fraction(&mut self, field: &'static Field) -> Read<Option<f64>> {
        #[allow(clippy::cast_precision_loss)] // As the parser of JSON does.
        self.value(field, |value| match value {
            Dynamic::Float(number) => number.is_finite().then_some(*number),
            Dynamic::Int(number) => Some(*number as f64),
            _ => None,
        })
    }

    fn flag(&mut self, field: &'static Field) -> Read<Option<bool>> {
        self.value(field, |value| match value {
            Dynamic::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    fn instant(&mut self, field: &'static Field) -> Read<Option<Timestamp>> {
        self.value(field, |value| text(value)?.parse().ok())
    }

    fn own_instant(&mut self, field: &'static Field) -> Read<Option<Timestamp>> {
        self.own_time(
            field,
            |value| text(value)?.parse().ok(),
            |now| Timestamp::from_ms(now).ok(),
        )
    }

    fn own_millis(&mut self, field: &'static Field) -> Read<Option<i64>> {
        self.own_time(field, int, Some)
    }

    fn validity(&mut self, field: &'static Field) -> Read<Option<Validity>> {
        self.own_time(
            field,
            |value| int(value).map(Validity::at),
            |now| Some(Validity::at(now)),
        )
    }

    by_parsing! {
        client: Client;
        day: Day;
        sum: u64;
        sketch: Sketch;
        counts: BTreeMap<String, u64>;
        sums: MessageSums;
        hashes: IdHashes;
    }

    fn word<W: Word>(&mut self, field: &'static Field) -> Read<Option<W>> {
        let word = match (self.kind, field.name) {
            (Kind::ConversationTurns, "kind") => {
                return Ok(self.turn_kind.and_then(|kind| kind.as_str().parse().ok()));
            }
            (Kind::Messages, "role") => {
                self.role = self
                    .find(field.name)
                    .and_then(text)
                    .and_then(|word| word.parse().ok());
                self.role.map(Role::as_str)
            }
            (Kind::Messages, "source") => match (self.find(field.name), self.role) {
                (Some(given), _) => Some(text(given).ok_or(OtherForm)?),
                (None, role) => role.map(|role| Source::of(role).as_str()),
            },
            _ => {
                let given = self.find(field.name);
                given
                    .map(|given| text(given).ok_or(OtherForm))
                    .transpose()?
            }
        };
        let word = word.map(|word| word.parse().map_err(|_| OtherForm));
        word.transpose()
    }

    fn op<W: Word>(&mut self, _: &'static Field) -> Read<W> {
        self.op.as_str().parse().map_err(|_| OtherForm)
    }

    fn at(&mut self, _: &'static Field) -> Read<i64> {
        Err(OtherForm)
    }

    fn missing(&self, _: &str) -> OtherForm {
        OtherForm
    }

    fn repeated(&mut self, field: &'static Field) -> Read<()> {
        self.value(field, |value| text(value)?.parse::<Uuid>().ok())
            .map(drop)
    }
}

#[cfg(test)]
mod tests;
