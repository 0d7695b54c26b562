//! Keys of records.

use std::fmt;

use uuid::Uuid;

use super::Kind;

/// The key of a record: its kind, and what identifies it within its kind.
///
/// ```
/// use decklog::{Key, Kind};
/// let key = Key::Event(12);
/// assert_eq!(key.kind(), Kind::Events);
/// assert_eq!(key.to_string(), "event 12");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Key {
    /// A turn, by its id.
    Turn(Uuid),
    /// A tool call, by its model request and its id within that request.
    ToolCall {
        /// The model request of the call.
        request_id: Uuid,
        /// The call's id within the request.
        call_id: String,
    },
    /// A code edit proposal, by the request that proposed it.
    Proposal(Uuid),
    /// A conversation, by its id.
    Conversation(Uuid),
    /// A message of a conversation, by its id.
    Message(Uuid),
    /// An event, by its id.
    Event(i64),
    /// A task of the inbox, by its id.
    Task(i64),
    /// An entry of the history, by its id.
    HistoryEntry(i64),
    /// A thought, by its id.
    Thought(String),
}

impl Key {
    /// The kind of the record.
    pub fn kind(&self) -> Kind {
        match self {
            Key::Turn(_) => Kind::ConversationTurns,
            Key::ToolCall { .. } => Kind::ToolCalls,
            Key::Proposal(_) => Kind::CodeEditProposals,
            Key::Conversation(_) => Kind::Conversations,
            Key::Message(_) => Kind::Messages,
            Key::Event(_) => Kind::Events,
            Key::Task(_) => Kind::Inbox,
            Key::HistoryEntry(_) => Kind::History,
            Key::Thought(_) => Kind::ThoughtRecords,
        }
    }

    /// The key of a record of a kind, from its parts; `None` if they are not of a key, as those of
    /// rollups.
    pub(crate) fn of_parts(kind: Kind, parts: [String; 2]) -> Option<Key> {
        let [id, call_id] = parts;
        let uuid = || Uuid::try_parse(&id).ok();
        let number = || id.parse().ok();
        Some(match kind {
            Kind::ConversationTurns => Key::Turn(uuid()?),
            Kind::ToolCalls => Key::ToolCall {
                request_id: uuid()?,
                call_id,
            },
            Kind::CodeEditProposals => Key::Proposal(uuid()?),
            Kind::Conversations => Key::Conversation(uuid()?),
            Kind::Messages => Key::Message(uuid()?),
            Kind::Events => Key::Event(number()?),
            Kind::Inbox => Key::Task(number()?),
            Kind::History => Key::HistoryEntry(number()?),
            Kind::ThoughtRecords => Key::Thought(id),
            Kind::Rollups => return None,
        })
    }

    /// The two parts that the index hashes; the second is empty for all but tool calls.
    pub(crate) fn parts(&self) -> [String; 2] {
        let one = match self {
            Key::Turn(id) | Key::Proposal(id) | Key::Conversation(id) | Key::Message(id) => {
                id.to_string()
            }
            Key::ToolCall {
                request_id,
                call_id,
            } => return [request_id.to_string(), call_id.clone()],
            Key::Event(id) | Key::Task(id) | Key::HistoryEntry(id) => id.to_string(),
            Key::Thought(id) => id.clone(),
        };
        [one, String::new()]
    }
}

/// What it is the key of, as in `event 12`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Turn(id) => write!(f, "turn {id}"),
            Key::ToolCall {
                request_id,
                call_id,
            } => write!(f, "tool call {request_id} {call_id}"),
            Key::Proposal(id) => write!(f, "proposal {id}"),
            Key::Conversation(id) => write!(f, "conversation {id}"),
            Key::Message(id) => write!(f, "message {id}"),
            Key::Event(id) => write!(f, "event {id}"),
            Key::Task(id) => write!(f, "task {id}"),
            Key::HistoryEntry(id) => write!(f, "history entry {id}"),
            Key::Thought(id) => write!(f, "thought {id}"),
        }
    }
}
