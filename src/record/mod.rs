//! The record kinds as plain types: the input and output of the API. No IO, and no rules that
//! depend on the contents of the log.

mod call;
#[cfg(feature = "rows")]
pub(crate) mod columns;
mod content;
mod conversation;
pub(crate) mod declare;
#[cfg(feature = "bindings")]
mod dynamic;
mod event;
mod hashes;
mod history;
mod inbox;
#[cfg(feature = "wire")]
mod int;
mod json;
mod key;
mod message;
mod payload;
mod proposal;
mod rollup;
mod scanner;
mod sketch;
mod strings;
mod sums;
mod text;
mod thought;
mod time;
mod timestamp;
mod turn;
mod words;

pub use call::{CallStatus, ToolCall, ToolCallDone, ToolCallReq, ToolCallView, ToolStatus};
pub(crate) use content::Content;
pub use conversation::{
    Client, ClientName, Conversation, ConversationStats, ConversationStatus, ConversationView,
};
pub(crate) use declare::is_default;
#[cfg(feature = "bindings")]
pub use dynamic::Dynamic;
pub use event::{Event, event_type};
pub use hashes::IdHashes;
pub(crate) use hashes::id_hash;
pub use history::HistoryEntry;
pub use inbox::{InboxStep, InboxTask, TaskStatus};
#[cfg(feature = "http")]
pub(crate) use int::Length;
#[cfg(feature = "wire")]
pub(crate) use int::{AnyInt, Int};
pub use json::args_sha256;
#[cfg(any(test, fuzzing))]
pub(crate) use json::check_canonical;
pub(crate) use json::{hex, same_json};
pub use key::Key;
pub(crate) use message::ERROR_PREFIX;
pub use message::{ContentType, ConversationMessage, InferenceMetadata, Role, Source, TokenCount};
pub(crate) use payload::{Form, form, from_json, from_string as payload_of_string, is_scalar};
pub use payload::{JSON_DEPTH_MAX, payload_json};
pub use proposal::{CodeEditProposal, ProposalStatus, ProposalStep};
pub use rollup::Rollup;
pub(crate) use rollup::{Group, group_key};
pub(crate) use scanner::{Escapes, Scanner, has_lone_surrogate, string_len, tokens};
pub(crate) use sketch::DenseSketch;
pub use sketch::Sketch;
pub(crate) use strings::{ascii_name, escaped, escaped_len, is_plain_id, plain_len, push_quoted};
pub use sums::MessageSums;
pub(crate) use sums::{Computed, Counted, Tally, nano_usd, usd};
pub(crate) use text::from_text;
pub use thought::{GENESIS_HASH, ThoughtRecord, ThoughtType};
#[cfg(feature = "cli")]
pub use time::local_epoch_ms;
pub use time::{Day, Validity, epoch_ms};
pub use timestamp::Timestamp;
pub(crate) use timestamp::instant_ms;
pub use turn::{ConversationTurn, TurnKind};
pub(crate) use words::words;

use std::fmt::Display;

use crate::error::{Error, Result};
use declare::{Field, FieldWriter, Fields};

/// Maximum length in bytes of a name or id, such as `call_id`, `tool_name`, `model_used`.
pub const NAME_BYTES_MAX: usize = 1024;

/// A kind of record. Each kind has its own segment files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `conversation_turns`: turns of threads.
    ConversationTurns,
    /// `tool_calls`: requests and outcomes of tool calls.
    ToolCalls,
    /// `code_edit_proposals`: proposed edits and their decisions.
    CodeEditProposals,
    /// `conversations`: conversations of a gateway or an editor.
    Conversations,
    /// `messages`: messages of conversations.
    Messages,
    /// `events`: actions of a supervisor and its agents.
    Events,
    /// `inbox`: tasks that wait for a worker.
    Inbox,
    /// `history`: messages of chats.
    History,
    /// `thought_records`: chained thoughts.
    ThoughtRecords,
    /// `rollups`: sums over the messages of a day.
    Rollups,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Kind; 10] = [
        Kind::ConversationTurns,
        Kind::ToolCalls,
        Kind::CodeEditProposals,
        Kind::Conversations,
        Kind::Messages,
        Kind::Events,
        Kind::Inbox,
        Kind::History,
        Kind::ThoughtRecords,
        Kind::Rollups,
    ];

    /// Whether its segments count towards `retention.max_bytes` and may be removed to meet it.
    /// Rollups do not count, because they grow with each removed message.
    pub(crate) fn is_capped(self) -> bool {
        self != Kind::Rollups
    }

    /// The name in file names and on the command line.
    pub fn stem(self) -> &'static str {
        match self {
            Kind::ConversationTurns => "conversation_turns",
            Kind::ToolCalls => "tool_calls",
            Kind::CodeEditProposals => "code_edit_proposals",
            Kind::Conversations => "conversations",
            Kind::Messages => "messages",
            Kind::Events => "events",
            Kind::Inbox => "inbox",
            Kind::History => "history",
            Kind::ThoughtRecords => "thought_records",
            Kind::Rollups => "rollups",
        }
    }

    /// The kind with this name.
    pub fn from_stem(stem: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.stem() == stem)
    }
}

