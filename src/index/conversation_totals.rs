//! The totals of each conversation's messages, updated line by line.

use std::sync::Arc;

use super::blob::{Out, Source};
use super::bytes::{Codec, In, fields};
use super::dump::Part;
use super::entry::{Entry, KeyHash, Loc, Measured};
use super::keyed::{Key, Keyed};
use super::paged::{Item, per_block};
use super::slots::tag_of;
use crate::line::Op;
use crate::record::{ConversationStatus, NUMBER_MAX, Role};

/// The state of a conversation's row that represents a status.
pub(crate) const fn status_state(status: ConversationStatus) -> Op {
    match status {
        ConversationStatus::Active => Op::Created,
        ConversationStatus::Completed => Op::Completed,
        ConversationStatus::Error => Op::Failed,
    }
}

/// The effect of a message on the status of its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusSignal {
    Error,
    /// An answer without an error.
    Well,
}

impl StatusSignal {
    /// The new state of a conversation whose last own line has the state `said`.
    pub(super) fn state(self, said: Op) -> Op {
        const ERROR: Op = status_state(ConversationStatus::Error);
        match self {
            StatusSignal::Error => ERROR,
            StatusSignal::Well if said == ERROR => status_state(ConversationStatus::Active),
            StatusSignal::Well => said,
        }
    }
}

/// The totals of one conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConversationSums {
    pub message_count: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub latency_ms: u64,
    pub cost_nano_usd: u64,
    /// Number of messages with a cost.
    pub cost_count: u64,
    /// Number of messages with an error.
    pub errors: u64,
    /// Number of messages with an error or an error type.
    pub failures: u64,
    /// One message of each model, in the order of first use. Its line has the name.
    pub models: Vec<(u64, Loc)>,
    /// One message of each configuration, in the same way.
    pub configs: Vec<(u64, Loc)>,
    /// The last message with an error, with its sequence number in the log. `None` if an answer
    /// without an error follows it in the conversation.
    pub error: Option<(u64, Loc)>,
    /// The sequence number in the log of the last answer without an error, or 0.
    pub answered: u64,
    /// The greatest message sequence of an error or answer; -1 if there is none. A message that is
    /// recorded late, with a smaller sequence, does not change the status.
    pub said_at: i64,
    /// The last request, with its sequence number in the log, if it has a task type.
    pub asked: Option<(u64, Loc)>,
    /// The greatest message sequence of a request; -1 if there is none.
    pub asked_at: i64,
    /// The greatest message sequence from which numbering continues; -1 if there is none.
    pub last_sequence: i64,
    /// The latest time of a message.
    pub latest: i64,
}

#[derive(Debug, Default)]
pub(crate) struct ConversationTotals(Keyed<KeyHash, ConversationSums>);

impl Key for KeyHash {
    fn tag(self) -> u32 {
        tag_of(self.hash)
    }
}

impl Item for (KeyHash, Option<ConversationSums>) {
    const PER_BLOCK: usize = per_block(64);
}

