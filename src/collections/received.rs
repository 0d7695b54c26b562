//! The turns of received spans and log records: JSON with what has no field of its own under `otel`.

use serde::Deserialize;

use super::SpanStatus;
use crate::record::{ConversationTurn, TurnKind};

/// How the content of such a turn starts.
pub(crate) const RECEIVED: &str = "{\"otel\":{";

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

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Otel {
    name: Option<String>,
    event: Option<String>,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    error: Option<String>,
    error_type: Option<String>,
}

/// Nanoseconds of a millisecond.
const NANOS: i64 = 1_000_000;

impl Received {
    /// `None` if it is another turn.
    pub(super) fn of(turn: &ConversationTurn) -> Option<Received> {
        if turn.kind != TurnKind::SysInfo || !turn.content.starts_with(RECEIVED) {
            return None;
        }
        let Content { otel } = serde_json::from_str(&turn.content).ok()?;
        let is_failed = otel.error.is_some() || otel.error_type.is_some();
        let failed = is_failed.then_some(SpanStatus::Failed);
        let duration_ms = (otel.start_ns.zip(otel.end_ns))
            .map(|(start, end)| end.saturating_sub(start).max(0) / NANOS);
        let status = match (otel.start_ns, otel.end_ns) {
            (Some(_), None) => failed.or(Some(SpanStatus::Running)),
            (Some(_), Some(_)) => failed.or(Some(SpanStatus::Completed)),
            (None, _) => failed,
        };
        Some(Received {
            name: otel.name.or(otel.event)?,
            duration_ms,
            status,
        })
    }
}
