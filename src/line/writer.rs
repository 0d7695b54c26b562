//! Writes a line, member by member, in canonical order.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::{LINE_START, Op, TAIL_START, member};
use crate::error::Result;
use crate::record::declare::{Field, FieldWriter, Fields, Word};
use crate::record::{
    Client, Day, Form, IdHashes, MessageSums, Record, Sketch, TaskStatus, Timestamp, Validity,
    each_type, form, push_quoted,
};

pub(super) struct LineWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Values that the line repeats but the record does not have: a call's parent, and the time of
    /// a claim.
    parent_id: Option<Uuid>,
    locked_at: Option<i64>,
}

impl LineWriter<'_> {
    pub(super) fn new(out: &mut Vec<u8>) -> LineWriter<'_> {
        LineWriter {
            out,
            parent_id: None,
            locked_at: None,
        }
    }

    pub(super) fn begin(&mut self, seq: u64, at: i64, op: Op) {
        self.push(LINE_START);
        self.push(itoa::Buffer::new().format(seq));
        self.push(member!("at"));
        self.push(itoa::Buffer::new().format(at));
        self.quoted(member!("op"), op.as_str());
    }

    /// Writes the key's fields, the lookup fields and the rest.
    pub(super) fn body(&mut self, record: &Record, parent_id: Option<Uuid>) -> Result<()> {
        match record {
            Record::CallDone(_) => self.parent_id = parent_id,
            Record::InboxStep(step) => {
                let is_claim = step.status == TaskStatus::InProgress;
                self.locked_at = is_claim.then_some(step.at);
            }
            Record::ProposalStep(step) => return step.stored().write(self),
            _ => {}
        }
        each_type!(record, it => it.write(self))
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // Mostly constants: stored without a call.
    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn quoted(&mut self, member: &str, word: &str) {
        self.push(member);
        self.out.push(b'"');
        self.push(word);
        self.out.push(b'"');
    }

    /// Writes a member whose name is not declared.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.out.push(b',');
        push_quoted(self.out, name);
        self.out.push(b':');
        self.push(json);
    }

    /// Ends the line that starts at `start`: adds its checksum and LF.
    pub(super) fn end(&mut self, start: usize) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let crc = crc32fast::hash(self.out.get(start..).unwrap_or_default());
        let mut hex = [0; 8];
        for (place, digit) in hex.iter_mut().rev().enumerate() {
            *digit = DIGITS[(crc >> (4 * place)) as usize & 0xF];
        }
        self.out.extend_from_slice(TAIL_START);
        self.out.extend_from_slice(&hex);
        self.out.extend_from_slice(b"\"}\n");
    }
}

/// Methods that write a value of their class with a function.
macro_rules! values {
    ($($method:ident: $type:ty = $write:expr;)+) => {
        $(
            #[inline]
            fn $method(&mut self, field: &'static Field, value: Option<&$type>) -> Result<()> {
                let write: fn(&mut Vec<u8>, &$type) = $write;
                if let Some(value) = value {
                    self.push(field.member);
                    write(self.out, value);
                }
                Ok(())
            }
        )+
    };
}

impl FieldWriter for LineWriter<'_> {
    values! {
        text: String = |out, text| push_quoted(out, text);
        uuid: Uuid = push_uuid;
        names: Vec<String> = |out, names| push_names(out, names);
        client: Client = |out, client| push_quoted(out, client.as_str());
        int: i64 = |out, int| out.extend_from_slice(itoa::Buffer::new().format(*int).as_bytes());
        fraction: f64 = push_json;
        flag: bool = push_json;
        instant: Timestamp = |out, time| push_quoted(out, time.as_str());
        day: Day = push_json;
        sum: u64 = push_json;
        sketch: Sketch = push_json;
        counts: BTreeMap<String, u64> = push_json;
        sums: MessageSums = push_json;
        hashes: IdHashes = push_json;
    }

    fn payload(&mut self, field: &'static Field, value: Option<&String>) -> Result<()> {
        let Some(value) = value else {
            return Ok(());
        };
        match form(field.name, value)? {
            Form::Nested => {
                self.push(field.member);
                self.push(value);
                Ok(())
            }
            Form::Text => self.text(field, Some(value)),
        }
    }

    #[inline]
    fn word<W: Word>(&mut self, field: &'static Field, value: Option<&W>) -> Result<()> {
        if let Some(word) = value {
            self.quoted(field.member, word.word());
        }
        Ok(())
    }

    #[inline]
    fn validity(&mut self, field: &'static Field, value: Option<&Validity>) -> Result<()> {
        self.int(field, value.map(|validity| &validity.at))
    }

    fn repeated(&mut self, field: &'static Field) -> Result<()> {
        if field.name == "parent_id" {
            let parent_id = self.parent_id;
            self.uuid(field, parent_id.as_ref())
        } else {
            let locked_at = self.locked_at;
            self.int(field, locked_at.as_ref())
        }
    }
}

fn push_uuid(out: &mut Vec<u8>, id: &Uuid) {
    let mut text = [b'"'; 38];
    id.hyphenated().encode_lower(&mut text[1..]);
    out.extend_from_slice(&text);
}

fn push_names(out: &mut Vec<u8>, names: &[String]) {
    out.push(b'[');
    for (place, name) in names.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        push_quoted(out, name);
    }
    out.push(b']');
}

fn push_json<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    // Writing to a `Vec` cannot fail.
    let _ = serde_json::to_writer(out, value);
}
