//! Records that are given by name and value.

use crate::capture::Capture;
use crate::collections::{Ack, IfKnown, given};
use crate::error::Result;
use crate::line::text_len;
use crate::record::{Dynamic, Kind, Record, payload_of_string, push_quoted};
use crate::store::Store;

/// The payload that a text of another language is, such as an outcome: the text, which may be JSON.
/// Texts such as `4.5` and `true` are kept apart from the number and the boolean.
///
/// ```
/// assert_eq!(decklog::bindings::payload("12 lines".to_owned()), "12 lines");
/// assert_eq!(decklog::bindings::payload("12".to_owned()), r#""12""#);
/// ```
pub fn payload(text: String) -> String {
    payload_of_string(text)
}

/// Appends a text as a JSON string.
///
/// ```
/// let mut out = Vec::new();
/// decklog::bindings::push_text(&mut out, "a \"b\"");
/// assert_eq!(out, br#""a \"b\"""#);
/// ```
pub fn push_text(out: &mut Vec<u8>, text: &str) {
    push_quoted(out, text);
}

/// A record that was given by name and value.
#[derive(Debug, Clone)]
pub struct Input {
    record: Record,
    if_known: IfKnown,
}

impl Input {
    /// Reads a record from its fields, as [`Record::from_json`] does from JSON. `kind` is that of
    /// the record, if no field says it. A record without a time gets the current time: a repeated
    /// one with the same id is compared without the time.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), naming the invalid field.
    pub fn new(kind: Option<Kind>, fields: &[(&str, Dynamic<'_>)]) -> Result<Input> {
        let given = Record::from_dynamic(kind, fields)?;
        Ok(Input {
            record: given.record,
            if_known: IfKnown::of_client(given.has_time),
        })
    }

    /// Total length of its strings, in bytes.
    pub(super) fn text_len(&self) -> usize {
        text_len(&self.record)
    }

    pub(super) fn kind(&self) -> Kind {
        self.record.kind()
    }

    /// The id of the record: given, or made for it. `None` if the log assigns it, for a tool call,
    /// which has no id of its own, and for a rollup.
    pub fn id(&self) -> Option<String> {
        Some(match &self.record {
            Record::Turn(turn) => turn.id.to_string(),
            Record::Message(message) => message.id.to_string(),
            Record::Conversation(it) | Record::ConversationUpdated(it) => it.id.to_string(),
            Record::Thought(thought) => thought.id.clone(),
            Record::Proposal(proposal) => proposal.request_id.to_string(),
            Record::ProposalStep(step) => step.request_id.to_string(),
            _ => return None,
        })
    }

    /// The record.
    pub fn into_record(self) -> Record {
        self.record
    }

    pub(super) fn parts(self) -> (Result<Record>, IfKnown) {
        (given(self.record), self.if_known)
    }
}

impl Store {
    /// As [`record`](Store::record).
    pub fn record_input(&self, input: Input) -> Result<Ack> {
        self.record_if(input.record, input.if_known)
    }

    /// As [`record_batch`](Store::record_batch).
    pub fn record_inputs(&self, inputs: Vec<Input>) -> Result<Vec<Result<Ack>>> {
        self.put_batch(inputs.into_iter().map(Input::parts))
    }

    /// As [`record_all`](Store::record_all).
    pub fn record_all_inputs(&self, inputs: Vec<Input>) -> Result<Vec<Ack>> {
        let checked = |input: Input| {
            let (record, if_known) = input.parts();
            Ok((record?, if_known))
        };
        self.put_all(inputs.into_iter().map(checked).collect::<Result<_>>()?)
    }
}

impl Capture {
    /// As [`record`](Capture::record).
    pub fn record_input(&self, input: Input) -> Result<()> {
        let (record, if_known) = input.parts();
        self.record_all(vec![(record?, if_known)], None)
    }
}
