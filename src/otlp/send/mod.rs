//! Records become spans and log records, as the conventions of OpenTelemetry for generative AI
//! name them.
//!
//! Each record is in one item. A conversation is the root span of its trace, an answer is a span
//! `chat` with what was said since the answer before it, and a tool call is a span `execute_tool`
//! once it has its outcome. A received span that is none of these is sent on. All other records are
//! log records of the same trace.

mod attributes;
mod batch;
mod chat;
mod gather;
mod ids;
mod lines;
mod log;
mod received;
pub(crate) mod request;
mod talk;
#[cfg(test)]
pub(crate) mod tests;
mod tool;

use self::ids::{SpanId, TraceId};
use super::own;
use super::proto::{KeyValue, Scope, Status};
use crate::error::Result;
use crate::record::{ConversationMessage, Record, hex};

#[cfg(all(test, feature = "ship"))]
pub(crate) use super::proto::PartialSuccess;
#[cfg(feature = "ship")]
pub(crate) use super::proto::{ExportResponse, RpcStatus};
pub(crate) use super::proto::{LogRecord, Span};

pub(crate) use self::gather::gather;
#[cfg(feature = "ship")]
pub(crate) use self::lines::Chunk;
pub(crate) use self::lines::Chunks;

/// Spans and log records, in the order in which they are sent.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) spans: Vec<Span>,
    pub(crate) logs: Vec<LogRecord>,
}

/// The kinds of spans that are sent.
const INTERNAL: i32 = 1;
const CLIENT: i32 = 3;
/// The code of a failed span.
const FAILED: i32 = 2;

/// A span before it has its records.
struct Draft {
    trace: TraceId,
    id: SpanId,
    parent: Option<SpanId>,
    name: String,
    kind: i32,
    /// In epoch milliseconds.
    time: (i64, i64),
    attributes: Vec<KeyValue>,
    /// The message of the error of a failed span.
    error: Option<String>,
}

impl Draft {
    fn span(mut self, records: &[&Record]) -> Result<Span> {
        own::add(records, &mut self.attributes)?;
        let (start, end) = self.time;
        Ok(Span {
            trace_id: self.trace.to_vec(),
            span_id: self.id.to_vec(),
            parent_span_id: self.parent.map(|id| id.to_vec()).unwrap_or_default(),
            name: self.name,
            kind: self.kind,
            start_time_unix_nano: attributes::nanos(start.min(end)),
            end_time_unix_nano: attributes::nanos(end),
            attributes: self.attributes,
            status: self.error.map(|message| Status {
                message,
                code: FAILED,
            }),
            ..Span::default()
        })
    }
}

/// The scope of all items.
pub(crate) fn scope() -> Scope {
    Scope {
        name: own::SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Scope::default()
    }
}

/// The W3C `traceparent` of the span of an answer or of another message, to pass on to a service
/// that is called for it.
#[must_use]
pub fn traceparent(message: &ConversationMessage) -> String {
    let received = ids::of_message(message);
    let trace = received.map_or(ids::trace(message.conversation_id), |ids| ids.trace);
    let span = received.map_or(ids::chat(message.id), |ids| ids.span);
    format!("00-{}-{}-01", hex(&trace), hex(&span))
}
