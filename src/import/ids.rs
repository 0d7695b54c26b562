//! Ids: foreign ids are mapped to UUIDs, in the same way at every import.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

use uuid::Uuid;

pub(super) type IdMap<V> = HashMap<Uuid, V, IdHash>;
pub(super) type IdSet = HashSet<Uuid, IdHash>;

/// Hashes ids for the maps of an import, which looks up several ids per line. Files may contain any
/// ids, so the hash has a random seed against collision attacks.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdHash([u64; 2]);

impl Default for IdHash {
    fn default() -> IdHash {
        let random = RandomState::new();
        // Odd, so that multiplication modulo a power of two is invertible.
        IdHash([random.hash_one(0) | 1, random.hash_one(1) | 1])
    }
}

impl BuildHasher for IdHash {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher {
            seeds: self.0,
            hash: 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct IdHasher {
    seeds: [u64; 2],
    hash: u64,
}

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        for byte in rest {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, word: u64) {
        let [a, b] = self.seeds.map(u128::from);
        let product = (u128::from(word ^ self.hash) ^ a) * b;
        self.hash = (product as u64 ^ (product >> 64) as u64).rotate_left(23);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

/// The namespace of all ids derived by the import: `UUIDv5` of `https://decklog.dev/import` in the
/// URL namespace.
pub const NAMESPACE: Uuid = Uuid::from_u128(0x9e2e_0448_885d_554a_ae4d_caca_4721_5e7c);

/// Lengths of the textual forms of a UUID: without and with hyphens, in braces, as a URN.
const UUID_LENS: [usize; 4] = [32, 36, 38, 45];

/// Maps a foreign id to an id of the log: itself if it is a UUID, else [`named`].
///
/// ```
/// use decklog::import::foreign_id;
/// let own = "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9";
/// assert_eq!(foreign_id("claude-code:session", own).to_string(), own);
/// assert_eq!(
///     foreign_id("claude-code:message", "msg_01").get_version_num(),
///     5
/// );
/// ```
pub fn foreign_id(scope: &str, id: &str) -> Uuid {
    // For any other length, parsing would only build an error value.
    let own = UUID_LENS.contains(&id.len()).then(|| Uuid::try_parse(id));
    own.and_then(Result::ok).unwrap_or_else(|| named(scope, id))
}

/// The `UUIDv5` of `<scope>:<id>` in [`NAMESPACE`]. A scope is `<tool>:<what>`.
///
/// The `request_id` of an imported tool call is always one of these, even if its `call_id` is a
/// UUID: `claude-code:tool_use` or `codex:call`.
///
/// ```
/// use decklog::import::named;
/// let request_id = named("codex:call", "call_pBXH93fl6ZXH2svDOFIlr8GA");
/// assert_eq!(request_id.to_string(), "54453b06-2ffd-5b5d-8d47-845cb381890f");
/// ```
pub fn named(scope: &str, id: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, [scope, ":", id].concat().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_what_its_doc_says() {
        let derived = Uuid::new_v5(&Uuid::NAMESPACE_URL, b"https://decklog.dev/import");
        assert_eq!(NAMESPACE, derived);
    }

    #[test]
    fn a_uuid_is_itself_however_it_is_written() {
        let own = Uuid::from_u128(0x9e2e_0448_885d_554a_ae4d_caca_4721_5e7c);
        for written in [
            own.simple().to_string(),
            own.hyphenated().to_string().to_uppercase(),
            own.braced().to_string(),
            own.urn().to_string(),
        ] {
            assert_eq!(foreign_id("scope", &written), own, "{written}");
        }
        let other = "x".repeat(36);
        assert_eq!(foreign_id("scope", &other), named("scope", &other));
    }
}
