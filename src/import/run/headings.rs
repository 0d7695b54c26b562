//! Collects data about whole conversations and writes it to the log.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Run;
use crate::error::Result;
use crate::import::batch::Place;
use crate::import::facts::ConversationRef;
use crate::import::heading::{Heading, Known, Of};
use crate::import::ids::IdMap;
use crate::record::{Conversation, NAME_BYTES_MAX};

/// The headings of conversations.
#[derive(Default)]
pub(super) struct Headings {
    /// Over all files.
    of: IdMap<Headed>,
    /// By the number of the file.
    files: BTreeMap<usize, FileHeadings>,
    /// The files of which turns and parents are still to be looked up, and whether they were read
    /// in this import.
    unsettled: Vec<(usize, bool)>,
    /// Whether conversations may have changed since the unchanged files were imported.
    are_all_new: bool,
}

struct Headed {
    /// The first file with a heading of it.
    file: usize,
    known: Known,
    /// Whether this import read any of it. Otherwise an earlier import has applied it.
    is_new: bool,
}

/// What the lines of a file say about conversations.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::import) struct FileHeadings {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    of: BTreeMap<Uuid, Known>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    of_turns: Vec<OfTurn>,
    /// The conversations of sub-agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<Agent>,
}

/// The heading of the conversation of a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OfTurn {
    turn: Uuid,
    /// The thread of the turn, once it is known.
    thread: Option<Uuid>,
    known: Known,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Agent {
    id: Uuid,
    parent: Uuid,
    own: Whereabouts,
}

impl FileHeadings {
    /// The ids of all conversations and turns.
    fn ids(&self) -> impl Iterator<Item = Uuid> {
        let parents = self.of.values().filter_map(Known::parent);
        let turns = self.of_turns.iter();
        let turns = turns.flat_map(|it| [Some(it.turn), it.thread].into_iter().flatten());
        let agents = self.agents.iter().flat_map(|it| [it.id, it.parent]);
        let of = self.of.keys().copied();
        of.chain(parents).chain(turns).chain(agents)
    }
}

impl Headings {
    /// The headings of a file that is being read.
    fn of_file(&mut self, file: usize) -> &mut FileHeadings {
        self.files.entry(file).or_insert_with(|| {
            self.unsettled.push((file, true));
            FileHeadings::default()
        })
    }

