//! Events: what a supervisor and its agents did, each under the one that it belongs to.

use super::declare::record;
use crate::error::{Error, Result};

/// The types of events that are known by name. Any other dotted name is allowed.
///
/// Those that end in `.started` begin something, which the same name in `.completed` or `.failed`
/// ends; [`Store::event_tree`](crate::Store::event_tree) tells how, and how long it took.
/// `worker.exited` ends the process of the worker: the one with its `pid`, or else the first under
/// the same supervisor that runs. What is open under that ends with it. All others, such as
/// `worker.spawned`, are moments.
pub mod event_type {
    /// A supervisor or worker began.
    pub const PROCESS_STARTED: &str = "process.started";
    /// A supervisor started a worker.
    pub const WORKER_SPAWNED: &str = "worker.spawned";
    /// A worker ended.
    pub const WORKER_EXITED: &str = "worker.exited";
    /// A revision of the code is good.
    pub const REVISION_PROMOTED: &str = "revision.promoted";
    /// Workers die as soon as they begin.
    pub const CRASH_LOOP_DETECTED: &str = "crash_loop.detected";
    /// The supervisor went back to the good revision.
    pub const ROLLBACK_ATTEMPTED: &str = "rollback.attempted";
    /// An agent's run began.
    pub const AGENT_STARTED: &str = "agent.started";
    /// An agent's run ended well.
    pub const AGENT_COMPLETED: &str = "agent.completed";
    /// An agent's run failed.
    pub const AGENT_FAILED: &str = "agent.failed";
    /// A turn of a run began.
    pub const TURN_STARTED: &str = "turn.started";
    /// A turn ended.
    pub const TURN_COMPLETED: &str = "turn.completed";
    /// A tool was called.
    pub const TOOL_CALL_STARTED: &str = "tool_call.started";
    /// A tool returned.
    pub const TOOL_CALL_COMPLETED: &str = "tool_call.completed";
    /// A tool failed.
    pub const TOOL_CALL_FAILED: &str = "tool_call.failed";
    /// A model answered.
    pub const LLM_CALL_COMPLETED: &str = "llm_call.completed";
    /// An answer went out.
    pub const REPLY_SENT: &str = "reply.sent";

    /// All of them.
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
    /// An event. Key: `id`. [`event_type`] has the types that are known by name.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub struct Event {
        /// Its id, from 1. 0 asks for the next one.
        [id, default, key] id: i64,
        /// The event that it belongs to, which must be in the log.
        [int, lookup] parent_id: Option<i64>,
        /// What happened: a dotted name, such as `worker.spawned`.
        [dotted_name, lookup] event_type: String,
        /// When, in epoch milliseconds.
        [own_millis] created_at: i64,
        /// What there is to say of it, kept to the byte.
        [payload] payload: Option<String>,
    }
}

impl Event {
    /// An event of now that takes the next id.
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

/// Words of letters, digits, `-` and `_`, at least two, with dots between them.
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
