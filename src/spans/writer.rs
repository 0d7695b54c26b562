//! The thread that writes the spans of a layer. It keeps the event that started each open span,
//! because the span's end and child spans refer to it.

use std::collections::HashMap;
use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use serde_json::json;
use tracing::Level;
use uuid::Uuid;

use super::fields::Fields;
use crate::error::{Error, Result};
use crate::record::{Event, Record, ToolCallDone, ToolCallReq, ToolStatus, Validity};
use crate::store::Store;

/// Maximum number of records in a batch. A batch also ends when a record needs the id of an earlier
/// one.
const BATCH_MAX: usize = 500;

const TOOL_NAME: &str = "gen_ai.tool.name";
const CALL_ID: &str = "gen_ai.tool.call.id";
const ARGUMENTS: &str = "gen_ai.tool.call.arguments";
const RESULT: &str = "gen_ai.tool.call.result";
const PROVIDER: &str = "gen_ai.provider.name";
const TURN_ID: &str = "decklog.turn_id";
const ERROR_TYPE: &str = "error.type";

/// A message from the layer.
pub(super) enum Seen {
    Begun(Begun),
    Ended(Ended),
    Flush(SyncSender<Result<()>>),
    /// Ends the thread.
    End,
}

pub(super) struct Begun {
    pub(super) key: u64,
    pub(super) parent: Option<u64>,
    pub(super) at: i64,
    pub(super) name: &'static str,
    pub(super) target: &'static str,
    pub(super) level: Level,
    pub(super) fields: Fields,
}

pub(super) struct Ended {
    pub(super) key: u64,
    pub(super) at: i64,
    pub(super) latency_ms: i64,
    /// The fields recorded after the start of the span.
    pub(super) fields: Fields,
    pub(super) error: Option<String>,
}

/// An open span.
struct Span {
    /// The id of the event that started the span; `None` until that event is written.
    event_id: Option<i64>,
    /// The event type without its last part.
    what: String,
    /// The turn of the calls in the span.
    turn_id: Uuid,
    /// For a tool: the call's id and the tool's name.
    call: Option<(String, String)>,
}

struct Writer<'a> {
    store: &'a Store,
    lost: &'a AtomicU64,
    spans: HashMap<u64, Span>,
    /// Each record, with the key of the span that it starts, if any.
    batch: Vec<(Option<u64>, Record)>,
    last_error: Option<Error>,
}

/// Writes messages until the end.
pub(super) fn write(store: &Store, seen: &Receiver<Seen>, lost: &AtomicU64) {
    let mut writer = Writer {
        store,
        lost,
        spans: HashMap::new(),
        batch: Vec::new(),
        last_error: None,
    };
    while let Ok(first) = seen.recv() {
        for one in iter::once(first).chain(seen.try_iter()) {
            match one {
                Seen::Begun(begun) => writer.begin(begun),
                Seen::Ended(ended) => writer.end(ended),
                Seen::Flush(sender) => {
                    writer.flush();
                    // The send fails if the caller no longer waits.
                    let _ = sender.send(writer.last_error.take().map_or(Ok(()), Err));
                }
                Seen::End => {
                    writer.flush();
                    return;
                }
            }
            if writer.batch.len() >= BATCH_MAX {
                writer.flush();
            }
        }
        writer.flush();
    }
}

