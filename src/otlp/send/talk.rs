//! The records of one conversation or thread in a batch, and the items that they become.

use std::collections::HashMap;

use uuid::Uuid;

use super::attributes::{Attributes, provider};
use super::batch::Batch;
use super::chat::Chat;
use super::ids::{self, TraceId};
use super::{Draft, INTERNAL, Items, log, received};
use crate::collections::{MessageQuery, Order, TurnQuery};
use crate::error::Result;
use crate::otlp::proto::{Link, Span};
use crate::record::{Conversation, ConversationTurn, Record, TurnKind};

/// Number of records in which the trace of a conversation that was received is looked for.
const FIRST_RECORDS: usize = 20;
/// The provider, if it is not known.
const UNKNOWN: &str = "unknown";

/// Where the first record of a conversation or thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    /// Not in the batch.
    Elsewhere,
    /// The conversation, at this place.
    Conversation(usize),
    /// A turn.
    Thread,
}

/// A conversation, or a thread without one.
pub(super) struct Talk<'a> {
    pub(super) batch: &'a Batch<'a>,
    pub(super) id: Uuid,
    pub(super) conversation: Option<Conversation>,
    pub(super) trace: TraceId,
    /// Where its first record is.
    root: Root,
    pub(super) chats: Vec<Chat>,
    /// The chat of each answer, of its parts and of their turns.
    pub(super) heads: HashMap<Uuid, usize>,
    /// What was said since the last answer.
    pending: Vec<usize>,
    /// The turns of messages.
    pub(super) attached: HashMap<usize, Vec<usize>>,
    /// Outcomes of calls.
    tools: Vec<usize>,
    /// Received spans that are sent on.
    received: Vec<Span>,
    /// Records that no span has.
    others: Vec<usize>,
}

