//! Seals: hashes of a segment's contents when it was closed, and proofs that a line was in it.
//! Files are only read here.

mod contents;
mod digest;
mod line;
mod merkle;
mod proof;

pub use digest::Digest;
pub use line::{Seal, SealHead, SealReason};
pub use proof::{PROOF_VERSION, Proof};

pub(crate) use contents::{Contents, hash_file, hash_lines, hash_segment, read_through};
