//! Thoughts: the audit trail of a task, each chained to the one before it.

use super::super::answer::Fault;
use super::Call;
use super::given::{FromChar, Limit, Listed, Time, page};
use crate::collections::{Cursor, NewThought, ThoughtQuery};
use crate::record::{Kind, ThoughtRecord, ThoughtType};
use crate::wire::chain::Verified;
use crate::wire::fields::Name;

tools! {
    /// Records a plan, analysis, decision or reflection in the audit trail of a task. The record is
    /// chained to the one before it by its hash and can never be changed or removed. Call it when
    /// you plan, before you act on a decision, and when you look back on one.
    thought_record("thought_record", Adds) => record(Thought {
        /// The type of thought.
        #[serde(rename = "type")]
        thought_type: ThoughtType,
        /// The task whose audit trail it belongs to. Use the same one throughout a task.
        task_id: Name,
        /// The agent that has the thought: you.
        agent_id: Name,
        /// The thought, in words.
        content: String,
    })

    /// Lists recorded thoughts, oldest first: of one task, or of all. Call it to see earlier plans
    /// and decisions.
    thought_record_list("thought_record_list", Reads, [Kind::ThoughtRecords]) => list(List {
        /// Only thoughts of this task.
        task_id: Option<Name>,
        /// Only thoughts with this prev_hash; 64 zeros for the first of a chain.
        #[schema(pattern = "^[0-9a-fA-F]{64}$")]
        prev_hash: Option<String>,
        /// Only thoughts of this time or later.
        since: Option<Time>,
        /// Only thoughts before this time.
        until: Option<Time>,
        /// Maximum number of thoughts. Default: all. Results come in pages: continue with next_cursor.
        limit: Option<Limit>,
        /// The next_cursor of the previous page.
        cursor: Option<Cursor>,
        /// The first character to show of texts that were truncated. Default: 0.
        from_char: Option<FromChar>,
    })

    /// Reads one recorded thought by its id, with the hashes that chain it.
    thought_record_get("Read a thought", Reads, [Kind::ThoughtRecords]) => get(Get {
        /// Its id, returned by thought_record.
        id: String,
        /// First character to show of a truncated text. Default: 0.
        from_char: Option<FromChar>,
    })

    /// Recomputes every hash of a task's thoughts from the files and reports whether the chain is
    /// intact and, if not, the first break. A chain that lost its last records is still intact:
    /// compare records and head with a copy stored elsewhere.
    audit_verify_chain("Verify a task's audit trail", ReadsMuch) => verify(Verify {
        /// The task. The chain of a task without thoughts has no records.
        task_id: Name,
    })
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

fn list(call: &Call<'_>, given: List) -> Result<Listed<ThoughtRecord>, Fault> {
    let thoughts = call.store.thoughts();
    let query = ThoughtQuery {
        task_id: given.task_id.map(|task_id| task_id.0),
        prev_hash: given.prev_hash,
        since: given.since.map(|at| at.0),
        until: given.until.map(|at| at.0),
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
    page("records", Some(limit), given.cursor, read)
}

fn get(call: &Call<'_>, given: Get) -> Result<ThoughtRecord, Fault> {
    let thought = call.store.thoughts().get(&given.id)?;
    thought.ok_or_else(|| {
        Fault::unknown(
            "id",
            "no such thought: find thoughts with thought_record_list",
        )
    })
}

fn verify(call: &Call<'_>, given: Verify) -> Result<Verified, Fault> {
    let thoughts = call.store.thoughts();
    let mut go_on = |records| call.go_on(records, None);
    let check = thoughts.verify_chain_with(&given.task_id.0, &mut go_on)?;
    Ok(check.ok_or_else(Fault::cancelled)?.into())
}
