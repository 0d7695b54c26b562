//! How long records are kept, and what goes when their time is over.

mod compact;
mod cutoffs;
mod due;
mod erase;
mod retain;
mod settings;

pub use compact::{CompactOptions, Compacted, CompactedPart};
pub use erase::{EraseOptions, Erased, ErasedPart, Erasure};
pub use retain::{RetainOptions, Retained, RetainedPart};
pub use settings::{Keep, RetentionSettings};
