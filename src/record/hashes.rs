//! Sets of ids, stored as hashes. They recognize an id after its record was removed.

use std::fmt::Write as _;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Number of hex digits of a hash.
const DIGITS: usize = 16;

/// The hash of an id: the first 64 bits of the SHA-256 of its 16 bytes.
pub(crate) fn id_hash(id: Uuid) -> u64 {
    let digest = Sha256::digest(id.as_bytes());
    digest
        .iter()
        .take(DIGITS / 2)
        .fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// A set of ids, each stored as the first 64 bits of the SHA-256 of its 16 bytes. The probability
/// that an id outside the set is reported as a member is the length of the set divided by 2^64.
///
/// In JSON it is a string: the hashes in ascending order, 16 lower-case hex digits each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdHashes {
    /// Sorted in ascending order, without duplicates.
    hashes: Vec<u64>,
}

impl IdHashes {
    pub(crate) fn of(mut hashes: Vec<u64>) -> IdHashes {
        hashes.sort_unstable();
        hashes.dedup();
        IdHashes { hashes }
    }

    /// Whether an id is in the set.
    pub fn contains(&self, id: Uuid) -> bool {
        self.has(id_hash(id))
    }

    pub(crate) fn has(&self, hash: u64) -> bool {
        self.hashes.binary_search(&hash).is_ok()
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.hashes.iter().copied()
    }

    /// Number of ids that are in both sets.
    pub(crate) fn shared(&self, other: &IdHashes) -> usize {
        let mut theirs = other.iter().peekable();
        let is_shared = |our: &u64| {
            while theirs.next_if(|their| their < our).is_some() {}
            theirs.next_if_eq(our).is_some()
        };
        self.iter().filter(is_shared).count()
    }
}

impl Serialize for IdHashes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.len() * DIGITS);
        for hash in self.iter() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{hash:016x}");
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for IdHashes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IdHashes, D::Error> {
        let text = String::deserialize(deserializer)?;
        IdHashes::parse(text.as_bytes()).ok_or_else(|| {
            let message = "hashes are 16 lower-case hex digits each, in ascending order, each once";
            D::Error::custom(message)
        })
    }
}

impl IdHashes {
    /// Parses hex digits.
    pub(crate) fn parse(text: &[u8]) -> Option<IdHashes> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(u64::from(byte - b'0')),
            b'a'..=b'f' => Some(u64::from(byte - b'a') + 10),
            _ => None,
        };
        let (chunks, rest) = text.as_chunks::<DIGITS>();
        let mut hashes = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let mut hash = 0;
            for byte in chunk {
                hash = hash << 4 | digit(*byte)?;
            }
            hashes.push(hash);
        }
        let is_sorted = hashes.is_sorted_by(|one, next| one < next);
        (rest.is_empty() && is_sorted).then_some(IdHashes { hashes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_known_again_by_their_hashes() {
        let ids: Vec<Uuid> = (0..100).map(Uuid::from_u128).collect();
        let set = IdHashes::of(ids.iter().map(|id| id_hash(*id)).collect());
        assert_eq!(set.len(), 100);
        assert!(ids.iter().all(|id| set.contains(*id)));
        assert!(!set.contains(Uuid::from_u128(100)));
        let some = IdHashes::of((50..150).map(|n| id_hash(Uuid::from_u128(n))).collect());
        assert_eq!((set.shared(&some), some.shared(&set)), (50, 50));
        // printf '%s' 67e5504410b1426f9247bb680e5fe006 | xxd -r -p | sha256sum
        let id = Uuid::parse_str("67e55044-10b1-426f-9247-bb680e5fe006").unwrap();
        assert_eq!(format!("{:016x}", id_hash(id)), "988d0c1059aa0fcf");
    }

    #[test]
    fn only_what_is_in_order_is_read() {
        let set = IdHashes::of(vec![3, u64::MAX, 1, 3]);
        let json = serde_json::to_string(&set).unwrap();
        assert_eq!(json, "\"00000000000000010000000000000003ffffffffffffffff\"");
        assert_eq!(serde_json::from_str::<IdHashes>(&json).unwrap(), set);
        for json in [
            "\"00000000000000030000000000000001\"",
            "\"00000000000000010000000000000001\"",
            "\"000000000000000\"",
            "\"000000000000000A\"",
            "\"00000000000000 1\"",
            "1",
        ] {
            assert!(serde_json::from_str::<IdHashes>(json).is_err(), "{json}");
        }
    }
}
