//! Decodes a whole line with its fields in any order: the slow path of reading.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use uuid::Uuid;

use super::cursor::Cursor;
use super::encode::{Members, op_of};
use super::envelope::Envelope;
use super::input::check;
use super::{Op, canonical};
use crate::record::declare::{Field, FieldReader, Fields, NO_TIME, Word};
use crate::record::of_kind;
use crate::record::{
    Client, Day, IdHashes, InboxStep, InboxTask, Kind, MessageSums, ProposalStatus, ProposalStep,
    Record, Sketch, Timestamp, Validity, from_json, plain_len,
};

/// A decoded line.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// Absent in an edited line that lost it, and in input.
    pub seq: Option<u64>,
    pub op: Op,
    pub record: Record,
}

impl Decoded {
    pub(crate) fn envelope(&self, seq: u64) -> Envelope<'_> {
        Envelope::of(&self.record, seq)
    }
}

/// Why a line does not hold a record.
#[derive(Debug)]
pub(crate) struct Reason {
    /// Whether the line is a JSON object.
    pub is_object: bool,
    pub text: String,
}

/// Decodes the record in a line of `kind`.
pub(crate) fn decode(kind: Kind, line: &[u8]) -> Result<Decoded, Reason> {
    match canonical::decode(kind, line) {
        Some(decoded) => Ok(decoded),
        None => decode_any(kind, line),
    }
}

/// Whether the line is a JSON object.
pub(crate) fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// As [`decode`], but always with the general parser.
pub(super) fn decode_any(kind: Kind, line: &[u8]) -> Result<Decoded, Reason> {
    parsed(kind, line).map_err(|text| Reason {
        is_object: is_object(line),
        text,
    })
}

fn parsed(kind: Kind, line: &[u8]) -> Result<Decoded, String> {
    let members: Members<'_> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    let mut members = MembersReader {
        members: members
            .0
            .iter()
            .map(|(name, value)| (&**name, value.get()))
            .collect(),
        kind,
        op: Op::Asserted,
        at: None,
        locked_at: None,
    };
    let has_head = !kind.is_timed_by_line() && Cursor::new(line).head(kind).is_some();
    members.check_given_once(has_head)?;
    let seq = members.member("seq").map(json::<Option<u64>>).transpose()?;
    // Sequence numbers begin at 1; 0 counts as none.
    let seq = seq.flatten().filter(|seq| *seq > 0);
    if kind.is_timed_by_line() {
        let at = members.member("at").map(json::<Option<i64>>).transpose()?;
        members.at = at.flatten();
    }
    let word = members
        .member("op")
        .map(json::<Option<Cow<'_, str>>>)
        .transpose()?;
    members.op = match word.flatten() {
        Some(word) => kind
            .op(&word)
            .ok_or_else(|| format!("unknown op {word:?}"))?,
        // Without `op`, a tool call could as well be an outcome.
        None if kind == Kind::ToolCalls => return Err("missing field `op`".to_owned()),
        None => kind.ops().first().copied().unwrap_or(Op::Asserted),
    };
    let op = members.op;
    let is_task = members.member("update_id").is_some();
    if kind == Kind::Inbox && is_task && op != Op::Queued {
        let op = op.as_str();
        return Err(format!("update_id belongs to op queued, not {op}"));
    }
    members.check_other_ops(!is_task)?;
    let record = Record::read(kind, op, is_task, &mut members)?;
    let op = match record {
        // A record that is not valid is a retraction.
        Record::Turn(_) | Record::CallRequested(_) | Record::Proposal(_) => op_of(&record),
        _ => op,
    };
    Ok(Decoded { seq, op, record })
}

