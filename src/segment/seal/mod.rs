//! Seals: what a segment held when it was closed, by hashes, and proofs that a line was in it.
//! Nothing here touches a file but to read one.

mod contents;
mod digest;
mod line;
mod merkle;
mod proof;

pub use digest::Digest;
pub use line::{Seal, SealHead, SealReason};
pub use proof::{PROOF_VERSION, Proof};

pub(crate) use contents::{Contents, Sealer, hash_file, hash_lines};
pub(crate) use line::Link;
