//! The types of records and the arguments of lists, from which the classes and documents of other
//! languages are generated.

use crate::collections::{
    Argument as _, ArgumentSchema, Arguments as _, CallQuery, ConversationQuery, EventQuery,
    HistoryQuery, MessageQuery, ProposalQuery, RollupQuery, TaskQuery, ThoughtQuery, TurnQuery,
};
use crate::record::columns::{Column, ColumnType};
use crate::record::declare::{Class, Field, Fields as _, Place};
use crate::record::{
    CallStatus, CodeEditProposal, Conversation, ConversationMessage, ConversationTurn, Event,
    HistoryEntry, InboxTask, Kind, ProposalStatus, ProposalStep, Rollup, TaskStatus, ThoughtRecord,
    ToolCallDone, ToolCallReq,
};

/// A type of record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordSchema {
    /// Its name in this crate.
    pub name: &'static str,
    /// The kind of its lines.
    pub kind: Kind,
    /// Whether reads return it.
    pub is_read: bool,
    /// The op of its lines, if a field of the record does not give it and it is not the default.
    pub op: Option<&'static str>,
    /// The field that gives the op.
    pub op_field: Option<&'static str>,
    /// Its fields.
    pub fields: Vec<MemberSchema>,
}

/// A field of a type of record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MemberSchema {
    /// Its name.
    pub name: &'static str,
    /// Its type, as in [`FieldSchema`](crate::schema::FieldSchema).
    pub type_name: &'static str,
    /// The allowed words. Empty: any value of its type.
    pub words: &'static [&'static str],
    /// Whether a record that is recorded must have it.
    pub is_required: bool,
    /// Whether each record that is read has it.
    pub is_always_read: bool,
    /// The value if it is left out, in words.
    pub default: Option<&'static str>,
    /// A description.
    pub description: String,
}

impl MemberSchema {
    fn of(field: &'static Field) -> MemberSchema {
        MemberSchema {
            name: field.name,
            type_name: field.class.type_name(),
            words: field.words,
            is_required: field.is_required() || field.class == Class::Op && field.default.is_none(),
            is_always_read: !field.is_optional && field.place != Place::OtherOps,
            default: field.default,
            description: field.description(),
        }
    }

    /// Of a column that no declared field has.
    fn derived(kind: Kind, column: &Column) -> MemberSchema {
        let type_name = match column.column_type {
            ColumnType::Uuid => "uuid",
            ColumnType::Text | ColumnType::Day => "text",
            ColumnType::Integer | ColumnType::Unsigned => "integer",
            ColumnType::Real => "number",
            ColumnType::Boolean => "boolean",
            // The names that a conversation has used.
            ColumnType::Json => "texts",
            ColumnType::Time => "epoch_ms",
        };
        let words = match kind {
            _ if column.name != "status" => &[],
            Kind::ToolCalls => <CallStatus as crate::record::declare::Word>::WORDS,
            Kind::CodeEditProposals => <ProposalStatus as crate::record::declare::Word>::WORDS,
            Kind::Inbox => <TaskStatus as crate::record::declare::Word>::WORDS,
            _ => &[],
        };
        MemberSchema {
            name: column.name,
            type_name,
            words,
            is_required: false,
            is_always_read: column.is_required,
            default: None,
            description: match column.name {
                "status" => "The status, from the latest step.".to_owned(),
                "updated_at" => "The time of the latest step.".to_owned(),
                _ => "Computed from the messages.".to_owned(),
            },
        }
    }
}

