//! Code edit proposals: pending, then approved or denied, applied, reverted. Each step happens
//! once.

use uuid::Uuid;

use super::as_of::{Lists, assertion};
use super::page::{Cursor, Page, Walk};
use super::query::query;
use super::{
    Ack, asserted, at_status, conflict, lifecycle, not_found, outcome, put_version, record_in,
    record_of, says, standing, time, unchanged,
};
use crate::error::Result;
use crate::index::{Hasher, RowId, Select};
use crate::record::{CodeEditProposal, Kind, ProposalStatus, ProposalStep, Record, same_json};
use crate::store::{Reads, Redacted, Snapshot, Store, Txn};

const KIND: Kind = Kind::CodeEditProposals;

query! {
    /// Selects the proposals to list.
    ///
    /// ```
    /// # use decklog::{ProposalStatus, Store};
    /// # use decklog::query::ProposalQuery;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let query = ProposalQuery { status: Some(ProposalStatus::Pending), ..ProposalQuery::default() };
    /// assert!(store.proposals(&query)?.items.is_empty());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ProposalQuery {
        filters {
            /// Only proposals with this status.
            status: ProposalStatus = "status" "STATUS",
        }
        times {
            /// Only proposals created at this time or later.
            since,
            /// Only proposals created before this time.
            until,
        }
        order {
            /// By `created_at`. Default: newest first (`desc`).
            NewestFirst
        }
        from {
            /// Page cursor: the `next` of the previous page.
            after: Option<Cursor>
        }
    }
}

impl Store {
    /// The proposal of a request; `None` if it does not exist or is retracted.
    pub fn get_proposal(&self, request_id: Uuid) -> Result<Option<CodeEditProposal>> {
        self.as_of(None).get_proposal(request_id)
    }

    /// Lists the proposals that are not retracted, in pages.
    pub fn proposals(&self, query: &ProposalQuery) -> Result<Page<CodeEditProposal>> {
        self.as_of(None).proposals(query)
    }
}

/// Adds a proposal, unless the current version is equal. With `but_time`, the times are not
/// compared.
pub(super) fn put(
    txn: &mut Txn<'_>,
    redacted: &Redacted,
    proposal: &CodeEditProposal,
    but_time: bool,
) -> Result<Ack> {
    let same = |known: &CodeEditProposal| {
        let again = CodeEditProposal {
            created_at: time(proposal.created_at, known.created_at, but_time),
            diffs_json: known.diffs_json.clone(),
            ..proposal.clone()
        };
        same_json(Some(&known.diffs_json), Some(&proposal.diffs_json)) && again == *known
    };
    let is_valid = proposal.created_at.is_valid;
    let found = asserted(txn, redacted.record()).filter(|(_, row)| row.done.is_some());
    if let Some((_, row)) = found {
        let mut known = txn.read(KIND, row.asserted)?.record;
        if let Record::Proposal(known) = &mut known
            && row.is_retracted
        {
            // A retracted proposal may be asserted again with another time, but a decision that was
            // taken applies to its edits.
            known.created_at = proposal.created_at;
        }
        if is_valid && !says(txn, &known, same)? {
            return Err(lifecycle(format!(
                "the proposal is {}: its edits stand; propose others under a request_id of their own",
                row.state.as_str()
            )));
        }
    }
    put_version(txn, redacted, is_valid, same)
}

pub(super) fn put_step(txn: &mut Txn<'_>, redacted: &Redacted, step: &ProposalStep) -> Result<Ack> {
    let Some((id, row)) = asserted(txn, redacted.record()) else {
        let message = "there is no proposal of this request: record it first";
        return Err(not_found(message));
    };
    let last = outcome(txn, KIND, id)?.map(|last| {
        // The privacy settings may have changed since the step was written.
        let step: ProposalStep = record_in(txn.redact(last.record)?.record()).cloned()?;
        Ok((last.seq.unwrap_or(0), step))
    });
    let last = last.transpose()?;
    let current = last.as_ref().map(|(_, last)| last.status);
    let current = current.unwrap_or_default();
    if let Some((seq, last)) = &last
        && took(last, step)
    {
        check_commit(last, step)?;
        return unchanged(txn, row.done, *seq);
    }
    if row.is_retracted {
        let message = "the proposal was retracted: propose it again before its next step";
        return Err(not_found(message));
    }
    if !current.may_become(step.status) {
        return Err(lifecycle(format!(
            "the proposal is {current} and cannot become {}: pending may become approved or denied, approved applied, applied reverted",
            step.status
        )));
    }
    let Some((_, last)) = last else {
        return txn.push(redacted, None).map(Ack::added);
    };
    let mut step = step.clone();
    let decided_at = decided_at(&last);
    let applied_at = applied_at(&last).filter(|_| step.status != ProposalStatus::Applied);
    fill("decided_at", &mut step.decided_at, decided_at)?;
    fill("applied_at", &mut step.applied_at, applied_at)?;
    if step.status == ProposalStatus::Reverted {
        check_commit(&last, &step)?;
        step.commit_hash.clone_from(&last.commit_hash);
    }
    let redacted = txn.redact(step.into())?;
    txn.push(&redacted, None).map(Ack::added)
}

