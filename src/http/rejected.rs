//! `/capture/rejected`: records that were answered with 202 and rejected later.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::app::Shared;
use super::body::{Answer, Made};
use super::problem;
use crate::error::Error;
use crate::record::{Record, Timestamp};

/// Maximum number of rejections that are kept. Earlier ones are only counted.
const KEPT_MAX: usize = 1_000;
/// Maximum bytes of a reason.
const REASON_BYTES_MAX: usize = 1 << 10;

/// A record that was answered with 202 and rejected later.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct Rejection {
    /// Time of the rejection.
    rejected_at: Timestamp,
    /// The kind of the record.
    kind: &'static str,
    /// The record's key: its id, or the ids of the request and the call, separated by a space.
    key: String,
    /// The conversation of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<Uuid>,
    /// The `code` of the problem that the client would have received.
    code: &'static str,
    /// The reason of the rejection.
    detail: String,
}

/// Rejections since the server started.
#[derive(Debug, Clone, Default)]
pub(super) struct Rejected(Arc<Mutex<RecentRejections>>);

#[derive(Debug, Default)]
struct RecentRejections {
    latest: VecDeque<Rejection>,
    by_code: BTreeMap<&'static str, u64>,
    first_code: Option<&'static str>,
}

impl Rejected {
    fn recent(&self) -> MutexGuard<'_, RecentRejections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, error: &Error, record: &Record) {
        let code = problem::code(error);
        let key = record.key();
        let conversation_id = match record {
            Record::Message(message) => Some(message.conversation_id),
            _ => None,
        };
        let kind = record.kind().stem();
        tracing::error!(kind, key = ?key, code, "a record that was answered with 202 was rejected");
        let mut detail = error.reason();
        let end = (0..=REASON_BYTES_MAX).rfind(|end| detail.is_char_boundary(*end));
        detail.truncate(end.unwrap_or_default());
        let mut kept = self.recent();
        kept.first_code.get_or_insert(code);
        *kept.by_code.entry(code).or_default() += 1;
        if kept.latest.len() == KEPT_MAX {
            kept.latest.pop_front();
        }
        kept.latest.push_back(Rejection {
            rejected_at: Timestamp::now(),
            kind,
            key,
            conversation_id,
            code,
            detail,
        });
    }

    /// The number of rejections by problem code.
    pub(super) fn by_code(&self) -> BTreeMap<&'static str, u64> {
        self.recent().by_code.clone()
    }

    /// Logs the number of rejections, if there are any.
    pub(super) fn log_total(&self) {
        let kept = self.recent();
        let count: u64 = kept.by_code.values().sum();
        if let Some(first) = kept.first_code {
            tracing::error!(count, reason = first, "queued records were rejected");
        }
    }
}

/// Records that were answered with 202 and rejected later.
#[derive(Debug, Serialize, ToSchema)]
struct Rejections {
    /// The latest rejections, latest first. Maximum: 1000.
    rejected: Vec<Rejection>,
    /// Number of rejections since the server started.
    total: u64,
}

/// Lists records that were answered with 202 and rejected later, since the server started.
#[utoipa::path(
    get,
    path = "/capture/rejected",
    responses((status = 200, description = "The latest rejections", body = Rejections))
)]
pub(super) async fn rejected(State(app): State<Shared>) -> Answer {
    let kept = app.rejected.recent();
    let rejections = Rejections {
        rejected: kept.latest.iter().rev().cloned().collect(),
        total: kept.by_code.values().sum(),
    };
    drop(kept);
    Made::ok(&rejections)
}
