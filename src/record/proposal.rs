//! Code edit proposals: the changes that an agent proposes, and the decisions about them.

use uuid::Uuid;

use super::check_name;
use super::declare::record;
use super::time::Validity;
use super::words::words;
use crate::error::{Error, Result};

words! {
    /// The status of a proposal.
    #[derive(Default)]
    ProposalStatus("status") {
        /// Proposed, not decided yet.
        #[default]
        Pending = "pending",
        /// Approved, not applied yet.
        Approved = "approved",
        /// Denied.
        Denied = "denied",
        /// Approved and applied.
        Applied = "applied",
        /// Applied and then reverted.
        Reverted = "reverted",
    }
}

impl ProposalStatus {
    /// Whether a proposal with this status may change to `next`: pending to approved or denied,
    /// approved to applied, applied to reverted.
    pub fn may_become(self, next: ProposalStatus) -> bool {
        use ProposalStatus::{Applied, Approved, Denied, Pending, Reverted};
        matches!(
            (self, next),
            (Pending, Approved | Denied) | (Approved, Applied) | (Applied, Reverted)
        )
    }
}

record! {
    /// A code edit that an agent proposes. Key: `request_id`.
    ///
    /// A new proposal must be pending, without the fields of later steps: [`ProposalStep`]s record
    /// these. A `created_at` that is not valid retracts the proposal.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    pub struct CodeEditProposal {
        /// The request that proposes the edit.
        [uuid, key] request_id: Uuid,
        /// Creation time.
        [validity] created_at: Validity,
        /// Confidence of the agent, from 0 to 1.
        [fraction] confidence: Option<f64>,
        /// The edits, stored byte for byte.
        [payload] diffs_json: String,
        /// The status.
        [word, derived] status: ProposalStatus,
        /// Time of the decision, in epoch milliseconds.
        [millis, later] decided_at: Option<i64>,
        /// Time it was applied, in epoch milliseconds.
        [millis, later] applied_at: Option<i64>,
        /// The commit that applied it.
        [name, later] commit_hash: Option<String>,
    }
}

impl CodeEditProposal {
    /// A pending proposal.
    pub fn new(request_id: Uuid, diffs_json: impl Into<String>, created_at: i64) -> Self {
        CodeEditProposal {
            request_id,
            created_at: Validity::at(created_at),
            confidence: None,
            status: ProposalStatus::Pending,
            decided_at: None,
            applied_at: None,
            commit_hash: None,
            diffs_json: diffs_json.into(),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let of_steps = [
            ("status", self.status != ProposalStatus::Pending),
            ("decided_at", self.decided_at.is_some()),
            ("applied_at", self.applied_at.is_some()),
            ("commit_hash", self.commit_hash.is_some()),
        ];
        match of_steps.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(Error::invalid(format!(
                "the proposal is {}, and {name} belongs to a later step: record it as pending, without decided_at, applied_at and commit_hash, and then each step that follows",
                self.status
            ))
            .with_field(name)),
            None => Ok(()),
        }
    }
}

record! {
    /// A step of a proposal: approved, denied, applied or reverted.
    #[derive(Eq)]
    pub struct ProposalStep {
        /// The proposal.
        [uuid, key] request_id: Uuid,
        /// Time of the decision, if made in an earlier step. The log fills it in.
        [millis] decided_at: Option<i64>,
        /// Time it was applied, if in an earlier step. The log fills it in.
        [millis] applied_at: Option<i64>,
        /// The commit that applied it. In a reverting step, the log fills it in.
        [name] commit_hash: Option<String>,
        /// The new status.
        [op] status: ProposalStatus,
        /// Time of the step, in epoch milliseconds.
        [at] at: i64,
    }
}

impl ProposalStep {
    /// A step to `status` at a time in epoch milliseconds.
    ///
    /// ```
    /// # use decklog::{CodeEditProposal, ProposalStatus, ProposalStep, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let id = uuid::Uuid::new_v4();
    /// store.record(CodeEditProposal::new(id, r#"[{"file":"a.rs","+":"x"}]"#, 1_766_832_000_000))?;
    /// store.record(ProposalStep::new(id, ProposalStatus::Approved, 1_766_832_060_000))?;
    /// assert_eq!(store.get_proposal(id)?.unwrap().decided_at, Some(1_766_832_060_000));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn new(request_id: Uuid, status: ProposalStatus, at: i64) -> Self {
        ProposalStep {
            request_id,
            status,
            at,
            decided_at: None,
            applied_at: None,
            commit_hash: None,
        }
    }

    /// The field of its line that repeats its time.
    fn own_time(&mut self) -> Option<&mut Option<i64>> {
        match self.status {
            ProposalStatus::Approved | ProposalStatus::Denied => Some(&mut self.decided_at),
            ProposalStatus::Applied => Some(&mut self.applied_at),
            ProposalStatus::Pending | ProposalStatus::Reverted => None,
        }
    }

    /// The form stored in a line: the time is repeated in a field.
    pub(crate) fn stored(&self) -> ProposalStep {
        let mut step = self.clone();
        let at = step.at;
        if let Some(own) = step.own_time() {
            *own = Some(at);
        }
        step
    }

    /// The step from the form stored in a line.
    pub(crate) fn of_stored(mut step: ProposalStep) -> ProposalStep {
        if let Some(at) = step.own_time().and_then(Option::take) {
            step.at = at;
        }
        step
    }

    pub(super) fn check(&mut self) -> Result<()> {
        use ProposalStatus::{Applied, Approved, Denied, Pending, Reverted};
        let (is_decision, is_applied) = match self.status {
            Pending => {
                let message = "pending is no step: record the proposal";
                return Err(Error::invalid(message).with_field("status"));
            }
            Approved | Denied => (true, false),
            Applied => (false, true),
            Reverted => (false, false),
        };
        let own = |is_own, name, given: &mut Option<i64>| match *given {
            Some(time) if is_own && time != self.at => Err(Error::invalid(format!(
                "{name} is {time} and the step's time is {}: give one of them",
                self.at
            ))),
            _ => {
                if is_own {
                    *given = None;
                }
                Ok(())
            }
        };
        own(is_decision, "decided_at", &mut self.decided_at)?;
        own(is_applied, "applied_at", &mut self.applied_at)?;
        if let Some(time) = self.applied_at.filter(|_| is_decision) {
            let message = format!("applied_at {time} belongs to the step that applies");
            return Err(Error::invalid(message).with_field("applied_at"));
        }
        if let Some(commit) = &self.commit_hash {
            check_name("commit_hash", commit, false)?;
            if is_decision {
                let message = format!("commit_hash {commit:?} belongs to the step that applies");
                return Err(Error::invalid(message).with_field("commit_hash"));
            }
        }
        Ok(())
    }
}
