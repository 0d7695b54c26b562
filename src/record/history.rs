//! The history of a chat.

use serde::{Deserialize, Serialize};

use super::check_id;
use super::message::Role;
use crate::error::Result;

/// One message of a chat. Key: `id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "face", derive(utoipa::ToSchema))]
pub struct HistoryEntry {
    /// Its id, from 1; 0 asks for the next one, and is never read back.
    #[serde(default)]
    pub id: i64,
    /// The chat.
    pub chat_id: i64,
    /// Who speaks.
    pub role: Role,
    /// When, in epoch milliseconds.
    pub created_at: i64,
    /// What is said, kept to the byte.
    pub text: String,
}

impl HistoryEntry {
    /// An entry of now that takes the next id.
    pub fn new(chat_id: i64, role: Role, text: impl Into<String>) -> HistoryEntry {
        HistoryEntry {
            id: 0,
            chat_id,
            role,
            created_at: super::now(),
            text: text.into(),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        check_id(self.id)
    }
}
