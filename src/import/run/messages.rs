//! The messages of an import: which are already stored, and where a response is counted.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Run;
use super::headings::of_cwd;
use crate::error::Result;
use crate::import::batch::Place;
use crate::import::facts::{ConversationRef, Counted, Facts, Said, uncount};
use crate::import::ids::{IdMap, IdSet};
use crate::record::{
    Client, Conversation, ConversationMessage, ConversationStatus, ConversationTurn,
    NAME_BYTES_MAX, Record, Role, Timestamp,
};

/// The messages seen so far, over all files except where noted.
#[derive(Default)]
pub(super) struct Messages {
    pub(super) talks: IdSet,
    pub(super) handed: IdSet,
    /// Those of `handed` that an earlier import added. The log says which of them are requests.
    pub(super) recalled: IdSet,
    requests: IdMap<Request>,
    /// Where the responses of this file are counted.
    pub(super) standing: IdMap<Standing>,
    /// Responses of this file for which another session has lines with the same ids. The remaining
    /// lines belong to this session.
    pub(super) shared: IdSet,
    pub(super) before: Before,
    names: HashSet<Arc<str>>,
    /// Ids of messages and of turns that the log did not have before this chunk of lines.
    absent: [IdSet; 2],
}

/// The messages of a file so far: whether another session has any of them under the same id.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Before {
    is_any: bool,
    is_shared: bool,
    /// Ids that were not looked up yet.
    handed: Vec<Uuid>,
}

/// Maximum number of messages of a file that are looked up. Sessions share lines at their start.
const BEFORE_MAX: usize = 1024;

impl Before {
    fn shared(&mut self) {
        self.is_shared = true;
        self.handed = Vec::new();
    }

    fn handed(&mut self, id: Uuid) {
        self.is_any = true;
        if !self.is_shared && self.handed.len() < BEFORE_MAX {
            self.handed.push(id);
        }
    }
}

/// Where the tokens of a response are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nowhere yet.
    New,
    /// In the conversation of this file's lines.
    Here,
    /// In another conversation, or by other lines.
    Elsewhere,
}

/// Distinguishes the line of a request from another file's line for the same request.
#[derive(PartialEq, Eq)]
struct Request {
    conversation: Uuid,
    at: i64,
    tokens: (Option<i64>, Option<i64>),
}

impl Request {
    fn of(message: &ConversationMessage) -> Request {
        Request {
            conversation: message.conversation_id,
            at: message.timestamp.at(),
            tokens: (message.tokens_in, message.tokens_out),
        }
    }
}

impl Messages {
    /// Interns a name, so that it is in memory once for all calls.
    pub(super) fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.names.insert(name.clone());
        name
    }

    pub(super) fn forget_file(&mut self) {
        self.standing.clear();
        self.shared.clear();
        self.before = Before::default();
        self.absent = Default::default();
    }
}