impl Record {
    /// Reads the record of a line. `is_task`: for the inbox, whether it is a task that is queued
    /// for the first time.
    #[inline]
    pub(super) fn read<R: FieldReader>(
        kind: Kind,
        op: Op,
        is_task: bool,
        from: &mut R,
    ) -> Result<Record, R::Error> {
        Ok(match (kind, op) {
            (Kind::ToolCalls, Op::Completed | Op::Failed) => Record::CallDone(Fields::read(from)?),
            (Kind::CodeEditProposals, _) if !matches!(op, Op::Pending | Op::Retracted) => {
                Record::ProposalStep(proposal_step(from)?)
            }
            (Kind::Conversations, Op::Updated) => Record::ConversationUpdated(Fields::read(from)?),
            (Kind::Inbox, _) if is_task => {
                let mut task: InboxTask = Fields::read(from)?;
                task.updated_at = task.created_at;
                Record::InboxTask(task)
            }
            (Kind::Inbox, _) => {
                let step: InboxStep = Fields::read(from)?;
                // Only a task has no id before it is recorded.
                if step.id == 0 && op == Op::Queued {
                    return Err(from.missing("update_id"));
                }
                Record::InboxStep(step)
            }
            _ => of_kind!(kind, Type => Record::from(<Type as Fields>::read(from)?)),
        })
    }
}

fn proposal_step<R: FieldReader>(from: &mut R) -> Result<ProposalStep, R::Error> {
    let step = ProposalStep::of_stored(Fields::read(from)?);
    if step.at != NO_TIME {
        return Ok(step);
    }
    Err(from.missing(match step.status {
        ProposalStatus::Applied => "applied_at",
        ProposalStatus::Reverted => "at",
        _ => "decided_at",
    }))
}

/// Reads the fields of a parsed line, in any order.
pub(super) struct MembersReader<'a> {
    members: Vec<(&'a str, &'a str)>,
    kind: Kind,
    op: Op,
    at: Option<i64>,
    /// The time of a claim, which its line has twice.
    locked_at: Option<i64>,
}

fn json<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|e| e.to_string())
}

/// The text of a JSON string that has no escapes.
fn plain_text(json: &str) -> Option<&str> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    (plain_len(text.as_bytes()) == text.len()).then_some(text)
}

fn missing(name: &str) -> String {
    format!("missing field `{name}`")
}

impl<'a> MembersReader<'a> {
    /// For a record from a client, with its time.
    pub(super) fn of_given(members: Vec<(&'a str, &'a str)>, kind: Kind, op: Op, at: i64) -> Self {
        MembersReader {
            members,
            kind,
            op,
            at: Some(at),
            locked_at: None,
        }
    }

