//! The history of a chat.

use super::declare::record;
use super::message::Role;

record! {
    /// One message of a chat. Key: `id`.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub non_exhaustive struct HistoryEntry {
        /// Its id, from 1. 0 asks for the next one.
        [id, default, key] id: i64,
        /// The chat.
        [int, lookup] chat_id: i64,
        /// Who speaks.
        [word] role: Role,
        /// When, in epoch milliseconds.
        [own_millis] created_at: i64,
        /// What is said, kept to the byte.
        [content] text: String,
    }
}

impl HistoryEntry {
    /// An entry with the current time. The log assigns the next id.
    pub fn new(chat_id: i64, role: Role, text: impl Into<String>) -> HistoryEntry {
        HistoryEntry {
            id: 0,
            chat_id,
            role,
            created_at: super::now(),
            text: text.into(),
        }
    }
}
