//! Retraction of what was recorded by mistake.

use super::{Ack, not_found};
use crate::error::{Error, Result};
use crate::record::{CodeEditProposal, Key, Record, Validity};
use crate::store::Store;

impl Store {
    /// Retracts a turn, a tool call or a proposal from `at` on, in epoch milliseconds. Lists no
    /// longer show it; the log keeps its history.
    ///
    /// ```
    /// # use decklog::{Key, Store, Timestamp};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let turn = store.run("anthropic").user("A password, by mistake")?;
    /// store.retract(&Key::Turn(turn.id()), Timestamp::now().at())?;
    /// assert!(store.get_turn(turn.id())?.is_none());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is no such record, or it is retracted
    /// already; [`InvalidInput`](crate::ErrorKind::InvalidInput) for a key of another kind.
    pub fn retract(&self, key: &Key, at: i64) -> Result<Ack> {
        let validity = Validity::retracted(at);
        let record = match key {
            Key::Turn(id) => self.get_turn(*id)?.map(|mut turn| {
                turn.created_at = validity;
                Record::Turn(turn)
            }),
            Key::ToolCall {
                request_id,
                call_id,
            } => self
                .get_tool_call(*request_id, call_id)?
                .map(|(mut req, _)| {
                    req.started_at = validity;
                    Record::CallRequested(req)
                }),
            Key::Proposal(id) => self.get_proposal(*id)?.map(|found| {
                // Without the fields of its steps.
                Record::Proposal(CodeEditProposal {
                    created_at: validity,
                    confidence: found.confidence,
                    ..CodeEditProposal::new(found.request_id, found.diffs_json, validity.at)
                })
            }),
            _ => {
                let message = "only turns, tool calls and proposals can be retracted";
                return Err(Error::invalid(message));
            }
        };
        let missing = || not_found("no record has this id, or it is already retracted");
        self.record(record.ok_or_else(missing)?)
    }
}
