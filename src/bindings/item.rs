//! A record of any kind that was read.

use serde::{Serialize, Serializer};

use crate::record::{
    CodeEditProposal, Conversation, ConversationMessage, ConversationStats, ConversationTurn,
    ConversationView, Event, HistoryEntry, InboxTask, Kind, Rollup, ThoughtRecord, ToolCall,
    ToolCallView,
};

/// Declares the items: of each its variant, its kind, its type, and what is serialized.
macro_rules! items {
    ($($variant:ident($type:ty) of $kind:ident as |$it:ident| $view:expr;)+) => {
        /// A record of any kind. It serializes as an object with the field names of the files; a
        /// tool call with its outcome, a conversation with the totals of its messages.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        #[allow(missing_docs)]
        pub enum Item {
            $($variant($type),)+
        }

        impl Item {
            /// The kind of the record.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Item::$variant(_) => Kind::$kind,)+
                }
            }
        }

        impl Serialize for Item {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Item::$variant($it) => $view.serialize(serializer),)+
                }
            }
        }

        $(impl From<$type> for Item {
            fn from(it: $type) -> Item {
                Item::$variant(it)
            }
        })+
    };
}

items! {
    Turn(ConversationTurn) of ConversationTurns as |it| it;
    Call(ToolCall) of ToolCalls as |it| ToolCallView::from(it);
    Proposal(CodeEditProposal) of CodeEditProposals as |it| it;
    Conversation((Conversation, ConversationStats)) of Conversations as |it| ConversationView::from(it);
    Message(ConversationMessage) of Messages as |it| it;
    Event(Event) of Events as |it| it;
    Task(InboxTask) of Inbox as |it| it;
    HistoryEntry(HistoryEntry) of History as |it| it;
    Thought(ThoughtRecord) of ThoughtRecords as |it| it;
    Rollup(Rollup) of Rollups as |it| it;
}
