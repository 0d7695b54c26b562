//! Retention: expiry, compaction and erasure.

mod auto;
mod compact;
mod cutoffs;
mod due;
mod erase;
mod order;
mod retain;

pub use crate::store::{Keep, NextRemoval, RemovalReason, Removed, RetentionSettings};
pub use compact::{CompactOptions, Compacted, CompactedPart};
pub(crate) use cutoffs::Cutoffs;
pub use erase::{EraseOptions, Erased, ErasedPart, Erasure};
pub use retain::{RetainOptions, Retained, RetainedPart};
