//! A line of `seals.jsonl`.

use serde::{Deserialize, Serialize};

use super::{Contents, Digest};
use crate::error::{Error, ErrorKind, Result};

/// Why a segment was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SealReason {
    /// It was full, or its day was over.
    Sealed,
    /// Retention took lines out of it.
    Retention,
    /// Lines were taken out of it to keep the store below its cap.
    Size,
    /// Compaction rewrote it, or joined others to it.
    Compaction,
    /// An erasure took lines out of it.
    Erasure,
    /// A repair rewrote it, or a person vouched for what it holds.
    Repair,
}

/// What a segment held when it was closed: one line of its day's `seals.jsonl`. The seals of a store
/// are numbered from 1 and form one chain, whichever day they stand in: each has the hash of the one
/// before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Seal {
    /// The seal's number.
    pub seal: u64,
    /// When it was made, in epoch milliseconds.
    pub at: i64,
    /// The segment, relative to the store.
    pub file: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many lines it has, of whatever kind.
    pub lines: u64,
    /// How many of them are not as decklog wrote them there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// The least sequence number of its good lines, or 0.
    pub first_seq: u64,
    /// The greatest sequence number of its good lines, or 0.
    pub last_seq: u64,
    /// Of all its bytes.
    pub sha256: Digest,
    /// The root of the Merkle tree of its lines.
    pub merkle_root: Digest,
    /// Why it was made.
    pub reason: SealReason,
    /// The numbers of the seals in whose place this one comes: of the file before it was rewritten,
    /// or of those that were joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<u64>,
    /// The hash of the seal before this one, or 64 zeros.
    pub prev: Digest,
    /// SHA-256 of every byte of the line before `,"hash"`.
    pub hash: Digest,
}

// As serde asks for it.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The ends of a store's two chains, of seals and of removals, to keep where whoever can change the
/// store cannot: from
/// [`Store::seal_head`](crate::Store::seal_head), for
/// [`VerifyOptions::head`](crate::health::VerifyOptions::head).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealHead {
    /// The number of the last seal.
    pub seal: u64,
    /// Its hash.
    pub hash: Digest,
    /// When it was made, in epoch milliseconds.
    pub at: i64,
    /// The number of the last line of `removals.jsonl`, 0 if there is none.
    #[serde(default)]
    pub removal: u64,
    /// The SHA-256 of that line, 64 zeros if there is none.
    #[serde(default)]
    pub removal_hash: Digest,
}

/// What of a chain the next seal follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// The number of the next seal.
    pub seal: u64,
    /// The hash of the one before.
    pub prev: Digest,
}

const HASH_START: &str = ",\"hash\":\"";

impl Seal {
    pub(crate) fn new(
        link: Link,
        at: i64,
        file: String,
        contents: &Contents,
        reason: SealReason,
        replaces: Vec<u64>,
    ) -> Seal {
        let mut seal = Seal {
            seal: link.seal,
            at,
            file,
            bytes: contents.bytes,
            lines: contents.lines,
            damaged: contents.damaged,
            first_seq: contents.first_seq,
            last_seq: contents.last_seq,
            sha256: contents.sha256,
            merkle_root: contents.merkle_root,
            reason,
            replaces,
            prev: link.prev,
            hash: Digest::ZERO,
        };
        seal.hash = seal.computed_hash();
        seal
    }

    /// Reads a line of `seals.jsonl`, without its LF.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if it is not, byte for byte, as decklog wrote it.
    pub fn parse(line: &str) -> Result<Seal> {
        let damaged = |message: String| Error::new(ErrorKind::Damaged, message);
        let seal: Seal =
            serde_json::from_str(line).map_err(|e| damaged(format!("the line is no seal: {e}")))?;
        if seal.to_line() != line {
            return Err(damaged(format!(
                "seal {} is not as it was written",
                seal.seal
            )));
        }
        seal.check()?;
        Ok(seal)
    }

    /// The line of `seals.jsonl`, without its LF.
    pub fn to_line(&self) -> String {
        format!("{}{HASH_START}{}\"}}", self.covered(), self.hash)
    }

    /// Whether what it says is what it was made with, by its hash.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if not.
    pub fn check(&self) -> Result<()> {
        if self.hash == self.computed_hash() {
            return Ok(());
        }
        let message = format!(
            "seal {} was changed: its hash is not that of what it says",
            self.seal
        );
        Err(Error::new(ErrorKind::Damaged, message))
    }

    /// What the seal says of the file's bytes.
    pub(crate) fn contents(&self) -> Contents {
        Contents {
            bytes: self.bytes,
            lines: self.lines,
            damaged: self.damaged,
            first_seq: self.first_seq,
            last_seq: self.last_seq,
            sha256: self.sha256,
            merkle_root: self.merkle_root,
        }
    }

    fn computed_hash(&self) -> Digest {
        Digest::of(self.covered().as_bytes())
    }

    /// Every byte of the line before `,"hash"`.
    fn covered(&self) -> String {
        // Only maps with keys of other types, of which there are none here, cannot be JSON.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        let end = line.rfind(HASH_START).unwrap_or(0);
        line.truncate(end);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        let link = Link {
            seal: 3,
            prev: Digest::of(b"before"),
        };
        let contents = Contents {
            bytes: 10,
            lines: 2,
            damaged: 0,
            first_seq: 4,
            last_seq: 9,
            sha256: Digest::of(b"bytes"),
            merkle_root: Digest::of(b"tree"),
        };
        let file = "2025-12-27/messages.0001.jsonl".to_owned();
        Seal::new(
            link,
            1_766_900_000_000,
            file,
            &contents,
            SealReason::Sealed,
            vec![],
        )
    }

    #[test]
    fn a_line_reads_back_and_its_hash_is_of_what_stands_before_it() {
        let mut seal = seal();
        let line = seal.to_line();
        let (covered, hash) = line.split_once(",\"hash\":").unwrap();
        assert_eq!(hash, format!("\"{}\"}}", Digest::of(covered.as_bytes())));
        assert_eq!(line, serde_json::to_string(&seal).unwrap());
        assert!(!line.contains("damaged") && !line.contains("replaces"));
        assert_eq!(Seal::parse(&line).unwrap(), seal);

        seal.damaged = 1;
        seal.replaces = vec![1, 2];
        seal.hash = seal.computed_hash();
        let line = seal.to_line();
        assert!(line.contains(",\"damaged\":1,") && line.contains(",\"replaces\":[1,2],"));
        assert_eq!(Seal::parse(&line).unwrap(), seal);
    }

    #[test]
    fn a_line_with_any_other_byte_is_not_a_seal() {
        let line = seal().to_line();
        for place in 0..line.len() {
            for byte in [b' ', b'0', b'1', b'f', b'"', b','] {
                let mut bytes = line.clone().into_bytes();
                if std::mem::replace(&mut bytes[place], byte) == byte {
                    continue;
                }
                let changed = String::from_utf8(bytes).unwrap();
                assert!(Seal::parse(&changed).is_err(), "{changed}");
            }
        }
        assert!(Seal::parse(&line.replace("{\"seal\"", "{ \"seal\"")).is_err());
        assert!(Seal::parse(&line.replace(",\"lines\"", ",\"more\":1,\"lines\"")).is_err());
        assert!(Seal::parse("").is_err());
    }
}
