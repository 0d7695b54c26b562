//! Thoughts: the audit trail of a task, each chained to the one before it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::answer::Fault;
use super::given::{FromChar, Limit, page};
use super::{Call, Effect, Tool};
use crate::collections::Cursor;
use crate::collections::{NewThought, ThoughtQuery};
use crate::record::{Kind, ThoughtRecord, ThoughtType};
use crate::wire::chain::Verified;
use crate::wire::fields::Name;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "thought_record",
            "thought_record",
            "Records a plan, analysis, decision or reflection in the audit trail of a task. The record is chained to the one before it by its hash and can never be changed or removed. Call it when you plan, before you act on a decision, and when you look back on one.",
            Effect::Adds,
            record,
        ),
        Tool::new(
            "thought_record_list",
            "thought_record_list",
            "Lists recorded thoughts, oldest first: of one task, or of all. Call it to see earlier plans and decisions.",
            Effect::Reads,
            list,
        )
        .reading(&[Kind::ThoughtRecords]),
        Tool::new(
            "thought_record_get",
            "Read a thought",
            "Reads one recorded thought by its id, with the hashes that chain it.",
            Effect::Reads,
            get,
        )
        .reading(&[Kind::ThoughtRecords]),
        Tool::new(
            "audit_verify_chain",
            "Verify a task's audit trail",
            "Recomputes every hash of a task's thoughts from the files and reports whether the chain is intact and, if not, the first break. A chain that lost its last records is still intact: compare records and head with a copy stored elsewhere.",
            Effect::Reads,
            verify,
        )
        .long(),
    ]
}

/// A thought to record.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Thought {
    /// The type of thought.
    #[serde(rename = "type")]
    thought_type: ThoughtType,
    /// The task whose audit trail it belongs to. Use the same one throughout a task.
    task_id: Name,
    /// The agent with the thought: you.
    agent_id: Name,
    /// The thought, in words.
    content: String,
}

fn record(call: &Call<'_>, given: Thought) -> Result<ThoughtRecord, Fault> {
    let thought = NewThought {
        thought_type: given.thought_type,
        task_id: given.task_id.0,
        agent_id: given.agent_id.0,
        content: given.content,
    };
    Ok(call.store.thoughts().create(thought)?)
}

/// The thoughts to list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Only thoughts of this task.
    task_id: Option<Name>,
    /// Only thoughts with this prev_hash; 64 zeros for the first of a chain.
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    prev_hash: Option<String>,
    /// Maximum number of thoughts. Default: all. Results come in pages: continue with next_cursor.
    limit: Option<Limit>,
    /// The next_cursor of the previous page.
    cursor: Option<Cursor>,
    /// The first character to show of texts that were truncated. Default: 0.
    #[allow(dead_code)] // Used to cut the answer.
    from_char: Option<FromChar>,
}

/// Thoughts, in the order in which they were recorded.
#[derive(Debug, Serialize)]
struct Listed {
    records: Vec<ThoughtRecord>,
    /// The cursor of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn list(call: &Call<'_>, given: List) -> Result<Listed, Fault> {
    let thoughts = call.store.thoughts();
    let query = ThoughtQuery {
        task_id: given.task_id.map(|task_id| task_id.0),
        prev_hash: given.prev_hash,
        ..ThoughtQuery::default()
    };
    let read = |limit, after| {
        thoughts.page(&ThoughtQuery {
            limit,
            after,
            ..query.clone()
        })
    };
    // The maximum of a page.
    let limit = given.limit.unwrap_or(Limit::MAX);
    let page = page(Some(limit), given.cursor, read)?;
    Ok(Listed {
        records: page.items,
        next_cursor: page.next,
    })
}

/// The thought to read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Get {
    /// Its id, returned by thought_record.
    id: String,
    /// First character to show of a truncated text. Default: 0.
    #[allow(dead_code)] // Used to cut the answer.
    from_char: Option<FromChar>,
}

fn get(call: &Call<'_>, given: Get) -> Result<ThoughtRecord, Fault> {
    let thought = call.store.thoughts().get(&given.id)?;
    thought.ok_or_else(|| {
        Fault::not_found("no such thought: find thoughts with thought_record_list").with_field("id")
    })
}

/// The chain to verify.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Verify {
    /// The task. The chain of a task without thoughts has no records.
    task_id: Name,
}

fn verify(call: &Call<'_>, given: Verify) -> Result<Verified, Fault> {
    let thoughts = call.store.thoughts();
    let mut go_on = |records| call.go_on(records, None);
    let check = thoughts.verify_chain_with(&given.task_id.0, &mut go_on)?;
    Ok(check.ok_or_else(Fault::cancelled)?.into())
}