impl Writer<'_> {
    fn begin(&mut self, begun: Begun) {
        let parent_id = begun.parent.and_then(|key| self.event_of(key));
        let above = begun.parent.and_then(|key| self.spans.get(&key));
        let own_turn = begun.fields.text(TURN_ID);
        let own_turn = own_turn.and_then(|id| Uuid::try_parse(&id).ok());
        let turn_id = own_turn.or(above.map(|span| span.turn_id));
        let turn_id = turn_id.unwrap_or_else(Uuid::new_v4);
        let call = begun.fields.text(TOOL_NAME).map(|tool_name| {
            let call_id = begun.fields.text(CALL_ID);
            (
                call_id.unwrap_or_else(|| Uuid::new_v4().to_string()),
                tool_name,
            )
        });
        if let Some((call_id, tool_name)) = &call {
            let vendor = begun.fields.text(PROVIDER);
            let vendor = vendor.unwrap_or_else(|| begun.target.to_owned());
            let arguments = begun.fields.json(ARGUMENTS);
            let request = ToolCallReq {
                started_at: Validity::at(begun.at),
                arguments_json: Some(arguments.unwrap_or_else(|| "null".to_owned())),
                ..ToolCallReq::new(turn_id, &**call_id, vendor, &**tool_name)
            };
            self.batch.push((None, request.into()));
        }
        let what = match call {
            Some(_) => "tool_call".to_owned(),
            None => event_name(begun.name),
        };
        let span = Span {
            event_id: None,
            what,
            turn_id,
            call,
        };
        let mut payload = named(&span);
        payload.insert("span".to_owned(), begun.name.into());
        payload.insert("target".to_owned(), begun.target.into());
        payload.insert("level".to_owned(), begun.level.as_str().into());
        self.event(&span, "started", parent_id, begun.at, payload, begun.fields);
        if let Some((begins, _)) = self.batch.last_mut() {
            *begins = Some(begun.key);
        }
        self.spans.insert(begun.key, span);
    }

    fn end(&mut self, ended: Ended) {
        let began = self.event_of(ended.key);
        let Some(span) = self.spans.remove(&ended.key) else {
            // The start of the span was lost.
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let error_kind = ended.fields.text(ERROR_TYPE);
        let message = ended.fields.text("otel.status_message").or(ended.error);
        let has_failed = error_kind.is_some()
            || message.is_some()
            || ended.fields.text("otel.status_code").as_deref() == Some("ERROR");
        let (status, how) = if has_failed {
            (ToolStatus::Failed, "failed")
        } else {
            (ToolStatus::Completed, "completed")
        };
        if let Some((call_id, _)) = &span.call {
            let error_kind = error_kind.unwrap_or_else(|| "tool_error".to_owned());
            let done = ToolCallDone {
                ended_at: Validity::at(ended.at),
                latency_ms: ended.latency_ms,
                outcome_json: ended.fields.json(RESULT),
                error_kind: has_failed.then_some(error_kind),
                error_msg: message.clone().filter(|_| has_failed),
                ..ToolCallDone::new(span.turn_id, &**call_id, status)
            };
            self.batch.push((None, done.into()));
        }
        let mut payload = named(&span);
        if let Some(message) = message {
            payload.insert("error".to_owned(), message.into());
        }
        self.event(&span, how, began, ended.at, payload, ended.fields);
    }

    fn event(
        &mut self,
        span: &Span,
        how: &str,
        parent_id: Option<i64>,
        at: i64,
        mut payload: serde_json::Map<String, serde_json::Value>,
        fields: Fields,
    ) {
        let fields = fields.into_json();
        if !fields.is_empty() {
            payload.insert("fields".to_owned(), fields.into());
        }
        let event = Event {
            created_at: at,
            payload: (!payload.is_empty()).then(|| json!(payload).to_string()),
            ..Event::new(parent_id, format!("{}.{how}", span.what))
        };
        self.batch.push((None, event.into()));
    }

    /// The id of the event that started a span. Flushes the batch if the event is in it.
    fn event_of(&mut self, key: u64) -> Option<i64> {
        if self.spans.get(&key)?.event_id.is_none() {
            self.flush();
        }
        self.spans.get(&key)?.event_id
    }

    fn flush(&mut self) {
        let (begins, records): (Vec<_>, Vec<_>) = self.batch.drain(..).unzip();
        if records.is_empty() {
            return;
        }
        let answers = match self.store.record_batch(records) {
            Ok(answers) => answers,
            Err(error) => begins.iter().map(|_| Err(error.clone())).collect(),
        };
        for (begins, answer) in begins.into_iter().zip(answers) {
            match (begins.and_then(|key| self.spans.get_mut(&key)), answer) {
                (Some(span), Ok(ack)) => span.event_id = ack.assigned,
                (None, Ok(_)) => {}
                (_, Err(error)) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    self.last_error = Some(error);
                }
            }
        }
    }
}

/// The fields that pair starts and ends: the call and its tool.
fn named(span: &Span) -> serde_json::Map<String, serde_json::Value> {
    let mut payload = serde_json::Map::new();
    if let Some((call_id, tool_name)) = &span.call {
        payload.insert("call_id".to_owned(), call_id.as_str().into());
        payload.insert("tool_name".to_owned(), tool_name.as_str().into());
        payload.insert("request_id".to_owned(), span.turn_id.to_string().into());
    }
    payload
}

/// Converts a span's name to an event type: words of letters, digits, `-` and `_`, joined by dots.
fn event_name(name: &str) -> String {
    let keeps = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = name
        .chars()
        .map(|c| if keeps(c) { c } else { '_' })
        .collect();
    let words: Vec<&str> = name.split('.').filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return "span".to_owned();
    }
    words.join(".")
}
