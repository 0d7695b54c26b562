//! Recognizes lines to erase, and fragments of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::value::RawValue;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::Erasure;
use crate::error::Result;
use crate::index::{Hasher, KeyHash};
use crate::line::{Envelope, LINE_BYTES_MAX, Value, is_intact};
use crate::privacy::key_of;
use crate::record::Kind;
use crate::record::declare::{Class, Field};
use crate::segment::Stretch;
use crate::store::{Store, key_of_value};

/// Minimum length of a run of bytes that identifies a piece of an erased text.
const PIECE_BYTES: usize = 24;
/// Length of the text of an id.
const ID_BYTES: usize = 36;
/// In long texts, pieces are recorded at this interval. Any run of `PIECE_BYTES + PIECE_STEP` bytes
/// contains one.
const PIECE_STEP: usize = 8;
/// In texts up to this length, every piece is recorded.
const SHORT_BYTES: usize = 4 << 10;

/// Whether a field has a text that may be recognized in damaged bytes.
fn has_text(field: &Field) -> bool {
    use Class::{Arguments, Content, Metadata, Output, Payload, Said};
    matches!(
        field.class,
        Content | Said | Output | Arguments | Payload | Metadata
    )
}

/// Maximum number of pieces of a split line that are joined.
const SPLIT_MAX: usize = 8;

/// The known ids and texts of the erased data.
#[derive(Debug, Default)]
pub(super) struct Traces {
    users: Vec<String>,
    /// Fingerprints of other keys under which user ids are hashed.
    pub(super) other_keys: BTreeSet<String>,
    /// The requested conversation.
    given: Option<Uuid>,
    conversations: HashSet<Uuid>,
    /// The conversation of each message.
    messages: HashMap<Uuid, Uuid>,
    /// The conversation or thread of each turn.
    turns: HashMap<Uuid, Uuid>,
    /// The turns before those, each with the thread of a turn that follows it.
    before: HashMap<Uuid, Uuid>,
    requests: HashSet<Uuid>,
    calls: HashSet<(Uuid, Vec<u8>)>,
    /// Hashes of pieces of the texts, as encoded in lines.
    pieces: HashSet<u64>,
    /// The session ids of those conversations.
    sessions: HashSet<Vec<u8>>,
    /// Other conversations of these sessions, such as those of sub-agents.
    agents: HashSet<Uuid>,
    /// The messages of those conversations. Turns of an erased thread may belong to them.
    others: HashSet<Uuid>,
    /// Hashes of the pieces of split lines, with the result for the whole line.
    split: HashMap<u64, Trace>,
}

/// The result of checking a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trace {
    /// It is erased, and shows by itself why: it is linked by an id in it, by another kind or by
    /// the request.
    Leads,
    /// It is erased, but is recognized only through other lines.
    Follows,
    /// It contains some of the data and complete other records.
    Mixed,
    Other,
}

/// A checked line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    pub trace: Trace,
    /// The hash of its record's key; `None` if it is not exactly one record. Such a line must be
    /// checked again when all the data is known.
    pub key: Option<u64>,
}

impl Judged {
    pub(super) fn leads(self) -> bool {
        self.trace == Trace::Leads
    }

    pub(super) fn follows(self) -> bool {
        self.trace == Trace::Follows && self.key.is_some()
    }

    pub(super) fn is_damaged(self) -> bool {
        self.trace == Trace::Follows && self.key.is_none()
    }
}

impl Traces {
    pub(super) fn of(what: &Erasure, store: &Store) -> Result<Traces> {
        let mut traces = Traces::default();
        match what {
            Erasure::Conversation(id) => {
                traces.given = Some(*id);
                traces.conversations.insert(*id);
                traces.sessions.insert(id.to_string().into_bytes());
            }
            Erasure::Request(id) => _ = traces.requests.insert(*id),
            Erasure::User(id) => traces.users = store.inner().policies().user_ids(id)?,
        }
        Ok(traces)
    }

    /// The erased conversations. The count is the maximum, so that any number of messages is
    /// removed.
    pub(super) fn talks(&self, hasher: Hasher) -> Vec<(KeyHash, u64)> {
        let key = |id: &Uuid| hasher.key([&id.to_string(), ""]);
        let all = self.conversations.iter();
        all.map(|id| (key(id), u64::MAX)).collect()
    }

    /// The erased conversations and requests, each with its messages and turns.
    pub(super) fn tombstones(&self) -> BTreeMap<Uuid, Vec<Uuid>> {
        let asked_for = self.conversations.iter().chain(&self.requests);
        let mut tombstones: BTreeMap<Uuid, Vec<Uuid>> =
            asked_for.map(|id| (*id, Vec::new())).collect();
        for (part, of) in self.messages.iter().chain(&self.turns) {
            tombstones.entry(*of).or_default().push(*part);
        }
        tombstones
    }

