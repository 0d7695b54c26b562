//! Items become records. What the log already has decides only whether an item is new: ids are
//! derived from the items, so items may arrive in any order and more than once.

mod calls;
mod inference;
mod repeats;
mod reports;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::item::Item;
use super::mapping::Operation;
use crate::collections::{GROUPS, IfKnown, TurnQuery, group, has_ids};
use crate::error::{Error, Result};
use crate::record::{
    Client, Conversation, ConversationMessage, ConversationTurn, Kind, NAME_BYTES_MAX, Record,
    Timestamp, ToolCall, TurnKind, Validity,
};
use crate::store::{Store, Tombstones};

/// The records of the items of a request, and what is known about them.
pub(super) struct Batch<'a> {
    store: &'a Store,
    tombstones: Tombstones,
    /// What the log has of the ids that the items may add.
    logged: Logged,
    records: [Vec<(usize, Record, IfKnown)>; GROUPS],
    turns: HashMap<Uuid, ConversationTurn>,
    /// Messages of this batch, with the trace that first has them.
    messages: HashMap<Uuid, Option<Uuid>>,
    /// The answers of this batch.
    written: HashMap<Uuid, ConversationMessage>,
    calls: HashMap<(Uuid, String), ToolCall>,
    conversations: HashMap<Uuid, Talk>,
    /// The requests to models in this batch: their threads and when they began.
    requests: Vec<(Uuid, i64)>,
    /// The threads of the spans under a turn.
    threads: HashMap<Uuid, Uuid>,
    /// The items that describe a request which another one describes better.
    repeated: HashSet<usize>,
    /// The conversations that items name, by the trace.
    sessions: HashMap<Uuid, String>,
    kept: usize,
}

/// What is known about a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Talk {
    pub(super) session: Option<String>,
    pub(super) user: Option<String>,
    pub(super) agent: Option<String>,
}

/// Ids that the log has.
#[derive(Debug, Default)]
struct Logged {
    turns: HashSet<Uuid>,
    messages: HashSet<Uuid>,
}

/// The records of a batch, ready to be written.
pub(super) struct Built {
    /// Each with the number of its item.
    pub(super) records: Vec<(usize, Record, IfKnown)>,
    /// Changes of conversations that the log has.
    pub(super) changes: Vec<(Uuid, Talk)>,
    /// Number of items without a place of their own.
    pub(super) kept: usize,
}