    fn member(&self, name: &str) -> Option<&'a str> {
        let mut found = self.members.iter().filter(|(known, _)| *known == name);
        found.next().map(|(_, value)| *value)
    }

    /// If a field occurs twice, it is unclear which value holds. The fields of the envelope are not
    /// checked if they were read at their canonical place.
    fn check_given_once(&self, has_head: bool) -> Result<(), String> {
        for (place, (name, _)) in self.members.iter().enumerate() {
            let is_known = match *name {
                "seq" | "op" => !has_head,
                "at" => self.kind.is_timed_by_line(),
                name => self.kind.field(name).is_some(),
            };
            let before = self.members.get(..place).unwrap_or_default();
            if is_known && before.iter().any(|(other, _)| other == name) {
                return Err(format!("duplicate field `{name}`"));
            }
        }
        Ok(())
    }

    /// Checks fields that belong to other ops: their values must be valid too.
    fn check_other_ops(&self, is_step: bool) -> Result<(), String> {
        let others = self.members.iter().filter(|(name, value)| {
            *value != "null" && self.kind.is_of_other_ops(name, self.op, is_step)
        });
        for (name, value) in others {
            if let Some(field) = self.kind.field(name) {
                check(field.class, field.check_word, value)
                    .map_err(|reason| format!("{name}: {reason}"))?;
            }
        }
        Ok(())
    }

    fn value<T>(
        &self,
        field: &'static Field,
        value: impl FnOnce(&'a str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let found = self.member(field.name);
        let found = found.filter(|json| !(field.is_optional && *json == "null"));
        let value = found.map(|json| value(json).map_err(|e| format!("{}: {e}", field.name)));
        value.transpose()
    }

    /// The record's own time, which is also the line's.
    fn own_time<T>(
        &self,
        field: &'static Field,
        value: impl FnOnce(&'a str) -> Result<T, String>,
        of_line: impl FnOnce(i64) -> T,
    ) -> Result<Option<T>, String> {
        let is_given = self.member(field.name).is_some_and(|json| json != "null");
        if is_given || self.at.is_none() {
            return self.value(field, value);
        }
        Ok(self.at.map(of_line))
    }
}

/// Methods that parse a value of their class.
macro_rules! values {
    ($($method:ident: $type:ty $(= $read:expr)?;)+) => {
        $(fn $method(&mut self, field: &'static Field) -> Result<Option<$type>, String> {
            self.value(field, values!(@read $($read)?))
        })+
    };
    (@read) => { json };
    (@read $read:expr) => { $read };
}

impl FieldReader for MembersReader<'_> {
    type Error = String;
    const READS_OTHER_OPS: bool = true;

    values! {
        uuid: Uuid = |text| match plain_text(text).map(str::parse) {
            Some(Ok(id)) => Ok(id),
            _ => json(text),
        };
        text: String = |text| plain_text(text).map_or_else(|| json(text), |text| Ok(text.to_owned()));
        names: Vec<String>;
        payload: String = |text| from_json(json(text)?).map_err(|e| e.to_string());
        client: Client;
        int: i64;
        fraction: f64;
        flag: bool;
        instant: Timestamp;
        day: Day;
        sum: u64;
        sketch: Sketch;
        counts: BTreeMap<String, u64>;
        sums: MessageSums;
        hashes: IdHashes;
    }

    fn validity(&mut self, field: &'static Field) -> Result<Option<Validity>, String> {
        let is_retracted = self.op == Op::Retracted;
        self.own_time(
            field,
            |text| {
                let mut validity: Validity = json(text)?;
                validity.is_valid &= !is_retracted;
                Ok(validity)
            },
            |at| (at, !is_retracted).into(),
        )
    }

    fn own_millis(&mut self, field: &'static Field) -> Result<Option<i64>, String> {
        self.own_time(field, json, |at| at)
    }

    fn own_instant(&mut self, field: &'static Field) -> Result<Option<Timestamp>, String> {
        match (self.value(field, json)?, self.at) {
            (None, Some(at)) => Timestamp::from_ms(at).map(Some).map_err(|e| e.reason()),
            (given, _) => Ok(given),
        }
    }

    fn word<W: Word>(&mut self, field: &'static Field) -> Result<Option<W>, String> {
        self.value(field, json)
    }

    fn op<W: Word>(&mut self, field: &'static Field) -> Result<W, String> {
        self.op.as_str().parse().map_err(|_| missing(field.name))
    }

    fn at(&mut self, field: &'static Field) -> Result<i64, String> {
        match self.locked_at.or(self.at) {
            Some(at) => Ok(at),
            None if self.kind == Kind::CodeEditProposals => Ok(NO_TIME),
            None => Err(missing(field.name)),
        }
    }

    fn missing(&self, name: &str) -> String {
        missing(name)
    }

    fn repeated(&mut self, field: &'static Field) -> Result<(), String> {
        if field.name == "parent_id" {
            return self.uuid(field).map(drop);
        }
        let at = self.int(field)?;
        self.locked_at = at.filter(|_| self.op == Op::InProgress);
        Ok(())
    }
}

/// Decodes a line of a file, which must have everything that the store assigns. A thought is
/// accepted without its hashes: the check of its chain reports them.
pub(super) fn decode_logged(kind: Kind, line: &[u8]) -> Result<Decoded, Reason> {
    let decoded = decode(kind, line)?;
    match decoded.record.missing() {
        None => Ok(decoded),
        Some(_) if kind == Kind::ThoughtRecords => Ok(decoded),
        Some(field) => Err(Reason {
            is_object: true,
            text: format!("missing field `{field}`"),
        }),
    }
}
