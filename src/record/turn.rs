//! Conversation turns.

use uuid::Uuid;

use super::declare::record;
use super::time::Validity;
use super::words::words;

words! {
    /// The author of a turn.
    TurnKind("turn_kind") {
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The system prompt or the harness.
        System = "system",
        /// Internal notes of the harness: thinking, hints, environment.
        SysInfo = "sysinfo",
        /// A tool's output as the model saw it.
        Tool = "tool",
    }
}

record! {
    /// One turn of a conversation. Key: `id`.
    ///
    /// The JSON form has the field names of the files. A `created_at` that is not valid retracts
    /// the turn.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub struct ConversationTurn {
        /// Unique id.
        [uuid, key] id: Uuid = "a new UUID",
        /// The turn that this one answers or follows.
        [uuid, lookup] parent_id: Option<Uuid>,
        /// The provider's or client's message that the turn belongs to.
        [uuid, lookup] message_id: Uuid = "`id`",
        /// The conversation or thread of the turn.
        [uuid, lookup] thread_id: Option<Uuid>,
        /// The author of the turn.
        [word] kind: TurnKind,
        /// Creation time.
        [validity] created_at: Validity,
        /// The text, stored byte for byte.
        [said] content: String,
    }
}

impl ConversationTurn {
    /// A turn with the current time and a new id, which is also its `message_id`.
    ///
    /// ```
    /// use decklog::{ConversationTurn, TurnKind};
    /// let asked = ConversationTurn::new(TurnKind::User, "List the files.");
    /// let answered = ConversationTurn {
    ///     parent_id: Some(asked.id),
    ///     ..ConversationTurn::new(TurnKind::Assistant, "a.rs, b.rs")
    /// };
    /// ```
    pub fn new(kind: TurnKind, content: impl Into<String>) -> ConversationTurn {
        let id = Uuid::new_v4();
        ConversationTurn {
            id,
            parent_id: None,
            message_id: id,
            thread_id: None,
            kind,
            created_at: Validity::now(),
            content: content.into(),
        }
    }
}
