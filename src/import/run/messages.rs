//! The messages of an import: which lines make one, whose tokens are whose.
//!
//! A message stands in the log as it was first written, so one is handed over when no line can add
//! to it any more. What a later import knows more of it, because the session was still running,
//! follows as a supplement. Tokens are handed over as growth, so that the sum over a conversation
//! is right whatever the cuts: the last usage of a response is the right one.

use std::borrow::Cow;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::Run;
use super::draft::Draft;
use super::supplement::{count, supplement, tokens_of};
use crate::error::Result;
use crate::import::batch::Place;
use crate::import::facts::{Piece, Said, Talk, Tokens};
use crate::import::ids::{IdMap, IdSet, named};
use crate::record::{
    Client, Conversation, ConversationMessage, ConversationStatus, NAME_BYTES_MAX, Record,
    Timestamp,
};

/// How much text the lines of a response may add up to before the rest becomes a message of its
/// own, in bytes.
const DRAFT_BYTES_MAX: usize = 8 << 20;

/// What is known of messages, over all files unless it says otherwise.
pub(super) struct Messages {
    talks: IdSet,
    /// What was handed over, with a hash of how far it was told.
    handed: IdMap<u64>,
    /// The responses of this file that were handed over, with their tokens so far.
    told: IdMap<Tokens>,
    /// The one message that further lines may add to.
    draft: Option<Draft>,
    draft_bytes_max: usize,
    names: HashSet<Arc<str>>,
}

impl Default for Messages {
    fn default() -> Messages {
        Messages {
            talks: IdSet::default(),
            handed: IdMap::default(),
            told: IdMap::default(),
            draft: None,
            draft_bytes_max: DRAFT_BYTES_MAX,
            names: HashSet::new(),
        }
    }
}

impl Messages {
    /// The name in memory once, however many calls have it.
    pub(super) fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.names.insert(name.clone());
        name
    }

    pub(super) fn forget_file(&mut self) {
        self.told.clear();
    }
}

impl Run<'_> {
    #[cfg(test)]
    pub(in crate::import) fn set_draft_bytes_max(&mut self, bytes: usize) {
        self.messages.draft_bytes_max = bytes;
    }

    /// Takes what a line adds to the messages; `answered` is the one call that it is a result of.
    pub(super) fn say(
        &mut self,
        place: Place,
        said: Said<'_>,
        answered: Option<Uuid>,
    ) -> Result<()> {
        let said = self.named(place, said, answered);
        self.begin_talk(place, said.talk, &said.message.timestamp)?;
        let mut next = Draft {
            place,
            piece: said.piece,
            message: said.message,
            tokens: said.tokens,
        };
        let bytes_max = self.messages.draft_bytes_max;
        if let Some(draft) = &mut self.messages.draft
            && draft.is_added_to_by(&next, &said.texts, bytes_max)
        {
            draft.add(next, said.texts);
            if said.piece == Piece::Usage {
                return self.end_message();
            }
            return Ok(());
        }
        self.end_message()?;
        match next.piece {
            Piece::Of(response) if !self.messages.told.contains_key(&response) => {
                next.message.id = response;
            }
            Piece::Of(_) => {
                let line = next.message.id.to_string();
                next.message.id = named("claude-code:part", &line);
            }
            Piece::Whole | Piece::WithoutUsage | Piece::Usage => {}
        }
        next.add_texts(said.texts);
        match next.piece {
            Piece::Of(_) | Piece::WithoutUsage => self.messages.draft = Some(next),
            Piece::Whole | Piece::Usage => self.hand_over(next)?,
        }
        Ok(())
    }

    /// Hands over the message that was being read, if there is one.
    pub(super) fn end_message(&mut self) -> Result<()> {
        match self.messages.draft.take() {
            Some(draft) => self.hand_over(draft),
            None => Ok(()),
        }
    }

    /// The names that a message may have; without one, too long for any, it stands all the same.
    fn named<'a>(&mut self, place: Place, mut said: Said<'a>, answered: Option<Uuid>) -> Said<'a> {
        let message = &mut said.message;
        if message.tool_result.is_some()
            && let Some(call) = answered.and_then(|request_id| self.calls.get(&request_id))
        {
            message.tool_name = Some(call.tool_name.to_string());
        }
        let (model, tool) = (&mut message.model_used, &mut message.tool_name);
        let (session, cwd) = (&mut said.talk.session, &mut said.talk.cwd);
        let too_long = [
            model.take_if(|name| name.len() > NAME_BYTES_MAX).is_some(),
            tool.take_if(|name| name.len() > NAME_BYTES_MAX).is_some(),
            session
                .take_if(|name| name.len() > NAME_BYTES_MAX)
                .is_some(),
            cwd.take_if(|name| name.len() > NAME_BYTES_MAX).is_some(),
        ];
        for _ in too_long.into_iter().filter(|too_long| *too_long) {
            self.report(place)
                .count_not_understood("(name too long)", 1);
        }
        said
    }

    fn begin_talk(&mut self, place: Place, talk: Talk<'_>, at: &Timestamp) -> Result<()> {
        if !self.messages.talks.insert(talk.id) {
            return Ok(());
        }
        self.report(place).conversations += 1;
        // Also of a path that another system wrote.
        let project = talk.cwd.as_deref().and_then(|cwd| {
            let mut names = cwd.rsplit(['/', '\\']);
            names.find(|name| !name.is_empty()).map(str::to_owned)
        });
        let conversation = Conversation {
            workspace: talk.cwd.map(Cow::into_owned),
            project,
            session_id: talk.session.map(Cow::into_owned),
            status: ConversationStatus::Completed,
            created_at: at.clone(),
            updated_at: at.clone(),
            ..Conversation::new(talk.id, Client::Cli)
        };
        self.push(place, conversation.into())
    }

    fn hand_over(&mut self, draft: Draft) -> Result<()> {
        let Draft {
            place,
            piece,
            mut message,
            tokens,
        } = draft;
        let mut own = tokens;
        if let Piece::Of(response) = piece {
            let told = self.messages.told.entry(response).or_default();
            if let Some(so_far) = tokens {
                own = Some(so_far.beyond(*told));
                *told = so_far.or_more(*told);
            }
        }
        message.tokens_in = own.map(|own| count(own.input));
        message.tokens_out = own.map(|own| count(own.output));
        let extent = extent(&message);
        match self.messages.handed.entry(message.id) {
            Entry::Occupied(entry) if *entry.get() == extent => return Ok(()),
            Entry::Occupied(mut entry) => {
                entry.insert(extent);
                // Another file of this import has it, and may have less of it.
                self.send()?;
            }
            Entry::Vacant(entry) => {
                entry.insert(extent);
                self.report(place).messages += 1;
            }
        }
        if piece != Piece::Whole
            && let Some(known) = self.batch.log().get_message(message.id)?
        {
            return match supplement(self.batch.log(), known, *message)? {
                Some(more) => self.push(place, more.into()),
                None => Ok(()),
            };
        }
        self.push(place, Record::Message(message))
    }
}

/// How far a message was told, to notice when a later file tells more or less of it.
fn extent(message: &ConversationMessage) -> u64 {
    let Tokens { input, output } = tokens_of(message);
    let content = message.content.len() as u64;
    let calls = u64::from(message.tool_name.is_some());
    let numbers = [input, output, content, calls].map(u64::to_le_bytes);
    xxh3_64(numbers.as_flattened())
}
