//! A session as a tree: each prompt, below it the answers, and below those the tool calls.

use std::collections::HashMap;

use serde::{Serialize, Serializer};
use uuid::Uuid;

use super::page::{Order, ROWS_AT_A_TIME};
use super::received::{Received, is_received};
use super::turns::is_elsewhere;
use super::{CallQuery, ConversationQuery, MessageQuery, SpanStatus, TurnQuery};
use crate::error::Result;
use crate::record::{
    CallStatus, Conversation, ConversationMessage, ConversationStats, ConversationTurn,
    ConversationView, Role, ToolCall, ToolCallView, TurnKind,
};
use crate::store::Store;

/// The item of a node of a session's tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionItem {
    /// A conversation, with the totals of its messages.
    #[serde(serialize_with = "with_stats")]
    Conversation(Box<(Conversation, ConversationStats)>),
    /// A turn.
    Turn(ConversationTurn),
    /// A message, if the conversation has no turns.
    Message(Box<ConversationMessage>),
    /// A tool call.
    #[serde(serialize_with = "with_outcome")]
    Call(Box<ToolCall>),
}

fn with_stats<S: Serializer>(it: &Whole, to: S) -> std::result::Result<S::Ok, S::Error> {
    ConversationView::from(it).serialize(to)
}

fn with_outcome<S: Serializer>(call: &ToolCall, to: S) -> std::result::Result<S::Ok, S::Error> {
    ToolCallView::from(call).serialize(to)
}

/// A node of a session's tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionNode {
    /// The depth, from 0.
    pub depth: usize,
    /// The time of the item, or its start time, in epoch milliseconds.
    pub at: i64,
    /// For the turn of a received span or log record: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The status, for items that end, such as calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SpanStatus>,
    /// The duration, in milliseconds: of a call, the latency of its outcome; of a received span, as
    /// reported; of a prompt, up to the end of the last node under it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// For a turn: the model's reasoning before it, from its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The item of the node.
    #[serde(flatten)]
    pub item: SessionItem,
}

/// The tree of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionTree {
    /// The nodes in pre-order: each node is followed by the nodes under it, which are deeper.
    pub nodes: Vec<SessionNode>,
}

impl Store {
    /// The tree of a conversation or of a thread of turns; `None` if there is neither. If both
    /// exist, they have the same id.
    ///
    /// A turn is placed under its prompt or under the nearest received span, which are found by the
    /// chain of parents; a tool call is placed under its turn. Tool outputs are left out: they are
    /// the outcomes of the calls. Turns whose messages belong to another conversation, such as that
    /// of a sub-agent, are in the tree of that conversation. The tree of a conversation without
    /// turns is built from its messages. Conversations whose `parent_id` is this conversation are
    /// placed under the call that started them, or at the end. Each of them is one node: request
    /// its tree by its own id.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # use decklog::tree::SessionItem;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Cli);
    /// let id = conversation.id;
    /// store.record(conversation)?;
    /// store.record(ConversationMessage::new(id, Role::User, "What is 1 + 1?"))?;
    /// store.record(ConversationMessage::new(id, Role::Assistant, "2"))?;
    /// let mut drawn = String::new();
    /// for node in store.session_tree(id)?.expect("recorded above").nodes {
    ///     let text = match node.item {
    ///         SessionItem::Conversation(it) => it.0.client.to_string(),
    ///         SessionItem::Turn(turn) => turn.content,
    ///         SessionItem::Message(message) => message.content,
    ///         SessionItem::Call(call) => call.0.tool_name,
    ///     };
    ///     drawn += &format!("{}{text}\n", "  ".repeat(node.depth));
    /// }
    /// assert_eq!(drawn, "cli\n  What is 1 + 1?\n    2\n");
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn session_tree(&self, id: Uuid) -> Result<Option<SessionTree>> {
        let conversation = self.get_conversation(id)?;
        let mut tree = of_turns(self, id)?;
        if tree.is_empty() {
            tree = of_messages(self, id)?;
        }
        if conversation.is_none() && tree.is_empty() {
            return Ok(None);
        }
        let agents = ConversationQuery {
            parent_id: Some(id),
            order: Order::OldestFirst,
            limit: usize::MAX,
            ..ConversationQuery::default()
        };
        let mut tree = with_agents(tree, self.conversations(&agents)?.items);
        let mut nodes = Vec::with_capacity(tree.len() + 1);
        if let Some(conversation) = conversation {
            let mut root = of_conversation(conversation, 0);
            let ended = tree.iter().map(SessionNode::ends).max();
            root.duration_ms = ended.map(|ended| ended.saturating_sub(root.at));
            nodes.push(root);
            for node in &mut tree {
                node.depth += 1;
            }
        }
        nodes.append(&mut tree);
        Ok(Some(SessionTree { nodes }))
    }
}

