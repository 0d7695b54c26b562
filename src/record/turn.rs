//! Conversation turns.

use uuid::Uuid;

use super::time::Validity;
use super::words::words;
use crate::error::Result;

words! {
    /// Who a turn comes from.
    TurnKind("turn_kind") {
        /// The person.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The system prompt or the harness.
        System = "system",
        /// What the harness notes for itself: thinking, hints, environment.
        SysInfo = "sysinfo",
        /// A tool's output as the model saw it.
        Tool = "tool",
    }
}

/// One turn of a conversation. Key: `id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationTurn {
    /// The turn's own id.
    pub id: Uuid,
    /// The turn that this one answers or follows.
    pub parent_id: Option<Uuid>,
    /// The provider's or client's message that the turn belongs to.
    pub message_id: Uuid,
    /// Who it comes from.
    pub kind: TurnKind,
    /// The text, kept to the byte.
    pub content: String,
    /// When it was said; not valid retracts the turn.
    pub created_at: Validity,
    /// The conversation or thread it stands in.
    pub thread_id: Option<Uuid>,
}

impl ConversationTurn {
    // Every field's type already holds what this kind asks for.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    pub(super) fn check(&self) -> Result<()> {
        Ok(())
    }
}
