//! The document of a conversation and its sub-agents.

use std::collections::HashSet;

use serde_json::Value;
use uuid::Uuid;

use super::build::Steps;
use super::model::{Agent, FinalMetrics, Trajectory, VERSION, extra};
use super::own::{self, Own};
use crate::collections::{ConversationQuery, Order};
use crate::error::{Error, Result};
use crate::record::Conversation;
use crate::store::Store;

/// Maximum depth of documents in documents. Deeper sub-agents are embedded where the limit is, and
/// name their parents.
const DEPTH_MAX: usize = 16;

impl Store {
    /// A conversation as a document of ATIF v1.7, in one line, with its sub-agents; `None` if the
    /// log does not have it.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Cli);
    /// let id = conversation.id;
    /// store.record(conversation)?;
    /// store.record(ConversationMessage::new(id, Role::User, "What is 1 + 1?"))?;
    /// let document = store.atif(id)?.expect("recorded above");
    /// assert!(document.starts_with(r#"{"schema_version":"ATIF-v1.7""#));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors of reading the log.
    pub fn atif(&self, id: Uuid) -> Result<Option<String>> {
        self.atif_of(id, &mut HashSet::new())
    }

    /// Like [`atif`](Store::atif), without the conversations that are already written.
    pub(super) fn atif_of(&self, id: Uuid, written: &mut HashSet<Uuid>) -> Result<Option<String>> {
        let Some((conversation, _)) = self.get_conversation(id)? else {
            return Ok(None);
        };
        written.insert(id);
        let (document, deeper) = trajectory(self, &conversation, written, 1)?;
        debug_assert!(deeper.is_empty());
        let text = serde_json::to_string(&document);
        let text = text.map_err(|e| Error::invalid(format!("cannot be written as JSON: {e}")));
        Ok(Some(text?))
    }

    /// Calls `each` with the documents of the conversations that match the query, oldest first
    /// unless the query has a `sort`. A
    /// document includes all sub-agents of its conversation. A sub-agent that matches has its own
    /// document only if the conversation that started it does not match.
    ///
    /// # Errors
    /// Errors of reading the log, and of `each`.
    pub fn each_atif<E: From<Error>>(
        &self,
        query: &ConversationQuery,
        mut each: impl FnMut(String) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let order = match query.sort {
            Some(_) => query.order,
            None => Order::OldestFirst,
        };
        let query = ConversationQuery {
            order,
            limit: usize::MAX,
            ..query.clone()
        };
        let all = self.conversations(&query)?.items.into_iter();
        let all: Vec<(Uuid, Option<Uuid>)> = all.map(|(it, _)| (it.id, it.parent_id)).collect();
        let ids: HashSet<Uuid> = all.iter().map(|(id, _)| *id).collect();
        let is_root = |parent: Option<Uuid>| parent.is_none_or(|parent| !ids.contains(&parent));
        let roots = all.iter().filter(|(_, parent)| is_root(*parent));
        // A cycle of parents has no root.
        let mut written = HashSet::new();
        for (id, _) in roots.chain(&all) {
            if !written.contains(id)
                && let Some(document) = self.atif_of(*id, &mut written)?
            {
                each(document)?;
            }
        }
        Ok(())
    }
}

/// The document of a conversation, and those of its sub-agents that are too deep for it.
fn trajectory(
    store: &Store,
    conversation: &Conversation,
    written: &mut HashSet<Uuid>,
    depth: usize,
) -> Result<(Trajectory, Vec<Trajectory>)> {
    let mut steps = Steps::read(store, conversation.id)?;
    let query = ConversationQuery {
        parent_id: Some(conversation.id),
        order: Order::OldestFirst,
        limit: usize::MAX,
        ..ConversationQuery::default()
    };
    let mut agents = Vec::new();
    for (agent, _) in store.conversations(&query)?.items {
        if !written.insert(agent.id) {
            continue;
        }
        if let Some(call) = agent
            .parent_call_id
            .as_deref()
            .filter(|_| depth < DEPTH_MAX)
        {
            steps.refer(call, agent.id, agent.session_id.clone());
        }
        let (document, deeper) = trajectory(store, &agent, written, depth + 1)?;
        agents.push(document);
        agents.extend(deeper);
    }
    let deeper = if depth < DEPTH_MAX {
        Vec::new()
    } else {
        std::mem::take(&mut agents)
    };
    let steps = steps.finish();
    let of_conversation = own::of_conversation(conversation);
    // A session names its agent in later versions of the record.
    let agent = of_conversation.get("agent").and_then(Value::as_str);
    let mut models = steps.iter().filter_map(|step| step.model_name.clone());
    let document = Trajectory {
        schema_version: VERSION.to_owned(),
        session_id: (conversation.session_id.clone()).or_else(|| Some(conversation.id.to_string())),
        trajectory_id: Some(conversation.id.to_string()),
        agent: Agent {
            name: agent.unwrap_or(conversation.client.as_str()).to_owned(),
            version: "unknown".to_owned(),
            model_name: models.next(),
            ..Agent::default()
        },
        final_metrics: Some(sums(&steps, &agents)),
        steps,
        extra: Some(extra(Own::from_iter([(
            "conversation".to_owned(),
            of_conversation.into(),
        )]))),
        subagent_trajectories: Some(agents).filter(|agents| !agents.is_empty()),
        ..Trajectory::default()
    };
    Ok((document, deeper))
}

/// The sums of the steps. The cost includes that of the sub-agents.
fn sums(steps: &[super::model::Step], agents: &[Trajectory]) -> FinalMetrics {
    let mut sums = FinalMetrics {
        total_steps: Some(steps.len() as u64),
        ..FinalMetrics::default()
    };
    let mut others = Own::new();
    let add = |sum: &mut Option<u64>, count: Option<u64>| {
        if let Some(count) = count {
            *sum = Some(sum.unwrap_or(0).saturating_add(count));
        }
    };
    for metrics in steps.iter().filter_map(|step| step.metrics.as_ref()) {
        add(&mut sums.total_prompt_tokens, metrics.prompt_tokens);
        add(&mut sums.total_completion_tokens, metrics.completion_tokens);
        add(&mut sums.total_cached_tokens, metrics.cached_tokens);
        for (name, count) in metrics.extra.iter().flatten() {
            let mut sum = others.get(name).and_then(Value::as_u64);
            add(&mut sum, count.as_u64());
            others.insert(name.clone(), sum.into());
        }
    }
    let own = steps
        .iter()
        .filter_map(|step| step.metrics.as_ref()?.cost_usd);
    let agents = agents
        .iter()
        .filter_map(|it| it.final_metrics.as_ref()?.total_cost_usd);
    sums.total_cost_usd = own.chain(agents).reduce(|sum, cost| sum + cost);
    sums.extra = Some(others).filter(|others| !others.is_empty());
    sums
}