    /// The turns before the erased ones, each with the thread of a turn that follows it.
    pub(super) fn before(&self) -> impl Iterator<Item = (Uuid, Uuid)> {
        let others = self.before.iter();
        let others = others.filter(|(turn, _)| !self.turns.contains_key(*turn));
        others.map(|(turn, thread)| (*turn, *thread))
    }

    /// Number of known ids that can lead to further lines.
    pub(super) fn leads(&self) -> usize {
        let talks = self.conversations.len() + self.sessions.len() + self.agents.len();
        talks + self.messages.len() + self.turns.len() + self.calls.len()
    }

    /// Checks a line of a kind. The contents of an erased line are recorded, to recognize further
    /// lines.
    pub(super) fn judge(&mut self, kind: Kind, line: &[u8]) -> Judged {
        let stretch = Stretch::line(0, line);
        let (mut traces, mut key, mut whole) = (Vec::new(), None, Vec::new());
        stretch.classified(kind).facts(kind, &mut |fact| {
            let trace = self.trace(kind, fact.envelope);
            if trace != Trace::Other {
                self.learn(kind, fact.bytes);
            }
            traces.push(trace);
            key = Some(hash_of(fact.envelope));
            let start = fact.offset as usize;
            whole.push(start..start + fact.bytes.len());
        });
        if let [trace] = traces[..]
            && whole[0] == (0..line.len())
        {
            return Judged { trace, key };
        }
        // Complete lines may be joined to each other and to fragments.
        let mut rest = line.to_vec();
        for range in whole {
            rest[range].fill(b'\n');
        }
        let piece = self.split.get(&xxh3_64(line)).copied();
        traces.extend(piece.or_else(|| self.are_in(&rest).then_some(Trace::Follows)));
        let has = |trace| traces.contains(&trace);
        let trace = match (has(Trace::Leads), has(Trace::Follows)) {
            (false, false) => Trace::Other,
            _ if has(Trace::Other) => Trace::Mixed,
            (true, _) => Trace::Leads,
            _ => Trace::Follows,
        };
        Judged { trace, key: None }
    }

    /// Checks whether a line without a record forms a complete line together with the lines
    /// directly before it. If so, all of them get the result of that line.
    pub(super) fn join(&mut self, kind: Kind, before: &mut Vec<Vec<u8>>, line: &[u8]) {
        if before.len() == SPLIT_MAX {
            before.remove(0);
        }
        before.push(line.to_vec());
        for first in (0..before.len() - 1).rev() {
            let whole = before[first..].concat();
            if whole.len() >= LINE_BYTES_MAX {
                return;
            }
            if !is_intact(&whole) {
                continue;
            }
            let trace = self.judge(kind, &whole).trace;
            if trace != Trace::Other {
                let pieces = before[first..].iter().filter(|piece| !piece.is_empty());
                self.split
                    .extend(pieces.map(|piece| (xxh3_64(piece), trace)));
            }
            before.clear();
            return;
        }
    }

    /// Checks a record.
    fn trace(&mut self, kind: Kind, envelope: &Envelope<'_>) -> Trace {
        let lookup = |place: usize| envelope.lookups[place].as_ref();
        let id_at = |place: usize| lookup(place).and_then(uuid);
        let Some(id) = uuid(&envelope.key[0]) else {
            return Trace::Other;
        };
        let (leads, follows) = match kind {
            Kind::Conversations => self.trace_conversation(id, envelope),
            Kind::Messages => {
                let talk = id_at(0);
                let erased = talk.filter(|talk| self.conversations.contains(talk));
                if let Some(talk) = erased {
                    self.messages.insert(id, talk);
                } else if talk.is_some_and(|talk| self.agents.contains(&talk)) {
                    self.others.insert(id);
                }
                (erased.is_some(), false)
            }
            Kind::ConversationTurns => {
                let message = id_at(1);
                let of_message = message.and_then(|id| self.messages.get(&id).copied());
                // A sub-agent's turns belong to its session's thread and to its own conversation.
                let is_of_other = message.is_some_and(|id| self.others.contains(&id));
                let of_thread =
                    id_at(2).filter(|id| self.conversations.contains(id) && !is_of_other);
                let of = of_message.or(of_thread);
                if let Some(of) = of {
                    self.turns.insert(id, of);
                    let before = id_at(0).zip(id_at(2));
                    self.before.extend(before);
                }
                (of.is_some(), self.turns.contains_key(&id))
            }
            Kind::ToolCalls => {
                let mut room = [0; Value::BYTES];
                let call = (id, envelope.key[1].text(&mut room).to_vec());
                let is_under = id_at(0).is_some_and(|id| self.is_known(id));
                let follows = self.calls.contains(&call);
                if is_under {
                    self.calls.insert(call);
                }
                (is_under || self.requests.contains(&id), follows)
            }
            Kind::CodeEditProposals => (self.requests.contains(&id), false),
            _ => (false, false),
        };
        match (leads, follows) {
            (true, _) => Trace::Leads,
            (false, true) => Trace::Follows,
            _ => Trace::Other,
        }
    }

