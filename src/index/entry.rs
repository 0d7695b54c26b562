//! The data that the index takes from a line.

use uuid::Uuid;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::line::{Envelope, LOOKUPS_MAX, Measures, Op, Value};
use crate::record::{ConversationStatus, Kind, Role};

/// The location of a line: where it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Loc {
    /// Index in the store's list of segments.
    pub segment: u32,
    pub offset: u32,
}

impl Loc {
    pub(crate) const NONE: Loc = Loc {
        segment: u32::MAX,
        offset: u32::MAX,
    };

    pub(crate) fn is_some(self) -> bool {
        self != Loc::NONE
    }
}

/// The hash of a record's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash {
    pub hash: u64,
    /// More bits of the hash. They make collisions improbable where reading both lines to compare
    /// the keys would cost too much, such as while a whole store is indexed.
    pub check: u32,
}

/// One line, as input of the index.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub seq: u64,
    pub at: i64,
    pub loc: Loc,
    pub key: KeyHash,
    /// Hashes of the lookup fields; 0 for a field that is absent.
    pub lookups: [u32; LOOKUPS_MAX],
    pub op: Op,
    /// The line was edited after it was written, so its own metadata is not reliable.
    pub is_altered: bool,
    /// As [`Envelope::number`].
    pub number: i64,
    /// Few lines have this.
    pub sums: Option<Box<Sums>>,
}

impl Entry {
    /// Sets the sequence number that was inferred for the line.
    pub(crate) fn set_seq(&mut self, kind: Kind, seq: u64) {
        self.seq = seq;
        // Thoughts are ordered by sequence number.
        if kind == Kind::ThoughtRecords {
            self.number = i64::try_from(seq).unwrap_or(i64::MAX);
        }
    }

    /// The sort key of lines within a kind.
    pub(crate) fn order(&self) -> (u64, Loc) {
        (self.seq, self.loc)
    }
}

/// Indexes in [`Entry::lookups`] of the parts of a tool call's key.
pub(crate) const REQUEST_ID: usize = 3;
pub(crate) const CALL_ID: usize = 4;

/// Additional data that only some lines have.
#[derive(Debug, Clone)]
pub(crate) enum Sums {
    Message(Measured),
    /// The `update_id` of a task.
    Update(i64),
    Conversation(Said),
}

/// Additional data of a conversation line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said {
    pub status: ConversationStatus,
    /// The second halves of the hashes in [`Entry::lookups`].
    pub checks: [u32; LOOKUPS_MAX],
}

/// The contribution of a message to the totals of its conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub conversation: KeyHash,
    /// Hashes of the names of the model and the configuration.
    pub model: Option<u64>,
    pub config: Option<u64>,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub latency_ms: u64,
    pub cost_nano_usd: Option<u64>,
    pub is_error: bool,
    pub is_failure: bool,
    pub role: Option<Role>,
    pub has_task_type: bool,
}

/// Hashes keys and lookup values. The seed is the store's id, so that only someone who can read the
/// store can choose values that collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hasher {
    seed: u64,
}

impl Hasher {
    pub(crate) fn new(store_id: Uuid) -> Hasher {
        let (high, low) = store_id.as_u64_pair();
        Hasher {
            seed: high ^ low.rotate_left(32),
        }
    }

    pub(crate) fn key(self, parts: [&str; 2]) -> KeyHash {
        self.key_of_bytes(parts.map(str::as_bytes))
    }

    pub(crate) fn key_of(self, [one, two]: [&Value<'_>; 2]) -> KeyHash {
        let mut texts = [[0; Value::BYTES]; 2];
        let [first, second] = &mut texts;
        self.key_of_bytes([one.text(first), two.text(second)])
    }

    fn key_of_bytes(self, parts: [&[u8]; 2]) -> KeyHash {
        let wide = match parts {
            [one, []] => xxh3_128_with_seed(one, self.seed),
            [one, two] => {
                let first = xxh3_64_with_seed(one, self.seed);
                xxh3_128_with_seed(two, first)
            }
        };
        KeyHash {
            hash: wide as u64,
            check: (wide >> 64) as u32,
        }
    }

    /// The hash of a lookup value; never 0.
    pub(crate) fn lookup(self, value: &(impl AsRef<[u8]> + ?Sized)) -> u32 {
        (xxh3_64_with_seed(value.as_ref(), self.seed) as u32).max(1)
    }

    /// The second half of a lookup value's hash.
    pub(crate) fn check(self, value: &(impl AsRef<[u8]> + ?Sized)) -> u32 {
        (xxh3_64_with_seed(value.as_ref(), self.seed) >> 32) as u32
    }

    pub(crate) fn entry(self, kind: Kind, envelope: &Envelope<'_>, loc: Loc) -> Entry {
        let [one, two] = &envelope.key;
        let first = envelope.lookups[0].as_ref();
        let sums = match (kind, envelope.measures(), first) {
            (Kind::Messages, Some(measures), Some(conversation)) => {
                let conversation = self.key_of([conversation, &Value::EMPTY]);
                Some(Sums::Message(self.measured(conversation, &measures)))
            }
            (Kind::Inbox, _, Some(update_id)) => update_id.integer().map(Sums::Update),
            (Kind::Conversations, ..) => Some(Sums::Conversation(Said {
                status: envelope.status().unwrap_or_default(),
                checks: each_lookup(envelope, |value| self.check(value)),
            })),
            _ => None,
        };
        let mut lookups = each_lookup(envelope, |value| self.lookup(value));
        if kind == Kind::ToolCalls {
            // Hash each part of the key separately.
            let of_part = |part: &Value<'_>| self.lookup(part.text(&mut [0; Value::BYTES]));
            lookups[REQUEST_ID] = of_part(one);
            lookups[CALL_ID] = of_part(two);
        }
        Entry {
            seq: envelope.seq,
            at: envelope.at,
            loc,
            key: self.key_of([one, two]),
            lookups,
            op: envelope.op,
            is_altered: false,
            number: envelope.number,
            sums: sums.map(Box::new),
        }
    }

    fn measured(self, conversation: KeyHash, measures: &Measures<'_>) -> Measured {
        let name = |name: &str| xxh3_64_with_seed(name.as_bytes(), self.seed);
        Measured {
            conversation,
            model: measures.model_used.as_deref().map(name),
            config: measures.config_used.as_deref().map(name),
            tokens_in: measures.tokens_in,
            tokens_out: measures.tokens_out,
            latency_ms: measures.latency_ms,
            cost_nano_usd: measures.cost_nano_usd,
            is_error: measures.is_error,
            is_failure: measures.is_failure,
            role: measures.role,
            has_task_type: measures.has_task_type,
        }
    }
}

/// Hashes each lookup field; 0 for a field that is absent.
fn each_lookup(envelope: &Envelope<'_>, hash: impl Fn(&[u8]) -> u32) -> [u32; LOOKUPS_MAX] {
    let hash_of = |value: &Value<'_>| hash(value.text(&mut [0; Value::BYTES]));
    let lookups = envelope.lookups.each_ref();
    lookups.map(|value| value.as_ref().map_or(0, hash_of))
}
