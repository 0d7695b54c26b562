//! Proposed edits and their steps.

use super::super::answer::Fault;
use super::Call;
use super::given::{FromChar, Limit, Listed, Time, page, put};
use crate::collections::{Cursor, Order, ProposalQuery};
use crate::error::ErrorKind;
use crate::record::{CodeEditProposal, Kind, ProposalStatus, ProposalStep, Record};
use crate::wire::new::{NewProposal, NewStep};

tools! {
    /// Records a code edit before it is made, for approval. It is pending until proposal_decide
    /// records a decision.
    proposal_record("Record a proposed edit", AddsOnce) => put(NewProposal)

    /// Records the next step of a proposal: a pending one is approved or denied, an approved one
    /// applied, an applied one reverted. Any other step is refused.
    proposal_decide("Record the next step of a proposal", AddsOnce) => decide(NewStep)

    /// Lists proposed edits with their status, newest first.
    proposals_list("List proposals", Reads, [Kind::CodeEditProposals]) => list(List {
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
        from_char: Option<FromChar>,
    })
}

fn decide(call: &Call<'_>, given: NewStep) -> Result<CodeEditProposal, Fault> {
    let (step, _) = given.read().map_err(Fault::of_issues)?;
    let Record::ProposalStep(ProposalStep { request_id, .. }) = step else {
        return Err(Fault::internal());
    };
    let unknown = || {
        let message = "there is no proposal of this request: record it first with proposal_record, or find it with proposals_list";
        Fault::unknown("request_id", message)
    };
    match call.store.record(step) {
        Ok(_) => call.store.get_proposal(request_id)?.ok_or_else(unknown),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(unknown()),
        Err(error) => Err(error.into()),
    }
}

fn list(call: &Call<'_>, given: List) -> Result<Listed<CodeEditProposal>, Fault> {
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
    page("proposals", given.limit, given.cursor, read)
}
