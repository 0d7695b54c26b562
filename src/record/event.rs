//! Events: the actions of a supervisor and its agents, each below its parent event.

use super::declare::record;
use crate::error::{Error, Result};

/// Known event types. Any other dotted name is also allowed.
///
/// A type that ends in `.started` opens a span; the same name with `.completed` or `.failed` closes
/// it. [`Store::event_tree`](crate::Store::event_tree) reports its result and duration.
/// `worker.exited` closes the worker's process: the one with its `pid`, otherwise the first running
/// one under the same supervisor. All open spans below it are closed with it. All other types, such
/// as `worker.spawned`, have no duration.
pub mod event_type {
    /// A supervisor or worker started.
    pub const PROCESS_STARTED: &str = "process.started";
    /// A supervisor started a worker.
    pub const WORKER_SPAWNED: &str = "worker.spawned";
    /// A worker ended.
    pub const WORKER_EXITED: &str = "worker.exited";
    /// A revision of the code was promoted to known good.
    pub const REVISION_PROMOTED: &str = "revision.promoted";
    /// Workers exit right after they start.
    pub const CRASH_LOOP_DETECTED: &str = "crash_loop.detected";
    /// The supervisor rolled back to the known good revision.
    pub const ROLLBACK_ATTEMPTED: &str = "rollback.attempted";
    /// An agent's run started.
    pub const AGENT_STARTED: &str = "agent.started";
    /// An agent's run completed.
    pub const AGENT_COMPLETED: &str = "agent.completed";
    /// An agent's run failed.
    pub const AGENT_FAILED: &str = "agent.failed";
    /// A turn of a run started.
    pub const TURN_STARTED: &str = "turn.started";
    /// A turn completed.
    pub const TURN_COMPLETED: &str = "turn.completed";
    /// A tool was called.
    pub const TOOL_CALL_STARTED: &str = "tool_call.started";
    /// A tool call completed.
    pub const TOOL_CALL_COMPLETED: &str = "tool_call.completed";
    /// A tool call failed.
    pub const TOOL_CALL_FAILED: &str = "tool_call.failed";
    /// A model completed an answer.
    pub const LLM_CALL_COMPLETED: &str = "llm_call.completed";
    /// A reply was sent.
    pub const REPLY_SENT: &str = "reply.sent";

    /// All known types.
    pub const ALL: [&str; 16] = [
        PROCESS_STARTED,
        WORKER_SPAWNED,
        WORKER_EXITED,
        REVISION_PROMOTED,
        CRASH_LOOP_DETECTED,
        ROLLBACK_ATTEMPTED,
        AGENT_STARTED,
        AGENT_COMPLETED,
        AGENT_FAILED,
        TURN_STARTED,
        TURN_COMPLETED,
        TOOL_CALL_STARTED,
        TOOL_CALL_COMPLETED,
        TOOL_CALL_FAILED,
        LLM_CALL_COMPLETED,
        REPLY_SENT,
    ];
}

record! {
    /// An event. Key: `id`. [`event_type`] lists the known types.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub non_exhaustive struct Event {
        /// Id, from 1. 0 assigns the next one.
        [id, default, key] id: i64,
        /// The parent event, which must be in the log.
        [int, lookup] parent_id: Option<i64>,
        /// The type: a dotted name, such as `worker.spawned`.
        [dotted_name, lookup] event_type: String,
        /// The event time, in epoch milliseconds.
        [own_millis] created_at: i64,
        /// The payload, stored byte for byte.
        [payload] payload: Option<String>,
    }
}

impl Event {
    /// An event with the current time. The log assigns the next id.
    pub fn new(parent_id: Option<i64>, event_type: impl Into<String>) -> Event {
        Event {
            id: 0,
            parent_id,
            event_type: event_type.into(),
            created_at: super::now(),
            payload: None,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !is_dotted(&self.event_type) {
            return Err(Error::invalid(format!(
                "event_type {:?} is no dotted name: write it like worker.spawned, of letters, digits, - and _",
                self.event_type
            ))
            .with_field("event_type"));
        }
        Ok(())
    }
}

/// Whether a name has at least two parts of letters, digits, `-` and `_`, separated by dots.
fn is_dotted(name: &str) -> bool {
    let (mut has_dot, mut before) = (false, b'.');
    for byte in name.bytes() {
        match byte {
            b'.' if before == b'.' => return false,
            b'.' => has_dot = true,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => {}
            _ => return false,
        }
        before = byte;
    }
    has_dot && before != b'.'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotted_name_has_words_between_its_dots() {
        for name in ["a.b", "worker.spawned", "A-1.b_2.c", "-.-"] {
            assert!(is_dotted(name), "{name}");
        }
        for name in [
            "", ".", "a", "a.", ".a", "a..b", "a.b.", "a b.c", "\u{e9}.a", "a.b\n",
        ] {
            assert!(!is_dotted(name), "{name}");
        }
    }
}
