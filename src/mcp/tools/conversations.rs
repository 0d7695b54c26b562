//! Conversations with their messages.

use serde::Serialize;
use uuid::Uuid;

use super::super::answer::Fault;
use super::Call;
use super::given::{FromChar, Limit, Listed, page};
use crate::collections::{Cursor, MessageQuery};
use crate::record::{ConversationMessage, Kind};
use crate::wire::conversation::Whole;

tools! {
    /// Reads a conversation with its totals, and its messages page by page, oldest first.
    conversation_get("Read a conversation", Reads, [Kind::Conversations, Kind::Messages]) => get(Get {
        /// Its id: a UUID.
        id: Uuid,
        /// Maximum number of messages. Default: 100.
        limit: Option<Limit>,
        /// The next_cursor of the previous page.
        cursor: Option<Cursor>,
        /// The first character to show of texts that were truncated. Default: 0.
        from_char: Option<FromChar>,
    })
}

/// A conversation with some of its messages.
#[derive(Debug, Serialize)]
struct Read {
    conversation: Whole,
    /// In the order of the conversation.
    #[serde(flatten)]
    messages: Listed<ConversationMessage>,
}

fn get(call: &Call<'_>, given: Get) -> Result<Read, Fault> {
    let found = call.store.get_conversation(given.id)?;
    let conversation = found.map(Whole::of).ok_or_else(|| {
        let message = "no such conversation: find conversations with conversation_search";
        Fault::unknown("id", message)
    })?;
    let read = |limit, after| {
        let query = MessageQuery {
            limit,
            after,
            ..MessageQuery::default()
        };
        call.store.messages(given.id, &query)
    };
    Ok(Read {
        conversation,
        messages: page("messages", given.limit, given.cursor, read)?,
    })
}
