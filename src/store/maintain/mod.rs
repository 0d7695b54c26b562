//! Maintenance: seals, rewrites, repair, verification, and the record of what was removed.
//!
//! Lines that are in segments change only through this room. It does not decide what may go; see
//! `retention`.

pub(super) mod other_files;
pub(super) mod removals;
pub(super) mod repair;
pub(super) mod rewrite;
pub(super) mod seal;
pub(super) mod seq_set;
pub(super) mod tombstones;
pub(super) mod upkeep;
pub(super) mod verify;
