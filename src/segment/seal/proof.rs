//! Proofs that a line was in a segment when it was sealed.

use std::io;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::contents::each_piece;
use super::{Digest, Seal, merkle};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Kind;
use crate::segment::scan::{Span, Stretch, scan_stretches};
use crate::storage::StorageFile;

/// The version of proofs that this version of decklog makes and checks.
pub const PROOF_VERSION: u32 = 1;

/// A proof that a line was in a segment when it was sealed; in JSON, one object. It contains
/// everything needed to check it, except the seal that the checker trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Proof {
    /// [`PROOF_VERSION`].
    pub decklog_proof: u32,
    /// The line, without its LF.
    pub line: String,
    /// Index of the line in the segment, from 0.
    pub index: u64,
    /// Number of lines in the segment.
    pub lines: u64,
    /// The hashes that lead from the line's hash to the Merkle root, from the bottom up.
    pub path: Vec<Digest>,
    /// The segment's seal.
    pub seal: Seal,
}

impl Proof {
    /// Makes a proof for the line that contains the byte at `offset`; `None` if there is no such
    /// line, or it is not valid UTF-8. The proof is valid if the segment is unchanged since it was
    /// sealed.
    pub(crate) fn of(
        file: &dyn StorageFile,
        kind: Kind,
        seal: &Seal,
        offset: u64,
    ) -> io::Result<Option<Proof>> {
        let (mut leaves, mut failed) = (Vec::new(), None);
        let mut proven = None;
        let mut look = |line: Stretch<'_>| {
            if let Some(bytes) = line.bytes
                && (line.offset..=line.offset + line.len).contains(&offset)
            {
                let text = std::str::from_utf8(bytes).ok();
                proven = text.map(|text| (leaves.len(), text.to_owned()));
            }
            let mut leaf = merkle::begun_leaf();
            let read = each_piece(file, line, &mut |piece| leaf.update(piece));
            failed = failed.take().or(read.err());
            leaves.push(Digest(leaf.finalize().into()));
        };
        scan_stretches(file, kind, Span::ALL, &mut look)?;
        if let Some(e) = failed {
            return Err(e);
        }
        let lines = leaves.len() as u64;
        Ok(proven.map(|(index, line)| Proof {
            decklog_proof: PROOF_VERSION,
            line,
            index: index as u64,
            lines,
            path: merkle::path(leaves, index),
            seal: seal.clone(),
        }))
    }

    /// Checks that the line was in the sealed segment. With `seal`, which the caller trusts, that
    /// is the segment of `seal`. Without it, the proof's own seal is used, which only shows that
    /// the proof is consistent. Needs no store.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if the proof does not hold, with the reason;
    /// [`NewerFormat`](ErrorKind::NewerFormat) if a later version made it.
    pub fn check(&self, seal: Option<&Seal>) -> Result<()> {
        if self.decklog_proof != PROOF_VERSION {
            let message = format!(
                "the proof is of version {}, and this version of decklog knows {PROOF_VERSION} only: check it with a later one",
                self.decklog_proof
            );
            return Err(Error::new(ErrorKind::NewerFormat, message));
        }
        let fails = |message: String| Err(Error::new(ErrorKind::Damaged, message));
        self.seal.check()?;
        if let Some(seal) = seal {
            seal.check()?;
            if seal != &self.seal {
                return fails(format!(
                    "the proof is for seal {} of {} with hash {}, not for the one that was given: {} of {} with hash {}",
                    self.seal.seal, self.seal.file, self.seal.hash, seal.seal, seal.file, seal.hash
                ));
            }
        }
        if self.lines != self.seal.lines {
            return fails(format!(
                "the proof says that the segment has {} lines, its seal {}",
                self.lines, self.seal.lines
            ));
        }
        let leaf = merkle::leaf(self.line.as_bytes());
        let root = merkle::root_of(leaf, self.index, self.lines, &self.path);
        if root == Some(self.seal.merkle_root) {
            return Ok(());
        }
        fails(format!(
            "the line is not line {} of {} as it was sealed: its hash and the path do not lead to the seal's Merkle root",
            self.index.saturating_add(1),
            self.seal.file
        ))
    }
}