type Whole = (Conversation, ConversationStats);

fn of_conversation(conversation: Whole, depth: usize) -> SessionNode {
    SessionNode::new(SessionItem::Conversation(Box::new(conversation)), depth)
}

/// Inserts the conversations of sub-agents, each below the call that started it.
fn with_agents(tree: Vec<SessionNode>, mut agents: Vec<Whole>) -> Vec<SessionNode> {
    let mut nodes = Vec::with_capacity(tree.len() + agents.len());
    for node in tree {
        let call = match &node.item {
            SessionItem::Call(call) => Some(call.0.call_id.clone()),
            SessionItem::Message(message) if message.role == Role::Assistant => {
                message.tool_call_id.clone()
            }
            _ => None,
        };
        let depth = node.depth + 1;
        nodes.push(node);
        let Some(call) = call else { continue };
        let is_its = |(it, _): &mut Whole| it.parent_call_id.as_ref() == Some(&call);
        let its = agents.extract_if(.., is_its);
        nodes.extend(its.map(|agent| of_conversation(agent, depth)));
    }
    nodes.extend(agents.into_iter().map(|agent| of_conversation(agent, 0)));
    nodes
}

impl SessionNode {
    fn new(item: SessionItem, depth: usize) -> SessionNode {
        let (at, duration_ms, status) = match &item {
            SessionItem::Conversation(it) => (it.0.created_at.at(), None, None),
            SessionItem::Turn(turn) => (turn.created_at.at, None, None),
            SessionItem::Message(message) => {
                let status = match message.role {
                    _ if message.error.is_some() => Some(SpanStatus::Failed),
                    Role::Tool if message.error_type.is_some() => Some(SpanStatus::Failed),
                    Role::Assistant => Some(SpanStatus::Completed),
                    _ => None,
                };
                (message.timestamp.at(), message.latency_ms, status)
            }
            SessionItem::Call(call) => {
                let (req, done) = &**call;
                let status = match CallStatus::of(done.as_ref()) {
                    CallStatus::Requested => SpanStatus::Running,
                    CallStatus::Completed => SpanStatus::Completed,
                    CallStatus::Failed => SpanStatus::Failed,
                };
                let latency_ms = done.as_ref().map(|done| done.latency_ms);
                (req.started_at.at, latency_ms, Some(status))
            }
        };
        SessionNode {
            item,
            depth,
            at,
            duration_ms,
            name: None,
            status,
            reasoning: None,
        }
    }

    fn ends(&self) -> i64 {
        self.at.saturating_add(self.duration_ms.unwrap_or(0))
    }
}

fn of_turns(store: &Store, thread_id: Uuid) -> Result<Vec<SessionNode>> {
    let query = TurnQuery {
        thread_id: Some(thread_id),
        limit: usize::MAX,
        ..TurnQuery::default()
    };
    let mut turns = store.turns(&query)?.items;
    // Sub-agents share the thread but have conversations, and so trees, of their own.
    let mut are_others = Vec::with_capacity(turns.len());
    for some in turns.chunks(ROWS_AT_A_TIME) {
        are_others.extend(store.inner().with_snapshot(|view| {
            let is_other = |turn: &ConversationTurn| is_elsewhere(view, turn, thread_id);
            Ok(some.iter().map(is_other).collect::<Vec<_>>())
        })?);
    }
    let mut are_others = are_others.into_iter();
    // A received span is in the tree of its thread, wherever the answer that it reports is.
    turns.retain(|turn| are_others.next() != Some(true) || is_received(turn));
    let mut received: Vec<_> = turns.iter().map(Received::of).collect();
    let in_order = in_preorder(&origins(&turns, |place| received[place].is_some()));
    let mut turns: Vec<_> = turns.into_iter().map(Some).collect();
    let mut nodes = Vec::with_capacity(turns.len());
    for (place, depth) in in_order {
        let Some(turn) = turns[place].take() else {
            continue;
        };
        let id = turn.id;
        if depth == 0 || turn.kind != TurnKind::Tool {
            let received = received[place].take();
            // The reasoning of a received span is with its answer.
            let reasoning = if depth == 0 || received.is_some() {
                None
            } else {
                reasoning_of(store, &turn)?
            };
            let mut node = SessionNode::new(SessionItem::Turn(turn), depth);
            node.reasoning = reasoning;
            if let Some(received) = received {
                node.name = Some(received.name);
                node.duration_ms = received.duration_ms;
                node.status = received.status;
            }
            nodes.push(node);
        }
        nodes.extend(calls_of(store, id, depth + 1)?);
    }
    Ok(with_durations(nodes))
}