/// The fields of a kind as reads return them.
fn read(kind: Kind, declared: &[&'static [Field]]) -> Vec<MemberSchema> {
    let field = |name: &str| {
        let mut fields = declared.iter().flat_map(|fields| fields.iter());
        fields.find(|field| field.name == name)
    };
    let first = declared.first().copied().unwrap_or_default();
    let columns = kind.columns().iter();
    columns
        .map(|column| match field(column.name) {
            Some(field) if field.class != Class::Op => {
                let is_first = first.iter().any(|first| first.name == field.name);
                MemberSchema {
                    is_required: field.is_required() && is_first,
                    is_always_read: column.is_required,
                    default: field.default.filter(|_| is_first),
                    ..MemberSchema::of(field)
                }
            }
            _ => MemberSchema::derived(kind, column),
        })
        .collect()
}

/// All types of records.
pub fn record_types() -> Vec<RecordSchema> {
    let of_kind = |name, kind, declared: &[&'static [Field]]| RecordSchema {
        name,
        kind,
        is_read: true,
        op: None,
        op_field: None,
        fields: read(kind, declared),
    };
    let step = |name, kind, op, op_field, fields: &'static [Field]| RecordSchema {
        name,
        kind,
        is_read: false,
        op,
        op_field,
        fields: fields
            .iter()
            .filter(|field| field.class != Class::Repeated)
            .map(MemberSchema::of)
            .collect(),
    };
    let (requested, status) = (Some("requested"), Some("status"));
    let calls = [ToolCallReq::FIELDS, ToolCallDone::FIELDS];
    let proposals = [CodeEditProposal::FIELDS, ProposalStep::FIELDS];
    vec![
        of_kind(
            "ConversationTurn",
            Kind::ConversationTurns,
            &[ConversationTurn::FIELDS],
        ),
        of_kind("ToolCall", Kind::ToolCalls, &calls),
        step(
            "ToolCallReq",
            Kind::ToolCalls,
            requested,
            None,
            ToolCallReq::FIELDS,
        ),
        step(
            "ToolCallDone",
            Kind::ToolCalls,
            None,
            status,
            ToolCallDone::FIELDS,
        ),
        of_kind("CodeEditProposal", Kind::CodeEditProposals, &proposals),
        step(
            "ProposalStep",
            Kind::CodeEditProposals,
            None,
            status,
            ProposalStep::FIELDS,
        ),
        of_kind("Conversation", Kind::Conversations, &[Conversation::FIELDS]),
        of_kind(
            "ConversationMessage",
            Kind::Messages,
            &[ConversationMessage::FIELDS],
        ),
        of_kind("Event", Kind::Events, &[Event::FIELDS]),
        of_kind("InboxTask", Kind::Inbox, &[InboxTask::FIELDS]),
        of_kind("HistoryEntry", Kind::History, &[HistoryEntry::FIELDS]),
        of_kind(
            "ThoughtRecord",
            Kind::ThoughtRecords,
            &[ThoughtRecord::FIELDS],
        ),
        of_kind("Rollup", Kind::Rollups, &[Rollup::FIELDS]),
    ]
}

/// The arguments of the list of a kind.
pub fn list_arguments(kind: Kind) -> Vec<ArgumentSchema> {
    let as_of = ArgumentSchema::new("as_of", i64::TYPE_NAME, "The log as of this time.");
    let of = |arguments: &[ArgumentSchema]| arguments.to_vec();
    match kind {
        Kind::ConversationTurns => [of(TurnQuery::ARGUMENTS), vec![as_of]].concat(),
        Kind::ToolCalls => [of(CallQuery::ARGUMENTS), vec![as_of]].concat(),
        Kind::CodeEditProposals => [of(ProposalQuery::ARGUMENTS), vec![as_of]].concat(),
        Kind::Conversations => of(ConversationQuery::ARGUMENTS),
        Kind::Messages => {
            let text = "Only messages of this conversation.";
            let conversation = ArgumentSchema::new("conversation_id", "uuid", text);
            [vec![conversation], of(MessageQuery::ARGUMENTS)].concat()
        }
        Kind::Events => of(EventQuery::ARGUMENTS),
        Kind::Inbox => of(TaskQuery::ARGUMENTS),
        Kind::History => of(HistoryQuery::ARGUMENTS),
        Kind::ThoughtRecords => of(ThoughtQuery::ARGUMENTS),
        Kind::Rollups => of(RollupQuery::ARGUMENTS),
    }
}