    fn add(&mut self, file: usize, id: Uuid, known: &Known, is_new: bool) {
        let headed = self.of.entry(id).or_insert_with(|| Headed {
            file,
            known: Known::default(),
            is_new: false,
        });
        headed.known.add(known);
        headed.is_new |= is_new;
    }
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
        let (of, known) = (heading.of, Known::from(heading));
        let file = self.headings.of_file(place.file);
        match of {
            Of::ConversationRef(id) => {
                file.of.entry(id).or_default().add(&known);
                self.headings.add(place.file, id, &known, true);
            }
            Of::Turn(turn) => file.of_turns.push(OfTurn {
                turn,
                thread: None,
                known,
            }),
        }
        Ok(())
    }

    /// Adds the headings of a file that an earlier import read.
    pub(in crate::import) fn recall_headings(&mut self, place: Place, of_file: &FileHeadings) {
        for (id, known) in &of_file.of {
            self.headings.add(place.file, *id, known, false);
        }
        self.headings.files.insert(place.file, of_file.clone());
        self.headings.unsettled.push((place.file, false));
    }

    /// The headings of a file of which nothing is to be reported; `None` of any other file. A
    /// database may have items that still change.
    pub(in crate::import) fn headings_of(
        &mut self,
        file: usize,
        may_be_unfinished: bool,
    ) -> Option<FileHeadings> {
        let is_clean = self.files.get(file)?.is_clean(may_be_unfinished);
        is_clean.then(|| self.headings.files.remove(&file).unwrap_or_default())
    }

    /// The headings of a file that was read, and whether nothing about it is to be reported.
    pub(in crate::import) fn take_headings(
        &mut self,
        file: usize,
        may_be_unfinished: bool,
    ) -> (FileHeadings, bool) {
        let found = self.files.get(file);
        let is_clean = found.is_some_and(|file| file.is_clean(may_be_unfinished));
        let headings = self.headings.files.remove(&file).unwrap_or_default();
        (headings, is_clean)
    }

    /// Whether headings are about something that was erased.
    pub(in crate::import) fn has_erased(&self, headings: &FileHeadings) -> bool {
        let tombstones = &self.tombstones;
        let is_erased = |id| tombstones.of(id).is_some() || tombstones.of_part(id).is_some();
        !tombstones.is_empty() && headings.ids().any(is_erased)
    }

    /// Says whether conversations may have changed since the unchanged files were imported.
    pub(in crate::import) fn set_conversations_changed(&mut self, are_changed: bool) {
        self.headings.are_all_new = are_changed;
    }

    /// Records a sub-agent's conversation. It gets the workspace and project of its parent.
    pub(super) fn note_agent(&mut self, place: Place, conversation: &Conversation) {
        if let Some(parent) = conversation.parent_id {
            self.headings.of_file(place.file).agents.push(Agent {
                id: conversation.id,
                parent,
                own: whereabouts(conversation),
            });
        }
    }

    /// Applies the collected headings to conversations that are waiting to be written.
    pub(super) fn head_waiting(&mut self) {
        for conversation in self.batch.conversations() {
            if let Some(headed) = self.headings.of.get(&conversation.id) {
                headed.known.amend(conversation);
            }
        }
    }

    /// Looks up the threads of the turns that headings name. Returns the files whose headings are
    /// to be applied to the log.
    pub(super) fn resolve_headings(&mut self) -> Result<Vec<(usize, bool)>> {
        let unsettled = std::mem::take(&mut self.headings.unsettled);
        for (file, is_new) in &unsettled {
            let Some(mut of_file) = self.headings.files.remove(file) else {
                continue;
            };
            for of_turn in &mut of_file.of_turns {
                let is_new = *is_new || of_turn.thread.is_none();
                if of_turn.thread.is_none() {
                    // The session that was imported first has the turn.
                    of_turn.thread = match self.batch.log().get_turn(of_turn.turn)? {
                        Some(turn) => turn.thread_id,
                        None => self.turns.get(&of_turn.turn).and_then(|turn| turn.thread),
                    };
                }
                if let Some(thread) = of_turn.thread {
                    self.headings.add(*file, thread, &of_turn.known, is_new);
                }
            }
            self.headings.files.insert(*file, of_file);
        }
        Ok(unsettled)
    }

    /// Applies the collected headings to conversations that are in the log. Those of unchanged
    /// files were applied before, unless the conversation is one of this import.
    pub(super) fn head_logged(&mut self, unsettled: &[(usize, bool)]) -> Result<()> {
        let log = self.batch.log();
        let talks = &self.messages.talks;
        let are_all_new = self.headings.are_all_new;
        let mut amended = Vec::new();
        for (id, headed) in &self.headings.of {
            let is_new = headed.is_new || are_all_new || talks.contains(id);
            let change = |conversation: &mut Conversation| headed.known.amend(conversation);
            if is_new && log.amend(*id, &change)? {
                amended.push(headed.file);
            }
        }
        let agents = unsettled.iter().flat_map(|(file, is_new)| {
            let of_file = self.headings.files.get(file).into_iter();
            of_file.flat_map(|of_file| of_file.agents.iter().map(|agent| (*file, *is_new, agent)))
        });
        for (file, is_new, agent) in agents {
            let is_begun = talks.contains(&agent.id) || talks.contains(&agent.parent);
            if !(is_new || are_all_new || is_begun) {
                continue;
            }
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
                amended.push(file);
            }
        }
        for file in amended {
            self.report(Place { file, line: 0 }).added += 1;
        }
        Ok(())
    }
}
