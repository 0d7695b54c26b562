//! By what the lines are known that are to be erased, and pieces of them.

use std::collections::{BTreeMap, HashSet};

use serde_json::value::RawValue;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::Erasure;
use crate::error::Result;
use crate::index::{Hasher, KeyHash};
use crate::line::{Envelope, Value};
use crate::record::Kind;
use crate::segment::Stretch;
use crate::store::Store;

/// A run of bytes as long as this, shared with a text that is erased, is taken to be of it.
const PIECE_BYTES: usize = 24;
/// As many bytes as an id has as a text.
const ID_BYTES: usize = 36;
/// Of long texts, pieces are known from so many bytes to so many: any run of both lengths together
/// holds one.
const PIECE_STEP: usize = 8;
/// Of texts up to this length, every piece is known.
const SHORT_BYTES: usize = 4 << 10;

/// The fields that hold what was said and done.
const TEXTS: [&str; 11] = [
    "content",
    "tool_args",
    "tool_result",
    "error",
    "last_error",
    "inference_metadata",
    "arguments_json",
    "outcome_json",
    "error_msg",
    "diffs_json",
    "payload",
];

/// What is erased, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Traces {
    users: Vec<String>,
    conversations: HashSet<Uuid>,
    messages: HashSet<Uuid>,
    turns: HashSet<Uuid>,
    requests: HashSet<Uuid>,
    calls: HashSet<(Uuid, Vec<u8>)>,
    /// Hashes of pieces of the texts, as they stand in lines.
    pieces: HashSet<u64>,
    /// Messages of other conversations, which a thread's turns may be of.
    others: HashSet<Uuid>,
}

/// What a line is to who erases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trace {
    /// It is erased.
    Known,
    /// It holds no record that could tell.
    Unreadable,
    Other,
}

impl Traces {
    pub(super) fn of(what: &Erasure, store: &Store) -> Result<Traces> {
        let mut traces = Traces::default();
        match what {
            Erasure::Conversation(id) => _ = traces.conversations.insert(*id),
            Erasure::Request(id) => _ = traces.requests.insert(*id),
            Erasure::User(id) => traces.users = store.inner().user_ids(id)?,
        }
        Ok(traces)
    }

    /// The conversations that are erased. However many messages they have by now, they go.
    pub(super) fn talks(&self, hasher: Hasher) -> Vec<(KeyHash, u64)> {
        let key = |id: &Uuid| hasher.key([&id.to_string(), ""]);
        let all = self.conversations.iter();
        all.map(|id| (key(id), u64::MAX)).collect()
    }

    /// What a line of a kind is; one that is erased is known by all that it says from then on.
    pub(super) fn judge(&mut self, kind: Kind, line: &[u8]) -> Trace {
        let mut found = Vec::new();
        let stretch = Stretch::Line {
            offset: 0,
            bytes: line,
        };
        stretch.classified(kind).facts(kind, &mut |fact| {
            found.push(self.is_of(kind, fact.envelope));
        });
        // Whole lines that are glued to others: what of them goes takes the rest with it only if
        // all of it goes.
        if found.is_empty() || found.len() > 1 && !found.iter().all(|is_of| *is_of) {
            return Trace::Unreadable;
        }
        if !found[0] {
            return Trace::Other;
        }
        self.learn(line);
        Trace::Known
    }

    /// Whether a line's record is erased.
    fn is_of(&mut self, kind: Kind, envelope: &Envelope<'_>) -> bool {
        let lookup = |place: usize| envelope.lookups[place].as_ref();
        let id_at = |place: usize| lookup(place).and_then(uuid);
        let Some(id) = uuid(&envelope.key[0]) else {
            return false;
        };
        match kind {
            Kind::Conversations => {
                let is_theirs = lookup(3).is_some_and(|user| {
                    let mut room = [0; Value::BYTES];
                    let user = user.text(&mut room);
                    self.users.iter().any(|known| known.as_bytes() == user)
                });
                if is_theirs {
                    self.conversations.insert(id);
                }
                self.conversations.contains(&id)
            }
            Kind::Messages => {
                let is_known = id_at(0).is_some_and(|talk| self.conversations.contains(&talk));
                if is_known {
                    self.messages.insert(id);
                } else if !self.conversations.is_empty() {
                    self.others.insert(id);
                }
                is_known
            }
            Kind::ConversationTurns => {
                let message = id_at(1);
                let is_of_known = message.is_some_and(|id| self.messages.contains(&id));
                // A thread may hold turns of another conversation, as a sub-agent's are.
                let is_of_other = message.is_some_and(|id| self.others.contains(&id));
                let is_in_thread = id_at(2).is_some_and(|id| self.conversations.contains(&id));
                if is_of_known || is_in_thread && !is_of_other {
                    self.turns.insert(id);
                }
                self.turns.contains(&id)
            }
            Kind::ToolCalls => {
                let mut room = [0; Value::BYTES];
                let call = (id, envelope.key[1].text(&mut room).to_vec());
                let is_under = id_at(0).is_some_and(|id| {
                    let known = [&self.conversations, &self.messages, &self.turns];
                    known.iter().any(|known| known.contains(&id))
                });
                if is_under {
                    self.calls.insert(call.clone());
                }
                self.calls.contains(&call) || self.requests.contains(&id)
            }
            Kind::CodeEditProposals => self.requests.contains(&id),
            _ => false,
        }
    }

    /// Notes what a line says.
    fn learn(&mut self, line: &[u8]) {
        let members: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_slice(line);
        for (name, value) in members.unwrap_or_default() {
            if TEXTS.contains(&&*name) {
                let text = value.get().as_bytes();
                let is_short = text.len() <= SHORT_BYTES;
                let step = if is_short { 1 } else { PIECE_STEP };
                let pieces = text.windows(PIECE_BYTES).step_by(step);
                self.pieces.extend(pieces.map(xxh3_64));
            }
        }
    }

    /// Whether bytes hold any of it: an id, or a piece of a text.
    pub(super) fn are_in(&self, bytes: &[u8]) -> bool {
        let has_id = |window: &[u8]| {
            let text = str::from_utf8(window).ok();
            let id = text.and_then(|text| Uuid::parse_str(text).ok());
            id.is_some_and(|id| {
                let known = [
                    &self.conversations,
                    &self.messages,
                    &self.turns,
                    &self.requests,
                ];
                known.iter().any(|known| known.contains(&id))
            })
        };
        let is_id = |window: &[u8]| window[8] == b'-' && window[13] == b'-' && has_id(window);
        bytes.windows(ID_BYTES).any(is_id)
            || bytes
                .windows(PIECE_BYTES)
                .any(|window| self.pieces.contains(&xxh3_64(window)))
    }
}

fn uuid(value: &Value<'_>) -> Option<Uuid> {
    match value {
        Value::Uuid(id) => Some(*id),
        Value::Text(text) => Uuid::try_parse_ascii(text).ok(),
        Value::Unescaped(text) => Uuid::try_parse(text).ok(),
        Value::Integer(_) => None,
    }
}
