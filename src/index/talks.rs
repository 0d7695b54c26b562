//! What the messages of each conversation add up to, kept up line by line.

use std::collections::HashMap;

use super::bytes::{In, Out};
use super::entry::{Entry, KeyHash, Loc, Measured};

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
    /// The last message with an error, by its sequence number in the log.
    pub error: Option<(u64, Loc)>,
    /// The greatest sequence of a message.
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
            named.chain(&mut talk.error).map(|(_, line)| line)
        })
    }

    /// Takes in a message that is new.
    pub(super) fn add(&mut self, entry: &Entry, measured: &Measured) {
        let talk = self.0.entry(measured.conversation).or_insert_with(|| Talk {
            message_count: 0,
            tokens_in: 0,
            tokens_out: 0,
            latency_ms: 0,
            models: Vec::new(),
            configs: Vec::new(),
            error: None,
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
        if measured.is_error {
            talk.error = Some((entry.seq, entry.loc));
        }
        talk.last_sequence = talk.last_sequence.max(entry.number);
        talk.latest = talk.latest.max(entry.at);
    }
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
            ] {
                out.u64(sum);
            }
            out.i64(talk.last_sequence);
            out.i64(talk.latest);
            for list in [&talk.models, &talk.configs, &Vec::from_iter(talk.error)] {
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
                last_sequence: from.i64()?,
                latest: from.i64()?,
                models: lines(from)?,
                configs: lines(from)?,
                error: lines(from)?.pop(),
            };
            talks.insert(conversation, talk);
        }
        Some(Talks(talks))
    }
}

/// A talk with no lines.
const TALK_BYTES_MIN: usize = 84;

fn lines(from: &mut In<'_>) -> Option<Vec<(u64, Loc)>> {
    let lines = (0..from.count(16)?).map(|_| Some((from.u64()?, from.loc()?)));
    lines.collect()
}
