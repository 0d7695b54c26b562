//! Writes a line, member by member, in canonical order.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::{LINE_START, Op, TAIL_START, member};
use crate::error::Result;
use crate::record::declare::{Field, FieldWriter, Fields, Maybe, Word};
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

    #[inline]
    fn json_of<T: Serialize>(&mut self, field: &'static Field, value: &impl Maybe<T>) {
        if let Some(value) = value.given() {
            self.push(field.member);
            // Writing to a `Vec` cannot fail.
            let _ = serde_json::to_writer(&mut *self.out, value);
        }
    }

    fn name(&mut self, name: &str) {
        self.out.push(b',');
        push_quoted(self.out, name);
        self.out.push(b':');
    }

    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
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

impl FieldWriter for LineWriter<'_> {
    #[inline]
    fn text(&mut self, field: &'static Field, value: &impl Maybe<String>) -> Result<()> {
        if let Some(value) = value.given() {
            self.push(field.member);
            push_quoted(self.out, value);
        }
        Ok(())
    }

    #[inline]
    fn uuid(&mut self, field: &'static Field, value: &impl Maybe<Uuid>) -> Result<()> {
        if let Some(id) = value.given() {
            let mut text = [b'"'; 38];
            id.hyphenated().encode_lower(&mut text[1..]);
            self.push(field.member);
            self.out.extend_from_slice(&text);
        }
        Ok(())
    }

    fn names(&mut self, field: &'static Field, value: &impl Maybe<Vec<String>>) -> Result<()> {
        let Some(values) = value.given() else {
            return Ok(());
        };
        self.push(field.member);
        self.out.push(b'[');
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                self.out.push(b',');
            }
            push_quoted(self.out, value);
        }
        self.out.push(b']');
        Ok(())
    }

    fn payload(&mut self, field: &'static Field, value: &impl Maybe<String>) -> Result<()> {
        let Some(value) = value.given() else {
            return Ok(());
        };
        match form(field.name, value)? {
            Form::Nested => self.raw(field.name, value),
            Form::Text => {
                self.name(field.name);
                push_quoted(self.out, value);
            }
        }
        Ok(())
    }

    #[inline]
    fn client(&mut self, field: &'static Field, value: &impl Maybe<Client>) -> Result<()> {
        if let Some(client) = value.given() {
            self.quoted(field.member, client.as_str());
        }
        Ok(())
    }

    #[inline]
    fn word<W: Word>(&mut self, field: &'static Field, value: &impl Maybe<W>) -> Result<()> {
        if let Some(word) = value.given() {
            self.quoted(field.member, word.word());
        }
        Ok(())
    }

    #[inline]
    fn int(&mut self, field: &'static Field, value: &impl Maybe<i64>) -> Result<()> {
        if let Some(value) = value.given() {
            self.push(field.member);
            self.push(itoa::Buffer::new().format(*value));
        }
        Ok(())
    }

    fn fraction(&mut self, field: &'static Field, value: &impl Maybe<f64>) -> Result<()> {
        self.json_of(field, value);
        Ok(())
    }

    fn flag(&mut self, field: &'static Field, value: &impl Maybe<bool>) -> Result<()> {
        self.json_of(field, value);
        Ok(())
    }

    #[inline]
    fn instant(&mut self, field: &'static Field, value: &impl Maybe<Timestamp>) -> Result<()> {
        if let Some(value) = value.given() {
            self.push(field.member);
            push_quoted(self.out, value.as_str());
        }
        Ok(())
    }

    #[inline]
    fn validity(&mut self, field: &'static Field, value: &impl Maybe<Validity>) -> Result<()> {
        self.int(field, &value.given().map(|validity| validity.at))
    }

    fn day(&mut self, field: &'static Field, value: &impl Maybe<Day>) -> Result<()> {
        self.json_of(field, value);
        Ok(())
    }

    fn sum(&mut self, field: &'static Field, value: &impl Maybe<u64>) -> Result<()> {
        self.json_of(field, value);
        Ok(())
    }

    fn sum_if_any(&mut self, field: &'static Field, value: &impl Maybe<u64>) -> Result<()> {
        self.sum(field, &value.given().copied().filter(|sum| *sum > 0))
    }

    fn sketch(&mut self, field: &'static Field, value: &impl Maybe<Sketch>) -> Result<()> {
        self.json_of(field, value);
        Ok(())
    }

    fn counts(
        &mut self,
        field: &'static Field,
        value: &impl Maybe<BTreeMap<String, u64>>,
    ) -> Result<()> {
        self.json_of(field, value);
        Ok(())
    }

    fn sums(&mut self, field: &'static Field, value: &impl Maybe<MessageSums>) -> Result<()> {
        if value.given().is_some_and(|sums| !sums.are_zero()) {
            self.json_of(field, value);
        }
        Ok(())
    }

    fn hashes(&mut self, field: &'static Field, value: &impl Maybe<IdHashes>) -> Result<()> {
        if value.given().is_some_and(|hashes| !hashes.is_empty()) {
            self.json_of(field, value);
        }
        Ok(())
    }

    fn repeated(&mut self, field: &'static Field) -> Result<()> {
        if field.name == "parent_id" {
            let parent_id = self.parent_id;
            self.uuid(field, &parent_id)
        } else {
            let locked_at = self.locked_at;
            self.int(field, &locked_at)
        }
    }
}
