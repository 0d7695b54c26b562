//! Conversation turns.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::time::Validity;
use crate::error::Result;

/// Who a turn comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnKind {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The system prompt or the harness.
    System,
    /// What the harness notes for itself: thinking, hints, environment.
    SysInfo,
    /// A tool's output as the model saw it.
    Tool,
}

impl TurnKind {
    /// Every kind of turn.
    pub const ALL: [TurnKind; 5] = [
        TurnKind::User,
        TurnKind::Assistant,
        TurnKind::System,
        TurnKind::SysInfo,
        TurnKind::Tool,
    ];

    /// The word the files use.
    pub fn as_str(self) -> &'static str {
        match self {
            TurnKind::User => "user",
            TurnKind::Assistant => "assistant",
            TurnKind::System => "system",
            TurnKind::SysInfo => "sysinfo",
            TurnKind::Tool => "tool",
        }
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
