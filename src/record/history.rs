//! The history of a chat.

use super::declare::record;
use super::message::Role;

record! {
    /// A message of a chat. Key: `id`.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub non_exhaustive struct HistoryEntry {
        /// Id, from 1. 0 assigns the next one.
        [id, default, key] id: i64,
        /// Chat id.
        [int, lookup] chat_id: i64,
        /// The author's role.
        [word] role: Role,
        /// Time, in epoch milliseconds.
        [own_millis] created_at: i64,
        /// Text, stored byte for byte.
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
