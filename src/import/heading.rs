//! Data about a whole conversation: its title and the call that started it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::record::Conversation;

/// Maximum number of characters of a title.
const TITLE_CHARS_MAX: usize = 100;
/// Maximum number of remembered titles that the import gave to a conversation.
const TOLD_MAX: usize = 64;

/// The origin of a title, in ascending priority. The title with the highest priority is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Origin {
    /// The first prompt. The earliest one is used.
    Prompt,
    /// A summary, or the task for which an agent was started.
    Summary,
    /// A title written by the model.
    Model,
    /// A title written by the user.
    User,
}

/// What a heading refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// A conversation.
    ConversationRef(Uuid),
    /// The conversation of the turn's thread.
    Turn(Uuid),
}

/// What a line says about a conversation.
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

/// The text on one line, cut to the maximum length of a title; `None` if it is empty.
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

/// The title of a conversation with this first prompt; `None` for text that the client sends in the
/// user's role, such as instructions, the environment or the output of commands.
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

/// The collected data about a conversation.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Known {
    title: Option<(Origin, String)>,
    /// Every title that the import gave to it, in stored form.
    told: Vec<String>,
    parent: Option<Uuid>,
    call: Option<String>,
}

impl From<Heading> for Known {
    /// The data of one line. Its title must be in stored form.
    fn from(heading: Heading) -> Known {
        let told = heading.title.iter().map(|(_, text)| text.clone());
        Known {
            told: told.collect(),
            title: heading.title,
            parent: heading.parent,
            call: heading.call,
        }
    }
}

impl Known {
    pub(super) fn parent(&self) -> Option<Uuid> {
        self.parent
    }

    /// Adds the data of later lines.
    pub(super) fn add(&mut self, later: &Known) {
        for text in &later.told {
            if self.told.len() < TOLD_MAX && !self.told.contains(text) {
                self.told.push(text.clone());
            }
        }
        if let Some((origin, _)) = &later.title {
            let stands = self.title.as_ref().is_some_and(|(known, _)| {
                known > origin || known == origin && *origin == Origin::Prompt
            });
            if !stands {
                self.title.clone_from(&later.title);
            }
        }
        self.parent = self.parent.or(later.parent);
        self.call = self.call.take().or_else(|| later.call.clone());
    }

    /// Applies the data to the conversation. A title set by someone else is kept.
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
