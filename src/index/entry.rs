//! What the index keeps of a line.

use uuid::Uuid;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::line::{Envelope, Op};

/// Where a line starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Loc {
    /// The segment's place in the store's list of segments.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHash {
    pub hash: u64,
    /// More bits of the same key, so that two keys do not meet by chance where reading both
    /// lines would cost too much, as while a whole store is indexed.
    pub check: u32,
}

/// One line, as the index takes it in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub seq: u64,
    pub at: i64,
    pub loc: Loc,
    pub key: KeyHash,
    /// Hashes of what the record is found by; 0 where it has no such field.
    pub lookups: [u32; 3],
    pub op: Op,
}

/// Hashes keys and lookup values, seeded with the store's id so that no one who does not read
/// the store can choose values that collide.
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
        let wide = match parts {
            [one, ""] => xxh3_128_with_seed(one.as_bytes(), self.seed),
            [one, two] => {
                let first = xxh3_64_with_seed(one.as_bytes(), self.seed);
                xxh3_128_with_seed(two.as_bytes(), first)
            }
        };
        KeyHash {
            hash: wide as u64,
            check: (wide >> 64) as u32,
        }
    }

    /// The hash of a lookup value; never 0.
    pub(crate) fn lookup(self, value: &str) -> u32 {
        (xxh3_64_with_seed(value.as_bytes(), self.seed) as u32).max(1)
    }

    pub(crate) fn entry(self, envelope: &Envelope<'_>, loc: Loc) -> Entry {
        let [one, two] = &envelope.key;
        let lookup = |value: &Option<std::borrow::Cow<'_, str>>| {
            value.as_ref().map_or(0, |value| self.lookup(value))
        };
        let [a, b, c] = &envelope.lookups;
        Entry {
            seq: envelope.seq,
            at: envelope.at,
            loc,
            key: self.key([one, two]),
            lookups: [lookup(a), lookup(b), lookup(c)],
            op: envelope.op,
        }
    }
}
