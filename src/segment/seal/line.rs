//! Lines of `seals.jsonl`.

use serde::{Deserialize, Serialize};

use super::{Contents, Digest};
use crate::error::{Error, ErrorKind, Result};

/// Why a segment was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SealReason {
    /// It was full, or its day was over.
    Sealed,
    /// Retention removed lines from it.
    Retention,
    /// Lines were removed to keep the store below its size limit.
    Size,
    /// Compaction rewrote it or merged others into it.
    Compaction,
    /// An erasure removed lines from it.
    Erasure,
    /// A repair rewrote it, or a person confirmed its contents.
    Repair,
}

/// A record of a segment's contents when it was closed: one line of its day's `seals.jsonl`. The
/// seals of a store are numbered from 1 and form a single chain across all days: each holds the
/// hash of the one before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Seal {
    /// The seal's number.
    pub seal: u64,
    /// Time of sealing, in epoch milliseconds.
    pub at: i64,
    /// The segment, relative to the store.
    pub file: String,
    /// Size of the segment, in bytes.
    pub bytes: u64,
    /// Number of lines, of any kind.
    pub lines: u64,
    /// Number of lines that differ from what decklog wrote there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// The smallest sequence number of the good lines, or 0.
    pub first_seq: u64,
    /// The greatest sequence number of the good lines, or 0.
    pub last_seq: u64,
    /// The hash of all its bytes.
    pub sha256: Digest,
    /// The root of the Merkle tree of its lines.
    pub merkle_root: Digest,
    /// Why the segment was sealed.
    pub reason: SealReason,
    /// The numbers of the seals that this one replaces: of the file before it was rewritten, or of
    /// the files that were merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<u64>,
    /// The hash of the seal before this one, or 64 zeros.
    pub prev: Digest,
    /// SHA-256 of every byte of the line before `,"hash"`.
    pub hash: Digest,
}

// The signature that serde requires.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The heads of a store's two chains, of seals and of removals. Keep a copy where someone who can
/// change the store cannot change it. Obtained from [`Store::seal_head`](crate::Store::seal_head),
/// for [`VerifyOptions::head`](crate::health::VerifyOptions::head).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealHead {
    /// The number of the last seal.
    pub seal: u64,
    /// Its hash.
    pub hash: Digest,
    /// Time of sealing, in epoch milliseconds.
    pub at: i64,
    /// The number of the last line of `removals.jsonl`, or 0 if there is none.
    #[serde(default)]
    pub removal: u64,
    /// The SHA-256 of that line, or 64 zeros if there is none.
    #[serde(default)]
    pub removal_hash: Digest,
}

const HASH_START: &str = ",\"hash\":\"";

impl Seal {
    /// The seal after `last`.
    pub(crate) fn new(
        last: Option<&Seal>,
        at: i64,
        file: String,
        contents: &Contents,
        reason: SealReason,
        replaces: Vec<u64>,
    ) -> Seal {
        let mut seal = Seal {
            seal: last.map_or(1, |last| last.seal.saturating_add(1)),
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
            prev: last.map_or(Digest::ZERO, |last| last.hash),
            hash: Digest::ZERO,
        };
        seal.hash = seal.computed_hash();
        seal
    }

    /// Parses a line of `seals.jsonl`, without its LF.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if it is not byte for byte what decklog writes.
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

    /// Checks that the hash matches the other members.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if it does not match.
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

    /// The file contents that the seal describes.
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

    /// All bytes of the line before `,"hash"`.
    fn covered(&self) -> String {
        // Serialisation can fail only for maps with non-string keys, and there are none here.
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
        let contents = Contents {
            bytes: 10,
            lines: 2,
            damaged: 0,
            first_seq: 4,
            last_seq: 9,
            sha256: Digest::of(b"bytes"),
            merkle_root: Digest::of(b"tree"),
        };
        let seal = |last: Option<&Seal>| {
            let (at, file) = (1_766_900_000_000, "2025-12-27/messages.0001.jsonl");
            let reason = SealReason::Sealed;
            Seal::new(last, at, file.to_owned(), &contents, reason, vec![])
        };
        seal(Some(&seal(None)))
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
