//! Collects data about whole conversations and writes it to the log.

use std::borrow::Cow;

use uuid::Uuid;

use super::Run;
use crate::error::Result;
use crate::import::batch::Place;
use crate::import::facts::ConversationRef;
use crate::import::heading::{Heading, Known, Of};
use crate::import::ids::IdMap;
use crate::record::{Conversation, NAME_BYTES_MAX};

/// The headings of conversations, over all files.
#[derive(Default)]
pub(super) struct Headings {
    of: IdMap<(Place, Known)>,
    /// Headings of turns whose thread is not known yet.
    of_turns: Vec<(Place, Uuid, Heading)>,
    /// The conversations of sub-agents.
    agents: Vec<Agent>,
}

struct Agent {
    place: Place,
    id: Uuid,
    parent: Uuid,
    own: Whereabouts,
}

/// A workspace and the project in it.
type Whereabouts = (Option<String>, Option<String>);

fn whereabouts(conversation: &Conversation) -> Whereabouts {
    (conversation.workspace.clone(), conversation.project.clone())
}

/// The workspace of a conversation and its project, derived from its working directory. Handles
/// paths of other operating systems.
pub(super) fn of_cwd(talk: &mut ConversationRef<'_>) -> Whereabouts {
    let project = talk.cwd.as_deref().and_then(|cwd| {
        let mut names = cwd.rsplit(['/', '\\']);
        names.find(|name| !name.is_empty()).map(str::to_owned)
    });
    (talk.cwd.take().map(Cow::into_owned), project)
}

impl Run<'_> {
    /// Adds a heading.
    pub(super) fn head(&mut self, place: Place, mut heading: Heading) -> Result<()> {
        if let Some((_, title)) = &mut heading.title {
            *title = self.batch.log().kept_title(std::mem::take(title))?;
        }
        heading.call = heading.call.filter(|call| call.len() <= NAME_BYTES_MAX);
        match heading.of {
            Of::ConversationRef(id) => self.head_of(place, id, heading),
            Of::Turn(turn) => self.headings.of_turns.push((place, turn, heading)),
        }
        Ok(())
    }

    fn head_of(&mut self, place: Place, id: Uuid, heading: Heading) {
        let known = self.headings.of.entry(id);
        let (_, known) = known.or_insert_with(|| (place, Known::default()));
        known.add(heading);
    }

    /// Records a sub-agent's conversation. It gets the workspace and project of its parent.
    pub(super) fn note_agent(&mut self, place: Place, conversation: &Conversation) {
        if let Some(parent) = conversation.parent_id {
            self.headings.agents.push(Agent {
                place,
                id: conversation.id,
                parent,
                own: whereabouts(conversation),
            });
        }
    }

    /// Applies the collected headings to conversations that are waiting to be written.
    pub(super) fn head_waiting(&mut self) {
        for conversation in self.batch.conversations() {
            if let Some((_, known)) = self.headings.of.get(&conversation.id) {
                known.amend(conversation);
            }
        }
    }

    /// Looks up the threads of the turns that headings name.
    pub(super) fn resolve_headings(&mut self) -> Result<()> {
        for (place, turn, heading) in std::mem::take(&mut self.headings.of_turns) {
            let thread = match self.turns.get(&turn) {
                Some(turn) => turn.thread,
                None => (self.batch.log().get_turn(turn)?).and_then(|turn| turn.thread_id),
            };
            if let Some(thread) = thread {
                self.head_of(place, thread, heading);
            }
        }
        Ok(())
    }

    /// Applies the collected headings to conversations that are in the log.
    pub(super) fn head_logged(&mut self) -> Result<()> {
        let log = self.batch.log();
        let mut amended = Vec::new();
        for (id, (place, known)) in &self.headings.of {
            if log.amend(*id, &|conversation| known.amend(conversation))? {
                amended.push(*place);
            }
        }
        for agent in std::mem::take(&mut self.headings.agents) {
            let Some(parent) = log.conversation(agent.parent)? else {
                continue;
            };
            let (workspace, project) = whereabouts(&parent);
            let change = |conversation: &mut Conversation| {
                // If someone else changed the workspace, it is kept.
                if whereabouts(conversation) == agent.own {
                    conversation.workspace.clone_from(&workspace);
                    conversation.project.clone_from(&project);
                }
            };
            if whereabouts(&parent) != agent.own && log.amend(agent.id, &change)? {
                amended.push(agent.place);
            }
        }
        for place in amended {
            self.report(place).added += 1;
        }
        Ok(())
    }
}
