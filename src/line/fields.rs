//! What the lines of each kind may hold: the ops, and the fields with their types.

use crate::record::Kind;

/// What a line asserts of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Asserted,
    Retracted,
    Requested,
    Completed,
    Failed,
    Pending,
    Approved,
    Denied,
    Applied,
    Reverted,
    Created,
    Updated,
    Added,
    Logged,
    Queued,
    InProgress,
    Done,
    Recorded,
    Rolled,
}

impl Op {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Op::Asserted => "asserted",
            Op::Retracted => "retracted",
            Op::Requested => "requested",
            Op::Completed => "completed",
            Op::Failed => "failed",
            Op::Pending => "pending",
            Op::Approved => "approved",
            Op::Denied => "denied",
            Op::Applied => "applied",
            Op::Reverted => "reverted",
            Op::Created => "created",
            Op::Updated => "updated",
            Op::Added => "added",
            Op::Logged => "logged",
            Op::Queued => "queued",
            Op::InProgress => "in_progress",
            Op::Done => "done",
            Op::Recorded => "recorded",
            Op::Rolled => "rolled",
        }
    }
}

/// What a field holds; input is checked field by field, so that an error can name the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Uuid,
    Text,
    Texts,
    Integer,
    /// An integer from 0 up, of 64 bits.
    Count,
    /// How many there are of each, by name.
    Counts,
    Sketch,
    /// What messages add up to, an object.
    Sums,
    /// A set of ids, as a string.
    Hashes,
    Day,
    Fraction,
    Flag,
    /// Epoch milliseconds, with validity.
    Validity,
    /// RFC 3339.
    Timestamp,
    /// One of a few words, which the record's own type knows.
    Word,
    /// Any JSON, or a string that holds the text.
    Payload,
}

impl Kind {
    /// The ops of its lines; the first is meant where input names none.
    pub(crate) fn ops(self) -> &'static [Op] {
        match self {
            Kind::ConversationTurns => &[Op::Asserted, Op::Retracted],
            Kind::ToolCalls => &[Op::Requested, Op::Completed, Op::Failed, Op::Retracted],
            Kind::CodeEditProposals => &[
                Op::Pending,
                Op::Approved,
                Op::Denied,
                Op::Applied,
                Op::Reverted,
                Op::Retracted,
            ],
            Kind::Conversations => &[Op::Created, Op::Updated],
            Kind::Messages | Kind::History => &[Op::Added],
            Kind::Events => &[Op::Logged],
            Kind::Inbox => &[Op::Queued, Op::InProgress, Op::Done, Op::Failed],
            Kind::ThoughtRecords => &[Op::Recorded],
            Kind::Rollups => &[Op::Rolled],
        }
    }

    pub(crate) fn op(self, word: &str) -> Option<Op> {
        self.op_of_bytes(word.as_bytes())
    }

    pub(super) fn op_of_bytes(self, word: &[u8]) -> Option<Op> {
        let mut ops = self.ops().iter().copied();
        ops.find(|op| op.as_str().as_bytes() == word)
    }

    /// The fields that records are found by, in canonical order.
    pub(crate) fn lookups(self) -> &'static [&'static str] {
        match self {
            Kind::ConversationTurns => &["parent_id", "message_id", "thread_id"],
            Kind::ToolCalls => &["parent_id", "vendor", "tool_name"],
            // The day is a rollup's time.
            Kind::CodeEditProposals | Kind::Rollups => &[],
            Kind::Conversations => &[
                "workspace",
                "project",
                "client",
                "user_id",
                "session_id",
                "parent_id",
            ],
            Kind::Messages => &["conversation_id", "sequence"],
            Kind::Events => &["parent_id", "event_type"],
            Kind::Inbox => &["update_id"],
            Kind::History => &["chat_id"],
            Kind::ThoughtRecords => &["task_id", "prev_hash", "hash"],
        }
    }

    /// Whether its lines have a field of this name, beside those of the envelope.
    pub(super) fn has_field(self, name: &str) -> bool {
        self.fields().iter().any(|(known, _)| *known == name)
    }

    /// The fields that its lines have where their op is another one. A task that is queued again is
    /// a step, without what it was queued with.
    pub(super) fn fields_of_other_ops(self, op: Op, is_step: bool) -> &'static [&'static str] {
        const OF_TASK: &[&str] = &[
            "locked_at",
            "created_at",
            "chat_id",
            "message_date",
            "text",
            "payload",
        ];
        match (self, op) {
            (Kind::ToolCalls, Op::Completed | Op::Failed) => &[
                "vendor",
                "tool_name",
                "started_at",
                "args_sha256",
                "arguments_json",
            ],
            (Kind::ToolCalls, _) => &[
                "ended_at",
                "latency_ms",
                "error_kind",
                "error_msg",
                "outcome_json",
            ],
            (Kind::CodeEditProposals, Op::Pending | Op::Retracted) => &[],
            (Kind::CodeEditProposals, _) => &["created_at", "confidence", "diffs_json"],
            (Kind::Inbox, Op::InProgress) => &OF_TASK[1..],
            (Kind::Inbox, _) if is_step => OF_TASK,
            _ => &[],
        }
    }

    /// Every field of its lines but the envelope's.
    pub(super) fn fields(self) -> &'static [(&'static str, Type)] {
        match self {
            Kind::ConversationTurns => TURN,
            Kind::ToolCalls => CALL,
            Kind::CodeEditProposals => PROPOSAL,
            Kind::Conversations => CONVERSATION,
            Kind::Messages => MESSAGE,
            Kind::Events => EVENT,
            Kind::Inbox => INBOX,
            Kind::History => HISTORY,
            Kind::ThoughtRecords => THOUGHT,
            Kind::Rollups => ROLLUP,
        }
    }
}

