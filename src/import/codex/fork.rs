//! Where the own part of a forked rollout begins. A fork opens with its own `session_meta` and
//! then holds its parent's lines once more, mostly with the times at which they were copied. What
//! they say and the tokens they tell of are the parent's, and are taken from its file.
//!
//! Each line is judged by itself and those before it, so that a file that still grows is read as
//! the whole of it will be.

use uuid::Uuid;

use super::shape::{Line, Payload};
use crate::import::json;

/// How much earlier than its session a line may seem, in milliseconds, before it is a copy.
const SLACK_MS: i64 = 1_000;
/// Copies are written in one go. A line that comes so long after the one before it is none.
const PAUSE_MS: i64 = 2_000;
/// The same where turns tell by their ids or times whose they are.
const LONG_PAUSE_MS: i64 = 60_000;

/// The start of a file, in which each line may be a copy.
pub(super) struct Start {
    /// When the session was made, in epoch milliseconds.
    made_at: i64,
    /// The number of its first own line, if the file says so.
    own_from: Option<u64>,
    is_fork: bool,
    /// Some copies kept their times, so all have.
    keeps_times: bool,
    /// A turn told by itself that it is a copy.
    turns_tell: bool,
    latest: i64,
}

impl Start {
    /// What the first `session_meta` of a file, written at a time, says of it.
    pub(super) fn of(payload: &Payload<'_>, at: i64) -> Start {
        let made_at = json::timestamp(payload.timestamp).ok().flatten();
        let own_from = json::number(payload.history_start);
        Start {
            // A fork may open with its parent's time, on a line that was written when it was made.
            made_at: made_at.map_or(at, |made_at| made_at.max(at)),
            own_from,
            is_fork: own_from.is_some()
                || json::text(payload.forked_from_id).is_ok_and(|id| id.is_some()),
            keeps_times: false,
            turns_tell: false,
            latest: at,
        }
    }

    /// The `session_meta` of another session stands here: its lines follow.
    pub(super) fn has_parent(&mut self) {
        self.is_fork = true;
    }

    /// Whether a line is a copy; if not, neither is any after it.
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

/// When the turn that a line names began, as far as its id or the line tells.
fn began_at(payload: &Payload<'_>) -> Option<i64> {
    let id = json::text(payload.turn_id).ok().flatten();
    let id = id.and_then(|id| Uuid::try_parse(&id).ok());
    if let Some(id) = id.filter(|id| id.get_version_num() == 7) {
        return i64::try_from(id.as_u128() >> 80).ok();
    }
    let seconds = i64::try_from(json::number(payload.started_at)?).ok()?;
    seconds.checked_mul(1_000)
}
