//! The ids of traces and spans. They follow from the ids of records, so that a record that is sent
//! twice is the same span of the same trace.

use serde_json::Value;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::record::{ConversationMessage, ConversationTurn, ToolCallReq, TurnKind};

/// The id of a trace.
pub(super) type TraceId = [u8; 16];
/// The id of a span.
pub(super) type SpanId = [u8; 8];

/// The ids of a span that was received over OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) parent: Option<SpanId>,
}

/// The trace of a conversation or thread.
pub(super) fn trace(id: Uuid) -> TraceId {
    *id.as_bytes()
}

/// The trace of a tree of events.
pub(super) fn trace_of_events(store: Uuid, root: i64) -> TraceId {
    *Uuid::new_v5(&store, format!("event {root}").as_bytes()).as_bytes()
}

/// The root span of a conversation or thread.
pub(super) fn root(id: Uuid) -> SpanId {
    span(&[b"invoke_agent", id.as_bytes()])
}

/// The span of an answer.
pub(super) fn chat(id: Uuid) -> SpanId {
    span(&[b"chat", id.as_bytes()])
}

/// The span of a tool call.
pub(super) fn tool(req: &ToolCallReq) -> SpanId {
    let call = req.call_id.as_bytes();
    span(&[b"execute_tool", req.request_id.as_bytes(), call])
}

/// An id of zeros is not valid.
fn span(parts: &[&[u8]]) -> SpanId {
    let mut all = Vec::new();
    for part in parts {
        all.extend_from_slice(&(part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    }
    xxh3_64(&all).max(1).to_be_bytes()
}

/// The ids that a message was received with.
pub(super) fn of_message(message: &ConversationMessage) -> Option<Received> {
    of_json(message.inference_metadata.as_deref()?)
}

/// The ids that a turn was received with.
pub(super) fn of_turn(turn: &ConversationTurn) -> Option<Received> {
    matches!(turn.kind, TurnKind::SysInfo | TurnKind::Tool)
        .then(|| of_json(&turn.content))
        .flatten()
}

/// The member `otel` of an object, with `trace_id`, `span_id` and perhaps `parent_span_id`.
fn of_json(json: &str) -> Option<Received> {
    if !json.contains("\"otel\"") {
        return None;
    }
    let value: Value = serde_json::from_str(json).ok()?;
    let otel = value.get("otel")?;
    let text = |name: &str| otel.get(name).and_then(Value::as_str);
    Some(Received {
        trace: bytes(text("trace_id")?)?,
        span: bytes(text("span_id")?)?,
        parent: text("parent_span_id").and_then(bytes),
    })
}

/// Hexadecimal digits as an id; `None` for an id of zeros.
pub(super) fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
    let all: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>()?;
    let id: [u8; N] = all.try_into().ok()?;
    (id != [0; N]).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Role;

    #[test]
    fn a_received_message_keeps_its_ids() {
        let mut message = ConversationMessage::new(Uuid::nil(), Role::Assistant, "2");
        assert_eq!(of_message(&message), None);
        message.inference_metadata = Some(
            r#"{"otel":{"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"}}"#
                .to_owned(),
        );
        let ids = of_message(&message).unwrap();
        assert_eq!((ids.trace[0], ids.span[1], ids.parent), (0x4b, 0xf0, None));
        let zeros = r#"{"otel":{"trace_id":"00000000000000000000000000000000","span_id":"00f067aa0ba902b7"}}"#;
        message.inference_metadata = Some(zeros.to_owned());
        assert_eq!(of_message(&message), None);
    }

    #[test]
    fn ids_follow_from_records() {
        let id = Uuid::from_u128(7);
        assert_eq!(root(id), root(id));
        assert_ne!(root(id), chat(id));
        assert_ne!(trace_of_events(id, 1), trace_of_events(id, 2));
    }
}