impl<'a> Talk<'a> {
    pub(super) fn read(batch: &'a Batch<'a>, id: Uuid, places: &[usize]) -> Result<Talk<'a>> {
        let known = batch.store.get_conversation(id)?;
        let mut talk = Talk {
            batch,
            id,
            conversation: known.map(|(conversation, _)| conversation),
            trace: ids::trace(id),
            root: Root::Elsewhere,
            chats: Vec::new(),
            heads: HashMap::new(),
            pending: Vec::new(),
            attached: HashMap::new(),
            tools: Vec::new(),
            received: Vec::new(),
            others: Vec::new(),
        };
        talk.trace = talk.received_trace()?.unwrap_or(talk.trace);
        for at in places {
            talk.take(*at)?;
        }
        talk.find_root(places)?;
        Ok(talk)
    }

    pub(super) fn record(&self, at: usize) -> &'a Record {
        &self.batch.records[at]
    }

    fn take(&mut self, at: usize) -> Result<()> {
        match self.record(at) {
            Record::Conversation(it) if self.root == Root::Elsewhere => {
                self.conversation.get_or_insert_with(|| it.clone());
                self.root = Root::Conversation(at);
            }
            Record::Message(message) => match message.part_of {
                None if message.is_answer() => self.begin(message.id, at),
                None => self.pending.push(at),
                Some(head) => match self.heads.get(&head).copied() {
                    Some(chat) => {
                        self.heads.insert(message.id, chat);
                        self.chats[chat].parts.push(at);
                    }
                    None => self.others.push(at),
                },
            },
            Record::Turn(turn) if turn.created_at.is_valid => self.turn(turn, at)?,
            Record::CallRequested(req)
                if self.batch.ended.contains(&(req.request_id, &*req.call_id)) => {}
            Record::CallDone(_) => self.tools.push(at),
            _ => self.others.push(at),
        }
        Ok(())
    }

    fn begin(&mut self, id: Uuid, head: usize) {
        self.heads.insert(id, self.chats.len());
        self.chats.push(Chat {
            head,
            parts: Vec::new(),
            inputs: std::mem::take(&mut self.pending),
        });
    }

    fn turn(&mut self, turn: &ConversationTurn, at: usize) -> Result<()> {
        let messages = &self.batch.messages;
        let message = messages.get(&turn.id).or(messages.get(&turn.message_id));
        if let Some(message) = message {
            self.attached.entry(*message).or_default().push(at);
            return Ok(());
        }
        if self.conversation.is_some() {
            let store = self.batch.store;
            let has_message = store.get_message(turn.id)?.is_some()
                || store.get_message(turn.message_id)?.is_some();
            if has_message {
                self.others.push(at);
                return Ok(());
            }
        }
        if let Some(span) = received::span(turn, self.record(at))? {
            self.received.push(span);
            return Ok(());
        }
        match turn.kind {
            TurnKind::Assistant => self.begin(turn.id, at),
            _ => self.pending.push(at),
        }
        Ok(())
    }

    /// The trace that the first records were received with.
    fn received_trace(&self) -> Result<Option<TraceId>> {
        let store = self.batch.store;
        let query = MessageQuery {
            limit: FIRST_RECORDS,
            ..MessageQuery::default()
        };
        if self.conversation.is_some() {
            let messages = store.messages(self.id, &query)?.items;
            let mut received = messages.iter().filter_map(ids::of_message);
            if let Some(received) = received.next() {
                return Ok(Some(received.trace));
            }
        }
        let query = TurnQuery {
            thread_id: Some(self.id),
            limit: FIRST_RECORDS,
            ..TurnQuery::default()
        };
        let turns = store.turns(&query)?.items;
        let mut received = turns.iter().filter_map(ids::of_turn);
        Ok(received.next().map(|ids| ids.trace))
    }

    /// A thread without a conversation begins with its first turn. One that was received has the
    /// spans that it came with.
    fn find_root(&mut self, places: &[usize]) -> Result<()> {
        if self.conversation.is_some() {
            return Ok(());
        }
        let oldest = self.thread_turn(Order::OldestFirst)?.map(|turn| turn.id);
        let is_first = |at: &&usize| match self.record(**at) {
            Record::Turn(turn) => {
                Some(turn.id) == oldest && turn.created_at.is_valid && !received::is_span(turn)
            }
            _ => false,
        };
        if places.iter().any(|at| is_first(&at)) {
            self.root = Root::Thread;
        }
        Ok(())
    }

    fn thread_turn(&self, order: Order) -> Result<Option<ConversationTurn>> {
        let query = TurnQuery {
            thread_id: Some(self.id),
            order,
            limit: 1,
            ..TurnQuery::default()
        };
        Ok(self.batch.store.turns(&query)?.items.pop())
    }

    /// The provider of a model, or of what else is known.
    pub(super) fn provider(&self, model: Option<&str>, vendor: Option<&str>) -> String {
        let agent = self
            .conversation
            .as_ref()
            .and_then(|it| it.agent.as_deref());
        let mut known = [model, agent, vendor].into_iter().flatten();
        let known = known.find_map(provider).or(vendor);
        known.unwrap_or(UNKNOWN).to_owned()
    }

    /// The vendor of the tool calls of a turn, else of any of the batch.
    pub(super) fn vendor(&self, turn: Option<Uuid>) -> Option<&'a str> {
        let requests = self.batch.last_requests();
        let calls = || requests.iter().copied();
        let of_turn = calls().find(|req| Some(req.parent_id) == turn);
        // The same one each time, whatever the order of the table.
        let any = || calls().min_by_key(|req| (req.started_at.at, &req.call_id));
        let vendor = of_turn.or_else(any).map(|req| &*req.vendor);
        vendor.filter(|vendor| !vendor.is_empty())
    }

    /// Adds the items.
    pub(super) fn add_to(mut self, items: &mut Items) -> Result<()> {
        match self.root {
            Root::Elsewhere => {}
            Root::Conversation(at) => items.spans.push(self.root_span(Some(at))?),
            Root::Thread => items.spans.push(self.root_span(None)?),
        }
        items.spans.append(&mut self.received);
        for (nth, chat) in self.chats.iter().enumerate() {
            items.spans.push(chat.span(&self, nth == 0)?);
        }
        for at in &self.tools {
            match self.tool_span(*at)? {
                Some(span) => items.spans.push(span),
                None => items.logs.push(self.other(*at)?),
            }
        }
        for at in &self.pending {
            let mut places = vec![*at];
            places.extend(self.attached.get(at).into_iter().flatten());
            let records: Vec<&Record> = places.iter().map(|at| self.record(*at)).collect();
            let log = match self.record(*at) {
                Record::Message(message) => {
                    let provider = self.provider(message.model_used.as_deref(), self.vendor(None));
                    log::of_message(message, self.trace, &provider).log(&records)?
                }
                _ => self.other(*at)?,
            };
            items.logs.push(log);
        }
        for at in &self.others {
            items.logs.push(self.other(*at)?);
        }
        Ok(())
    }

    /// A record by itself.
    fn other(&self, at: usize) -> Result<crate::otlp::proto::LogRecord> {
        let record = self.record(at);
        let mut draft = log::Draft::new(self.trace, log::RECORD, record.at());
        let id = self.id.to_string();
        draft
            .attributes
            .text("decklog.kind", record.kind().stem())
            .text("gen_ai.conversation.id", id);
        let received = match record {
            Record::Turn(turn) => ids::of_turn(turn),
            Record::Message(message) => ids::of_message(message),
            Record::CallRequested(req) => {
                draft
                    .attributes
                    .text("gen_ai.tool.name", &*req.tool_name)
                    .text("gen_ai.tool.call.id", &*req.call_id);
                None
            }
            _ => None,
        };
        if let Some(received) = received {
            draft.trace = received.trace;
            draft.span = Some(received.span);
        }
        let attached = self.attached.get(&at).into_iter().flatten();
        let mut records = vec![record];
        records.extend(attached.map(|at| self.record(*at)));
        draft.log(&records)
    }

    /// The root span. `at` is the record of the conversation, if it has one.
    fn root_span(&self, at: Option<usize>) -> Result<Span> {
        let mut attributes = Attributes::default();
        let conversation = self.conversation.as_ref();
        let agent = conversation.map(|it| it.agent.as_deref().unwrap_or(it.client.as_str()));
        let model = self.chats.iter().find_map(|chat| chat.model(self));
        attributes
            .text("gen_ai.operation.name", "invoke_agent")
            .text(
                "gen_ai.provider.name",
                self.provider(model, self.vendor(None)),
            )
            .some_text("gen_ai.agent.name", agent)
            .text("gen_ai.conversation.id", self.id.to_string());
        if let Some(it) = conversation {
            attributes
                .some_text("session.id", it.session_id.as_deref())
                .some_text("user.id", it.user_id.as_deref())
                .some_text("decklog.title", it.title.as_deref());
        }
        let time = if let Some(it) = conversation {
            (it.created_at.at(), it.updated_at.at())
        } else {
            let at = |turn: Option<ConversationTurn>| turn.map_or(0, |it| it.created_at.at);
            let oldest = at(self.thread_turn(Order::OldestFirst)?);
            (oldest, at(self.thread_turn(Order::NewestFirst)?))
        };
        let error = conversation.and_then(|it| it.last_error.clone());
        if error.is_some() {
            attributes.text("error.type", "_OTHER");
        }
        let draft = Draft {
            trace: self.trace,
            id: ids::root(self.id),
            parent: None,
            name: agent.map_or_else(
                || "invoke_agent".to_owned(),
                |agent| format!("invoke_agent {agent}"),
            ),
            kind: INTERNAL,
            time,
            attributes: attributes.0,
            error,
        };
        let records: Vec<&Record> = at.into_iter().map(|at| self.record(at)).collect();
        let mut span = draft.span(&records)?;
        span.links = conversation.map_or(Ok(Vec::new()), |it| self.links(it))?;
        Ok(span)
    }

    /// The link of a sub-agent to the call that started it, or to the agent.
    fn links(&self, conversation: &Conversation) -> Result<Vec<Link>> {
        let Some(parent) = conversation.parent_id else {
            return Ok(Vec::new());
        };
        let call = conversation.parent_call_id.as_deref();
        let call = call.map(|call| self.call_of(parent, call)).transpose()?;
        let span = call.flatten().unwrap_or_else(|| ids::root(parent));
        Ok(vec![Link {
            trace_id: ids::trace(parent).to_vec(),
            span_id: span.to_vec(),
            ..Link::default()
        }])
    }
}