impl serde::Serialize for Kind {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.stem())
    }
}

#[cfg(feature = "cli")]
impl clap::ValueEnum for Kind {
    fn value_variants<'a>() -> &'a [Kind] {
        &Kind::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(self.stem().into())
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.stem())
    }
}

/// Declares the enum of all record types: of each its variant, its kind, and its own time with the
/// name of that field.
macro_rules! records {
    ($($(#[doc = $doc:literal])+ $variant:ident($type:ty) of $kind:ident, $at:ident: |$it:ident| $ms:expr;)+) => {
        /// A record of any kind.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Record {
            $($(#[doc = $doc])+ $variant($type),)+
        }

        // Two types of one kind, or with a time of the same name, have arms of their own.
        #[allow(clippy::match_same_arms)]
        impl Record {
            /// The kind of segment file to which the record is written.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Record::$variant(_) => Kind::$kind,)+
                }
            }

            /// The record's own time in epoch milliseconds. It determines the directory of the day.
            pub fn at(&self) -> i64 {
                match self {
                    $(Record::$variant($it) => $ms,)+
                }
            }

            /// The field that contains that time.
            fn at_field(&self) -> &'static str {
                match self {
                    $(Record::$variant(_) => stringify!($at),)+
                }
            }
        }
    };
}

records! {
    /// A conversation turn that is asserted or, if its `created_at` is not valid, retracted.
    Turn(ConversationTurn) of ConversationTurns, created_at: |turn| turn.created_at.at;
    /// A tool call that is requested or, if its `started_at` is not valid, retracted.
    CallRequested(ToolCallReq) of ToolCalls, started_at: |req| req.started_at.at;
    /// A tool call's outcome.
    CallDone(ToolCallDone) of ToolCalls, ended_at: |done| done.ended_at.at;
    /// An edit that is proposed or, if its `created_at` is not valid, retracted.
    Proposal(CodeEditProposal) of CodeEditProposals, created_at: |proposal| proposal.created_at.at;
    /// A step of a proposal.
    ProposalStep(ProposalStep) of CodeEditProposals, at: |step| step.at;
    /// A conversation. If the log already has it, all of its fields are updated.
    Conversation(Conversation) of Conversations, created_at: |it| it.created_at.at();
    /// A conversation after a change.
    ConversationUpdated(Conversation) of Conversations, updated_at: |it| it.updated_at.at();
    /// A message of a conversation.
    Message(Box<ConversationMessage>) of Messages, timestamp: |message| message.timestamp.at();
    /// An event.
    Event(Event) of Events, created_at: |event| event.created_at;
    /// An inbox task, queued.
    InboxTask(InboxTask) of Inbox, created_at: |task| task.created_at;
    /// A step of a task.
    InboxStep(InboxStep) of Inbox, at: |step| step.at;
    /// An entry of a chat's history.
    History(HistoryEntry) of History, created_at: |entry| entry.created_at;
    /// A thought.
    Thought(ThoughtRecord) of ThoughtRecords, timestamp: |thought| thought.timestamp.at();
    /// Sums over the messages of a day.
    Rollup(Box<Rollup>) of Rollups, day: |rollup| rollup.day.bounds_ms().0;
}

