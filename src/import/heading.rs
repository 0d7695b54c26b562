//! What lines say of a conversation as a whole: what it is about, and which call started it.

use uuid::Uuid;

use crate::record::Conversation;

/// Maximum number of characters of a title.
const TITLE_CHARS_MAX: usize = 100;
/// Maximum number of titles of a conversation that are known as ones which the import gave it.
const TOLD_MAX: usize = 64;

/// Who a title comes from. The greatest of those of a conversation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The first prompt: the earliest one stands.
    Prompt,
    /// A summary, or what an agent was started for.
    Summary,
    /// The model, as a title.
    Model,
    /// The user.
    User,
}

/// What a heading is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// A conversation.
    ConversationRef(Uuid),
    /// The conversation of the thread that a turn is of.
    Turn(Uuid),
}

/// What a line says of a conversation.
#[derive(Debug, PartialEq)]
pub(super) struct Heading {
    pub(super) of: Of,
    pub(super) title: Option<(Origin, String)>,
    pub(super) parent: Option<Uuid>,
    pub(super) call: Option<String>,
}

impl Heading {
    pub(super) fn titled(of: Of, origin: Origin, text: &str) -> Option<Heading> {
        Some(Heading {
            of,
            title: Some((origin, title(text)?)),
            parent: None,
            call: None,
        })
    }
}

/// The text in one line, cut to the length of a title; `None` if there is none.
pub(super) fn title(text: &str) -> Option<String> {
    let mut title = String::new();
    let mut chars = 0;
    for word in text.split_whitespace() {
        if !title.is_empty() {
            title.push(' ');
            chars += 1;
        }
        for c in word.chars() {
            if chars == TITLE_CHARS_MAX {
                title.push('…');
                return Some(title);
            }
            title.push(c);
            chars += 1;
        }
    }
    (!title.is_empty()).then_some(title)
}

/// The title of a conversation that begins with this prompt; `None` for what the client says in the
/// user's name, such as its instructions, the environment or the output of commands.
pub(super) fn of_prompt(prompt: &str) -> Option<String> {
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
    title(prompt)
}

/// What is known of a conversation as a whole.
#[derive(Debug, Default)]
pub(super) struct Known {
    title: Option<(Origin, String)>,
    /// Every title that it was given, as the log keeps it.
    told: Vec<String>,
    parent: Option<Uuid>,
    call: Option<String>,
}

impl Known {
    /// Adds what a line says; its title is as the log keeps it.
    pub(super) fn add(&mut self, heading: Heading) {
        if let Some((origin, text)) = heading.title {
            if self.told.len() < TOLD_MAX && !self.told.contains(&text) {
                self.told.push(text.clone());
            }
            let stands = self.title.as_ref().is_some_and(|(known, _)| {
                *known > origin || *known == origin && origin == Origin::Prompt
            });
            if !stands {
                self.title = Some((origin, text));
            }
        }
        self.parent = self.parent.or(heading.parent);
        self.call = self.call.take().or(heading.call);
    }

    /// Says it of the conversation. A title that someone else gave it stays.
    pub(super) fn amend(&self, conversation: &mut Conversation) {
        let title = &mut conversation.title;
        if title.as_ref().is_none_or(|title| self.told.contains(title))
            && let Some((_, text)) = &self.title
        {
            *title = Some(text.clone());
        }
        let id = conversation.id;
        let parent = self.parent.filter(|parent| *parent != id);
        conversation.parent_id = conversation.parent_id.or(parent);
        let call = &mut conversation.parent_call_id;
        *call = call.take().or_else(|| self.call.clone());
    }
}
