//! What the messages of each conversation add up to, kept up line by line.

use std::collections::HashMap;

use super::bytes::{In, Out};
use super::entry::{Entry, KeyHash, Loc, Measured};
use crate::line::Op;
use crate::record::{ConversationStatus, NUMBER_MAX, Role};

/// The state of a conversation's row that stands for its status.
pub(crate) const fn status_state(status: ConversationStatus) -> Op {
    match status {
        ConversationStatus::Active => Op::Created,
        ConversationStatus::Completed => Op::Completed,
        ConversationStatus::Error => Op::Failed,
    }
}

/// What a message says of the status of its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Nothing,
    Error,
    /// It is an answer without an error.
    Well,
}

impl Says {
    /// The state of a conversation whose own last line, before the message, said `said`.
    pub(super) fn state(self, said: Op) -> Op {
        const ERROR: Op = status_state(ConversationStatus::Error);
        match self {
            Says::Error => ERROR,
            Says::Well if said == ERROR => status_state(ConversationStatus::Active),
            Says::Nothing | Says::Well => said,
        }
    }
}

/// The sums of one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Talk {
    pub message_count: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub latency_ms: u64,
    /// A message of each model, in the order of first use: it has the name.
    pub models: Vec<(u64, Loc)>,
    /// A message of each configuration, likewise.
    pub configs: Vec<(u64, Loc)>,
    /// The last message with an error, with its sequence number in the log, unless an answer without
    /// one follows it in the conversation.
    pub error: Option<(u64, Loc)>,
    /// The sequence number in the log of the last answer without an error, or 0.
    pub answered: u64,
    /// The greatest sequence of a message with an error and of an answer; -1 if there is none. A
    /// message that is recorded late, before it in the conversation, says nothing of the status.
    pub said_at: i64,
    /// The last request, with its sequence number in the log, if it has a task type.
    pub asked: Option<(u64, Loc)>,
    /// The greatest sequence of a request; -1 if there is none.
    pub asked_at: i64,
    /// The greatest sequence of a message that is numbered on from; -1 if there is none.
    pub last_sequence: i64,
    /// The latest time of a message.
    pub latest: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Talks(HashMap<KeyHash, Talk>);

impl Talks {
    pub(crate) fn get(&self, conversation: KeyHash) -> Option<&Talk> {
        self.0.get(&conversation)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Talk> {
        self.0.values()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn remove(&mut self, conversation: KeyHash) {
        self.0.remove(&conversation);
    }

    /// Where the lines stand that the sums point to.
    pub(super) fn lines_mut(&mut self) -> impl Iterator<Item = &mut Loc> {
        self.0.values_mut().flat_map(|talk| {
            let named = talk.models.iter_mut().chain(&mut talk.configs);
            let named = named.chain(&mut talk.error);
            named.chain(&mut talk.asked).map(|(_, line)| line)
        })
    }

    /// What the messages of each conversation said last of its status, and the sequence number in
    /// the log of the one that did.
    pub(super) fn said(&self) -> impl Iterator<Item = (KeyHash, Says, u64)> {
        let talks = self.0.iter();
        talks.filter_map(|(conversation, talk)| match talk.error {
            Some((seq, _)) => Some((*conversation, Says::Error, seq)),
            None if talk.answered > 0 => Some((*conversation, Says::Well, talk.answered)),
            None => None,
        })
    }

    /// Takes in a message that is new; what it says of its conversation's status.
    pub(super) fn add(&mut self, entry: &Entry, measured: &Measured) -> Says {
        let talk = self.0.entry(measured.conversation).or_insert_with(|| Talk {
            message_count: 0,
            tokens_in: 0,
            tokens_out: 0,
            latency_ms: 0,
            models: Vec::new(),
            configs: Vec::new(),
            error: None,
            answered: 0,
            said_at: -1,
            asked: None,
            asked_at: -1,
            last_sequence: -1,
            latest: entry.at,
        });
        talk.message_count += 1;
        talk.tokens_in = talk.tokens_in.saturating_add(measured.tokens_in);
        talk.tokens_out = talk.tokens_out.saturating_add(measured.tokens_out);
        talk.latency_ms = talk.latency_ms.saturating_add(measured.latency_ms);
        for (names, name) in [
            (&mut talk.models, measured.model),
            (&mut talk.configs, measured.config),
        ] {
            if let Some(name) = name
                && !names.iter().any(|(known, _)| *known == name)
            {
                names.push((name, entry.loc));
            }
        }
        if entry.number <= NUMBER_MAX {
            talk.last_sequence = talk.last_sequence.max(entry.number);
        }
        talk.latest = talk.latest.max(entry.at);
        if measured.role == Some(Role::User) && is_last(entry.number, &mut talk.asked_at) {
            talk.asked = measured.has_task_type.then_some((entry.seq, entry.loc));
        }
        let is_answer = measured.role == Some(Role::Assistant);
        if !(measured.is_error || is_answer) || !is_last(entry.number, &mut talk.said_at) {
            return Says::Nothing;
        }
        if measured.is_error {
            talk.error = Some((entry.seq, entry.loc));
            return Says::Error;
        }
        talk.error = None;
        talk.answered = entry.seq;
        Says::Well
    }
}

/// Whether a message is past those before it in its conversation, whose greatest sequence this is
/// and is raised to its own. A number that the log does not go on from counts, and raises nothing.
fn is_last(sequence: i64, greatest: &mut i64) -> bool {
    if sequence > NUMBER_MAX {
        return true;
    }
    let is_last = sequence >= *greatest;
    *greatest = sequence.max(*greatest);
    is_last
}

impl Talks {
    pub(super) fn dump(&self, out: &mut Out<'_>) {
        out.count(self.0.len());
        for (conversation, talk) in &self.0 {
            out.u64(conversation.hash);
            out.u32(conversation.check);
            for sum in [
                talk.message_count,
                talk.tokens_in,
                talk.tokens_out,
                talk.latency_ms,
                talk.answered,
            ] {
                out.u64(sum);
            }
            for number in [talk.said_at, talk.asked_at, talk.last_sequence, talk.latest] {
                out.i64(number);
            }
            let (error, asked) = (Vec::from_iter(talk.error), Vec::from_iter(talk.asked));
            for list in [&talk.models, &talk.configs, &error, &asked] {
                out.count(list.len());
                for (number, line) in list {
                    out.u64(*number);
                    out.loc(*line);
                }
            }
        }
    }

    pub(super) fn load(from: &mut In<'_>) -> Option<Talks> {
        let count = from.count(TALK_BYTES_MIN)?;
        let mut talks = HashMap::with_capacity(count);
        for _ in 0..count {
            let conversation = KeyHash {
                hash: from.u64()?,
                check: from.u32()?,
            };
            let talk = Talk {
                message_count: from.u64()?,
                tokens_in: from.u64()?,
                tokens_out: from.u64()?,
                latency_ms: from.u64()?,
                answered: from.u64()?,
                said_at: from.i64()?,
                asked_at: from.i64()?,
                last_sequence: from.i64()?,
                latest: from.i64()?,
                models: lines(from)?,
                configs: lines(from)?,
                error: lines(from)?.pop(),
                asked: lines(from)?.pop(),
            };
            talks.insert(conversation, talk);
        }
        Some(Talks(talks))
    }
}

/// A talk with no lines.
const TALK_BYTES_MIN: usize = 116;

fn lines(from: &mut In<'_>) -> Option<Vec<(u64, Loc)>> {
    let lines = (0..from.count(16)?).map(|_| Some((from.u64()?, from.loc()?)));
    lines.collect()
}