impl Record {
    /// The record's key in readable form.
    pub fn key(&self) -> String {
        match self {
            Record::Turn(turn) => turn.id.to_string(),
            Record::CallRequested(req) => format!("{} {}", req.request_id, req.call_id),
            Record::CallDone(done) => format!("{} {}", done.request_id, done.call_id),
            Record::Proposal(proposal) => proposal.request_id.to_string(),
            Record::ProposalStep(step) => step.request_id.to_string(),
            Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
                conversation.id.to_string()
            }
            Record::Message(message) => message.id.to_string(),
            Record::Event(event) => id_in_words(event.id),
            Record::InboxTask(task) => id_in_words(task.id),
            Record::InboxStep(step) => step.id.to_string(),
            Record::History(entry) => id_in_words(entry.id),
            Record::Thought(thought) => thought.id.clone(),
            Record::Rollup(rollup) => format!("{} {}", rollup.day, rollup.group_key()),
        }
    }

    /// The field that the log assigns, if it is missing. Such a record was never in a log.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        let (field, is_missing) = match self {
            Record::Message(message) => ("sequence", message.sequence.is_none()),
            Record::Event(event) => ("id", event.id == 0),
            Record::InboxTask(task) => ("id", task.id == 0),
            Record::InboxStep(step) if step.id == 0 => ("id", true),
            Record::InboxStep(step) => ("attempts", step.attempt == 0),
            Record::History(entry) => ("id", entry.id == 0),
            Record::Thought(thought) if thought.hash.is_empty() => ("hash", true),
            Record::Thought(thought) => ("prev_hash", thought.prev_hash.is_empty()),
            _ => return None,
        };
        is_missing.then_some(field)
    }

    /// Validates the record by itself and converts it to its canonical form.
    pub(crate) fn checked(mut self) -> Result<Record> {
        if let Record::Message(message) = &mut self {
            message.fill_from_metadata();
        }
        let checked = each_type!(&self, it => it.write(&mut Limits));
        let checked = checked.and_then(|()| match &mut self {
            Record::Turn(_) | Record::History(_) => Ok(()),
            Record::CallRequested(req) => req.check(),
            Record::CallDone(done) => done.check(),
            Record::Proposal(proposal) => proposal.check(),
            Record::ProposalStep(step) => step.check(),
            Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
                conversation.check()
            }
            Record::Message(message) => message.check(),
            Record::Event(event) => event.check(),
            Record::InboxTask(task) => task.check(),
            Record::InboxStep(step) => step.check(),
            Record::Thought(thought) => thought.check(),
            Record::Rollup(rollup) => rollup.check(),
        });
        checked
            .and_then(|()| Day::of(self.at()).map_err(|e| e.with_field(self.at_field())))
            .map_err(|e| e.with_key(format!("{} {}", self.kind(), self.key())))?;
        Ok(self)
    }
}

/// Evaluates an expression for the record inside a [`Record`], whatever its type.
macro_rules! each_type {
    ($record:expr, $it:ident => $of:expr) => {
        $crate::record::each_type! {
            $record, $it => $of;
            Turn CallRequested CallDone Proposal ProposalStep Conversation ConversationUpdated
            Message Event InboxTask InboxStep History Thought Rollup
        }
    };
    ($record:expr, $it:ident => $of:expr; $($variant:ident)+) => {
        match $record {
            $($crate::record::Record::$variant($it) => $of,)+
        }
    };
}
pub(crate) use each_type;

/// Evaluates an expression for the record type that starts the lines of a kind.
macro_rules! of_kind {
    ($kind:expr, $of_type:ident => $of:expr) => {
        $crate::record::of_kind! {
            $kind, $of_type => $of;
            ConversationTurns: ConversationTurn,
            ToolCalls: ToolCallReq,
            CodeEditProposals: CodeEditProposal,
            Conversations: Conversation,
            Messages: ConversationMessage,
            Events: Event,
            Inbox: InboxTask,
            History: HistoryEntry,
            ThoughtRecords: ThoughtRecord,
            Rollups: Rollup,
        }
    };
    ($kind:expr, $of_type:ident => $of:expr; $($variant:ident: $type:ident,)+) => {
        match $kind {
            $($crate::record::Kind::$variant => {
                type $of_type = $crate::record::$type;
                $of
            })+
        }
    };
}
pub(crate) use of_kind;

/// Checks the fields of a record by their class.
struct Limits;

/// Methods that check a value of their class.
macro_rules! limits {
    ($($method:ident: $type:ty = $check:expr;)+) => {
        $(fn $method(&mut self, field: &'static Field, value: Option<&$type>) -> Result<()> {
            let check: fn(&str, &$type) -> Result<()> = $check;
            value.map_or(Ok(()), |value| check(field.name, value))
        })+
    };
}

impl FieldWriter for Limits {
    limits! {
        text_id: String = |name, value| check_name(name, value, false);
        dotted_name: String = |name, value| check_name(name, value, false);
        name: String = |name, value| check_name(name, value, true);
        user: String = |name, value| check_name(name, value, true);
        title: String = |name, value| check_name(name, value, true);
        names: Vec<String> = |name, values| values.iter().try_for_each(|value| check_name(name, value, true));
        count: i64 = |name, value| check_number(name, value, *value >= 0, "up");
        elapsed: i64 = |name, value| {
            let is_right = *value >= 0 || *value == ToolCallDone::LATENCY_UNKNOWN;
            check_number(name, value, is_right, "up")
        };
        sequence: i64 = |name, value| check_number(name, value, *value >= 0, "up");
        fraction: f64 = |name, value| check_number(name, value, (0.0..=1.0).contains(value), "to 1");
        amount: f64 = |name, value| {
            check_number(name, value, value.is_finite() && *value >= 0.0, "up")
        };
        id: i64 = |_, value| check_id(*value);
    }
}

