//! The ops of each kind's lines, and their fields with their types.

use crate::record::declare::{Class, Detail, Field, Fields, Place};
use crate::record::of_kind;
use crate::record::{
    CodeEditProposal, InboxStep, InboxTask, Kind, ProposalStep, ToolCallDone, ToolCallReq,
};

/// The operation that a line records for its key.
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

    /// The record types of its lines, the type of the first op first.
    fn types(self) -> &'static [Type] {
        match self {
            Kind::ToolCalls => const { &[Type::of::<ToolCallReq>(), Type::of::<ToolCallDone>()] },
            Kind::CodeEditProposals => {
                const { &[Type::of::<CodeEditProposal>(), Type::of::<ProposalStep>()] }
            }
            Kind::Inbox => const { &[Type::of::<InboxTask>(), Type::of::<InboxStep>()] },
            _ => of_kind!(self, One => const { &[Type::of::<One>()] }),
        }
    }

    /// All fields of its lines except the envelope's, each once, in canonical order.
    pub(crate) fn details(self) -> impl Iterator<Item = (&'static Field, &'static Detail)> {
        let types = self.types();
        types.iter().enumerate().flat_map(move |(nth, of)| {
            let before = types.get(..nth).unwrap_or_default();
            let is_new = move |(field, _): &(&Field, &Detail)| {
                let mut known = before.iter().flat_map(|of| of.fields);
                field.is_of_lines() && !known.any(|known| known.name == field.name)
            };
            of.fields.iter().zip(of.details).filter(is_new)
        })
    }

    pub(crate) fn fields(self) -> impl Iterator<Item = &'static Field> {
        self.details().map(|(field, _)| field)
    }

    /// The field of its lines with this name, except the envelope's.
    pub(super) fn field(self, name: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.name == name)
    }

    /// As [`field`](Kind::field), with the field's details.
    pub(super) fn detail(self, name: &str) -> Option<(&'static Field, &'static Detail)> {
        self.details().find(|(field, _)| field.name == name)
    }

    /// The record type of lines with this op. A task that is requeued is a step, without the task's
    /// content.
    pub(crate) fn type_of(self, op: Op, is_step: bool) -> &'static Type {
        let is_second = match self {
            Kind::ToolCalls => matches!(op, Op::Completed | Op::Failed),
            Kind::CodeEditProposals => !matches!(op, Op::Pending | Op::Retracted),
            Kind::Inbox => is_step,
            _ => false,
        };
        match self.types() {
            [_, second] if is_second => second,
            [first, ..] => first,
            [] => {
                const {
                    &Type {
                        fields: &[],
                        details: &[],
                    }
                }
            }
        }
    }

    /// Number of lookup fields.
    pub(crate) fn lookups_len(self) -> usize {
        let first = self.types().iter().take(1).flat_map(|of| of.fields);
        first.filter(|field| field.place == Place::Lookup).count()
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
        let is_own = of.fields.iter().any(|field| field.name == name);
        self.field(name).is_some() && !is_own
    }
}

/// The fields of a record type.
pub(crate) struct Type {
    pub(crate) fields: &'static [Field],
    pub(crate) details: &'static [Detail],
}

impl Type {
    const fn of<T: Fields>() -> Type {
        Type {
            fields: T::FIELDS,
            details: T::DETAILS,
        }
    }
}

impl Field {
    /// Whether the field is part of lines, outside the envelope.
    pub(crate) fn is_of_lines(&self) -> bool {
        self.place != Place::Derived && !matches!(self.class, Class::Op | Class::At)
    }
}
