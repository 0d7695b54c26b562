//! A session as a tree: each prompt, below it the answers, and below those the tool calls.

use std::collections::HashMap;

use serde::{Serialize, Serializer};
use uuid::Uuid;

use super::page::{Order, ROWS_AT_A_TIME};
use super::{
    CallQuery, ConversationQuery, MessageQuery, SpanStatus, TurnQuery, calls, conversations,
    messages, turns,
};
use crate::error::Result;
use crate::record::{
    Conversation, ConversationMessage, ConversationStats, ConversationTurn, ConversationView, Role,
    ToolCall, ToolCallView, ToolStatus, TurnKind,
};
use crate::store::{Inner, Store};

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
    /// The status, for items that end, such as calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SpanStatus>,
    /// The duration, in milliseconds: of a call, the latency of its outcome; of a prompt, up to the
    /// end of the last node under it.
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
    /// A turn is placed under its prompt, which is found by the chain of parents; a tool call is
    /// placed under its turn. Tool outputs are left out: they are the outcomes of the calls. Turns
    /// whose messages belong to another conversation, such as that of a sub-agent, are in the tree
    /// of that conversation. The tree of a conversation without turns is built from its messages.
    /// Conversations whose `parent_id` is this conversation are placed under the call that started
    /// them, or at the end. Each of them is one node: request its tree by its own id.
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
        let inner = self.inner();
        let conversation = inner.with_snapshot(|view| conversations::get(view, id))?;
        let mut tree = of_turns(self, id)?;
        if tree.is_empty() {
            tree = of_messages(inner, id)?;
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
        if let Some((conversation, stats)) = conversation {
            let began = conversation.created_at.at();
            let ended = tree.iter().map(SessionNode::ends).max();
            nodes.push(SessionNode {
                depth: 0,
                at: began,
                duration_ms: ended.map(|ended| ended.saturating_sub(began)),
                ..of_conversation((conversation, stats), 0)
            });
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
    let began = conversation.0.created_at.at();
    plain(
        SessionItem::Conversation(Box::new(conversation)),
        depth,
        began,
    )
}

/// Inserts the conversations of sub-agents, each below the call that started it.
fn with_agents(tree: Vec<SessionNode>, agents: Vec<Whole>) -> Vec<SessionNode> {
    let mut agents: Vec<Option<Whole>> = agents.into_iter().map(Some).collect();
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
        for agent in &mut agents {
            let is_its = |(it, _): &mut Whole| it.parent_call_id.as_ref() == Some(&call);
            let its = agent.take_if(is_its);
            nodes.extend(its.map(|agent| of_conversation(agent, depth)));
        }
    }
    let others = agents.into_iter().flatten();
    nodes.extend(others.map(|agent| of_conversation(agent, 0)));
    nodes
}

impl SessionNode {
    fn ends(&self) -> i64 {
        self.at.saturating_add(self.duration_ms.unwrap_or(0))
    }
}

/// A prompt and the nodes below it.
struct Prompt {
    node: SessionNode,
    below: Vec<SessionNode>,
}

fn plain(item: SessionItem, depth: usize, at: i64) -> SessionNode {
    SessionNode {
        item,
        depth,
        at,
        duration_ms: None,
        status: None,
        reasoning: None,
    }
}

fn of_turns(store: &Store, thread_id: Uuid) -> Result<Vec<SessionNode>> {
    let inner = store.inner();
    let query = TurnQuery {
        thread_id: Some(thread_id),
        limit: usize::MAX,
        ..TurnQuery::default()
    };
    let mut turns = turns::list(inner, &query, usize::MAX, None)?.items;
    // Sub-agents share the thread but have conversations, and so trees, of their own.
    let mut are_others = Vec::with_capacity(turns.len());
    for some in turns.chunks(ROWS_AT_A_TIME) {
        are_others.extend(inner.with_snapshot(|view| {
            let is_other =
                |turn: &ConversationTurn| messages::is_of_another(view, turn.message_id, thread_id);
            Ok(some.iter().map(is_other).collect::<Vec<_>>())
        })?);
    }
    let mut are_others = are_others.into_iter();
    turns.retain(|_| are_others.next() != Some(true));
    let origins = origins(&turns);
    let mut prompts: Vec<Prompt> = Vec::new();
    // Index of a prompt in `prompts`, by the index of its turn.
    let mut places = HashMap::new();
    for (place, turn) in turns.iter().enumerate() {
        if origins[place] == place {
            places.insert(place, prompts.len());
            prompts.push(Prompt {
                node: plain(SessionItem::Turn(turn.clone()), 0, turn.created_at.at),
                below: Vec::new(),
            });
        }
    }
    for (place, turn) in turns.into_iter().enumerate() {
        let origin = origins[place];
        let Some(prompt) = places.get(&origin).and_then(|at| prompts.get_mut(*at)) else {
            continue;
        };
        let (id, at) = (turn.id, turn.created_at.at);
        let is_below = origin != place;
        if is_below && turn.kind != TurnKind::Tool {
            let reasoning = reasoning_of(store, &turn)?;
            prompt.below.push(SessionNode {
                reasoning,
                ..plain(SessionItem::Turn(turn), 1, at)
            });
        }
        let calls = calls_of(inner, id, 1 + usize::from(is_below))?;
        prompt.below.extend(calls);
    }
    Ok(drawn(prompts))
}