impl Run<'_> {
    /// Looks up at once which messages and turns of these lines the log has.
    pub(in crate::import) fn look_up<'f>(
        &mut self,
        facts: impl Iterator<Item = &'f Facts<'f>>,
    ) -> Result<()> {
        let (mut messages, mut turns) = (Vec::new(), Vec::new());
        for facts in facts {
            for said in facts.said.iter().chain(&facts.advice) {
                let Some(counted) = said.counted else {
                    continue;
                };
                messages.push(counted.response);
                if let (Some(line), Some(_)) = (counted.line, said.message.part_of) {
                    messages.push(line);
                    turns.push(line);
                }
            }
        }
        for absent in &mut self.messages.absent {
            absent.clear();
        }
        if let Some((has_messages, has_turns)) = self.batch.log().has(&messages, &turns)? {
            let [absent_messages, absent_turns] = &mut self.messages.absent;
            for (absent, ids, has) in [
                (absent_messages, messages, has_messages),
                (absent_turns, turns, has_turns),
            ] {
                let ids = ids.into_iter().zip(has);
                absent.extend(ids.filter(|(_, has)| !has).map(|(id, _)| id));
            }
        }
        Ok(())
    }

    /// The message with this id in the log.
    fn logged_message(&self, id: Uuid) -> Result<Option<ConversationMessage>> {
        if self.messages.absent[0].contains(&id) {
            return Ok(None);
        }
        self.batch.log().get_message(id)
    }

    /// The turn with this id in the log.
    fn logged_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>> {
        if self.messages.absent[1].contains(&id) {
            return Ok(None);
        }
        self.batch.log().get_turn(id)
    }

    /// Adds the message of a line of a thread. `answered` is the call whose only result the line
    /// is.
    pub(super) fn say(
        &mut self,
        place: Place,
        said: Said<'_>,
        answered: Option<Uuid>,
        thread: Option<Uuid>,
    ) -> Result<()> {
        let mut said = self.named(place, said, answered);
        if let Some(branch) = said.talk.branch.take() {
            said.message.git_branch = Some(branch.into_owned());
        }
        self.begin_talk(place, said.talk, &said.message.timestamp)?;
        if let Some(counted) = said.counted
            && !self.is_own(&mut said.message, counted, thread)?
        {
            return Ok(());
        }
        let message = said.message;
        if let Some(kept) = &mut self.kept {
            kept.messages.push(message.id);
        }
        if !self.messages.handed.insert(message.id) {
            self.messages.before.shared();
            return Ok(());
        }
        self.messages.before.handed(message.id);
        let report = self.report(place);
        report.messages += 1;
        let tokens = |count: Option<i64>| count.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        report.tokens_in = report.tokens_in.saturating_add(tokens(message.tokens_in));
        report.tokens_out = report.tokens_out.saturating_add(tokens(message.tokens_out));
        for (sum, part) in [
            (&mut report.tokens_cache_write, message.tokens_cache_write),
            (&mut report.tokens_cache_read, message.tokens_cache_read),
            (&mut report.tokens_reasoning, message.tokens_reasoning),
        ] {
            *sum = sum.saturating_add(tokens(part));
        }
        if message.role == Role::Assistant && message.part_of.is_none() {
            report.api_responses += 1;
            let request = Request::of(&message);
            self.messages.requests.insert(message.id, request);
        }
        self.push(place, Record::Message(message))
    }

    /// Whether a part of a response is stored in this conversation, with or without its tokens. It
    /// is not if another session has the same line.
    fn is_own(
        &mut self,
        message: &mut ConversationMessage,
        counted: Counted,
        thread: Option<Uuid>,
    ) -> Result<bool> {
        let Counted { response, line } = counted;
        let standing = self.standing(response, message)?;
        let Some(line) = line else {
            return Ok(standing != Standing::Elsewhere);
        };
        // The line counted by this conversation is its own. Another conversation may have stored a
        // later line first.
        let is_shared = match standing {
            Standing::New | Standing::Here if message.part_of.is_none() => false,
            Standing::New | Standing::Here => match self.is_elsewhere(line, message)? {
                Some(is_elsewhere) => is_elsewhere,
                None => standing == Standing::Here && self.is_of_another(line, thread)?,
            },
            Standing::Elsewhere => {
                self.is_of_another(line, thread)? || self.is_told(line, response, message)?
            }
        };
        if is_shared {
            self.messages.shared.insert(response);
            self.messages.before.shared();
            return Ok(false);
        }
        if standing == Standing::Elsewhere && !self.messages.shared.contains(&response) {
            message.id = line;
            message.part_of = Some(response);
            uncount(message);
        }
        Ok(true)
    }

    fn standing(&mut self, response: Uuid, message: &ConversationMessage) -> Result<Standing> {
        if let Some(standing) = self.messages.standing.get(&response) {
            return Ok(*standing);
        }
        let of = |known: &Request| {
            if *known == Request::of(message) {
                Standing::Here
            } else {
                Standing::Elsewhere
            }
        };
        let standing = match self.messages.requests.get(&response) {
            Some(known) => of(known),
            // The id is used by a part of another response.
            None if self.is_handed(response) => Standing::Elsewhere,
            None => match self.logged_message(response)? {
                Some(known) => of(&Request::of(&known)),
                None => Standing::New,
            },
        };
        self.messages.standing.insert(response, standing);
        Ok(standing)
    }

    /// Whether this import added the message.
    fn is_handed(&self, id: Uuid) -> bool {
        self.messages.handed.contains(&id) && !self.messages.recalled.contains(&id)
    }

    /// Whether the message with this id is in another conversation of the log; `None` if the log
    /// has no such message.
    fn is_elsewhere(&self, id: Uuid, message: &ConversationMessage) -> Result<Option<bool>> {
        let known = self.logged_message(id)?;
        Ok(known.map(|known| known.conversation_id != message.conversation_id))
    }

    /// Whether an earlier message of this file is also in another session.
    fn shares_lines(&mut self, message: &ConversationMessage) -> Result<bool> {
        let ids = std::mem::take(&mut self.messages.before.handed);
        for id in ids {
            if self.is_elsewhere(id, message)? == Some(true) {
                self.messages.before.shared();
                break;
            }
        }
        Ok(self.messages.before.is_shared)
    }

    /// Whether a line of a response that is counted elsewhere is a message there. Its turn may be
    /// recorded under this session if the messages were removed or another log was replayed.
    fn is_told(
        &mut self,
        line: Uuid,
        response: Uuid,
        message: &ConversationMessage,
    ) -> Result<bool> {
        if self.messages.handed.contains(&line) {
            return Ok(true);
        }
        if let Some(is_elsewhere) = self.is_elsewhere(line, message)? {
            return Ok(is_elsewhere);
        }
        if message.part_of.is_some() {
            return Ok(false);
        }
        // There, the first line has the response's id. It is the same line if it has the same time,
        // provided that both files use the same ids for their lines. A resumed session may give
        // each line a new id.
        let has_same_ids = self.shares_lines(message)?
            || !self.messages.before.is_any && self.logged_turn(line)?.is_some();
        if !has_same_ids {
            return Ok(false);
        }
        let of = Request::of(message);
        let is_it = |known: &Request| {
            let is_elsewhere = known.conversation != of.conversation;
            is_elsewhere && (known.at, known.tokens) == (of.at, of.tokens)
        };
        Ok(match self.messages.requests.get(&response) {
            Some(known) => is_it(known),
            None => {
                (self.logged_message(response)?).is_some_and(|known| is_it(&Request::of(&known)))
            }
        })
    }

    /// Whether a line was recorded in another thread.
    fn is_of_another(&self, line: Uuid, thread: Option<Uuid>) -> Result<bool> {
        let recorded = self.logged_turn(line)?;
        let recorded = recorded.map(|turn| turn.thread_id);
        // The first occurrence in this import is not in the log yet.
        let first = recorded.or_else(|| self.turns.get(&line).map(|turn| turn.thread));
        Ok(first.is_some_and(|first| first != thread))
    }

    /// Removes names that exceed the maximum length. The message is stored without them.
    fn named<'a>(&mut self, place: Place, mut said: Said<'a>, answered: Option<Uuid>) -> Said<'a> {
        let message = &mut said.message;
        if message.tool_result.is_some()
            && let Some(call) = answered.and_then(|request_id| self.calls.get(&request_id))
            // A message must not depend on the contents of other files.
            && call.file == place.file
        {
            message.tool_name = Some(call.tool_name.to_string());
        }
        let (model, tool) = (&mut message.model_used, &mut message.tool_name);
        let call = &mut message.tool_call_id;
        let talk = &mut said.talk;
        let (session, cwd) = (&mut talk.session, &mut talk.cwd);
        let (branch, agent) = (&mut talk.branch, &mut talk.agent);
        let too_long = [
            model.take_if(|name| name.len() > NAME_BYTES_MAX).is_some(),
            tool.take_if(|name| name.len() > NAME_BYTES_MAX).is_some(),
            call.take_if(|name| name.len() > NAME_BYTES_MAX).is_some(),
            session
                .take_if(|name| name.len() > NAME_BYTES_MAX)
                .is_some(),
            cwd.take_if(|name| name.len() > NAME_BYTES_MAX).is_some(),
            branch.take_if(|name| name.len() > NAME_BYTES_MAX).is_some(),
            agent.take_if(|name| name.len() > NAME_BYTES_MAX).is_some(),
        ];
        for _ in too_long.into_iter().filter(|too_long| *too_long) {
            self.report(place)
                .count_not_understood("(name too long)", 1);
        }
        said
    }

    fn begin_talk(
        &mut self,
        place: Place,
        mut talk: ConversationRef<'_>,
        at: &Timestamp,
    ) -> Result<()> {
        if let Some(kept) = &mut self.kept
            && !kept.talks.contains(&talk.id)
        {
            kept.talks.push(talk.id);
        }
        self.state(place).conversation = Some(talk.id);
        if !self.messages.talks.insert(talk.id) {
            return Ok(());
        }
        self.report(place).conversations += 1;
        let (workspace, project) = of_cwd(&mut talk);
        let format = self.state(place).format;
        let agent = talk.agent.take().map(Cow::into_owned);
        let conversation = Conversation {
            workspace,
            project,
            agent: agent.or_else(|| format.map(|format| format.as_str().to_owned())),
            parent_id: talk.parent,
            session_id: talk.session.map(Cow::into_owned),
            status: ConversationStatus::Completed,
            created_at: at.clone(),
            updated_at: at.clone(),
            ..Conversation::new(talk.id, Client::Cli)
        };
        self.note_agent(place, &conversation);
        self.push(place, conversation.into())
    }

    /// Adds a conversation as another log recorded it.
    pub(super) fn restore_talk(&mut self, place: Place, conversation: Conversation) -> Result<()> {
        if self.messages.talks.insert(conversation.id) {
            self.report(place).conversations += 1;
            self.push(place, conversation.into())?;
        }
        Ok(())
    }
}
