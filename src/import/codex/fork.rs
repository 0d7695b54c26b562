//! Finds where the own part of a forked rollout begins. A fork starts with its own `session_meta`
//! and then repeats its parent's lines, usually with the time of the copy as timestamp. The content
//! and tokens of these lines belong to the parent and are read from its file.
//!
//! Each line is judged only by itself and the lines before it, so that a growing file is read in
//! the same way as the complete file.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::shape::{Line, Payload};
use crate::import::json;

/// Tolerance in milliseconds: a line that is earlier than its session by more than this is a copy.
const SLACK_MS: i64 = 1_000;
/// Copies are written without pauses. A line that follows the previous one after at least this
/// pause is not a copy.
const PAUSE_MS: i64 = 2_000;
/// Like `PAUSE_MS`, for files in which turns can be recognized as copies by their ids or times.
const LONG_PAUSE_MS: i64 = 60_000;

/// State for the start of a file, where each line may be a copy.
#[derive(Serialize, Deserialize)]
pub(super) struct Start {
    /// Creation time of the session, in epoch milliseconds.
    made_at: i64,
    /// Ordinal of the first own line, if the file states it.
    own_from: Option<u64>,
    is_fork: bool,
    /// A copied line kept its timestamp, so all copies do.
    keeps_times: bool,
    /// A turn could be classified by its own id or time.
    turns_tell: bool,
    latest: i64,
}

impl Start {
    /// Reads the first `session_meta` of a file, which was written at time `at`.
    pub(super) fn of(payload: &Payload<'_>, at: i64) -> Start {
        let made_at = json::timestamp(payload.timestamp).ok().flatten();
        let own_from = json::number(payload.history_start);
        Start {
            // A fork may start with its parent's time, although the line was written when the fork
            // was created.
            made_at: made_at.map_or(at, |made_at| made_at.max(at)),
            own_from,
            is_fork: own_from.is_some()
                || json::text(payload.forked_from_id).is_ok_and(|id| id.is_some()),
            keeps_times: false,
            turns_tell: false,
            latest: at,
        }
    }

    /// A `session_meta` of another session was read: copies of that session's lines follow.
    pub(super) fn has_parent(&mut self) {
        self.is_fork = true;
    }

    /// Whether a line is a copy. If it is not, no later line is a copy.
    pub(super) fn is_copy(&mut self, line: &Line<'_>, payload: &Payload<'_>, at: i64) -> bool {
        if let Some(own_from) = self.own_from {
            return json::number(line.ordinal).is_none_or(|ordinal| ordinal < own_from);
        }
        if at.saturating_add(SLACK_MS) < self.made_at {
            self.keeps_times = true;
            return true;
        }
        if !self.is_fork || self.keeps_times {
            return false;
        }
        if let Some(began_at) = began_at(payload) {
            self.turns_tell = true;
            self.latest = self.latest.max(at);
            return began_at.saturating_add(SLACK_MS) <= self.made_at;
        }
        let pause = if self.turns_tell {
            LONG_PAUSE_MS
        } else {
            PAUSE_MS
        };
        let after = at.saturating_sub(self.latest.max(self.made_at));
        self.latest = self.latest.max(at);
        after < pause
    }
}

/// When the turn of a line began, if its id or the line states it.
fn began_at(payload: &Payload<'_>) -> Option<i64> {
    let id = json::text(payload.turn_id).ok().flatten();
    let id = id.and_then(|id| Uuid::try_parse(&id).ok());
    if let Some(id) = id.filter(|id| id.get_version_num() == 7) {
        return i64::try_from(id.as_u128() >> 80).ok();
    }
    let seconds = i64::try_from(json::number(payload.started_at)?).ok()?;
    seconds.checked_mul(1_000)
}