/// For each turn, the index of the turn under which it is placed. For a received span this is its
/// parent. For any other turn it is the nearest received span in its chain of parents, otherwise the
/// prompt at the end of the chain, which is placed under itself.
///
/// Turns are sorted by their recorded times, and clocks may differ: a parent may come after its
/// child.
fn origins(turns: &[ConversationTurn], is_span: impl Fn(usize) -> bool) -> Vec<usize> {
    let places = turns
        .iter()
        .enumerate()
        .map(|(place, turn)| (turn.id, place));
    let places: HashMap<Uuid, usize> = places.collect();
    let mut origins: Vec<Option<usize>> = vec![None; turns.len()];
    let mut is_on_path = vec![false; turns.len()];
    let mut path = Vec::new();
    for start in 0..turns.len() {
        let mut place = start;
        let origin = loop {
            if let Some(known) = origins[place] {
                break known;
            }
            // Only a forged log has a cycle of parents.
            if is_on_path[place] {
                break place;
            }
            is_on_path[place] = true;
            path.push(place);
            let turn = &turns[place];
            let parent = turn.parent_id.and_then(|parent| places.get(&parent));
            match parent {
                // The turns of tool results are not shown.
                Some(above)
                    if is_span(*above)
                        || is_span(place) && turns[*above].kind != TurnKind::Tool =>
                {
                    break *above;
                }
                Some(parent) if turn.kind != TurnKind::User => place = *parent,
                _ => break place,
            }
        };
        for place in path.drain(..) {
            origins[place] = Some(origin);
            is_on_path[place] = false;
        }
    }
    origins.into_iter().flatten().collect()
}

/// The indexes of a tree's nodes and their depths: each node is followed by those under it, in the
/// order of their indexes. `origins` has the index of the node above each node.
fn in_preorder(origins: &[usize]) -> Vec<(usize, usize)> {
    let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
    for (place, origin) in origins.iter().enumerate() {
        if place != *origin {
            below.entry(*origin).or_default().push(place);
        }
    }
    let is_root = |place: &usize| origins[*place] == *place;
    // Only a forged log has nodes that no root leads to. They come last.
    let roots = (0..origins.len()).filter(is_root);
    let others = (0..origins.len()).filter(|place| !is_root(place));
    let mut in_order = Vec::with_capacity(origins.len());
    let mut is_placed = vec![false; origins.len()];
    let mut next = Vec::new();
    for root in roots.chain(others) {
        next.push((root, 0));
        while let Some((place, depth)) = next.pop() {
            if std::mem::replace(&mut is_placed[place], true) {
                continue;
            }
            in_order.push((place, depth));
            let below = below.remove(&place).unwrap_or_default();
            next.extend(below.into_iter().rev().map(|it| (it, depth + 1)));
        }
    }
    in_order
}

/// The model's reasoning before a turn, taken from the message of the turn's line.
fn reasoning_of(store: &Store, turn: &ConversationTurn) -> Result<Option<String>> {
    if !matches!(turn.kind, TurnKind::Assistant | TurnKind::SysInfo) {
        return Ok(None);
    }
    let message = match store.get_message(turn.id)? {
        Some(message) => Some(message),
        None => store.get_message(turn.message_id)?,
    };
    Ok(message.and_then(|message| message.reasoning))
}

fn calls_of(store: &Store, turn: Uuid, depth: usize) -> Result<Vec<SessionNode>> {
    let query = CallQuery {
        parent_id: Some(turn),
        order: Order::OldestFirst,
        limit: usize::MAX,
        ..CallQuery::default()
    };
    let calls = store.tool_calls(&query)?.items.into_iter();
    let node = |call| SessionNode::new(SessionItem::Call(Box::new(call)), depth);
    Ok(calls.map(node).collect())
}

fn of_messages(store: &Store, conversation_id: Uuid) -> Result<Vec<SessionNode>> {
    let query = MessageQuery {
        limit: usize::MAX,
        ..MessageQuery::default()
    };
    let mut nodes: Vec<SessionNode> = Vec::new();
    for message in store.messages(conversation_id, &query)?.items {
        let is_below = message.role != Role::User && !nodes.is_empty();
        let item = SessionItem::Message(Box::new(message));
        nodes.push(SessionNode::new(item, usize::from(is_below)));
    }
    Ok(with_durations(nodes))
}

/// Sets the durations of prompts: each extends to the end of the last node below it.
fn with_durations(mut nodes: Vec<SessionNode>) -> Vec<SessionNode> {
    for prompt in nodes.chunk_by_mut(|_, next| next.depth > 0) {
        if let [prompt, below @ ..] = prompt
            && prompt.duration_ms.is_none()
        {
            let ended = below.iter().map(SessionNode::ends).max();
            prompt.duration_ms = ended.map(|ended| ended.saturating_sub(prompt.at).max(0));
        }
    }
    nodes
}
