//! What reports show of conversations.

use std::collections::HashMap;

use uuid::Uuid;

use super::find;
use crate::error::Result;
use crate::store::Inner;

/// Number of conversations that are read under one lock. Writers wait for it.
const AT_A_TIME: usize = 100;
/// Maximum number of conversations that started one another.
const DEPTH_MAX: usize = 64;

/// What reports show of a conversation.
#[derive(Debug, Clone)]
pub(crate) struct ConversationFacts {
    pub project: Option<String>,
    pub agent: Option<String>,
    /// The conversation at the top: the one that no other started, or itself.
    pub main: Uuid,
    parent: Option<Uuid>,
}

/// What is known of these conversations, as far as they are in the log.
pub(crate) fn facts_of(inner: &Inner, ids: &[Uuid]) -> Result<HashMap<Uuid, ConversationFacts>> {
    let mut facts: HashMap<Uuid, ConversationFacts> = HashMap::with_capacity(ids.len());
    let mut wanted: Vec<Uuid> = ids.to_vec();
    for _ in 0..DEPTH_MAX {
        let mut parents = Vec::new();
        for some in wanted.chunks(AT_A_TIME) {
            let found = inner.with_snapshot(|view| {
                let found = some.iter().map(|id| find(view, *id));
                found.collect::<Result<Vec<_>>>()
            })?;
            for found in found.into_iter().flatten() {
                parents.extend(found.parent_id);
                let known = ConversationFacts {
                    project: found.project,
                    agent: found.agent,
                    main: found.id,
                    parent: found.parent_id,
                };
                facts.insert(found.id, known);
            }
        }
        parents.retain(|parent| !facts.contains_key(parent));
        parents.sort_unstable();
        parents.dedup();
        wanted = parents;
        if wanted.is_empty() {
            break;
        }
    }
    let main = |id: Uuid| {
        let mut top = id;
        for _ in 0..DEPTH_MAX {
            match facts.get(&top).and_then(|it| it.parent) {
                Some(parent) if facts.contains_key(&parent) => top = parent,
                _ => break,
            }
        }
        top
    };
    let mains: Vec<(Uuid, Uuid)> = facts.keys().map(|id| (*id, main(*id))).collect();
    for (id, top) in mains {
        if let Some(known) = facts.get_mut(&id) {
            known.main = top;
        }
    }
    Ok(facts)
}
