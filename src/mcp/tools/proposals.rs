//! Proposed edits and their steps.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::answer::Fault;
use super::given::{FromChar, Limit, Put, Time, page, put};
use super::{Call, Effect, Tool};
use crate::collections::Cursor;
use crate::collections::{Order, ProposalQuery};
use crate::error::ErrorKind;
use crate::record::{CodeEditProposal, Kind, ProposalStatus, ProposalStep, Record};
use crate::wire::new::{NewProposal, NewStep};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "proposal_record",
            "Record a proposed edit",
            "Records a code edit before it is made, for approval. It is pending until proposal_decide records a decision.",
            Effect::AddsOnce,
            record,
        ),
        Tool::new(
            "proposal_decide",
            "Record the next step of a proposal",
            "Records the next step of a proposal: a pending one is approved or denied, an approved one applied, an applied one reverted. Any other step is refused.",
            Effect::AddsOnce,
            decide,
        ),
        Tool::new(
            "proposals_list",
            "List proposals",
            "Lists proposed edits with their status, newest first.",
            Effect::Reads,
            list,
        )
        .reading(&[Kind::CodeEditProposals]),
    ]
}

fn record(call: &Call<'_>, given: NewProposal) -> Result<Put, Fault> {
    Ok(put(call, given)?.1.into())
}

fn decide(call: &Call<'_>, given: NewStep) -> Result<CodeEditProposal, Fault> {
    let (step, _) = given.read().map_err(Fault::of_issues)?;
    let Record::ProposalStep(ProposalStep { request_id, .. }) = step else {
        return Err(Fault::internal());
    };
    let unknown = || {
        let message = "there is no proposal of this request: record it first with proposal_record, or find it with proposals_list";
        Fault::not_found(message).with_field("request_id")
    };
    match call.store.record(step) {
        Ok(_) => call.store.get_proposal(request_id)?.ok_or_else(unknown),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(unknown()),
        Err(error) => Err(error.into()),
    }
}

/// The proposals to list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Only proposals with this status.
    status: Option<ProposalStatus>,
    /// Only proposals of this time or later.
    since: Option<Time>,
    /// Only proposals before this time.
    until: Option<Time>,
    /// Their state at this time. Default: now.
    as_of: Option<Time>,
    /// Maximum number of results. Default: 100.
    limit: Option<Limit>,
    /// The next_cursor of the previous page.
    cursor: Option<Cursor>,
    /// The first character to show of texts that were truncated. Default: 0.
    #[allow(dead_code)] // Used to cut the answer.
    from_char: Option<FromChar>,
}

/// Proposals, newest first.
#[derive(Debug, Serialize)]
struct Listed {
    proposals: Vec<CodeEditProposal>,
    /// The cursor of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn list(call: &Call<'_>, given: List) -> Result<Listed, Fault> {
    let as_of = given.as_of.map(|time| time.0);
    let read = |limit, after| {
        call.store.as_of(as_of).proposals(&ProposalQuery {
            status: given.status,
            since: given.since.map(|at| at.0),
            until: given.until.map(|at| at.0),
            order: Order::NewestFirst,
            limit,
            after,
        })
    };

    let page = page(given.limit, given.cursor, read)?;
    Ok(Listed {
        proposals: page.items,
        next_cursor: page.next,
    })
}
