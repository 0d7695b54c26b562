//! The turns of received spans and log records: JSON with what has no field of its own under `otel`.

use serde::Deserialize;
use serde_json::Value;

use super::SpanStatus;
use crate::record::{ConversationTurn, TurnKind};

/// How the content of such a turn starts.
const RECEIVED: &str = "{\"otel\":{";

/// What a received span or log record says about itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) name: String,
    /// `None` for a log record.
    pub(super) duration_ms: Option<i64>,
    pub(super) status: Option<SpanStatus>,
}

#[derive(Deserialize)]
struct Content {
    otel: Otel,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Otel {
    name: Option<String>,
    event: Option<String>,
    body: Value,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    error: Option<String>,
    error_type: Option<String>,
}

/// Nanoseconds of a millisecond.
const NANOS: u64 = 1_000_000;

/// Whether a turn is that of a received span or log record.
pub(crate) fn is_received(turn: &ConversationTurn) -> bool {
    turn.kind == TurnKind::SysInfo && turn.content.starts_with(RECEIVED)
}

impl Received {
    /// `None` if it is another turn, or has neither a name nor a text.
    pub(super) fn of(turn: &ConversationTurn) -> Option<Received> {
        if !is_received(turn) {
            return None;
        }
        let Content { otel } = serde_json::from_str(&turn.content).ok()?;
        let is_failed = otel.error.is_some() || otel.error_type.is_some();
        let failed = is_failed.then_some(SpanStatus::Failed);
        // 0 is a time that is not known.
        let start = otel.start_ns.filter(|start| *start > 0);
        let nanos = start.zip(otel.end_ns);
        let millis = nanos.map(|(start, end)| end.saturating_sub(start) / NANOS);
        let duration_ms = millis.and_then(|millis| i64::try_from(millis).ok());
        let status = match (otel.start_ns, otel.end_ns) {
            (Some(_), None) => failed.or(Some(SpanStatus::Running)),
            (Some(_), Some(_)) => failed.or(Some(SpanStatus::Completed)),
            (None, _) => failed,
        };
        let body = otel.body.as_str().map(str::to_owned);
        let mut names = [otel.name, otel.event, body].into_iter().flatten();
        Some(Received {
            name: names.find(|name| !name.trim().is_empty())?,
            duration_ms,
            status,
        })
    }
}