impl ConversationTotals {
    pub(crate) fn get(&self, conversation: KeyHash) -> Option<&ConversationSums> {
        self.0.get(conversation)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ConversationSums> {
        self.0.iter().map(|(_, sums)| sums)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn remove(&mut self, conversation: KeyHash) {
        self.0.remove(conversation);
    }

    /// Calls `change` with the location of each line that the totals refer to, until it returns
    /// `false`.
    pub(super) fn change_lines(&mut self, mut change: impl FnMut(&mut Loc) -> bool) -> bool {
        self.0.all_mut(|_, sums| {
            sums.iter_mut().all(|sums| {
                let named = sums.models.iter_mut().chain(&mut sums.configs);
                let named = named.chain(&mut sums.error).chain(&mut sums.asked);
                let mut lines = named.map(|(_, line)| line);
                lines.all(&mut change)
            })
        })
    }

    /// For each conversation, the last status signal from its messages, with the sequence number of
    /// that message in the log.
    pub(super) fn said(&self) -> impl Iterator<Item = (KeyHash, StatusSignal, u64)> {
        let conversations = self.0.iter();
        conversations.filter_map(|(conversation, sums)| match sums.error {
            Some((seq, _)) => Some((conversation, StatusSignal::Error, seq)),
            None if sums.answered > 0 => Some((conversation, StatusSignal::Well, sums.answered)),
            None => None,
        })
    }

    /// Adds a new message. Returns its effect on the conversation's status.
    pub(super) fn add(&mut self, entry: &Entry, measured: &Measured) -> Option<StatusSignal> {
        let new = || ConversationSums {
            said_at: -1,
            asked_at: -1,
            last_sequence: -1,
            latest: entry.at,
            ..ConversationSums::default()
        };
        let sums = self.0.get_or_insert(measured.conversation, new)?;
        sums.message_count += 1;
        sums.tokens_in = sums.tokens_in.saturating_add(measured.tokens_in);
        sums.tokens_out = sums.tokens_out.saturating_add(measured.tokens_out);
        sums.latency_ms = sums.latency_ms.saturating_add(measured.latency_ms);
        if let Some(cost) = measured.cost_nano_usd {
            sums.cost_nano_usd = sums.cost_nano_usd.saturating_add(cost);
            sums.cost_count += 1;
        }
        sums.errors += u64::from(measured.is_error);
        sums.failures += u64::from(measured.is_failure);
        for (names, name) in [
            (&mut sums.models, measured.model),
            (&mut sums.configs, measured.config),
        ] {
            if let Some(name) = name
                && !names.iter().any(|(known, _)| *known == name)
            {
                names.push((name, entry.loc));
            }
        }
        if entry.number <= NUMBER_MAX {
            sums.last_sequence = sums.last_sequence.max(entry.number);
        }
        sums.latest = sums.latest.max(entry.at);
        if measured.role == Some(Role::User) && is_last(entry.number, &mut sums.asked_at) {
            sums.asked = measured.has_task_type.then_some((entry.seq, entry.loc));
        }
        let is_answer = measured.role == Some(Role::Assistant);
        if !(measured.is_error || is_answer) || !is_last(entry.number, &mut sums.said_at) {
            return None;
        }
        if measured.is_error {
            sums.error = Some((entry.seq, entry.loc));
            return Some(StatusSignal::Error);
        }
        sums.error = None;
        sums.answered = entry.seq;
        Some(StatusSignal::Well)
    }
}

/// Whether a message has no smaller sequence than those before it in its conversation. Raises
/// `greatest` to its sequence. A sequence beyond `NUMBER_MAX` passes but does not raise `greatest`,
/// because numbering does not continue from it.
fn is_last(sequence: i64, greatest: &mut i64) -> bool {
    if sequence > NUMBER_MAX {
        return true;
    }
    let is_last = sequence >= *greatest;
    *greatest = sequence.max(*greatest);
    is_last
}

fields!(ConversationSums, SUMS_BYTES_MIN, message_count tokens_in tokens_out latency_ms cost_nano_usd cost_count errors failures
    answered said_at asked_at last_sequence latest models configs error asked);
fields!(KeyHash, 12, hash check);

impl Part for ConversationTotals {
    type Of = ();

    fn new((): ()) -> ConversationTotals {
        ConversationTotals::default()
    }

    fn read((): (), root: &mut In<'_>, source: &Arc<Source>) -> Option<ConversationTotals> {
        Keyed::read(root, source).map(ConversationTotals)
    }

    fn dump(&self, out: &mut Out<'_>, root: &mut Vec<u8>) {
        self.0.dump(out, root);
    }

    fn evict(&mut self) {
        self.0.evict();
    }
}

/// Size in a dump, in bytes, of a conversation's totals that refer to no lines.
const SUMS_BYTES_MIN: usize = 136;
