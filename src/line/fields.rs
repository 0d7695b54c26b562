//! The ops of each kind's lines, and their fields with their types.

use crate::record::declare::{Class, Field, Fields, Place};
use crate::record::{
    CodeEditProposal, InboxStep, InboxTask, Kind, ProposalStep, ToolCallDone, ToolCallReq, of_kind,
    words,
};

words! {
    /// The operation that a line records for its key.
    Op("op") {
        Asserted = "asserted",
        Retracted = "retracted",
        Requested = "requested",
        Completed = "completed",
        Failed = "failed",
        Pending = "pending",
        Approved = "approved",
        Denied = "denied",
        Applied = "applied",
        Reverted = "reverted",
        Created = "created",
        Updated = "updated",
        Added = "added",
        Logged = "logged",
        Queued = "queued",
        InProgress = "in_progress",
        Done = "done",
        Recorded = "recorded",
        Rolled = "rolled",
    }
}

impl Kind {
    /// The ops of its lines; the first one is the default in input.
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
            Kind::Events => &[Op::Logged],
            Kind::Inbox => &[Op::Queued, Op::InProgress, Op::Done, Op::Failed],
            Kind::ThoughtRecords => &[Op::Recorded],
            Kind::Rollups => &[Op::Rolled],
            _ => &[Op::Added],
        }
    }

    /// The op of a record's first line.
    pub(crate) fn first_op(self) -> Op {
        self.ops().first().copied().unwrap_or(Op::Added)
    }

    pub(crate) fn op(self, word: &str) -> Option<Op> {
        self.op_of_bytes(word.as_bytes())
    }

    pub(super) fn op_of_bytes(self, word: &[u8]) -> Option<Op> {
        let mut ops = self.ops().iter().copied();
        ops.find(|op| op.as_str().as_bytes() == word)
    }

    /// The fields of the record types of its lines: those of the first op's type, and of the second
    /// type, if there is one.
    fn types(self) -> (&'static [Field], &'static [Field]) {
        match self {
            Kind::ToolCalls => (ToolCallReq::FIELDS, ToolCallDone::FIELDS),
            Kind::CodeEditProposals => (CodeEditProposal::FIELDS, ProposalStep::FIELDS),
            Kind::Inbox => (InboxTask::FIELDS, InboxStep::FIELDS),
            _ => of_kind!(self, One => (One::FIELDS, &[])),
        }
    }

    /// The fields of the record type of the lines with its first op.
    #[cfg(feature = "rows")]
    pub(crate) fn first_fields(self) -> &'static [Field] {
        self.types().0
    }

    /// All fields of its lines except the envelope's, each once, in canonical order.
    pub(crate) fn fields(self) -> impl Iterator<Item = &'static Field> {
        let (first, second) = self.types();
        let is_new = |field: &&Field| first.iter().all(|known| known.name != field.name);
        let all = first.iter().chain(second.iter().filter(is_new));
        all.filter(|field| field.is_of_lines())
    }

    /// The field of its lines with this name, except the envelope's.
    pub(super) fn field(self, name: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.name == name)
    }

    /// The fields of the record type of lines with this op. A task that is requeued is a step, without the task's
    /// content.
    pub(crate) fn type_of(self, op: Op, is_step: bool) -> &'static [Field] {
        let is_second = match self {
            Kind::ToolCalls => matches!(op, Op::Completed | Op::Failed),
            Kind::CodeEditProposals => !matches!(op, Op::Pending | Op::Retracted),
            Kind::Inbox => is_step,
            _ => false,
        };
        let (first, second) = self.types();
        if is_second { second } else { first }
    }

    /// Number of lookup fields.
    pub(crate) fn lookups_len(self) -> usize {
        let (first, _) = self.types();
        let lookups = first.iter().filter(|field| field.place == Place::Lookup);
        lookups.count()
    }

    /// Whether the line's time is used if a record has no time of its own.
    pub(super) fn is_timed_by_line(self) -> bool {
        matches!(
            self,
            Kind::ConversationTurns | Kind::ToolCalls | Kind::CodeEditProposals | Kind::Inbox
        )
    }

    /// Whether the field belongs to lines of this kind, but not to those with this op.
    pub(super) fn is_of_other_ops(self, name: &str, op: Op, is_step: bool) -> bool {
        match (self, name) {
            // This case has an error message of its own.
            (Kind::Inbox, "update_id") => return false,
            (Kind::Inbox, "locked_at") => return is_step && op != Op::InProgress,
            _ => {}
        }
        let of = self.type_of(op, is_step);
        let is_own = of.iter().any(|field| field.name == name);
        self.field(name).is_some() && !is_own
    }
}

impl Field {
    /// Whether the field is part of lines, outside the envelope.
    pub(crate) fn is_of_lines(&self) -> bool {
        self.place != Place::Derived && !matches!(self.class, Class::Op | Class::At)
    }
}
