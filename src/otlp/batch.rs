//! Items become records. What the log already has decides only whether an item is new: ids are
//! derived from the items, so items may arrive in any order and more than once.

mod calls;
mod inference;
mod repeats;
mod reports;

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use uuid::Uuid;

pub(super) use inference::ids;

use super::item::Item;
use super::mapping::Operation;
use crate::collections::{
    GROUPS, IfKnown, TurnQuery, group, has_conversations, has_ids, may_have_turns_below,
};
use crate::error::{Error, Result};
use crate::record::{
    Client, Conversation, ConversationMessage, ConversationTurn, Kind, NAME_BYTES_MAX, Record,
    Timestamp, ToolCall, TurnKind, Validity,
};
use crate::store::{Snapshot, Store, Tombstones};

/// The records of the items of a request, and what is known about them.
pub(super) struct Batch<'a> {
    store: &'a Store,
    tombstones: Tombstones,
    /// What the log has of the ids that the items may add.
    logged: Logged,
    records: Groups,
    /// Where the turns and answers of this batch are.
    turns: HashMap<Uuid, Position>,
    answers: HashMap<Uuid, Position>,
    /// The answers of this batch that are parts of others.
    parts: HashMap<Uuid, Vec<Uuid>>,
    /// Messages of this batch, with the trace that first has them.
    messages: HashMap<Uuid, Option<Uuid>>,
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

/// Records in the order in which they are written, each with the number of its item.
pub(super) type Groups = [Vec<(usize, Record, IfKnown)>; GROUPS];

/// The group of a record, and its number there.
type Position = (usize, usize);

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
    conversations: HashSet<Uuid>,
    /// Items that have turns below them.
    above: HashSet<Uuid>,
}

/// The records of a batch, ready to be written.
pub(super) struct Built {
    pub(super) records: Groups,
    /// Changes of conversations that the log has.
    pub(super) changes: Vec<(Uuid, Talk)>,
    /// Number of items without a place of their own.
    pub(super) kept: usize,
}