/// A type of record that a [`Record`] can be.
pub(crate) trait RecordType: Sized {
    fn of(record: Record) -> Option<Self>;
    fn of_ref(record: &Record) -> Option<&Self>;
    fn of_mut(record: &mut Record) -> Option<&mut Self>;
}

/// Conversions between record types and [`Record`].
macro_rules! records {
    (@type $type:ty as $boxed:ty => $variant:ident) => {
        records!(@type $boxed => $variant);
    };
    (@type $type:ty => $($variant:ident)|+) => {
        impl RecordType for $type {
            fn of(record: Record) -> Option<Self> {
                match record {
                    $(Record::$variant(record))|+ => Some(record),
                    _ => None,
                }
            }

            fn of_ref(record: &Record) -> Option<&Self> {
                match record {
                    $(Record::$variant(record))|+ => Some(record),
                    _ => None,
                }
            }

            fn of_mut(record: &mut Record) -> Option<&mut Self> {
                match record {
                    $(Record::$variant(record))|+ => Some(record),
                    _ => None,
                }
            }
        }
    };
    ($($type:ty $(as $boxed:ty)? => $variant:ident $(| $later:ident)?,)+) => {
        $(
            impl From<$type> for Record {
                fn from(record: $type) -> Record {
                    Record::$variant(record.into())
                }
            }

            records!(@type $type $(as $boxed)? => $variant $(| $later)?);
        )+
    };
}

records! {
    ConversationTurn => Turn,
    ToolCallReq => CallRequested,
    ToolCallDone => CallDone,
    CodeEditProposal => Proposal,
    ProposalStep => ProposalStep,
    Conversation => Conversation | ConversationUpdated,
    ConversationMessage as Box<ConversationMessage> => Message,
    Event => Event,
    InboxTask => InboxTask,
    InboxStep => InboxStep,
    HistoryEntry => History,
    ThoughtRecord => Thought,
    Rollup as Box<Rollup> => Rollup,
}

/// The text of an id that the log assigns. 0 means not assigned yet.
fn id_in_words(id: i64) -> String {
    if id == 0 {
        return "without id".to_owned();
    }
    id.to_string()
}

/// The current time of the system clock, in epoch milliseconds.
pub(crate) fn now() -> i64 {
    timestamp::system_time().timestamp_millis()
}

pub(crate) fn check_name(field: &str, value: &str, empty_allowed: bool) -> Result<()> {
    if value.is_empty() && !empty_allowed {
        return Err(
            Error::invalid(format!("{field} is empty: give a non-empty text")).with_field(field),
        );
    }
    if value.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "{field} has {} bytes: at most {NAME_BYTES_MAX} are allowed",
            value.len()
        ))
        .with_field(field));
    }
    Ok(())
}

/// The error of a number that is not in its range, which begins at 0.
fn check_number(field: &str, value: &impl Display, is_right: bool, range: &str) -> Result<()> {
    if is_right {
        return Ok(());
    }
    let message = format!("{field} is {value}: give a number from 0 {range}");
    Err(Error::invalid(message).with_field(field))
}

/// The integer value of a double, if it is exact. Limit: 2^53.
#[allow(clippy::cast_possible_truncation)] // It is exact.
pub(crate) fn exact(number: f64) -> Option<i64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && number.abs() <= EXACT_MAX;
    is_whole.then_some(number as i64)
}

/// The maximum id, sequence or `update_id` of a record: 2^52, or the number that the log would
/// assign next, if that is greater. The log assigns the maximum plus one, even above this limit,
/// but no number above 2^52 + 2^40, because JavaScript has no exact integers above 2^53 − 1.
pub const GIVEN_NUMBER_MAX: i64 = 1 << 52;
/// The maximum number that the log assigns. Greater numbers, which earlier versions accepted, can
/// be found, but numbering does not continue from them.
pub(crate) const NUMBER_MAX: i64 = GIVEN_NUMBER_MAX + (1 << 40);

/// Checks a number that the log assigns, or that the caller gives if it is not negative. Whether
/// the caller may give one is checked when the record is added to the log.
fn check_id(id: i64) -> Result<()> {
    if (0..i64::MAX).contains(&id) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "id is {id}: give one from 1 to {GIVEN_NUMBER_MAX}, or none, to get the next one"
    ))
    .with_field("id"))
}

pub(crate) fn check_sha256(field: &str, hex: &str) -> Result<()> {
    // No early exit, so that it compiles to vector instructions.
    let is_hex = |all: bool, b: u8| all & b.is_ascii_hexdigit();
    if hex.len() == 64 && hex.bytes().fold(true, is_hex) {
        return Ok(());
    }
    let shown: String = hex.chars().take(80).collect();
    Err(Error::invalid(format!(
        "{field} {shown:?} is no SHA-256: give 64 hex digits"
    ))
    .with_field(field))
}
