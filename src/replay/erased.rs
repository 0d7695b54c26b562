//! Skips erased records in a replay into a store.

use std::collections::HashSet;

use uuid::Uuid;

use super::{Replay, Replayed};
use crate::record::Record;
use crate::store::Tombstones;

impl Replay {
    /// Removes erased conversations and requests with all related records, by the rules of
    /// [`Store::erase`](crate::Store::erase); returns the number of these records.
    pub(super) fn leave_out(&mut self, tombstones: &Tombstones) -> u64 {
        if tombstones.is_empty() {
            return 0;
        }
        let mut erased = Erased::default();
        let is_erased = |id: Uuid, line: &Replayed| tombstones.has(id, line.seq);
        for line in &self.lines {
            if let Record::Conversation(talk) | Record::ConversationUpdated(talk) = &line.record {
                // A sub-agent's records are erased with its session.
                let session = talk.session_id.as_deref().map(Uuid::try_parse);
                let of_session = session.and_then(Result::ok);
                let of_session = of_session.is_some_and(|id| is_erased(id, line));
                if of_session || is_erased(talk.id, line) {
                    erased.talks.insert(talk.id);
                }
            }
        }
        // A line may belong to later lines.
        for line in &self.lines {
            if let Record::Message(message) = &line.record {
                let talk = message.conversation_id;
                let is_of_talk = erased.talks.contains(&talk) || is_erased(talk, line);
                let is_erased = is_of_talk || tombstones.has_part(message.id, line.seq);
                let known = if is_erased {
                    &mut erased.messages
                } else {
                    &mut erased.others
                };
                known.insert(message.id);
            }
        }
        for line in &self.lines {
            if let Record::Turn(turn) = &line.record {
                let is_of_other = erased.others.contains(&turn.message_id);
                let is_in_thread =
                    turn.thread_id.is_some_and(|id| is_erased(id, line)) && !is_of_other;
                let is_part = erased.messages.contains(&turn.message_id);
                if is_in_thread || is_part || tombstones.has_part(turn.id, line.seq) {
                    erased.turns.insert(turn.id);
                }
            }
        }
        for line in &self.lines {
            if let Record::CallRequested(req) = &line.record {
                let under = req.parent_id;
                let known = [&erased.messages, &erased.turns];
                let is_under =
                    known.iter().any(|known| known.contains(&under)) || is_erased(under, line);
                if is_under || is_erased(req.request_id, line) {
                    erased.calls.insert((req.request_id, req.call_id.clone()));
                }
            }
        }
        let before = self.lines.len();
        self.lines.retain(|line| match &line.record {
            Record::Conversation(talk) | Record::ConversationUpdated(talk) => {
                !erased.talks.contains(&talk.id)
            }
            Record::Message(message) => !erased.messages.contains(&message.id),
            Record::Turn(turn) => !erased.turns.contains(&turn.id),
            Record::CallRequested(req) => !erased
                .calls
                .contains(&(req.request_id, req.call_id.clone())),
            Record::CallDone(done) => {
                let call = (done.request_id, done.call_id.clone());
                !erased.calls.contains(&call) && !is_erased(done.request_id, line)
            }
            Record::Proposal(proposal) => !is_erased(proposal.request_id, line),
            Record::ProposalStep(step) => !is_erased(step.request_id, line),
            _ => true,
        });
        (before - self.lines.len()) as u64
    }
}

/// The erased ids among the lines.
#[derive(Default)]
struct Erased {
    talks: HashSet<Uuid>,
    messages: HashSet<Uuid>,
    /// Messages of other conversations, which turns of an erased thread may belong to.
    others: HashSet<Uuid>,
    turns: HashSet<Uuid>,
    calls: HashSet<(Uuid, String)>,
}
