//! Conversation turns.

use serde::{Deserialize, Serialize};
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
///
/// As JSON it has the field names of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "face", derive(utoipa::ToSchema))]
pub struct ConversationTurn {
    /// The turn's own id.
    pub id: Uuid,
    /// The turn that this one answers or follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Uuid>,
    /// The provider's or client's message that the turn belongs to.
    pub message_id: Uuid,
    /// The conversation or thread it stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<Uuid>,
    /// Who it comes from.
    pub kind: TurnKind,
    /// When it was said; not valid retracts the turn.
    #[cfg_attr(feature = "face", schema(value_type = i64))]
    pub created_at: Validity,
    /// The text, kept to the byte.
    pub content: String,
}

impl ConversationTurn {
    // Every field's type already holds what this kind asks for.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    pub(super) fn check(&self) -> Result<()> {
        Ok(())
    }
}
