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

use std::ops::ControlFlow;

/// A function that is called with each part of the work. `Break` ends the work early.
pub type OnPart<'a, P> = Option<&'a mut dyn FnMut(&P) -> ControlFlow<()>>;

/// Reports a part. Continues if no function is set.
fn report<P>(progress: &mut OnPart<'_, P>, part: &P) -> ControlFlow<()> {
    let call = progress.as_mut();
    call.map_or(ControlFlow::Continue(()), |call| call(part))
}