/// Whether `step` repeats the last one, at any time, or an earlier one with exactly its time.
fn took(last: &ProposalStep, step: &ProposalStep) -> bool {
    use ProposalStatus::{Applied, Approved};
    last.status == step.status
        || match step.status {
            Approved => {
                matches!(last.status, Applied | ProposalStatus::Reverted)
                    && decided_at(last) == Some(step.at)
            }
            Applied => applied_at(last) == Some(step.at),
            _ => false,
        }
}

fn check_commit(last: &ProposalStep, step: &ProposalStep) -> Result<()> {
    match (&last.commit_hash, &step.commit_hash) {
        (known, Some(given)) if known.as_ref() != Some(given) => {
            let known = known.as_deref().unwrap_or("no commit");
            Err(conflict(format!(
                "the proposal was applied by {known:?} and now {given:?}: the first stands"
            )))
        }
        _ => Ok(()),
    }
}

fn fill(name: &str, given: &mut Option<i64>, known: Option<i64>) -> Result<()> {
    match (*given, known) {
        (Some(time), Some(known)) if time != known => Err(conflict(format!(
            "{name} is {known} in the log and now {time}: the first stands"
        ))),
        _ => {
            *given = known;
            Ok(())
        }
    }
}

fn decided_at(step: &ProposalStep) -> Option<i64> {
    match step.status {
        ProposalStatus::Approved | ProposalStatus::Denied => Some(step.at),
        _ => step.decided_at,
    }
}

fn applied_at(step: &ProposalStep) -> Option<i64> {
    match step.status {
        ProposalStatus::Applied => Some(step.at),
        ProposalStatus::Reverted => step.applied_at,
        // The other steps come before a proposal is applied. A line edited by hand may have the
        // field all the same.
        _ => None,
    }
}

impl Lists for ProposalQuery {
    type Item = CodeEditProposal;
    const KIND: Kind = KIND;

    fn walk(&self, _: Hasher, is_now: bool) -> Walk {
        let status = self.status.filter(|_| is_now);
        let select = status.map_or(Select::All, |status| at_status(KIND, status.as_str()));
        let walk = Walk::all(self.order, self.limit, self.after).of(select);
        walk.within(self.since, self.until)
    }

    fn matches(&self, proposal: &CodeEditProposal) -> bool {
        self.status.is_none_or(|status| proposal.status == status)
    }

    fn read(view: &Snapshot<'_>, id: RowId, as_of: Option<i64>) -> Result<Option<Self::Item>> {
        let asserted = match as_of {
            None => standing(view, KIND, id)?,
            Some(at) => assertion(view, KIND, id, at)?,
        };
        let Some(asserted) = asserted else {
            return Ok(None);
        };
        let mut proposal = record_of(asserted)?;
        if let Some(last) = outcome(view, KIND, id)? {
            apply(&mut proposal, &record_of(last)?, as_of.unwrap_or(i64::MAX));
        }
        Ok(Some(proposal))
    }

    fn at(proposal: &CodeEditProposal) -> i64 {
        proposal.created_at.at
    }
}

/// Fills in the status of a proposal as of a time, from its last step, which also has the times of
/// the steps before it. In a line edited by hand such a time may be missing; that step then counts
/// as of the time of the last one.
fn apply(proposal: &mut CodeEditProposal, last: &ProposalStep, at: i64) {
    use ProposalStatus::{Applied, Approved, Denied, Reverted};
    let has_come = |time: Option<i64>| time.unwrap_or(last.at) <= at;
    let (decided_at, applied_at) = (decided_at(last), applied_at(last));
    if !has_come(decided_at) {
        return;
    }
    proposal.decided_at = decided_at;
    proposal.status = if last.status == Denied {
        Denied
    } else {
        Approved
    };
    if matches!(last.status, Applied | Reverted) && has_come(applied_at) {
        proposal.applied_at = applied_at;
        proposal.status = Applied;
        proposal.commit_hash.clone_from(&last.commit_hash);
        if last.status == Reverted && has_come(None) {
            proposal.status = Reverted;
        }
    }
}
