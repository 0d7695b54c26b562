//! Conversations with their messages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::super::answer::Fault;
use super::given::{FromChar, Limit, page};
use super::{Call, Effect, Tool};
use crate::collections::Cursor;
use crate::collections::MessageQuery;
use crate::record::{ConversationMessage, Kind};
use crate::wire::conversation::Whole;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "conversation_get",
            "Read a conversation",
            "Reads a conversation with its totals, and its messages page by page, oldest first.",
            Effect::Reads,
            get,
        )
        .reading(&[Kind::Conversations, Kind::Messages]),
    ]
}

/// The conversation to read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Get {
    /// Its id: a UUID.
    id: Uuid,
    /// Maximum number of messages. Default: 100.
    limit: Option<Limit>,
    /// The next_cursor of the previous page.
    cursor: Option<Cursor>,
    /// The first character to show of texts that were truncated. Default: 0.
    #[allow(dead_code)] // Used to cut the answer.
    from_char: Option<FromChar>,
}

/// A conversation with some of its messages.
#[derive(Debug, Serialize)]
struct Read {
    conversation: Whole,
    /// In the order of the conversation.
    messages: Vec<ConversationMessage>,
    /// The cursor of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn get(call: &Call<'_>, given: Get) -> Result<Read, Fault> {
    let found = call.store.get_conversation(given.id)?;
    let conversation = found.map(Whole::of).ok_or_else(|| {
        let message = "no such conversation: find conversations with conversation_search";
        Fault::not_found(message).with_field("id")
    })?;
    let read = |limit, after| {
        let query = MessageQuery {
            limit,
            after,
            ..MessageQuery::default()
        };
        call.store.messages(given.id, &query)
    };

    let page = page(given.limit, given.cursor, read)?;
    Ok(Read {
        conversation,
        messages: page.items,
        next_cursor: page.next,
    })
}