impl<'a> Batch<'a> {
    /// Looks up at once what the log has of these items.
    pub(super) fn new(store: &'a Store, items: &[(usize, Box<Item>)]) -> Result<Batch<'a>> {
        let mut turns = Vec::with_capacity(items.len());
        let mut messages = Vec::with_capacity(items.len());
        let mut sessions = HashMap::new();
        for (_, item) in items {
            turns.push(item.key);
            turns.extend(item.parent_turn());
            messages.push(inference::response_id(item));
            if item.has_messages() {
                messages.extend(inference::ids(item));
            }
            if let (Some(trace), Some((_, name))) = (item.trace, &item.conversation) {
                sessions.entry(trace).or_insert_with(|| name.clone());
            }
        }
        Ok(Batch {
            store,
            repeated: repeats::repeated(items),
            requests: requests(items)
                .filter_map(|it| Some((it.thread()?, it.start)))
                .collect(),
            threads: threads_below(items),
            tombstones: store.inner().tombstones()?,
            logged: Logged {
                turns: known(store, Kind::ConversationTurns, &turns)?,
                messages: known(store, Kind::Messages, &messages)?,
            },
            records: [const { Vec::new() }; GROUPS],
            turns: HashMap::new(),
            messages: HashMap::new(),
            written: HashMap::new(),
            calls: HashMap::new(),
            conversations: HashMap::new(),
            sessions,
            kept: 0,
        })
    }

    /// Adds the records of an item. `at` is its number. Returns the reason if it is rejected.
    pub(super) fn add(&mut self, at: usize, item: Item) -> Result<Option<String>> {
        let is_erased = |id: Uuid| self.tombstones.of(id).is_some();
        if item.thread().is_some_and(is_erased) || item.trace.is_some_and(is_erased) {
            return Ok(Some("its conversation was erased".to_owned()));
        }
        match self.add_item(at, item) {
            Ok(()) => Ok(None),
            Err(error) if is_fatal(&error) => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    fn add_item(&mut self, at: usize, mut item: Item) -> Result<()> {
        if self.is_there(&mut item)? {
            self.kept += usize::from(item.operation == Operation::Other);
            return Ok(());
        }
        match item.operation {
            Operation::Inference if item.has_only_begun() => self.plain(at, item),
            Operation::Inference if self.is_repeated(at, &item)? => self.plain(at, item),
            Operation::Inference => self.inference(at, item),
            Operation::Embeddings if item.usage.is_any() => self.inference(at, item),
            Operation::Agent if item.has_messages() && self.is_alone(&item)? => {
                self.inference(at, item)
            }
            Operation::Tool => self.tool(at, item),
            _ => self.plain(at, item),
        }
    }

    /// Whether no request to a model was made within the run of an agent, so that its own messages
    /// are the only ones.
    fn is_alone(&self, item: &Item) -> Result<bool> {
        if item.is_client {
            return Ok(true);
        }
        let threads = [item.thread(), item.trace];
        let end = item.end.unwrap_or(i64::MAX);
        let is_within = |(thread, at): &(Uuid, i64)| {
            threads.contains(&Some(*thread)) && (item.start..=end).contains(at)
        };
        if self.requests.iter().any(is_within) {
            return Ok(false);
        }
        for thread in threads.into_iter().flatten() {
            let query = TurnQuery {
                thread_id: Some(thread),
                kind: Some(TurnKind::Assistant),
                since: Some(item.start),
                until: Some(end.saturating_add(1)),
                limit: 2,
                ..TurnQuery::default()
            };
            let found = self.store.turns(&query)?.items;
            if found.iter().any(|turn| turn.id != item.key) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The thread of a span that is not a request: the one of the spans under it, so that a trace
    /// whose requests do not name the conversation stays together.
    fn thread(&self, item: &Item) -> Result<Option<Uuid>> {
        let (Some(thread), Some(trace)) = (item.thread(), item.trace) else {
            return Ok(item.thread());
        };
        if item.is_event || thread == trace || item.operation == Operation::Inference {
            return Ok(Some(thread));
        }
        if let Some(below) = self.threads.get(&item.key) {
            return Ok(Some(*below));
        }
        let query = TurnQuery {
            parent_id: Some(item.key),
            limit: 1,
            ..TurnQuery::default()
        };
        let below = self.store.turns(&query)?.items.pop();
        Ok(below.and_then(|turn| turn.thread_id).or(Some(thread)))
    }

    /// An item without a place of its own: a turn with what is known about it.
    fn plain(&mut self, at: usize, mut item: Item) -> Result<()> {
        self.kept += usize::from(item.operation == Operation::Other);
        if item.operation == Operation::Agent {
            self.note_agent(&item);
            self.keep_new_messages(&mut item);
        }
        item.keep_unused();
        let content = item.kept();
        self.turn(at, &item, TurnKind::SysInfo, content, item.key)
    }

    /// Adds the turn of an item, with the message that it belongs to.
    fn turn(
        &mut self,
        at: usize,
        item: &Item,
        kind: TurnKind,
        content: String,
        message_id: Uuid,
    ) -> Result<()> {
        self.put_turn(
            at,
            ConversationTurn {
                id: item.key,
                parent_id: item.parent_turn(),
                message_id,
                kind,
                content,
                created_at: Validity::at(item.start),
                thread_id: self.thread(item)?,
            },
        );
        self.name_session(item)
    }

    fn put_turn(&mut self, at: usize, turn: ConversationTurn) {
        self.turns.insert(turn.id, turn.clone());
        self.push(at, turn.into(), IfKnown::Compare);
    }

    /// The turn with this id, in this batch or in the log.
    fn known_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>> {
        if let Some(turn) = self.turns.get(&id) {
            return Ok(Some(turn.clone()));
        }
        if self.logged.turns.contains(&id) {
            return self.store.get_turn(id);
        }
        Ok(None)
    }

    /// Whether a message was recorded, in this batch or before.
    fn has_message(&self, id: Uuid) -> bool {
        self.messages.contains_key(&id) || self.logged.messages.contains(&id)
    }

    /// Looks up which of these messages the log has.
    fn look_up(&mut self, messages: &[Uuid]) -> Result<()> {
        let found = known(self.store, Kind::Messages, messages)?;
        self.logged.messages.extend(found);
        Ok(())
    }

    fn push(&mut self, at: usize, record: Record, if_known: IfKnown) {
        self.records[group(&record)].push((at, record, if_known));
    }

    fn put_message(&mut self, at: usize, message: ConversationMessage, trace: Option<Uuid>) {
        self.messages.insert(message.id, trace);
        if message.is_answer() {
            self.written.insert(message.id, message.clone());
        }
        self.push(at, message.into(), IfKnown::Skip);
    }

    /// Makes sure that a conversation exists, and notes what an item says about it.
    fn begin(&mut self, at: usize, id: Uuid, item: &Item) -> Result<()> {
        let mut told = item.talk();
        if told.session.is_none() {
            told.session = self.session_of(item)?;
        }
        let is_known = match self.conversations.entry(id) {
            Entry::Occupied(mut entry) => {
                entry.get_mut().fill(told.clone());
                true
            }
            Entry::Vacant(entry) => {
                entry.insert(told.clone());
                self.store.has_conversation(id)?
            }
        };
        if is_known {
            return Ok(());
        }
        let mut conversation = Conversation::new(id, Client::Api);
        let created_at = Timestamp::from_ms(item.start)?;
        conversation.updated_at = created_at.clone();
        conversation.created_at = created_at;
        told.apply(&mut conversation);
        self.push(at, conversation.into(), IfKnown::Skip);
        Ok(())
    }

    /// The name of the conversation to which the trace of an item belongs, if another item of the
    /// trace says so.
    fn session_of(&self, item: &Item) -> Result<Option<String>> {
        let Some(trace) = item.trace else {
            return Ok(None);
        };
        if let Some(name) = self.sessions.get(&trace) {
            return Ok(Some(name.clone()));
        }
        let Some(parent) = item.parent_turn() else {
            return Ok(None);
        };
        if !known(self.store, Kind::ConversationTurns, &[parent])?.contains(&parent) {
            return Ok(None);
        }
        let thread = self.store.get_turn(parent)?.and_then(|turn| turn.thread_id);
        let Some(thread) = thread.filter(|thread| *thread != trace) else {
            return Ok(None);
        };
        let found = self.store.get_conversation(thread)?;
        Ok(found.and_then(|(conversation, _)| conversation.session_id))
    }

    /// If an item names a conversation, the conversation of its trace gets the name as its session.
    fn name_session(&mut self, item: &Item) -> Result<()> {
        let (Some(trace), Some((id, name))) = (item.trace, &item.conversation) else {
            return Ok(());
        };
        if trace == *id {
            return Ok(());
        }
        if !self.conversations.contains_key(&trace) {
            if !self.store.has_conversation(trace)? {
                return Ok(());
            }
            self.conversations.insert(trace, Talk::default());
        }
        if let Some(talk) = self.conversations.get_mut(&trace) {
            let session = Some(name.clone());
            talk.fill(Talk {
                session,
                ..Talk::default()
            });
        }
        Ok(())
    }

    /// Notes what a run of an agent says about its conversation, if the conversation exists.
    fn note_agent(&mut self, item: &Item) {
        let Some(thread) = item.thread() else {
            return;
        };
        if let Some(talk) = self.conversations.get_mut(&thread) {
            talk.fill(item.talk());
        } else if self.store.has_conversation(thread).unwrap_or(false) {
            self.conversations.insert(thread, item.talk());
        }
    }

    pub(super) fn build(self) -> Built {
        let records: Vec<_> = self.records.into_iter().flatten().collect();
        let begun: HashSet<Uuid> = records
            .iter()
            .filter_map(|(_, record, _)| match record {
                Record::Conversation(conversation) => Some(conversation.id),
                _ => None,
            })
            .collect();
        let mut records = records;
        for (_, record, _) in &mut records {
            // Later items of the batch may know more.
            if let Record::Conversation(conversation) = record
                && let Some(talk) = self.conversations.get(&conversation.id)
            {
                talk.apply(conversation);
            }
        }
        let changes = self.conversations.into_iter();
        let changes = changes.filter(|(id, talk)| !begun.contains(id) && *talk != Talk::default());
        Built {
            records,
            changes: changes.collect(),
            kept: self.kept,
        }
    }
}

impl Talk {
    /// Adds what is not known yet.
    fn fill(&mut self, later: Talk) {
        let set = |field: &mut Option<String>, value| *field = field.take().or(value);
        set(&mut self.session, later.session);
        set(&mut self.user, later.user);
        set(&mut self.agent, later.agent);
    }

    /// Sets what a conversation lacks. Names that are too long are left out.
    pub(super) fn apply(&self, conversation: &mut Conversation) {
        let set = |field: &mut Option<String>, value: &Option<String>| {
            if field.is_none() && value.as_ref().is_some_and(|it| it.len() <= NAME_BYTES_MAX) {
                field.clone_from(value);
            }
        };
        set(&mut conversation.session_id, &self.session);
        set(&mut conversation.user_id, &self.user);
        set(&mut conversation.agent, &self.agent);
    }
}

/// The requests to models.
fn requests(items: &[(usize, Box<Item>)]) -> impl Iterator<Item = &Item> {
    let items = items.iter().map(|(_, item)| &**item);
    items.filter(|item| item.operation == Operation::Inference)
}

/// The threads of the spans under each span. Under a span that names no conversation, they are
/// those of the spans under it.
fn threads_below(items: &[(usize, Box<Item>)]) -> HashMap<Uuid, Uuid> {
    let mut below = HashMap::new();
    let spans = items
        .iter()
        .map(|(_, item)| &**item)
        .filter(|it| !it.is_event);
    // What ends first is deeper, and requests decide.
    let mut spans: Vec<&Item> = spans.collect();
    spans.sort_by_key(|item| (item.operation != Operation::Inference, item.end));
    for item in spans {
        let own = match item.operation {
            Operation::Inference => item.thread(),
            _ => below.get(&item.key).copied(),
        };
        if let (Some(above), Some(own)) = (item.parent_turn(), own) {
            below.entry(above).or_insert(own);
        }
    }
    below
}

/// The ids of records that the log has.
fn known(store: &Store, kind: Kind, ids: &[Uuid]) -> Result<HashSet<Uuid>> {
    let has = store
        .inner()
        .with_snapshot(|view| Ok(has_ids(view, kind, ids)))?;
    let ids = ids.iter().copied().zip(has);
    Ok(ids.filter(|(_, has)| *has).map(|(id, _)| id).collect())
}

/// An error of the log, which concerns all items.
pub(super) fn is_fatal(error: &Error) -> bool {
    !error.kind().is_judgement()
}