const TURN: &[(&str, Type)] = &[
    ("id", Type::Uuid),
    ("parent_id", Type::Uuid),
    ("message_id", Type::Uuid),
    ("thread_id", Type::Uuid),
    ("kind", Type::Word),
    ("created_at", Type::Validity),
    ("content", Type::Text),
];
const CALL: &[(&str, Type)] = &[
    ("request_id", Type::Uuid),
    ("call_id", Type::Text),
    ("parent_id", Type::Uuid),
    ("vendor", Type::Text),
    ("tool_name", Type::Text),
    ("started_at", Type::Validity),
    ("args_sha256", Type::Text),
    ("arguments_json", Type::Payload),
    ("ended_at", Type::Validity),
    ("latency_ms", Type::Integer),
    ("error_kind", Type::Text),
    ("error_msg", Type::Text),
    ("outcome_json", Type::Payload),
];
const PROPOSAL: &[(&str, Type)] = &[
    ("request_id", Type::Uuid),
    ("created_at", Type::Validity),
    ("confidence", Type::Fraction),
    ("decided_at", Type::Integer),
    ("applied_at", Type::Integer),
    ("commit_hash", Type::Text),
    ("diffs_json", Type::Payload),
];
const CONVERSATION: &[(&str, Type)] = &[
    ("id", Type::Uuid),
    ("workspace", Type::Text),
    ("project", Type::Text),
    ("client", Type::Word),
    ("user_id", Type::Text),
    ("session_id", Type::Text),
    ("parent_id", Type::Uuid),
    ("parent_call_id", Type::Text),
    ("title", Type::Text),
    ("status", Type::Word),
    ("created_at", Type::Timestamp),
    ("updated_at", Type::Timestamp),
    ("last_error", Type::Text),
];
const MESSAGE: &[(&str, Type)] = &[
    ("id", Type::Uuid),
    ("conversation_id", Type::Uuid),
    ("sequence", Type::Integer),
    ("timestamp", Type::Timestamp),
    ("role", Type::Word),
    ("source", Type::Word),
    ("content_type", Type::Word),
    ("model_used", Type::Text),
    ("config_used", Type::Text),
    ("orchestration_mode", Type::Text),
    ("task_type", Type::Text),
    ("tokens_in", Type::Integer),
    ("tokens_out", Type::Integer),
    ("tokens_cache_write", Type::Integer),
    ("tokens_cache_read", Type::Integer),
    ("tokens_reasoning", Type::Integer),
    ("latency_ms", Type::Integer),
    ("context_utilization", Type::Fraction),
    ("handoff_steps", Type::Integer),
    ("compression_applied", Type::Flag),
    ("error_type", Type::Text),
    ("error", Type::Text),
    ("tool_name", Type::Text),
    ("tool_call_id", Type::Text),
    ("models_in_chain", Type::Texts),
    ("part_of", Type::Uuid),
    ("content", Type::Text),
    ("reasoning", Type::Text),
    ("tool_args", Type::Payload),
    ("tool_result", Type::Text),
    ("inference_metadata", Type::Payload),
];
const EVENT: &[(&str, Type)] = &[
    ("id", Type::Integer),
    ("parent_id", Type::Integer),
    ("event_type", Type::Text),
    ("created_at", Type::Integer),
    ("payload", Type::Payload),
];
const INBOX: &[(&str, Type)] = &[
    ("id", Type::Integer),
    ("update_id", Type::Integer),
    ("created_at", Type::Integer),
    ("chat_id", Type::Integer),
    ("message_date", Type::Integer),
    ("text", Type::Text),
    ("attempts", Type::Integer),
    ("locked_at", Type::Integer),
    ("error", Type::Text),
    ("payload", Type::Payload),
];
const HISTORY: &[(&str, Type)] = &[
    ("id", Type::Integer),
    ("chat_id", Type::Integer),
    ("role", Type::Word),
    ("created_at", Type::Integer),
    ("text", Type::Text),
];
const THOUGHT: &[(&str, Type)] = &[
    ("id", Type::Text),
    ("task_id", Type::Text),
    ("prev_hash", Type::Text),
    ("hash", Type::Text),
    ("type", Type::Word),
    ("agent_id", Type::Text),
    ("timestamp", Type::Timestamp),
    ("content", Type::Text),
];
const ROLLUP: &[(&str, Type)] = &[
    ("day", Type::Day),
    ("model_used", Type::Text),
    ("config_used", Type::Text),
    ("orchestration_mode", Type::Text),
    ("task_type", Type::Text),
    ("part", Type::Count),
    ("through_seq", Type::Count),
    ("messages", Type::Count),
    ("requests", Type::Count),
    ("tokens_in", Type::Count),
    ("tokens_out", Type::Count),
    ("tokens_cache_write", Type::Count),
    ("tokens_cache_read", Type::Count),
    ("tokens_reasoning", Type::Count),
    ("latency_ms_sum", Type::Count),
    ("latency_count", Type::Count),
    ("latency_sketch", Type::Sketch),
    ("context_utilization_sum", Type::Fraction),
    ("context_utilization_count", Type::Count),
    ("compressed", Type::Count),
    ("errors", Type::Count),
    ("errors_by_type", Type::Counts),
    ("conversations", Type::Count),
    ("active_conversations", Type::Count),
    ("others", Type::Sums),
    ("message_hashes", Type::Hashes),
    ("conversation_hashes", Type::Hashes),
];
