//! Log records: events, and records that no span has.

use serde_json::Value as Json;

use super::attributes::{Attributes, Form, message, nanos, said, structured};
use super::ids::{self, SpanId, TraceId};
use crate::error::Result;
use crate::otlp::own;
use crate::otlp::proto::LogRecord;
use crate::record::{ConversationMessage, Event, Record};

/// The event of a record that the conventions have no name for.
pub(super) const RECORD: &str = "decklog.record";
/// The event of messages that are in no span yet.
pub(super) const MESSAGE: &str = "gen_ai.client.inference.operation.details";

/// Severities.
const INFO: i32 = 9;
const ERROR: i32 = 17;

/// A log record before it has its records.
pub(super) struct Draft {
    pub(super) trace: TraceId,
    pub(super) span: Option<SpanId>,
    pub(super) event: String,
    /// In epoch milliseconds.
    pub(super) at: i64,
    pub(super) attributes: Attributes,
}

impl Draft {
    /// The records of a conversation or thread.
    pub(super) fn new(trace: TraceId, event: &str, at: i64) -> Draft {
        Draft {
            trace,
            span: None,
            event: event.to_owned(),
            at,
            attributes: Attributes::default(),
        }
    }

    pub(super) fn log(self, records: &[&Record]) -> Result<LogRecord> {
        let mut attributes = self.attributes.0;
        own::add(records, &mut attributes)?;
        let is_failure = self.event.ends_with(".failed");
        Ok(LogRecord {
            time_unix_nano: nanos(self.at),
            observed_time_unix_nano: nanos(self.at),
            severity_number: if is_failure { ERROR } else { INFO },
            attributes,
            trace_id: self.trace.to_vec(),
            span_id: self.span.map(|id| id.to_vec()).unwrap_or_default(),
            event_name: self.event,
            ..LogRecord::default()
        })
    }
}

/// An event. `root` is the event at the top of its tree.
pub(super) fn of_event(event: &Event, trace: TraceId, record: &Record) -> Result<LogRecord> {
    let mut draft = Draft::new(trace, &event.event_type, event.created_at);
    draft
        .attributes
        .count("decklog.event.id", Some(event.id))
        .count("decklog.event.parent_id", event.parent_id);
    let mut log = draft.log(&[record])?;
    let payload = event.payload.as_deref();
    log.body = payload.map(|text| {
        let json: Json = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        structured(&json)
    });
    Ok(log)
}

/// A message that is in no span.
pub(super) fn of_message(said_here: &ConversationMessage, trace: TraceId, provider: &str) -> Draft {
    let mut draft = Draft::new(trace, MESSAGE, said_here.timestamp.at());
    let received = ids::of_message(said_here);
    draft.trace = received.map_or(draft.trace, |ids| ids.trace);
    draft.span = received.map(|ids| ids.span);
    let list = vec![message(said_here.role, said(said_here), None)];
    draft
        .attributes
        .text("gen_ai.operation.name", "chat")
        .text("gen_ai.provider.name", provider)
        .text(
            "gen_ai.conversation.id",
            said_here.conversation_id.to_string(),
        )
        .list("gen_ai.input.messages", list, Form::Log);
    draft
}
