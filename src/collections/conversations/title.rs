//! Titles of conversations: the one that was recorded, else the start of the first prompt.

use crate::collections::{MessageQuery, Order};
use crate::error::Result;
use crate::human::one_line;
use crate::record::{Conversation, Role};
use crate::store::Store;

/// Maximum number of characters of a title.
const TITLE_CHARS_MAX: usize = 100;
/// Number of messages, from the first on, that are searched for a prompt.
const MESSAGES_READ: usize = 20;

impl Store {
    /// The title to show for a conversation: its own title, else the start of the first prompt, on
    /// one line. `None` if it has neither. Instructions and other text that clients send in the
    /// user's role are not prompts.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
    /// store.record(conversation.clone())?;
    /// store.record(ConversationMessage::new(conversation.id, Role::User, "What is\n1 + 1?"))?;
    /// assert_eq!(store.conversation_title(&conversation)?.as_deref(), Some("What is 1 + 1?"));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn conversation_title(&self, conversation: &Conversation) -> Result<Option<String>> {
        let own = conversation.title.as_deref().and_then(in_one_line);
        if own.is_some() {
            return Ok(own);
        }
        let query = MessageQuery {
            order: Order::OldestFirst,
            limit: MESSAGES_READ,
            ..MessageQuery::default()
        };
        let messages = self.messages(conversation.id, &query)?.items;
        let mut prompts = messages.iter().filter(|it| it.role == Role::User);
        Ok(prompts.find_map(|prompt| of_prompt(&prompt.content)))
    }
}

/// The text on one line, cut to the maximum length of a title; `None` if it is empty.
pub(crate) fn in_one_line(text: &str) -> Option<String> {
    let title = one_line(text, TITLE_CHARS_MAX);
    (!title.is_empty()).then_some(title)
}

/// The title of a conversation with this first prompt; `None` for text that the client sends in the
/// user's role, such as instructions, the environment or the output of commands.
pub(crate) fn of_prompt(prompt: &str) -> Option<String> {
    const CLIENTS: [&str; 4] = [
        "<",
        "# AGENTS.md instructions",
        "[Request interrupted",
        "Caveat: ",
    ];
    let prompt = prompt.trim_start();
    if CLIENTS.iter().any(|start| prompt.starts_with(start)) {
        return None;
    }
    in_one_line(prompt)
}