/// For each turn, the index of the prompt at the end of its chain of parents. Turns are sorted by
/// their recorded times, and clocks may differ: a parent may come after its child.
fn origins(turns: &[ConversationTurn]) -> Vec<usize> {
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
            match parent.filter(|_| turn.kind != TurnKind::User) {
                Some(parent) => place = *parent,
                None => break place,
            }
        };
        for place in path.drain(..) {
            origins[place] = Some(origin);
            is_on_path[place] = false;
        }
    }
    let found = origins.into_iter().enumerate();
    found
        .map(|(place, origin)| origin.unwrap_or(place))
        .collect()
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

fn calls_of(inner: &Inner, turn: Uuid, depth: usize) -> Result<Vec<SessionNode>> {
    let query = CallQuery {
        parent_id: Some(turn),
        order: Order::OldestFirst,
        limit: usize::MAX,
        ..CallQuery::default()
    };
    let calls = calls::list(inner, &query, usize::MAX, None)?
        .items
        .into_iter();
    let node = |call: ToolCall| SessionNode {
        duration_ms: call.1.as_ref().map(|done| done.latency_ms),
        status: Some(match call.1.as_ref().map(|done| done.status) {
            None => SpanStatus::Running,
            Some(ToolStatus::Completed) => SpanStatus::Completed,
            Some(ToolStatus::Failed) => SpanStatus::Failed,
        }),
        ..plain_call(call, depth)
    };
    Ok(calls.map(node).collect())
}

fn plain_call(call: ToolCall, depth: usize) -> SessionNode {
    let at = call.0.started_at.at;
    plain(SessionItem::Call(Box::new(call)), depth, at)
}

fn of_messages(inner: &Inner, conversation_id: Uuid) -> Result<Vec<SessionNode>> {
    let query = MessageQuery {
        limit: usize::MAX,
        ..MessageQuery::default()
    };
    let mut prompts: Vec<Prompt> = Vec::new();
    for message in messages::list(inner, Some(conversation_id), &query)?.items {
        let at = message.timestamp.at();
        let is_prompt = message.role == Role::User;
        let status = match message.role {
            _ if message.error.is_some() => Some(SpanStatus::Failed),
            Role::Tool if message.error_type.is_some() => Some(SpanStatus::Failed),
            Role::Assistant => Some(SpanStatus::Completed),
            _ => None,
        };
        let mut node = SessionNode {
            duration_ms: message.latency_ms,
            status,
            ..plain(SessionItem::Message(Box::new(message)), 0, at)
        };
        match prompts.last_mut().filter(|_| !is_prompt) {
            Some(prompt) => {
                node.depth = 1;
                prompt.below.push(node);
            }
            None => prompts.push(Prompt {
                node,
                below: Vec::new(),
            }),
        }
    }
    Ok(drawn(prompts))
}

/// The prompts, each followed by the nodes below it. The duration of a prompt extends to the end of
/// the last of them.
fn drawn(prompts: Vec<Prompt>) -> Vec<SessionNode> {
    let mut nodes = Vec::new();
    for Prompt { mut node, below } in prompts {
        if node.duration_ms.is_none() {
            let ended = below.iter().map(SessionNode::ends).max();
            node.duration_ms = ended.map(|ended| ended.saturating_sub(node.at).max(0));
        }
        nodes.push(node);
        nodes.extend(below);
    }
    nodes
}