impl<'a> Batch<'a> {
    /// Looks up at once what the log has of these items.
    pub(super) fn new(store: &'a Store, items: &[(usize, Box<Item>)]) -> Result<Batch<'a>> {
        let mut sessions = HashMap::new();
        for (_, item) in items {
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
            logged: Logged::of(store, items)?,
            records: [const { Vec::new() }; GROUPS],
            turns: HashMap::new(),
            answers: HashMap::new(),
            parts: HashMap::new(),
            messages: HashMap::new(),
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
        if !self.logged.above.contains(&item.key) {
            return Ok(Some(thread));
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
        self.name_session(item);
        Ok(())
    }

    fn put_turn(&mut self, at: usize, turn: ConversationTurn) {
        let id = turn.id;
        let place = self.push(at, turn.into(), IfKnown::Compare);
        self.turns.insert(id, place);
    }

    /// The turn of this batch with this id.
    fn turn_here(&self, id: Uuid) -> Option<&ConversationTurn> {
        match self.record(*self.turns.get(&id)?)? {
            Record::Turn(turn) => Some(turn),
            _ => None,
        }
    }

    /// The turn with this id, in this batch or in the log.
    fn known_turn(&self, id: Uuid) -> Result<Option<Cow<'_, ConversationTurn>>> {
        if let Some(turn) = self.turn_here(id) {
            return Ok(Some(Cow::Borrowed(turn)));
        }
        if self.logged.turns.contains(&id) {
            return Ok(self.store.get_turn(id)?.map(Cow::Owned));
        }
        Ok(None)
    }

    /// The answer with this id, in this batch or in the log.
    fn known_answer(&self, id: Uuid) -> Result<Option<Cow<'_, ConversationMessage>>> {
        let here = self.answers.get(&id).and_then(|place| self.record(*place));
        match here {
            Some(Record::Message(message)) => Ok(Some(Cow::Borrowed(message))),
            _ => Ok(self.store.get_message(id)?.map(Cow::Owned)),
        }
    }

    /// Whether a message was recorded, in this batch or before.
    fn has_message(&self, id: Uuid) -> bool {
        self.messages.contains_key(&id) || self.logged.messages.contains(&id)
    }

    /// Looks up which of these messages the log has.
    fn look_up(&mut self, messages: &[Uuid]) -> Result<()> {
        let inner = self.store.inner();
        let found = inner.with_snapshot(|view| Ok(known(view, Kind::Messages, messages)))?;
        self.logged.messages.extend(found);
        Ok(())
    }

    fn push(&mut self, at: usize, record: Record, if_known: IfKnown) -> Position {
        let group = group(&record);
        let records = &mut self.records[group];
        records.push((at, record, if_known));
        (group, records.len() - 1)
    }

    fn record(&self, (group, at): Position) -> Option<&Record> {
        let (_, record, _) = self.records.get(group)?.get(at)?;
        Some(record)
    }

    fn put_message(&mut self, at: usize, message: ConversationMessage, trace: Option<Uuid>) {
        let (id, is_answer, part_of) = (message.id, message.is_answer(), message.part_of);
        self.messages.insert(id, trace);
        let place = self.push(at, message.into(), IfKnown::Skip);
        if is_answer {
            self.answers.insert(id, place);
        }
        if let Some(of) = part_of {
            self.parts.entry(of).or_default().push(id);
        }
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
                self.logged.conversations.contains(&id)
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
        if !self.logged.turns.contains(&parent) {
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
    fn name_session(&mut self, item: &Item) {
        let (Some(trace), Some((id, name))) = (item.trace, &item.conversation) else {
            return;
        };
        if trace == *id {
            return;
        }
        if let Some(talk) = self.talk_of_known(trace) {
            talk.session.get_or_insert_with(|| name.clone());
        }
    }

    /// What this batch says about a conversation that it or the log has.
    fn talk_of_known(&mut self, id: Uuid) -> Option<&mut Talk> {
        match self.conversations.entry(id) {
            Entry::Occupied(entry) => Some(entry.into_mut()),
            Entry::Vacant(entry) if self.logged.conversations.contains(&id) => {
                Some(entry.insert(Talk::default()))
            }
            Entry::Vacant(_) => None,
        }
    }

    /// Notes what a run of an agent says about its conversation, if the conversation exists.
    fn note_agent(&mut self, item: &Item) {
        if let Some(talk) = item.thread().and_then(|thread| self.talk_of_known(thread)) {
            talk.fill(item.talk());
        }
    }

    pub(super) fn build(mut self) -> Built {
        for (_, record, _) in self.records.iter_mut().flatten() {
            // Later items of the batch may know more. What is left changes the log's conversations.
            if let Record::Conversation(conversation) = record
                && let Some(talk) = self.conversations.remove(&conversation.id)
            {
                talk.apply(conversation);
            }
        }
        self.conversations
            .retain(|_, talk| *talk != Talk::default());
        Built {
            records: self.records,
            changes: self.conversations.into_iter().collect(),
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

impl Logged {
    /// Looks up at once what the log has of these items.
    fn of(store: &Store, items: &[(usize, Box<Item>)]) -> Result<Logged> {
        let mut turns = Vec::with_capacity(2 * items.len());
        let mut messages = Vec::with_capacity(2 * items.len());
        let mut conversations = HashSet::new();
        for (_, item) in items {
            turns.push(item.key);
            turns.extend(item.parent_turn());
            messages.push(inference::response_id(item));
            messages.extend(&item.ids);
            conversations.insert(item.talk_id());
            conversations.extend(item.trace);
        }
        store.inner().with_snapshot(|view| {
            let keys = items.iter().map(|(_, item)| item.key);
            Ok(Logged {
                turns: known(view, Kind::ConversationTurns, &turns),
                messages: known(view, Kind::Messages, &messages),
                conversations: has_conversations(view, &conversations),
                above: keys.filter(|id| may_have_turns_below(view, *id)).collect(),
            })
        })
    }
}

/// The ids of records that the log has.
fn known(view: &Snapshot<'_>, kind: Kind, ids: &[Uuid]) -> HashSet<Uuid> {
    let ids = ids.iter().copied().zip(has_ids(view, kind, ids));
    ids.filter(|(_, has)| *has).map(|(id, _)| id).collect()
}

/// An error of the log, which concerns all items.
pub(super) fn is_fatal(error: &Error) -> bool {
    !error.kind().is_judgement()
}
