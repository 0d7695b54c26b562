//! Data about a whole conversation: its title and the call that started it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::collections::in_one_line;
use crate::record::Conversation;

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
            title: Some((origin, in_one_line(text)?)),
            parent: None,
            call: None,
        })
    }
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
