//! Leaves erased data out of an import, unless it is to be restored.

use uuid::Uuid;

use super::Run;
use crate::error::Result;
use crate::import::batch::Place;
use crate::import::facts::Facts;

impl Run<'_> {
    /// Loads the tombstones. If `restores` is set, erased data is imported again.
    pub(in crate::import) fn load_tombstones(&mut self, restores: bool) -> Result<()> {
        self.tombstones = self.batch.log().tombstones()?;
        self.restores = restores;
        Ok(())
    }

    /// The parts of a line that were not erased; `None` if none remain. The data of a sub-agent is
    /// erased with the session that it belongs to.
    pub(super) fn not_erased<'f>(
        &mut self,
        place: Place,
        mut facts: Facts<'f>,
    ) -> Result<Option<Facts<'f>>> {
        if self.tombstones.is_empty() {
            return Ok(Some(facts));
        }
        // A fork repeats the lines of another session under its own id.
        let of_call = facts.calls.first().map(|call| call.parent_id);
        let parts = [
            of_call,
            facts.turn.as_ref().map(|turn| turn.id),
            facts.said.as_ref().map(|said| said.message.id),
            facts
                .said
                .as_ref()
                .and_then(|said| said.counted)
                .map(|counted| counted.response),
        ];
        let talk = facts.said.as_ref().map(|said| said.talk.id);
        let talk = talk.or(facts.conversation.as_ref().map(|it| it.id));
        let thread = facts.turn.as_ref().and_then(|turn| turn.thread_id);
        let parent = facts.said.as_ref().and_then(|said| said.talk.parent);
        let parent = parent.or_else(|| facts.conversation.as_ref()?.parent_id);
        let mut is_erased = false;
        for id in [talk, thread, parent, of_call].into_iter().flatten() {
            is_erased |= self.is_erased(id)?;
        }
        let is_part = !is_erased && self.is_part_erased(parts)?;
        if is_erased || is_part {
            let id = talk.or(thread).filter(|_| !is_part);
            let is_new = id.is_some_and(|id| self.erased.insert(id));
            let records = usize::from(facts.turn.is_some())
                + usize::from(facts.said.is_some())
                + usize::from(facts.conversation.is_some())
                + facts.advice.len()
                + facts.calls.len()
                + facts.results.len();
            self.leave_out(place, is_new, records);
            let calls = facts.calls.iter().map(|call| call.request_id);
            self.calls_left_out.extend(calls);
            return Ok(None);
        }
        for at in (0..facts.calls.len()).rev() {
            if self.is_request_erased(place, facts.calls[at].request_id)? {
                facts.calls.remove(at);
            }
        }
        for at in (0..facts.results.len()).rev() {
            let call = facts.results[at].request_id;
            if self.calls_left_out.contains(&call) {
                self.leave_out(place, false, 1);
                facts.results.remove(at);
            } else if self.is_request_erased(place, call)? {
                facts.results.remove(at);
            }
        }
        Ok(Some(facts))
    }

    fn is_request_erased(&mut self, place: Place, id: Uuid) -> Result<bool> {
        let is_erased = self.is_erased(id)?;
        if is_erased {
            let is_new = self.erased.insert(id);
            self.leave_out(place, is_new, 1);
        }
        Ok(is_erased)
    }

    /// Whether a conversation or a request is erased and is not to be restored.
    fn is_erased(&mut self, id: Uuid) -> Result<bool> {
        let tombstone = self.tombstones.of(id);
        tombstone.map_or(Ok(false), |tombstone| self.stays_erased(&tombstone))
    }

    /// Whether a line is part of a conversation that is erased and is not to be restored.
    fn is_part_erased(&mut self, parts: [Option<Uuid>; 4]) -> Result<bool> {
        for part in parts.into_iter().flatten() {
            if let Some(tombstone) = self.tombstones.of_part(part) {
                return self.stays_erased(&tombstone);
            }
        }
        Ok(false)
    }

    fn stays_erased(&mut self, tombstone: &str) -> Result<bool> {
        if self.restores {
            self.batch.log().restore(tombstone)?;
            self.tombstones.lift(tombstone);
        }
        Ok(!self.restores)
    }

    fn leave_out(&mut self, place: Place, is_new: bool, records: usize) {
        let report = self.report(place);
        report.erased += u64::from(is_new);
        report.left_out += records as u64;
    }
}