    /// Whether a conversation shows by itself that it is erased, and whether it is known to be
    /// erased.
    fn trace_conversation(&mut self, id: Uuid, envelope: &Envelope<'_>) -> (bool, bool) {
        let lookup = |place: usize| envelope.lookups[place].as_ref();
        let is_theirs = lookup(3).is_some_and(|user| {
            let mut room = [0; Value::BYTES];
            let user = user.text(&mut room);
            self.users.iter().any(|known| known.as_bytes() == user)
        });
        if is_theirs {
            self.conversations.insert(id);
        } else if let Some(user) = lookup(3) {
            self.note_key(user);
        }
        let mut room = [0; Value::BYTES];
        let session = lookup(4).map(|session| session.text(&mut room).to_vec());
        // A sub-agent's conversation is erased with the conversation that its session is named
        // after.
        let main = lookup(4).and_then(uuid);
        let parent = lookup(5).and_then(uuid);
        let mut above = main.into_iter().chain(parent);
        if above.any(|above| self.conversations.contains(&above)) {
            self.conversations.insert(id);
        }
        let is_erased = self.conversations.contains(&id);
        let is_given = |given| id == given || main == Some(given) || parent == Some(given);
        let leads = is_theirs || self.given.is_some_and(is_given);
        if let Some(session) = session {
            if is_erased {
                self.sessions.insert(session);
            } else if self.sessions.contains(&session) {
                self.agents.insert(id);
            }
        }
        (leads, is_erased)
    }

    /// Records the key under which a user id is hashed, if it is not the current one.
    fn note_key(&mut self, user: &Value<'_>) {
        // If the id was given in its hashed form, other keys are irrelevant.
        let given = self.users.first();
        let is_plain = given.is_some_and(|given| key_of(given).is_none());
        let Some(key) = key_of_value(user).filter(|_| is_plain) else {
            return;
        };
        if !self.users.iter().any(|user| key_of(user) == Some(&*key)) {
            self.other_keys.insert(key);
        }
    }

    /// Whether an id belongs to an erased conversation, message or turn.
    fn is_known(&self, id: Uuid) -> bool {
        self.conversations.contains(&id)
            || self.messages.contains_key(&id)
            || self.turns.contains_key(&id)
    }

    /// Records the texts of a line.
    fn learn(&mut self, kind: Kind, line: &[u8]) {
        let members: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_slice(line);
        for (name, value) in members.unwrap_or_default() {
            if kind
                .fields()
                .any(|field| field.name == name && has_text(field))
            {
                let text = value.get().as_bytes();
                let is_short = text.len() <= SHORT_BYTES;
                let step = if is_short { 1 } else { PIECE_STEP };
                let pieces = text.windows(PIECE_BYTES).step_by(step);
                self.pieces.extend(pieces.map(xxh3_64));
            }
        }
    }

    /// Whether a quarantined line contains some of the data.
    pub(super) fn are_in_line(&self, line: &[u8]) -> bool {
        self.split.contains_key(&xxh3_64(without_lf(line))) || self.are_in(line)
    }

    /// Whether bytes contain some of the data: an id, or a piece of a text.
    pub(super) fn are_in(&self, bytes: &[u8]) -> bool {
        let has_id = |window: &[u8]| {
            let text = str::from_utf8(window).ok();
            let id = text.and_then(|text| Uuid::parse_str(text).ok());
            id.is_some_and(|id| self.is_known(id) || self.requests.contains(&id))
        };
        let is_id = |window: &[u8]| window[8] == b'-' && window[13] == b'-' && has_id(window);
        bytes.windows(ID_BYTES).any(is_id)
            || bytes
                .windows(PIECE_BYTES)
                .any(|window| self.pieces.contains(&xxh3_64(window)))
    }
}

pub(super) fn without_lf(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

fn hash_of(envelope: &Envelope<'_>) -> u64 {
    let mut bytes = Vec::new();
    for part in &envelope.key {
        let mut room = [0; Value::BYTES];
        bytes.extend_from_slice(part.text(&mut room));
        bytes.push(0);
    }
    xxh3_64(&bytes)
}

fn uuid(value: &Value<'_>) -> Option<Uuid> {
    match value {
        Value::Uuid(id) => Some(*id),
        Value::Text(text) => Uuid::try_parse_ascii(text).ok(),
        Value::Unescaped(text) => Uuid::try_parse(text).ok(),
        Value::Integer(_) => None,
    }
}
